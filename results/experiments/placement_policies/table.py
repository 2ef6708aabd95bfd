"""Published systems on G10's workloads: as published, and carried out here.

A ratio is the sum of the durations over the period. The columns of `auto` and of the bound are those of
`placement_g10`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ....instances.load import load
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import by_instance, read_rows, seconds_of

PAIRS = (("LRU", "demand-lru"), ("FlashNeuron", "flashneuron"), ("DeepUM", "deepum"), ("G10", "g10"))
"""The systems of `PUBLISHED`, and the methods that follow them."""
OTHERS = (("vDNN", "vdnn"), ("Belady", "belady"), ("AutoSwap", "autoswap"))


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each workload and method."""
    found = []
    for spec, of in by_instance(records).items():
        path = spec.partition("?")[0]
        ideal = sum(op.duration_ns for op in load(path).ops)
        for method, record in of.items():
            period = record["objective"]
            found.append(
                {
                    "workload": Path(path).name,
                    "method": method,
                    "ideal": ideal,
                    "period": period,
                    "ratio": None if period is None else ideal / period,
                    "emergencies": record["facts"].get("emergencies", 0),
                    "evictions": record["facts"].get("evictions", 0),
                    "gives_up": record["facts"].get("gives_up", 0),
                    "seconds": round(seconds_of(record, "solve"), 1),
                }
            )
    return sorted(found, key=lambda row: (list(PUBLISHED).index(row["workload"]), row["method"]))


def cell(method: str, group: list[Row]) -> str:
    """Return the ratio of a method on a workload; in brackets how many emergencies it took, or "fails"."""
    (row,) = (row for row in group if row["method"] == method)
    if row["ratio"] is None:
        return "does not fit"
    if row.get("gives_up"):
        return f"{short(row['ratio'])} (fails)"
    return short(row["ratio"]) + (f" ({row['emergencies']})" if row["emergencies"] else "")


def short(ratio: float) -> str:
    """Return a ratio in three decimals, rounded down so that 1.000 is no stall at all."""
    return f"{int(1000 * ratio) / 1000:.3f}".removeprefix("0")


def carried_out(systems: tuple[tuple[str, str], ...]) -> list[Column]:
    """Return the columns of methods, of a row for each workload."""
    return [Column(name, partial(cell, method), RIGHT) for name, method in systems]


def published(system: int) -> Callable[[list[Row]], str]:
    """Return what finds the published ratio of a system on a workload."""
    return lambda group: PUBLISHED[group[0]["workload"]][system]


def best(key: str, write: Callable[[float], str] = "{:.4f}".format) -> Callable[[list[Row]], str]:
    """Return what writes a ratio of `placement_g10` on a workload."""
    found = {row["workload"]: write(row[key]).removeprefix("0") for row in read_rows("placement_g10")}
    return lambda group: found[group[0]["workload"]]


def text(table: list[Row]) -> Fields:
    """Return the rows by workload."""
    columns = [Column("workload")]
    for i, (name, method) in enumerate(PAIRS):
        columns.append(Column(f"{name}, published", published(i), RIGHT))
        columns.append(Column("here", partial(cell, method), RIGHT))
    columns += carried_out(OTHERS)
    for heading, key in (("lowtide `auto`", "ratio"), ("bound", "bound_ratio")):
        columns.append(Column(heading, best(key), RIGHT))
    return {
        "table": TableSpec(tuple(columns), groups=("workload",)).of(table),
    }
