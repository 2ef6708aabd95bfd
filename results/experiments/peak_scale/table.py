"""Hard and large generated graphs: proven, or with which gap, and what is aimed at.

Seconds are end to end: loading, building, solving, verifying; memory is the highest resident of the run's
process. Below the table each aim of `AIMS` stands with what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import by_instance, seconds_of

TABLE = TableSpec(
    (
        Column("instance"),
        *(Column(key, kind=",") for key in ("ops", "reference", "greedy", "peak", "bound")),
        *(Column("gap", kind=".2%"), Column("status"), Column("seconds", kind=".2f")),
        *(Column("greedy seconds", kind=".2f"), Column("megabytes", kind=",")),
    )
)


def proven_within(seconds: float) -> Callable[[Row], bool]:
    """Return the test that a row is proven within so many seconds."""
    return lambda row: row["status"] == "optimal" and row["seconds"] <= seconds


def gap_below(part: float) -> Callable[[Row], bool]:
    """Return the test that a row's gap is known and below that part."""
    return lambda row: row["gap"] is not None and row["gap"] < part


AIMS: tuple[tuple[str, str, int | None, Callable[[Row], bool]], ...] = (
    ("randomly wired, n = 60: proven in 120 s", r"randwire\?n=60&", None, proven_within(120)),
    ("randomly wired, n = 100: proven in 120 s, 6 of 8", r"randwire\?n=100&", 6, proven_within(120)),
    ("in-trees of 1,000 and 5,000 ops: proven in 10 s", r"intree\?", None, proven_within(10)),
    ("series-parallel, 1,000 and 5,000 ops: proven in 10 s", r"gen:sp\?", None, proven_within(10)),
    ("NASNet- and DARTS-like, to 20 cells: proven in 10 s", r"nasnet\?|darts\?", None, proven_within(10)),
    ("layered 500 x 10: gap below 5%", r"layers=500&", None, gap_below(0.05)),
    ("100,000 ops: greedy in 10 s", r"layers=10000&", None, lambda r: r["greedy seconds"] <= 10),
    ("100,000 ops: below 4 GB", r"layers=10000&", None, lambda r: r["megabytes"] < 4000),
)
"""What is aimed at, for which instances, how many of them (None: all), and how a row meets it."""


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return the table's rows, one per instance, in the order of size within each kind."""
    from ....instances import load

    found = []
    for spec, of in by_instance(records).items():
        best = of["auto"]
        found.append(
            {
                "instance": spec,
                "ops": len(load(spec).ops),
                "reference": of["reference"]["objective"],
                "greedy": of["greedy"]["objective"],
                "peak": best["objective"],
                "bound": best["bound"],
                "gap": best["gap"],
                "status": best["status"],
                "seconds": round(seconds_of(best), 2),
                "greedy seconds": round(seconds_of(of["greedy"]), 2),
                "megabytes": max(record["peak_rss"] or 0 for record in of.values()) // 10**6,
            }
        )
    return sorted(found, key=lambda row: (row["instance"].partition("?")[0], row["ops"], row["instance"]))


def aims(table: list[Row]) -> list[str]:
    """Return a line for each aim: what was found, and whether it is met."""
    lines = []
    for words, pattern, least, meets in AIMS:
        chosen = [row for row in table if re.search(pattern, row["instance"])]
        count = sum(map(meets, chosen))
        met = bool(chosen) and count >= (len(chosen) if least is None else least)
        lines.append(f"- {words}: {count} of {len(chosen)}, {'met' if met else 'not met'}")
    return lines


def text(table: list[Row]) -> Fields:
    """Return the rows, and the aims."""
    return {
        "table": TABLE.of(table),
        "aims": "\n".join(aims(table)),
    }
