r"""Checks proofs by a cut: least memories bounded by weak duality, with whatever multipliers are given.

**Weak duality.** F are free ops, of which a walk has stepped over a set R that has, with an op, all ops
of F that it *needs* (those before it in the walk). Groups of ops count: forward a group takes its bytes
away once all its ops are in R; backward it adds them once one of its ops is. So the memory changes by

    | forward: f(R) = sum of gain(v) over R - sum of bytes(g) over g inside R
    | backward: f(R) = - sum of gain(v) over R + sum of bytes(g) over g that touch R.               (1)

Let x_v say that v is in R, and z_g that g counts. Every such R has x_v <= x_u where v needs u, and
forward z_g <= x_v, backward x_v <= z_g for v in g. So for nonnegative multipliers L (edges), Q (shares)

    f(R) >= f(R) + sum L_uv (x_v - x_u) + sum Q_gv (z_g - x_v)   (backward: x_v - z_g),             (2)

a linear function of x and z; its least value over 0 and 1, the sum of its negative coefficients, is a
lower bound on every f(R). Multipliers of a maximum flow make it tight (Picard, "Maximal closure of a graph
and applications to combinatorial problems", Management Science 22, 1976), but nothing rests on that.

**Cut.** When op w runs, all its ancestors have been executed and none of its descendants. With the free
ops F = all others, M before w (`coexist`) or after it (`replace`, w executed) is M of what is certain,
plus an f(R) as in (1), where the groups with an op among the descendants (and w, in `coexist`) do not
count. So every peak is at least extra(w) + M(certain) + the bound of (2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...graph import Graph
from ...written import Written
from .executed import Executed, Lists, executed_sets
from .refused import Refused, op_and_name, require_op


@dataclass(frozen=True, slots=True, kw_only=True)
class Multipliers(Written):
    """Nonnegative integers that bound a least memory from below, by weak duality.

    Attributes
    ----------
    edges
        (op needed, op that needs it, bytes): the first one stands before the second one in the walk.
    shares
        (tensor, op that accesses it, bytes); of tensors with the same last accessors the first one stands
        for all.
    """

    edges: tuple[tuple[int, int, int], ...] = ()
    shares: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProof(Written):
    """The op whose moment is bounded, and the multipliers."""

    kind: ClassVar[str] = "cut"
    op: int
    multipliers: Multipliers


def check_cut(graph: Graph, bound: int, proof: CutProof) -> None:
    """Raise unless the multipliers prove `bound` bytes at the op.

    Raises
    ------
    Refused
        With the bytes that they do prove, or the multiplier that is none.
    """
    w = require_op(graph, proof.op, "cut")
    sets = executed_sets(graph)
    certain, out = _reached(w, sets.before), _reached(w, sets.after)
    (out if sets.extra_before else certain).add(w)
    free = set(range(sets.n)) - certain - out
    counting = {
        g: free.intersection(group)
        for g, group in enumerate(sets.groups)
        if not free.isdisjoint(group) and out.isdisjoint(group)
    }
    least = least_change(sets, False, free, counting, proof.multipliers)
    proved = sets.extra[w] + sets.memory(certain) + least
    if proved < bound:
        raise Refused(
            f"cut at {op_and_name(graph, w)}: found {proved} bytes proved, "
            f"expected at least the bound {bound}"
        )


def _reached(w: int, near: Lists) -> set[int]:
    """Return all ops before or after an op."""
    reached, front = set[int](), [w]
    while front:
        some = set(near[front.pop()]) - reached
        reached |= some
        front += some
    return reached


def least_change(
    sets: Executed,
    backward: bool,
    free: Collection[int],
    counting: Mapping[int, Collection[int]],
    multipliers: Multipliers,
) -> int:
    """Return the lower bound (2) on every f(R).

    Parameters
    ----------
    backward
        The direction of the walk.
    free
        F.
    counting
        The groups that count, each with its ops in F.

    Raises
    ------
    Refused
        If a multiplier is negative, or belongs to no inequality.
    """
    sign = -1 if backward else 1
    needs = sets.after if backward else sets.before
    cost = {v: sign * sets.gain[v] for v in free}
    share = {g: -sign * sets.group_bytes[g] for g in counting}
    number = {sets.group_names[g]: g for g in counting}
    for u, v, nbytes in multipliers.edges:
        if nbytes < 0 or u not in cost or v not in cost or u not in needs[v]:
            raise Refused(f"multiplier of edge {u} -> {v}: found {nbytes}, expected one >= 0 of an edge")
        cost[u] -= nbytes
        cost[v] += nbytes
    for t, v, nbytes in multipliers.shares:
        g = number.get(t)
        if nbytes < 0 or g is None or v not in counting[g]:
            raise Refused(
                f"multiplier of tensor {t} and op {v}: found {nbytes}, expected one >= 0 of a tensor "
                "that counts and a last accessor"
            )
        share[g] += sign * nbytes
        cost[v] -= sign * nbytes
    return sum(x for x in (*cost.values(), *share.values()) if x < 0)
