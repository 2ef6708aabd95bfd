"""The model of a method in one's hands: to add rows to, to solve elsewhere, to read solutions of.

Rows that a user adds make another question of it: what is then proved holds *among the solutions that the
rows leave*. So nothing that a method knows beforehand goes into such a model: no incumbent (it may violate
the rows), no bound of an incumbent, no order that is forced below one. What is left out beyond that without
loss, by the page of mathematics of a formulation, says `Built.scope`.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from typing import Any, NoReturn

from ..models.checks import shown
from ..models.errors import InstanceError, UsageError
from ..models.problems.problem import Problem
from ..models.result import Result, Status
from ..models.texts import nearest
from .context import Context, Outcome
from .method import PYOMO_SOLVER, Export, load
from .registry import check_freedoms, find_method, room_of, unserved


class Variables(dict[str, Any]):
    """The variables of a model by name; the error for a wrong name says the near ones."""

    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(f"variables: found {name!r}, {self.hint(name)}")

    def hint(self, name: str) -> str:
        """Return what to take instead of a wrong name."""
        return nearest(name, self) if len(self) < 1000 else f"expected a name such as {next(iter(self))!r}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Built:
    """A model that states a problem, with what its variables mean.

    Attributes
    ----------
    problem, method
        What is stated, and the method whose model it is.
    engine
        "cpsat": `model` is an ``ortools.sat.python.cp_model.CpModel``; "milp": a
        ``pyomo.environ.ConcreteModel``.
    model
        It minimizes. Rows may be added to it.
    parts
        The object of the formulation (`lowtide.formulations`), with its variables by what they mean.
    unit
        Bytes or ns of one unit of the model's objective; negative where the problem is maximized.
    scope
        What the model leaves out or takes in beyond the problem; empty if nothing: then a bound on the
        model's objective is one on the problem's.
    """

    problem: Problem
    method: str
    engine: str
    model: Any
    parts: Any
    unit: int
    scope: str
    stated: Mapping[str, Any] = field(repr=False)
    export: Export = field(repr=False)

    def __repr__(self) -> str:
        said = f", {self.scope}" if self.scope else ""
        return (
            f"Built({self.problem.name} of {self.problem.instance.name!r} by {self.method}: "
            f"{len(self.variables)} variables{said})"
        )

    @cached_property
    def variables(self) -> Variables:
        """Every variable by its name; those of a MILP as its exported files call them in brackets."""
        if self.engine == "cpsat":
            rows = enumerate(self.model.proto.variables)
            return Variables(
                (row.name or f"constant {row.domain[0]}", self.model.get_int_var_from_proto_index(k))
                for k, row in rows
            )
        from pyomo.environ import Var

        return Variables((var.name, var) for var in self.model.component_data_objects(Var))

    @property
    def bound(self) -> int | None:
        """What the formulation proves without a solver, in bytes or ns; None if it has no such bound."""
        bound = getattr(self.formulation, "bound", None)
        if bound is None or self.scope or "data" not in self.stated:
            return None
        return self.objective(bound(self.stated["data"]))

    @property
    def formulation(self) -> Any:
        """The module with the page of mathematics."""
        return import_module(f"...formulations.{self.export.formulation}", __name__)

    def objective(self, value: int) -> int:
        """Return what a value of the model's objective is in the unit of the problem."""
        return value * self.unit

    def decode(self, values: Mapping[str, float] | Callable[[Any], Any]) -> Any:
        """Return the answer that a solution stands for, as `lowtide.solve` takes it for a hint.

        Parameters
        ----------
        values
            The value of each variable by name, or a function from variables to values. Names that are missing
            stand for 0.

        Raises
        ------
        UsageError
            If a name is none of the model's.
        InstanceError
            If the solution is none of the model's.
        """
        value = self._values(values) if isinstance(values, Mapping) else values
        try:
            answer = self.answer(self.parts, value)
        except (ArithmeticError, AssertionError, IndexError, KeyError, StopIteration, ValueError) as error:
            raise InstanceError(f"solution: found values that stand for no answer ({error})") from None
        if answer is None:
            about = f", which is about {self.scope}" if self.scope else ""
            raise InstanceError(
                f"solution: found values that stand for no answer, expected a solution of the model{about}"
            )
        return self.problem.read(answer)

    def answer(self, parts: Any, value: Callable[[Any], Any]) -> Any:
        """Return what a method would offer; None if a solution within tolerances is none."""
        if self.export.decode:
            return load(self.export.decode)(self.problem, self.stated, parts, value)
        decode = getattr(self.formulation, "decode", None)
        return None if decode is None else decode(parts, value)

    def result(self, values: Mapping[str, float] | Callable[[Any], Any]) -> Result:
        """Return the verified result of a solution; nothing is proved of it."""
        return result_of(self.problem, self.decode(values), self.method)

    def read(self, path: str | os.PathLike[str]) -> Result:
        """Return the verified result of another solver's file (`lowtide.solvers.solution_file`).

        Raises
        ------
        InstanceError
            If the file cannot be read, names no variable of the model, or holds no solution of it.
        """
        from .solution_file import read_solution

        return self.result(read_solution(path, self.labels))

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Names of variables by what exported files call them, in the order of their columns."""
        if self.engine == "cpsat":
            return {name: name for name in self.variables}
        from .solution_file import mps_labels

        return mps_labels(self.model)

    def _values(self, values: Mapping[str, float]) -> Callable[[Any], Any]:
        known = self.variables
        for name in values:
            if name not in known:
                raise UsageError(f"solution: found value of {name!r}, {known.hint(name)}")
        if self.engine == "cpsat":
            by_index = {known[name].index: round(number) for name, number in values.items()}

            def integer(var: Any) -> int:
                if isinstance(var, int):
                    return var
                negated = var.index < 0
                value = by_index.get(~var.index if negated else var.index, 0)
                return 1 - value if negated else value

            return integer
        by_id = {id(known[name]): float(number) for name, number in values.items()}
        return lambda var: by_id.get(id(var), var.value if var.fixed else 0.0)


def result_of(problem: Problem, answer: Any, method: str) -> Result:
    """Return the verified result of an answer that another solver has; nothing is proved of it."""
    began = time.perf_counter()
    judgement = problem.judge(answer)
    wrong = judgement.violations
    return Result(
        problem=problem.name,
        method=f"{method} (solved elsewhere)",
        instance=problem.instance.name,
        unit=problem.unit,
        status=Status.FAILED if wrong else Status.FEASIBLE,
        objective=judgement.objective,
        plan=judgement.plan,
        allocation=judgement.allocation,
        edges=judgement.edges,
        detail=f"the plan does not verify: {wrong[0].message}" if wrong else "",
        about=() if wrong else tuple(problem.facts(judgement)),
        seconds={"verify": time.perf_counter() - began},
        verification=judgement.verification,
        graph=getattr(problem, "graph", None),
        buffers=getattr(problem, "buffers", None),
    )


def export_of(problem: Problem, method: str, part: int | None = None) -> Export:
    """Return how the model of a method is stated.

    Raises
    ------
    UsageError
        If the problem or the method has no model, the problem no parts, or something that the model lacks.
    """
    room = room_of(problem)
    if method not in room.exports:
        known = ", ".join(room.exports) or f"none of {problem.name} does"
        raise UsageError(f"found method {method!r}, expected one that builds a model: {known}")
    if part is not None and not room.parts:
        raise UsageError(f"export: found part {part} of problem {problem.name}, expected none")
    check_freedoms(problem, find_method(problem.name, method))
    if problem.demands:
        raise UsageError(
            f"model of {method}: found a problem with {problem.demands[0]}, expected one without"
        )
    if words := unserved(problem, method):
        raise UsageError(f"model of {method}: {words}")
    return room.exports[method]


def build(
    problem: Problem,
    method: str,
    *,
    part: int | None = None,
    rows: bool = True,
    options: Mapping[str, Any] | None = None,
    seconds: float = math.inf,
) -> Built:
    """Return the model that a method states, with the names and the meaning of its variables.

    Parameters
    ----------
    problem
        What the model states.
    method
        One that builds a model, such as "cpsat" or "milp"; the message for another one lists all.
    part
        Of `offsets`: which of several independent parts, as for ``lowtide export``.
    rows
        Whether rows may be added. If not, the model may leave out what is known to be no better than the
        best.
    options
        Those of the method on which its model depends, such as the ``window`` of ``autotm-async``.
    seconds
        For building.

    Returns
    -------
    Built
        Its ``model`` may be changed, written and solved by any means; ``decode`` reads solutions.

    Raises
    ------
    UsageError
        If the problem or the method has no model, the model does not depend on an option, or there is no such
        part.
    BuildTimeout
        If the time for building was up.

    Examples
    --------
    >>> import lowtide as lt
    >>> built = lt.build(lt.Peak(lt.load("catalogue:diamond")), "cpsat")
    >>> built.engine, sorted(built.variables)[:2], built.bound
    ('cpsat', ['peak', 'y[1][2]'], 7)
    >>> from ortools.sat.python import cp_model
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(built.model).name, built.objective(round(solver.objective_value))
    ('OPTIMAL', 8)
    >>> built.result(solver.value).objective
    8
    """
    export, ends = export_of(problem, method, part), time.perf_counter() + seconds
    own, rest = find_method(problem.name, method).typed(options or {})
    if without := {*(options or {}), *rest} - {*export.options}:
        raise UsageError(f"model of {method}: found option {min(without)}, which it does not depend on")
    given = {parameter: own[name] for name, parameter in export.options.items() if name in own}

    def expired() -> bool:
        return time.perf_counter() > ends

    stated = arguments(export, problem, rows=rows, part=part, seconds=seconds, expired=expired, **given)
    formulation = import_module(f"...formulations.{export.formulation}", __name__)
    timed = {"expired": expired} if "expired" in inspect.signature(formulation.build).parameters else {}
    parts = formulation.build(**stated, **export.given, **timed)
    unit = 1
    if export.unit:
        unit = getattr(stated.get("data"), export.unit, getattr(parts, export.unit, 1))
    return Built(
        problem=problem,
        method=method,
        engine=export.engine,
        model=parts.model,
        parts=parts,
        unit=-unit if problem.maximize else unit,
        scope=export.scope,
        stated=stated,
        export=export,
    )


def arguments(export: Export, problem: Problem, *, rows: bool = False, **given: Any) -> Mapping[str, Any]:
    """Return what ``build`` of a formulation takes: of `given` what its data depend on."""
    if not export.data:
        return {"problem": problem}
    data = load(export.for_rows if rows and export.for_rows else export.data)
    names = inspect.signature(data).parameters
    found = data(problem, **{name: item for name, item in given.items() if name in names})
    return found if isinstance(found, dict) else {"data": found}


def _rows(built: Built) -> int:
    """Return how many rows a model has."""
    found = len(built.model.proto.constraints) if built.engine == "cpsat" else built.model.nconstraints()
    return int(found)


def _objective(built: Built) -> str:
    """Return what a model minimizes."""
    if built.engine == "cpsat":
        return str(built.model.proto.objective)
    from .engines.highs import objective_of

    return str(objective_of(built.model))


def solve_constrained(
    method: str, constrain: Callable[[Built], object], problem: Problem, context: Context
) -> Outcome:
    """Solve the model of a method with the rows that a user adds; bounds hold among what these leave.

    The bound is kept back until the end: it is none on the problem where the model states another question
    (`Built.scope`), nor where the rows bind variables that the answer does not show, so that a verified
    answer is better than the bound.
    """
    from .engines.model import solve_model

    export = room_of(problem).exports[method]
    options = {name: str(value) for name, value in context.options.items() if name in export.options}
    built: Built | None = None
    rows = unanswered = 0

    def state() -> Any:
        nonlocal built, rows
        built = build(problem, method, options=options, seconds=context.remaining())
        before, objective = _rows(built), _objective(built)
        constrain(built)
        if _objective(built) != objective:
            raise UsageError("solve, constrain: found another objective, expected rows only")
        rows = _rows(built) - before
        return built.parts

    def decode(parts: Any, value: Callable[[Any], Any]) -> Any:
        nonlocal unanswered
        assert built is not None
        answer = built.answer(parts, value)
        unanswered += answer is None
        return answer

    def to_objective(value: int) -> int:
        assert built is not None
        return built.objective(value)

    run = context.inner(problem, context.remaining(), "")
    outcome = solve_model(
        context,
        import_module(f"...formulations.{export.formulation}", __name__),
        state,
        what=f"the model of {method} with added rows",
        size=None,
        decode=decode,
        to_objective=to_objective,
        run=run,
    )
    if run.answer is not None:
        context.offer(run.answer)
    detail = f"under the rows that were added ({rows} row{'s' * (rows != 1)})"
    detail += f", among {export.scope}" if export.scope else ""
    if unanswered and run.answer is None:
        detail += "; no solution that was found stands for an answer"
    if run.bound is not None and not export.scope:
        verified = None if run.answer is None else problem.judge(run.answer).objective
        if verified is not None and _beyond(problem, run.bound, verified):
            detail += (
                f"; they bind variables that the answer does not show: none reaches {run.bound} in the model"
            )
        else:
            context.raise_bound(run.bound, run.proof or "floating", kind=run.bound_kind)
    infeasible = outcome.infeasible and not export.scope
    horizon = getattr(None if built is None else built.parts, "horizon", None)
    if infeasible and horizon is not None:
        infeasible = False
        detail += f"; nothing ends within {to_objective(horizon)} ns, where the model ends"
    return Outcome(
        reason=outcome.reason,
        infeasible=infeasible,
        detail=f"{detail}; {outcome.detail}" if outcome.detail else detail,
    )


def _beyond(problem: Problem, bound: int, objective: int) -> bool:
    return bound < objective if problem.maximize else bound > objective


def constrained(
    problem: Problem, method: str, constrain: object, given: Mapping[str, Any]
) -> Callable[[Problem, Context], Outcome]:
    """Return what `solve` runs instead of a method, where rows are added to its model.

    Raises
    ------
    UsageError
        If there is no such model, `constrain` cannot be called, or what is `given` besides has no use.
    """
    known = {f"option {name}" for name in (*export_of(problem, method).options, PYOMO_SOLVER.name)}
    given = {name: value for name, value in given.items() if name not in known}
    if not callable(constrain):
        raise UsageError(f"solve, constrain: found {shown(constrain)}, expected a function of a Built model")
    if given:
        raise UsageError(
            f"solve, constrain: found {min(given)}, which a model with added rows has no use for"
        )
    return partial(solve_constrained, method, constrain)
