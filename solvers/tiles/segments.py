"""The best groups for ops in a given sequence: a dynamic program over segments and what they keep.

A sequence has every op once or more, each after runs that make what it reads; a reader uses the last such run
before it. A group is a segment. A tensor that is made and read in a segment must not be used behind it.
States at a position are sets of tensors that are kept there, and those of them that were not written; of many
states the cheapest go on. Without keeping, the program is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...models.tile_rules import Tiling
from .first_runs import Links
from .groups import GroupCosts

MOST_STATES = 6
"""Largest number of states at a position that go on; 24 gave no better answers on the table's instances."""

MOST_KEPT = 3
"""Largest number of further tensors that a segment keeps of those used next: 4 sets a segment."""

Kept = tuple[frozenset[int], frozenset[int]]
"""Tensors that are kept, and those of them that were not written."""


class GroupSegment(NamedTuple):
    """A group of the ops from one position of a sequence to another one.

    Attributes
    ----------
    end
        Position behind it.
    later
        By tensor that it may keep and a later op uses: the position of the next use.
    """

    ops: frozenset[int]
    end: int
    later: dict[int, int]


class Arrival(NamedTuple):
    """How a state is reached: ticks, position and state before, ops of the group, what it keeps."""

    ticks: int
    position: int
    before: Kept
    ops: frozenset[int]
    keep: frozenset[int]


@dataclass(kw_only=True)
class SegmentTable:
    """The states of a sequence by position."""

    costs: GroupCosts
    links: Links
    sequence: tuple[int, ...]
    keeps: bool = True
    states: list[dict[Kept, Arrival]] = field(default_factory=list)
    uses: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note the positions at which tensors are used."""
        for position, i in enumerate(self.sequence):
            for t in self.costs.given.inputs[i]:
                self.uses.setdefault(t, []).append(position)
        self.runs: dict[int, list[int]] = {}
        for position, i in enumerate(self.sequence):
            self.runs.setdefault(self.costs.given.outputs[i], []).append(position)

    def fill(self, known: Sequence[dict[Kept, Arrival]] = ()) -> int | None:
        """Return the least ticks; None if no segments fit.

        Parameters
        ----------
        known
            States at the first positions, of a sequence that is the same up to the last of them.
        """
        empty: Kept = (frozenset(), frozenset())
        start = Arrival(0, -1, empty, frozenset(), frozenset())
        self.states = [*known] or [{empty: start}]
        first = len(self.states) - 1
        self.states += [{} for _ in range(len(self.sequence) - first)]
        for position in range(len(self.sequence)):
            if not self.states[position]:
                continue
            cheapest = sorted(self.states[position].items(), key=lambda item: item[1].ticks)[:MOST_STATES]
            for segment in self._segments(position):
                if segment.end > first:
                    for state, entry in cheapest:
                        self._extend(position, state, entry.ticks, segment)
        return min((entry.ticks for entry in self.states[-1].values()), default=None)

    def tiling(self) -> Tiling:
        """Return the answer after `fill`."""
        position, groups = len(self.sequence), []
        state = min(self.states[-1], key=lambda key: self.states[-1][key].ticks)
        while position:
            entry = self.states[position][state]
            groups.append(self.costs.group(entry.ops, entry.before[0], entry.keep))
            position, state = entry.position, entry.before
        return Tiling(groups=tuple(reversed(groups)))

    def _segments(self, position: int) -> Iterator[GroupSegment]:
        """Yield the groups that begin at a position."""
        given, joined, ops = self.costs.given, list[set[int]](), set[int]()
        for end in range(position + 1, len(self.sequence) + 1):
            i = self.sequence[end - 1]
            if i in ops:
                return
            ops.add(i)
            touching = [piece for piece in joined if not piece.isdisjoint(self.links.beside[i])]
            joined = [piece for piece in joined if piece not in touching] + [{i}.union(*touching)]
            if self.costs.room(frozenset(ops)) > given.capacity:
                return
            if len(joined) == 1 and (later := self._later(position, end)) is not None:
                yield GroupSegment(frozenset(ops), end, later)

    def _later(self, position: int, end: int) -> dict[int, int] | None:
        """Return the next uses behind a segment; None if it reads a tensor that it makes for later, too."""
        given = self.costs.given
        ops = self.sequence[position:end]
        read = {t for i in ops for t in given.inputs[i]}
        later = {}
        for t in sorted(read | {given.outputs[i] for i in ops}):
            use = self._next_use(t, end)
            if use is not None:
                if t in read and any(position <= run < end for run in self.runs.get(t, ())):
                    return None
                later[t] = use
        return later

    def _next_use(self, t: int, end: int) -> int | None:
        """Return the next position from `end` on that uses a tensor as it is now."""
        use = next((q for q in self.uses.get(t, ()) if q >= end), None)
        if use is None or any(end <= run < use for run in self.runs.get(t, ())):
            return None
        return use

    def _extend(self, position: int, state: Kept, ticks: int, segment: GroupSegment) -> None:
        """Add the states to which a segment leads."""
        given, costs = self.costs.given, self.costs
        resident, unwritten = state
        inside = {given.outputs[i] for i in segment.ops}
        old = {t: use for t in resident - inside if (use := self._next_use(t, segment.end)) is not None}
        must = frozenset(t for t in unwritten if t in old)
        offered = {t: use for t, use in (old | segment.later).items() if given.area(t) < given.capacity}
        others = sorted((t for t in offered if t not in must), key=lambda t: (offered[t], t))
        shape = costs.shape(segment.ops)
        if shape is None:
            return
        target = self.states[segment.end]
        keep, added = must, 0
        for t in (None, *others) if self.keeps else (None,):
            if t is not None:
                if sum(map(given.area, keep)) + given.area(t) >= given.capacity or added == MOST_KEPT:
                    continue
                keep, added = keep | {t}, added + 1
            cost = costs.ticks(segment.ops, resident, keep)
            if cost is None:
                continue
            key = (keep, must | (keep & shape.outputs))
            if key not in target or ticks + cost < target[key].ticks:
                target[key] = Arrival(ticks + cost, position, state, segment.ops, keep)
