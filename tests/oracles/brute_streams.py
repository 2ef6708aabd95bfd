"""Streams and stages by enumeration, from the raw fields of a graph, in fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil

from lowtide.models.graph import Graph
from tests.oracles.brute_force import must_precede

Parts = list[list[int]]


def closure(graph: Graph) -> set[tuple[int, int]]:
    """Return the pairs (i, j) of ops with i before j in every order."""
    found = set(must_precede(graph))
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


def covers(graph: Graph) -> set[tuple[int, int]]:
    """Return the pairs of the closure with nothing between them."""
    pairs = closure(graph)
    return {(a, b) for a, b in pairs if not any((a, c) in pairs and (c, b) in pairs for c in range(b))}


def partitions(items: Sequence[int]) -> Iterator[Parts]:
    """Yield every partition of a set."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for count in range(len(rest) + 1):
        for chosen in combinations(rest, count):
            others = [x for x in rest if x not in chosen]
            for more in partitions(others):
                yield [[first, *chosen], *more]


def fewest_synchronisations(graph: Graph) -> dict[int, int]:
    """Return, by number of streams that are chains, the fewest cover edges that join two of them."""
    pairs, edges = closure(graph), covers(graph)
    best: dict[int, int] = {}
    for parts in partitions(range(len(graph.ops))):
        chains = [sorted(part, key=lambda i: sum((j, i) in pairs for j in part)) for part in parts]
        if all((a, b) in pairs for chain in chains for a, b in combinations(chain, 2)):
            stream = {i: k for k, chain in enumerate(chains) for i in chain}
            apart = sum(stream[a] != stream[b] for a, b in edges)
            best[len(chains)] = min(best.get(len(chains), apart), apart)
    return best


def price(graph: Graph, groups: Parts, model: str, parts: int, sync_ns: int) -> int:
    """Return the nanoseconds of a stage."""
    alone = [[graph.ops[i].duration_ns for i in group] for group in groups]
    share = [[min(graph.ops[i].share or parts, parts) for i in group] for group in groups]
    area = sum(
        Fraction(u * w, parts)
        for us, ws in zip(share, alone, strict=True)
        for u, w in zip(us, ws, strict=True)
    )
    fluid = max(Fraction(max(map(sum, alone))), area)
    time = fluid if model == "fluid" else (sum(map(sum, alone)) + fluid) / 2
    return ceil(time) + (sync_ns if len(groups) > 1 else 0)


def stage_bytes(graph: Graph, past: set[int], groups: Parts) -> int:
    """Return what a stage holds after a set of ops, however its groups overlap."""
    now = past | {i for group in groups for i in group}
    held = 0
    for t, tensor in enumerate(graph.tensors):
        writers = {i for i, op in enumerate(graph.ops) if t in op.writes}
        users = writers | {i for i, op in enumerate(graph.ops) if t in op.reads}
        there = bool(writers & now) or (tensor.initial and bool(users or tensor.final))
        held += tensor.nbytes if there and (tensor.final or users - past) else 0
    return held + sum(max(graph.ops[i].workspace for i in group) for group in groups)


def fastest_stages(
    graph: Graph,
    model: str,
    parts: int,
    *,
    sync_ns: int = 0,
    memory: int | None = None,
    streams: int | None = None,
) -> int | None:
    """Return the least time of any stages of any groups; None if none are within the memory."""
    pairs = closure(graph)
    n = len(graph.ops)

    def least(past: frozenset[int]) -> int | None:
        if len(past) == n:
            return 0
        if past in known:
            return known[past]
        best: int | None = None
        rest = [i for i in range(n) if i not in past]
        for count in range(1, len(rest) + 1):
            for stage in combinations(rest, count):
                after = past | set(stage)
                if any(b in after and a not in after for a, b in pairs):
                    continue
                for groups in partitions(stage):
                    part = {i: k for k, group in enumerate(groups) for i in group}
                    if any(a in part and b in part and part[a] != part[b] for a, b in pairs):
                        continue
                    if streams is not None and len(groups) > streams:
                        continue
                    if memory is not None and stage_bytes(graph, set(past), groups) > memory:
                        continue
                    more = least(frozenset(after))
                    if more is not None:
                        cost = price(graph, groups, model, parts, sync_ns) + more
                        best = cost if best is None else min(best, cost)
        known[past] = best
        return best

    known: dict[frozenset[int], int | None] = {}
    return least(frozenset())
