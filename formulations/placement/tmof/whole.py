"""The order of a solution of TMOF's program (`swaps_milp`) in which tensors leave and return as wholes.

The program lets them leave and return in parts, beside several ops. Read as parts of lives in tiers, and of
what passes a channel in a piece of time, a solution is one of the slot model of whole tensors but for that:
`lowtide.formulations.placement.slots.order` lets each copy begin with its first part and end with its last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..slots.order import WHOLE, order
from ..slots.pieces import Cut
from ..whole.sequence import Order
from .paths import Own, Value, owns
from .swaps_milp import TmofModel


@dataclass(frozen=True)
class _Parts:
    """Parts of lives, as the slot model has them."""

    cut: Cut
    lives: list[Own]
    known: dict[tuple[int, int], list[float]] = field(default_factory=dict)

    def part(self, number: int, e: int, x: int) -> float:
        """Return the part of a life that is in a tier; one without bytes is anywhere."""
        if (number, e) not in self.known:
            nbytes = self.cut.data.lives[number].nbytes
            there = [0.0 if nbytes else 1.0] * len(self.cut.data.capacity)
            for (q, away), amounts in self.lives[number].amounts(e).items():
                for tier in range(len(there)):
                    if q >> tier & 1 if tier else not away:
                        there[tier] += amounts / nbytes
            self.known[number, e] = there
        return self.known[number, e][x]

    def flow(self, number: int, p: int, ways: list[int]) -> list[float]:
        """Return the parts that pass channels in a piece: what comes from where all of the life is."""
        end = (p + 1) % len(self.cut.pieces) if self.cut.data.lives[number].ring else p + 1
        flows = []
        for way in (self.cut.data.ways[w] for w in ways):
            comes = self.part(number, end, way.dst) - self.part(number, p, way.dst)
            flows.append(comes if self.part(number, p, way.src) > WHOLE else 0.0)
        return flows


def order_of(built: TmofModel, value: Value) -> Order | None:
    """Return the order of a solution for the first GPU; None if it moves what is nowhere whole before."""
    cut, lives = owns(built, value, 0)
    return order(_Parts(cut, lives), float)
