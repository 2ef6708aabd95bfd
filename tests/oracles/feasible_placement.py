"""Exhaustive search for any plan of a small placement problem on one processor, one action at a time.

Whole tensors, one copy or op after the other. Every plan of whole tensors leads to such a sequence: take its
actions in the order of their ends; what is allocated then is no more than what the plan has allocated. So
for whole tensors the answer is exact, and for plans in bytes "yes" is. Under ``replace`` ops are taken at
their starts, where what they only read may go before what they write is allocated. It reads the raw fields
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement

State = tuple[int, tuple[int, ...]]
"""The next op, and per tensor the tiers that hold its current version, as bits."""


class TooLarge(Exception):
    """More states than the search may look at."""


def is_feasible(problem: Placement, most: int = 200_000) -> bool:
    """Return whether there is a plan.

    Raises
    ------
    TooLarge
        If more than `most` states were seen before that is known.
    """
    seen = 0
    starts = sorted(_starts(problem), key=lambda some: sum(x.bit_count() for x in some))
    if not problem.periodic:
        return _search(problem, starts, None, most)[0]
    for start in starts:
        found, count = _search(problem, [start], start, most - seen)
        seen += count
        if found:
            return True
    return False


def _starts(problem: Placement) -> Iterator[tuple[int, ...]]:
    graph, names = problem.graph, [tier.name for tier in problem.machine.tiers]
    choices: list[list[int]] = []
    for t, tensor in enumerate(graph.tensors):
        if not tensor.initial:
            choices.append([0])
            continue
        allowed = sum(1 << names.index(x) for x in problem.may_start(str(tensor.kind)))
        some = [x for x in range(1, allowed + 1) if x & ~allowed == 0]
        lasting = problem.periodic and tensor.final  # its state at time 0 is that at the end
        choices.append(some if lasting or is_needed(graph, t, 0) else [0])
    for start in product(*choices):
        if _fits(problem, start):
            yield start


def is_needed(graph: lt.Graph, t: int, k: int) -> bool:
    """Return whether the content before op k is read at it or later, or must be kept."""
    for op in graph.ops[k:]:
        if t in op.reads:
            return True
        if t in op.writes:
            return False
    return graph.tensors[t].final


def _fits(problem: Placement, state: tuple[int, ...], beside: int = 0) -> bool:
    used = [0] * len(problem.machine.tiers)
    used[0] = beside
    for tensor, bits in zip(problem.graph.tensors, state, strict=True):
        for tier in range(len(used)):
            if bits >> tier & 1:
                used[tier] += tensor.nbytes
    return all(
        tier.capacity is None or n <= tier.capacity
        for tier, n in zip(problem.machine.tiers, used, strict=True)
    )


def _search(
    problem: Placement, starts: list[tuple[int, ...]], goal: tuple[int, ...] | None, most: int
) -> tuple[bool, int]:
    graph = problem.graph
    n, many = len(graph.ops), len(graph.tensors)
    names = [tier.name for tier in problem.machine.tiers]
    ways = [(names.index(c.src), names.index(c.dst)) for c in problem.machine.channels]
    need = [[is_needed(graph, t, k) for t in range(many)] for k in range(n + 1)]

    def done(where: tuple[int, ...]) -> bool:
        if goal is None:
            return all(x or not graph.tensors[t].final for t, x in enumerate(where))
        return all(
            where[t] & goal[t] == goal[t] if x.initial else where[t] or not x.final
            for t, x in enumerate(graph.tensors)
            if x.final
        )

    stack: list[State] = [(0, start) for start in starts]
    seen = set(stack)
    while stack:
        k, where = stack.pop()
        if k == n and done(where):
            return True, len(seen)
        following: list[State] = []
        for t, bits in enumerate(where):
            for tier in range(len(names)):
                less = bits & ~(1 << tier)
                if bits >> tier & 1 and (less or not need[k][t]):
                    following.append((k, (*where[:t], less, *where[t + 1 :])))
            for src, dst in ways:
                if bits >> src & 1 and not bits >> dst & 1:
                    more = (*where[:t], bits | 1 << dst, *where[t + 1 :])
                    if _fits(problem, more):
                        following.append((k, more))
        if k < n:
            op = graph.ops[k]
            if all(where[t] & 1 for t in op.reads):
                # copies elsewhere of what it writes are stale from its start on, and can go before it
                choices = [[1] if t in op.writes else [x] for t, x in enumerate(where)]
                if graph.accounting is Accounting.REPLACE:
                    for t in {*op.reads} - {*op.writes}:
                        less = where[t] & ~1
                        choices[t] += [less] if less or not need[k + 1][t] else []
                following += [
                    (k + 1, some) for some in product(*choices) if _fits(problem, some, op.workspace)
                ]
        for state in following:
            if state not in seen:
                seen.add(state)
                stack.append(state)
                if len(seen) > most:
                    raise TooLarge
    return False, len(seen)
