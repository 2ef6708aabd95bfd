r"""Graphs whose memory is additive: M(S) is M of nothing plus the changes of the ops in S.

By (1) of `lowtide.solvers.peak.search.state_space` that is so iff there are no groups: of the ops that
access a mortal tensor with bytes, one comes after all others. One datum for each edge of the precedence is
the textbook case (its writer, then its one reader), in both accountings: ``replace`` is the simple data-flow
model, ``coexist`` the classical workflow model, whose ops need a height of their own; splitting such an
op into two, as Kayaaslan et al. do to have the second model in the first, would give the same numbers.
Chains of updates in place, kept tensors and inputs that one op reads are additive as well.

A datum that several unordered ops read (*shared*) is not: which of them releases it depends on the order.
There the problem is strongly NP-hard on out-trees and pumpkins already (R. Jin, M. Purohit, Z. Svitkina,
E. Vee, J. Wang, "Dominant schedules...", arXiv 2312.13526).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....models.errors import UsageError
from ....models.graph import Graph
from ...trees.blocks import TreeBlock, block
from ..search.state_space import StateSpace, state_space


def additive_space(graph: Graph, method: str, *, backward: bool = False) -> StateSpace:
    """Return the states of a graph whose memory is additive.

    Raises
    ------
    UsageError
        If it is not; the message names a tensor that is shared, and two ops that read it.
    """
    space = state_space(graph, backward=backward)
    if space.groups:
        t, ops = space.group_tensors[0], space.groups[0]
        raise UsageError(
            f"method {method}, graph {graph.name!r}, tensor {t} {graph.tensors[t].name!r}: found {len(ops)} "
            f"unordered ops that may access it last, among them {ops[0]} {graph.ops[ops[0]].name!r} and "
            f"{ops[1]} {graph.ops[ops[1]].name!r}, expected one (a datum for each edge, none shared)"
        )
    return space


def op_block(space: StateSpace, v: int, change: int) -> TreeBlock:
    """Return the block of an op with a given change of the memory across it, in bytes."""
    return block(space.extra[v] if space.extra_before else space.extra[v] + change, change, v)


def attributed_changes(space: StateSpace, order: Sequence[int]) -> list[int]:
    """Return the change of each op in bytes when of a group's ops the last one in an order releases it."""
    change = list(space.increase)
    place = {v: k for k, v in enumerate(order)} if space.groups else {}
    for ops, nbytes in zip(space.groups, space.group_bytes, strict=True):
        change[max(ops, key=place.__getitem__)] -= nbytes
    return change
