"""MemBooking compiled, and a local search over its two sequences; without a compiler `py_func` runs them.

`lowtide.solvers.makespan.trees.booking` has the method. It takes a pair of sequences of the nodes:
the *activation order*, in which memory is booked, topological and with a sequential peak within the memory,
and the *ranking*, the first of which starts if several can. Every such pair stands for a schedule within the
memory, and the published pairs are two of many: `search` walks over them by simulated annealing.

*Moves.* Of the ranking: one node goes elsewhere, at a distance that is drawn evenly on a logarithmic scale;
or the nodes of a subtree go elsewhere together, in the sequence that they had. Of the activation order: the
same, where a node must stay behind its children and before its parent, and a subtree before its parent. What
exceeds the memory, in sequence, is drawn again, up to `TRIES` times.

*Acceptance.* A schedule that is not slower replaces the current one; a slower one with probability
exp(-difference / temperature). The temperature falls geometrically from `HOTTEST` to `COLDEST`, parts of
the best makespan, within `ROUND` moves, and then starts again from the best pair.

Sources: the method as in `booking`; simulated annealing: Kirkpatrick, Gelatt and Vecchi, "Optimization by
simulated annealing", Science 220 (1983). The search over both sequences is the suite's own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel

HOTTEST, COLDEST = 0.01, 0.0002
"""Temperatures, as parts of the best makespan."""

ROUND = 4000
"""Moves from the hottest to the coldest temperature."""

TRIES = 20
"""How often a move of the activation order is drawn, until one is within the memory."""

ACTIVATION = 0.5
"""Part of the moves that change the activation order."""

SUBTREE = 0.5
"""Part of the moves that take a whole subtree."""


class Nodes(NamedTuple):
    """A tree as flat arrays; children have smaller indices than their parent, the root the largest.

    Attributes
    ----------
    parent
        By node; -1 for the root.
    duration, out, needed
        By node: ns; bytes passed to the parent; bytes live in the node's subtree while it runs.
    child_at, child
        By node: its children, ``child[child_at[i]:child_at[i + 1]]``.
    """

    parent: Integers
    duration: Integers
    out: Integers
    needed: Integers
    child_at: Integers
    child: Integers


class Pairs(NamedTuple):
    """The state of a search; what it changes.

    Attributes
    ----------
    activation, ranking
        The current pair: nodes in sequence.
    best_activation, best_ranking, best_starts
        The best pair, and its schedule in ns.
    numbers
        The current makespan, the best one, and how many moves have been made.
    """

    activation: Integers
    ranking: Integers
    best_activation: Integers
    best_ranking: Integers
    best_starts: Integers
    numbers: Integers


@kernel
def search(nodes: Nodes, processors: int, memory: int, pairs: Pairs, moves: int, seed: int) -> None:
    """Make so many moves; `pairs` changes.

    Parameters
    ----------
    nodes
        The tree.
    processors
        How many.
    memory
        Bytes.
    pairs
        Where the search stands.
    moves
        How many.
    seed
        Of all choices.
    """
    np.random.seed(seed)
    n = len(nodes.parent)
    numbers = pairs.numbers
    rank, starts = np.empty(n, np.int64), np.empty(n, np.int64)
    order, place = np.empty(n, np.int64), np.empty(n, np.int64)
    chosen = np.zeros(n, np.bool_)
    for _ in range(moves):
        phase = numbers[2] % ROUND
        if phase == 0:
            pairs.activation[:] = pairs.best_activation
            pairs.ranking[:] = pairs.best_ranking
            numbers[0] = numbers[1]
        numbers[2] += 1
        heat = HOTTEST * (COLDEST / HOTTEST) ** (phase / ROUND) * numbers[1]
        of_activation = np.random.random() < ACTIVATION
        current = pairs.activation if of_activation else pairs.ranking
        found = False
        for _ in range(TRIES):
            choose(nodes, np.random.randint(n), np.random.random() < SUBTREE, chosen)
            for k in range(n):
                place[current[k]] = k
            moved(nodes, current, place, chosen, of_activation, order)
            if not of_activation or sequential_peak(nodes, order) <= memory:
                found = True
                break
        if not found:
            continue
        ranking = pairs.ranking if of_activation else order
        for k in range(n):
            rank[ranking[k]] = k
        value = book(nodes, processors, memory, order if of_activation else pairs.activation, rank, starts)
        if value < 0:  # a defect, for the caller to raise
            numbers[1] = value
            return
        if value <= numbers[0] or np.random.random() < math.exp((numbers[0] - value) / heat):
            current[:] = order
            numbers[0] = value
        if value < numbers[1]:
            numbers[1] = value
            pairs.best_activation[:] = pairs.activation
            pairs.best_ranking[:] = pairs.ranking
            pairs.best_starts[:] = starts


@inner
def choose(nodes: Nodes, x: int, whole: bool, chosen: np.ndarray) -> None:
    """Mark node x in `chosen`, or its subtree."""
    chosen[:] = False
    chosen[x] = True
    if whole:
        for i in range(x - 1, -1, -1):
            chosen[i] = chosen[nodes.parent[i]]


@inner
def moved(
    nodes: Nodes, current: Integers, place: Integers, chosen: np.ndarray, topological: bool, order: Integers
) -> None:
    """Write to `order` the current sequence with the chosen nodes, one or a subtree, elsewhere together.

    Parameters
    ----------
    nodes
        The tree.
    current, place
        A sequence, and the place of each node in it.
    chosen
        By node.
    topological
        Whether the sequence must stay so.
    order
        The new sequence.
    """
    n, count, x = len(current), 0, -1
    for i in range(n):
        if chosen[i]:
            count += 1
            x = i
    # The places among the others, in front of which they may stand: from `low` to `high`.
    first, low, high = n, 0, n - count
    for i in range(n):
        if chosen[i]:
            first = min(first, place[i])
    if topological:
        until = place[nodes.parent[x]] if nodes.parent[x] >= 0 else n
        since = -1
        if count == 1:
            for c in nodes.child[nodes.child_at[x] : nodes.child_at[x + 1]]:
                since = max(since, place[c])
        low = high = 0
        for k in range(until):
            if not chosen[current[k]]:
                high += 1
                if k <= since:
                    low += 1
    reach = max(1, int(n ** np.random.random()))
    to = min(max(first + np.random.randint(-reach, reach + 1), low), high)
    k = others = 0
    for a in range(n + 1):
        if others == to and k == others:
            for b in range(n):
                if chosen[current[b]]:
                    order[k] = current[b]
                    k += 1
        if a < n and not chosen[current[a]]:
            order[k] = current[a]
            k += 1
            others += 1


@inner
def sequential_peak(nodes: Nodes, order: Integers) -> int:
    """Return the peak of the nodes one after another, in bytes."""
    live = most = 0
    for i in order:
        there = 0
        for c in nodes.child[nodes.child_at[i] : nodes.child_at[i + 1]]:
            there += nodes.out[c]
        most = max(most, live - there + nodes.needed[i])
        live += nodes.out[i] - there
    return most


@kernel
def book(
    nodes: Nodes, processors: int, memory: int, activation: Integers, rank: Integers, starts: Integers
) -> int:
    """Write the start of each node in ns, and return the makespan; -1 if it got stuck, a defect.

    Parameters
    ----------
    nodes
        The tree.
    processors
        How many.
    memory
        M in bytes.
    activation
        A topological order with a sequential peak of at most M.
    rank
        By node, all different: of nodes that can start, the one of the least rank does.
    starts
        By node; written.
    """
    parent, out, needed = nodes.parent, nodes.out, nodes.needed
    child_at, child = nodes.child_at, nodes.child
    n = len(parent)
    booked, below = np.zeros(n, np.int64), np.zeros(n, np.int64)
    active, finished = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    waits = child_at[1:] - child_at[:-1]
    ready = np.empty(n, np.int64)
    running, ends = np.empty(processors, np.int64), np.empty(processors, np.int64)
    count = busy = activated = done = 0
    total, now = np.int64(0), np.int64(0)
    while done < n:
        while activated < n:
            i = activation[activated]
            there = np.int64(0)
            for c in child[child_at[i] : child_at[i + 1]]:
                there += below[c]
            miss = max(np.int64(0), needed[i] - there)
            if total + miss > memory:
                break
            total += miss
            booked[i], below[i] = miss, miss + there
            for c in child[child_at[i] : child_at[i + 1]]:
                if finished[c]:
                    booked[i] += booked[c]
                    booked[c] = below[c] = 0
            active[i] = True
            activated += 1
            if waits[i] == 0:
                count = insert_last(ready, count, i, rank)
        while count and busy < processors:
            count -= 1
            i = ready[count]
            starts[i] = now
            running[busy], ends[busy] = i, now + nodes.duration[i]
            busy += 1
        if busy == 0:
            return -1
        now = ends[:busy].min()
        b = 0
        while b < busy:
            if ends[b] > now:
                b += 1
                continue
            j = running[b]
            busy -= 1
            running[b], ends[b] = running[busy], ends[busy]
            done += 1
            free, above = booked[j], parent[j]
            finished[j] = True
            if above >= 0:
                waits[above] -= 1
                free -= out[j]
                if not active[above]:
                    booked[j] = below[j] = out[j]
                else:
                    booked[j] = below[j] = 0
                    booked[above] += out[j]
                    if waits[above] == 0:
                        count = insert_last(ready, count, above, rank)
                    x = above
                    while x >= 0 and active[x] and free > 0:
                        below[x] -= free
                        taken = min(free, max(np.int64(0), needed[x] - below[x]))
                        booked[x] += taken
                        below[x] += taken
                        free -= taken
                        x = parent[x]
            total -= free
    return int(now)


@inner
def insert_last(ready: Integers, count: int, v: int, rank: Integers) -> int:
    """Insert a node, the least rank last; return the new count."""
    k = count
    while k > 0 and rank[ready[k - 1]] < rank[v]:
        ready[k] = ready[k - 1]
        k -= 1
    ready[k] = v
    return count + 1
