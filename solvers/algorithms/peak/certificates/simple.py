"""Certificates of bounds that no search is needed for: one op's working set, one op's cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....models.certificate import CutProof, WorkingSetProof
from .....models.graph import Accounting, Graph
from ..cut_bound import cut_bound
from ..executed_sets import ExecutedSets
from ..state_space import state_space
from .multipliers import multipliers


def prove_by_working_set(graph: Graph, bound: int) -> WorkingSetProof | None:
    """Return the op, or the end of the order, that needs `bound` bytes by itself, if there is one."""
    tensors = graph.tensors
    always = {t for t, x in enumerate(tensors) if x.initial and x.final}
    for w, op in enumerate(graph.ops):
        held = {*always, *op.writes, *(t for t in op.reads if tensors[t].final)}
        if graph.accounting is Accounting.COEXIST:
            held.update(op.reads)
        workspace = min(mode.workspace for mode in op.all_modes)
        if workspace + sum(tensors[t].nbytes for t in held) >= bound:
            return WorkingSetProof(at="op", op=w)
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        costs = (
            space.start + extra + (0 if space.extra_before else increase)
            for extra, increase, some in zip(space.extra, space.increase, space.before, strict=True)
            if not some
        )
        if min(costs, default=space.start) >= bound:
            return WorkingSetProof(at="last" if backward else "first")
    return None


def prove_by_cut(
    graph: Graph, bound: int, orders: Sequence[Sequence[int]], expired: Callable[[], bool]
) -> CutProof | None:
    """Return the op whose minimum cut is `bound` or more, with its flow, if there is one.

    Parameters
    ----------
    graph
        Any graph.
    bound
        Bytes.
    orders
        Good orders: the better they are, the fewer cuts are computed.
    expired
        Asked before each cut; when it holds, the search for an op ends.
    """
    found = cut_bound(graph, orders, at_least=bound - 1, expired=expired)
    if found.op is None or found.value < bound:
        return None
    sets, w = ExecutedSets(graph), found.op
    certain, out = sets.ancestors[w], sets.descendants[w]
    if sets.space.extra_before:
        out |= 1 << w
    else:
        certain |= 1 << w
    free = sets.everything & ~certain & ~out
    counting = {g: some & free for g, some in enumerate(sets.groups) if some & free and not some & out}
    return CutProof(op=w, multipliers=multipliers(sets, False, free, counting))
