"""Random questions for the slot model, cuts of them, and how far a row of it is violated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import lowtide as lt
from lowtide.formulations.placement.slots.pieces import Cut, Piece
from lowtide.formulations.placement.slots.whole_milp import SlotMilp
from lowtide.models.problems.placement import Placement
from tests.oracles.brute_placement import COPY, DEVICE
from tests.problems.placement import machine, random_graph, working_set
from tests.solvers.placement.graphs import scaled


def start_of(problem: Placement) -> dict[int, int]:
    assert problem.start is not None
    places = {"gpu": DEVICE, "host": COPY}
    return {
        t: sum(places[tier] for tier in problem.start[x.kind])
        for t, x in enumerate(problem.graph.tensors)
        if x.initial
    }


def case(seed: int, *, latency: int = 0) -> Placement:
    """A random iteration with little room, in whole tensors."""
    graph = scaled(random_graph(seed, 9), 10_000)
    bench = machine(working_set(graph) + (seed % 5) * 40_000, None, latency=latency, ssd=False)
    start = {"input": ("gpu", "host") if seed % 2 else ("host",), "weight": ("gpu", "host")[: 1 + seed % 2]}
    return Placement(graph, bench, whole=True, start=start)


def ragged(cut: Cut, seed: int) -> Cut:
    """Cut some runs and some stalls into several pieces."""
    pieces: list[Piece] = []
    for x, piece in enumerate(cut.pieces):
        if (x + seed) % 3 or (piece.run and (piece.length or 0) < 3):
            pieces.append(piece)
        elif piece.run:
            third = (piece.length or 0) // 3
            pieces += [replace(piece, length=third)] * 2 + [
                replace(piece, length=(piece.length or 0) - 2 * third)
            ]
        else:
            pieces += [replace(piece, length=700_000 * (1 + seed % 3)), replace(piece, length=90_000), piece]
    return Cut(cut.data, tuple(pieces))


def worst_row(built: SlotMilp) -> float:
    """Return by how much a row is violated at the values of the variables, relative to its largest term."""
    from pyomo.environ import Constraint, value
    from pyomo.repn import generate_standard_repn

    worst = 0.0
    for row in built.model.component_data_objects(Constraint, active=True):
        linear = generate_standard_repn(row.body)
        terms = [c * value(v) for c, v in zip(linear.linear_coefs, linear.linear_vars, strict=True)]
        body = sum(terms) + value(linear.constant)
        size = max([1.0, *(abs(term) for term in terms)])
        low = -float("inf") if row.lower is None else value(row.lower)
        high = float("inf") if row.upper is None else value(row.upper)
        worst = max(worst, (low - body) / size, (body - high) / size)
    for variable in every_variable(built.model):
        assert variable.lb is None or variable.value >= variable.lb
        assert variable.ub is None or variable.value <= variable.ub
    return worst


def every_variable(model: Any) -> list[Any]:
    from pyomo.environ import Var

    return list(model.component_data_objects(Var))


def plan_by(problem: Placement, method: str) -> lt.Plan | None:
    """Return a method's plan; None if it refuses the problem or finds none."""
    options = {"runs": "50"} if method == "local-search" else {}
    try:
        return lt.solve(problem, method, threads=1, options=options).plan
    except lt.UsageError:
        return None
