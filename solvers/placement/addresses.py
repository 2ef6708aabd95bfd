r"""Plans that have addresses, by any method: what memory cannot be used in pieces is taken from the tier.

A plan that never holds more than the :math:`C_i` bytes of tier i may still not fit there, for each of its
buffers needs an address that stays. So

1. the method solves the problem with tiers of :math:`M_i` bytes, at first :math:`C_i`;
2. `offsets` looks for addresses within :math:`C_i` if the plan has none. If there are some, it is an answer;
3. else some buffer ends at :math:`H_i > C_i`, and :math:`C_i - M_i` grows by :math:`H_i - C_i`, at least to
   twice what it was; where the method had no plan with :math:`L_i` bytes, :math:`M_i` becomes no less than
   halfway between these and what it was. It goes on with 1.

After an answer, tiers halfway between it and the last ones without one are tried, `REFINEMENTS` times, for a
plan that needs less time. Each round has a quarter of the time that is left, and the search for addresses
behind it an eighth; without a limit this tries the greedy allocations only, whose number is fixed.

`auto` begins with three policies, each in an eighth of the time: what is lost between the small parts that
its own plans move may be a quarter of a device, and take many rounds.

**Bounds.** What the method proves in the first round holds: a plan with addresses is a plan. Nothing follows
from smaller tiers.

Source: the loop around AutoTM's program, which tightens its rows at single ops instead
(`lowtide.solvers.placement.models.autotm_addresses`); here the capacity is all that a method need know.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ...models.errors import LowtideError
from ...models.lowering.buffers import buffers_from_plan
from ...models.plan import Plan
from ...models.problems.offsets import Offsets
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction, run_method
from ..offsets.auto import place, search_all, take_turns
from ..offsets.parts import Parts
from ..registry import find_method

ROUNDS = 40
"""Rounds after which it ends: as many halvings as bring a device of a terabyte to single bytes."""

REFINEMENTS = 3
"""Rounds for a faster plan, after the first one that has addresses."""

FIRST = ("autoswap", "chen-meng", "vdnn")
"""Policies whose plans lose little to fragmentation (table `placement_fragmentation`)."""

Rooms = tuple[int | None, ...]


@dataclass(kw_only=True)
class Tried:
    """Sizes of the tiers in bytes, None if unlimited, and what is known of them.

    Attributes
    ----------
    whole
        The capacities.
    wide, narrow, fits
        The last that gave a plan without addresses, no plan, and a plan with addresses.
    facts
        Of the outcome.
    """

    whole: Rooms
    wide: Rooms
    narrow: Rooms
    fits: Rooms | None = None
    facts: dict[str, int] = field(default_factory=dict)

    def next(self, over: Mapping[int, int]) -> Rooms | None:
        """Return what to try next: less by what was `over`, or between two that were tried; None: nothing."""
        if self.fits is not None:
            return _between(self.fits, self.wide)
        least = _between(self.narrow, self.wide)
        if least is None or not over:
            return least
        found: list[int | None] = []
        for i, (whole, wide, floor) in enumerate(zip(self.whole, self.wide, least, strict=True)):
            if whole is None or wide is None or floor is None:
                found.append(None)
            else:
                less = max(over[i], whole - wide) if i in over else 0
                found.append(max(wide - less, floor))
        return tuple(found)


def _between(a: Rooms, b: Rooms) -> Rooms | None:
    """Return the sizes halfway between two, or None if there are none."""
    found = tuple(None if x is None or y is None else (x + y + 1) // 2 for x, y in zip(a, b, strict=True))
    return None if found in (a, b) else found


def solve_with_addresses(run: RunFunction, problem: Placement, context: Context) -> Outcome:
    """Offer the best plan with addresses of a method that knows nothing of them, of `auto` and `FIRST`.

    The verifier judges each before it is taken, so that a wrong one takes the place of none.
    """
    context.careful = True
    for name in FIRST if context.method == "auto" else ():
        method = find_method(problem.name, name)
        part = context.inner(problem, context.remaining() / 8, f"{name}: ")
        with suppress(LowtideError):  # a graph or a machine that the policy does not serve
            part.options = method.typed({})[0]
            search(method.load(), problem, part)
        if part.answer is not None:
            context.offer(part.answer)
    return search(run, problem, context)


def search(run: RunFunction, problem: Placement, context: Context) -> Outcome:
    """Offer the best plan with addresses of a method that knows nothing of them.

    The facts are the method's own in the first round, the rounds, and of the first plan its time and the
    bytes by which its addresses exceed the tiers.
    """
    bare = replace(problem, addresses=False)
    whole = tuple(tier.capacity for tier in problem.machine.tiers)
    tried = Tried(whole=whole, wide=whole, narrow=tuple(None if room is None else 0 for room in whole))
    rooms, refinements, said = whole, 0, ""
    for number in itertools.count(1):
        tiers = tuple(replace(t, capacity=r) for t, r in zip(problem.machine.tiers, rooms, strict=True))
        part = replace(bare, machine=replace(problem.machine, tiers=tiers))
        inner = context.inner(part, context.remaining() / 4, f"round {number}: ")
        witness = part.impossible()
        outcome = Outcome(infeasible=True, detail=witness) if witness else run_method(run, part, inner)
        tried.facts["rounds"] = number
        if number == 1:
            tried.facts |= outcome.facts
            if inner.exact is not None:
                value, kind, evidence = inner.exact
                context.raise_bound(value, kind=kind, evidence=evidence)
            if inner.bound is not None and inner.proof is not None:
                context.raise_bound(inner.bound, inner.proof, kind=inner.bound_kind, evidence=inner.evidence)
        over: dict[int, int] = {}
        if inner.answer is None:
            if number == 1 or context.expired:
                return replace(outcome, infeasible=outcome.infeasible and number == 1, facts=tried.facts)
            tried.narrow = rooms
        else:
            plan = replace(inner.answer, machine=problem.machine)
            offsets, over = _addresses(problem, plan, context)
            if number == 1:
                tried.facts |= {"first_objective": problem.evaluate(plan), "first_excess": sum(over.values())}
            if offsets is None and not over:
                return Outcome(reason="time", detail="no time was left for addresses", facts=tried.facts)
            if offsets is None:
                tried.wide = rooms
                said = f"the plan of round {number} ends {', '.join(map(str, over.values()))} bytes too high"
                context.progress(said)
            else:
                context.offer(replace(plan, allocation=offsets))
                tried.fits = rooms
                if number == 1:
                    return replace(outcome, facts=tried.facts)
        refinements += tried.fits is not None
        following = tried.next(over)
        if context.closed or context.expired or following is None or number == ROUNDS:
            break
        if refinements > REFINEMENTS:
            break
        rooms = following
    detail = said if tried.fits is None else f"{number} rounds for a plan with addresses"
    return Outcome(reason="time" if context.expired else None, detail=detail, facts=tried.facts)


def _addresses(
    problem: Placement, plan: Plan, context: Context
) -> tuple[Mapping[str, int] | None, dict[int, int]]:
    """Return addresses within the capacities, if the plan has some or any were found; by tier bytes above."""
    if plan.allocation is not None and not problem.judge(plan).violations:
        return plan.allocation, {}
    buffers = buffers_from_plan(problem.graph, plan)
    total = sum(b.size for b in buffers.buffers)
    pools = {name: total if room is None else room for name, room in buffers.pools.items()}
    offsets = Offsets(replace(buffers, pools=pools), satisfy=True)
    left = context.remaining()
    parts = Parts(offsets, context.inner(offsets, left / 8, "addresses: "))
    if math.isinf(left):
        take_turns(parts, (place,))
    else:
        search_all(parts)
    over: dict[int, int] = {}
    for i, tier in enumerate(problem.machine.tiers):
        ends = [
            part.data.unit * (part.bound if part.height is None else part.height)
            for part in parts.parts
            if part.data.pool == tier.name
        ]
        if tier.capacity is not None and max(ends, default=0) > tier.capacity:
            over[i] = max(ends) - tier.capacity
    return parts.context.answer, over
