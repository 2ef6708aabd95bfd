r"""Lower bounds on the peak of every order: the largest working set, and one minimum cut per op.

**Cut bound.** In any order op w runs when the executed set D contains every ancestor of w, not w and none
of its descendants. So its memory while it runs is at least

    cut(w) = c_w + min { M(D) : D a downset, anc(w) in D, no op of {w} and desc(w) in D }    (``coexist``)
    cut(w) = c_w + min { M(D) : D a downset, anc(w) and w in D, no op of desc(w) in D }      (``replace``)

with c_w and M of `lowtide.solvers.algorithms.peak.state_space`, and the peak at least the largest cut(w). By
(1) there M(D) = const - sum over v in D of p_v - sum over groups g inside D of s_g with p_v = -a_v: the
minimum is a maximum closure (Picard, 1976): choose ops and groups, an op requires its predecessors, a
group its ops, to maximise the sum of the profits. With arcs source -> x for profits > 0, x -> sink for
profits < 0 and uncapacitated arcs x -> what x requires,

    max profit = sum of the positive profits - maximum flow,

and the ops on the source side of a minimum cut are a minimiser D. Ops that are fixed leave the
network: groups lose their executed ops (a single op left: its profit; none: a constant), and groups
with an op that is out are gone. Every flow is a proof: its value bounds the profit of every closure from
above, hence M(D) from below.

**Few flows.** Let E be any downset with anc(w) in E and w not in E (``coexist``; for ``replace``: w in E,
none of desc(w)). It is feasible in the minimum above, so cut(w) <= M(E) + c_w. The states of any known order
between the moment when w may run and the moment when it does are such E, and so are the minimisers found
for other ops. With est(w) the least of these upper estimates, ops are taken by falling est(w); as soon
as the largest est(w) left is at most the best cut so far, that one is the maximum over all ops. Stopped
earlier, the best cut so far is still a bound.

Source: Picard, "Maximal closure of a graph and applications to combinatorial problems", Management
Science 22, 1976.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from ....models.graph import Accounting, Graph
from ....models.memory import sequential_memory
from ....models.precedence import precedence
from .state_space import MASK_LIMIT, StateSpace, state_space

LARGEST_SUM = 2**62
"""Flows are 64-bit: graphs with more bytes in total get no cut."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
        The executed set that attains the minimum for `op`, ascending.
    flows
        How many minimum cuts were computed.
    complete
        Whether no op has a cut above `value`.
    """

    value: int
    op: int | None
    downset: tuple[int, ...]
    flows: int
    complete: bool


def working_set_bound(graph: Graph) -> int:
    """Return the largest memory that one op alone needs, in bytes; linear time.

    While an op runs, its writes and workspace, its reads (``replace``: those that stay, because they
    are final or written too), and every tensor that is both initial and final are resident. Before the
    first op nothing has run and after the last everything has, which gives two more bounds.

    Examples
    --------
    >>> from lowtide import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="chain",
    ...     tensors=(Tensor(name="x", nbytes=3), Tensor(name="y", nbytes=5)),
    ...     ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    ... )
    >>> working_set_bound(graph)
    8
    """
    space = state_space(graph)
    if not space.n:
        return space.start
    sizes = sequential_memory(graph).sizes
    always = {t for t, x in enumerate(graph.tensors) if x.initial and x.final}
    constant = sum(sizes[t] for t in always)
    best = 0
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
) -> CutBound:
    """Return the largest cut over all ops, or the best one when the time is up.

    Parameters
    ----------
    graph
        Any graph.
    orders
        Known valid orders: the better they are, the fewer flows. The reference order is always used.
    at_least
        A bound that is known: only cuts above it matter.
    expired
        Asked before each flow; when it holds, the best so far is returned.

    Examples
    --------
    >>> from lowtide import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="fork",
    ...     tensors=tuple(Tensor(name=name, nbytes=n) for name, n in (("x", 2), ("y", 5), ("z", 5))),
    ...     ops=(
    ...         Op(name="a", writes=(0,)),
    ...         Op(name="b", reads=(0,), writes=(1,)),
    ...         Op(name="c", reads=(0,), writes=(2,)),
    ...         Op(name="d", reads=(1, 2)),
    ...     ),
    ... )
    >>> working_set_bound(graph), cut_bound(graph).value
    (10, 10)
    """
    space = state_space(graph)
    value = max(at_least, working_set_bound(graph))
    if space.n > MASK_LIMIT or _total(space) >= LARGEST_SUM:
        return CutBound(value=value, op=None, downset=(), flows=0, complete=False)
    network, edges = _Network(space), precedence(graph)
    estimate = np.full(space.n, LARGEST_SUM, dtype=np.int64)
    for order in (range(space.n), *orders):
        np.minimum(estimate, _order_estimates(space, order), out=estimate)
    op, flows = None, 0
    downset: tuple[int, ...] = ()
    queue = [(-e, w) for w, e in enumerate(estimate.tolist()) if e > value]
    heapify(queue)
    while queue and -queue[0][0] > value:
        w = queue[0][1]
        if estimate[w] < -queue[0][0]:
            heapreplace(queue, (-int(estimate[w]), w))
        elif expired():
            break
        else:
            inside, outside = _flags(edges.ancestors[w], space.n), _flags(edges.descendants[w], space.n)
            (outside if space.extra_before else inside)[w] = True
            memory, members = network.minimum(inside, outside)
            flows += 1
            network.lower(estimate, memory, members)  # w is among the lowered: no second flow for it
            if memory + space.extra[w] > value:
                value, op = memory + space.extra[w], w
                downset = tuple(np.flatnonzero(members).tolist())
    complete = not queue or -queue[0][0] <= value
    return CutBound(value=value, op=op, downset=downset, flows=flows, complete=complete)


def _first_step(space: StateSpace) -> int:
    """Return the least cost of any first step of a walk."""
    return space.start + min(
        extra + (0 if space.extra_before else increase)
        for extra, increase, some in zip(space.extra, space.increase, space.before, strict=True)
        if not some
    )


def _total(space: StateSpace) -> int:
    """Return a bound on every sum of bytes in a network."""
    return 2 * (
        space.start + sum(map(abs, space.increase)) + sum(space.group_bytes) + max(space.extra, default=0)
    )


def _order_estimates(space: StateSpace, order: Sequence[int]) -> Ints:
    """Return est(w) from the states of one order, by range minima over a sparse table."""
    n = space.n
    position = np.empty(n, dtype=np.int64)
    position[np.asarray(order, dtype=np.int64)] = np.arange(n)
    if space.extra_before:
        low = np.array([max((position[u] + 1 for u in some), default=0) for some in space.before])
        high = position
    else:
        low = position + 1
        high = np.array([min((position[u] for u in some), default=n) for some in space.after])
    levels = [np.asarray(_states(space, order), dtype=np.int64)]
    while 2 ** len(levels) <= n + 1:
        half = 2 ** (len(levels) - 1)
        levels.append(np.minimum(levels[-1][:-half], levels[-1][half:]))
    table = np.full((len(levels), n + 1), LARGEST_SUM, dtype=np.int64)
    for k, level in enumerate(levels):
        table[k, : len(level)] = level
    rank = np.array([x.bit_length() - 1 for x in (high - low + 1).tolist()], dtype=np.int64)
    least = np.minimum(table[rank, low], table[rank, high + 1 - 2**rank])
    estimates: Ints = least + np.asarray(space.extra, dtype=np.int64)
    return estimates


def _states(space: StateSpace, order: Sequence[int]) -> list[int]:
    """Return M of the n + 1 states of a forward order."""
    now, left = space.start, [len(ops) for ops in space.groups]
    states = [now]
    for v in order:
        now += space.increase[v]
        for g in space.groups_of[v]:
            left[g] -= 1
            if left[g] == 0:
                now -= space.group_bytes[g]
        states.append(now)
    return states


class _Network:
    """The arrays from which the network of each op is cut out."""

    def __init__(self, space: StateSpace) -> None:
        self.space = space
        self.profit = -np.asarray(space.increase, dtype=np.int64)
        self.extra = np.asarray(space.extra, dtype=np.int64)
        self.group_bytes = np.asarray(space.group_bytes, dtype=np.int64)
        self.needs, self.needed = _pairs(space.before)
        self.group, self.member = _pairs(space.groups)
        self.uncapacitated = int(np.abs(self.profit).sum() + self.group_bytes.sum()) + 1

    def minimum(self, inside: Flags, outside: Flags) -> tuple[int, Flags]:
        """Return the least M(D) over downsets with all of `inside` and none of `outside`, and such a D."""
        free = ~(inside | outside)
        profit = np.where(free, self.profit, 0)
        constant = self.space.start - int(self.profit[inside].sum())
        # a group is gone with an op that is out; else its free ops make it a constant, a profit or a node
        n_groups = len(self.group_bytes)
        gone = np.bincount(self.group, weights=outside[self.member], minlength=n_groups) > 0
        open_member = free[self.member]
        count = np.where(gone, -1, np.bincount(self.group, weights=open_member, minlength=n_groups))
        constant -= int(self.group_bytes[count == 0].sum())
        single = open_member & (count == 1)[self.group]
        np.add.at(profit, self.member[single], self.group_bytes[self.group[single]])
        links = open_member & (count >= 2)[self.group]
        arcs = free[self.needs] & free[self.needed]
        number, free_ops = np.cumsum(free) - 1, np.flatnonzero(free)
        group_number = np.cumsum(count >= 2) - 1 + len(free_ops)
        total, chosen = self._closure(
            np.concatenate((profit[free_ops], self.group_bytes[count >= 2])),
            np.concatenate((number[self.needs[arcs]], group_number[self.group[links]])),
            np.concatenate((number[self.needed[arcs]], number[self.member[links]])),
        )
        members = inside.copy()
        members[free_ops[chosen[chosen < len(free_ops)]]] = True
        return constant - total, members

    def _closure(self, profit: Ints, needs: Ints, needed: Ints) -> tuple[int, Ints]:
        """Return the largest profit of a closed set of nodes, and such a set."""
        gain, loss = np.flatnonzero(profit > 0), np.flatnonzero(profit < 0)
        if not len(gain):
            return 0, gain
        if not len(loss):  # everything is best, and the solver would miss its sink
            return int(profit.sum()), np.arange(len(profit))
        from ortools.graph.python.max_flow import SimpleMaxFlow

        source, sink = len(profit), len(profit) + 1
        flow = SimpleMaxFlow()
        flow.add_arcs_with_capacity(
            np.concatenate((np.full(len(gain), source), loss, needs)),
            np.concatenate((gain, np.full(len(loss), sink), needed)),
            np.concatenate((profit[gain], -profit[loss], np.full(len(needs), self.uncapacitated))),
        )
        if flow.solve(source, sink) != flow.OPTIMAL:
            raise RuntimeError("the maximum flow of a cut bound failed")
        chosen = np.asarray(flow.get_source_side_min_cut(), dtype=np.int64)
        return int(profit[gain].sum()) - flow.optimal_flow(), chosen[chosen != source]

    def lower(self, estimate: Ints, memory: int, members: Flags) -> None:
        """Lower the estimates of every op for which the downset `members` is feasible."""
        blocked = np.zeros(self.space.n, dtype=np.bool_)
        if self.space.extra_before:
            blocked[self.needs[~members[self.needed]]] = True
            feasible = ~members & ~blocked
        else:
            blocked[self.needed[members[self.needs]]] = True
            feasible = members & ~blocked
        estimate[feasible] = np.minimum(estimate[feasible], memory + self.extra[feasible])


def _pairs(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return the pairs (index of a list, element of it) as two arrays."""
    counts = np.asarray([len(x) for x in lists], dtype=np.int64)
    owner = np.repeat(np.arange(len(lists), dtype=np.int64), counts)
    elements = np.fromiter((j for x in lists for j in x), dtype=np.int64, count=len(owner))
    return owner, elements


def _flags(mask: int, n: int) -> Flags:
    """Return the first n bits of a mask."""
    data = np.frombuffer(mask.to_bytes(n // 8 + 1, "little"), dtype=np.uint8)
    return np.unpackbits(data, bitorder="little", count=n).astype(np.bool_)
