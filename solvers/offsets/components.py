"""The components of a problem `offsets`, and what is known of each: where every method reads and writes.

A *component* is what `lowtide.formulations.offsets.data` calls an independent part: the buffers of one pool
over one stretch of time. The height of a pool is the greatest height of its components, so the greatest
proved bound of these bounds the pool, and a component whose height is within that bound is done, whatever its
own optimum is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...formulations.offsets.data import OffsetsData, offsets_data
from ...models.arrays import Integers
from ...models.buffers import Buffers
from ...models.problems.offsets import Offsets
from ...models.verifier.allocation import verify_allocation
from ..context import Context, Outcome

if TYPE_CHECKING:
    from .search import Prepared


Rule = Callable[[OffsetsData], Integers]
"""From the data of a component to its offsets, in units."""


def addresses(buffers: Buffers, rule: Rule) -> dict[str, int]:
    """Return the addresses that a rule gives all buffers that have bytes, in bytes."""
    offsets = {}
    for data in offsets_data(buffers):
        for i, offset in zip(data.numbers.tolist(), rule(data).tolist(), strict=True):
            offsets[buffers.buffers[i].id] = offset * data.unit
    return offsets


@dataclass(eq=False, kw_only=True)
class BestOffsets:
    """One component, its best offsets with their height, and its proved bound, in its units.

    `prepared` is what branch and bound keeps of it.
    """

    data: OffsetsData
    prepared: Prepared | None = None
    offsets: Integers | None = None
    height: int | None = None
    bound: int = 0

    @property
    def needed(self) -> int:
        """Bytes that are proved to be needed."""
        return self.bound * self.data.unit


class Components:
    """All components of a problem; offers and bounds go on to the context.

    Parameters
    ----------
    problem
        What is solved.
    context
        Where whole answers and bounds of the whole go.

    Attributes
    ----------
    all
        By pool, then time; with the bound that `lower_bound` proves.
    """

    def __init__(self, problem: Offsets, context: Context) -> None:
        from .bounds import lower_bound

        self.problem, self.context = problem, context
        self.all = [BestOffsets(data=data, bound=lower_bound(data)) for data in offsets_data(problem.buffers)]
        self._ids = [b.id for b in problem.buffers.buffers]
        self._floor = dict.fromkeys(problem.buffers.pools, 0)  # of buffers of 0 bytes
        self._start = {}
        for b in problem.buffers.buffers:
            if not b.size:
                self._start[b.id] = b.offset or 0
                self._floor[b.pool] = max(self._floor[b.pool], b.offset or 0)
        self._clash = _clash(problem.buffers)
        self._raise(kind="load")
        if not self.all and not self.infeasible:
            context.offer(dict(self._start))
        elif isinstance(known := context.answer, dict):  # a hint
            for component in self.all:
                offsets = np.array([known[self._ids[i]] for i in component.data.numbers], dtype=np.int64)
                component.offsets = offsets // component.data.unit
                component.height = component.data.height(component.offsets)

    @property
    def infeasible(self) -> bool:
        """Whether a component is proved not to fit its pool, or fixed offsets contradict each other."""
        return bool(self._clash or self._excess())

    def open(self) -> list[BestOffsets]:
        """Return the components whose height matters and is not proved least, the worst first.

        Empty if everything is done, or proved infeasible.
        """
        found = [] if self.infeasible else [component for component in self.all if self.is_open(component)]
        return sorted(found, key=lambda component: -component.bound * component.data.unit)

    def is_open(self, component: BestOffsets) -> bool:
        """Return whether a lower height of the component is of use, and possible as far as is known."""
        return (component.height is None or component.height > self.target(component)) and not self.infeasible

    def target(self, component: BestOffsets) -> int:
        """Return the height, in units of the component, below which nothing is gained."""
        if self.problem.satisfy:
            assert component.data.capacity is not None
            return component.data.capacity
        return max(component.bound, self._needed(component.data.pool) // component.data.unit)

    def offer(self, component: BestOffsets, offsets: Integers) -> bool:
        """Take offsets of a component if they are its best so far; return whether they are."""
        height = component.data.height(offsets)
        if component.height is not None and height >= component.height:
            return False
        component.offsets, component.height = np.array(offsets, dtype=np.int64), height
        if all(p.height is not None and p.height <= _most(p) for p in self.all):
            answer = dict(self._start)
            for p in self.all:
                assert p.offsets is not None
                for i, offset in zip(p.data.numbers.tolist(), p.offsets.tolist(), strict=True):
                    answer[self._ids[i]] = offset * p.data.unit
            self.context.offer(answer)
        return True

    def raise_bound(
        self, component: BestOffsets, value: int, proof: str = "exact", *, kind: str | None = None
    ) -> None:
        """Take a proved bound on the height of a component, in its units, if it is the best so far."""
        if value > component.bound:
            component.bound = value
            self._raise(proof, kind)

    def outcome(self, reason: str | None = None, words: str = "") -> Outcome:
        """Return how a method ends that has nothing more to do, or whose time is up; with its own words."""
        if self._clash:
            return Outcome(infeasible=True, detail=self._clash)
        for pool, needed, capacity in self._excess():
            who = f"pool {pool!r} needs" if pool else "the buffers need"
            detail = f"{who} at least {needed} bytes, more than the capacity {capacity}"
            return Outcome(infeasible=True, detail=detail)
        lacking = [p for p in self.all if p.height is not None and p.height > _most(p)]
        if lacking and self.context.incumbent is None:
            height = max(p.height * p.data.unit for p in lacking if p.height is not None)
            high = f"the lowest allocation found needs {height} bytes, more than the capacity"
            words = "; ".join(filter(None, (high, words)))
        return Outcome(reason=reason, detail=words)

    def _excess(self) -> list[tuple[str, int, int]]:
        """Return the pools that need more than their capacity: name, bytes needed, capacity."""
        excess = []
        for pool, capacity in self.problem.buffers.pools.items():
            needed = max(self._floor[pool], self._needed(pool))
            if capacity is not None and needed > capacity:
                excess.append((pool, needed, capacity))
        return excess

    def _needed(self, pool: str) -> int:
        return max((p.needed for p in self.all if p.data.pool == pool), default=0)

    def _raise(self, proof: str = "exact", kind: str | None = None) -> None:
        total = sum(max(floor, self._needed(pool)) for pool, floor in self._floor.items())
        self.context.raise_bound(total, proof, kind=kind)


def _clash(buffers: Buffers) -> str:
    """Return which buffers overlap at their fixed offsets, or nothing."""
    fixed = {b.id: b.offset for b in buffers.buffers if b.offset is not None}
    if len(fixed) < 2:
        return ""
    alone = Buffers(
        buffers=tuple(b for b in buffers.buffers if b.id in fixed),
        inplace=tuple(pair for pair in buffers.inplace if fixed.keys() >= {*pair}),
    )
    overlaps = (v for v in verify_allocation(alone, fixed).violations if v.kind == "overlap")
    return next((f"fixed offsets: {v.message}" for v in overlaps), "")


def _most(component: BestOffsets) -> int:
    """Return the greatest height that is allowed, in units."""
    assert component.height is not None
    return component.height if component.data.capacity is None else component.data.capacity
