"""A formulation's model alone: how large it is, and what its engine proves of it without a known answer.

Methods begin with bounds and heuristics, and give their model a hint, bounds and what is forced; here a model
has only what its page of mathematics says, which compares formulations of the same question.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from ..formulations.minio import joint_cpsat
from ..formulations.model import Formulation
from ..formulations.placement.slots import pieces, whole_milp
from ..formulations.placement.states import state_data
from ..formulations.placement.whole import sequence, windows_cpsat
from ..models.problems.problem import Problem
from .build import arguments
from .context import Context
from .engines.master import Master
from .engines.model import run_model
from .method import load
from .minio.rules import tree_data
from .registry import room_of


class Bare(NamedTuple):
    """What a model alone is and proves; bounds in its own units, None where there is none.

    Attributes
    ----------
    variables, rows
        Of the model as it is passed to the engine.
    first
        The first bound that the engine reports: after presolve and cuts at the root, in CP-SAT of its search.
    bound
        The last one.
    optimal
        Whether the engine has proved an optimum (or that there is no solution).
    build, solve
        Seconds.
    """

    variables: int
    rows: int
    first: int | None
    bound: int | None
    optimal: bool
    build: float
    solve: float


class Model(Master):
    """The question of a model; no answer of it is looked at."""

    name: ClassVar[str] = "model"
    unit: ClassVar[str] = "units"

    def evaluate(self, answer: Any) -> int:
        """Return what no bound meets."""
        return 2**62


def windows(problem: Any) -> tuple[Formulation, Any]:
    """Return the windows of `placement`, for any order of moves."""
    data = state_data(problem)
    return windows_cpsat, windows_cpsat.build(data, data.ideal + sequence.longest_stall(data))


def slots(problem: Any) -> tuple[Formulation, Any]:
    """Return the slot model of whole tensors."""
    data = state_data(problem)
    return whole_milp, whole_milp.build(pieces.coarse(data), most=sequence.longest_stall(data), upper=False)


def trees(problem: Any) -> tuple[Formulation, Any]:
    """Return the joint model of order and files."""
    data = tree_data(problem, "bare")
    return joint_cpsat, joint_cpsat.build(data, [0] * data.n)


def solve_bare(problem: Problem, method: str, *, time_limit: float, solver: str = "highs") -> Bare:
    """Build the model of a method, without anything known, and solve it with one thread.

    Parameters
    ----------
    problem, method
        The question, and whose model states it.
    time_limit
        Seconds of the engine.
    solver
        Of a model in Pyomo, as for option ``solver``; CP-SAT solves its own.
    """
    began = time.perf_counter()
    formulation: Any
    room = room_of(problem)
    if method in room.bare:
        formulation, built = load(room.bare[method])(problem)
    else:
        export = room.exports[method]
        formulation = import_module(f"..formulations.{export.formulation}", __package__)
        built = formulation.build(**arguments(export, problem), **export.given)
    taken = time.perf_counter() - began
    model = Model(_graph_of(problem))
    context = Context(problem=model, time_limit=time_limit, threads=1, options={"solver": solver})
    outcome = run_model(
        context, formulation, built, decode=lambda built, value: None, to_objective=lambda units: units
    )
    bounds = [point.bound for point in context.trace if point.bound is not None]
    variables, rows = _size(formulation, built.model)
    return Bare(
        variables,
        rows,
        bounds[0] if bounds else None,
        None if outcome.infeasible else context.bound,
        outcome.infeasible or outcome.reason is None,
        taken,
        context.elapsed(),
    )


def _graph_of(problem: Any) -> Any:
    """Return what the question of the model is about; allocations have no graph."""
    return getattr(problem, "graph", None)


def _size(formulation: Formulation, model: Any) -> tuple[int, int]:
    if formulation.ENGINE == "cpsat":
        return len(model.proto.variables), len(model.proto.constraints)
    import pyomo.environ as pyo

    return tuple(  # type: ignore[return-value]
        sum(1 for _ in model.component_data_objects(kind, active=True)) for kind in (pyo.Var, pyo.Constraint)
    )
