"""Bytes that workflows, factorizations and networks move whose data are in a storage, and the best bound.

Tensors are moved whole and start and end in the storage. Each question has the given seconds, one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import lowtide as lt

from ....models.problems.minio import COUNTS
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case

SUBJECTS = {
    "FFT of 8 points": "gen:fft?points=8",
    "3 x 3 matrix product": "gen:matmul?rows=3&columns=3&inner=3",
    "stencil of 8 cells": "gen:stencil?cells=8&steps=6",
    "LU, 5 x 5 tiles": "gen:lu?tiles=5",
    "Cholesky, 6 x 6 tiles": "gen:cholesky?tiles=6",
    "attention, eager": "gen:attention?form=eager&tiles=4",
    "Montage, 25 tasks": "gen:tasks?shape=workflow&n=25&seed=1",
    "Montage, 60 tasks": "gen:tasks?shape=workflow&n=60&cores=4&seed=1",
    "layered workflow": "gen:layered?layers=10&width=5&seed=1",
    "assembly tree": "gen:assembly?grid=12x12",
    "wired network": "gen:randwire?n=20&seed=1",
    "NASNet, 2 cells": "gen:nasnet?cells=2",
    "transformer, training": "gen:transformer?layers=1&train=1",
    "U-Net, training": "gen:unet?depth=2&train=1",
}
"""Graphs by what they are."""

LEVELS = {"least": 0, "middle": 1}
"""Halves of the way from what the largest op needs to the least peak."""


ROOM = 2**60
"""Bytes of memory in which nothing must be moved a second time."""

REFERENCE = {"order": "reference"}


def cases(*, seconds: float = 5) -> Iterator[Case]:
    """Yield a case for each graph; seconds are those of each question."""
    for name, spec in SUBJECTS.items():
        yield Case(name, partial(rows_of, name, spec, seconds))


def rows_of(name: str, spec: str, seconds: float) -> Iterator[Row]:
    """Yield a row for each memory and count."""
    graph = lt.load(spec)
    peak = lt.solve(lt.Peak(graph), time_limit=seconds, threads=1).objective
    assert peak is not None
    least = max(
        sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) + op.all_modes[0].workspace
        for op in graph.ops
    )
    question = f"{spec}{'&' if '?' in spec else '?'}memory={{}}&whole=1&count={{}}&stored=1"
    for level, halves in LEVELS.items():
        memory = least + (peak - least) * halves // 2
        for count in COUNTS:
            problem = lt.MinIO(graph, memory, whole=True, count=count, stored=True)
            rules = {
                order: lt.solve(problem, "furthest", options={"order": order}).objective
                for order in ("reference", "greedy")
            }
            result = lt.solve(problem, time_limit=seconds, threads=1)
            yield {
                "graph": name,
                "ops": len(graph.ops),
                "level": level,
                "count": count,
                "memory": memory,
                "compulsory": lt.solve(
                    replace(problem, memory=ROOM), "furthest", options=REFERENCE
                ).objective,
                **rules,
                "auto": result.objective,
                "bound": result.bound,
                "status": str(result.status),
                "seconds": seconds,
                "instance": question.format(memory, count),
            }


TABLE = TableSpec(
    (
        *(
            Column("graph"),
            Column("ops", "ops", ","),
            Column("memory", "level"),
            Column("bytes", "memory", ","),
        ),
        *(Column("counted", "count"), Column("compulsory", "compulsory", ",")),
        *(Column(f"`furthest`, {name}", name, ",") for name in ("reference", "greedy")),
        *(Column("`auto`", "auto", ","), Column("bound", "bound", ","), Column("status", "status")),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the table, and how often the best is proved and rules are at it."""
    return {
        "table": TABLE.of(table),
        "seconds": f"{table[0]['seconds']:g}",
        "proved": sum(row["status"] == "optimal" for row in table),
        "compulsory": sum(row["auto"] == row["compulsory"] for row in table),
        "greedy": sum(row["greedy"] == row["auto"] for row in table),
    }
