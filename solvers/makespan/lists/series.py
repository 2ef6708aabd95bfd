"""A makespan problem cut where everything meets in one op, into pieces that follow each other.

An op that precedes or follows every other op runs alone: all that precedes it has ended, all that follows
has not started. In the accounting ``coexist`` the bytes that are live as it ends are then the same in every
schedule, so what comes before it and what comes after it are problems of their own, and the least makespan is
the sum of theirs. A piece holds the tensors that live across it as initial and final ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from ....models.derived.precedence import Precedence, precedence
from ....models.graph import Accounting, Graph, Op, Tensor
from ....models.problems.makespan import Makespan
from ...context import Context, Known, Outcome
from ...parts import Part
from ...portfolio import run


@dataclass(frozen=True, kw_only=True)
class Section:
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


def in_series(problem: Makespan) -> list[Section]:
    """Return the pieces in order; one piece, the problem itself, if it cannot be cut.

    It is cut behind ops where everything meets, if some ops of the piece do not run alone. Only problems with
    identical processors are cut.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.solvers.makespan.lists.series import in_series
    >>> graph = lt.load("gen:tasks?shape=inception&n=40&cores=2&seed=3")
    >>> [(piece.first, piece.end) for piece in in_series(lt.Makespan(graph, processors=2))]
    [(0, 11), (11, 25), (25, 40)]
    """
    graph = problem.graph
    n = len(graph.ops)
    whole = [Section(first=0, end=n, problem=problem)]
    if graph.accounting is not Accounting.COEXIST or not problem.identical:
        return whole
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
        return whole
    return [
        Section(first=a, end=b, problem=replace(problem, graph=_part(graph, a, b))) for a, b in pairwise(cuts)
    ]


def joined(pieces: Sequence[Section], answers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the starts that run the pieces one after another."""
    starts: list[int] = []
    now = 0
    for piece, answer in zip(pieces, answers, strict=True):
        starts += [now + s for s in answer]
        now += piece.problem.evaluate(answer)
    return tuple(starts)


def solve_in_series(
    pieces: Sequence[Section],
    problem: Makespan,
    context: Context,
    solve: Callable[[Makespan, Context], Outcome],
    searches: Part,
) -> Outcome:
    """Give `searches` of the whole and pieces, which `solve` solves, turns; join what is found."""
    known = [Known() for _ in pieces]

    def fastest(k: int) -> Sequence[int]:
        piece, own = pieces[k], known[k].answer
        now = _within(piece, context.answer)
        return now if own is None else min(own, now, key=piece.problem.evaluate)

    def hand_on() -> None:
        context.offer(joined(pieces, [fastest(k) for k in range(len(pieces))]))
        proof = "floating" if any(own.proof == "floating" for own in known) else "exact"
        context.raise_bound(sum(own.bound or 0 for own in known), proof, kind="parts in series")

    def solve_piece(k: int, problem: Makespan, context: Context) -> Outcome:
        piece = pieces[k].problem
        inner = context.inner(piece, known=known[k])
        inner.offer(fastest(k))
        inner.changed = hand_on
        return solve(piece, inner)

    smallest_first = sorted(range(len(pieces)), key=lambda k: (pieces[k].end - pieces[k].first, k))
    parts = [
        Part(
            name=f"ops {pieces[k].first} to {pieces[k].end - 1}",
            run=partial(solve_piece, k),
            seconds=searches.seconds,
        )
        for k in smallest_first
    ]
    return run([searches, *parts], problem, context)


def _within(piece: Section, answer: Sequence[int]) -> tuple[int, ...]:
    """Return the starts of the ops of a piece, from when the piece before has ended."""
    starts = answer[piece.first : piece.end]
    begin = min(starts)
    return tuple(s - begin for s in starts)


def _part(graph: Graph, first: int, end: int) -> Graph:
    """Return the ops ``first, ..., end - 1`` with all tensors that are live at some time while they run."""
    accessed: dict[int, list[int]] = {}
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            accessed.setdefault(t, []).append(i)
    number: dict[int, int] = {}
    tensors: list[Tensor] = []
    for t, tensor in enumerate(graph.tensors):
        ops = accessed.get(t, [])
        initial = tensor.initial or any(i < first for i in ops)
        final = tensor.final or any(i >= end for i in ops)
        if any(first <= i < end for i in ops) or (initial and final):
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
