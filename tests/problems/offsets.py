"""Helpers of the tests of offset formulations: solve the models of a set as they are, part by part.

Imported as ``from tests.problems.offsets import ...``.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

from lowtide.formulations.offsets import (
    orders_milp as offsets_milp,
)
from lowtide.formulations.offsets import (
    rectangles_cpsat as offsets_cpsat,
)
from lowtide.formulations.offsets import (
    sections_cpsat as offsets_cpsat_sections,
)
from lowtide.formulations.offsets.data import OffsetsData, offsets_data
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.verifier.allocation import verify_allocation
from tests.oracles.brute_offsets import brute_offsets, random_set

FORMULATIONS = {
    "cpsat": offsets_cpsat,
    "cpsat-sections": offsets_cpsat_sections,
    "milp": offsets_milp,
}
"""The formulation of each exact method."""

Found = tuple[int, int, tuple[int, ...]]
"""Objective, bound, offsets."""


class WrongSolution(Exception):
    """A model's solution is no allocation, or its height is not the objective."""


def solve_part(formulation: ModuleType, data: OffsetsData, **options: Any) -> Found | None:
    """Build and solve the model of one part to the end; None if it is infeasible."""
    built = formulation.build(data, **options)
    run = _solve_milp if formulation.ENGINE == "milp" else _solve_cpsat
    return run(built.model, lambda value: formulation.decode(built, value))


def least_height(formulation: ModuleType, buffers: Buffers, **options: Any) -> int | None:
    """Return the sum of the pools' least heights by the models of the parts; None if one is infeasible.

    Raises
    ------
    WrongSolution
        If the judge is of another opinion.
    """
    offsets = {b.id: b.offset or 0 for b in buffers.buffers if not b.size}
    for b in buffers.buffers:
        capacity = buffers.pools[b.pool]
        if not b.size and (
            offsets[b.id] % b.alignment or (capacity is not None and offsets[b.id] > capacity)
        ):
            return None
    for data in offsets_data(buffers):
        found = solve_part(formulation, data, **options)
        if found is None:
            return None
        objective, bound, units = found
        if options.get("minimize", True) and objective != max(data.height(np.array(units)), bound):
            raise WrongSolution(f"height {data.height(np.array(units))}, objective {objective}")
        for number, offset in zip(data.numbers.tolist(), units, strict=True):
            offsets[buffers.buffers[number].id] = offset * data.unit
    verdict = verify_allocation(buffers, offsets)
    if not verdict.valid:
        raise WrongSolution(verdict.violations[0].message)
    return sum(verdict.heights.values())


def alone(buffers: Buffers, b: Buffer) -> Buffers:
    """Return the set of one buffer in its pool."""
    return Buffers(buffers=(b,), pools={b.pool: buffers.pools[b.pool]})


def battery(count: int = 60, **options: Any) -> list[tuple[Buffers, int | None]]:
    """Return small random sets with every feature, each with its least height."""
    sets = [random_set(Random(seed), **options) for seed in range(count)]
    return [(buffers, brute_offsets(buffers)) for buffers in sets]


def _solve_cpsat(model: Any, decode: Callable[[Any], tuple[int, ...]]) -> Found | None:
    from ortools.sat.python import cp_model

    assert model.validate() == ""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends the process from then on
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    return round(solver.objective_value), round(solver.best_objective_bound), decode(solver.value)


def _solve_milp(model: Any, decode: Callable[[Any], tuple[int, ...]]) -> Found | None:
    import highspy
    import pyomo.environ as pyo

    highspy.Highs().resetGlobalScheduler(True)  # of as many threads as a test before had
    solver = pyo.SolverFactory("highs")
    results = solver.solve(
        model,
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        options={"mip_rel_gap": 0.0, "threads": 1},
    )
    if results.solver.termination_condition != pyo.TerminationCondition.optimal:
        assert results.solver.termination_condition == pyo.TerminationCondition.infeasible
        return None
    model.solutions.load_from(results)
    objective = round(pyo.value(model.objective))
    return objective, objective, decode(pyo.value)
