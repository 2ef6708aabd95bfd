"""Stages of a pipeline in CP-SAT: the variables and rows of `stages_milp`, whose page states them."""

from __future__ import annotations

from collections.abc import Callable

from ...models.problems.partition import Partition
from ...models.split import Split
from ..model import ticker
from .stages_milp import CONSTRAINTS, Stages, decode, empty, objective, size, values_of

__all__ = ["CONSTRAINTS", "build", "decode", "size"]

ENGINE = "cpsat"
BYTES_PER_TERM = 600


def build(
    problem: Partition, *, hint: Split | None = None, expired: Callable[[], bool] = lambda: False
) -> Stages:
    """Return the model; a known split is its hint."""
    from ortools.sat.python import cp_model

    at, tick = empty(problem), ticker(expired)
    at.model = model = cp_model.CpModel()
    known = {} if hint is None else values_of(at, hint)
    for name, most, _ in at.names():
        at.variables[name] = model.new_int_var(0, most, "_".join(map(str, name)))
        if hint is not None:
            model.add_hint(at.variables[name], known.get(name, 0))
    for constrain in CONSTRAINTS:
        for terms, least in constrain(at):
            tick()
            variables, weights = [at.variables[x] for x, _ in terms], [w for _, w in terms]
            model.add(cp_model.LinearExpr.weighted_sum(variables, weights) >= least)
    goal = objective(at)
    model.minimize(cp_model.LinearExpr.weighted_sum([at.variables[x] for x, _ in goal], [w for _, w in goal]))
    return at
