"""What the parts of `auto` do on one device: chains and lists, edges that hold the memory, schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ...formulations.model import BuildTimeout, ticker
from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import order_with, precedence
from ...models.derived.streams import synchronisations
from ...models.graph import Accounting, Graph
from ...models.problems.makespan import Makespan
from ...models.problems.memory_edges import MemoryEdges, apply_edges
from ...models.problems.stream_answers import Stages, StreamOrder
from ...models.problems.streams import COUNTED, Streams
from ..context import Context, Outcome
from ..makespan.auto import solve_auto as solve_makespan
from ..parallel.adding import RULES, edges_by_rule
from ..parallel.edges import order_within
from ..parallel.methods import GROWING
from .lists import levels, lios, opara
from .matching import MOST_OPS, best_chains
from .memory import held_back, offer_one_stream

EIGHTHS = (8, 9, 10, 12, 16)
"""Memories for which edges are added, in eighths of what the reference order needs."""

WIDEST = 16
"""Streams up to which lists are tried: more seldom make the device faster, and each list is simulated."""


LISTED_PER_SECOND = 20_000
"""Ops that lists put on streams, and whose end is simulated, in a second."""


def list_seconds(problem: Streams) -> float:
    """Return what lists on all numbers of streams take, about; schedules of `makespan` take no less."""
    return 2 * WIDEST * len(problem.graph.ops) / LISTED_PER_SECOND


def offer_orders(problem: Streams, context: Context) -> Outcome:
    """Offer chains and lists; with equal times the fewest synchronisations."""
    orders = _orders(problem.graph, problem, context)
    _offer_best(problem, context, (StreamOrder(streams=some) for some in orders))
    return Outcome(reason="time" if context.expired else None)


def offer_on_one_device(problem: Streams, context: Context) -> Outcome:
    """Offer these on one of several devices."""
    for some in _orders(problem.graph, problem, context):
        context.offer([some])
    return Outcome(reason="time" if context.expired else None)


def offer_with_edges(problem: Streams, context: Context) -> Outcome:
    """Offer streams of the graph with edges that keep it within the memory, and within less.

    Fewer ops side by side can be faster where they slow each other down. Memories below the bound are the
    same multiples of one number whatever the bound is: so a larger one has those of a smaller one, too. An
    order within the bound may take long to find, and comes last.
    """
    least = sequential_memory(problem.graph).reference_peak
    memories = [least * k // 8 for k in EIGHTHS if problem.memory is None or least * k < 8 * problem.memory]
    pairs = [] if problem.memory is None else [(rule, problem.memory) for rule in RULES]
    pairs += [(rule, memory) for memory in memories for rule in RULES]
    for rule, memory in sorted(pairs, key=lambda pair: pair == ("respect-order", problem.memory)):
        if context.expired or context.closed:
            break
        offer_held(problem, context, rule, memory)
    return Outcome(reason="time" if context.expired else None)


def offer_only_stream(problem: Streams, context: Context) -> Outcome:
    """Offer one stream where there is nothing else; prove that there is none, if so."""
    return Outcome() if context.answer is not None else offer_one_stream(problem, context)


def _offer_best(problem: Streams, context: Context, answers: Iterable[StreamOrder]) -> None:
    """Offer the fastest, of equally fast ones that with the fewest synchronisations."""
    best: list[StreamOrder] = []
    least: int | None = None
    for answer in answers:
        time = problem.evaluate(answer)
        if least is None or time < least:
            best, least = [], time
        best += [answer] if time == least else []
    if len(best) > 1 and len(problem.graph.ops) <= COUNTED:
        best.sort(key=lambda some: len(synchronisations(problem.graph, some.streams, some.waits)))
    if best:
        context.offer(best[0])


def _orders(graph: Graph, problem: Streams, context: Context) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield chains, and lists on several numbers of streams, each once, until the time is up."""
    made = set()
    with suppress(BuildTimeout):
        for some in _in_turn(graph, problem.streams, context):
            if some not in made:
                made.add(some)
                yield some
            if context.expired:
                break


def _in_turn(graph: Graph, streams: int | None, context: Context) -> Iterator[tuple[tuple[int, ...], ...]]:
    tick, chains = ticker(lambda: context.expired), None
    if streams is None:
        yield opara(graph, tick)
    if len(graph.ops) <= MOST_OPS:
        with suppress(BuildTimeout):
            chains = best_chains(graph, streams, tick=tick, seconds=context.remaining())
    if chains is not None:
        yield chains
    most = levels(graph) if chains is None else len(chains)
    for count in range(min(most, streams or WIDEST, WIDEST), 0, -1):
        for priority in ("bottom", "longest"):
            yield lios(graph, count, priority, tick)


def offer_held(problem: Streams, context: Context, rule: str, memory: int) -> None:
    """Offer streams of the graph with edges after which it needs at most so much memory, with their flow."""
    graph = problem.graph
    order: Sequence[int] = ()
    if rule == "respect-order":
        found = order_within(MemoryEdges(graph, memory), context)
        if isinstance(found, Outcome):
            return
        order = found
    context.prepare(GROWING)
    edges = edges_by_rule(
        graph, memory, rule, order, expired=lambda: context.expired, progress=context.progress
    )
    if edges is None:
        return
    number = order_with(graph, edges.edges)
    orders = _orders(apply_edges(graph, edges.edges), problem, context)
    within = StreamOrder(streams=())
    if problem.memory is not None:
        within = StreamOrder(streams=(), waits=edges.edges, flow=edges.flow)
    answers = (tuple(tuple(number[k] for k in stream) for stream in some) for some in orders)
    _offer_best(problem, context, (replace(within, streams=some) for some in answers))


def solve_by_makespan(problem: Streams, context: Context) -> Outcome:
    """Take over the schedules and the bounds of `makespan`."""
    asked = Makespan(problem.graph, problem.streams or len(problem.graph.ops), memory=problem.memory)
    inner, known, again = context.inner(asked, prefix="makespan: "), None, 0.0

    def hand_on() -> None:
        nonlocal known, again
        if inner.bound is not None:
            context.raise_bound(inner.bound, inner.proof or "exact", kind=f"makespan, {inner.bound_kind}")
        if inner.incumbent is None or inner.incumbent == known or context.elapsed() < again:
            return
        known, began = inner.incumbent, context.elapsed()
        order: StreamOrder | None = _as_streams(asked, inner.answer)
        if problem.memory is not None and order is not None:
            order = held_back(problem, context, order)
        if order is not None:
            context.offer(order)
        again = 2 * context.elapsed() - began  # half of the time at most

    inner.changed = hand_on
    outcome = solve_makespan(asked, inner)
    again = 0.0
    hand_on()
    return Outcome(reason=outcome.reason, infeasible=outcome.infeasible, detail=outcome.detail)


def _as_streams(asked: Makespan, answer: Sequence[int]) -> StreamOrder | None:
    """Return the streams of a schedule, as few as run side by side in it.

    An op goes on a stream that is free: on that of what it waits for, which needs no synchronisation, else on
    that which was busy last.
    """
    plan = asked.judge(answer).plan
    if plan is None:
        return None
    before = precedence(asked.graph).predecessors
    streams: list[list[int]] = []
    ends: list[int] = []
    for run_ in sorted(plan.runs, key=lambda run_: run_.start):
        free = [k for k, end in enumerate(ends) if end <= run_.start]
        chosen = max(free, key=lambda k: (streams[k][-1] in before[run_.op], ends[k], -k), default=len(ends))
        if chosen == len(ends):
            streams.append([])
            ends.append(0)
        streams[chosen].append(run_.op)
        ends[chosen] = run_.end
    return StreamOrder(streams=tuple(map(tuple, streams)))


def offer_one_at_a_time(problem: Streams, context: Context) -> Outcome:
    """Offer stages of one op each, in an order within the memory; prove that there are no stages, if so.

    Stages of several ops hold no less than one op after another in the same order. A stage holds all that it
    reads as long as what it writes, whatever the accounting of the graph.
    """
    if problem.memory is None or context.answer is not None:
        return Outcome()
    graph = replace(problem.graph, accounting=Accounting.COEXIST)
    order = order_within(MemoryEdges(graph, problem.memory), context)
    if isinstance(order, Outcome):
        return order
    context.offer(Stages(stages=tuple(((i,),) for i in order)))
    return Outcome()
