"""One way through a model: refuse what is too large, build it under the clock, and run its engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...formulations.model import BuildTimeout, Formulation, ModelSize
from ...models.problems.problem import Problem
from ..context import Context, Outcome
from ..method import Value
from .cpsat import solve_cpsat
from .highs import solve_highs
from .memory import refuse_if_too_large
from .pyomo_solver import solve_pyomo


def solve_model(
    context: Context,
    formulation: Formulation,
    build: Callable[[], Any],
    *,
    what: str,
    size: ModelSize | None,
    to_objective: Callable[[int], int],
    decode: Callable[[Any, Value], Any],
    run: Context | None = None,
    factor: int = 1,
    quiet: bool = False,
    settings: Sequence[Mapping[str, str]] = ({},),
) -> Outcome:
    """Build a model and solve it.

    Parameters
    ----------
    context
        Gets the seconds of building; the memory limit and the solver are its own.
    formulation
        Says which engine its models are for.
    build
        Returns the model, or None if there is nothing left to solve; may raise `BuildTimeout`.
    what
        What the model is called in messages.
    size
        Of the model, for the memory that it will need; None if that is never much.
    to_objective
        Turns a value of the model's objective into one of the problem's.
    decode
        Returns the answer of a solution, given the model and a function from variables to values; None if
        it has none.
    run
        Where incumbents and bounds go, and whose limits count; default: `context`.
    factor
        Of the memory: more than 1 where each thread has a copy, or more has been measured.
    quiet
        One of many models: no line of progress.
    settings
        Parameters that suit the model, as text. HiGHS takes the next ones where it ends with an error.
    """
    built = build_model(
        context, formulation, build, what=what, size=size, run=run, factor=factor, quiet=quiet
    )
    if isinstance(built, Outcome):
        return built
    return run_model(
        run or context, formulation, built, to_objective=to_objective, decode=decode, settings=settings
    )


def solve_question(problem: Problem, context: Context, formulation: Any, what: str, **given: Any) -> Outcome:
    """Solve the model that a formulation has of a problem itself, in the unit of its objective.

    Parameters
    ----------
    what
        As for `solve_model`.
    given
        Further arguments of ``build``.
    """
    return solve_model(
        context,
        formulation,
        lambda: formulation.build(problem, **given, expired=lambda: context.expired),
        what=what,
        size=formulation.size(problem),
        to_objective=int,
        decode=formulation.decode,
    )


def build_model(
    context: Context,
    formulation: Formulation,
    build: Callable[[], Any],
    *,
    what: str,
    size: ModelSize | None,
    run: Context | None = None,
    factor: int = 1,
    quiet: bool = False,
) -> Any:
    """Return a model, or the outcome if there is none: too large, not built in time, nothing left to solve.

    Parameters as for `solve_model`.
    """
    if size is not None:
        bytes_per_term = formulation.BYTES_PER_TERM * factor
        refused = refuse_if_too_large(size, bytes_per_term=bytes_per_term, context=run or context, what=what)
        if refused is not None:
            return refused
    late = Outcome(reason="time", detail=f"{what} was not built in time")
    if (run or context).expired:
        return late
    began = time.perf_counter()
    try:
        built = build()
    except BuildTimeout:
        return late
    finally:
        taken = time.perf_counter() - began
        context.known.build_seconds = (context.known.build_seconds or 0.0) + taken
    if built is None:
        return Outcome()
    if not quiet:
        context.progress(f"{what}: built in {taken:.2f} s")
    return built


def run_model(
    context: Context,
    formulation: Formulation,
    built: Any,
    *,
    to_objective: Callable[[int], int],
    decode: Callable[[Any, Value], Any],
    settings: Sequence[Mapping[str, str]] = ({},),
) -> Outcome:
    """Run a model's engine: CP-SAT, HiGHS, or the solver that option ``solver`` names.

    Parameters as for `solve_model`.
    """

    def answer(value: Value) -> Any:
        return decode(built, value)

    if formulation.ENGINE == "cpsat":
        return solve_cpsat(
            built.model, context, decode=answer, to_objective=to_objective, defaults=settings[0]
        )
    if context.options.get("solver", "highs") != "highs":
        return solve_pyomo(built.model, context, decode=answer, to_objective=to_objective)
    for chosen in settings:
        outcome = solve_highs(built.model, context, decode=answer, to_objective=to_objective, settings=chosen)
        if outcome.reason != "crash":
            break
    return outcome
