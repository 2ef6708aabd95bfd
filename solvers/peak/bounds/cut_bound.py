r"""Lower bounds on the peak of every order: the largest working set, and one minimum cut per op.

**Cut bound.** In any order op w runs when the executed set D contains every ancestor of w, not w and none
of its descendants. So its memory while it runs is at least

    cut(w) = c_w + min { M(D) : D a downset, anc(w) in D, no op of {w} and desc(w) in D }    (``coexist``)
    cut(w) = c_w + min { M(D) : D a downset, anc(w) and w in D, no op of desc(w) in D }      (``replace``)

with c_w and M of `lowtide.solvers.peak.search.state_space`, and the peak at least the largest cut(w).
Each minimum is a maximum closure (`lowtide.solvers.peak.bounds.least_memory`), and a flow that is stopped
early still bounds it from below. Walking backward gives nothing new: an op is removed when the same sets D
are what is left, and costs the same c_w + M(D), so both directions have the same cuts.

**Few flows.** Let E be any downset with anc(w) in E and w not in E (``coexist``; for ``replace``: w in E,
none of desc(w)). It is feasible in the minimum above, so cut(w) <= M(E) + c_w. The states of any known order
between the moment when w may run and the moment when it does are such E, and so are the minimisers found
for other ops. With est(w) the least of these upper estimates, ops are taken by falling est(w); as soon
as the largest est(w) left is at most the best cut so far, that one is the maximum over all ops. Stopped
earlier, the best cut so far is still a bound. Memory grows with ops, edges and operands, no faster.

Source: Picard, "Maximal closure of a graph and applications to combinatorial problems", Management
Science 22, 1976.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np

from ....models.derived.memory import sequential_memory
from ....models.graph import Accounting, Graph
from ..search.state_space import StateSpace, state_space
from .least_memory import LARGEST_SUM, Flags, Ints, LeastMemory


@dataclass(frozen=True, kw_only=True)
class CutBound:
    """The best cut found.

    Attributes
    ----------
    value
        A lower bound on the peak of every order, bytes.
    op
        The op whose cut it is; None if no cut improved on the working sets.
    downset
        The executed set that attains the minimum for `op`, ascending; None if there is no such op, or its
        flow was stopped: then its cut may be above `value`.
    flows
        How many minimum cuts were computed.
    complete
        Whether no op has a cut above `value`.
    """

    value: int
    op: int | None
    downset: tuple[int, ...] | None
    flows: int
    complete: bool


def working_set_bound(graph: Graph) -> int:
    """Return the largest memory that one op alone needs, in bytes; linear time.

    While an op runs, its writes and workspace, its reads (``replace``: those that stay, because they
    are final or written too), and every tensor that is both initial and final are resident. Before the
    first op nothing has run and after the last everything has, which gives two more bounds; and the memory
    holds what is there before the first op.
    """
    space = state_space(graph)
    if not space.n:
        return space.start
    sizes = sequential_memory(graph).sizes
    always = {t for t, x in enumerate(graph.tensors) if x.initial and x.final}
    constant = sum(sizes[t] for t in always)
    best = space.start
    for op in graph.ops:
        held = {*op.writes} - always
        if graph.accounting is Accounting.COEXIST:
            held.update(op.reads)
        else:
            held.update(t for t in op.reads if graph.tensors[t].final)
        workspace = op.least_workspace
        best = max(best, constant + workspace + sum(sizes[t] for t in held - always))
    return max(best, *(_first_step(state_space(graph, backward=b)) for b in (False, True)))


def cut_bound(
    graph: Graph,
    orders: Sequence[Sequence[int]] = (),
    *,
    at_least: int = 0,
    expired: Callable[[], bool] = lambda: False,
    improved: Callable[[int], None] = lambda value: None,
    compiled: bool | None = None,
    prepare: Callable[[Sequence[str]], None] = lambda kernels: None,
) -> CutBound:
    """Return the largest cut over all ops, or the best one when the time is up.

    Parameters
    ----------
    orders
        Known valid orders: the better they are, the fewer flows. The reference order is always used.
    at_least
        A bound that is known: only cuts above it matter.
    expired
        Asked before and within flows; when it holds, the best so far is returned.
    improved
        Called with each better bound as soon as it is proved.
    compiled, prepare
        As for `LeastMemory`.
    """
    space = state_space(graph)
    value = max(at_least, working_set_bound(graph))
    if not LeastMemory.fits(space):
        return CutBound(value=value, op=None, downset=None, flows=0, complete=False)
    op, flows, stopped = None, 0, False
    downset: tuple[int, ...] | None = None
    estimates = _Estimates(space, (range(space.n), *orders))
    queue = [(-e, w) for w, e in enumerate(estimates.least.tolist()) if e > value]
    heapify(queue)
    least = LeastMemory(space, compiled=compiled, prepare=prepare) if queue else None
    while queue and -queue[0][0] > value and not stopped:
        estimate, w = -queue[0][0], queue[0][1]
        if estimates.least[w] < estimate:
            heapreplace(queue, (-int(estimates.least[w]), w))
            continue
        stopped = expired()
        if stopped or least is None:
            break
        inside, outside = (space.before[w], [w]) if space.extra_before else ([w], space.after[w])
        memory, members = least.minimum(inside, outside, expired=expired)
        flows += 1
        if memory + space.extra[w] > value:
            value, op = memory + space.extra[w], w
            downset = None if members is None else tuple(np.flatnonzero(members).tolist())
            improved(value)
        if members is None:
            stopped = True
        else:
            estimates.lower(memory, members)  # w is among the lowered: no second flow for it
    complete = not queue or -queue[0][0] <= value
    return CutBound(value=value, op=op, downset=downset, flows=flows, complete=complete)


def _first_step(space: StateSpace) -> int:
    """Return the least cost of any first step of a walk."""
    return space.start + min(
        extra + (0 if space.extra_before else increase)
        for extra, increase, some in zip(space.extra, space.increase, space.before, strict=True)
        if not some
    )


class _Estimates:
    """est(w) of every op: the least c_w + M(E) over the sets E that are known.

    Attributes
    ----------
    least
        Bytes, shape (n,).
    """

    def __init__(self, space: StateSpace, orders: Sequence[Sequence[int]]) -> None:
        self.space = space
        self.extra = np.asarray(space.extra, dtype=np.int64)
        self.needs, self.needed = _pairs(space.before)
        self.group, self.member = _pairs(space.groups)
        self.least = np.full(space.n, LARGEST_SUM, dtype=np.int64)
        for order in orders:
            np.minimum(self.least, self._of_order(np.asarray(order, dtype=np.int64)), out=self.least)

    def _of_order(self, order: Ints) -> Ints:
        """Return the estimates by the states of one order: range minima over a sparse table."""
        n = self.space.n
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n)
        if self.space.extra_before:
            low, high = np.zeros(n, dtype=np.int64), position
            np.maximum.at(low, self.needs, position[self.needed] + 1)
        else:
            low, high = position + 1, np.full(n, n, dtype=np.int64)
            np.minimum.at(high, self.needed, position[self.needs])
        table = self._states(order, position)
        least = np.empty(n, dtype=np.int64)
        rank = np.frexp(high - low + 1)[1] - 1  # the length of a range is in [2**rank, 2**(rank + 1))
        for k in range(int(rank.max(initial=-1)) + 1):
            of = rank == k
            least[of] = np.minimum(table[low[of]], table[high[of] + 1 - 2**k])
            table = np.minimum(table[: -(2**k)], table[2**k :])
        estimates: Ints = least + self.extra
        return estimates

    def _states(self, order: Ints, position: Ints) -> Ints:
        """Return M of the n + 1 states of an order."""
        space = self.space
        change = np.zeros(space.n + 1, dtype=np.int64)
        change[0] = space.start
        change[1:] = np.asarray(space.increase, dtype=np.int64)[order]
        complete = np.zeros(len(space.groups), dtype=np.int64)
        np.maximum.at(complete, self.group, position[self.member])
        np.subtract.at(change, complete + 1, np.asarray(space.group_bytes, dtype=np.int64))
        return np.cumsum(change)

    def lower(self, memory: int, members: Flags) -> None:
        """Lower the estimates of every op for which the downset `members`, of this M, is feasible."""
        blocked = np.zeros(self.space.n, dtype=np.bool_)
        if self.space.extra_before:
            blocked[self.needs[~members[self.needed]]] = True
            feasible = ~members & ~blocked
        else:
            blocked[self.needed[members[self.needs]]] = True
            feasible = members & ~blocked
        self.least[feasible] = np.minimum(self.least[feasible], memory + self.extra[feasible])


def _pairs(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return the pairs (index of a list, element of it) as two arrays."""
    counts = np.asarray([len(x) for x in lists], dtype=np.int64)
    owner = np.repeat(np.arange(len(lists), dtype=np.int64), counts)
    elements = np.fromiter((j for x in lists for j in x), dtype=np.int64, count=len(owner))
    return owner, elements
