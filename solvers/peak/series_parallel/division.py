"""The best order of a series-parallel precedence that contains a given order.

Given a graph and an order of its ops:

1. Of the ops that may access a shared tensor last, the order has one last. It is made to follow the others,
   so that the memory is additive.
2. The ops are divided again and again. Ops that no edge among them connects to others are put in parallel.
   Connected ones are cut in two, in series, where the memory along the order is least, beginning and
   end apart: all ops before the cut are made to precede all after it.
3. The composition is series-parallel, and adds to the precedence of the graph only what the order obeys. So
   its dominant order (`blocks`) has at most the peak of the given one.

Step 3 holds wherever the cuts are. So a *walk* draws them from places where the memory is low, not only
least, and goes on from the order found, whose peak is never larger: over plateaus, to orders that one
division does not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from ...trees.blocks import Blocks, in_parallel, in_series
from ..search.state_space import StateSpace
from .additive import attributed_changes, op_block

LOW = 0.3
"""The cuts of a walk are drawn from this part of the memory's range at most, mostly from less."""


def divided_blocks(
    space: StateSpace,
    order: Sequence[int],
    rng: Random | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> Blocks:
    """Return the blocks of an order whose peak is at most that of the given valid one; none if time is up.

    Parameters
    ----------
    rng
        Draws the cuts of a walk; None for the places where the memory is least.
    expired
        Asked before each cut; when it holds, there are no blocks.

    Examples
    --------
    >>> from lowtide import Peak, load
    >>> from lowtide.solvers.trees.blocks import ops_of
    >>> from lowtide.solvers.peak.search.state_space import state_space
    >>> graph = load("gen:layered?layers=6&width=4&seed=1&data=edge")
    >>> found = ops_of(divided_blocks(state_space(graph), range(24)))
    >>> Peak(graph).evaluate(range(24)), Peak(graph).evaluate(found)
    (134, 111)
    """
    change = attributed_changes(space, order)
    done: list[Blocks] = []
    for step in reversed(_division(order, _links(space, order), change, rng, expired)):
        if expired():
            return []
        if step >= 0:
            done.append([op_block(space, step, change[step])])
        elif step == SERIES:
            done.append(in_series(done.pop(), done.pop()))
        else:
            done.append(in_parallel([done.pop() for _ in range(-step)]))
    return done[0] if done else []


SERIES = -1
"""Two parts in series, as a step of a division; -k is k in parallel, and others are ops."""


def _links(space: StateSpace, order: Sequence[int]) -> list[list[int]]:
    """Return the neighbours of each op with those of step 1."""
    place = {v: k for k, v in enumerate(order)}
    links = [[*before, *after] for before, after in zip(space.before, space.after, strict=True)]
    for ops in space.groups:
        last = max(ops, key=place.__getitem__)
        for v in ops:
            links[last].append(v)
            links[v].append(last)
    return links


def _division(
    order: Sequence[int],
    links: list[list[int]],
    change: list[int],
    rng: Random | None,
    expired: Callable[[], bool],
) -> list[int]:
    """Return the steps of the division of step 2, each before its parts; none if time is up."""
    steps = []
    inside = [0] * len(links)  # the number of the set that an op is in
    sets = [list(order)] if order else []
    count = 0
    while sets:
        if expired():
            return []
        ops = sets.pop()
        if len(ops) == 1:
            steps.append(ops[0])
            continue
        count += 1
        for v in ops:
            inside[v] = count
        parts = _components(ops, links, inside, count)
        if len(parts) > 1:
            steps.append(-len(parts))
        else:
            steps.append(SERIES)
            cut = _cut(ops, change, rng)
            parts = [ops[:cut], ops[cut:]]
        sets += reversed(parts)
    return steps


def _components(ops: list[int], links: list[list[int]], inside: list[int], mark: int) -> list[list[int]]:
    """Return the connected parts of some ops, each in their sequence."""
    number: dict[int, int] = {}
    count = 0
    for root in ops:
        if root in number:
            continue
        number[root] = count
        stack = [root]
        while stack:
            for w in links[stack.pop()]:
                if inside[w] == mark and w not in number:
                    number[w] = count
                    stack.append(w)
        count += 1
    parts: list[list[int]] = [[] for _ in range(count)]
    for v in ops:
        parts[number[v]].append(v)
    return parts


def _cut(ops: list[int], change: list[int], rng: Random | None) -> int:
    """Return after how many ops, not none and not all, the memory is least (the last such place), or low."""
    memory, memories = 0, []
    for v in ops[:-1]:
        memory += change[v]
        memories.append(memory)
    least = min(memories)
    if rng is None:
        return len(memories) - memories[::-1].index(least)
    low = least + int(LOW * rng.random() ** 2 * (max(memories) - least))  # an integer: floats lose bytes
    return 1 + rng.choice([k for k, memory in enumerate(memories) if memory <= low])
