r"""Executed sets as bit masks: increases, components and least states, forward and backward.

Numbers, groups and directions are those of `lowtide.solvers.peak.search.state_space`; here both
directions work on the executed set itself (bit v: op v has run). An *interval* [A, B] are the downsets
between two downsets A and B; its ops are C = B - A. On it M is a sum over the *components* of C: two ops
are in one component if an edge joins them, or a group that can complete within the interval (all its
ops are in B; the others contribute nothing there).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....models.derived.precedence import precedence
from ....models.graph import Graph
from .state_space import state_space

Part = tuple[int, list[int]]
"""A component as a mask, and those of its ops that may be next."""


def members(mask: int) -> Iterator[int]:
    """Yield the ops of a mask, ascending."""
    while mask:
        low = mask & -mask
        mask ^= low
        yield low.bit_length() - 1


def mask_of(ops: Sequence[int]) -> int:
    """Return the mask of some ops."""
    return sum(1 << v for v in ops)


class ExecutedSets:
    """The downsets of a graph and what a step between two of them does.

    Everywhere `back` says that the step removes the op from the executed set instead of adding it.
    """

    def __init__(self, graph: Graph) -> None:
        space, edges = state_space(graph), precedence(graph)
        self.space, self.n, self.everything = space, space.n, (1 << space.n) - 1
        self.extra = space.extra
        self.before = [mask_of(some) for some in space.before]
        self.after = [mask_of(some) for some in space.after]
        self.groups = [mask_of(some) for some in space.groups]
        self.ancestors, self.descendants = edges.ancestors, edges.descendants
        self.grouped = 0
        for group in self.groups:
            self.grouped |= group

    def memory(self, done: int) -> int:
        """Return M of an executed set."""
        space = self.space
        complete = (g for g, group in enumerate(self.groups) if not group & ~done)
        freed = sum(space.group_bytes[g] for g in complete)
        return space.start + sum(space.increase[v] for v in members(done)) - freed

    def increase(self, back: bool, v: int, done: int) -> int:
        """Return the change of M by the step over v from `done`."""
        space = self.space
        if back:
            change = -space.increase[v]
            for g in space.groups_of[v]:
                if not self.groups[g] & ~done:
                    change += space.group_bytes[g]
        else:
            change = space.increase[v]
            for g in space.groups_of[v]:
                if self.groups[g] & ~done == 1 << v:
                    change -= space.group_bytes[g]
        return change

    def rise(self, back: bool, v: int, increase: int) -> int:
        """Return the cost of the step over v above M before the step."""
        return self.extra[v] + (0 if self.space.extra_before != back else increase)

    def enabled(self, back: bool, v: int, done: int, among: int) -> list[int]:
        """Return the ops of `among` that may be next because v was stepped over (`done` is after it)."""
        if back:
            return [u for u in self.space.before[v] if among >> u & 1 and not self.after[u] & done]
        return [u for u in self.space.after[v] if among >> u & 1 and not self.before[u] & ~done]

    def first(self, back: bool, low: int, high: int) -> list[int]:
        """Return the ops that may be next from an end of an interval."""
        if back:
            return [v for v in members(high & ~low) if not self.after[v] & high]
        return [v for v in members(high & ~low) if not self.before[v] & ~low]

    def height(self, back: bool, done: int, path: Sequence[int]) -> tuple[int, int]:
        """Return the largest cost along a path and the change of M across it, both above M at its start."""
        now, height = 0, None
        for v in path:
            increase = self.increase(back, v, done)
            cost = now + self.rise(back, v, increase)
            height = cost if height is None else max(height, cost)
            now += increase
            done ^= 1 << v
        assert height is not None
        return height, now

    def mates(self, ops: int) -> int:
        """Return the ops that share a group with some of `ops`."""
        mask = 0
        for v in members(ops & self.grouped):
            for g in self.space.groups_of[v]:
                mask |= self.groups[g]
        return mask

    def components(self, low: int, ops: int, ready: list[int]) -> list[Part]:
        """Return the components of the interval [low, low + ops]; `ready` may be next from an end of it.

        Every component has an op that may be next, so a search from one of these ends as soon as it has
        met all the others, and the last component needs none.
        """
        parts: list[Part] = []
        high, groups, groups_of = low | ops, self.groups, self.space.groups_of
        while len(ready) > 1:
            wanted = mask_of(ready)
            found = front = 1 << ready[0]
            while front and wanted & ~found:
                near = 0
                for v in members(front):
                    near |= self.before[v] | self.after[v]
                    for g in groups_of[v]:
                        if not groups[g] & ~high:
                            near |= groups[g]
                front = near & ops & ~found
                found |= front
            if not wanted & ~found:
                break
            parts.append((found, [v for v in ready if found >> v & 1]))
            ready = [v for v in ready if not found >> v & 1]
            ops &= ~found
        if ops:
            parts.append((ops, ready))
        return parts

    def waist(self, back: bool, ops: int, ready: list[int]) -> int | None:
        """Return the first op that is comparable with all others of `ops` and behind all of `ready`."""
        behind = self.ancestors if back else self.descendants
        candidates = ops
        for v in ready:
            candidates &= behind[v]
            if not candidates:
                return None
        while candidates:
            v = candidates.bit_length() - 1 if back else (candidates & -candidates).bit_length() - 1
            if not ops & ~(self.ancestors[v] | self.descendants[v] | 1 << v):
                return v
            candidates ^= 1 << v
        return None

    def least(self, back: bool, done: int, path: Sequence[int], pivot: int) -> Sequence[int]:
        """Return the part of a path to the largest state of least M between its two ends.

        M at the end must be at most M at the start, and least over the states that include the op
        ``path[pivot]``, which must need all before it. So there is nothing to compute if all behind it
        need it.
        """
        near = self.after if back else self.before
        needing = 1 << path[pivot]
        for v in path[pivot + 1 :]:
            if not near[v] & needing:
                chosen = self._largest_minimiser(back, done, path)
                return [v for v in path if v in chosen]
            needing |= 1 << v
        return path

    def _largest_minimiser(self, back: bool, done: int, path: Sequence[int]) -> set[int]:
        """Return the ops of a path that make the largest state of least M, by a minimum cut.

        Forward, a group is a node that earns its bytes and requires its ops; backward, it is a node that
        costs its bytes and is required by its ops.
        """
        space, stepped = self.space, mask_of(path)
        high = done if back else done | stepped
        index = {v: k for k, v in enumerate(path)}
        profit = [space.increase[v] if back else -space.increase[v] for v in path]
        arcs: list[tuple[int, int]] = []
        for g in sorted({g for v in path for g in space.groups_of[v]}):
            if self.groups[g] & ~high:
                continue
            inside = [index[v] for v in members(self.groups[g] & stepped)]
            nbytes = -space.group_bytes[g] if back else space.group_bytes[g]
            if len(inside) == 1:
                profit[inside[0]] += nbytes
            else:
                arcs += [(k, len(profit)) if back else (len(profit), k) for k in inside]
                profit.append(nbytes)
        near = space.after if back else space.before
        arcs += [(index[v], index[u]) for v in path for u in near[v] if u in index]
        return {path[k] for k in _largest_closure(profit, arcs) if k < len(path)}


def _largest_closure(profit: list[int], arcs: list[tuple[int, int]]) -> list[int]:
    """Return the largest set of nodes, closed under the arcs, among those of most profit (Picard, 1976)."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    values = np.asarray(profit, dtype=np.int64)
    gain, loss = np.flatnonzero(values > 0), np.flatnonzero(values < 0)
    if not len(loss):  # everything is best, and the solver would miss its sink
        return list(range(len(profit)))
    ends = np.asarray(arcs, dtype=np.int64).reshape(-1, 2)
    source, sink, uncapacitated = len(profit), len(profit) + 1, int(np.abs(values).sum()) + 1
    flow = SimpleMaxFlow()
    flow.add_arcs_with_capacity(
        np.concatenate((np.full(len(gain), source), loss, ends[:, 0])),
        np.concatenate((gain, np.full(len(loss), sink), ends[:, 1])),
        np.concatenate((values[gain], -values[loss], np.full(len(ends), uncapacitated))),
    )
    if flow.solve(source, sink) != flow.OPTIMAL:
        raise RuntimeError("the maximum flow of a least state failed")
    left_out = set(flow.get_sink_side_min_cut())
    return [k for k in range(len(profit)) if k not in left_out]
