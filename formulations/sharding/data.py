r"""What all methods of `sharding` are about: groups of nodes, the strategies that are left, sections of time.

**Strategies.** A strategy is out if its cost is infinite, if it exceeds the limit though all other groups use
their least, or if of an edge all pairs with it that are left are infinite; the last is repeated until nothing
changes. No answer has it.

**Groups.** If each strategy of u that is left has one partner among those of v, and no two have the same one,
u determines v: both are one *group*, whose labels are the strategies of u. Costs and usages of v, and its
edges, become those of the group. Edges of the same two groups are one, with the sum of their costs; what an
edge costs within a group, or towards a node with one strategy left, becomes a cost of labels. This is
repeated. A node with one strategy is *settled*: its cost is constant.

**Sections.** Usage is piecewise constant in time. A *section* is a time after the start of a node, before the
next end of one; nodes that use nothing are left out. From any time on, all nodes that are alive stay so until
the next end. If none has started since the end before, they are among those of the section before that one;
else a section follows at once, with all of them. So the limit holds at all times if it holds at the sections.
A section is left out if the most that all groups can use there is within the limit. Of sections between which
no group changes its usage by label, but for a constant, one with the least room is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...models.cost_network import FORBIDDEN, CostNetwork
from ..model import ticker

Numbers = NDArray[np.int64]
Piece = tuple[int, int, Numbers]

INFINITE = 2**62 - 1
"""Cost of what is forbidden here: no sum of finite costs of a network is more, and two fit in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A group whose label is the best one for those of others.

    Attributes
    ----------
    near
        The others: groups, or folds that come before this one, counted on from the groups.
    best
        Its label, by labels of theirs.
    """

    near: tuple[int, ...]
    best: Numbers


@dataclass(frozen=True, kw_only=True)
class ShardingData:
    """A network without what no finite choice has.

    Attributes
    ----------
    group
        By node, its group, or fold (counted on from the groups); -1 if it is settled.
    strategies
        By node, its strategy (as the network counts them) for each label of its group.
    fixed
        Cost of what is settled.
    costs
        By group, of its labels.
    matrices
        By pair of groups u < v the costs of pairs of labels, infinite ones `INFINITE`.
    pieces
        By group, where it uses something that depends on the label: the first section, the one after the
        last, and by label what it uses above the least of its labels there.
    room
        By section, what of the limit is left if all use their least there; negative: there is no answer.
    empty
        A node without strategies, so that there is no answer; None if each has one.
    folds
        Groups that are folded; those that another one depends on come first.
    """

    group: list[int]
    strategies: list[Numbers]
    fixed: int
    costs: list[Numbers]
    matrices: dict[tuple[int, int], Numbers]
    pieces: list[list[Piece]]
    room: Numbers
    empty: int | None
    folds: tuple[Fold, ...] = ()

    def choice(self, labels: NDArray[np.int64] | list[int]) -> list[int]:
        """Return the strategies of the nodes for labels of the groups."""
        all_labels = [int(s) for s in labels]
        for fold in self.folds:
            all_labels.append(int(fold.best[tuple(all_labels[u] for u in fold.near)]))
        return [
            int(row[all_labels[g] if g >= 0 else 0])
            for g, row in zip(self.group, self.strategies, strict=True)
        ]

    def labels(self, choice: tuple[int, ...]) -> list[int] | None:
        """Return the labels of strategies of the nodes; None if a node has one that is out, or two differ."""
        labels = [-1] * len(self.costs)
        for g, row, s in zip(self.group, self.strategies, choice, strict=True):
            if g >= len(labels):  # folded
                continue
            places = np.flatnonzero(row == s)
            if not len(places) or (g >= 0 and labels[g] not in (-1, places[0])):
                return None
            if g >= 0:
                labels[g] = int(places[0])
        return labels


def merged_data(network: CostNetwork, expired: Callable[[], bool] = lambda: False) -> ShardingData:
    """Return the data of a network, with all labels that finite choices within the limit may have.

    Raises
    ------
    BuildTimeout
        If time is over before.
    """
    tick = ticker(expired)
    merger = _Merger(network, tick)
    intervals, sections = _sections([*network.intervals], [any(row) for row in network.usages])
    usages = [np.array(row) for row in network.usages]
    while merger.empty is None:
        merger.run()
        if merger.empty is not None:
            break
        pieces, room = _pieces(merger, usages, intervals, network.limit, sections)
        if not merger.fit(pieces, room):
            break
    if merger.empty is not None:
        pieces, room = {}, np.zeros(0, np.int64)
    heads = [v for v, row in enumerate(merger.costs) if merger.alive[v] and len(row) > 1]
    new = {v: g for g, v in enumerate(heads)}
    group, strategies = [-1] * len(network.costs), [np.zeros(0, np.int64)] * len(network.costs)
    for v, members in enumerate(merger.members):
        for member, row in members:
            group[member], strategies[member] = new.get(v, -1), row
    return ShardingData(
        group=group,
        strategies=strategies,
        fixed=sum(int(row[0]) for v, row in enumerate(merger.costs) if merger.alive[v] and len(row) == 1),
        costs=[merger.costs[v] for v in heads],
        matrices={
            (new[u], new[v]): np.ascontiguousarray(own)
            for u in heads
            for v, own in sorted(merger.around[u].items())
            if u < v and v in new
        },
        pieces=[pieces.get(v, []) for v in heads],
        room=room,
        empty=merger.empty,
    )


class _Merger:
    """Groups while they grow; each is named by one of its nodes, which is `alive`.

    Attributes
    ----------
    costs, members
        By group, the costs of its labels; its nodes with their strategies by label.
    around
        By group and neighbour, the costs of pairs.
    empty
        A node whose group has no label left.
    """

    def __init__(self, network: CostNetwork, tick: Callable[[], None]) -> None:
        self.tick = tick
        self.costs = [_finite(row) for row in network.costs]
        self.members = [[(v, np.arange(len(row)))] for v, row in enumerate(self.costs)]
        self.around: list[dict[int, Numbers]] = [{} for _ in self.costs]
        self.alive = [True] * len(self.costs)
        self.empty: int | None = None
        for (u, v), row in zip(network.edges, network.matrices, strict=True):
            tick()
            self._connect(u, v, _finite(row).reshape(len(self.costs[u]), len(self.costs[v])))
        self.dirty = set(range(len(self.costs)))
        self.pairs = [*network.edges]

    def run(self) -> None:
        """Drop labels and merge groups until nothing changes, or a group is empty."""
        while self.empty is None and (self.dirty or self.pairs):
            self.tick()
            if self.pairs:
                u, v = self.pairs.pop()
                if v in self.around[u]:
                    self._merge(u, v)
            elif self.alive[v := self.dirty.pop()]:
                self._check(v)

    def fit(self, pieces: dict[int, list[Piece]], room: Numbers) -> bool:
        """Forbid labels that use more than there is room for; return whether there are any."""
        dropped = False
        for v, rows in pieces.items():
            for first, end, used in rows:
                over = used > max(0, int(room[first:end].min()))
                if (over & (self.costs[v] < INFINITE)).any():
                    self.costs[v] = np.where(over, INFINITE, self.costs[v])
                    self.dirty.add(v)
                    dropped = True
        return dropped

    def _connect(self, u: int, v: int, own: Numbers) -> None:
        if v in self.around[u]:
            own = np.minimum(self.around[u][v] + own, INFINITE)
        self.around[u][v], self.around[v][u] = own, own.T

    def _check(self, v: int) -> None:
        """Drop the labels of a group that are infinite."""
        kept = self.costs[v] < INFINITE
        for own in self.around[v].values():
            kept &= (own < INFINITE).any(axis=1)
        if not kept.all():
            if not kept.any():
                self.empty = v
                return
            self.costs[v] = self.costs[v][kept]
            self.members[v] = [(u, row[kept]) for u, row in self.members[v]]
            for u, own in self.around[v].items():
                self.around[v][u] = own[kept]
                self.around[u][v] = self.around[v][u].T
            self.dirty.update(self.around[v])
            self.pairs.extend((v, u) for u in self.around[v])
        if len(self.costs[v]) == 1:
            for u, own in self.around[v].items():
                self.costs[u] = np.minimum(self.costs[u] + own[0], INFINITE)
                self.dirty.add(u)
                del self.around[u][v]
            self.around[v] = {}

    def _merge(self, u: int, v: int) -> None:
        """Make one group of two if each label of one has one partner."""
        own = self.around[u][v]
        if own.shape[0] != own.shape[1]:
            return
        allowed = own < INFINITE
        if not ((allowed.sum(axis=1) == 1).all() and allowed.any(axis=0).all()):
            return
        if len(self.around[u]) < len(self.around[v]):
            u, v, own, allowed = v, u, own.T, allowed.T
        partner = allowed.argmax(axis=1)
        for more in (self.costs[v][partner], own[np.arange(len(partner)), partner]):
            self.costs[u] = np.minimum(self.costs[u] + more, INFINITE)
        self.members[u] += [(w, row[partner]) for w, row in self.members[v]]
        del self.around[u][v], self.around[v][u]
        for w, other in self.around[v].items():
            del self.around[w][v]
            if w in self.around[u]:
                self.dirty.add(w)
            self._connect(u, w, other[partner])
            self.pairs.append((u, w))
        self.around[v], self.members[v], self.alive[v] = {}, [], False
        self.dirty.add(u)


def _finite(row: tuple[int, ...]) -> Numbers:
    """Return costs as an array, those from `FORBIDDEN` on as `INFINITE`."""
    return np.array([x if x < FORBIDDEN else INFINITE for x in row] if max(row) >= FORBIDDEN else row)


def _pieces(
    merger: _Merger, usages: list[Numbers], intervals: list[tuple[int, int]], limit: int, sections: int
) -> tuple[dict[int, list[Piece]], Numbers]:
    """Return the pieces of each group that has several labels, and the room, both of the sections kept."""
    used, most = np.zeros(sections + 1, np.int64), np.zeros(sections + 1, np.int64)
    changes = np.zeros(sections + 1, np.bool_)
    pieces = {}
    for v, members in enumerate(merger.members):
        rows = []
        for first, end, row in _profile(members, usages, intervals):
            least = int(row.min())
            used[first] += least
            used[end] -= least
            if (top := int(row.max()) - least) > 0:
                most[first] += top
                most[end] -= top
                changes[first] = changes[end] = True
                rows.append((first, end, row - least))
        if rows:
            pieces[v] = rows
    room = (limit - np.cumsum(used))[:sections]
    tight = np.flatnonzero((np.cumsum(most)[:sections] > room) | (room < 0))
    spans = np.cumsum(changes)[tight]
    order = np.lexsort((room[tight], spans))
    kept = tight[order[np.flatnonzero(np.diff(spans[order], prepend=-1))]]
    places = np.searchsorted(kept, np.arange(sections + 1))
    reduced = {
        v: [(int(places[a]), int(places[b]), row) for a, b, row in rows if places[a] < places[b]]
        for v, rows in pieces.items()
    }
    return {v: rows for v, rows in reduced.items() if rows}, room[kept]


def _profile(
    members: list[tuple[int, Numbers]], usages: list[Numbers], intervals: list[tuple[int, int]]
) -> list[Piece]:
    """Return what a group uses by label, from each section on where it changes until the next one."""
    alive = [(*intervals[v], usages[v][row]) for v, row in members if intervals[v][0] < intervals[v][1]]
    if len(alive) < 2:
        return alive
    times = sorted({time for first, end, _ in alive for time in (first, end)})
    place = {time: k for k, time in enumerate(times)}
    change = np.zeros((len(times), len(alive[0][2])), np.int64)
    for first, end, row in alive:
        change[place[first]] += row
        change[place[end]] -= row
    level = np.cumsum(change, axis=0)
    changed = [0, *(np.flatnonzero(change[1:].any(axis=1)) + 1).tolist()]
    return [(times[a], times[b], level[a]) for a, b in pairwise(changed) if level[a].any()]


def _sections(intervals: list[tuple[int, int]], uses: list[bool]) -> tuple[list[tuple[int, int]], int]:
    """Return by node the sections in which it is alive, and how many there are."""
    events = sorted(
        event
        for v, (start, end) in enumerate(intervals)
        if start < end and uses[v]
        for event in ((start, 1, v), (end, 0, v))
    )
    alive = [(0, 0)] * len(intervals)
    count, grown = 0, False
    for _, starts, v in events:
        if starts:
            alive[v], grown = (count, count), True
        else:
            count, grown = count + grown, False
            alive[v] = (alive[v][0], count)
    return alive, count
