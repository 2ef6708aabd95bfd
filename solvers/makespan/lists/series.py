"""A makespan problem cut where everything meets in one op, into parts that follow each other.

An op that precedes or follows every other op runs alone: all that precedes it has ended, all that follows
has not started. In the accounting ``coexist`` the bytes that are live as it ends are then the same in every
schedule, so what comes before it and what comes after it are problems of their own, and the least makespan is
the sum of theirs. A part holds the tensors that live across it as initial and final ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ....models.derived.precedence import Precedence, precedence
from ....models.graph import Accounting, Graph, Op, Tensor
from ....models.problems.makespan import Makespan


@dataclass(frozen=True, kw_only=True)
class Part:
    """The ops ``first, ..., end - 1`` of the reference order, as a problem."""

    first: int
    end: int
    problem: Makespan


def ordered_with_all(order: Precedence) -> list[bool]:
    """Return which ops run neither beside nor in another order than any other op.

    All ops before op i of the reference order precede it if each has a direct successor up to i, and so on;
    op i precedes all behind it if each of these has a direct predecessor from i on.
    """
    n = len(order.predecessors)
    before, behind = [False] * n, [False] * n
    latest, earliest = -1, n
    for i in range(n):
        before[i] = latest <= i
        latest = max(latest, min(order.successors[i], default=n))
    for i in range(n - 1, -1, -1):
        behind[i] = earliest >= i
        earliest = min(earliest, max(order.predecessors[i], default=-1))
    return [a and b for a, b in zip(before, behind, strict=True)]


def in_series(problem: Makespan) -> list[Part]:
    """Return the parts in order; one part, the problem itself, if it cannot be cut.

    It is cut behind ops where everything meets, if some ops of the part do not run alone. Only problems with
    identical processors are cut.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.solvers.makespan.lists.series import in_series
    >>> graph = lt.load("gen:tasks?shape=inception&n=40&cores=2&seed=3")
    >>> [(part.first, part.end) for part in in_series(lt.Makespan(graph, processors=2))]
    [(0, 11), (11, 25), (25, 40)]
    """
    graph = problem.graph
    n = len(graph.ops)
    if graph.accounting is not Accounting.COEXIST or not problem.identical:
        return [Part(first=0, end=n, problem=problem)]
    alone = ordered_with_all(precedence(graph))
    cuts, shared = [0], 0
    for i in range(n):
        shared += not alone[i]
        if alone[i] and shared:
            cuts.append(i + 1)
            shared = 0
    if not shared:
        cuts.pop()
    cuts.append(n)
    if len(cuts) == 2:
        return [Part(first=0, end=n, problem=problem)]
    return [
        Part(first=a, end=b, problem=replace(problem, graph=_part(graph, a, b))) for a, b in pairwise(cuts)
    ]


def joined(parts: Sequence[Part], answers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the starts that run the parts one after another."""
    starts: list[int] = []
    now = 0
    for part, answer in zip(parts, answers, strict=True):
        starts += [now + s for s in answer]
        now += part.problem.evaluate(answer)
    return tuple(starts)


def _part(graph: Graph, first: int, end: int) -> Graph:
    """Return the ops ``first, ..., end - 1`` with all tensors that are live at some time while they run."""
    accessed: dict[int, list[int]] = {}
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            accessed.setdefault(t, []).append(i)
    number: dict[int, int] = {}
    tensors: list[Tensor] = []
    for t, tensor in enumerate(graph.tensors):
        some = accessed.get(t, [])
        initial = tensor.initial or any(i < first for i in some)
        final = tensor.final or any(i >= end for i in some)
        if any(first <= i < end for i in some) or (initial and final):
            number[t] = len(tensors)
            tensors.append(replace(tensor, initial=initial, final=final))

    def renumbered(op: Op) -> Op:
        return replace(
            op,
            reads=tuple(number[t] for t in op.reads),
            writes=tuple(number[t] for t in op.writes),
            after=tuple(i - first for i in op.after if i >= first),
            inplace=tuple((number[a], number[b]) for a, b in op.inplace),
        )

    return Graph(
        name=f"{graph.name}, ops {first} to {end - 1}",
        tensors=tuple(tensors),
        ops=tuple(renumbered(op) for op in graph.ops[first:end]),
        accounting=graph.accounting,
    )
