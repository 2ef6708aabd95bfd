"""A graph as compilers see it: what flows from op to op, apart from what only orders them.

Compilers hold single-assignment values; a value has one op that makes it and others that use it. Here op v
*uses* op u (u is an operand of v) if u wrote the version of a tensor that v reads. What else must come
before v (a reader of what v overwrites, an earlier writer, an edge of ``after``) orders v as a control edge
does. A tensor is one buffer: its bytes are defined by its first writer, and every later access is a use of
it; so updates in place define nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....models.derived.precedence import precedence
from ....models.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Dataflow:
    """Operands, users and outputs of a graph.

    Attributes
    ----------
    operands
        Per op: the ops that wrote what it reads, as its reads list them, without repetition.
    control
        Per op: the other ops that directly precede it, ascending.
    users
        Per op: the ops that it is an operand of, ascending.
    outputs
        The ops that wrote the last version of a final tensor, in the order of the tensors.
    """

    operands: tuple[tuple[int, ...], ...]
    control: tuple[tuple[int, ...], ...]
    users: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]


def dataflow(graph: Graph) -> Dataflow:
    """Return the data flow of a graph."""
    writer = [-1] * len(graph.tensors)
    operands: list[tuple[int, ...]] = []
    users: list[list[int]] = [[] for _ in graph.ops]
    for v, op in enumerate(graph.ops):
        operands.append(tuple(dict.fromkeys(writer[t] for t in op.reads if writer[t] >= 0)))
        for u in operands[v]:
            users[u].append(v)
        for t in op.writes:
            writer[t] = v
    made = (writer[t] for t, tensor in enumerate(graph.tensors) if tensor.final and writer[t] >= 0)
    return Dataflow(
        operands=tuple(operands),
        control=tuple(
            tuple(u for u in before if u not in operands[v])
            for v, before in enumerate(precedence(graph).predecessors)
        ),
        users=tuple(map(tuple, users)),
        outputs=tuple(dict.fromkeys(made)),
    )
