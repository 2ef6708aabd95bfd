r"""Kernels of the descent: best strategies along forests, prices on usage, and steps of single nodes.

Nodes v have strategies ``first[v]`` to ``first[v + 1]``; costs and usages are flat arrays by strategy. The
pairs of v are ``near[v]`` to ``near[v + 1]``: another node, where the costs of the pair begin, and by how
much their place grows with the strategy of v and of the other. Costs are floating point, infinite ones a
large number: what comes out is judged in integers elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engines.kernels import inner, kernel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class FlatNetwork(NamedTuple):
    """A network in arrays.

    Attributes
    ----------
    first, costs, usages
        By node, its first strategy; by strategy.
    near, other, place, own_step, other_step
        By node, its first pair; by node and pair what the module says.
    pairs
        Costs of pairs of strategies.
    alive, gone
        By node, the first section in which it is alive, and the one after the last.
    """

    first: Integers
    costs: Floats
    usages: Integers
    near: Integers
    other: Integers
    place: Integers
    own_step: Integers
    other_step: Integers
    pairs: Floats
    alive: Integers
    gone: Integers


@inner
def root_of(parent: Integers, v: int) -> int:
    """Return the node that names the tree of v."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@kernel
def improve_along_forest(
    net: FlatNetwork, order: Integers, chosen: Integers, priced: Floats, taken: int
) -> int:
    """Choose the best strategies of a forest's nodes at once, while all others keep theirs.

    The forest: each node in turn, if its neighbours there are in different trees; `taken` nodes at most.
    Strategies cost what `priced` says, by strategy. A node elsewhere without a strategy (-1) takes the one
    that is best for each neighbour. Returns how many nodes changed.
    """
    n = len(net.first) - 1
    tree, inside = np.arange(n), np.zeros(n, np.bool_)
    count = 0
    for v in order:
        if count == taken:
            break
        fits = True
        for a in range(net.near[v], net.near[v + 1]):
            if not fits or not inside[net.other[a]]:
                continue
            root = root_of(tree, net.other[a])
            for b in range(net.near[v], a):
                if inside[net.other[b]] and root_of(tree, net.other[b]) == root:
                    fits = False
                    break
        if not fits:
            continue
        inside[v] = True
        count += 1
        for a in range(net.near[v], net.near[v + 1]):
            if inside[net.other[a]] and net.other[a] != v:
                tree[root_of(tree, net.other[a])] = v
    value = priced.copy()
    parent, link = np.full(n, -1), np.full(n, -1)
    seen = np.zeros(n, np.bool_)
    queue = np.empty(n, np.int64)
    end = 0
    for start in order:
        if not inside[start] or seen[start]:
            continue
        seen[start] = True
        queue[end] = start
        end += 1
        at = end - 1
        while at < end:
            v = queue[at]
            at += 1
            for a in range(net.near[v], net.near[v + 1]):
                u = net.other[a]
                if not inside[u]:
                    for s in range(net.first[v + 1] - net.first[v]):
                        row = net.place[a] + s * net.own_step[a]
                        if chosen[u] >= 0:
                            value[net.first[v] + s] += net.pairs[row + chosen[u] * net.other_step[a]]
                            continue
                        least = np.inf
                        for t in range(net.first[u + 1] - net.first[u]):
                            least = min(
                                least, priced[net.first[u] + t] + net.pairs[row + t * net.other_step[a]]
                            )
                        value[net.first[v] + s] += least
                elif not seen[u]:
                    seen[u] = True
                    parent[u], link[u] = v, a
                    queue[end] = u
                    end += 1
    for k in range(end - 1, -1, -1):
        v = queue[k]
        u, a = parent[v], link[v]
        if u < 0:
            continue
        many = net.first[v + 1] - net.first[v]
        for t in range(
            net.first[u + 1] - net.first[u]
        ):  # pair a is one of the parent, so u's step is its own
            least = np.inf
            for s in range(many):
                total = (
                    value[net.first[v] + s]
                    + net.pairs[net.place[a] + t * net.own_step[a] + s * net.other_step[a]]
                )
                least = min(least, total)
            value[net.first[u] + t] += least
    changed = 0
    for k in range(end):
        v = queue[k]
        u, a = parent[v], link[v]
        least, where = np.inf, 0
        for s in range(net.first[v + 1] - net.first[v]):
            total = value[net.first[v] + s]
            if u >= 0:
                total += net.pairs[net.place[a] + chosen[u] * net.own_step[a] + s * net.other_step[a]]
            if total < least:
                least, where = total, s
        changed += where != chosen[v]
        chosen[v] = where
    return changed


@kernel
def usage_of(net: FlatNetwork, chosen: Integers, sections: int) -> Integers:
    """Return what is used at each section."""
    change = np.zeros(sections + 1, np.int64)
    for v in range(len(chosen)):
        if net.alive[v] < net.gone[v]:
            used = net.usages[net.first[v] + chosen[v]]
            change[net.alive[v]] += used
            change[net.gone[v]] -= used
    return np.cumsum(change)[:sections]


@kernel
def cost_of(net: FlatNetwork, chosen: Integers) -> float:
    """Return what is chosen costs, each pair counted once."""
    total = 0.0
    for v in range(len(chosen)):
        total += net.costs[net.first[v] + chosen[v]]
        for a in range(net.near[v], net.near[v + 1]):
            if net.other[a] > v:
                total += net.pairs[
                    net.place[a] + chosen[v] * net.own_step[a] + chosen[net.other[a]] * net.other_step[a]
                ]
    return total


@kernel
def priced_costs(net: FlatNetwork, prices: Floats) -> Floats:
    """Return costs by strategy with what its usage costs at prices by section."""
    until = np.zeros(len(prices) + 1)
    for r in range(len(prices)):
        until[r + 1] = until[r] + prices[r]
    total = net.costs.copy()
    for v in range(len(net.first) - 1):
        price = until[net.gone[v]] - until[net.alive[v]]
        for s in range(net.first[v], net.first[v + 1]):
            total[s] += price * net.usages[s]
    return total


@kernel
def step_nodes(
    net: FlatNetwork, order: Integers, chosen: Integers, used: Integers, limit: int, weight: float
) -> int:
    """Give each node in turn the strategy that is best for all others' as they are.

    What exceeds the limit, summed over the sections, costs `weight` for each unit. Returns how many changed;
    `used` is kept up to date.
    """
    changed = 0
    for v in order:
        many = net.first[v + 1] - net.first[v]
        least, where = np.inf, chosen[v]
        now = net.usages[net.first[v] + chosen[v]]
        for s in range(many):
            total = net.costs[net.first[v] + s]
            for a in range(net.near[v], net.near[v + 1]):
                total += net.pairs[
                    net.place[a] + s * net.own_step[a] + chosen[net.other[a]] * net.other_step[a]
                ]
            if total >= least:
                continue
            more = net.usages[net.first[v] + s] - now
            for r in range(net.alive[v], net.gone[v]):
                total += weight * max(0, used[r] + more - limit)
            if total < least or (total == least and s == chosen[v]):
                least, where = total, s
        if where != chosen[v]:
            more = net.usages[net.first[v] + where] - now
            for r in range(net.alive[v], net.gone[v]):
                used[r] += more
            chosen[v] = where
            changed += 1
    return changed
