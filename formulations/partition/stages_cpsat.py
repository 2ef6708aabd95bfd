"""Stages of a pipeline in CP-SAT: the variables and rows of `stages_milp`, whose page states them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...models.problems.partition import Partition
from ...models.split import Split
from ..model import CPSAT_BYTES, ticker
from .data import PartitionData
from .stages_milp import (
    CONSTRAINTS,
    LoadModel,
    Row,
    crossings,
    decode,
    empty,
    holdings,
    loads,
    memories,
    objective,
    size,
    values_of,
)

__all__ = ["CONSTRAINTS", "build", "build_stage", "decode", "size"]

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

OF_ONE = (crossings, loads, memories, holdings)
"""The constraints of a stage by itself."""


def build(
    problem: Partition, *, hint: Split | None = None, expired: Callable[[], bool] = lambda: False
) -> LoadModel:
    """Return the model; a known split is its hint."""
    at = empty(problem)
    _state(at, CONSTRAINTS, expired)
    if hint is not None:
        known = values_of(at, hint)
        for name, variable in at.variables.items():
            at.model.add_hint(variable, known.get(name, 0))
    minimize(at, objective(at))
    return at


def build_stage(
    problem: Partition, data: PartitionData, k: int, most: int, *, expired: Callable[[], bool]
) -> LoadModel:
    """Return constraints 4 to 7 of one stage of kind k, its load at most so many ns; no objective."""
    at = LoadModel(problem=problem, data=data, given=[k])
    _state(at, OF_ONE, expired)
    at.model.add(at.variables["L", 0, 0] <= most)
    return at


def minimize(at: LoadModel, terms: Iterable[tuple[tuple[str, int, int], int]]) -> None:
    """Set the objective."""
    from ortools.sat.python import cp_model

    goal = list(terms)
    total = cp_model.LinearExpr.weighted_sum([at.variables[x] for x, _ in goal], [w for _, w in goal])
    at.model.minimize(total)


def _state(
    at: LoadModel, constraints: Iterable[Callable[[LoadModel], Iterable[Row]]], expired: Callable[[], bool]
) -> None:
    from ortools.sat.python import cp_model

    tick = ticker(expired)
    at.model = cp_model.CpModel()
    for name, most, _ in at.names():
        at.variables[name] = at.model.new_int_var(0, most, "_".join(map(str, name)))
    for constrain in constraints:
        for terms, least in constrain(at):
            tick()
            variables, weights = [at.variables[x] for x, _ in terms], [w for _, w in terms]
            at.model.add(cp_model.LinearExpr.weighted_sum(variables, weights) >= least)
