"""Answers of the streams problem on one device: an order for each stream, or stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import index

from ..checks import check_type
from ..derived.streams import Edge, stream_edges
from ..flow_proof import FlowProof


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOrder:
    """The order of each stream, and what holds back its memory.

    Attributes
    ----------
    streams
        The ops of each stream in the order in which it runs them.
    waits
        Pairs of ops, the first of which is to end before the second starts, besides the precedence.
    flow
        Proves what no execution that obeys all this exceeds; without a case it proves nothing.
    """

    streams: tuple[tuple[int, ...], ...]
    waits: tuple[Edge, ...] = ()
    flow: FlowProof = field(default=FlowProof(cases=()))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The pairs of ops that follow each other in a stream or wait for each other."""
        return tuple(dict.fromkeys((*stream_edges(self.streams), *self.waits)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages one after another: of each its groups, of each group the ops one after another."""

    stages: tuple[tuple[tuple[int, ...], ...], ...]


def plain(answer: StreamOrder | Stages) -> StreamOrder | Stages:
    """Return an answer as tuples of integers without empty streams, groups and stages.

    Raises
    ------
    TypeError, ValueError
        If it is made of something else.
    """
    if isinstance(answer, Stages):
        stages = (tuple(tuple(map(index, group)) for group in some if group) for some in answer.stages)
        return Stages(stages=tuple(some for some in stages if some))
    check_type(answer.flow, FlowProof, "streams, flow")
    return StreamOrder(
        streams=tuple(tuple(map(index, some)) for some in answer.streams if some),
        waits=tuple((index(i), index(j)) for i, j in answer.waits),
        flow=answer.flow,
    )
