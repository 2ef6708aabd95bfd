r"""The least cost of running a set of ops for the first time, in one group, whatever else the group runs.

*First runs.* In an answer, each op runs for the first time in one group. P: the ops of a group g whose first run
that is; these sets partition all ops. Let R be the other ops of g, which run again.

1. An op of R that reads what an op of P makes in g would have run before g, and so would the op of P. So no op
   of R is behind one of P; and P is convex: what lies on a path between two of its ops is in P.
2. Hence the outputs of P, the parts of tensors that tiles ask of it, and its split MatMuls are those that P
   has as a group of its own. Ops of R that feed P add compute, and slices of what they read. The others only
   add to both. Steps that MatMuls of R alone divide a tile into make it no shorter. So some R of ops that feed
   P, whose tensors P then does not load, gives a group in some memory that is as cheap as g: `first_runs`.
3. A tensor that no op makes, all of whose readers are in P, was read by no group before g: it is loaded in g, in
   slices or whole. Another one may be there already if it is smaller than the capacity, and takes its size.
   Where there are more than `MOST_CHOICES` such tensors they take nothing, which costs no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import NamedTuple

from ...models.tile_rules import TileInstance
from .groups import GroupCosts

MOST_CHOICES = 4
"""Largest number of small tensors of a group whose places are all tried: 16 sets; chosen by hand."""

MOST_INPUTS = 6
"""Largest number of inputs made by ops whose 64 subsets are all tried: the others are bounded together."""

MOST_NODES = 300
"""Largest number of nodes of a search for what runs again: what is open then is bounded; chosen by hand."""


class FirstRun(NamedTuple):
    """Ops that run for the first time in a group, and the ticks of that group at least.

    Attributes
    ----------
    again
        Inputs of these ops that the group makes again.
    unwritten
        Tensors that the ops make, no op reads, and the group may keep instead of writing.
    """

    ops: frozenset[int]
    again: frozenset[int]
    unwritten: frozenset[int]
    ticks: int


class Links(NamedTuple):
    """By op: those beside it, before and behind it, on any path; by tensor, its readers and its maker."""

    beside: tuple[frozenset[int], ...]
    before: tuple[frozenset[int], ...]
    behind: tuple[frozenset[int], ...]
    readers: tuple[frozenset[int], ...]
    maker: dict[int, int]


def links_of(given: TileInstance) -> Links:
    """Return how the ops of an instance follow each other."""
    n = len(given.outputs)
    maker = {t: i for i, t in enumerate(given.outputs)}
    readers = tuple(
        frozenset(i for i, reads in enumerate(given.inputs) if t in reads) for t in range(len(given.widths))
    )
    makers = [frozenset(maker[t] for t in reads if t in maker) for reads in given.inputs]
    before: list[frozenset[int]] = []
    for i in range(n):
        before.append(makers[i].union(*(before[j] for j in makers[i])))
    behind = tuple(frozenset(j for j in range(i, n) if i in before[j]) for i in range(n))
    beside = tuple(makers[i] | readers[given.outputs[i]] for i in range(n))
    return Links(beside, tuple(before), behind, readers, maker)


def convex_sets(costs: GroupCosts, links: Links) -> Iterator[frozenset[int]]:
    """Yield the joined sets of ops that are convex and can fit, smaller ones first.

    Each is reached from smaller ones by an op at its edge: an outermost piece that one op joins to the rest
    has a first and a last op, and one of them is not that op. What is asked of the tensors that no op makes
    only grows with a set, so a set that cannot fit is in none that can.
    """
    layer = [frozenset({i}) for i in range(len(costs.given.outputs))]
    while layer:
        layer = [ops for ops in layer if costs.room(ops) <= costs.given.capacity]
        yield from layer
        wider: dict[frozenset[int], None] = {}
        for ops in layer:
            for j in sorted(frozenset().union(*(links.beside[i] for i in ops)) - ops):
                between = ((links.behind[i] & links.before[j]) | (links.behind[j] & links.before[i]) for i in ops)
                if all(inside <= ops for inside in between):
                    wider[ops | {j}] = None
        layer = list(wider)


def first_runs(
    costs: GroupCosts, links: Links, ops: frozenset[int], extra: Sequence[int]
) -> Iterator[FirstRun]:
    """Yield the least ticks of a group that runs these ops first, for each set of inputs that it makes again.

    Parameters
    ----------
    extra
        By op, ticks that running it again takes at least. A set of inputs is left out where to make each of
        them in another group is no dearer.
    """
    given, shape = costs.given, costs.shape(ops)
    if shape is None:
        return
    made = sorted(shape.inputs - given.started)
    finals = frozenset(t for t in shape.outputs & given.finals if given.area(t) < given.capacity)
    alone: float = math.inf
    for unwritten in (frozenset[int](), finals) if finals else (finals,):
        least = _cheapest(costs, links, ops, frozenset(), unwritten, alone)
        if least < alone:
            yield FirstRun(ops, frozenset(), unwritten, int(least))
            alone = least
    if len(made) > MOST_INPUTS:
        lower = least_ticks(costs, links, ops, ops, finals.union(made))
        if lower is not None:
            yield FirstRun(ops, frozenset(made), finals, lower)
        return
    for chosen in chain.from_iterable(combinations(made, n) for n in range(1, len(made) + 1)):
        again = frozenset(chosen)
        limit = alone + sum(extra[links.maker[t]] for t in again)
        for unwritten in (frozenset[int](), finals) if finals else (finals,):
            least = _cheapest(costs, links, ops, again, unwritten, limit)
            if least < limit:
                yield FirstRun(ops, again, unwritten, int(least))
                limit = least


def _cheapest(
    costs: GroupCosts,
    links: Links,
    ops: frozenset[int],
    again: frozenset[int],
    unwritten: frozenset[int],
    best: float,
) -> float:
    """Return the least ticks where just these inputs of `ops` are made again, if below `best`.

    Branch and bound over what ops that run again read: each such tensor is loaded or made again, too. Until
    that is decided it takes nothing.
    """
    given, shape = costs.given, costs.shape(ops)
    assert shape is not None
    waiting = [(0, frozenset(links.maker[t] for t in again), shape.inputs - given.started - again)]
    for _ in range(MOST_NODES):
        if not waiting:
            return best
        _, running, loaded = waiting.pop()
        group = ops | running
        inside = costs.shape(group)
        if inside is None:
            continue
        open_inputs = inside.inputs - given.started - loaded
        lower = least_ticks(costs, links, group, ops, open_inputs, unwritten)
        if lower is None or lower >= best:
            continue
        if not open_inputs:
            best = lower
            continue
        t = max(open_inputs, key=lambda t: (given.area(t), t))
        waiting += [(lower, running | {links.maker[t]}, loaded), (lower, running, loaded | {t})]
    return min([best, *(lower for lower, _, _ in waiting)])


def least_ticks(
    costs: GroupCosts,
    links: Links,
    group: frozenset[int],
    first: frozenset[int],
    free: frozenset[int],
    unwritten: frozenset[int] = frozenset(),
) -> int | None:
    """Return the least ticks of a group in any memory; None if it does not fit.

    Parameters
    ----------
    first
        Its ops whose first run it is.
    free
        Tensors that take neither space nor time.
    unwritten
        Outputs that no op reads, and that may be kept.
    """
    given, shape = costs.given, costs.shape(group)
    assert shape is not None
    loaded = {t for t in shape.inputs & given.started if links.readers[t] <= first}
    written = (given.finals & {given.outputs[i] for i in first}) - unwritten
    small = [
        t for t in sorted((shape.inputs | shape.outputs) - free - written) if given.area(t) < given.capacity
    ]
    if len(small) > MOST_CHOICES:
        chosen = [t for t in small if t in loaded][:MOST_CHOICES]
        free, small = free.union(small).difference(chosen), chosen
    best: int | None = None
    for whole in chain.from_iterable(combinations(small, n) for n in range(len(small) + 1)):
        room = given.capacity - sum(map(given.area, whole))
        absent = free.union(whole)
        arriving = sum(given.area(t) for t in whole if t in loaded)
        if room >= 0:
            tiles = costs.least(group, shape.inputs & absent, arriving, room, len(shape.outputs - absent))
            if tiles is not None:
                best = tiles[0] if best is None else min(best, tiles[0])
    return best
