r"""Fewer labels, groups and sections than merging leaves, with the same least cost.

**Labels.** A label s is out if another label t of its group uses no more in any section and, whatever labels
the neighbours have, costs no more: :math:`c_s - c_t + \sum_u \min_x (q_{s x} - q_{t x}) \ge 0`. In any answer
with s, t can take its place; of two that could replace each other the later one goes. (Goldstein,
Biophysical Journal 66, 1994, with usages.)

**Folds.** A group whose labels use the same and that has at most two neighbours is *folded*: it has the best
label for theirs, what that costs is a cost of the neighbour, or of the pair of neighbours.

**Sections.** From a section to the next one, what is above the room changes at most by the sum of the largest
changes of the groups. Where that is not positive the next section is within its room if the first one is, and
is left out; and the other way round.

The groups that are left are numbered so that few of them have neighbours both among earlier and later ones:
the next one is that by which the table of such groups' labels grows least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from ...models.problems.sharding import Sharding
from .data import INFINITE, Fold, Numbers, Piece, ShardingData, merged_data

LARGEST = 20_000_000
"""Numbers that one comparison of labels, or one fold, may take: a tenth of a second."""

WORTH = 0.02
"""Of the sections, what a pass over them must leave out, so that another one follows."""


def never() -> bool:
    """Return that time is not over."""
    return False


def sharding_data(problem: Sharding, expired: Callable[[], bool] = never) -> ShardingData:
    """Return the data of a problem, made once and kept with it.

    Parameters
    ----------
    expired
        Whether time is over.

    Raises
    ------
    BuildTimeout
        If time is over before nodes are merged; what follows only ends early.
    """
    data: ShardingData | None = problem.__dict__.get("_data")
    if data is None:
        data = problem.__dict__["_data"] = reduced(merged_data(problem.network, expired), expired)
    return data


def reduced(data: ShardingData, expired: Callable[[], bool] = never) -> ShardingData:
    """Return the data without labels, groups and sections that are not needed, as the module says."""
    if data.empty is not None:
        return data
    reducer = _Reducer(_without_sections(data))
    reducer.run(expired)
    if reducer.empty is not None:
        return replace(data, empty=data.group.index(reducer.empty))
    return _without_sections(reducer.data())


class _Reducer:
    """Groups while they become fewer.

    Attributes
    ----------
    kept
        By group, its labels that are left, as the data count them.
    uses
        By group, usages by label and piece, each column once; None if they are the same for all labels.
    folds
        Groups that are folded, their neighbours with the labels that these had then, and the best label.
    empty
        A group that has no label left.
    """

    def __init__(self, data: ShardingData) -> None:
        self.given = data
        self.costs, self.fixed = [*data.costs], data.fixed
        self.kept = [np.arange(len(row)) for row in data.costs]
        self.around: list[dict[int, Numbers]] = [{} for _ in data.costs]
        for (u, v), own in data.matrices.items():
            self.around[u][v], self.around[v][u] = own, own.T
        self.uses = [
            np.unique(np.stack([row for _, _, row in pieces], 1), axis=1) if pieces else None
            for pieces in data.pieces
        ]
        self.alive = [True] * len(data.costs)
        self.folds: list[tuple[int, list[tuple[int, Numbers]], Numbers]] = []
        self.empty: int | None = None

    def run(self, expired: Callable[[], bool]) -> None:
        """Go on until nothing changes, or time is over."""
        self.dirty = dict.fromkeys(range(len(self.costs)))
        while self.dirty and self.empty is None and not expired():
            v = self.dirty.popitem()[0]
            if not self.alive[v]:
                continue
            gone = self._gone(v)
            if gone.any():
                self._drop(v, ~gone)
            elif len(self.costs[v]) == 1 or (self.uses[v] is None and len(self.around[v]) <= 2):
                self._fold(v)

    def _gone(self, v: int) -> np.ndarray:
        """Return of each label whether it is out: forbidden with all of a neighbour's, or replaced."""
        costs, uses, around = self.costs[v], self.uses[v], self.around[v]
        gone = np.zeros(len(costs), np.bool_)
        for own in around.values():
            gone |= own.min(axis=1) >= INFINITE
        columns = 1 if uses is None else uses.shape[1]
        if gone.any() or len(costs) == 1 or len(costs) ** 2 * columns > LARGEST:
            return gone
        able = ~np.eye(len(costs), dtype=np.bool_)
        for used in () if uses is None else uses.T:
            able &= used[:, None] >= used[None, :]
        s, t = np.nonzero(able)
        more = costs[s] - costs[t]
        cap = INFINITE // (len(around) + 2)
        for own in sorted(around.values(), key=lambda own: own.shape[1]):
            if len(s) * own.shape[1] > LARGEST:
                return gone
            more = more + _least_difference(own, s, t, cap)
            fits = more > -cap
            s, t, more = s[fits], t[fits], more[fits]
        better = np.zeros(able.shape, np.bool_)
        better[s[more >= 0], t[more >= 0]] = True
        better &= ~(better.T & np.tri(len(costs), dtype=np.bool_).T)
        return np.asarray(better.any(axis=1))

    def _drop(self, v: int, kept: np.ndarray) -> None:
        if not kept.any():
            self.empty = v
            return
        self.costs[v], self.kept[v] = self.costs[v][kept], self.kept[v][kept]
        uses = self.uses[v]
        if uses is not None:
            uses = uses[kept]
            self.uses[v] = uses if (uses != uses[:1]).any() else None
        for u, own in self.around[v].items():
            self.around[v][u] = own[kept]
            self.around[u][v] = self.around[v][u].T
            self.dirty[u] = None
        self.dirty[v] = None

    def _fold(self, v: int) -> None:
        """Fold a group; of one with a single label the neighbours may be any number."""
        costs, near = self.costs[v], sorted(self.around[v])
        if len(costs) == 1 or not near:
            best = int(costs.argmin())
            self.fixed += int(costs[best])
            self.costs[v], self.kept[v] = costs[best : best + 1], self.kept[v][best : best + 1]
            for u in near:
                self.costs[u] = np.minimum(self.costs[u] + self.around[u][v][:, best], INFINITE)
        elif len(near) == 1:
            total = np.minimum(self.around[near[0]][v] + costs, INFINITE)
            self.folds.append((v, [(near[0], self.kept[near[0]])], total.argmin(axis=1)))
            self.costs[near[0]] = np.minimum(self.costs[near[0]] + total.min(axis=1), INFINITE)
        else:
            u, w = near
            first, last = np.minimum(self.around[u][v] + costs, INFINITE), self.around[v][w]
            if first.size * last.shape[1] > LARGEST:
                return
            total = np.full((len(first), last.shape[1]), INFINITE)
            best_of = np.zeros(total.shape, np.int64)
            for s in range(len(costs)):
                with_s = first[:, s, None] + last[s]
                best_of[with_s < total] = s
                np.minimum(total, with_s, out=total)
            self.folds.append((v, [(u, self.kept[u]), (w, self.kept[w])], best_of))
            if w in self.around[u]:
                total = np.minimum(total + self.around[u][w], INFINITE)
            self.around[u][w], self.around[w][u] = total, total.T
        for u in near:
            del self.around[u][v]
            self.dirty[u] = None
        self.around[v], self.alive[v] = {}, False

    def data(self) -> ShardingData:
        """Return what is left."""
        heads = _numbered(self.alive, self.costs, self.around)
        new = {v: k for k, v in enumerate(heads)}
        folds = []
        for v, near, best in reversed(self.folds):
            for axis in range(len(near) - 1, -1, -1):
                u, labels = near[axis]
                best = best.take(np.searchsorted(labels, self.kept[u]), axis=axis)
                if u not in new:  # settled since
                    best = np.asarray(best.take(0, axis=axis))
            folds.append(Fold(near=tuple(new[u] for u, _ in near if u in new), best=best))
            new[v] = len(new)
        given = self.given
        pieces: list[list[Piece]] = [[] for _ in heads]
        constant = np.zeros(len(given.room) + 1, np.int64)
        for v, rows in enumerate(given.pieces):
            for first, end, row in rows:
                left = row[self.kept[v]]
                least = int(left.min())
                constant[first] += least
                constant[end] -= least
                if self.alive[v] and int(left.max()) > least:
                    pieces[new[v]].append((first, end, left - least))
        return replace(
            given,
            group=[new.get(g, -1) for g in given.group],
            strategies=[
                row if g < 0 else row[self.kept[g]]
                for g, row in zip(given.group, given.strategies, strict=True)
            ],
            fixed=self.fixed,
            costs=[self.costs[v] for v in heads],
            matrices={
                (new[u], new[v]): np.ascontiguousarray(self.around[u][v])
                for u in heads
                for v in sorted(self.around[u], key=new.__getitem__)
                if new[u] < new[v]
            },
            pieces=pieces,
            room=given.room - np.cumsum(constant)[:-1],
            folds=tuple(folds),
        )


def _least_difference(own: Numbers, s: Numbers, t: Numbers, cap: int) -> Numbers:
    """Return the least of what row s is dearer than row t; -cap where t alone is forbidden, `cap` at most."""
    first, other = own[s], own[t]
    with np.errstate(over="ignore"):
        difference = np.clip(first - other, -cap, cap)
    if int(own.max()) >= INFINITE:
        difference = np.where(first >= INFINITE, cap, np.where(other >= INFINITE, -cap, difference))
    return np.asarray(difference.min(axis=1))


def _numbered(alive: list[bool], costs: list[Numbers], around: list[dict[int, Numbers]]) -> list[int]:
    """Return the groups that are alive in the order that the module describes."""
    size = [float(np.log2(len(row))) for row in costs]
    ahead = [len(near) for near in around]
    done = [not is_alive for is_alive in alive]

    def grows(v: int) -> tuple[float, int, int]:
        ended = [u for u in around[v] if done[u] and ahead[u] == 1]
        more = (size[v] if ahead[v] else 0.0) - sum(size[u] for u in ended)
        return more, ahead[v] - len(around[v]), v

    starts = sorted((v for v in range(len(alive)) if alive[v]), key=lambda v: (len(around[v]), v))
    order: list[int] = []
    heap: list[tuple[float, int, int]] = []
    heapify(heap)
    for start in starts:
        if not done[start]:
            heappush(heap, grows(start))
        while heap:
            entry = heappop(heap)
            v = entry[-1]
            if done[v] or entry != grows(v):
                continue
            done[v] = True
            order.append(v)
            changed = set()
            for u in around[v]:
                ahead[u] -= 1
                changed.add(u)
                if done[u] and ahead[u] == 1:
                    changed.update(around[u])
            if ahead[v] == 1:
                changed.update(around[v])
            for u in changed:
                if not done[u]:
                    heappush(heap, grows(u))
    return order


def _without_sections(data: ShardingData) -> ShardingData:
    """Return the data without sections that a neighbour's room implies."""
    while (count := len(data.room)) > 1:
        rise, fall = _changes(data)
        follows, precedes = rise <= 0, fall <= 0  # from a section to the next one, and back
        out = np.zeros(count, np.bool_)
        out[:-1] |= precedes
        out[1:] |= follows & ~precedes
        if out.sum() < max(1, WORTH * count):
            break
        kept = np.flatnonzero(~out)
        places = np.searchsorted(kept, np.arange(count + 1)).tolist()
        pieces = []
        for rows in data.pieces:
            joined: list[Piece] = []
            for first, end, row in rows:
                a, b = places[first], places[end]
                if a < b and joined and joined[-1][1] == a and (joined[-1][2] == row).all():
                    joined[-1] = (joined[-1][0], b, row)
                elif a < b:
                    joined.append((a, b, row))
            pieces.append(joined)
        data = replace(data, pieces=pieces, room=data.room[kept])
    return data


def _changes(data: ShardingData) -> tuple[Numbers, Numbers]:
    """Return by section but the last the most that the excess can rise to the next one, and fall."""
    count = len(data.room)
    rise, fall = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    for rows in data.pieces:
        until, before = -1, np.zeros(0, np.int64)
        for first, end, row in rows:
            if until == first:
                change = row - before
                rise[first] += change.max()
                fall[first] -= change.min()
            else:
                if until >= 0:
                    rise[until] -= before.min()
                    fall[until] += before.max()
                rise[first] += row.max()
                fall[first] -= row.min()
            until, before = end, row
        if until >= 0:
            rise[until] -= before.min()
            fall[until] += before.max()
    room = np.diff(data.room)
    return rise[1:count] - room, fall[1:count] + room
