"""Streams within a memory: the flow that proves it, and further waits where the orders alone do not hold it.

Orders of streams and waits are edges as `memory-edges` adds them, and its flow bounds the memory under them
(`lowtide.models.verifier.flow`). Where that is above the memory, edges are added to those of the streams by
the rules of `lowtide.solvers.parallel.adding`; they become waits.
"""

from __future__ import annotations

from ...models.problems.memory_edges import MemoryEdges
from ...models.problems.stream_answers import StreamOrder
from ...models.problems.streams import StreamAnswer, Streams
from ..context import Context, Outcome
from ..parallel.adding import MOST_OPS, edges_by_rule
from ..parallel.edges import order_within
from ..parallel.methods import GROWING


def offer_within(problem: Streams, context: Context, answer: StreamOrder) -> Outcome:
    """Offer streams; where the memory is bounded, with waits and the flow that proves it."""
    if problem.memory is None:
        context.offer(answer)
        return Outcome()
    if (count := len(problem.graph.ops)) > MOST_OPS:
        return Outcome(detail=f"memory: found {count} ops, expected at most {MOST_OPS}")
    found = held_back(problem, context, answer)
    if found is None:
        if context.expired:
            return Outcome(reason="time", detail="the time was up before waits held the memory")
        return Outcome(detail="no waits were found that hold the memory of these streams")
    context.offer(found)
    return Outcome()


def held_back(problem: Streams, context: Context, answer: StreamOrder) -> StreamOrder | None:
    """Return streams with waits after which a flow is within the memory; None if none were found.

    On graphs of more than `MOST_OPS` ops none are looked for.
    """
    assert problem.memory is not None
    if len(problem.graph.ops) > MOST_OPS:
        return None
    context.prepare(GROWING)
    edges = edges_by_rule(
        problem.graph,
        problem.memory,
        "min-levels",
        given=answer.edges,
        expired=lambda: context.expired,
        progress=context.progress,
    )
    if edges is None:
        return None
    own = set(StreamOrder(streams=answer.streams).edges)
    return StreamOrder(
        streams=answer.streams, waits=tuple(e for e in edges.edges if e not in own), flow=edges.flow
    )


def offer_one_stream(problem: Streams, context: Context) -> Outcome:
    """Offer one op after the other, in an order within the memory; prove that there is none, if so."""
    if problem.memory is None:
        return offer_within(problem, context, StreamOrder(streams=(tuple(range(len(problem.graph.ops))),)))
    order = order_within(MemoryEdges(problem.graph, problem.memory), context)
    if isinstance(order, Outcome):
        return order
    return offer_within(problem, context, StreamOrder(streams=(tuple(order),)))


def with_flow(problem: Streams, answer: StreamAnswer) -> StreamAnswer:
    """Return a hint with the flow that it lacks, if a short search finds one."""
    if not isinstance(answer, StreamOrder) or problem.memory is None or answer.flow.cases:
        return answer
    found = held_back(problem, Context(problem=problem), answer)
    return answer if found is None else found


def is_too_little(problem: Streams) -> bool:
    """Return whether the memory has no room for the tensors that are there from first to last."""
    kept = sum(tensor.nbytes for tensor in problem.graph.tensors if tensor.initial and tensor.final)
    return problem.memory is not None and kept > problem.memory
