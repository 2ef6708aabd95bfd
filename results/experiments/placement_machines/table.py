"""Plans and bounds with less memory than G10 had.

A stall is the period less the sum of the durations; the gap is that of the periods.
"""

from __future__ import annotations

from typing import Any

from ....instances import load_problem
from ....models.problems.placement import Placement
from ....models.units import GIB
from ...tables.spec import Column, Row, TableSpec
from ..running import by_instance, seconds_of

TABLE = TableSpec(
    (
        Column("workload"),
        Column("device, GiB", lambda row: row["device"] // GIB, "d"),
        Column("host, GiB", lambda row: row["host"] // GIB, "d"),
        Column("ideal, s", lambda row: row["ideal"] / 1e9, ".3f"),
        Column("stall, s", lambda row: row["stall"] / 1e9, ".3f"),
        Column("at least, s", lambda row: row["bound_stall"] / 1e9, ".3f"),
        *(Column("gap of the periods", "gap", ".3%"), Column("bound by", "bound_kind")),
        *(Column("bound after, s", "bound_seconds", ".1f"), Column("seconds", kind=".0f")),
    )
)


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each machine."""
    found = []
    for spec, of in by_instance(records).items():
        record, problem = of["auto"], load_problem(Placement, spec)
        ideal = sum(op.duration_ns for op in problem.graph.ops)
        device, host = (tier.capacity for tier in problem.machine.tiers[:2])
        found.append(
            {
                "workload": problem.graph.name,
                "device": device,
                "host": host,
                "ideal": ideal,
                "period": record["objective"],
                "stall": record["objective"] - ideal,
                "bound": record["bound"],
                "bound_stall": record["bound"] - ideal,
                "gap": record["gap"],
                "bound_kind": record["bound_kind"],
                "bound_seconds": bound_seconds(record),
                "seconds": round(seconds_of(record, "solve"), 1),
            }
        )
    return sorted(found, key=lambda row: (row["workload"], -row["host"], -row["device"]))


def bound_seconds(record: dict[str, Any]) -> float:
    """Return the seconds after which the bound was within a millionth of the last one."""
    last = record["trace"][-1][2]
    reached = (t for t, _, bound, *_ in record["trace"] if (last - bound) * 10**6 <= last)
    return round(float(next(reached)), 1)
