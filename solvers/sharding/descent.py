"""Method `descent` of `sharding`: best strategies along random forests, at prices of what is used too much.

Each round begins anew: the nodes of random forests get their best strategies at once, at prices of usage
(`lowtide.solvers.sharding.forest_kernel`), until all have some, then a few forests more. Steps of single
nodes follow, and at every other round small forests of the best answer. Sections with more than the limit get
dearer, all others cheaper. The first round begins with the strategies that use least, which may be all that
fit. Option ``rounds``: how many.
"""

from __future__ import annotations

import numpy as np

from ...formulations.sharding.data import ShardingData, sharding_data
from ...models.cost_network import FORBIDDEN
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from .bounds import hopeless, raise_bound
from .forest_kernel import (
    FlatNetwork,
    Floats,
    Integers,
    cost_of,
    improve_along_forest,
    priced_costs,
    step_nodes,
    usage_of,
)

KERNELS = (".sharding.forest_kernel",)

RAISED, LOWERED = 1.3, 0.97
"""Factors of a section's price after a round in which it is over the limit, and of the others'."""

FORESTS = 4
"""Passes along forests of all nodes in each round, after which few nodes change."""

POLISHED = 8
"""Passes of single nodes after each round at most, so that a round is short."""


def solve_descent(problem: Sharding, context: Context) -> Outcome:
    """Offer each better answer until the rounds are over."""
    data = sharding_data(problem)
    if (ended := hopeless(data)) is not None:
        return ended
    raise_bound(problem, context)
    Descent(data, context).run(int(context.options.get("rounds", ROUNDS)))
    return Outcome(reason="time" if context.expired else None)


ROUNDS = 200
"""Rounds of the method; beyond them few answers are better."""


class Descent:
    """What is kept between rounds."""

    def __init__(self, data: ShardingData, context: Context) -> None:
        self.data, self.context = data, context
        self.random = np.random.default_rng(context.seed)
        self.net = flat_network(data)
        self.n = len(data.left)
        self.best: Integers | None = None
        self.cost = np.inf

    def run(self, rounds: int) -> None:
        """Go through the rounds."""
        net, data, context = self.net, self.data, self.context
        unit = self._unit_price()
        chosen = np.array([int(row.argmin()) for row in data.usages])
        prices: Floats = np.zeros(data.sections)
        for k in range(rounds):
            if context.expired or context.closed:
                return
            priced = priced_costs(net, prices)
            while (chosen < 0).any():
                order = self.random.permutation(self.n)
                order = order[np.argsort(chosen[order] >= 0, kind="stable")]  # those without a strategy first
                improve_along_forest(net, order, chosen, priced, self.n)
            for _ in range(FORESTS):
                improve_along_forest(net, self.random.permutation(self.n), chosen, priced, self.n)
            used = usage_of(net, chosen, data.sections)
            over = used - data.limit
            self._polish(chosen, used, unit)
            self._offer(chosen)
            chosen = np.full(self.n, -1)
            prices *= LOWERED
            dear = over > 0
            prices[dear] = np.maximum(prices[dear] * RAISED, unit / max(1, dear.sum()))
            if k % 2 and self.best is not None:
                self._improve()

    def _unit_price(self) -> float:
        """Return a price of usage at which all of the limit costs about as much as all nodes do."""
        spread = sum(float(row.max() - row.min()) for row in self.data.costs)
        return max(1.0, spread) / max(1, self.data.limit) / 100

    def _polish(self, chosen: Integers, used: Integers, unit: float) -> None:
        """Take steps of single nodes until none is better, ever dearer above the limit."""
        weight = unit
        for _ in range(POLISHED):
            order = self.random.permutation(self.n)
            changed = step_nodes(self.net, order, chosen, used, self.data.limit, weight)
            if not changed and (used <= self.data.limit).all():
                return
            weight *= 8

    def _improve(self) -> None:
        """Take the best strategies of a small forest around a random node, if they fit."""
        assert self.best is not None
        for _ in range(20):
            if self.context.expired:
                return
            chosen = self.best.copy()
            start = int(self.random.integers(self.n))
            order = np.roll(np.arange(self.n), -start)
            improve_along_forest(self.net, order, chosen, self.net.costs, int(self.random.integers(2, 40)))
            used = usage_of(self.net, chosen, self.data.sections)
            if (used > self.data.limit).any():
                self._polish(chosen, used, self._unit_price())
            self._offer(chosen)

    def _offer(self, chosen: Integers) -> None:
        """Keep what is the best so far and fits."""
        cost = cost_of(self.net, chosen)
        if cost >= self.cost or (usage_of(self.net, chosen, self.data.sections) > self.data.limit).any():
            return
        if not self._finite(chosen):
            return
        self.cost, self.best = cost, chosen.copy()
        self.context.offer([int(row[s]) for row, s in zip(self.data.left, chosen, strict=True)])

    def _finite(self, chosen: Integers) -> bool:
        return all(own[chosen[u], chosen[v]] < FORBIDDEN for (u, v), own in self.data.matrices.items())


def flat_network(data: ShardingData) -> FlatNetwork:
    """Return the arrays of the kernels; infinite costs are a hundred times the largest finite one."""
    sizes = [len(row) for row in data.left]
    n = len(sizes)
    largest = max((int(own[own < FORBIDDEN].max()) for own in data.matrices.values()), default=1)
    infinite = 100.0 * max(largest, *(int(row.max()) for row in data.costs), 1)
    around: list[list[tuple[int, int, int, int]]] = [[] for _ in sizes]
    place, parts = 0, []
    for (u, v), own in data.matrices.items():
        around[u].append((v, place, own.shape[1], 1))
        around[v].append((u, place, 1, own.shape[1]))
        parts.append(np.where(own >= FORBIDDEN, infinite, own.astype(np.float64)).ravel())
        place += own.size
    table = np.array([row for rows in around for row in rows] or np.zeros((0, 4)), np.int64)
    other, begin, own_step, other_step = (np.ascontiguousarray(table[:, k]) for k in range(4))
    alive = np.array(data.alive, np.int64).reshape(n, 2)
    return FlatNetwork(
        first=np.concatenate([[0], np.cumsum(sizes)]),
        costs=np.concatenate(data.costs).astype(np.float64),
        usages=np.concatenate(data.usages),
        near=np.concatenate([[0], np.cumsum([len(rows) for rows in around])]),
        other=other,
        place=begin,
        own_step=own_step,
        other_step=other_step,
        pairs=np.concatenate([*parts, np.zeros(0)]),
        alive=np.ascontiguousarray(alive[:, 0]),
        gone=np.ascontiguousarray(alive[:, 1]),
    )
