"""`autotm-static`, `autotm-sync`, `autotm-async`: AutoTM's MILP through Pyomo and HiGHS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....formulations.placement import autotm_milp
from ....formulations.placement.autotm_data import AutotmData, Form, ModeData, autotm_data, granule
from ....models.errors import UsageError
from ....models.problems.placement import Placement
from ....models.units import parse_bytes
from ...context import Context, Outcome
from ...engines.model import build_model, run_model
from .autotm_plan import Path, decode, emit, suggest


def solve_static(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan in which every tensor stays where it is made.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=6,seed=1,node=optane,machine=optane-node,device=20B")
    >>> lt.solve(problem, "autotm-static", threads=1).verification.valid
    True
    """
    return solve_form(problem, context, Form.STATIC)


def solve_sync(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan in which tensors move before and behind ops that use them."""
    return solve_form(problem, context, Form.SYNC)


def solve_async(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan in which tensors move beside other ops as well, each within one of them."""
    return solve_form(problem, context, Form.ASYNC)


def solve_form(problem: Placement, context: Context, form: Form) -> Outcome:
    """Solve one form of the model; the context's bound is that of all plans, the model's is in the detail.

    First a form with fewer points, for a third of the time at most: its solution is one of this form.

    Raises
    ------
    UsageError
        If the model does not cover the problem, or an option is wrong.
    """
    beside = _rate(context, "read-beside"), _rate(context, "write-beside")
    data = autotm_data(problem, form, window=context.options.get("window", 15), beside=beside)
    context.raise_bound(data.ideal, kind="sum of durations")
    known: Solution | None = None
    for step in list(Form)[: list(Form).index(form)]:
        known, _ = _solve(problem, context, autotm_data(problem, step), known, 1 / 3)
        if context.closed or context.expired:
            return Outcome(
                reason=None if context.closed else "time",
                detail=_BOUND.format(data.ideal),
                facts={"form_bound": data.ideal},
            )
    _, outcome = _solve(problem, context, data, known, 1.0)
    return outcome


Solution = tuple[list[Path], list[ModeData]]


def _solve(
    problem: Placement, context: Context, data: AutotmData, known: Solution | None, share: float
) -> tuple[Solution | None, Outcome]:
    """Solve one form for a share of the remaining time, from a known solution; return the best solution."""
    found: list[tuple[int, Solution]] = []
    best = [data.ideal]

    def build() -> autotm_milp.AutotmModel:
        built = autotm_milp.build(data, lambda: context.expired)
        if known is not None:
            suggest(built, *known)
        return built

    def plan(built: autotm_milp.AutotmModel, value: Callable[[Any], float]) -> Any:
        solution = decode(built, value)
        made = emit(problem, data, *solution)
        found.append((problem.evaluate(made), solution))
        if own is not context:
            context.offer(made)
        return made

    def note(units: int) -> int:
        best[0] = max(best[0], units)
        return data.ideal

    made = build_model(
        context,
        autotm_milp,
        build,
        what=f"AutoTM's model of {len(data.items)} tensors and {data.n} ops",
        size=None,
    )
    own = context
    if share < 1:
        limit = min(context.remaining() * share, LONGEST_STEP)
        own = replace(context, time_limit=context.elapsed() + limit, kept_back=0.0, trace=[])
    outcome = made
    if not isinstance(made, Outcome):
        outcome = run_model(own, autotm_milp, made, decode=plan, to_objective=note)
    known_bound = "there is no plan of this form" if outcome.infeasible else _BOUND.format(best[0])
    detail = f"{outcome.detail}, {known_bound}{_rounding(data)}"
    solution = min(found, key=lambda one: one[0])[1] if found else known
    facts = {} if outcome.infeasible else {"form_bound": best[0]}
    return solution, replace(outcome, infeasible=False, detail=detail, facts=facts)


LONGEST_STEP = 60.0
"""Seconds of a form that is only a step to another one."""

_BOUND = "no plan of this form takes less than {} ns"


def _rounding(data: AutotmData) -> str:
    """Say that sizes are rounded up, if they are: what the bound holds for."""
    unit = granule(data)
    exact = all(item.nbytes % unit == 0 for item in data.items)
    return "" if exact else f", sizes rounded up to {unit} bytes"


def _rate(context: Context, name: str) -> int | None:
    """Return an option in bytes per second."""
    text = context.options.get(name)
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except UsageError:
        raise UsageError(f"option {name}: found {text!r}, expected bytes per second such as 2GB") from None
