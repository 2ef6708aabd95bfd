"""Absences of lives between their uses, and the instants at which all lives are more than fits.

The *uses* of a life (`states`) are its birth, its accesses and, if it is kept and no op of the next iteration
reads it, the end of the iteration; those of a ring its accesses, and the first one again. An *absence* lies
between two consecutive uses, the op `before` (-1: time 0) and that `behind`. A use ends with its op or, under
``replace`` if the op only reads the tensor, as that starts. *Instants* 2 k and 2 k + 1 are the start of op k
and its end; from 2 n on, in the next iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ..states import StateData, TierChannel


@dataclass(frozen=True)
class Absence:
    """An absence: its life, the op of the use before it (-1: none), and that behind it (`data.end`: none)."""

    life: int
    before: int
    behind: int

    def ops(self, data: StateData) -> range:
        """Return the ops that may run during it."""
        last = data.n if self.behind == data.end else self.behind
        return range(self.before + holds(data, self.life, self.before), last)

    def begins(self, data: StateData) -> int | None:
        """Return the first instant behind the begin of an iteration that lies in it; None if none does."""
        if data.lives[self.life].lasting:
            return 2 * data.n if self.before < data.n <= self.behind else None
        return 0 if self.before < 0 else None

    def away(self, data: StateData) -> bool:
        """Whether an iteration begins during it, and the life cannot be in tier 0 then."""
        return self.begins(data) is not None and not data.lives[self.life].starts[0]


def holds(data: StateData, life: int, k: int) -> bool:
    """Whether an op needs a life, which it accesses or writes, to its end (-1: yes)."""
    return k < 0 or data.lives[life].tensor in data.keeps[k % data.n]


def absences(data: StateData) -> list[Absence]:
    """Return the absences, life by life.

    Examples
    --------
    >>> from lowtide.formulations.placement.states import state_data
    >>> from lowtide.instances import load_problem
    >>> data = state_data(load_problem("placement", "gen:chain?n=3&machine=v100-16g-pcie3&whole=1"))
    >>> [(absence.before, absence.behind) for absence in absences(data)]
    [(0, 1), (1, 2), (2, 3)]
    """
    gaps = []
    for number, life in enumerate(data.lives):
        uses = [life.born, *life.accesses]
        if life.ring and life.accesses:
            uses = [*life.accesses, life.accesses[0] + data.n]
        elif life.kept and uses[-1] < data.n:
            uses.append(data.end)
        gaps += [Absence(number, before, behind) for before, behind in pairwise(uses)]
    return gaps


def excess(data: StateData) -> list[int]:
    """Return by op the bytes by which what it needs and all other lives exceed tier 0; less than 0 if not."""
    capacity = data.capacity[0]
    if capacity is None:
        return [-1] * data.n
    load = [need - capacity for need in data.need]
    for absence in absences(data):
        for k in absence.ops(data):
            load[k % data.n] += data.lives[absence.life].nbytes
    return load


def instants(data: StateData) -> list[int]:
    """Return the instants of ops that take time and have more than fits."""
    short = excess(data)
    for k, modes in data.modes.items() if data.capacity[0] is not None else ():
        short[k] += max(mode.nbytes for mode in modes)
    return [c for k in range(data.n) if short[k] > 0 and data.duration[k] for c in (2 * k, 2 * k + 1)]


def carried(data: StateData, counts: Callable[[TierChannel], bool]) -> int:
    """Return bytes per second that some channels carry together at most."""
    left = {w: way.rate for w, way in enumerate(data.ways) if counts(way)}
    total = 0
    for ways, cap in data.caps:
        total += min(cap, sum(left.pop(w, 0) for w in ways))
    return total + sum(left.values())
