"""Published planners beside `auto` on whole training steps.

The graphs and memories of ``recompute_transformers``, less those in which nothing fits; times of `auto`, of
segments, and the bound are those of its rows. A planner more is a row in `PEERS`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..recompute_graphs.table import multiples
from ..running import Case, read_rows

BESIDE = ("graph", "spec", "ops", "percent", "memory", "least_time", "bound", "segments")

PEERS = {
    "rockmate": ("blocks", "different_blocks", "programs"),
    "hiremate": ("parts", "levels", "different_parts"),
    "tw-remat": ("min_degree_width", "min_fill_width"),
}
"""By method, the facts of its results that are kept."""


def cases(*, seconds: float = 20) -> Iterator[Case]:
    """Yield a case for each graph and memory; seconds are those of each planner."""
    for row in read_rows("recompute_transformers"):
        if row["status"] != "infeasible":
            yield Case(f"{row['graph']}, {row['percent']} %", partial(row_of, row, seconds))


def row_of(known: Row, seconds: float) -> list[Row]:
    """Return the row of a graph and a memory; times in ns, sizes in bytes, None where nothing was found."""
    problem = lt.Recompute(lt.load(known["spec"]), memory=known["memory"])
    row = {**{key: known[key] for key in BESIDE}, "auto": known["objective"], "limit": round(seconds)}
    for method, facts in PEERS.items():
        began, used = time.perf_counter(), time.process_time()
        result = lt.solve(problem, method, time_limit=seconds, threads=1)
        took, used = time.perf_counter() - began, time.process_time() - used
        row |= {
            method: result.objective,
            f"{method} why": result.reason or result.detail,
            f"{method} seconds": round(took),
            f"{method} cpu_seconds": round(used),
            **{key: result.facts.get(key) for key in facts},
        }
    return [row]


def why_none(row: Row) -> str:
    """Return why planners have no schedule."""
    none = (f"{method}: {row[f'{method} why']}" for method in PEERS if row[method] is None)
    return "; ".join(none)


def least_width(row: Row) -> int:
    """Return the width of the better tree decomposition."""
    return int(min(row["min_degree_width"], row["min_fill_width"]))


TABLE = TableSpec(
    (
        *(Column("graph"), Column("ops", kind="d"), Column("memory, MB", lambda r: r["memory"] / 1e6, ".0f")),
        *(Column("%", "percent", "d"), *multiples(*((method, method) for method in PEERS))),
        *multiples(("auto", "auto"), ("bound", "bound"), ("segments", "segments")),
        *(Column(f"CPU s, {method}", f"{method} cpu_seconds", "d") for method in PEERS),
        *(Column("blocks", kind="d"), Column("different", "different_blocks", "d")),
        *(Column("programs", kind="d"), Column("parts", kind="d"), Column("levels", kind="d")),
        *(
            Column("different parts", "different_parts", "d"),
            Column("width", lambda r: min(r["min_degree_width"], r["min_fill_width"]), "d"),
        ),
        Column("why none", why_none, RIGHT),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the rows, and how often which is faster."""
    return {
        "limit": table[0]["limit"],
        "beside": "; ".join(_beside(table, method) for method in PEERS),
        "table": TABLE.of(table),
    }


def _beside(table: list[Row], method: str) -> str:
    """Return how a planner does beside `auto`."""
    both = [(row[method], row["auto"]) for row in table if row[method] and row["auto"]]
    most = 100 * max(theirs / ours - 1 for theirs, ours in both)
    faster, slower = (sum(sign * a < sign * b for a, b in both) for sign in (1, -1))
    return (
        f"`{method}` has a schedule on {len(both)}, faster than that of `auto` on {faster}, slower on "
        f"{slower}, by {most:.1f} % at most"
    )
