"""`slot-lp`: the fastest placement in bytes, by linear programs over pieces of time.

1. Bounds at once: the sum of the durations, and in single runs that of single ops. Too large a program is not
   built.
2. The program with `ROUNDS` rounds in each piece gives a plan. Where rounding breaks it, it is solved again
   with a little room left free. Where no channel joins outer tiers, it has no moves from where bytes cannot
   be as their life begins: plans lack second copies of new bytes, and those of `rounded` are found sooner.
3. If the bounds at hand are not near, the program without limit on the rounds gives one, from safe duals.
4. If plan and bound are apart, more rounds, with all moves.
5. Where a plan has a few ns of stall that come from rounding only, once more with a margin behind each run.
6. Where plan and bound are so near that rounding may be all: whole bytes and ns near the program's solution
   (`rounded`).

Plans cut tensors into byte ranges, so a problem with whole tensors gets bounds only. Where everything fits at
every moment, but so tightly that nothing can move in the given number of rounds, there is no answer.
"""

from __future__ import annotations

from ....formulations.linear_program import dual_bound
from ....formulations.model import BuildTimeout
from ....formulations.placement.bounds.single_ops import window_bound
from ....formulations.placement.slots.bytes_lp import BYTES_PER_TERM, build, size
from ....formulations.placement.slots.columns import memory_of
from ....formulations.placement.states import StateData, state_data
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...engines.memory import refuse_if_too_large
from ..bounds.prices import raise_by_prices, unsampled
from ..reductions.choices import for_modes
from ..reductions.replicas.together import for_replicas
from .plan import Rounded, decode
from .rounded import Engine, search_near

ROUNDS = (8, 64)
"""Rounds of copies in each piece: fewer make fewer copies, more leave less that rounding breaks."""
RESERVES = (0, 1, 64)
"""Bytes left free per life, from try to try, and as many hundred-millionths of the memory."""
MARGIN = 50
"""Nanoseconds that each run leaves its channels idle in a last attempt, for rounding to whole ns."""
NEAR = 2_000
"""The search ends when bound and incumbent differ by less than this part of the incumbent."""
MOST_ROWS = 20_000
"""Of a program that is solved to a vertex, which takes fewer copies: above, that takes too long."""
DENOMINATOR = 2**90
"""Multipliers are rounded to integers over it, so that the bound by them is exact."""
WHAT = "the slot model"


@for_replicas
@for_modes()
def solve_slots(problem: Placement, context: Context) -> Outcome:
    """Find plans and bounds by the slot model.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:skipchain?n=6,seed=1,machine=v100-16g-pcie3,device=400MB,start=gpu"
    >>> problem = load_problem("placement", spec)
    >>> result = lt.solve(problem, "slot-lp")
    >>> result.verification.valid, result.gap < 0.001
    (True, True)
    """
    data = state_data(problem)
    context.raise_bound(data.ideal, kind="sum of durations", averages=True)
    context.raise_bound(window_bound(data, expired=lambda: context.expired), kind="single ops", averages=True)
    refused = refuse_if_too_large(size(data), bytes_per_term=BYTES_PER_TERM, context=context, what=WHAT)
    if refused is not None:
        return refused
    bounded = False
    known: dict[int, Rounded] = {}
    for rounds in ROUNDS:
        if not problem.whole:
            rounded = plan_in_rounds(problem, data, context, rounds)
            if rounded is not None:
                known[context.offer(rounded.plan)] = rounded
        if not bounded and not _near(context):
            raise_by_slots(data, context)
            bounded = True
        if context.expired or _near(context):
            break
    if context.incumbent is not None and data.ideal == context.bound and _near(context):
        rounded = None if context.closed else plan_in_rounds(problem, data, context, ROUNDS[0], MARGIN)
        if rounded is not None:
            context.offer(rounded.plan)
    if known and not context.closed:
        if not unsampled(problem):
            raise_by_prices(problem, context, rounds=())
        search_near(problem, context, data, known[min(known)])
    detail = ""
    if context.incumbent is None and not context.expired:
        detail = _why_no_plan(problem)
    return Outcome(reason="time" if context.expired and not context.closed else None, detail=detail)


def _why_no_plan(problem: Placement) -> str:
    """Return why there is a bound only."""
    if problem.whole:
        return "slot-lp: bounds only, because its plans cut tensors (slot-milp moves whole ones)"
    return (
        f"slot-lp: no plan in {ROUNDS[-1]} rounds per piece; everything fits at every moment, but what must "
        "move may find no room on the way"
    )


def _near(context: Context) -> bool:
    """Whether bound and incumbent are close enough."""
    if context.incumbent is None or context.bound is None:
        return False
    return (context.incumbent - context.bound) * NEAR <= context.incumbent


def longest_stall(data: StateData) -> int:
    """Return more ns of stall than any sensible plan has: everything that is accessed comes and goes."""
    rates = [way.rate for way in data.ways] + [rate for _, rate in data.caps]
    moved = sum(life.nbytes * (len(life.accesses) + 1) for life in data.lives)
    hops = 2 * max(1, len(data.capacity) - 1)
    return hops * moved * 10**9 // min(rates) + 1 if rates else data.ideal


def plan_in_rounds(
    problem: Placement, data: StateData, context: Context, rounds: int, margin: int = 0
) -> Rounded | None:
    """Return the best plan with so many rounds in each piece, or None if none was found in time."""
    from ...engines.highs_lp import primal_values

    for reserve in RESERVES:
        room = reserve * (len(data.lives) + memory_of(data) // 10**8)
        try:
            slots = build(
                data,
                stall=longest_stall(data),
                rounds=rounds,
                reserve=room,
                margin=margin,
                onward=data.linked or rounds != ROUNDS[0],
                expired=lambda: context.expired,
            )
        except BuildTimeout:
            return None
        context.progress(f"slot model: {rounds} rounds, {len(slots.program.low)} rows")
        small = len(slots.program.low) <= MOST_ROWS
        values = primal_values(slots.program, context, context.remaining(), vertex=small)
        if values is None:
            if context.expired:
                return None
            continue
        plan = decode(slots, values, problem, lambda: context.expired)
        if plan is not None:
            return Rounded(plan, slots, values)
    return None


def search_in_bytes(problem: Placement, context: Context, engine: Engine) -> None:
    """Offer a plan of the slot model, and those in whole bytes and ns near it; too large a model gives none.

    Parameters
    ----------
    problem, context
        Of the solve.
    engine
        For whole bytes and ns.
    """
    data = state_data(problem)
    if refuse_if_too_large(size(data), bytes_per_term=BYTES_PER_TERM, context=context, what=WHAT) is None:
        rounded = plan_in_rounds(problem, data, context, ROUNDS[0])
        if rounded is not None:
            context.offer(rounded.plan)
            search_near(problem, context, data, rounded, engine)


def raise_by_slots(data: StateData, context: Context) -> None:
    """Raise the bound to that of the program without limit on the rounds."""
    most = longest_stall(data) if context.incumbent is None else max(1, context.incumbent - data.ideal)
    bound = slot_bound(data, context, most, context.remaining())
    if bound is not None:
        context.raise_bound(bound, kind="slot model", averages=True)


def slot_bound(data: StateData, context: Context, most: int, seconds: float) -> int | None:
    """Return the bound in ns of the program without limit on the rounds; None if it took too long.

    Parameters
    ----------
    data, context
        What is bounded, and for its threads and its progress.
    most
        ns of stall; above the sum of the durations and these nothing is proved.
    seconds
        For the solver.
    """
    from ...engines.highs_lp import dual_values

    try:
        slots = build(data, stall=most, expired=lambda: context.expired)
    except BuildTimeout:
        return None
    context.progress(f"slot model: bound, {len(slots.program.low)} rows")
    values = dual_values(slots.program, context, seconds)
    if values is None:
        return None
    bound = dual_bound(slots.program, [round(y * DENOMINATOR) for y in values], DENOMINATOR)
    return data.ideal + min(most, bound)
