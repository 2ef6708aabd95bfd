"""`autotm-static`, `autotm-sync`, `autotm-async`: AutoTM's model by prices, then a MILP of what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....formulations.placement.autotm import walks_milp
from ....formulations.placement.autotm.data import Form, autotm_data, granule
from ....formulations.placement.autotm.walks_milp import Steps
from ....models.errors import UsageError
from ....models.problems.placement import Placement
from ....models.units import parse_bytes
from ...context import Context, Outcome
from ...engines.model import solve_model
from .addresses import solve_with_addresses
from .plan import emit
from .prices import Dual
from .tables import too_large

MOST_STEPS = 300_000
"""Of a MILP that is built: each takes 2 KB and 30 us."""


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
    """Solve one form of the model; the context's bound is that of all plans, the form's is in the facts.

    Raises
    ------
    UsageError
        If an option is wrong.
    """
    read, write = (rate(name, context.options.get(name)) for name in ("read-beside", "write-beside"))
    data = autotm_data(problem, form, window=context.options.get("window", 15), beside=(read, write))
    context.raise_bound(data.ideal, kind="sum of durations")
    if words := too_large(data):
        return Outcome(refused=f"AutoTM: {words}")
    rule = context.options["addresses"]
    if rule == "none":
        return search(problem, context, Dual(data))
    return solve_with_addresses(problem, context, Dual(data), rule, search)


def search(problem: Placement, context: Context, dual: Dual) -> Outcome:
    """Search the plans of a form within the rooms of its rows.

    First by prices (`prices`), until a round brings little; then as a MILP of the steps that these do
    not exclude, from the best plan. It ends early where that is within the gap that option `gap` allows.
    """
    bound = [dual.arrays.data.ideal]
    _by_prices(problem, context, dual, bound)
    done = context.closed or _near(context, bound)
    if done or context.expired:
        return _outcome(context, Outcome(reason=None if done else "time"), bound[0])
    return _by_milp(problem, context, dual, bound)


def _near(context: Context, bound: list[int]) -> bool:
    """Return whether the best plan is as near to the form's bound as option `gap` asks for."""
    best = context.incumbent
    return best is not None and (best - bound[0]) * 100 <= context.options["gap"] * bound[0]


def _by_prices(problem: Placement, context: Context, dual: Dual, bound: list[int]) -> None:
    """Raise the bound of the form and offer plans, until neither gains much."""

    def look(search: Callable[[], None]) -> None:
        before = dual.cheapest
        if not context.expired:
            search()
        if dual.cheapest < before:
            solution = dual.solution()
            assert solution is not None
            context.offer(emit(problem, dual.arrays.data, *solution))

    gap = float("inf")
    for number in range(context.options["rounds"]):
        master = dual.converge(context)
        bound[0] = max(bound[0], dual.bound)
        look(lambda: dual.plan(context))
        look(lambda: dual.choose(master, context))  # noqa: B023
        context.progress(f"round {number + 1}: no plan of this form takes less than {bound[0]} ns")
        left = dual.cheapest / bound[0] - 1
        if context.expired or context.closed or left <= 0 or _near(context, bound):
            return
        if number and left > gap * 0.98:
            return
        gap = left
        dual.adopt()


def _by_milp(problem: Placement, context: Context, dual: Dual, bound: list[int]) -> Outcome:
    """Solve the MILP of the steps that are left.

    Where sizes are rounded, first down, which gives a bound, then up, if the best plan is still longer: what
    is found then is a plan. Without a plan only up. Where sizes are exact, rooms are rounded down, which is
    exact too.
    """
    data = dual.arrays.data
    steps = dual.steps(context.incumbent)
    count = sum(len(some) for walk in steps for some in walk)
    if count > MOST_STEPS:
        return _outcome(context, Outcome(detail=f"a MILP of {count} steps is not built"), bound[0])
    units = {granule(data, row) for row in data.rows}
    rough = any(size % unit for unit in units for size in data.sizes)
    outcome = Outcome(reason="time" if context.expired else None)
    for fits in (False, True) if rough and context.incumbent is not None else (True,):
        if not (context.expired or context.closed or _near(context, bound)):
            outcome = _milp(problem, context, dual, bound, steps, fits, exact=not rough)
    if outcome.infeasible and rough:
        outcome = replace(outcome, infeasible=False, detail=f"{outcome.detail}, sizes rounded")
    return _outcome(context, outcome, bound[0])


def _milp(
    problem: Placement,
    context: Context,
    dual: Dual,
    bound: list[int],
    steps: Steps,
    fits: bool,
    *,
    exact: bool,
) -> Outcome:
    """Solve the MILP of some steps, with sizes rounded up (`fits`) or down unless they are exact."""
    data, known = dual.arrays.data, dual.solution()

    def build() -> walks_milp.AutotmModel:
        built = walks_milp.build(data, steps, lambda: context.expired, fits=fits)
        if known is not None:
            walks_milp.suggest(built, *known)
        return built

    def plan(built: walks_milp.AutotmModel, value: Callable[[Any], float]) -> Any:
        found = emit(problem, data, *walks_milp.decode(built, value))
        return None if not (exact or fits) and problem.judge(found).violations else found

    def note(units: int) -> int:
        # Plans with other steps take longer than the best one that is known.
        if exact or not fits:
            bound[0] = max(bound[0], units if context.incumbent is None else min(units, context.incumbent))
        return data.ideal

    return solve_model(
        context,
        walks_milp,
        build,
        what=f"AutoTM's model of {len(data.items)} tensors and {data.n} ops",
        size=None,
        to_objective=note,
        decode=plan,
        settings=({"mip_rel_gap": str(context.options["gap"] / 100)} if context.options["gap"] else {},),
    )


def _outcome(context: Context, outcome: Outcome, bound: int) -> Outcome:
    """Say in an outcome what is known of the form."""
    infeasible = outcome.infeasible and context.incumbent is None
    message = f"no plan of this form takes less than {bound} ns"
    if infeasible:
        message = (
            "no plan of this form: moved only as the form lets them, the tensors that some op needs do not "
            "fit into the tiers; other methods may have a plan"
        )
    detail = ", ".join(text for text in (outcome.detail, message) if text)
    return Outcome(reason=outcome.reason, detail=detail, facts={} if infeasible else {"form_bound": bound})


def rate(name: str, text: str | None) -> int | None:
    """Return the value of an option in bytes per second."""
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except UsageError:
        raise UsageError(f"option {name}: found {text!r}, expected bytes per second such as 2GB") from None
