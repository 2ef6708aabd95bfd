r"""What all methods of `sharding` are about: the strategies that are left, merged edges, sections of time.

**Strategies.** A strategy is out if its cost is infinite, if it exceeds the limit though all other nodes use
their least, or if of an edge all pairs with it that are left are infinite; the last is repeated until nothing
changes. No answer has it.

**Edges.** Edges of the same two nodes are one, with the sum of their costs; an edge with a node of which one
strategy is left becomes costs of the other node.

**Sections.** Usage is piecewise constant in time. A *section* is a time after the start of a node, before the
next end of one; nodes that use nothing are left out. From any time on, all nodes that are alive stay so until
the next end. If none has started since the end before, they are among those of the section before that one;
else a section follows at once, with all of them. So the limit holds at all times if it holds at the sections.
Each node is alive at consecutive ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.cost_network import FORBIDDEN, CostNetwork
from ...models.problems.sharding import Sharding

Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ShardingData:
    """A network without what no finite choice has.

    Attributes
    ----------
    left
        By node the strategies that are left, by their numbers in the network.
    costs, usages
        By node, of these strategies.
    matrices
        By pair of nodes u < v the costs of pairs of strategies that are left, infinite ones `FORBIDDEN`.
    alive
        By node, the first section in which it is alive, and the one after the last.
    sections
        How many there are.
    limit
        At each of them.
    """

    left: list[Numbers]
    costs: list[Numbers]
    usages: list[Numbers]
    matrices: dict[tuple[int, int], Numbers]
    alive: list[tuple[int, int]]
    sections: int
    limit: int

    @property
    def empty(self) -> int | None:
        """A node without strategies, so that there is no answer; None if each has one."""
        return next((v for v, row in enumerate(self.left) if not len(row)), None)


def sharding_data(problem: Sharding) -> ShardingData:
    """Return the data of a problem, made once and kept with it."""
    data: ShardingData | None = problem.__dict__.get("_data")
    if data is None:
        data = problem.__dict__["_data"] = _made(problem.network)
    return data


def _made(network: CostNetwork) -> ShardingData:
    matrices: dict[tuple[int, int], Numbers] = {}
    rows = [np.minimum(np.array([min(x, FORBIDDEN) for x in row]), FORBIDDEN) for row in network.costs]
    for (u, v), row in zip(network.edges, network.matrices, strict=True):
        shape = (len(rows[u]), len(rows[v]))
        own = np.array(row if max(row) <= FORBIDDEN else [min(x, FORBIDDEN) for x in row]).reshape(shape)
        key, own = ((u, v), own) if u < v else ((v, u), np.ascontiguousarray(own.T))
        matrices[key] = np.minimum(matrices[key] + own, FORBIDDEN) if key in matrices else own
    all_usages = [np.array(row) for row in network.usages]
    alive, sections = _sections([*network.intervals], [bool(row.any()) for row in all_usages])
    rows = _fitting(rows, all_usages, alive, sections, network.limit)
    kept = _consistent(rows, matrices)
    left = [np.flatnonzero(mask) for mask in kept]
    costs = [row[k] for row, k in zip(rows, left, strict=True)]
    reduced = {}
    for (u, v), own in matrices.items():
        own = own[np.ix_(left[u], left[v])]
        if own.size and own.shape[0] == 1:
            costs[v] = costs[v] + own[0]
        elif own.size and own.shape[1] == 1:
            costs[u] = costs[u] + own[:, 0]
        else:
            reduced[u, v] = own
    usages = [row[k] for row, k in zip(all_usages, left, strict=True)]
    return ShardingData(
        left=left,
        costs=costs,
        usages=usages,
        matrices=reduced,
        alive=alive,
        sections=sections,
        limit=network.limit,
    )


def _fitting(
    rows: list[Numbers], usages: list[Numbers], alive: list[tuple[int, int]], sections: int, limit: int
) -> list[Numbers]:
    """Return costs, infinite where a strategy exceeds the limit though all others use their least."""
    change = np.zeros(sections + 1, np.int64)
    for row, (first, end) in zip(usages, alive, strict=True):
        change[first] += row.min()
        change[end] -= row.min()
    room = limit - np.cumsum(change)[:sections]
    left = []
    for own, row, (first, end) in zip(rows, usages, alive, strict=True):
        most = room[first:end].min() if first < end else FORBIDDEN
        left.append(np.where(row - row.min() > most, FORBIDDEN, own))
    return left


def _consistent(rows: list[Numbers], matrices: dict[tuple[int, int], Numbers]) -> list[NDArray[np.bool_]]:
    """Return by node which strategies are left."""
    kept = [row < FORBIDDEN for row in rows]
    around: list[list[tuple[int, NDArray[np.bool_]]]] = [[] for _ in rows]
    for (u, v), own in matrices.items():
        if (own >= FORBIDDEN).any() or not kept[u].all() or not kept[v].all():
            around[u].append((v, own < FORBIDDEN))
            around[v].append((u, (own < FORBIDDEN).T))
    queue = deque(range(len(rows)))
    waiting = [True] * len(rows)
    while queue:
        u = queue.popleft()
        waiting[u] = False
        for v, allowed in around[u]:
            supported = kept[v] & allowed[kept[u]].any(axis=0)
            if (supported != kept[v]).any():
                kept[v] = supported
                if not waiting[v]:
                    waiting[v] = True
                    queue.append(v)
    return kept


def _sections(intervals: list[tuple[int, int]], uses: list[bool]) -> tuple[list[tuple[int, int]], int]:
    """Return by node the sections in which it is alive, and how many there are."""
    events = sorted(
        event
        for v, (start, end) in enumerate(intervals)
        if start < end and uses[v]
        for event in ((start, 1, v), (end, 0, v))
    )
    alive = [(0, 0)] * len(intervals)
    count, grown = 0, False
    for _, starts, v in events:
        if starts:
            alive[v], grown = (count, count), True
        else:
            count, grown = count + grown, False
            alive[v] = (alive[v][0], count)
    return alive, count


def alive_at(data: ShardingData) -> list[list[int]]:
    """Return by section the nodes that are alive."""
    nodes: list[list[int]] = [[] for _ in range(data.sections)]
    for v, (first, end) in enumerate(data.alive):
        for r in range(first, end):
            nodes[r].append(v)
    return nodes


def without_dear(
    data: ShardingData, most: int, expired: Callable[[], bool] = lambda: False
) -> tuple[list[NDArray[np.bool_]], dict[tuple[int, int], NDArray[np.bool_]]]:
    """Return by node and pair which costs an answer of at most so much may have.

    A cost c of a row whose least is m is out if the sum of all leasts, plus c - m, exceeds `most`: an answer
    with it costs at least that.
    """
    least = sum(int(row.min()) for row in (*data.costs, *data.matrices.values()))
    nodes = [row - int(row.min()) <= most - least for row in data.costs]
    pairs = {
        key: (own < FORBIDDEN) & (own - int(own.min()) <= most - least) for key, own in data.matrices.items()
    }
    return nodes, pairs
