r"""Least latency as a shortest path over what is in slow and in fast memory.

A state is the set A of tensors in the slow memory and the set F of those kept in the fast one. A group of
joined ops whose inputs are in :math:`A \cup F` leads to another state, at the latency of its best granularity
and order for what was and is kept (`lowtide.solvers.tiles.groups`). Ops may run again in several groups.

*The relaxation.* After each group, A is closed: a tensor counts as there once all that its readers make is
in A. Nobody needs it then, except to compute something again that is there already. More in A admits more
groups, so the shortest path over closed sets is a bound. Where no group of it reads a tensor that only counts
as there, it is an answer, and optimal. Else a second search forbids to read tensors all of whose readers'
outputs are there: what it finds is an answer, since a tensor with another reader was written; it is optimal
if it is no longer than the path of the first. A group that only frees the fast memory is one of them, too.

*A\**. The ops that must still run follow from the outputs that are not there: the op that makes one, and
so on for inputs that are in neither memory. Their compute and traffic (`lowtide.solvers.tiles.bounds`) bound
what is left. While the search runs, the least bound of an open state is a bound on the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from itertools import combinations

from ...models.problems.tiles import Tiles
from ...models.tile_rules import TileInstance, Tiling
from ..context import Context, Outcome
from .bounds import least_ticks
from .fusion import solve_greedy
from .groups import GroupCosts, GroupShape
from .prices import solve_prices

State = tuple[frozenset[int], frozenset[int]]
"""Tensors that count as in the slow memory, and those that are kept in the fast one."""


def solve_exact(problem: Tiles, context: Context) -> Outcome:
    """Bound by prices; search all groups unless they meet greedy fusion."""
    outcome = solve_prices(problem, context)
    if outcome.infeasible or context.expired:
        return outcome
    solve_greedy(problem, context)
    return Outcome() if context.closed else solve_search(problem, context)


def solve_search(problem: Tiles, context: Context) -> Outcome:
    """Search all groups of joined ops for a better answer; stop at the option's number of them."""
    most, costs = context.options["most"], GroupCosts(problem)
    groups: list[tuple[frozenset[int], GroupShape]] = []
    for number, ops in enumerate(joined_groups(costs)):
        if context.expired:
            return Outcome(reason="time")
        if number == most:
            return Outcome(detail=f"found more than {most:,} groups of joined ops, expected at most that")
        shape = costs.shape(ops)
        if shape is not None and _may_fit(problem.shapes, costs, ops):
            groups.append((ops, shape))
    search = TilesSearch(costs=costs, groups=groups, context=context)
    path = search.run(proves=True)
    if path is not None and problem.verdict(path).violations:
        path = TilesSearch(costs=costs, groups=groups, context=context, written_only=True).run()
        if path is not None:
            context.offer(path)
        return Outcome(reason="time" if context.expired else None)
    if path is not None:
        context.offer(path)
    if context.expired:
        return Outcome(reason="time")
    if context.incumbent is None:
        return Outcome(infeasible=True, detail="no group of ops fits that makes what is asked")
    context.raise_bound(context.incumbent, kind="shortest path")
    return Outcome()


def _may_fit(given: TileInstance, costs: GroupCosts, ops: frozenset[int]) -> bool:
    """Return whether a group fits with nothing else kept, or all of its small tensors present."""
    shape = costs.shape(ops)
    assert shape is not None
    if costs.ticks(ops) is not None:
        return True
    small = [t for t in (*shape.inputs, *shape.outputs) if given.area(t) <= given.capacity]
    return bool(small)


def joined_groups(costs: GroupCosts) -> Iterator[frozenset[int]]:
    """Yield every set of ops that tensors made in it join and that can fit, smaller ones first."""
    given = costs.given
    home = {t: i for i, t in enumerate(given.outputs)}
    beside: list[set[int]] = [set() for _ in given.outputs]
    for i, reads in enumerate(given.inputs):
        for t in reads:
            if t in home:
                beside[i].add(home[t])
                beside[home[t]].add(i)
    layer = [frozenset({i}) for i in range(len(given.outputs))]
    while layer:
        layer = [ops for ops in layer if costs.room(ops) <= given.capacity]
        yield from layer
        layer = list({ops | {j}: None for ops in layer for i in sorted(ops) for j in sorted(beside[i] - ops)})


@dataclass(kw_only=True)
class TilesSearch:
    """A* over states; the docstring of the module says what they are."""

    costs: GroupCosts
    groups: list[tuple[frozenset[int], GroupShape]]
    context: Context
    written_only: bool = False
    cheapest: dict[State, int] = field(default_factory=dict)
    came: dict[State, tuple[State, frozenset[int], frozenset[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.given = self.costs.given
        self.readers = {
            t: [given.outputs[i] for i, reads in enumerate(given.inputs) if t in reads]
            for given in (self.given,)
            for t in range(len(given.widths))
        }
        self.left = cache(self._left)

    def run(self, *, proves: bool = False) -> Tiling | None:
        """Return the groups of a shortest path; None if there is none, or the time is up.

        Parameters
        ----------
        proves
            Whether the least bound of an open state is raised as a bound of the problem.
        """
        start = (self._closed(self.given.started), frozenset[int]())
        self.cheapest[start] = 0
        heap, number = [(self.left(start), 0, start)], 0
        while heap:
            bound, _, state = heappop(heap)
            ticks = self.cheapest[state]
            if bound > ticks + self.left(state):
                continue
            if proves:
                self.context.raise_bound(bound, kind="shortest path")
            if self.given.finals <= state[0]:
                return self._path(state)
            for target, cost, ops, keep in self._moves(state):
                if self.context.expired:
                    return None
                if (
                    self.context.incumbent is not None
                    and ticks + cost + self.left(target) >= self.context.incumbent
                ):
                    continue
                if ticks + cost < self.cheapest.get(target, ticks + cost + 1):
                    self.cheapest[target] = ticks + cost
                    self.came[target] = state, ops, keep
                    number += 1
                    heappush(heap, (ticks + cost + self.left(target), number, target))
        return None

    def _moves(self, state: State) -> Iterator[tuple[State, int, frozenset[int], frozenset[int]]]:
        """Yield the states to which a group leads, its ticks, its ops, and what it keeps."""
        there, kept = state
        readable = there | kept
        if self.written_only:
            readable = kept | {
                t for t in there if t in self.given.started or any(r not in there for r in self.readers[t])
            }
        for ops, shape in self.groups:
            if not shape.inputs <= readable:
                continue
            for keep in self._choices(kept | shape.inputs | shape.outputs, len(shape.outputs)):
                written = shape.outputs - keep
                if written <= there and keep == kept:
                    continue
                ticks = self.costs.ticks(ops, kept, keep)
                if ticks is not None:
                    yield (self._closed(there | written), keep), ticks, ops, keep

    def _choices(self, tensors: frozenset[int], outputs: int) -> Iterator[frozenset[int]]:
        """Yield the sets of tensors that can be kept: what no op reads only beside other outputs."""
        small = [
            t
            for t in sorted(tensors)
            if (self.readers[t] or outputs > 1) and self.given.area(t) < self.given.capacity
        ]
        for count in range(len(small) + 1):
            fits = False
            for chosen in combinations(small, count):
                if sum(map(self.given.area, chosen)) <= self.given.capacity:
                    fits = True
                    yield frozenset(chosen)
            if not fits:
                return

    def _closed(self, there: frozenset[int]) -> frozenset[int]:
        """Return the tensors that count as there: of others nobody needs any more."""
        closed = {*there}
        for i in reversed(range(len(self.given.outputs))):
            t = self.given.outputs[i]
            if self.readers[t] and closed.issuperset(self.readers[t]):
                closed.add(t)
        return frozenset(closed)

    def _left(self, state: State) -> int:
        """Return a bound on what is left, in ticks."""
        there, kept = state
        missing = self.given.finals - there
        needed, ops = {*missing}, set()
        for i in reversed(range(len(self.given.outputs))):
            if self.given.outputs[i] in needed:
                ops.add(i)
                needed.update(t for t in self.given.inputs[i] if t not in there and t not in kept)
        return least_ticks(self.given, ops, missing, kept)

    def _path(self, state: State) -> Tiling:
        groups = []
        while state in self.came:
            state, ops, keep = self.came[state]
            groups.append(self.costs.group(ops, state[1], keep))
        return Tiling(groups=tuple(reversed(groups)))
