r"""Stages of several tenants: networks that have nothing to do with each other, cut at pointers.

As in the scheduler for multi-tenant inference of Yu, Bray, Wang, Shangguan, Tang, Liu and Chen (ICCAD 2021):
tenant k has :math:`n_k` ops in an order, pointers :math:`0 = p_{k0} \le \dots \le p_{kS} = n_k` cut it, and
stage s runs the pieces :math:`p_{k,s-1} \dots p_{ks}` of all tenants beside each other. The groups are the
weakly connected parts of the pieces. The sum of the prices of the stages shall be least.

There the tenants are chains, which have one order and pieces of one group. A tenant here is a part of the
graph that is connected. Its order is that of the stages that the program of IOS (`stages`, at most three ops
a group, eight groups) has for the tenant alone, so that each of these is a piece; where that takes longer
than `SHARE` of the time, that of the graph.

``by=program``
    Over the positions: with T(p, q) the price of the stage between two vectors of pointers, D[0] = 0 and
    :math:`D[q] = \min_{p \le q,\, p \ne q} D[p] + T(p, q)`. There are :math:`\prod_k (n_k + 1)` vectors and
    :math:`\prod_k \binom{n_k + 2}{2} - \prod_k (n_k + 1)` stages. A vector is a set of executed ops, so the
    memory counts exactly. Where all tenants are chains, this is the program of `stages` with all endings: the
    optimum, where `stages.is_plain` holds. Else it is the least of these orders, and proves nothing.

``by=search``
    Annealing over sequences of vectors of pointers, by seed: a vector is put elsewhere between its
    neighbours, taken out, or put in. The paper searches by measurements on a device; here it is the price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import pairwise
from math import exp, prod
from random import Random
from typing import Any

import numpy as np

from ...formulations.model import BuildTimeout, ticker
from ...models.arrays import Integers
from ...models.derived.precedence import bits
from ...models.problems.stream_answers import Stages
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import raise_first_bound
from .events import refuse_orders
from .memory import is_too_little
from .stages import (
    MOST_OPS,
    Pruning,
    StageBlock,
    blocks_of,
    device_price,
    is_plain,
    lives_of,
    parts_of,
    program,
)

Pointers = tuple[int, ...]
"""The position in each tenant: how many of its ops have run."""

NEVER = 2**62
"""Price in ns of a stage that may not be: more than all ops of a graph that `MOST_PRICE` admits."""
MOST_PRICE = 2**60
"""Sum of durations times parts, and of bytes, up to which tables are of 64 bits; above, of whole numbers."""
MOST_VECTORS = 5_000_000
"""Vectors of pointers up to which the program is begun; two tables of 8 bytes for each take 80 MB."""
SHARE = 0.25
"""Of the time left, what finding the orders of all tenants may take; chosen by hand."""


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A connected part of a graph in an order, and its pieces from position a to b, a row for each a.

    Attributes
    ----------
    order
        Its ops.
    longest, serial, area, groups
        Of a piece: ns of the longest group and of all, parts times ns, and the number of groups.
    held
        Bytes of the tenant's own tensors, and of workspace, that a stage with this piece holds.
    """

    order: tuple[int, ...]
    longest: Integers
    serial: Integers
    area: Integers
    groups: Integers
    held: Integers

    @property
    def is_chain(self) -> bool:
        """Whether each op must follow the one before it: every piece is one group."""
        return int(self.groups.max(initial=0)) <= 1


def solve_tenants(problem: Streams, context: Context) -> Outcome:
    """Offer the best stages of tenants that the program or the search finds."""
    refuse_orders(problem)
    if (count := len(problem.graph.ops)) > MOST_OPS:
        return Outcome(detail=f"found {count} ops, expected at most {MOST_OPS}")
    raise_first_bound(problem, context)
    if is_too_little(problem):
        return Outcome(infeasible=True, detail="what is there from first to last is above the memory")
    until = context.elapsed() + SHARE * context.remaining()
    try:
        tenants = tenants_of(problem, lambda: context.expired, lambda: context.elapsed() > until)
    except BuildTimeout:
        return Outcome(reason="time", detail="the time was up before there were tables of pieces")
    exact = all(tenant.is_chain for tenant in tenants)
    if context.options["by"] == "search":
        path = search(problem, tenants, context.seed, context.options["moves"], lambda: context.expired)
        if path is not None:
            context.offer(_stages(problem, tenants, path))
        detail = "" if path is not None else "no stages within the memory were found"
        return Outcome(reason="time" if context.expired else None, detail=detail)
    if (vectors := prod(len(tenant.order) + 1 for tenant in tenants)) > MOST_VECTORS:
        detail = f"found {vectors:,} vectors of pointers, expected at most {MOST_VECTORS:,}, or by=search"
        return Outcome(detail=detail)
    try:
        path, transitions = program_of_tenants(problem, tenants, lambda: context.expired)
    except BuildTimeout:
        return Outcome(reason="time", detail="the time was up; by=search takes less")
    if path is None:
        detail = "no stages of these tenants in these orders are within the memory"
        return Outcome(infeasible=exact and is_plain(problem), detail=detail)
    answer = _stages(problem, tenants, path)
    context.offer(answer)
    if exact and is_plain(problem):
        context.raise_bound(problem.evaluate(answer), "exact", kind="dynamic program")
    return Outcome(detail=f"{transitions:,} stages", facts={"transitions": transitions})


def tenants_of(
    problem: Streams,
    expired: Callable[[], bool] = lambda: False,
    hurried: Callable[[], bool] = lambda: False,
) -> list[Tenant]:
    """Return the connected parts of a graph, each in its order; once `hurried`, in that of the graph.

    Raises
    ------
    BuildTimeout
        If the time is up.
    """
    block, tick = _whole(problem), ticker(expired)
    return [
        _tenant(problem, block, _order(problem, bits(part), hurried), tick)
        for part in parts_of(block, block.mask)
    ]


def is_one_network(problem: Streams) -> bool:
    """Return whether a graph has no two parts that have nothing to do with each other."""
    block = _whole(problem)
    return len(parts_of(block, block.mask)) < 2


def _whole(problem: Streams) -> StageBlock:
    return StageBlock(
        graph=problem.graph,
        device=problem.device,
        memory=problem.memory,
        ops=range(len(problem.graph.ops)),
        earlier=0,
        lives=lives_of(problem.graph),
    )


def _order(problem: Streams, ops: Sequence[int], hurried: Callable[[], bool]) -> tuple[int, ...]:
    """Return the ops of a tenant in the order of its own best stages, group by group."""
    alone, order = replace(problem, memory=None), []
    pruning = Pruning(most_ops=3, most_groups=problem.streams or 8)
    try:
        for part in blocks_of(problem.graph, ops):
            stages = program(alone, part, pruning, lives=(), expired=hurried).stages
            order += [i for stage in stages for group in stage for i in bits(group)]
    except BuildTimeout:
        return tuple(ops)
    return tuple(order)


def _tenant(problem: Streams, block: StageBlock, order: Sequence[int], tick: Callable[[], None]) -> Tenant:
    """Return the tables of a tenant's pieces."""
    n, near = len(order), block.neighbours
    most = max(sum(block.time.values()) * block.device.parts, sum(x.nbytes for x in problem.graph.tensors))
    kind = np.int64 if most <= MOST_PRICE else object
    longest, serial, area, groups, held = (np.zeros((n + 1, n + 1), dtype=kind) for _ in range(5))
    for a in range(n):
        parts: list[tuple[int, int, int]] = []  # ops, ns, workspace
        work = 0
        for b, i in enumerate(order[a:], start=a + 1):
            tick()
            joined = [x for x in parts if x[0] & near[i]]
            parts = [x for x in parts if not x[0] & near[i]]
            space = max([block.workspace.get(i, 0), *(x[2] for x in joined)])
            parts.append(
                (1 << i | sum(x[0] for x in joined), block.time[i] + sum(x[1] for x in joined), space)
            )
            work += block.work[i]
            longest[a, b], serial[a, b] = max(x[1] for x in parts), sum(x[1] for x in parts)
            area[a, b], groups[a, b], held[a, b] = work, len(parts), sum(x[2] for x in parts)
    place, own = {i: k for k, i in enumerate(order)}, sum(1 << i for i in order)
    for nbytes, writers, users, initial, final in block.lives:
        if users and not users & ~own:
            first = 0 if initial else min(place[i] for i in bits(writers)) + 1
            last = n if final else max(place[i] for i in bits(users))
            held[: last + 1, first:] += nbytes
    return Tenant(order=tuple(order), longest=longest, serial=serial, area=area, groups=groups, held=held)


def _stages(problem: Streams, tenants: Sequence[Tenant], path: Sequence[Pointers]) -> Stages:
    block = _whole(problem)
    stages = []
    for p, q in pairwise(path):
        pieces = (t.order[a:b] for t, a, b in zip(tenants, p, q, strict=True))
        ops = sum(1 << i for piece in pieces for i in piece)
        stages.append(tuple(tuple(bits(group)) for group in parts_of(block, ops)))
    return Stages(stages=tuple(stages))


Price = Callable[[Pointers, Sequence[Any]], Any]
"""From a vector and positions behind it, integers or arrays that broadcast, to prices; `NEVER`: refused."""


def pricing(problem: Streams, tenants: Sequence[Tenant]) -> Price:
    """Return the function that prices the stages between a vector and others."""
    device, memory, streams = problem.device, problem.memory, problem.streams
    everyone = _shared(problem, tenants)

    def price(p: Pointers, ends: Sequence[Any]) -> Any:
        pieces = [*zip(tenants, p, ends, strict=True)]
        longest = reduce(np.maximum, (t.longest[a, b] for t, a, b in pieces))
        serial, area = sum(t.serial[a, b] for t, a, b in pieces), sum(t.area[a, b] for t, a, b in pieces)
        groups = sum(t.groups[a, b] for t, a, b in pieces)
        refused = groups == 0
        if streams is not None:
            refused = refused | (groups > streams)
        if memory is not None:
            left = memory - sum(
                nbytes for nbytes, last in everyone if any(at >= a for at, a in zip(last, p, strict=True))
            )
            refused = refused | (sum(t.held[a, b] for t, a, b in pieces) > left)
        least = np.maximum(longest * device.parts, area)
        return np.where(refused, NEVER, device_price(device, least, serial, groups))

    return price


def _shared(problem: Streams, tenants: Sequence[Tenant]) -> list[tuple[int, list[int]]]:
    """Return the bytes of tensors that are no tenant's own, and where each tenant uses them last, else -1.

    They are there from the beginning, as what one tenant writes for another would connect the two; those that
    are final are used behind the end.
    """
    sets = [sum(1 << i for i in tenant.order) for tenant in tenants]
    shared = []
    for nbytes, _, users, _, final in lives_of(problem.graph):
        if not any(users and not users & ~own for own in sets):
            last = [
                len(t.order)
                if final
                else max((k for k, i in enumerate(t.order) if users >> i & 1), default=-1)
                for t in tenants
            ]
            shared.append((nbytes, last))
    return shared


def program_of_tenants(
    problem: Streams, tenants: Sequence[Tenant], expired: Callable[[], bool] = lambda: False
) -> tuple[list[Pointers] | None, int]:
    """Return the vectors of an optimum, None if there are none within the memory; and the stages looked at.

    Raises
    ------
    BuildTimeout
        If the time is up.
    """
    if not tenants:
        return [()], 0
    price, tick = pricing(problem, tenants), ticker(expired)
    shape = tuple(len(tenant.order) + 1 for tenant in tenants)
    best: Any = np.full(shape, NEVER, dtype=tenants[0].longest.dtype)
    came = np.zeros(shape, dtype=np.int64)
    last = tuple(n - 1 for n in shape)
    best[tuple(0 for _ in shape)] = 0
    transitions = 0
    for number, p in enumerate(np.ndindex(shape)):  # what precedes a vector comes before it
        if best[p] >= NEVER:
            continue
        tick()
        window = tuple(slice(a, None) for a in p)
        costs = price(p, np.ix_(*(np.arange(a, n) for a, n in zip(p, shape, strict=True))))
        transitions += int(np.count_nonzero(costs < NEVER))
        better = costs + best[p] < best[window]
        best[window][better] = (costs + best[p])[better]
        came[window][better] = number
    if best[last] >= NEVER:
        return None, transitions
    path = [last]
    while any(path[-1]):
        path.append(tuple(map(int, np.unravel_index(came[path[-1]], shape))))
    return path[::-1], transitions


def search(
    problem: Streams,
    tenants: Sequence[Tenant],
    seed: int,
    moves: int,
    expired: Callable[[], bool] = lambda: False,
) -> list[Pointers] | None:
    """Return the best vectors that annealing finds; None if none were within the memory.

    It begins with the stages of one op of each tenant; a stage that may not be costs more than all ops.
    """
    rng = Random(seed)
    lengths = [len(tenant.order) for tenant in tenants]
    too_much = 2 * (sum(problem.durations) + problem.sync_ns) + 1
    priced = pricing(problem, tenants)

    @cache
    def given(p: Pointers, q: Pointers) -> int:
        return int(priced(p, q))

    def price(points: Sequence[Pointers]) -> int:
        return sum(min(given(p, q), too_much) for p, q in pairwise(points) if p != q)

    at = [tuple(min(s, n) for n in lengths) for s in range(max(lengths, default=0) + 1)]
    cost = price(at)
    best, least = list(at), cost
    warmth = sum(problem.durations) / max(1, len(problem.durations))
    for move in range(moves):
        if len(problem.durations) < 2 or expired():
            break
        k = rng.randrange(1, len(at))
        old = at[k : k + 1] if k < len(at) - 1 and rng.random() < 0.7 else []
        low, high = at[k - 1], at[k + len(old)]
        new = [] if old and rng.random() < 0.2 else [_between(low, high, old, rng)]
        change = price([low, *new, high]) - price([low, *old, high])
        if change <= 0 or rng.random() < exp(-change / (warmth * (1 - move / moves))):
            at[k : k + len(old)] = [p for p in new if p not in (low, high)]
            cost += change
            if cost < least:
                best, least = list(at), cost
    return best if all(given(p, q) < NEVER for p, q in pairwise(best)) else None


def _between(low: Pointers, high: Pointers, old: Sequence[Pointers], rng: Random) -> Pointers:
    """Return a vector between two: another one with one pointer moved, or any."""
    drawn = tuple(rng.randint(a, b) for a, b in zip(low, high, strict=True))
    if not old:
        return drawn
    k = rng.randrange(len(low))
    return (*old[0][:k], drawn[k], *old[0][k + 1 :])
