"""The latency of one sample on accelerators that hold a part of the layers: splits and what none is below.

The greedy splits are those of dnn-partitioning's own program, in ms; times and transfers are whole ns here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case

GREEDY = {
    "bert24": 100.2185,
    "gnmt": 268.5005,
    "bert-3-ops": 416.2044,
    "bert-6-ops": 494.1352,
    "bert-12-ops": None,
    "resnet50": None,
    "resnet50-ops": None,
    "inceptionv3": None,
}
"""Latencies in ms that the greedy split of dnn-partitioning's program printed (Tarnawski and others, NeurIPS
2020; github.com/msr-fiddle/dnn-partitioning); None where it was not run."""


def cases() -> Iterator[Case]:
    """Yield a case for each input."""
    for name in GREEDY:
        yield Case(name, partial(rows_of, name))


def rows_of(name: str) -> Iterator[Row]:
    """Yield a row for stages with the least sum of loads."""
    problem = load_problem(lt.Partition, f"catalogue:layers/{name}-latency", objective="latency")
    result = lt.solve(problem, "serial", threads=1)
    yield {
        "instance": problem.source,
        "network": name,
        "method": result.method,
        "ops": len(problem.graph.ops),
        "accelerators": dict(problem.kinds)["acc"],
        "status": str(result.status),
        "latency": result.objective,
        "bound": result.bound,
        "greedy_ms": GREEDY[name],
    }


TABLE = TableSpec(
    (
        Column("input", lambda row: row["network"]),
        Column("ops", kind="d"),
        Column("accelerators", kind="d"),
        Column("greedy ms", lambda row: row["greedy_ms"], ",.3f"),
        Column("serial ms", lambda row: row["latency"] / 1e6, ",.3f"),
        Column("bound ms", lambda row: row["bound"] / 1e6, ",.3f"),
        Column("gap %", lambda row: 100 * (1 - row["bound"] / row["latency"]), ".4f"),
        Column("status"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the lines of inputs."""
    return {"inputs": TABLE.of(table)}
