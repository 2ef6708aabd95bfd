"""What the models of `minio` are stated of, where they are written for other solvers."""

from __future__ import annotations

import math
from typing import Any

from ...formulations.minio import cuts_cpsat
from ...formulations.minio.data import graph_data, written_at_once
from ...models.problems.minio import MinIO, Traversal
from ..context import Context
from ..method import STATING_SECONDS, Stated, Value
from .benders import begun, go_through
from .bounds import subtree_bounds
from .rules import SUITED, begin, order_of, tree_data, values_of
from .waiting import WaitingTree


def stated(problem: MinIO) -> dict[str, Any]:
    """Return the data, and what every traversal writes within each subtree at least."""
    data = tree_data(problem, "cpsat")
    return {"data": data, "bounds": subtree_bounds(problem.graph, data)}


def in_steps(problem: MinIO) -> dict[str, Any]:
    """Return the data of any graph."""
    return {"data": graph_data(problem)}


def ordered(problem: MinIO, order: str = SUITED, *, seconds: float = math.inf) -> dict[str, Any]:
    """Return the data, and the order whose demands are met."""
    context = Context(problem=problem, method="milp", time_limit=min(seconds, STATING_SECONDS), threads=1)
    context.options = {"order": order}
    data = values_of(problem, context)
    return {"data": data, "order": order_of(problem, data, context)}


def cut(problem: MinIO, *, seconds: float = math.inf) -> dict[str, Any]:
    """Return the data, and the cuts that the method finds in a minute: all of them, if it ends before."""
    limit = min(seconds, STATING_SECONDS)
    context = Context(problem=problem, method="benders", time_limit=limit, threads=1)
    data, _, cuts = begin(problem, context)
    rounds = begun(problem, data, cuts, context)
    go_through(rounds)
    return {"data": data, "cuts": list(rounds.cuts)}


def by_parts(problem: MinIO, stated: Stated, built: cuts_cpsat.CutMaster, value: Value) -> Traversal | None:
    """Return the traversal that writes what a solution does; None if no order can do with it."""
    data, nbytes = built.data, cuts_cpsat.file_bytes(built, cuts_cpsat.decode(built, value))
    left = [size - written for size, written in zip(data.size, nbytes, strict=True)]
    tree = WaitingTree(data, [sum(left[k] for k in files) for files in data.files_of])
    if tree.peak(data.n - 1) > data.memory:
        return None
    return written_at_once(data, tree.order(data.n - 1), nbytes)
