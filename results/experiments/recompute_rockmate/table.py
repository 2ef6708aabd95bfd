"""Rockmate beside `auto` on whole training steps: what planning block by block costs.

The graphs and memories of ``recompute_transformers``, less those in which nothing fits; times of `auto`, of
segments, and the bound are those of its rows.
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


def cases(*, seconds: float = 20) -> Iterator[Case]:
    """Yield a case for each graph and memory; seconds are those of `rockmate`."""
    for row in read_rows("recompute_transformers"):
        if row["status"] != "infeasible":
            yield Case(f"{row['graph']}, {row['percent']} %", partial(row_of, row, seconds))


def row_of(known: Row, seconds: float) -> list[Row]:
    """Return the row of a graph and a memory; times in ns, sizes in bytes, None where nothing was found."""
    problem = lt.Recompute(lt.load(known["spec"]), memory=known["memory"])
    began, used = time.perf_counter(), time.process_time()
    result = lt.solve(problem, "rockmate", time_limit=seconds, threads=1)
    took, used = time.perf_counter() - began, time.process_time() - used
    return [
        {
            **{key: known[key] for key in BESIDE},
            "auto": known["objective"],
            "status": str(result.status),
            "objective": result.objective,
            "reason": result.reason or result.detail,
            **{key: result.facts.get(key) for key in ("blocks", "different_blocks", "programs")},
            "seconds": round(took),
            "cpu_seconds": round(used),
            "limit": round(seconds),
        }
    ]


TABLE = TableSpec(
    (
        *(Column("graph"), Column("ops", kind="d"), Column("memory, MB", lambda r: r["memory"] / 1e6, ".0f")),
        *(Column("%", "percent", "d"), *multiples(("rockmate", "objective"))),
        *multiples(("auto", "auto"), ("bound", "bound"), ("segments", "segments")),
        *(Column("blocks", kind="d"), Column("different", "different_blocks", "d")),
        *(Column("programs", kind="d"), Column("s", "seconds", "d"), Column("CPU s", "cpu_seconds", "d")),
        Column("why none", lambda row: "" if row["objective"] else row["reason"], RIGHT),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the rows, and how often which is faster."""
    both = [row for row in table if row["objective"] and row["auto"]]
    return {
        "limit": table[0]["limit"],
        "found": sum(row["objective"] is not None for row in table),
        "faster": sum(row["objective"] < row["auto"] for row in both),
        "slower": sum(row["objective"] > row["auto"] for row in both),
        "most": f"{100 * max(row['objective'] / row['auto'] - 1 for row in both):.1f}",
        "table": TABLE.of(table),
    }
