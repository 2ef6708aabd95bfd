"""The variables of the slot model (`bytes_lp`): contents by life, instant and set of tiers, moves, stalls."""

from __future__ import annotations

from collections.abc import Iterator

from ...linear_program import ProgramBuilder
from ...model import Tick
from ..paths import Move, moves
from ..states import Life, StateData
from .pieces import Cut

Columns = dict[tuple[int, int, int], int]
"""Column of a variable by life, instant and set of tiers."""


def memory_of(data: StateData) -> int:
    """Return the bytes of tier 0; of an unlimited one, those of all lives."""
    capacity = data.capacity[0]
    return sum(life.nbytes for life in data.lives) if capacity is None else capacity


class SlotColumns:
    """The variables."""

    def __init__(self, cut: Cut, stall: int, tick: Tick) -> None:
        self.cut, self.data = cut, cut.data
        self.span = len(cut.pieces)
        self.builder = ProgramBuilder(
            bytes_unit=max(1, memory_of(self.data) // 32),
            time_unit=max(1, min(max(stall, self.data.ideal), 1000 * self.data.ideal) // 64),
            tick=tick,
        )
        self.stalls = {
            p: self.builder.variable(stall, self.builder.time_unit, cost=1)
            for p, piece in enumerate(cut.pieces)
            if not piece.run
        }
        self.sets = range(2, 2 ** len(self.data.capacity), 2)
        self.absent: Columns = {}
        self.held: Columns = {}
        self.moved: dict[tuple[int, int], dict[Move, int]] = {}

    def instants(self, life: Life) -> Iterator[tuple[int, int]]:
        """Yield the instants of a life, and as they count in the tables: a ring's last one is its first."""
        for e in self.cut.instants(life):
            yield e, e % self.span if life.ring else e

    def read(self, life: Life) -> set[int]:
        """Return the instants at which ops that access a life start."""
        return {self.cut.at(k) for k in life.accesses}

    def contents(self) -> None:
        """Variables h and a."""
        for number, life in enumerate(self.data.lives):
            instants, starts = self.cut.instants(life), self.read(life)
            may = sum(1 << x for x, there in enumerate(life.starts) if there)
            for e in instants[: -1 if life.ring else None]:
                first = e == instants[0] and not life.ring
                border = (life.lasting and e % self.span == 0) or (life.born < 0 and first)
                before = e - 1 if not first and self.cut.pieces[(e - 1) % self.span].moment else None
                for q in self.sets:
                    if (first and life.born >= 0) or (border and q & ~may):
                        continue
                    key = number, e, q
                    if before is None:
                        self.held[key] = self._bytes(life.nbytes)
                    elif (number, before, q) in self.held:
                        self.held[key] = self.held[number, before, q]
                    else:
                        continue
                    if (number, before, q) in self.absent:
                        self.absent[key] = self.absent[number, before or 0, q]
                    elif e not in starts:
                        self.absent[key] = self._bytes(life.nbytes)

    def flows(self, onward: bool) -> None:
        """Variables r, c, b, g, f, first those into tier 0.

        `onward`: in states that are empty at the beginning of a piece, too, for bytes that pass several
        channels in it.
        """
        ways = self.data.ways
        by_direction = []
        for life in self.data.lives:
            outside = [life.lasting and not there for there in life.starts]
            limited = [c is not None or x for c, x in zip(self.data.capacity, outside, strict=True)]
            every = moves(self.data, tuple(limited))
            reads = [m for m in every if m.way is not None and not ways[m.way].dst]
            by_direction.append((reads, [m for m in every if m not in reads]))
        for returning in (True, False):
            for number, life in enumerate(self.data.lives):
                for _, p in list(self.instants(life))[:-1]:
                    if self.cut.pieces[p % self.span].moment:
                        continue
                    gone = [q for q in self.sets if (number, p, q) in self.absent]
                    there = [q for q in self.sets if (number, p, q) in self.held]
                    if onward:
                        gone, there = [*self.sets] if gone else [], [*self.sets]
                    before = {*((q, True) for q in gone), *((q, False) for q in (0, *there))}
                    for move in by_direction[number][not returning]:
                        if move.before in before:
                            self.moved.setdefault((number, p), {})[move] = self._bytes(life.nbytes)

    def _bytes(self, most: int) -> int:
        return self.builder.variable(most, self.builder.bytes_unit)
