"""Time cut into pieces, for the slot models: stalls, runs and, under ``replace``, the starts of runs.

*Pieces* p = 0..P-1 follow each other: for each op k some of its stall, then some of its run; behind the last
op of a period one more stall. *Instants* e = 0..P: piece p lies between instants p and p + 1; in a period,
instant P is instant 0 of the next iteration, and so on. Under ``replace`` a run begins with a *moment*, a
piece of no length: what the op reads is there at the instant before it and may be gone at the one behind it,
where the op has the room that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..states import Life, StateData


@dataclass(frozen=True)
class Piece:
    """A piece of the run of an op, or of the stall before it: ns at most (exactly, in a run); None: any.

    `moment`: the start of an op that needs what it reads no longer; nothing passes a channel in it.
    """

    op: int
    run: bool
    length: int | None
    moment: bool = False


@dataclass(frozen=True)
class Cut:
    """How time is cut; op n is the end of a period."""

    data: StateData
    pieces: tuple[Piece, ...]

    @cached_property
    def start(self) -> list[int]:
        """Instant at which each op starts; behind the last one, the end."""
        first = [-1] * self.data.n
        for p in reversed(range(len(self.pieces))):
            if self.pieces[p].run:
                first[self.pieces[p].op] = p
        return [*first, len(self.pieces)]

    @cached_property
    def _ends(self) -> list[int]:
        ends = [0] * (self.data.n + 1)
        for p, piece in enumerate(self.pieces):
            ends[piece.op] = p + 1
        return ends

    def at(self, k: int) -> int:
        """Return the instant at which an op starts, from n on in the next iteration."""
        whole, rest = divmod(k, self.data.n)
        return self.start[rest] + whole * len(self.pieces)

    def end(self, k: int) -> int:
        """Return the instant at which an op ends; -1: time 0."""
        whole, rest = divmod(k, self.data.n)
        return 0 if k < 0 else self._ends[rest] + whole * len(self.pieces)

    def instants(self, life: Life) -> range:
        """Return the instants of a life; of a ring, the first is the last one too."""
        last = len(self.pieces) if life.kept else 0
        if life.accesses and not life.ring:
            last = max(last, self.at(life.accesses[-1]))
        return range(self.end(life.born), last + 1)

    @cached_property
    def inside(self) -> list[list[tuple[int, int]]]:
        """By piece, the lives that are in it, and the instant at its beginning as they count."""
        lives: list[list[tuple[int, int]]] = [[] for _ in self.pieces]
        for number, life in enumerate(self.data.lives):
            for e in self.instants(life)[:-1]:
                lives[e % len(self.pieces)].append((number, e))
        return lives

    @cached_property
    def busy(self) -> list[set[int]]:
        """By life, the instants when it must be in tier 0: from start to end of an op, or at its start."""
        return [
            {e for k in life.accesses for e in range(self.at(k), self._until(k) + 1)}
            for life in self.data.lives
        ]

    def _until(self, k: int) -> int:
        return self.at(k) if self.data.replace else self.end(k)

    def used(self, number: int, p: int) -> bool:
        """Whether the op of a piece accesses a life in it; `p` counts as the life does."""
        return p in self.busy[number] and p + 1 in self.busy[number] and self.pieces[p % len(self.pieces)].run


def coarse(data: StateData) -> Cut:
    """Return the cut into one piece for each run and one for each stall, with moments between if need be.

    Examples
    --------
    >>> from lowtide.formulations.placement.states import state_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&machine=v100-16g-pcie3&start=gpu&whole=1")
    >>> cut = coarse(state_data(problem))
    >>> len(cut.pieces), cut.start, [len(cut.instants(life)) for life in cut.data.lives]
    (6, [1, 3, 5, 6], [2, 2, 1])
    """
    pieces = []
    for k in range(data.n):
        pieces.append(Piece(k, False, None))
        pieces += [Piece(k, True, 0, moment=True)] if data.replace else []
        pieces.append(Piece(k, True, data.duration[k]))
    return Cut(data, (*pieces, Piece(data.n, False, None)) if data.periodic else tuple(pieces))
