"""Any other MILP solver that Pyomo finds (SCIP, Gurobi, CPLEX, CBC, GLPK), with honest statuses.

Such a solver runs in the calling thread, through Pyomo's common interface: no trace, no warm start, and
Ctrl-C ends it without its incumbent. A bound is taken only if the solver reports one, or reports
"optimal" and is one that was told to close the gap; of a model of large numbers it counts less one part in
10^5, and an answer once the verifier has found it valid, as with HiGHS (`highs`).
"""

from __future__ import annotations

import contextlib
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...formulations.pyomo_terms import silent_pyomo
from ...models.errors import BackendUnavailable, InstanceError
from ..context import Context, Outcome
from . import highs_scaling
from .highs import Value, integer_bound, objective_of, read_program
from .highs_scheduler import one_turn
from .logs import check_log

SOLVERS = (
    "appsi_highs",
    "cbc",
    "cplex",
    "cplex_direct",
    "glpk",
    "gurobi",
    "gurobi_direct",
    "scip",
    "scip_direct",
    "xpress_direct",
)
"""Pyomo's names of solvers of MILPs that take a model in one call. Persistent ones do not; one for continuous
variables alone would call the relaxation optimal."""


def _settings(threads: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return, by the start of a solver's name, the options that close the gap and fix threads and seed."""
    return {
        "appsi_highs": {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "threads": threads, "random_seed": seed},
        "cbc": {"ratioGap": 0, "allowableGap": 0, "randomCbcSeed": seed, "timeMode": "elapsed"}
        | ({"threads": threads} if threads > 1 else {}),
        "cplex": {
            "mip_tolerances_mipgap": 0,
            "mip_tolerances_absmipgap": 0,
            "threads": threads,
            "randomseed": seed,
        },
        "glpk": {"mipgap": 0, "seed": seed},
        "gurobi": {"MIPGap": 0, "MIPGapAbs": 0, "Threads": threads, "Seed": seed},
        "scip": {"limits/gap": 0, "limits/absgap": 0, "randomization/randomseedshift": seed},
    }


def available_solvers() -> tuple[str, ...]:
    """Return those of `SOLVERS` that Pyomo can run here."""
    return tuple(name for name in SOLVERS if _is_available(name))


UNSAID = ("feasible", "intermediateNonInteger", "other", "unknown")
"""Pyomo's words for a run of which the solver does not say why it ended."""


def check_available(name: str) -> None:
    """Raise `BackendUnavailable` unless a solver is one of `SOLVERS` that Pyomo can run here."""
    if name in SOLVERS and _is_available(name):
        return
    here = ", ".join(("highs", *available_solvers()))
    missing = f"; others once they are installed: {', '.join(SOLVERS)}"
    raise BackendUnavailable(
        f"solver {name!r}: found none that Pyomo can run, expected one that is here: {here}{missing}"
    )


def _is_available(name: str) -> bool:
    from pyomo.common.errors import ApplicationError
    from pyomo.environ import SolverFactory

    try:
        with silent_pyomo():
            solver = SolverFactory(name)
            return solver is not None and bool(solver.available(exception_flag=False))
    except (ApplicationError, ImportError, RuntimeError):
        return False


def _load_values(model: Any, results: Any) -> None:
    from pyomo.environ import Var

    with silent_pyomo():
        model.solutions.load_from(results)
    for variable in model.component_data_objects(Var):
        if variable.value is None:  # it is in no row, and the solver says nothing of it
            variable.set_value(variable.lb or 0, skip_validation=True)


def _lowered(reported: float, rough: bool) -> int | None:
    return integer_bound(highs_scaling.lowered(reported) if rough else reported)


def solve_pyomo(
    model: Any, context: Context, *, decode: Callable[[Value], Any], to_objective: Callable[[int], int]
) -> Outcome:
    """Run the solver that option ``solver`` names on a Pyomo model that minimizes.

    Parameters
    ----------
    model, decode, to_objective
        As for `lowtide.solvers.engines.highs.solve_highs`.
    context
        Limits, seed, threads, log and options.

    Raises
    ------
    BackendUnavailable
        If Pyomo finds no such solver.
    """
    from pyomo.environ import TerminationCondition, value

    name = context.options["solver"]
    check_available(name)
    settings = _settings(context.threads, context.seed % 2**31)
    closes_gap = next((key for key in settings if name.startswith(key)), None)
    options = dict(settings[closes_gap]) if closes_gap else {}
    own = _typed(context.engine_options)
    options |= own
    limit = context.remaining()
    if limit <= 0:
        return Outcome(reason="time", detail=f"{name} was not started: no time was left")
    program = read_program(model, lambda: context.expired)
    if program is None:
        return Outcome(reason="time", detail=f"{name} was not started: no time was left")
    rough = highs_scaling.is_rough(program[1])
    context.careful |= rough
    context.models.append((model.nvariables(), model.nconstraints()))
    # Some solvers take whole seconds only.
    keywords = {} if math.isinf(limit) else {"timelimit": max(1, math.ceil(limit))}
    results = _results(name, model, context, limit, options=options, **keywords)
    if isinstance(results, Outcome):
        return results
    condition = results.solver.termination_condition
    detail = f"{name}: {condition}"
    if condition in (TerminationCondition.infeasible, TerminationCondition.infeasibleOrUnbounded):
        return Outcome(infeasible=condition == TerminationCondition.infeasible, detail=detail)
    optimal = condition == TerminationCondition.optimal
    objective = None
    if len(results.solution):
        _load_values(model, results)
        try:
            if (answer := decode(value)) is not None:
                context.offer(answer)
            objective = value(objective_of(model))
        except (InstanceError, ValueError):  # a stopped solver may leave values that are no solution
            if optimal:
                raise
    reported = _number(results.problem.lower_bound)
    if reported is None and optimal and closes_gap:
        reported = objective
    if (bound := None if reported is None else _lowered(reported, rough)) is not None:
        context.raise_bound(to_objective(bound), "floating", kind=name)
    if context.closed or optimal:
        return Outcome(detail=detail)
    # Not every solver says that it ran out of time, though that was the only limit.
    only_limit = str(condition) in UNSAID and keywords and not own
    out_of_time = condition == TerminationCondition.maxTimeLimit or only_limit or context.expired
    return Outcome(reason="time" if out_of_time else None, detail=detail)


def _results(name: str, model: Any, context: Context, limit: float, **settings: Any) -> Any:
    """Return Pyomo's results of a run, or the outcome of one that was not begun or crashed."""
    from pyomo.common.errors import ApplicationError
    from pyomo.environ import SolverFactory

    turn = one_turn(limit) if "highs" in name else contextlib.nullcontext(True)
    try:
        with turn as ours, _logged(context):
            if not ours:
                return Outcome(reason="time", detail=f"{name} was not started: HiGHS was busy all the time")
            return SolverFactory(name).solve(
                model, load_solutions=False, tee=context.log is not None, **settings
            )
    except subprocess.TimeoutExpired:
        return Outcome(reason="time", detail=f"{name} did not keep its time limit and was killed")
    except ApplicationError as error:
        return Outcome(reason="crash", detail=f"{name}: {' '.join(str(error).split())}")


@contextlib.contextmanager
def _logged(context: Context) -> Iterator[None]:
    """Send what the solver prints to the log, and keep Pyomo's own warnings off the terminal."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(silent_pyomo())
        if context.log is not None:
            check_log(context.log)
            file = stack.enter_context(context.log.open("w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(file))
        yield


def _number(item: Any) -> float | None:
    """Return a finite number, or None for what Pyomo's results hold where there is none."""
    try:
        number = float(item)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _typed(options: Mapping[str, str]) -> dict[str, Any]:
    """Return option texts as integers or numbers where they are."""
    typed: dict[str, Any] = {}
    for name, text in options.items():
        for convert in (int, float, str):
            with contextlib.suppress(ValueError):
                typed[name] = convert(text)
                break
    return typed
