"""Certificates of bounds that no search is needed for: one op's working set, one op's cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....models.graph import Accounting, Graph
from ....models.verifier.proofs.cut import CutProof
from ....models.verifier.proofs.working_set import WorkingSetProof
from ..bounds.cut_bound import cut_bound
from ..search.state_space import state_space
from .multipliers import multipliers


def prove_by_working_set(graph: Graph, bound: int) -> WorkingSetProof | None:
    """Return the op, or the end of the order, that needs `bound` bytes by itself, if there is one."""
    tensors = graph.tensors
    always = {t for t, x in enumerate(tensors) if x.initial and x.final}
    kept = sum(tensors[t].nbytes for t in always)
    for w, op in enumerate(graph.ops):
        held = {*op.writes, *(t for t in op.reads if tensors[t].final)}
        if graph.accounting is Accounting.COEXIST:
            held.update(op.reads)
        workspace = min(mode.workspace for mode in op.all_modes)
        if workspace + kept + sum(tensors[t].nbytes for t in held - always) >= bound:
            return WorkingSetProof(at="op", op=w)
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        costs = (
            space.start + extra + (0 if space.extra_before else increase)
            for extra, increase, some in zip(space.extra, space.increase, space.before, strict=True)
            if not some
        )
        if min(costs, default=space.start) >= bound or (not backward and space.start >= bound):
            return WorkingSetProof(at="last" if backward else "first")
    return None


def prove_by_cut(
    graph: Graph, bound: int, orders: Sequence[Sequence[int]], expired: Callable[[], bool]
) -> CutProof | None:
    """Return the op whose minimum cut is `bound` bytes or more, with its flow, if there is one.

    Parameters
    ----------
    orders
        Good orders: the better they are, the fewer cuts are computed.
    expired
        Asked before each cut; when it holds, the search for an op ends.
    """
    reached = bound - 1

    def improved(value: int) -> None:
        nonlocal reached
        reached = value

    cut = cut_bound(
        graph, orders, at_least=bound - 1, expired=lambda: reached >= bound or expired(), improved=improved
    )
    if cut.op is None or cut.value < bound:
        return None
    space, w = state_space(graph), cut.op
    certain, out = _reached(w, space.before), _reached(w, space.after)
    (out if space.extra_before else certain).add(w)
    fixed = certain | out
    free = [v for v in range(space.n) if v not in fixed]
    counting = {}
    for g, group in enumerate(space.groups):
        some = [v for v in group if v not in certain]
        if some and out.isdisjoint(some):
            counting[g] = some
    return CutProof(op=w, multipliers=multipliers(space, False, free, counting))


def _reached(w: int, near: Sequence[Sequence[int]]) -> set[int]:
    """Return all ops before or after an op."""
    reached, front = set[int](), [w]
    while front:
        for u in near[front.pop()]:
            if u not in reached:
                reached.add(u)
                front.append(u)
    return reached
