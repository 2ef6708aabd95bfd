"""The values of a graph's tensors: each version with the op that makes it and those that read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..graph import Graph


@dataclass(frozen=True, slots=True)
class Value:
    """A version of a tensor.

    Attributes
    ----------
    tensor
        By index.
    writer
        The op that makes it; None: it is there before the first op.
    readers
        The ops that read it, ascending; one that makes the next version of what it read is among them.
    last
        Whether it is the tensor's last version.
    present
        Ops in whose memory it has to be before they start: the readers; of an initial value also the op that
        overwrites it.
    """

    tensor: int
    writer: int | None
    readers: tuple[int, ...]
    last: bool
    present: tuple[int, ...]


def values_of(graph: Graph) -> tuple[Value, ...]:
    """Return the values that some op makes or that are initial, by tensor, then as they follow each other.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.derived.values import values_of
    >>> [(x.writer, x.readers) for x in values_of(lt.load("catalogue:accumulate"))][:2]
    [(0, (4,)), (4, (5,))]
    """
    writers: list[list[int | None]] = [[None] if x.initial else [] for x in graph.tensors]
    readers: list[list[list[int]]] = [[[]] if x.initial else [] for x in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in op.reads:
            readers[t][-1].append(i)
        for t in op.writes:
            writers[t].append(i)
            readers[t].append([])
    values = []
    for t, (makers, users) in enumerate(zip(writers, readers, strict=True)):
        for k, (writer, users_of) in enumerate(zip(makers, users, strict=True)):
            last = k + 1 == len(makers)
            later = () if last or writer is not None else (makers[k + 1],)
            present = tuple(sorted({*users_of, *(i for i in later if i is not None)}))
            values.append(Value(t, writer, tuple(users_of), last, present))
    return tuple(values)
