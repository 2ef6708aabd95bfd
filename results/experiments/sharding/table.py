"""FSDP on one of eight devices: its rules of prefetch beside the best orders within the memory that it takes.

Graphs ``gen:sharded`` of stage 3; a processor that computes and one for the links. *FSDP's* rules are the
edges of ``limiter=1``, scheduled as well as they permit; *none* is without them. The memory is what FSDP's
order takes, with and without prefetch: the formula of ``lowtide estimate``, and activations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Row, TableSpec
from ..running import Case

QUESTIONS = ((4, 512), (6, 512), (6, 1024), (6, 2048))
"""Layers of each network, and tokens of a device's micro-batch."""
SECONDS = 30
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each question, without and with prefetch."""
    for layers, tokens in QUESTIONS:
        for prefetch in (0, 1):
            case = partial(rows_of, layers, tokens, prefetch)
            yield Case(f"{layers}-{tokens}-{prefetch}", case)


def rows_of(layers: int, tokens: int, prefetch: int) -> Iterator[Row]:
    """Yield a row with FSDP's rules, and one without."""
    graph = f"gen:sharded?layers={layers}&tokens={tokens}&prefetch={prefetch}"
    memory = lt.solve(lt.Peak(lt.load(graph)), "reference").objective
    for limiter in (1, 0):
        spec = f"{graph}&limiter={limiter}&processors=gpu=1+link=1&memory={memory}"
        began = time.process_time()
        result = lt.solve(load_problem(lt.Makespan, spec), threads=1, time_limit=SECONDS)
        assert result.status is not lt.Status.FAILED, result.detail
        yield {
            "instance": spec,
            "layers": layers,
            "tokens": tokens,
            "prefetch": prefetch,
            "memory": memory,
            "rules": "FSDP's" if limiter else "none",
            "status": str(result.status),
            "objective": result.objective,
            "bound": result.bound,
            "seconds": round(time.process_time() - began, 2),
        }


TABLE = TableSpec(
    (
        Column("layers"),
        Column("tokens", kind=",d"),
        Column("prefetch", lambda row: "yes" if row["prefetch"] else "no"),
        Column("memory, MiB", lambda row: row["memory"] / 2**20, ".2f"),
        Column("rules"),
        Column("makespan, us", lambda row: row["objective"] / 1e3, ",.1f"),
        Column("at least, us", lambda row: row["bound"] / 1e3, ",.1f"),
        Column("status"),
        Column("CPU s", "seconds", ".1f"),
    )
)
