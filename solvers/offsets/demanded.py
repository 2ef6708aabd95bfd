r"""Plans that have addresses, or room for whole pages, by any method: what is lost is taken from the tier.

A plan that never holds more than the :math:`C_i` bytes of tier i may still not fit there: each of its buffers
needs an address that stays, or whole pages (`lowtide.models.problems.demands`). So

1. the method solves the problem with tiers of :math:`M_i` bytes, at first :math:`C_i`;
2. `offsets` looks for addresses within :math:`C_i` if the plan has none, or its pages are counted. If they
   fit, it is an answer;
3. else some buffer ends at, or the pages are, :math:`H_i > C_i`, and :math:`C_i - M_i` grows by
   :math:`H_i - C_i`, at least to twice what it was; where the method had no plan with :math:`L_i` bytes,
   :math:`M_i` becomes no less than halfway between these and what it was. It goes on with 1.

After an answer, tiers halfway between it and the last ones without one are tried, `REFINEMENTS` times, for a
plan that needs less time. Each round has a quarter of the time that is left, and the search for addresses
behind it an eighth; without a limit this tries the greedy allocations only, whose number is fixed.

**Bounds.** What the method proves in the first round holds: a plan that meets demands is a plan. Nothing
follows from smaller tiers.

A problem whose tensors are whole, as `recompute`, needs no rounds for pages: with all sizes rounded up it has
the same answers, and the same bounds if nothing takes longer by that.

Source: the loop around AutoTM's program, which tightens its rows at single ops instead
(`lowtide.solvers.placement.autotm.addresses`); here the capacity is all that a method need know.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...models.buffers import Buffers
from ...models.lowering.buffers import buffers_from_plan
from ...models.plan import Plan
from ...models.problems.offsets import Offsets
from ...models.verifier.pages import paged_peaks
from ..context import Context, Outcome
from ..method import RunFunction, run_method
from .auto import PARTS
from .components import Components
from .greedy import PLACE
from .turns import search_components

ROUNDS = 40
"""Rounds after which it ends: as many halvings as bring a device of a terabyte to single bytes."""

REFINEMENTS = 3
"""Rounds for a faster plan, after the first one that has addresses."""

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
        rooms: list[int | None] = []
        for i, (whole, wide, floor) in enumerate(zip(self.whole, self.wide, least, strict=True)):
            if whole is None or wide is None or floor is None:
                rooms.append(None)
            else:
                less = max(over[i], whole - wide) if i in over else 0
                rooms.append(max(wide - less, floor))
        return tuple(rooms)


def _between(a: Rooms, b: Rooms) -> Rooms | None:
    """Return the sizes halfway between two, or None if there are none."""
    found = tuple(None if x is None or y is None else (x + y + 1) // 2 for x, y in zip(a, b, strict=True))
    return None if found in (a, b) else found


def search(run: RunFunction, problem: Any, context: Context) -> Outcome:
    """Offer the best plan that meets the demands, of a method that knows nothing of them.

    The verifier judges each before it is taken, so that a wrong one takes the place of none. The facts are
    the method's own in the first round, the rounds, and of the first plan its objective and the bytes by
    which it exceeds the tiers.
    """
    context.careful = True
    if problem.page is not None and (paged := problem.in_pages()) is not None:
        return _search_pages(run, problem, paged, context)
    whole = tuple(tier.capacity for tier in problem.machine.tiers)
    tried = Tried(whole=whole, wide=whole, narrow=tuple(None if room is None else 0 for room in whole))
    rooms, refinements, fault = whole, 0, ""
    for number in itertools.count(1):
        part = problem.within(rooms)
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
            answer, over = _fitted(problem, inner.answer, context)
            if number == 1:
                first = problem.evaluate(inner.answer)
                tried.facts |= {"first_objective": first, "first_excess": sum(over.values())}
            if answer is None and not over:
                return Outcome(reason="time", detail="no time was left for addresses", facts=tried.facts)
            if answer is None:
                tried.wide = rooms
                fault = (
                    f"the plan of round {number} takes {', '.join(map(str, over.values()))} bytes too many"
                )
                context.progress(fault)
            else:
                context.offer(answer)
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
    detail = fault if tried.fits is None else f"{number} rounds for a plan with {problem.demands[0]}"
    return Outcome(reason="time" if context.expired else None, detail=detail, facts=tried.facts)


def _search_pages(run: RunFunction, problem: Any, paged: tuple[Any, bool], context: Context) -> Outcome:
    """Offer the answer of a problem without demands that has the same ones, and its bounds if they hold."""
    part, same = paged
    inner = context.inner(part, context.remaining(), "")
    witness = part.impossible()
    outcome = Outcome(infeasible=True, detail=witness) if witness else run_method(run, part, inner)
    if same and inner.exact is not None:
        context.raise_bound(inner.exact[0], kind=inner.exact[1])
    if same and inner.bound is not None and inner.proof is not None:
        context.raise_bound(inner.bound, inner.proof, kind=inner.bound_kind)
    if inner.answer is not None:
        context.offer(problem.allocated(inner.answer, None))
    return outcome


def _fitted(problem: Any, answer: Any, context: Context) -> tuple[Any, dict[int, int]]:
    """Return the answer as one that meets the demands, None if it was not made one; by tier bytes above."""
    plan: Plan = problem.plan_of(answer)
    if problem.addresses and plan.allocation is not None and not problem.judge(plan).violations:
        return answer, {}
    if problem.page is None:
        placed, ends = _placed(buffers_from_plan(problem.graph, plan), context)
        fitted = None if placed is None else problem.allocated(answer, placed)
    else:
        ends = paged_peaks(problem.graph, plan, problem.page, problem.starts)
        fitted = problem.allocated(answer, None)
    over: dict[int, int] = {}
    for i, tier in enumerate(problem.machine.tiers):
        if tier.capacity is not None and ends.get(tier.name, 0) > tier.capacity:
            over[i] = ends[tier.name] - tier.capacity
    return None if over else fitted, over


def _placed(buffers: Buffers, context: Context) -> tuple[Mapping[str, int] | None, dict[str, int]]:
    """Return addresses, None if none were found within the capacities; and by tier where they end."""
    total = sum(b.size for b in buffers.buffers)
    pools = {name: total if room is None else room for name, room in buffers.pools.items()}
    offsets = Offsets(replace(buffers, pools=pools), satisfy=True)
    left = context.remaining()
    components = Components(offsets, context.inner(offsets, left / 8, "addresses: "))
    search_components(components, (PLACE,) if math.isinf(left) else PARTS)
    ends: dict[str, int] = {}
    for component in components.all:
        end = component.data.unit * (component.bound if component.height is None else component.height)
        ends[component.data.pool] = max(end, ends.get(component.data.pool, 0))
    return components.context.answer, ends
