"""A formulation with small instances, and the verdict that a model of one leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.engines.highs import solve_highs
from tests.leaving_out import numbers
from tests.problems import offsets as offsets_solving

Verdict = tuple[Any, ...]

Part = int | str

NO_ANSWER = (lt.LowtideError, offsets_solving.WrongSolution, RuntimeError, LookupError, AssertionError)
"""What reading or solving ends with where a solution is none."""


@dataclass(frozen=True)
class Case:
    """A formulation, small instances, and how a model of one of them is judged."""

    name: str
    formulation: ModuleType
    battery: Callable[[], list[tuple[Any, Verdict | None]]]
    """Instances with the verdict of an oracle; None where there is none."""
    verdict: Callable[[ModuleType, Any], Verdict]
    implied: tuple[Part, ...] = ()
    """Constraints that change no verdict; the page says why."""
    chosen: tuple[Part, ...] = ()
    """Constraints that these instances are for, numbers or names of rows; else all."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The constraints that are left out one by one."""
        return self.chosen or tuple(numbers(self.formulation))


def solved(formulation: ModuleType, problem: Any, built: Any, read: Any, to_objective: Any) -> Context:
    """Solve a model as it is; return what is found, with `refused` telling whether there is no solution."""
    context = Context(problem=problem, threads=1, time_limit=None)
    run = solve_cpsat if formulation.ENGINE == "cpsat" else solve_highs
    outcome = run(built.model, context, decode=read, to_objective=to_objective)
    context.refused = "infeasible" if outcome.infeasible else ""
    return context


def verdict_of(context: Context) -> Verdict:
    valid = context.answer is None or not context.problem.judge(context.answer).violations
    return context.incumbent, None if context.refused else context.bound, context.refused, valid


def proved(best: int | None) -> Verdict:
    return (None, None, "infeasible", True) if best is None else (best, best, "", True)
