r"""The least memory over the executed sets that hold some ops and lack others, by one maximum closure.

By (1) of `lowtide.solvers.peak.search.state_space`, M(D) = M(empty) - sum over v in D of p_v - sum over
groups g inside D of s_g with p_v = -a_v. So the least M over downsets D is a maximum closure
(`closure_flow`): its nodes are ops with profit p_v, which need their predecessors, and groups with profit
s_g, which need their ops. The flow proves the minimum from below at any time; when it is done, the closure
is the largest downset that attains it.

Short work is done by the plain functions; when more than `PLAIN_WORK` arcs have been looked at, the compiled
ones go on where the plain ones stand. When minima with nothing kept have taken much work, one without fixed
ops is computed, and the others start from its preflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...flows import closure_flow
from ...flows.closure_flow import FIXED, FREE, IN, PAID, SUPPLY, WORK, Flow
from ..search.state_space import StateSpace

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

LARGEST_SUM = 2**62
"""Flows are 64-bit: spaces with more bytes in total are refused."""

PLAIN_WORK = 1_000_000
"""Arcs that the plain functions look at before the compiled ones take over: about half a second."""

PLAIN_BUDGET, BUDGET = 20_000, 10_000_000
"""Arcs between two looks at the clock: about 20 and 100 milliseconds."""

SWEEPS = 60
"""Work of minima with nothing kept, in arcs of the whole network, before a preflow is kept."""


class Least(NamedTuple):
    """What is known of a minimum.

    Attributes
    ----------
    memory
        A lower bound on M over the sets asked for, bytes; the minimum if `members` is not None.
    members
        The ops of the largest set that attains it, as flags; None if time was up before.
    """

    memory: int
    members: Flags | None


class LeastMemory:
    """Minima of M on one graph.

    Parameters
    ----------
    space
        Forward.
    compiled
        Whether to use the compiled functions; None: when there has been more than a little work.
    prepare
        Called with their module before they are used.

    Attributes
    ----------
    compiled
        Whether the compiled functions are in use.

    Raises
    ------
    ValueError
        If the bytes add up to `LARGEST_SUM` or more (`fits` tells).
    """

    def __init__(
        self,
        space: StateSpace,
        *,
        compiled: bool | None = None,
        prepare: Callable[[Sequence[str]], None] = lambda kernels: None,
    ) -> None:
        if not self.fits(space):
            raise ValueError("the bytes of a state space add up to 2**62 or more")
        self.space = space
        order = topological_order(space)
        self._place = np.empty(space.n, dtype=np.int64)
        self._place[order] = np.arange(space.n)
        self._net = _network(space, order, self._place.tolist())
        self._functions: Any = closure_flow
        self._prepare = prepare
        self.compiled = self._keeps = False
        self._size = len(self._net.profit) + len(self._net.need)
        self._work = 0
        self._most = PLAIN_WORK if compiled is None else 0 if compiled else LARGEST_SUM

    @staticmethod
    def fits(space: StateSpace) -> bool:
        """Return whether every sum of bytes, also while an op runs, stays below `LARGEST_SUM`."""
        changes = sum(map(abs, space.increase)) + sum(space.group_bytes)
        return 2 * (space.start + changes + max(space.extra, default=0)) < LARGEST_SUM

    def minimum(
        self,
        inside: Iterable[int],
        outside: Iterable[int],
        *,
        expired: Callable[[], bool] = lambda: False,
    ) -> Least:
        """Return the least M over downsets with all of `inside` and none of `outside`.

        Parameters
        ----------
        inside, outside
            Ops; no op of `outside` may precede one of `inside`.
        expired
            Asked now and then; when it holds, what is known by then is returned.

        Examples
        --------
        >>> from lowtide import load
        >>> from lowtide.solvers.peak.search.state_space import state_space
        >>> space = state_space(load("gen:chain?n=4&sizes=equal"))
        >>> least = LeastMemory(space).minimum([1], [3])
        >>> least.memory, least.members.tolist()
        (10, [True, True, True, False])
        """
        if not self._keeps and self._work > SWEEPS * self._size:
            self._keeps = True
            self._solve((), (), expired)
            net = self._net
            for kept, found in (
                (net.kept_capacity, net.capacity),
                (net.kept_excess, net.excess),
                (net.kept_flow, net.flow),
            ):
                kept[:] = found
        done = self._solve(inside, outside, expired)
        net = self._net
        bound = self.space.start - int(net.now[FIXED]) - int(net.now[SUPPLY]) + int(net.now[PAID])
        if not done:
            return Least(bound, None)
        n = self.space.n
        status, label = np.asarray(net.status[:n]), np.asarray(net.label[:n])
        chosen = (status == IN) | ((status == FREE) & (label > len(net.profit)))
        return Least(bound, chosen[self._place])

    def _solve(self, inside: Iterable[int], outside: Iterable[int], expired: Callable[[], bool]) -> bool:
        """Fix some ops and run the flow; return whether it is done."""
        self._count(self._size)
        inner, outer = (self._place[np.asarray([*ops], np.int64)] for ops in (inside, outside))
        if self.compiled:
            self._functions.fix(self._net, inner, outer)
        else:
            self._functions.fix(self._net, inner.tolist(), outer.tolist())
        done = False
        while not done and not expired():
            before = int(self._net.now[WORK])
            done = self._functions.advance(self._net, BUDGET if self.compiled else PLAIN_BUDGET)
            self._count(int(self._net.now[WORK]) - before)
        return done

    def _count(self, work: int) -> None:
        """Count work; when the plain functions have done much of it, compile."""
        self._work += work
        if self.compiled or self._work <= self._most:
            return
        self._prepare((".flows.closure_kernel",))
        from ...flows import closure_kernel

        self.compiled, self._functions = True, closure_kernel
        self._net = Flow(*(np.asarray(x, np.int64) for x in self._net))


def topological_order(space: StateSpace) -> list[int]:
    """Return the ops in an order that the neighbours `before` allow; a shorter list if they form cycles."""
    if all(not some or max(some) < v for v, some in enumerate(space.before)):
        return list(range(space.n))
    waits = [len(some) for some in space.before]
    order = [v for v, count in enumerate(waits) if not count]
    for v in order:  # grows
        for w in space.after[v]:
            waits[w] -= 1
            if not waits[w]:
                order.append(w)
    return order


def _network(space: StateSpace, order: Sequence[int], place: Sequence[int]) -> Flow:
    """Return the network of a space, nothing fixed yet: nodes are the ops in that order, then the groups."""
    needs = [[place[u] for u in space.before[v]] for v in order]
    needs += [[place[u] for u in ops] for ops in space.groups]
    n, need = len(needs), [y for some in needs for y in some]
    owners = np.repeat(np.arange(n), [len(some) for some in needs])
    by_arc = np.argsort(need, kind="stable") if need else np.zeros(0, np.int64)
    profit = [-space.increase[v] for v in order] + list(space.group_bytes)
    return Flow(
        need_at=_starts(needs),
        need=need,
        by_at=np.searchsorted(np.asarray(need, np.int64)[by_arc], np.arange(n + 1)).tolist(),
        by=owners[by_arc].tolist(),
        by_arc=by_arc.tolist(),
        profit=profit,
        kept_capacity=[max(0, -p) for p in profit],
        kept_excess=[max(0, p) for p in profit],
        kept_flow=[0] * len(need),
        status=[FREE] * n,
        capacity=[0] * n,
        excess=[0] * n,
        label=[0] * n,
        flow=[0] * len(need),
        queue=[0] * n,
        now=[0] * 7,
    )


def _starts(lists: Sequence[Sequence[int]]) -> list[int]:
    starts = [0]
    for some in lists:
        starts.append(starts[-1] + len(some))
    return starts
