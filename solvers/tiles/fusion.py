"""Partitions of the ops into groups, each in its best tiles: each op alone, and greedy fusion."""

from __future__ import annotations

from collections.abc import Iterable

from ...models.problems.tiles import Tiles
from ...models.tile_rules import TileInstance, Tiling
from ..context import Context, Outcome
from .groups import GroupCosts


def solve_single(problem: Tiles, context: Context) -> Outcome:
    """Run each op in a group of its own."""
    costs = GroupCosts(problem)
    groups = [frozenset({i}) for i in range(len(problem.shapes.outputs))]
    for group in groups:
        if costs.ticks(group) is None:
            return Outcome(detail=f"op {min(group)} fits at no granularity")
    context.offer(_tiling(costs, groups))
    return Outcome()


def solve_greedy(problem: Tiles, context: Context) -> Outcome:
    """Merge the two groups that save most, from each op alone on, until none saves."""
    costs = GroupCosts(problem)
    groups = greedy_groups(problem, costs, context)
    if any(costs.ticks(group) is None for group in groups):
        return Outcome(detail="an op fits at no granularity")
    context.offer(_tiling(costs, groups))
    return Outcome(reason="time" if context.expired else None)


def greedy_groups(problem: Tiles, costs: GroupCosts, context: Context) -> list[frozenset[int]]:
    """Return the groups of `solve_greedy`, in an order in which they can run."""
    given = problem.shapes
    groups = [frozenset({i}) for i in range(len(given.outputs))]
    values = {group: ticks for group in groups if (ticks := costs.ticks(group)) is not None}
    # A group that does not fit costs more than all others together, so that it is merged first.
    never = 1 + 2 * sum(values.values())
    while True:
        saved, merged = 0, None
        for a, b in _neighbours(given, groups):
            if context.expired:
                break
            ticks = costs.ticks(a | b)
            gain = values.get(a, never) + values.get(b, never) - (never if ticks is None else ticks)
            if ticks is not None and gain > saved:
                rest = [group for group in groups if group not in (a, b)]
                if sequence(given, [*rest, a | b]) is not None:
                    saved, merged = gain, (a, b, ticks)
        if merged is None:
            return sequence(given, groups) or groups
        a, b, ticks = merged
        groups = [group for group in groups if group not in (a, b)] + [a | b]
        values[a | b] = ticks


def sequence(given: TileInstance, groups: Iterable[frozenset[int]]) -> list[frozenset[int]] | None:
    """Return the groups in an order in which each finds what it reads; None if there is none."""
    rest, ordered, slow = sorted(groups, key=min), list[frozenset[int]](), {*given.started}
    while rest:
        for group in rest:
            made = {given.outputs[i] for i in group}
            read = {t for i in group for t in given.inputs[i]}
            if read - made <= slow:
                break
        else:
            return None
        rest.remove(group)
        ordered.append(group)
        slow |= made - read
    return ordered


def _neighbours(
    given: TileInstance, groups: list[frozenset[int]]
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Return the pairs of groups of which the second reads what the first makes."""
    home = {given.outputs[i]: group for group in groups for i in group}
    pairs = {
        (home[t], group): None
        for group in groups
        for i in sorted(group)
        for t in given.inputs[i]
        if t in home and home[t] != group
    }
    return list(pairs)


def _tiling(costs: GroupCosts, groups: Iterable[frozenset[int]]) -> Tiling:
    return Tiling(groups=tuple(map(costs.group, groups)))
