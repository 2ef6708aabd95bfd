"""The slots of TMOF's program (`swaps_milp`), the intervals between accesses, and what GPUs in step share.

*Barred* lives may not be in tier 0 at the end of a period, though they go on behind it. Each is in an
interval then, for a slot of no length comes before the first op and one behind the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ....models.machine import ChannelGroup
from ..lanes import Lane
from ..states import StateData


@dataclass(frozen=True)
class Interval:
    """An interval between accesses: its life, the slots inside, and whether the life is used behind."""

    life: int
    slots: range
    returns: bool


@dataclass(frozen=True)
class Slots:
    """The slots of a GPU: its ops, one before them if something may not start on the device.

    And one behind them, if something that an op writes may not be there at the end of a period.
    """

    data: StateData
    before: int
    behind: int

    @cached_property
    def count(self) -> int:
        """Number of slots in an iteration."""
        return self.data.n + self.before + self.behind

    @cached_property
    def barred(self) -> frozenset[int]:
        """Numbers of the lives that may not be in tier 0 at the end of a period."""
        return frozenset(j for j, life in enumerate(self.data.lives) if life.lasting and not life.starts[0])

    def of(self, k: int) -> int:
        """Return the slot of an op, from n on in the next iteration; -1: time 0."""
        whole, rest = divmod(k, self.data.n)
        return -1 if k < 0 else whole * self.count + rest + self.before

    @cached_property
    def outer(self) -> dict[int, tuple[int | None, int]]:
        """By outer tier from which the device can read: the numbers of the links to it and from there."""
        pairs = {(way.src, way.dst): w for w, way in enumerate(self.data.ways)}
        tiers = range(1, len(self.data.capacity))
        return {x: (pairs.get((0, x)), pairs[x, 0]) for x in tiers if (x, 0) in pairs}

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """The intervals that have slots inside."""
        intervals = []
        for number, life in enumerate(self.data.lives):
            if life.ring and life.accesses:
                uses = [*life.accesses, self.data.n + life.accesses[0]]
            elif life.kept and not (life.accesses and life.accesses[-1] >= self.data.n):
                uses = [life.born, *life.accesses, self.data.n]
            else:
                uses = [life.born, *life.accesses]
            for before, behind in pairwise(uses):
                ends = (
                    life.kept
                    and behind == self.data.n
                    and behind not in life.accesses
                    and not (life.ring and life.accesses)
                )
                last = self.count + (number in self.barred and not life.ring) if ends else self.of(behind)
                if last - self.of(before) > 1:
                    intervals.append(Interval(number, range(self.of(before) + 1, last), not ends))
        return tuple(intervals)


def slots_of(data: Sequence[StateData]) -> tuple[Slots, ...]:
    """Return the slots of GPUs in step, each with as many ops."""
    far = [life for x in data for life in x.lives if not life.starts[0] and (life.born < 0 or life.lasting)]
    behind = any(life.born >= 0 for life in far)
    slots = tuple(Slots(x, int(bool(far)), int(behind)) for x in data)
    return slots


def alike(data: Sequence[StateData]) -> bool:
    """Whether all GPUs have the same graph, memory and links."""
    return all(
        (x.duration, x.need, x.keeps, x.capacity[0], x.lives, x.ways)
        == (y.duration, y.need, y.keeps, y.capacity[0], y.lives, y.ways)
        for x, y in pairwise(data)
    )


def pairs_of(lane: Lane, data: StateData) -> list[tuple[str, str]]:
    """Return the names of the tiers that the links of a lane join."""
    names = [tier.name for tier in lane.problem.machine.tiers]
    return [(names[way.src], names[way.dst]) for way in data.ways]


def shares(
    lanes: Sequence[Lane], data: Sequence[StateData], groups: Sequence[ChannelGroup]
) -> list[tuple[tuple[int, ...], int]]:
    """Return what each of several GPUs has of the groups that treat all alike, rounded up to bytes/s."""
    caps = []
    for group in groups:
        ways = {
            tuple(w for w, pair in enumerate(pairs_of(lane, x)) if pair in group.channels)
            for lane, x in zip(lanes, data, strict=True)
        }
        if len(ways) == 1 and ways != {()}:
            caps.append((ways.pop(), -(-group.bytes_per_s // len(lanes))))
    return caps


def joint_rate(
    lanes: Sequence[Lane], data: Sequence[StateData], groups: Sequence[ChannelGroup], outward: bool
) -> int | None:
    """Return the least rate of a group that counts a direction of every GPU; None if none does."""
    pairs = {
        pair
        for lane, x in zip(lanes, data, strict=True)
        for pair, way in zip(pairs_of(lane, x), x.ways, strict=True)
        if not (way.src if outward else way.dst)
    }
    return min((group.bytes_per_s for group in groups if pairs <= set(group.channels)), default=None)
