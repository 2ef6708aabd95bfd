r"""Paging in the stages of `stages_milp`: what the slower tiers have, from place to place.

Data: tiers :math:`k = 0, 1, \dots, K`, 0 the fast memory, the others by the channels that lie between;
capacities :math:`C_k`; channels :math:`(j, k)`, on which a copy of value u takes :math:`c^{jk}_u` ticks.

Variables. :math:`X^{jk}_{eu} \in \{0, 1\}`: at event e value u is copied from tier j to tier k;
:math:`G^k_{eu} \in [0, 1]`: tier k has u behind event e (0 at first); between events nothing changes. At the
place of op i in stage t there are, one behind the other,

- where a slower tier is limited, an *outward* event for what i reads and has a use later: copies from the
  fast memory to slower tiers, and on to tiers of larger number;
- an *inward* event for what i reads: copies from slower tiers to those of smaller number, then to the fast
  memory (:math:`F_{tiu} = \sum_k X^{k0}_u` for `stages_milp`);
- behind the run an *outward* event for what i leaves and has a use later.

Before everything there is an outward event for initial values. (Where no slower tier is limited, to write a
value later costs as much as to write it when it is left.) The objective is :math:`\sum c^{jk}_u X^{jk}_{eu}`
more, subject to

8. :math:`X^{j0}, X^{jk} \le G^j` as it is when its turn comes: outward events go through the targets upwards,
   inward ones downwards; :math:`X^{0k} \le P`, or :math:`\le R` for what the run leaves; X of a place
   :math:`\le R`;
9. :math:`G^k_{eu} \le G^k_{e-1,u} + \sum_j X^{jk}_{eu}`; behind the run, for what i leaves or destroys,
   :math:`G^k_{eu} \le 1 - R_{ti} + \sum_j X^{jk}_{eu}` also (a run makes other copies stale);
10. :math:`\sum_u m_u G^k_{eu} \le C_k` where event e brings something to tier k. Values that are read, or
    copied on, may leave a limited tier behind that.

What is left out, without loss where slower tiers are unlimited: copies from tier to tier of values that the
op of the place does not access, and their discards. With one slower tier this is POET's paging. A solution
for some of the tiers and channels is one for all of them: a further tier never hurts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...models.lowering.actions import Transfer
from .data import RecomputeData

CONSTRAINTS = ("moves_if_there", "slower_tier_has_it", "slower_tier_suffices")
"""The names of rows (8), (9), (10)."""

Move = tuple[int, int, int, Any]
"""Value, tier from which and tier to which it is copied, and its variable X."""

Row = Callable[[str, Sequence[tuple[float, Any]], float], None]
"""Adds to a family a row: a weighted sum of variables and numbers is at most a number."""


@dataclass(frozen=True, kw_only=True)
class Paging:
    """Slower tiers.

    Attributes
    ----------
    tiers
        Names, the fast memory first; the others by the channels that lie between.
    ticks
        By channel, as the numbers of its tiers, and by value the ticks of a copy.
    capacity
        By tier, units or None; that of the fast memory counts elsewhere.
    """

    tiers: tuple[str, ...]
    ticks: Mapping[tuple[int, int], tuple[int, ...]]
    capacity: tuple[int | None, ...]

    @property
    def slower(self) -> range:
        """The numbers of the slower tiers."""
        return range(1, len(self.tiers))

    @property
    def limited(self) -> bool:
        """Whether some slower tier has a capacity."""
        return any(capacity is not None for capacity in self.capacity[1:])


class SlowerTiers:
    """What the slower tiers have while the model is built.

    Attributes
    ----------
    fares
        Ticks and variables of all copies.
    """

    def __init__(self, model: Any, data: RecomputeData, paging: Paging | None, row: Row) -> None:
        self.model, self.data, self.row = model, data, row
        self.paging = paging if paging is not None else Paging(tiers=("",), ticks={}, capacity=(None,))
        self.has: list[list[Any]] = [[0] * len(data.values) for _ in self.paging.tiers]
        """G by tier and value; that of the fast memory is not used."""
        self.fares: list[tuple[int, Any]] = []

    def outward(
        self, sources: Mapping[int, Sequence[Any]], *, stale: Collection[int] = (), run: Any = 0
    ) -> list[Move]:
        """Return the copies of an outward event.

        Parameters
        ----------
        sources
            By value, variables or numbers that are 1 if the fast memory has it then.
        stale, run
            Values of which other copies are stale if the run takes place.
        """
        moves: list[Move] = []
        for k in self.paging.slower:
            for u in {**dict.fromkeys(stale), **sources}:
                arriving = []
                for j in range(k) if u in sources else ():
                    there = [*sources[u], *([self.has[j][u]] if j else [])]
                    arriving += self._copy(u, j, k, there)
                moves += arriving
                if arriving or u in stale:
                    self._update(k, u, [x for *_, x in arriving], run if u in stale else None)
            if any(move[2] == k for move in moves):
                self._suffices(k)
        self._may_go({(u, j) for u, j, _, _ in moves if j})
        return moves

    def inward(self, values: Iterable[int], run: Any) -> list[Move]:
        """Return the copies of an inward event, those to the fast memory last."""
        moves: list[Move] = []
        values = list(values)
        for k in reversed(self.paging.slower):
            for u in values:
                arriving = [
                    x for j in self.paging.slower if j > k for x in self._copy(u, j, k, (self.has[j][u], run))
                ]
                moves += arriving
                if arriving:
                    self._update(k, u, [x for *_, x in arriving], None)
            if any(move[2] == k for move in moves):
                self._suffices(k)
        for u in values:
            moves += [x for j in self.paging.slower for x in self._copy(u, j, 0, (self.has[j][u], run))]
        self._may_go({(u, j) for u in values for j in self.paging.slower})
        return moves

    def _copy(self, u: int, j: int, k: int, limits: Sequence[Any]) -> list[Move]:
        """(8) Return the copy of a value from tier to tier, if there is a channel and may be the value."""
        if (j, k) not in self.paging.ticks or any(isinstance(x, int) and not x for x in limits):
            return []
        made = self.model.X.add()
        self.fares.append((self.paging.ticks[j, k][u], made))
        for limit in limits:
            self.row("moves_if_there", [(1, made), (-1, limit)], 0)
        return [(u, j, k, made)]

    def _update(self, k: int, u: int, arriving: Sequence[Any], run: Any | None) -> None:
        """(9) Change what tier k has of a value; `run` makes other copies stale."""
        before = self.has[k][u]
        if not arriving and isinstance(before, int) and not before:
            return
        now = self.has[k][u] = self.model.G.add()
        come = [(-1, x) for x in arriving]
        self.row("slower_tier_has_it", [(1, now), (-1, before), *come], 0)
        if run is not None:
            self.row("slower_tier_has_it", [(1, now), (1, run), *come], 1)

    def _may_go(self, places: Collection[tuple[int, int]]) -> None:
        """(10) Values in limited tiers may be gone from here on."""
        for u, k in sorted(places):
            if self.paging.capacity[k] is not None:
                self._update(k, u, (), None)

    def _suffices(self, k: int) -> None:
        """(10) What tier k has now is within it."""
        capacity = self.paging.capacity[k]
        if capacity is not None:
            terms = [(x.nbytes, g) for x, g in zip(self.data.values, self.has[k], strict=True)]
            self.row("slower_tier_suffices", terms, capacity)


def transfers(
    data: RecomputeData, paging: Paging, moves: Iterable[Move], value: Callable[[Any], float]
) -> list[Transfer]:
    """Return the copies that a solution has of some moves, bundles tensor by tensor."""
    return [
        Transfer(t, paging.tiers[j], paging.tiers[k])
        for u, j, k, made in moves
        if value(made) > 0.5
        for t in data.tensors[data.values[u].tensor]
    ]
