r"""Stages of several tenants: chains that have nothing to do with each other, cut at pointers.

As in the scheduler for multi-tenant inference of Yu, Bray, Wang, Shangguan, Tang, Liu and Chen (ICCAD 2021):
pointers :math:`0 = p_{k0} \le p_{k1} \le \dots \le p_{kS} = n_k` cut chain k of :math:`n_k` ops, and stage s
runs the pieces :math:`p_{k,s-1} \dots p_{ks}` of all chains beside each other, each a group. The sum of the
prices of the stages shall be least.

``by=program``
    Over the positions: with T(p, q) the price of the stage between two vectors of pointers, D[0] = 0 and
    :math:`D[q] = \min_{p \le q,\, p \ne q} D[p] + T(p, q)`. There are :math:`\prod_k (n_k + 1)` vectors and
    :math:`\prod_k \binom{n_k + 2}{2} - \prod_k (n_k + 1)` stages. A vector is a set of executed ops, so the
    memory counts exactly, and this is the program of `stages` with all endings: the optimum, where
    `stages.is_plain` holds.

``by=search``
    Annealing over sequences of vectors of pointers, by seed: a vector is put elsewhere between its
    neighbours, taken out, or put in. The paper searches by measurements on a device; here it is the price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise, product
from math import exp
from random import Random

from ...formulations.model import BuildTimeout, ticker
from ...models.derived.streams import cover_edges
from ...models.errors import UsageError
from ...models.graph import Graph
from ...models.problems.stream_answers import Stages
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import raise_first_bound
from .events import refuse_orders
from .memory import is_too_little
from .stages import MOST_OPS, StageBlock, is_plain, lives_of

Pointers = tuple[int, ...]
"""The position in each chain: how many of its ops have run."""


def solve_tenants(problem: Streams, context: Context) -> Outcome:
    """Offer the best stages of chains that the program or the search finds."""
    refuse_orders(problem)
    if (count := len(problem.graph.ops)) > MOST_OPS:
        return Outcome(detail=f"found {count} ops, expected at most {MOST_OPS}")
    chains = chains_of(problem.graph)
    raise_first_bound(problem, context)
    if is_too_little(problem):
        return Outcome(infeasible=True, detail="what is there from first to last is above the memory")
    if context.options["by"] == "search":
        found = search(problem, chains, context.seed, context.options["moves"], lambda: context.expired)
        if found is not None:
            context.offer(_stages(chains, found))
        detail = "" if found is not None else "no stages within the memory were found"
        return Outcome(reason="time" if context.expired else None, detail=detail)
    try:
        found, transitions = program_of_chains(problem, chains, lambda: context.expired)
    except BuildTimeout:
        return Outcome(reason="time", detail="the time was up; by=search takes less")
    if found is None:
        return Outcome(infeasible=is_plain(problem), detail="no stages of these chains are within the memory")
    answer = _stages(chains, found)
    context.offer(answer)
    if is_plain(problem):
        context.raise_bound(problem.evaluate(answer), "exact", kind="dynamic program")
    return Outcome(detail=f"{transitions:,} stages", facts={"transitions": transitions})


def chains_of(graph: Graph) -> list[list[int]]:
    """Return the chains that a graph falls into.

    Raises
    ------
    UsageError
        If a part of the graph is no chain.
    """
    later: dict[int, int] = {}
    before: dict[int, int] = {}
    for i, j in cover_edges(graph):
        if i in later or j in before:
            k = i if i in later else j
            raise UsageError(
                f"tenants: found op {k} {graph.ops[k].name!r} with several neighbours on a side, expected "
                "chains of ops that do not depend on each other"
            )
        later[i], before[j] = j, i
    chains = []
    for i in range(len(graph.ops)):
        if i not in before:
            chain = [i]
            while chain[-1] in later:
                chain.append(later[chain[-1]])
            chains.append(chain)
    return chains


def _stages(chains: Sequence[Sequence[int]], found: Sequence[Pointers]) -> Stages:
    cut = (
        (tuple(chain[a:b]) for chain, a, b in zip(chains, p, q, strict=True) if a < b)
        for p, q in pairwise(found)
    )
    return Stages(stages=tuple(map(tuple, cut)))


def pricing(problem: Streams, chains: Sequence[Sequence[int]]) -> Callable[[Pointers, Pointers], int | None]:
    """Return the function that prices the stage between two vectors; None if it may not be."""
    block = StageBlock(
        graph=problem.graph,
        device=problem.device,
        memory=problem.memory,
        ops=range(len(problem.graph.ops)),
        earlier=0,
        lives=lives_of(problem.graph),
    )
    times = [[0, *accumulate(block.time[i] for i in chain)] for chain in chains]
    works = [[0, *accumulate(block.work[i] for i in chain)] for chain in chains]
    sets = [[0, *accumulate((1 << i for i in chain), int.__or__)] for chain in chains]

    def price(p: Pointers, q: Pointers) -> int | None:
        moved = [(k, a, b) for k, (a, b) in enumerate(zip(p, q, strict=True)) if a < b]
        if problem.streams is not None and len(moved) > problem.streams:
            return None
        if block.memory is not None:
            held = block.held(sum(sets[k][b] for k, b in enumerate(q)))
            if not block.fits(held, tuple(sets[k][b] ^ sets[k][a] for k, a, b in moved)):
                return None
        lengths = [times[k][b] - times[k][a] for k, a, b in moved]
        area = sum(works[k][b] - works[k][a] for k, a, b in moved)
        return block.price(max(lengths, default=0), sum(lengths), area, len(moved))

    return price


def program_of_chains(
    problem: Streams, chains: Sequence[Sequence[int]], expired: Callable[[], bool] = lambda: False
) -> tuple[list[Pointers] | None, int]:
    """Return the vectors of an optimum, None if there are none within the memory; and the stages looked at.

    Raises
    ------
    BuildTimeout
        If the time is up.
    """
    price, tick = pricing(problem, chains), ticker(expired)
    lengths = [len(chain) for chain in chains]
    first, last = tuple(0 for _ in chains), tuple(lengths)
    best: dict[Pointers, int] = {first: 0}
    came: dict[Pointers, Pointers] = {}
    transitions = 0
    for p in product(*(range(n + 1) for n in lengths)):  # what precedes a vector comes before it
        if p not in best:
            continue
        tick()
        for q in product(*(range(a, n + 1) for a, n in zip(p, lengths, strict=True))):
            if q == p or (cost := price(p, q)) is None:
                continue
            transitions += 1
            if q not in best or best[p] + cost < best[q]:
                best[q], came[q] = best[p] + cost, p
    if last not in best:
        return None, transitions
    program = [last]
    while program[-1] != first:
        program.append(came[program[-1]])
    return program[::-1], transitions


def search(
    problem: Streams,
    chains: Sequence[Sequence[int]],
    seed: int,
    moves: int,
    expired: Callable[[], bool] = lambda: False,
) -> list[Pointers] | None:
    """Return the best vectors that annealing finds; None if none were within the memory.

    It begins with the stages of one op of each chain; a stage that may not be costs more than all ops.
    """
    rng = Random(seed)
    lengths = [len(chain) for chain in chains]
    too_much = 2 * (sum(problem.durations) + problem.sync_ns) + 1
    given = cache(pricing(problem, chains))

    def price(points: Sequence[Pointers]) -> int:
        costs = (given(p, q) for p, q in pairwise(points) if p != q)
        return sum(too_much if cost is None else cost for cost in costs)

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
    return best if all(given(p, q) is not None for p, q in pairwise(best)) else None


def _between(low: Pointers, high: Pointers, old: Sequence[Pointers], rng: Random) -> Pointers:
    """Return a vector between two: another one with one pointer moved, or any."""
    drawn = tuple(rng.randint(a, b) for a, b in zip(low, high, strict=True))
    if not old:
        return drawn
    k = rng.randrange(len(low))
    return (*old[0][:k], drawn[k], *old[0][k + 1 :])
