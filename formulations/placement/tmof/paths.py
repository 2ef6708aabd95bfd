"""What a solution of TMOF's program (`swaps_milp`) does with each life, as paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..paths import LifePaths, Move, State, moves, walk
from ..slots.pieces import Cut, coarse
from .slots import Slots
from .swaps_milp import TmofModel

Value = Callable[[Any], float]


def decode(built: TmofModel, value: Value, g: int) -> tuple[Cut, list[LifePaths]]:
    """Return what each life of a GPU does: all of an op's swaps from its start to its end, none before."""
    cut, lives = owns(built, value, g)
    walks = []
    for own, life in zip(lives, cut.data.lives, strict=True):
        found = walk(cut, life, own.every, own.amounts, own.carried)
        assert found is not None
        walks.append(found)
    return cut, walks


def owns(built: TmofModel, value: Value, g: int) -> tuple[Cut, list[Own]]:
    """Return how time is cut, and the lives of a GPU in a solution."""
    slots = built.slots[g]
    cut = coarse(slots.data)
    at = _instants(cut, slots)
    every = [move for move in moves(slots.data, [False] * len(slots.data.capacity)) if move.way is not None]
    return cut, [Own(built, value, g, number, at, every) for number in range(len(slots.data.lives))]


def _instants(cut: Cut, slots: Slots) -> list[tuple[int, bool]]:
    """Return the slot of each instant of two iterations, and whether it is behind it; at time 0 it is not."""
    n, span = slots.data.n, len(cut.pieces)
    instants: list[tuple[int, bool]] = []
    ends = {cut.end(k): k for k in range(2 * n)}
    for e in range(2 * span + 1):
        if e % span == 0 and (slots.data.periodic or not e):
            instants.append((e // span * slots.count, False))
        elif e in ends:
            instants.append((slots.of(ends[e]), True))
        else:
            instants.append((slots.of(cut.pieces[e % span].op + e // span * n), False))
    return instants


@dataclass(frozen=True)
class Own:
    """A life in a solution."""

    built: TmofModel
    value: Value
    g: int
    number: int
    at: list[tuple[int, bool]]
    every: Sequence[Move]

    def interval(self, k: int) -> tuple[int, int] | None:
        """Return the interval that has a slot inside, and the slot as it counts there."""
        slots = self.built.slots[self.g]
        ring = slots.data.lives[self.number].ring
        for j, interval in enumerate(slots.intervals):
            if interval.life == self.number:
                for i in (k % slots.count, k % slots.count + slots.count) if ring else (k,):
                    if i in interval.slots:
                        return j, i
        return None

    def tier(self, j: int) -> int:
        """Return where a life is swapped to in an interval."""
        outer = self.built.slots[self.g].outer
        return max(outer, key=lambda x: (self.value(self.built.to(self.g, j, x)), -x))

    def amounts(self, e: int) -> Mapping[State, float]:
        """Return the bytes in each state at an instant."""
        built, value, slots = self.built, self.value, self.built.slots[self.g]
        k, behind = self.at[e]
        life = slots.data.lives[self.number]
        outlives = life.kept and not life.ring and life.accesses[-1:] < (slots.data.n,)
        if outlives and self.number not in slots.barred and k == slots.count:  # as the last slot has left it
            k, behind = k - 1, True
        nbytes = life.nbytes
        held = dict[int, int]()
        for x in slots.outer:
            copied = built.copied(self.g, self.number, x)
            own = copied if isinstance(copied, int) else value(copied)
            moved = sum(value(part) for part in built.out(self.g, self.number, x, k + behind))
            held[x] = min(nbytes, round((own + moved) * nbytes))
        away, inside = 0, self.interval(k)
        if inside is not None:
            j, i = inside
            if value(built.model.left[self.g, j, i]) > 0.5:
                away = nbytes
                held[self.tier(j)] = nbytes
                if slots.intervals[j].returns:
                    some = range(slots.intervals[j].slots[0], i + behind)
                    back = sum(value(built.model.into[self.g, j, x, s]) for x in slots.outer for s in some)
                    away = max(0, nbytes - round(back * nbytes))
        amounts = dict[State, float]()
        ends = sorted({0, nbytes, away, *held.values()})
        for low, high in pairwise(ends):
            q = sum(1 << x for x, there in held.items() if there > low)
            amounts[q, away > low] = amounts.get((q, away > low), 0.0) + high - low
        return amounts

    def carried(self, p: int) -> Mapping[Move, float]:
        """Return the moves in a piece."""
        inside = self.interval(self.at[p + self.at[p][1]][0])
        ways, built = self.built.slots[self.g].data.ways, self.built
        carried = {}
        for move in self.every:
            assert move.way is not None
            way = ways[move.way]
            if not way.src or (not way.dst and inside is not None and way.src == self.tier(inside[0])):
                carried[move] = float(built.slots[self.g].data.lives[self.number].nbytes)
        return carried
