r"""Streams by lists of ops.

``lios``
    List scheduling, as the abstract of LIOS has it (Ping, Jiang, Liu, Zhao, Zhou and Chen, IEEE Transactions
    on Services Computing, 2023; we did not read the paper): of the ops whose predecessors have all been
    scheduled, the one of highest priority goes to the stream on which it ends first, times being those of
    each op alone. Priority is the op's own time (``longest``) or the longest path from it (``bottom``).
``opara``
    As in the published code of Opara (Chen and others, arXiv 2312.10351, 2023): in the reference order an op
    follows the first of its predecessors that no other op follows yet, in that one's stream; else it opens a
    stream.
``asap``
    As in the schedule of RAF's multi-stream pass: by falling number of ops on the longest path to a sink, an
    op follows its first predecessor that no other op follows yet; else it takes a stream whose last op must
    precede it, or opens one.
``sequential``
    One stream; within a memory, in an order that keeps to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush

from ...formulations.model import BuildTimeout, Tick, ticker
from ...models.derived.precedence import descendants_with, precedence
from ...models.graph import Graph
from ...models.problems.stream_answers import StreamOrder
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import raise_first_bound
from .events import in_time, refuse_stages
from .matching import MOST_OPS, best_chains
from .memory import offer_one_stream, offer_within


@in_time
def solve_lios(problem: Streams, context: Context) -> Outcome:
    """Offer a list schedule."""
    refuse_stages(problem)
    raise_first_bound(problem, context)
    tick = ticker(lambda: context.expired)
    streams = problem.streams or width(problem.graph, tick, context.remaining())
    order = StreamOrder(streams=lios(problem.graph, streams, context.options["priority"], tick))
    return offer_within(problem, context, order)


@in_time
def solve_opara(problem: Streams, context: Context) -> Outcome:
    """Offer Opara's streams."""
    return _offer_rule(problem, context, opara(problem.graph, ticker(lambda: context.expired)))


@in_time
def solve_asap(problem: Streams, context: Context) -> Outcome:
    """Offer the streams of the schedule as soon as possible."""
    return _offer_rule(problem, context, asap(problem.graph, ticker(lambda: context.expired)))


def solve_sequential(problem: Streams, context: Context) -> Outcome:
    """Offer one stream."""
    refuse_stages(problem)
    raise_first_bound(problem, context)
    return offer_one_stream(problem, context)


def _offer_rule(problem: Streams, context: Context, streams: tuple[tuple[int, ...], ...]) -> Outcome:
    refuse_stages(problem)
    raise_first_bound(problem, context)
    if problem.streams is not None and len(streams) > problem.streams:
        return Outcome(detail=f"it makes {len(streams)} streams, more than there may be")
    return offer_within(problem, context, StreamOrder(streams=streams))


def width(graph: Graph, tick: Tick, seconds: float) -> int:
    """Return how many chains `best_chains` covers all ops with, for so many streams begin each op in time.

    Of more than `MOST_OPS` ops, or if the seconds are too few for that, it is what `levels` says.
    """
    if len(graph.ops) <= MOST_OPS:
        with suppress(BuildTimeout):
            return max(1, len(best_chains(graph, tick=tick, seconds=seconds) or ()))
    return levels(graph)


def levels(graph: Graph) -> int:
    """Return the number of ops on the level with most of them: so many streams begin each level at once."""
    level = [0] * len(graph.ops)
    for i, before in enumerate(precedence(graph).predecessors):
        level[i] = max((level[j] + 1 for j in before), default=0)
    return max(Counter(level).values(), default=1)


def lios(graph: Graph, streams: int, priority: str, tick: Tick = lambda: None) -> tuple[tuple[int, ...], ...]:
    """Return the streams of a list schedule; `priority` is "longest" or "bottom".

    Examples
    --------
    >>> import lowtide as lt
    >>> lios(lt.load("catalogue:diamond"), 2, "bottom")
    ((0, 1, 3), (2,))
    """
    order, ns = precedence(graph), [op.all_modes[0].duration_ns for op in graph.ops]
    rank = list(ns)
    if priority == "bottom":
        for i in reversed(range(len(ns))):
            rank[i] += max((rank[j] for j in order.successors[i]), default=0)
    waits = [len(some) for some in order.predecessors]
    ready = [(-rank[i], i) for i, count in enumerate(waits) if not count]
    heapify(ready)
    made: list[list[int]] = [[] for _ in range(streams)]
    free, ends = [0] * streams, [0] * len(ns)
    while ready:
        tick()
        _, i = heappop(ready)
        earliest = max((ends[j] for j in order.predecessors[i]), default=0)
        k = min(range(streams), key=lambda k: (max(free[k], earliest), k))
        free[k] = ends[i] = max(free[k], earliest) + ns[i]
        made[k].append(i)
        for j in order.successors[i]:
            waits[j] -= 1
            if not waits[j]:
                heappush(ready, (-rank[j], j))
    return tuple(tuple(some) for some in made if some)


def opara(graph: Graph, tick: Tick = lambda: None) -> tuple[tuple[int, ...], ...]:
    """Return Opara's streams."""
    return _following(graph, range(len(graph.ops)), (), tick)


def asap(graph: Graph, tick: Tick = lambda: None) -> tuple[tuple[int, ...], ...]:
    """Return the streams of RAF's pass."""
    order = precedence(graph)
    levels = [1] * len(graph.ops)
    for i in reversed(range(len(levels))):
        levels[i] += max((levels[j] for j in order.successors[i]), default=0)
    ops = sorted(range(len(levels)), key=lambda i: (-levels[i], i))
    return _following(graph, ops, descendants_with(graph, (), tick), tick)


def _following(
    graph: Graph, ops: Sequence[int], after: Sequence[int], tick: Tick
) -> tuple[tuple[int, ...], ...]:
    """Put each op behind a predecessor that none is behind yet; with `after` streams are used again."""
    before = precedence(graph).predecessors
    made: list[list[int]] = []
    stream: dict[int, int] = {}
    for i in ops:
        tick()
        tails = (j for j in before[i] if made[stream[j]][-1] == j)
        k = next((stream[j] for j in tails), None)
        if k is None and after:
            k = next((k for k, some in enumerate(made) if after[some[-1]] >> i & 1), None)
        if k is None:
            k = len(made)
            made.append([])
        made[k].append(i)
        stream[i] = k
    return tuple(map(tuple, made))
