"""A graph that gets one edge after the other: followers, levels and the network of its moments stay current.

An edge only adds orders to the network of `lowtide.formulations.parallel.network`: its own, those to ops that
now must follow all accesses of a tensor, and, when a tensor has one last access left, that from its death to
where that access lets go of it. So what `growing_flow` knows from before stays a flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from ...formulations.parallel import network as parallel_cut
from ...formulations.parallel.network import Arc, Shared
from ...models.arrays import Booleans, Integers
from ...models.derived.precedence import bits, precedence
from ...models.graph import Accounting, Graph
from ...models.problems.memory_edges import shortest_mode
from ...models.problems.parallel_memory import most_workspace
from .closure import CutArrays, cut_arrays


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Of a moment: its bytes, what each op holds (*heads*) and what it gave birth to (*tails*), in bytes."""

    nbytes: int
    heads: dict[int, int]
    tails: dict[int, int]


CHECKED = 500
"""Ops after which the building of the state looks at the clock."""


class StateExpired(Exception):
    """The state was not built in time."""


class Growing:
    """The state; see the module.

    Parameters
    ----------
    graph
        What gets edges.
    expired
        Whether the time is up: sets of followers of many ops take long, and `StateExpired` ends them.

    Attributes
    ----------
    edges
        What was added.
    after, before
        Bit masks of the ops that must follow, and precede, each op.
    start, bottom
        Earliest start of each op, and the longest path from its start, in ns.
    network
        Of all edges.
    """

    def __init__(self, graph: Graph, expired: Callable[[], bool] = lambda: False) -> None:
        def look(i: int) -> None:
            if i % CHECKED == 0 and expired():
                raise StateExpired

        order = precedence(graph)
        n = len(graph.ops)
        self.graph = graph
        self.edges: list[Arc] = []
        self.after, self.before = [0] * n, [0] * n
        for i in reversed(range(n)):
            look(i)
            for j in order.successors[i]:
                self.after[i] |= self.after[j] | 1 << j
        for j, some in enumerate(order.predecessors):
            look(j)
            for i in some:
                self.before[j] |= self.before[i] | 1 << i
        self.later = [list(some) for some in order.successors]
        self.earlier = [list(some) for some in order.predecessors]
        self.duration = [shortest_mode(graph, i)[0] for i in range(n)]
        self.start, self.bottom = [0] * n, list(self.duration)
        for j in range(n):
            self.start[j] = max((self.start[i] + self.duration[i] for i in self.earlier[j]), default=0)
        for i in reversed(range(n)):
            self.bottom[i] += max((self.bottom[j] for j in self.later[i]), default=0)
        look(0)
        self.network = parallel_cut.build(graph, (), self.after)
        look(0)
        self._users = {one.tensor: sum(1 << a for a in one.accessors) for one in self.network.shared}
        self._common = {one.tensor: self._followers(one) for one in self.network.shared}
        self._covered: dict[int, set[int]] = {one.tensor: set() for one in self.network.shared}
        self._moments = _moment_arrays(graph)
        self._cut = cut_arrays(self.network)

    def cut(self) -> CutArrays:
        """Return the network as arrays."""
        known, orders = len(self._cut.orders), self.network.orders
        if known < len(orders):
            fresh = np.array(orders[known:], dtype=np.int64)
            self._cut = replace(self._cut, orders=np.concatenate([self._cut.orders, fresh]))
        return self._cut

    def add(self, u: int, v: int) -> None:
        """Put op u before op v, which nothing puts before u."""
        self.edges.append((u, v))
        self.network.orders.append((2 * u + 1, 2 * v))
        self.later[u].append(v)
        self.earlier[v].append(u)
        if not self.after[u] >> v & 1:
            behind, ahead = self.after[v] | 1 << v, self.before[u] | 1 << u
            for i in bits(ahead):
                self.after[i] |= behind
            for j in bits(behind):
                self.before[j] |= ahead
            self._update_shared()
        spent = self.duration
        self._raise(self.start, v, self.start[u] + spent[u], self.later, lambda x, _: spent[x])
        self._raise(self.bottom, u, spent[u] + self.bottom[v], self.earlier, lambda _, y: spent[y])

    def ends(self, happened: Booleans) -> Ends:
        """Return bytes, heads and tails at the moment of a closed set of events."""
        m, n = self._moments, len(self.graph.ops)
        holding = ~happened[m.lets_go]
        held = m.final.copy()
        held[m.tensor[holding]] = True
        live = m.initial | ((m.writer >= 0) & happened[2 * np.maximum(m.writer, 0)] if n else m.initial)
        live &= held & (m.nbytes > 0)
        running = happened[: 2 * n : 2] & ~happened[1 : 2 * n : 2]
        heads = np.where(running, m.workspace, 0)
        tails = heads.copy()
        counts = holding & live[m.tensor] & ~m.final[m.tensor]
        np.add.at(heads, m.op[counts], m.nbytes[m.tensor[counts]])
        born = live & ~m.initial
        np.add.at(tails, m.writer[born], m.nbytes[born])
        return Ends(
            nbytes=int(m.nbytes[live].sum() + m.workspace[running].sum()),
            heads={i: int(heads[i]) for i in np.flatnonzero(heads).tolist()},
            tails={i: int(tails[i]) for i in np.flatnonzero(tails).tolist()},
        )

    def _raise(
        self,
        level: list[int],
        at: int,
        value: int,
        neighbours: list[list[int]],
        between: Callable[[int, int], int],
    ) -> None:
        """Raise a level at an op, and what follows; old levels order the ops, so each is met once."""
        if value <= level[at]:
            return
        new = {at: value}
        todo = [(level[at], at)]
        while todo:
            _, x = heappop(todo)
            for y in neighbours[x]:
                reached = new[x] + between(x, y)
                if reached > new.get(y, level[y]):
                    if y not in new:
                        heappush(todo, (level[y], y))
                    new[y] = reached
        for x, value in new.items():
            level[x] = value

    def _followers(self, one: Shared) -> int:
        common = self.after[one.accessors[0]]
        for a in one.accessors[1:]:
            common &= self.after[a]
        return common

    def _update_shared(self) -> None:
        """State what the last edge says of tensors with several last accesses."""
        n, kept = self.network.n_ops, []
        for one in self.network.shared:
            death = 2 * n + one.tensor
            last = [k for k, a in enumerate(one.accessors) if not self.after[a] & self._users[one.tensor]]
            if len(last) == 1:
                self.network.orders.append((death, one.lets_go[last[0]]))
                continue
            if len(last) < len(one.accessors):
                one = Shared(
                    tensor=one.tensor,
                    nbytes=one.nbytes,
                    lets_go=tuple(one.lets_go[k] for k in last),
                    accessors=tuple(one.accessors[k] for k in last),
                )
            common = self._followers(one)
            if common != self._common[one.tensor]:
                self._common[one.tensor] = common
                fresh = {*parallel_cut.earliest_common(self.after, one.accessors)}
                fresh -= self._covered[one.tensor]
                self._covered[one.tensor] |= fresh
                self.network.orders.extend((death, 2 * c) for c in sorted(fresh))
            kept.append(one)
        self.network.shared[:] = kept


@dataclass(frozen=True, kw_only=True)
class _MomentArrays:
    """Accesses: tensor, op, event where it lets go; then by tensor, and by op, what else a moment needs."""

    tensor: Integers
    op: Integers
    lets_go: Integers
    nbytes: Integers
    writer: Integers
    initial: Booleans
    final: Booleans
    workspace: Integers


def _moment_arrays(graph: Graph) -> _MomentArrays:
    coexist = graph.accounting is Accounting.COEXIST
    accesses: list[tuple[int, int, int]] = []
    writer = [-1] * len(graph.tensors)
    for i, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            if t in op.writes and writer[t] < 0:
                writer[t] = i
            accesses.append((t, i, 2 * i + (coexist or t in op.writes)))
    table = np.array(accesses, dtype=np.int64).reshape(-1, 3)
    return _MomentArrays(
        tensor=table[:, 0],
        op=table[:, 1],
        lets_go=table[:, 2],
        nbytes=np.array([t.nbytes for t in graph.tensors], dtype=np.int64),
        writer=np.array(writer, dtype=np.int64),
        initial=np.array([t.initial for t in graph.tensors], dtype=np.bool_),
        final=np.array([t.final for t in graph.tensors], dtype=np.bool_),
        workspace=np.array([most_workspace(graph, i)[0] for i in range(len(graph.ops))], dtype=np.int64),
    )
