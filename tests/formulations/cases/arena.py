"""Cases of `arena`: an order, addresses."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.arena import olla_milp as olla
from lowtide.formulations.arena import rectangles_cpsat as rectangles
from lowtide.formulations.arena.data import arena_data
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_arena import arena_cases, least_height


def arena(formulation: ModuleType, problem: lt.Arena) -> Verdict:
    data = arena_data(problem)
    built = formulation.build(data)
    context = solved(
        formulation,
        problem,
        built,
        lambda value: formulation.decode(built, value),
        lambda units: units * data.unit,
    )
    return verdict_of(context)


def upper_part() -> lt.Graph:
    """Two bytes are written over three, and a third beside them: 4 B, as nothing else fits above the two."""
    g = lt.GraphBuilder()
    g.op("a", writes=[g.tensor("x", 3)])
    g.op("b", reads=["x"], writes=[g.tensor("y", 2, final=True)], workspace=1, inplace={"x": "y"})
    return g.build()


@cache
def arenas() -> list[tuple[Any, Verdict | None]]:
    every = [*arena_cases(range(97))]
    small = [k for k, (g, _) in enumerate(every) if 2 <= len(g.ops) <= 4 and len(g.tensors) >= 3]
    chosen = [*(every[k] for k in (*small[:10], 64, 85, 96)), (upper_part(), 1)]
    return [(lt.Arena(g, a), proved(least_height(g, a))) for g, a in chosen]


CASES = [
    Case("arena rectangles", rectangles, arenas, arena, implied=(5, 8)),
    Case("arena olla", olla, arenas, arena),
]
