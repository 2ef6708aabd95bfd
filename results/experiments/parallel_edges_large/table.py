"""Edges that bound parallel memory on graphs of 1,000 ops: how many, what they cost, how long they take.

The bound is half of the way from the peak of the better one of the reference order and the greedy one to the
largest parallel memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ...tables.spec import RIGHT, Column, Row, TableSpec
from ..parallel_edges.table import RULES, bounded
from ..running import Case

FAMILIES = (
    "gen:layered?layers=100&width=10",
    "gen:sp?n=1000",
    "gen:tasks?n=1000",
)
FRACTIONS = (50,)
"""Bounds in percent of the way from the least known sequential peak to the most that any execution needs."""
SECONDS = 300.0
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each graph."""
    for family in FAMILIES:
        yield Case(f"{family}&seed=1", partial(rows_of, f"{family}&seed=1"))


def rows_of(spec: str) -> Iterator[Row]:
    """Return a row for each bound and rule."""
    graph = lt.load(spec)
    orders = (lt.solve(lt.Peak(graph), method, threads=1).objective for method in ("reference", "greedy"))
    return bounded(spec, graph, min(peak for peak in orders if peak is not None), FRACTIONS, SECONDS)


def _cost(rule: str, group: list[Row]) -> str:
    (row,) = (row for row in group if row["rule"] == rule)
    if row["edges"] is None:
        return f"{row['reason'] or 'fails'}, {row['cpu_seconds']:.1f} s"
    ratio = row["critical_path"] / row["critical_path_without"]
    return f"{row['edges']:,}, x {ratio:.2f}, {row['cpu_seconds']:.1f} s"


TABLE = TableSpec(
    (
        Column("graph", lambda group: group[0]["graph"].removeprefix("gen:")),
        *(Column("ops", kind=","), Column("bound", lambda group: f"{group[0]['percent']} %", RIGHT)),
        *(Column(rule, partial(_cost, rule), RIGHT) for rule in RULES),
    ),
    groups=("graph", "percent"),
)
