r"""The least cost of running a set of ops for the first time, in one group, whatever else the group runs.

*First runs.* In an answer, each op runs for the first time in one group. P: the ops of a group g whose first
run that is; these sets partition all ops. Let R be the other ops of g, which run again.

1. An op of R that reads what an op of P makes in g would have run before g, and so would the op of P. So no
   op of R is behind one of P; and P is convex: what lies on a path between two of its ops is in P.
2. Hence the outputs of P, the parts of tensors that tiles ask of it, and its split MatMuls are those that P
   has as a group of its own. Ops of R that feed P add compute, and slices of what they read. The others only
   add to both. Steps that MatMuls of R alone divide a tile into make it no shorter. So for an R of ops that
   feed P, whose tensors P then does not load, a group of P and R is in some memory as cheap as g:
   `first_runs`. A MatMul of R that feeds one that does not feed P is not split: what it reads counts nothing
   then, but compute does.
3. A tensor that no op makes, all of whose readers are in P, was read by no group before g: it is loaded in g,
   in slices or whole. Another one may be there already if it is smaller than the capacity, and takes its
   size. Where more than `MOST_CHOICES` sets of them fit they take nothing, which costs no more.
4. P need not be joined by itself: ops of R may join its pieces. Each piece then reads what g makes again, and
   an op that feeds it feeds one that is neither before nor behind nor in it. Steps take at least compute, and
   at least their traffic, each at least the sum over the pieces: `in_pieces`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations
from typing import NamedTuple

from ...models.tile_rules import MATMUL, TileInstance
from .groups import GroupCosts

MOST_CHOICES = 24
"""Largest number of sets of small tensors of a group that are all tried as kept; chosen by hand."""

MOST_INPUTS = 6
"""Largest number of inputs made by ops whose 64 subsets are all tried: the others are bounded together."""

MOST_FINALS = 2
"""Largest number of finals of a group whose subsets are all tried as kept: of more, all count as written."""

MOST_NODES = 300
"""Largest number of nodes of a search for what runs again: what is open then is bounded; chosen by hand."""


class FirstRun(NamedTuple):
    """Ops that run for the first time in a group, and the ticks of that group at least.

    Attributes
    ----------
    again
        Inputs of these ops that the group makes again; if there are more than `MOST_INPUTS`, that it may.
    unwritten
        Tensors that the ops make, no op reads, and the group keeps instead of writing.
    uncharged
        Those of which `ticks` have no writing: those unwritten, or all that may be kept.
    """

    ops: frozenset[int]
    again: frozenset[int]
    unwritten: frozenset[int]
    uncharged: frozenset[int]
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
                between = (
                    (links.behind[i] & links.before[j]) | (links.behind[j] & links.before[i]) for i in ops
                )
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
        By op, ticks for which the program of `lowtide.solvers.tiles.prices` runs it again. To make inputs
        again is stated as no dearer than that: a lower cost keeps the bound valid.
    """
    given, shape = costs.given, costs.shape(ops)
    if shape is None:
        return
    made = sorted(shape.inputs - given.started)
    finals = frozenset(t for t in shape.outputs & given.finals if given.area(t) < given.capacity)
    if len(made) > MOST_INPUTS:
        lower = least_ticks(costs, links, ops, ops, finals.union(made), finals)
        if lower is not None:
            yield FirstRun(ops, frozenset(made), frozenset(), finals, lower)
    few = len(finals) <= MOST_FINALS
    for uncharged in _subsets(sorted(finals), len(finals)) if few else [finals]:
        limit: float = math.inf
        for again in _subsets(made, len(made) if len(made) <= MOST_INPUTS else 0):
            most = limit + sum(extra[links.maker[t]] for t in again)
            least = min(most, _cheapest(costs, links, ops, again, uncharged, most))
            limit = limit if again else least
            if least < math.inf:
                yield FirstRun(ops, again, uncharged if few else frozenset(), uncharged, int(least))


def _subsets(tensors: Sequence[int], most: int) -> Iterator[frozenset[int]]:
    """Yield the sets of no more than so many of the tensors, smaller ones first."""
    for count in range(most + 1):
        yield from map(frozenset, combinations(tensors, count))


def _cheapest(
    costs: GroupCosts,
    links: Links,
    ops: frozenset[int],
    again: frozenset[int],
    unwritten: frozenset[int],
    best: float,
) -> float:
    """Return the least ticks where just these inputs of `ops` are made again, if below `best`.

    Best-first search over what ops that run again read: each such tensor is loaded or made again, too. Until
    that is decided it takes nothing; what is left open after `MOST_NODES` nodes bounds the rest. An op that
    may still run again and reads a MatMul of the group would make that one whole: until that is decided,
    nothing but what bounded the set before bounds it, whether or not it has one depth.
    """
    given, shape = costs.given, costs.shape(ops)
    assert shape is not None
    heap: list[tuple[float, int, frozenset[int], frozenset[int], frozenset[int]]] = []
    free = least_ticks(costs, links, ops, ops, again, unwritten)
    if free is None or free >= best:
        return best
    start = frozenset(links.maker[t] for t in again)
    new: list[tuple[frozenset[int], frozenset[int], float]] = [
        (start, shape.inputs - given.started - again, free)
    ]
    count = 0
    for _ in range(MOST_NODES):
        for running, loaded, parent in new:
            group = ops | running
            beside = _beside_ticks(costs, links, ops, running)
            if beside is not None and beside < best:
                count += 1
                heappush(heap, (max(parent, beside), count, running, loaded, frozenset()))
            read = {t for i in group for t in given.inputs[i]} - {given.outputs[i] for i in group}
            undecided = frozenset(read - given.started - loaded)
            behind = {m for t in undecided for m in running & links.before[links.maker[t]]}
            if any(given.op_types[m] == MATMUL for m in behind):
                lower: float | None = parent
            elif costs.shape(group) is not None:
                lower = least_ticks(costs, links, group, ops, undecided, unwritten)
            else:
                continue
            if lower is not None and lower < best:
                count += 1
                heappush(heap, (lower, count, running, loaded, undecided))
        if not heap or not heap[0][4]:
            break
        lower, _, running, loaded, undecided = heappop(heap)
        t = max(undecided, key=lambda t: (given.area(t), t))
        new = [(running, loaded | {t}, lower), (running | {links.maker[t]}, loaded, lower)]
    return heap[0][0] if heap else best


def _beside_ticks(
    costs: GroupCosts, links: Links, ops: frozenset[int], running: frozenset[int]
) -> int | None:
    """Return the least compute where a MatMul that runs again feeds one beside `ops`; None if none can.

    That one makes or leads to an output of the shape of those of `ops`, which no op of the group reads.
    """
    given, group = costs.given, ops | running
    read = {t for i in group for t in given.inputs[i]}
    shape = next(given.shape(given.outputs[i]) for i in ops if given.outputs[i] not in read)
    beside: set[int] = set()
    for m in running:
        if given.op_types[m] == MATMUL:
            near = links.behind[m].difference(group, *(links.behind[i] for i in ops))
            for r in near:
                if given.outputs[r] not in read and given.shape(given.outputs[r]) == shape:
                    beside |= near & (links.before[r] | {r})
    added = [given.base_costs[b] for b in beside if given.op_types[b] == MATMUL]
    if not added:
        return None
    tiles = -(-shape[0] // given.native[0]) * -(-shape[1] // given.native[1])
    return (min(added) + sum(given.base_costs[i] for i in group)) * tiles * costs.problem.scale


def in_pieces(costs: GroupCosts, links: Links, run: FirstRun) -> tuple[int, int, int]:
    """Return what these ops take at least in a group that may run others first, not joined to them.

    Ticks of compute, half of both, and of traffic; all are those of the group where it cannot.
    """
    given, scale = costs.given, costs.problem.scale
    before = frozenset().union(*(links.before[i] for i in run.ops))
    near = before.union(run.ops, *(links.behind[i] for i in run.ops))
    if not run.again or all(links.readers[given.outputs[a]] <= near for a in before):
        return run.ticks, run.ticks, run.ticks
    surely = run.again if len(run.again) <= MOST_INPUTS else frozenset[int]()
    own = {t for t in surely if links.readers[t] <= run.ops}
    group = run.ops | {links.maker[t] for t in own}
    shape = costs.shape(group)
    if shape is None:
        return 0, 0, 0
    tiles = -(-shape.width // given.native[0]) * -(-shape.height // given.native[1])
    compute = tiles * scale * sum(given.base_costs[i] for i in group)
    for t in surely - own:  # pieces have different readers
        part = tiles * scale * given.base_costs[links.maker[t]] * len(links.readers[t] & run.ops)
        compute += part // len(links.readers[t])
    made = run.again | {u for t in own for u in given.inputs[links.maker[t]] if u not in given.started}
    free = made | {t for t in shape.inputs if not links.readers[t] <= group}
    moved = least_ticks(costs, links, group, run.ops, free, run.uncharged, computes=False) or 0
    return min(run.ticks, compute), min(run.ticks, (compute + moved) // 2), min(run.ticks, moved)


def least_ticks(
    costs: GroupCosts,
    links: Links,
    group: frozenset[int],
    first: frozenset[int],
    free: frozenset[int],
    unwritten: frozenset[int] = frozenset(),
    *,
    computes: bool = True,
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
    computes
        Whether ops take time; else only transfers do.
    """
    given, shape = costs.given, costs.shape(group)
    assert shape is not None
    loaded = {t for t in shape.inputs & given.started if links.readers[t] <= first}
    written = (given.finals & {given.outputs[i] for i in first}) - unwritten
    small = [
        t for t in sorted((shape.inputs | shape.outputs) - free - written) if given.area(t) < given.capacity
    ]
    choices = _fitting(given, small)
    if choices is None:
        free, small = free.union(small) - loaded, [t for t in small if t in loaded]
        choices = _fitting(given, small)
    if choices is None:
        free, choices = free.union(small), [((), 0)]
    best: int | None = None
    for whole, size in choices:
        absent = free.union(whole)
        arriving = sum(given.area(t) for t in whole if t in loaded)
        tiles = costs.least(
            group,
            shape.inputs & absent,
            arriving,
            given.capacity - size,
            len(shape.outputs - absent),
            computes=computes,
        )
        if tiles is not None and (best is None or tiles[0] < best):
            best = tiles[0]
    return best


def _fitting(given: TileInstance, tensors: list[int]) -> list[tuple[tuple[int, ...], int]] | None:
    """Return the sets of tensors that fit together, and their elements; None if there are too many."""
    sets: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for t in tensors:
        area = given.area(t)
        sets += [((*chosen, t), size + area) for chosen, size in sets if size + area <= given.capacity]
        if len(sets) > MOST_CHOICES:
            return None
    return sets
