"""Cases of `streams`: stages of groups."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.streams import rates_cpsat, stages_cpsat
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_streams import fastest_stages
from tests.solvers.streams.devices import rates_question
from tests.solvers.streams.stages import question as stages_question


def groups(formulation: ModuleType, problem: lt.Streams) -> Verdict:
    built = formulation.build(problem)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda ns: ns))


def unread() -> lt.Streams:
    """Two tensors that nobody reads: they do not fit beside each other, nor do their ops."""
    g = lt.GraphBuilder()
    for name in "ab":
        g.op(name, writes=[g.tensor(f"of {name}", 5)], duration=3)
    graph = g.build()
    halves = tuple(replace(op, share=2) for op in graph.ops)
    return lt.Streams(replace(graph, ops=halves), contention="fluid", parts=4, memory=5)


def groups_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (
            p,
            proved(
                fastest_stages(
                    p.graph,
                    p.contention,
                    p.device.parts,
                    sync_ns=p.sync_ns,
                    memory=p.memory,
                    streams=p.streams,
                )
            ),
        )
        for p in (*map(stages_question, (*range(20), 56, 84)), unread())
    ]


def rates_battery() -> list[tuple[Any, Verdict | None]]:
    return [(p, proved(best)) for p, best in map(rates_question, range(14))]


CASES = [
    Case("streams stages", stages_cpsat, groups_battery, groups, implied=(9,)),
    Case("streams rates", rates_cpsat, rates_battery, groups, implied=(1,)),
]
