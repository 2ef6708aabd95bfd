"""Checks proofs by working sets: what single ops need, added up from the raw fields.

1. **One op.** While op w runs, what it writes and its workspace are resident, and every tensor that is both
   initial and final; and what it reads, of which in `replace` only what is final counts here (the other
   reads may be released as the writes appear). The bound is the sum of these bytes, each tensor once.
2. **The first op** has no op before it. If no op that can be the first one runs, from the initial tensors,
   below the bound, no order stays below it. Nor does one if the initial tensors alone, which are there before
   any op, take as much as the bound.
3. **The last op** has no op after it, and when it has run, only final tensors are resident. If no op that can
   be the last one runs below the bound, no order stays below it.

While the first op v runs, the initial tensors are resident that anybody accesses or that are final; in
`replace` without those that v alone accesses, reads only, and that are not final. With what v writes and
its workspace that is the memory of (2). While the last op v runs, the final tensors are resident, what v
writes and its workspace, and in `coexist` what it reads: the memory of (3). In both, a tensor that v writes
first appears with it; a final one has been written before the last op or is written by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...graph import Accounting, Graph
from ...written import Written
from .refused import Refused, op_and_name, require_op


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSetProof(Written):
    """The ops that must be looked at alone: one op, or every op that can be the first or the last one.

    Attributes
    ----------
    at
        "op", "first" or "last".
    op
        The op, of "op"; else None.
    """

    kind: ClassVar[str] = "working-set"
    at: str
    op: int | None = None


def check_working_set(graph: Graph, bound: int, proof: WorkingSetProof) -> None:
    """Raise unless the ops need `bound` bytes.

    Raises
    ------
    Refused
        With the op that needs less.
    """
    if proof.at == "op":
        op = require_op(graph, proof.op, "working set")
        _compare(graph, f"{op_and_name(graph, op)}, alone", _alone(graph, op), bound)
        return
    if proof.at not in ("first", "last"):
        raise Refused(f"working set: found {proof.at!r}, expected 'op', 'first' or 'last'")
    if proof.at == "first" and _at_start(graph, None) >= bound:
        return
    if not graph.ops:
        _compare(graph, "the graph without ops", _at_start(graph, None), bound)
    for op in _ends(graph, last=proof.at == "last"):
        need = _at_end(graph, op) if proof.at == "last" else _at_start(graph, op)
        _compare(graph, f"{op_and_name(graph, op)}, as the {proof.at} op", need, bound)


def _compare(graph: Graph, what: str, need: int, bound: int) -> None:
    if need < bound:
        raise Refused(f"{what}: found {need} bytes, expected at least the bound {bound}")


def _held(graph: Graph, op: int, extra: set[int]) -> int:
    """Return the bytes of an op's workspace, its own tensors, and the tensors in `extra`."""
    tensors, x = graph.tensors, graph.ops[op]
    held = {*extra, *x.writes}
    if graph.accounting is Accounting.COEXIST:
        held.update(x.reads)
    return min(mode.workspace for mode in x.all_modes) + sum(tensors[t].nbytes for t in held)


def _alone(graph: Graph, op: int) -> int:
    """(1)."""
    tensors = graph.tensors
    final = {t for t in graph.ops[op].reads if tensors[t].final}
    return _held(graph, op, final | {t for t, x in enumerate(tensors) if x.initial and x.final})


def _at_start(graph: Graph, op: int | None) -> int:
    """(2); without an op before any of them."""
    others = {t for i, x in enumerate(graph.ops) if i != op for t in (*x.reads, *x.writes)}
    stays = {t for t, x in enumerate(graph.tensors) if x.initial and (t in others or x.final)}
    return sum(graph.tensors[t].nbytes for t in stays) if op is None else _held(graph, op, stays)


def _at_end(graph: Graph, op: int) -> int:
    """(3)."""
    return _held(graph, op, {t for t, x in enumerate(graph.tensors) if x.final})


def _ends(graph: Graph, *, last: bool) -> list[int]:
    """Return the ops that no op precedes, or that precede no op."""
    n = len(graph.ops)
    order = range(n - 1, -1, -1) if last else range(n)
    blocked = {j for x in graph.ops for j in x.after} if last else set()
    read: set[int] = set()
    written: set[int] = set()
    ends = []
    for i in order:
        op = graph.ops[i]
        free = i not in blocked if last else not op.after
        free = free and written.isdisjoint(op.reads) and written.isdisjoint(op.writes)
        if free and read.isdisjoint(op.writes):
            ends.append(i)
        read.update(op.reads)
        written.update(op.writes)
    return ends
