"""Small programs with a fractional point, and the least cost of integers near it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

from lowtide.formulations.linear_program import LinearProgram, ProgramBuilder
from lowtide.formulations.placement.slots.rounded import near
from lowtide.solvers.context import Context
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.placement.slots import rounded as slots_near
from tests.solvers.placement.graphs import weights

DISTANCE = 2


def random_program(seed: int) -> tuple[LinearProgram, list[float]]:
    """Return a program of four small variables, and any fractional point."""
    rng = Random(seed)
    builder = ProgramBuilder(1, 1)
    upper = [rng.randint(0, 9) for _ in range(4)]
    for j, u in enumerate(upper):
        builder.variable(u, 1, cost=1 if not j else rng.choice((0, 0, 1, 3)))
    point = [rng.choice((0.0, float(u), rng.uniform(0, u))) for u in upper]
    for _ in range(3):
        terms = [(j, rng.choice((-6, -4, 3, 6, 9))) for j in sorted(rng.sample(range(4), rng.randint(1, 3)))]
        at = sum(a * point[j] for j, a in terms)
        builder.row(terms, round(at) + rng.randint(-4, 2), 1)
    return builder.done(), point


def enumerated(program: LinearProgram, point: Sequence[float], every: bool) -> int | None:
    """Return the least cost of integers near a point, where what may change does."""
    rounded = [min(u, max(0, round(x))) for x, u in zip(point, program.upper, strict=True)]
    ranges = [
        range(max(0, x - DISTANCE), min(u, x + DISTANCE) + 1) if every or c or 0 < x < u else (x,)
        for x, u, c in zip(rounded, program.upper, program.cost, strict=True)
    ]
    rows = [
        (program.column[a:b], program.value[a:b], low)
        for a, b, low in zip(program.first, program.first[1:], program.low, strict=False)
    ]
    costs = [
        sum(c * x for c, x in zip(program.cost, some, strict=True))
        for some in product(*ranges)
        if all(sum(v * some[j] for j, v in zip(js, vs, strict=True)) >= low for js, vs, low in rows)
    ]
    return min(costs, default=None)


def found_by(formulation: Any, program: LinearProgram, point: Sequence[float], every: bool) -> Any:
    """Return the least cost that a formulation leads to."""
    solve: Any = solve_cpsat if formulation.ENGINE == "cpsat" else solve_highs
    model = near(program, point, distance=DISTANCE, every=every)
    built = formulation.build(model)
    own = Context(problem=slots_near.Rounding(weights(1)), threads=1, time_limit=None)

    def read(value: Any) -> Any:
        values = formulation.decode(built, value)
        assert values is not None
        cost = sum(c * x for c, x in zip(program.cost, values, strict=True))
        return slots_near.Stalled(time=cost, values=values)

    solve(built.model, own, decode=read, to_objective=lambda cost: model.stall + cost)
    return own.incumbent
