r"""AutoTM's loop around its program: limits of memory become tighter until the plan has addresses.

A plan that never holds more than the :math:`C_i` bytes of tier i may still not fit there, for each of its
buffers needs an address that stays. So

1. the program is solved with room for :math:`M_{ik}` bytes in tier i at op k, at first :math:`C_i`;
2. the plan's buffers get addresses: ``first-fit``, as an allocator at run time has it, or by ``greedy``, a
   method of `offsets`. If no buffer ends above :math:`C_i`, that is the answer;
3. else let :math:`H_i` be the greatest end, and K the ops that use a tensor, or have a workspace, that ends
   above :math:`C_i`, with the ten ops in front of each and behind it. For k of K :math:`M_{ik}` becomes
   :math:`\lfloor M_{ik} \max(9/10, 1 - (H_i / C_i - 1) / 2) \rfloor`, and it goes on with 1.

Source: AutoTM's artifact (`walks_milp`), which takes addresses from nGraph once the graph is compiled, and
ends each solve at a gap of 1% (option `gap`). Here step 3 is repeated at once while the plan, as its ops run,
still keeps to the rooms: the best plan within wider ones is the best within these. What several rounds of the
artifact would do, one does.

There is an end, since the rooms of some ops become smaller each time: a plan with addresses, or rooms without
a plan. The latter says nothing of other plans with addresses, and no bound comes from tighter rooms: that of
the form is the first round's. Each round goes on from the prices of the one before. Of the time the first
one has half, each other one a quarter of what is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ....models.buffers import Buffers
from ....models.derived.profile import memory_profile
from ....models.lowering.buffers import buffers_of
from ....models.lowering.residencies import Residency, inplace_pairs, mode_of, residencies
from ....models.plan import Plan, Run
from ....models.problems.offsets import Offsets
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...offsets.components import Components
from ...offsets.greedy import PLACE
from ...offsets.turns import search_components
from .prices import Dual

NEAR = 10
"""Ops in front of one whose room is tightened, and behind it, that get less room as well."""

LEAST, MOST = Fraction(9, 10), Fraction(999, 1000)
"""Of the room of an op, what one step leaves at least and at most."""

Search = Callable[[Placement, Context, Dual], Outcome]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A plan's buffers: of each of the first ones its residency, then the runs whose workspaces follow.

    Attributes
    ----------
    offsets
        By buffer id.
    needed
        By tier, the bytes that are proved to be needed, whatever the addresses.
    """

    plan: Plan
    buffers: Buffers
    held: list[Residency]
    runs: list[Run]
    offsets: Mapping[str, int]
    needed: Mapping[str, int]

    def heights(self) -> dict[str, int]:
        """Return the greatest end in bytes by tier."""
        return Offsets(self.buffers).heights(self.offsets)


def solve_with_addresses(
    problem: Placement, context: Context, dual: Dual, rule: str, search: Search
) -> Outcome:
    """Offer the first plan that has addresses; its rounds, height and fragmentation are in the facts.

    Parameters
    ----------
    dual
        Of the form, with rows as wide as the tiers.
    rule
        Which method of `offsets` is taken, "first-fit" or "greedy".
    search
        Offers the best plan within the rooms of the dual's rows.
    """
    data, facts = dual.arrays.data, dict[str, int]()
    rooms = {row.tier: [*row.rooms] for row in data.rows}
    for number in itertools.count(1):
        inner = context.inner(problem, context.remaining() / (2 if number == 1 else 4), f"round {number}: ")
        inner.raise_bound(data.ideal)
        outcome = search(problem, inner, dual)
        facts["rounds"] = number
        if number == 1:
            facts |= outcome.facts
        if inner.answer is None:
            within = "" if number == 1 else f"in the rooms of round {number}: "
            return replace(outcome, detail=within + outcome.detail, facts=facts)
        placed = place(problem, inner.answer, rule, context)
        if placed is None:
            return Outcome(reason="time", detail="no time was left for addresses", facts=facts)
        heights = placed.heights()
        high = {
            i: heights[tier.name]
            for i, tier in enumerate(problem.machine.tiers)
            if tier.capacity is not None and heights[tier.name] > tier.capacity
        }
        first = problem.machine.tiers[0].name
        facts |= {"height": heights[first], "fragmentation": heights[first] - placed.needed[first]}
        if number == 1:
            facts |= {"first_height": heights[first], "first_objective": inner.incumbent or 0}
        message = f"{number} rounds until the plan has addresses"
        if not high:
            context.offer(replace(inner.answer, allocation=placed.offsets))
            return Outcome(detail=outcome.detail if number == 1 else message, facts=facts)
        message = (
            f"the plan of round {number} needs addresses up to {', '.join(map(str, high.values()))} bytes"
        )
        context.progress(message)
        if context.expired or not high.keys() <= rooms.keys():
            return Outcome(reason="time" if context.expired else None, detail=message, facts=facts)
        for i, height in high.items():
            tighten(problem, placed, i, height, rooms[i])
        dual.limit(replace(data, rows=tuple(replace(row, rooms=tuple(rooms[row.tier])) for row in data.rows)))
    raise AssertionError


def place(problem: Placement, plan: Plan, rule: str, context: Context) -> Placed | None:
    """Return a plan's buffers with addresses, whatever the tiers' capacities; None if there was no time."""
    graph = problem.graph
    held = residencies(graph, plan)
    runs = sorted((run for run in plan.runs if mode_of(graph, run).workspace), key=lambda r: (r.start, r.op))
    buffers = buffers_of(graph, plan.machine, held, runs, inplace_pairs(graph, plan, held))
    free = replace(buffers, pools=dict.fromkeys(buffers.pools))
    offsets = Offsets(free)
    inner = context.inner(offsets, context.remaining(), "")
    components = Components(offsets, inner)
    search_components(components, (PLACE,) if rule == "greedy" else ())
    if inner.answer is None:
        return None
    needed = dict.fromkeys(free.pools, 0)
    for component in components.all:
        needed[component.data.pool] = max(needed[component.data.pool], component.needed)
    return Placed(plan=plan, buffers=free, held=held, runs=runs, offsets=inner.answer, needed=needed)


def _loads(problem: Placement, plan: Plan, tier: str) -> list[int]:
    """Return the most bytes that a tier holds while each op runs."""
    profile = memory_profile(problem.graph, plan, tier)
    runs = sorted(plan.runs, key=lambda run: run.op)
    first = np.searchsorted(profile.times, [run.start for run in runs], side="right") - 1
    last = np.searchsorted(profile.times, [run.end for run in runs], side="left")
    return [int(profile.total[i:j].max()) for i, j in zip(first, last, strict=True)]


def tighten(problem: Placement, placed: Placed, tier: int, height: int, room: list[int]) -> None:
    """Reduce the room of a tier near what ends too high, until the plan does not keep to it."""
    name, capacity = problem.machine.tiers[tier].name, problem.machine.tiers[tier].capacity or 0
    loads, n = _loads(problem, placed.plan, name), len(room)
    share = min(MOST, max(LEAST, 1 - (Fraction(height, capacity) - 1) / 2)) if capacity else LEAST
    ops = {*_too_high(problem, placed, name, capacity)}
    near = sorted({k for op in ops for k in range(max(op - NEAR, 0), min(op + NEAR + 1, n))})
    while True:
        for k in near:
            room[k] = room[k] * share.numerator // share.denominator
        if any(loads[k] > room[k] for k in near) or not any(room[k] for k in near):
            return


def _too_high(problem: Placement, placed: Placed, tier: str, capacity: int) -> Iterator[int]:
    """Yield the ops that use what ends above a tier's capacity, or else that run while it is there."""
    for number, b in enumerate(placed.buffers.buffers):
        if b.pool != tier or placed.offsets[b.id] + b.size <= capacity:
            continue
        if number >= len(placed.held):
            yield placed.runs[number - len(placed.held)].op
            continue
        t = placed.held[number].tensor
        there = [run.op for run in placed.plan.runs if run.start < b.upper and b.lower < run.end]
        users = [k for k in there if t in {*problem.graph.ops[k].reads, *problem.graph.ops[k].writes}]
        next_to = min(placed.plan.runs, key=lambda run: max(b.lower - run.end, run.start - b.upper))
        yield from users or there or [next_to.op]
