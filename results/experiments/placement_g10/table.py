"""Verified plans and certified bounds on G10's workloads, beside published systems.

A ratio is the sum of the durations over the period. The published columns are those of the artifact's own
result file (``example_results``, overall performance), ideal time over each system's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ....instances.load import load
from ...tables.spec import RIGHT, Column, Row, TableSpec
from ..placement_machines.table import bound_seconds
from ..running import by_instance, seconds_of

SYSTEMS = ("LRU", "FlashNeuron", "DeepUM", "G10")
PUBLISHED = {
    "bert_base-256": (".371", ".713", ".795", ".997"),
    "vit-1280": (".151", "fails", ".492", ".671"),
    "inceptionv3-1536": (".212", "fails", ".673", ".977"),
    "resnet152-1280": (".240", ".642", ".853", ".984"),
    "senet154-1024": (".182", ".533", ".688", ".934"),
}
"""`SYSTEMS` as published (G10, MICRO 2023, artifact)."""


def _published(system: int, row: Row) -> str:
    return PUBLISHED[row["workload"]][system]


TABLE = TableSpec(
    (
        *(
            Column("workload"),
            Column("ops", kind=","),
            Column("ideal, s", lambda row: row["ideal"] / 1e9, ".2f"),
        ),
        *(Column(name, partial(_published, i), RIGHT) for i, name in enumerate(SYSTEMS)),
        *(
            Column("lowtide", "ratio", ".4f"),
            Column("bound", "bound_ratio", ".4f"),
            Column("gap", kind=".3%"),
        ),
        *(Column("status"), Column("bound after, s", "bound_seconds", ".1f"), Column("seconds", kind=".0f")),
    )
)


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each workload."""
    found = []
    for spec, of in by_instance(records).items():
        record, graph = of["auto"], load(spec.partition("?")[0])
        ideal = sum(op.duration_ns for op in graph.ops)
        found.append(
            {
                "workload": Path(spec.partition("?")[0]).name,
                "ops": len(graph.ops),
                "ideal": ideal,
                "period": record["objective"],
                "ratio": ideal / record["objective"],
                "bound": record["bound"],
                "bound_ratio": ideal / record["bound"],
                "gap": record["gap"],
                "status": record["status"],
                "bound_kind": record["bound_kind"],
                "bound_seconds": bound_seconds(record),
                "seconds": round(seconds_of(record, "solve"), 1),
            }
        )
    return sorted(found, key=lambda row: list(PUBLISHED).index(row["workload"]))
