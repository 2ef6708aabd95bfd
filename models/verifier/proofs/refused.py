"""How a checker says no: with the first thing that does not hold."""

from __future__ import annotations

from ...graph import Graph


class Refused(Exception):
    """A proof does not hold; the message is the witness. Never leaves the checker."""


def require_op(graph: Graph, op: int | None, where: str) -> int:
    """Return the op, if the graph has it."""
    if type(op) is not int or not 0 <= op < len(graph.ops):
        raise Refused(f"{where}: found op {op}, expected an index in [0, {len(graph.ops)})")
    return op


def op_and_name(graph: Graph, op: int) -> str:
    """Return what messages call an op."""
    return f"op {op} {graph.ops[op].name!r}"
