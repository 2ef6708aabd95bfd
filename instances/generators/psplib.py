"""Project networks like those of PSPLIB, and like its generator ProGen makes them.

Kolisch, Sprecher, Drexl, "Characterization and generation of a general class of resource-constrained
project scheduling problems", Management Science 41 (1995). As there:

1. The first three jobs have no predecessor, the last three no successor (fewer for small n).
2. Each other job, in their order, gets one random predecessor, each job without successor a random one;
   no job has more than three of either, where that is possible (and one whose every further arc would
   be redundant stays without).
3. Arcs are added at random until there are ``complexity`` for each job, those of a dummy source and a
   dummy sink counted in; none is redundant (a path beside the arc). A network that has no place for
   so many is drawn again; of twenty such the one with the most arcs is taken.
4. Durations are uniform on 1 to 10.
5. One resource, memory: with probability ``factor`` (the resource factor) a job holds a workspace,
   uniform on 1 to ``demand`` bytes, while it runs.

Unlike there: jobs pass tensors along the arcs, of which PSPLIB has none, and there is one mode.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

from ...models.graph import Graph
from .builder import from_successors

ENDS = 3
"""Jobs without predecessor, and without successor."""

DEGREE = 3
"""Most predecessors, and most successors, of a job."""

DRAWS = 20
"""How often a network is drawn that has too few arcs."""

LONGEST = 10
"""Nanoseconds that an op takes at most: durations are uniform from 1 on, as those of ProGen."""


def psplib(
    *,
    n: int,
    complexity: float,
    factor: float,
    demand: int,
    seed: int,
    data: str,
    sizes: str,
    largest: int,
) -> Graph:
    """Return a project of `n` jobs whose network has `complexity` arcs for each job."""
    rng = random.Random(seed)
    successors = project_network(n, complexity, rng)
    graph = from_successors(successors, rng, data=data, sizes=sizes, largest=largest)
    ops = []
    for op in graph.ops:
        duration = rng.randint(1, LONGEST)
        workspace = rng.randint(1, demand) if rng.random() < factor else 0
        ops.append(replace(op, duration_ns=duration, workspace=workspace))
    return replace(graph, ops=tuple(ops))


def project_network(n: int, complexity: float, rng: random.Random) -> list[list[int]]:
    """Return the successors of each job, ascending."""
    ends = max(1, min(ENDS, n // 2))
    wanted = round(complexity * (n + 2)) - 2 * ends
    best = _JobNetwork(n)
    for _ in range(DRAWS):
        drawn = _draw(n, ends, wanted, rng)
        if drawn.arcs > best.arcs:
            best = drawn
        if best.arcs >= wanted:
            break
    return [sorted(found) for found in best.successors]


def _draw(n: int, ends: int, wanted: int, rng: random.Random) -> _JobNetwork:
    network = _JobNetwork(n)
    for j in range(ends, n):
        sources = range(min(j, n - ends))
        network.add(_least_loaded(sources, network.successors, rng), j)
    # The last ones first: they have the least choice.
    for i in reversed(range(n - ends)):
        if not network.successors[i]:
            sinks = [j for j in range(max(i + 1, ends), n) if network.is_free(i, j)]
            if sinks:
                network.add(i, _least_loaded(sinks, network.predecessors, rng))
    pairs = [(i, j) for i, j in combinations(range(n), 2) if i < n - ends and j >= ends]
    rng.shuffle(pairs)
    for i, j in pairs:
        if network.arcs >= wanted:
            break
        room = len(network.successors[i]) < DEGREE and len(network.predecessors[j]) < DEGREE
        if room and network.is_free(i, j):
            network.add(i, j)
    return network


def _least_loaded(jobs: range | list[int], neighbours: list[list[int]], rng: random.Random) -> int:
    """Return a random job that has room for another neighbour; any if none has."""
    return rng.choice([job for job in jobs if len(neighbours[job]) < DEGREE] or list(jobs))


class _JobNetwork:
    """Arcs from smaller to larger jobs, none redundant; ancestors and descendants as bits of integers."""

    def __init__(self, n: int) -> None:
        self.successors: list[list[int]] = [[] for _ in range(n)]
        self.predecessors: list[list[int]] = [[] for _ in range(n)]
        self.above = [1 << i for i in range(n)]
        self.below = [1 << i for i in range(n)]
        self.arcs = 0

    def is_free(self, i: int, j: int) -> bool:
        """Return whether an arc from i to j would neither be redundant nor make another one so."""
        if self.below[i] >> j & 1:
            return False
        # An arc from i or above to j or below would get a path beside it.
        above, below = self.above[i], self.below[j]
        return not any(
            below >> b & 1 and any(above >> a & 1 for a in self.predecessors[b])
            for b in range(j, len(self.below))
        )

    def add(self, i: int, j: int) -> None:
        """Add an arc."""
        self.successors[i].append(j)
        self.predecessors[j].append(i)
        self.arcs += 1
        above, below = self.above[i], self.below[j]
        for k in range(len(self.above)):
            if below >> k & 1:
                self.above[k] |= above
            if above >> k & 1:
                self.below[k] |= below
