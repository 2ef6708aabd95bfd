"""Latencies of groups of ops in a scratchpad over the best bound: contest instances and generated ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Row, TableSpec
from ..running import Case

CONTEST = tuple(f"catalogue:mlsys2026/{number}" for number in (1, 5, 9))
GENERATED = tuple(
    f"gen:tiles?kind={kind}&blocks={blocks}&capacity={capacity}&seed={seed}"
    for kind, rows in (
        ("mlp", ((1, 30, 0), (2, 120, 1), (4, 30, 2), (4, 250, 0), (8, 60, 0), (16, 120, 1), (25, 250, 3))),
        ("attention", ((1, 30, 1), (2, 120, 0), (2, 60, 2), (4, 250, 1), (4, 60, 3), (8, 60, 0))),
        ("branches", ((1, 30, 1), (2, 120, 0), (2, 120, 1), (2, 30, 2), (4, 60, 3), (4, 250, 0), (8, 60, 0))),
    )
    for blocks, thousands, seed in rows
    for capacity in (1000 * thousands,)
)
LIMITS = ((5, 2), (19, 5), (32, 15), (63, 30), (1_000, 60))
"""Ops at most, and seconds of the contest for an instance of that size."""
BASELINES = ("single", "fused-layer", "greedy")


def cases() -> Iterator[Case]:
    """Yield a case for each instance."""
    for spec in (*CONTEST, *GENERATED):
        yield Case(spec, partial(rows_of, spec))


def rows_of(spec: str) -> Iterator[Row]:
    """Yield a row with the baselines, and `auto` at the contest's limit."""
    problem = load_problem(lt.Tiles, spec)
    ops = len(problem.shapes.outputs)
    limit = next(seconds for most, seconds in LIMITS if ops <= most)
    baselines = {method: lt.solve(problem, method, threads=1).objective for method in BASELINES}
    began = time.process_time()
    result = lt.solve(problem, threads=1, time_limit=limit)
    assert result.status is not lt.Status.FAILED, result.detail
    yield {
        "instance": spec,
        "ops": ops,
        "limit": limit,
        **baselines,
        "status": str(result.status),
        "auto": result.objective,
        "bound": result.bound,
        "seconds": round(time.process_time() - began, 2),
    }


def _over(method: str) -> Column:
    return Column(method, lambda row: row[method] / row["bound"], ".3f")


TABLE = TableSpec(
    (
        Column(
            "instance", lambda row: row["instance"].partition(":")[2].replace("&", " ").replace("tiles?", "")
        ),
        Column("ops"),
        *map(_over, BASELINES),
        _over("auto"),
        Column("gap, %", lambda row: 100 * (1 - row["bound"] / row["auto"]), ".2f"),
        Column("status"),
        Column("limit, s", "limit"),
        Column("CPU s", "seconds", ".1f"),
    )
)


def text(rows: list[Row]) -> dict[str, object]:
    """Return the fields of the page."""
    small = [row for row in rows if row["ops"] <= 32]
    return {
        "table": TABLE.of(rows),
        "own": len(GENERATED),
        "proven": sum(row["status"] == "optimal" for row in rows),
        "small": len(small),
        "small_proven": sum(row["status"] == "optimal" for row in small),
        "largest": max(100 * (1 - row["bound"] / row["auto"]) for row in rows),
    }
