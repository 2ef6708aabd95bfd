"""Local search over sequences of ops, each divided into its best groups."""

from __future__ import annotations

import math
from random import Random

from ...models.problems.tiles import Tiles
from ..context import Context, Outcome
from .first_runs import Links, links_of
from .fusion import greedy_groups
from .groups import GroupCosts
from .segments import SegmentTable

WARMTH = 0.003
"""Of the least latency: how much dearer an answer the search goes on from at first; chosen by hand."""


def solve_fused_layer(problem: Tiles, context: Context) -> Outcome:
    """Divide the ops in the order of the instance into groups that keep nothing, at least latency."""
    given = problem.shapes
    table = SegmentTable(
        costs=GroupCosts(problem),
        links=links_of(given),
        sequence=tuple(range(len(given.outputs))),
        keeps=False,
    )
    if table.fill() is None:
        return Outcome(detail="an op fits at no granularity")
    context.offer(table.tiling())
    return Outcome()


def solve_local_search(problem: Tiles, context: Context) -> Outcome:
    """Move ops and groups in the sequence, and run ops again, as long as there is time.

    A change that makes the answer a little dearer is taken, too: less and less so with the steps.
    """
    rng, links = Random(context.seed), links_of(problem.shapes)
    costs, steps = GroupCosts(problem), context.options["steps"]
    starts = {tuple(range(len(problem.shapes.outputs))): None}
    merged = greedy_groups(problem, costs, context)
    starts[tuple(i for group in merged for i in sorted(group))] = None
    tables: list[tuple[int, int, SegmentTable]] = []
    for sequence in starts:
        table = SegmentTable(costs=costs, links=links, sequence=sequence)
        ticks = table.fill()
        if ticks is not None:
            tables.append((ticks, len(tables), table))
    if not tables:
        return Outcome(detail="no sequence of groups fits")
    now, _, table = min(tables)
    best = now
    context.offer(table.tiling())
    for step in range(steps):
        if context.closed or context.expired:
            break
        changed = _changed(table, links, rng)
        if changed is None:
            continue
        same = _same(table.sequence, changed)
        other = SegmentTable(costs=costs, links=links, sequence=changed)
        ticks = other.fill(table.states[: same + 1] if len(changed) >= len(table.sequence) else ())
        warmth = WARMTH * best * (1 - step / steps) * -math.log(1 - rng.random())
        if ticks is not None and ticks <= now + warmth:
            now, table = ticks, other
            if now < best:
                best = now
                context.offer(table.tiling())
    return Outcome(reason="time" if context.expired else None)


def _same(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the length of the beginning that two sequences share."""
    return next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _changed(table: SegmentTable, links: Links, rng: Random) -> tuple[int, ...] | None:
    """Return the sequence with a part of it elsewhere, or a run more or less; None if that is no sequence."""
    sequence = [*table.sequence]
    kind, at = rng.random(), rng.randrange(len(sequence))
    if kind < 0.15:
        makers = [links.maker[t] for t in table.costs.given.inputs[sequence[at]] if t in links.maker]
        if not makers:
            return None
        sequence.insert(at, rng.choice(makers))
    elif kind < 0.25 and sequence.count(sequence[at]) > 1:
        del sequence[at]
    else:
        length = 1 if kind < 0.6 else rng.randint(2, 6)
        part = sequence[at : at + length]
        del sequence[at : at + length]
        low, high = _range(sequence, part, at, links)
        if low == high:
            return None
        place = rng.choice([p for p in range(low, high + 1) if p != at])
        sequence[place:place] = part
    return tuple(sequence) if _is_sequence(sequence, table.costs) else None


def _range(sequence: list[int], part: list[int], at: int, links: Links) -> tuple[int, int]:
    """Return the first and the last place to which a part can move."""
    before = frozenset().union(*(links.before[i] for i in part))
    behind = frozenset().union(*(links.behind[i] for i in part))
    low = next((p + 1 for p in range(at - 1, -1, -1) if sequence[p] in before), 0)
    high = next((p for p in range(at, len(sequence)) if sequence[p] in behind), len(sequence))
    return low, high


def _is_sequence(sequence: list[int], costs: GroupCosts) -> bool:
    """Return whether what each op reads is there before."""
    there = {*costs.given.started}
    for i in sequence:
        if not there.issuperset(costs.given.inputs[i]):
            return False
        there.add(costs.given.outputs[i])
    return True
