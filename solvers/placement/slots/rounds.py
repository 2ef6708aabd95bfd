"""In how many rounds the copies of a piece go: what changes in it, and how long a round takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ....formulations.placement.lanes import Lane
from ....formulations.placement.paths import LifePaths, State, tiers_of
from ....formulations.placement.slots.pieces import Cut
from ....formulations.placement.states import Life
from ....models.arrays import Integers
from ....models.machine import ChannelGroup
from ....models.units import SECOND

MOST_ROUNDS = 2**12
"""Rounds of copies in a piece at most; each copy of a piece has a part in every round."""
MORE = 32
"""Times the least number of rounds that are tried where copies follow each other."""


@dataclass(frozen=True, eq=False)
class LanePart:
    """What a lane does: how its time is cut, and a walk for each of its lives."""

    lane: Lane
    cut: Cut
    walks: Sequence[LifePaths]

    @property
    def names(self) -> list[str]:
        """The names of its tiers."""
        return [tier.name for tier in self.lane.problem.machine.tiers]


@dataclass(frozen=True, eq=False)
class Change:
    """What some bytes do in a piece.

    `accessed`: whether the op that runs needs the life in tier 0 to its end, and counts it.
    """

    g: int
    life: Life
    low: int
    high: int
    before: State
    ways: tuple[tuple[int, int], ...]
    after: State
    accessed: bool

    def tiers(self) -> Iterator[tuple[int, int | None, int | None]]:
        """Yield tiers, the copies with which bytes come there (None: before) and after which they go.

        The last is None for those that stay, and -1 for those that go at once.
        """
        there, stays = tiers_of(self.before), tiers_of(self.after)
        for x in {**dict.fromkeys(there), **dict.fromkeys(dst for _, dst in self.ways)}:
            came = None if x in there else next(i for i, (_, dst) in enumerate(self.ways) if dst == x)
            used = [i for i, (src, _) in enumerate(self.ways) if src == x]
            yield x, came, None if x in stays else max([-1 if came is None else came, *used])

    def bounds(self, rounds: int) -> Integers:
        """Return where the parts of its rounds end, from its first byte on."""
        parts = np.arange(rounds + 1, dtype=np.int64)
        return self.low + (self.high - self.low) * parts // rounds


def changes(parts: Sequence[LanePart], p: int) -> list[Change]:
    """Return what changes in a piece."""
    changed = []
    for g, part in enumerate(parts):
        ways = [(way.src, way.dst) for way in part.cut.data.ways]
        for number, e in part.cut.inside[p]:
            walk = part.walks[number]
            kept = _kept(part.cut, number, e)
            for path, before, event in walk.steps(e):
                taken = tuple(ways[w] for w in event.ways)
                changed.append(Change(g, walk.life, path.low, path.high, before, taken, event.after, kept))
    return changed


def _kept(cut: Cut, number: int, e: int) -> bool:
    """Whether the op of a piece keeps a life in tier 0 to its end."""
    piece = cut.pieces[e % len(cut.pieces)]
    life = cut.data.lives[number]
    return piece.run and any(cut.at(k) <= e < cut.end(k) for k in life.accesses) and not cut.data.replace


def number_of_rounds(
    parts: Sequence[LanePart], groups: Sequence[ChannelGroup], p: int, changed: Sequence[Change]
) -> int | None:
    """Return the number of rounds of a piece; None if none fits."""
    if parts[0].cut.pieces[p].moment:
        return 1
    still = [[0] * len(part.names) for part in parts]
    for g, part in enumerate(parts):
        piece = part.cut.pieces[p]
        still[g][0] += part.cut.data.need[piece.op] if piece.run else 0
        for number, e in part.cut.inside[p]:
            accessed, walk = _kept(part.cut, number, e), part.walks[number]
            held = dict(walk.held(e))
            for path, before, _ in walk.steps(e):
                for x in tiers_of(before):
                    held[x] -= path.high - path.low
            for x, nbytes in held.items():
                if x or not accessed:
                    still[g if not x else 0][x] += nbytes
    behind = max([0, *(len(change.ways) for change in changed)]) - 1
    least = next((r for r in _powers() if _fits(parts, still, changed, r)), None)
    if least is None or behind < 1:
        return least
    return min(
        (r for r in _powers() if least <= r <= MORE * least),
        key=lambda r: (_time(parts, groups, changed, r), r),
    )


def _powers() -> Iterator[int]:
    rounds = 1
    while rounds <= MOST_ROUNDS:
        yield rounds
        rounds *= 2


def count(changed: Sequence[Change], rounds: int) -> int:
    """Return how many rounds there are, with those in which copies follow others."""
    return rounds + max([0, *(len(change.ways) - 1 for change in changed)])


def _fits(
    parts: Sequence[LanePart], still: Sequence[Sequence[int]], changed: Sequence[Change], rounds: int
) -> bool:
    """Whether all tiers have room in every round."""
    at = np.arange(count(changed, rounds))
    used = [[np.full(len(at), nbytes, dtype=np.int64) for nbytes in row] for row in still]
    for change in changed:
        bounds = change.bounds(rounds)
        for x, came, gone in change.tiers():
            if gone == -1 or (not x and change.accessed):
                continue
            row = used[change.g if not x else 0]
            row[x] += change.high if came is None else bounds[np.clip(at - came + 1, 0, rounds)]
            row[x] -= change.low if gone is None else bounds[np.clip(at - gone, 0, rounds)]
    for g, part in enumerate(parts):
        for x, capacity in enumerate(part.cut.data.capacity):
            if capacity is not None and (not g or not x) and used[g][x].max(initial=0) > capacity:
                return False
    return True


def _time(
    parts: Sequence[LanePart], groups: Sequence[ChannelGroup], changed: Sequence[Change], rounds: int
) -> Fraction:
    """Return about the ns of a piece in so many rounds."""
    total = Fraction(0)
    for number in range(count(changed, rounds)):
        carried = moves(changed, rounds, number)
        total += length(
            parts, groups, {way: sum(b - a for _, a, b in ranges) for way, ranges in carried.items()}
        )
        total += max((latency(parts, way) for way in carried), default=0)
    return total


Channel = tuple[int, int, int]
"""Number of the lane, tiers from and to."""


def moves(changed: Sequence[Change], rounds: int, number: int) -> dict[Channel, list[tuple[Life, int, int]]]:
    """Return what the channels carry in a round."""
    ranges_of: dict[Channel, list[tuple[Life, int, int]]] = {}
    for change in changed:
        for i, (src, dst) in enumerate(change.ways):
            j = number - i
            if 0 <= j < rounds:
                span = change.high - change.low
                low, high = (change.low + span * x // rounds for x in (j, j + 1))
                if low == high:
                    continue
                ranges = ranges_of.setdefault((change.g, src, dst), [])
                if ranges and ranges[-1][0] is change.life and ranges[-1][2] == low:
                    ranges[-1] = change.life, ranges[-1][1], high
                else:
                    ranges.append((change.life, low, high))
    return ranges_of


def latency(parts: Sequence[LanePart], way: Channel) -> int:
    """Return the ns before a channel's bytes begin to move."""
    g, src, dst = way
    return next(w.latency for w in parts[g].cut.data.ways if (w.src, w.dst) == (src, dst))


def length(parts: Sequence[LanePart], groups: Sequence[ChannelGroup], nbytes: dict[Channel, int]) -> Fraction:
    """Return the ns in which all channels together can carry these bytes."""
    times, by_pair = [Fraction(0)], dict[tuple[str, str], int]()
    for (g, src, dst), moved in nbytes.items():
        rate = next(w.rate for w in parts[g].cut.data.ways if (w.src, w.dst) == (src, dst))
        times.append(Fraction(moved * SECOND, rate))
        pair = parts[g].names[src], parts[g].names[dst]
        by_pair[pair] = by_pair.get(pair, 0) + moved
    for group in groups:
        moved = sum(by_pair.get(pair, 0) for pair in group.channels)
        times.append(Fraction(moved * SECOND, group.bytes_per_s))
    return max(times)
