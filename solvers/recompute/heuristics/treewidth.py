r"""`tw-remat`: recomputation across the separators of a tree decomposition.

*Separators.* A tree decomposition of the graph of ops (an edge for each op that finds what another one
leaves) has bags of ops. The bag without which the tree falls into parts of fewest bags each is the root of a
tree of separators; those of the parts are below it, and so on. Ops of a bag above are in no bag below any
more. So ops below different children of a separator X touch only through X and the separators above it.

*Recursion*, from the root with all ops that somebody wants, to have a set of ops D at a separator X:

1. For each op v of X that D needs, in the reference order: have what v finds below each child, run v, and
   let that go.
2. Have what is in D and below each child, last the one below which the last op of D is. Then what is in X
   and not in D may go.

At a given depth the ops that D needs at X and below run in the reference order, once. So the memory is that
of the bags on a way down and of what ops find, O(log n) of each, and each separator of w ops goes w + 1 times
through what is below it, at most half as many bags a level: n^O(log w) runs. Depth 0 is each op once; each
depth is a schedule, faster as a rule and larger than the next one.

*Second thoughts.* As long as something changes, up to `PASSES` times: (a) what the recursion lets go stays
while there is room, and a run of which all is still there is left out; where memory is short, what takes
least time for its bytes to run again goes first; (b) runs that leave nothing that is read before it is left
again are left out. What is discarded goes after its last use.

Ops that nobody reads (updates of weights) are no part of the decomposition: each runs once, after the last
run that finds what it overwrites, as soon as what it finds is there. Other ops that overwrite what they find
run only the first time, and what they leave stays.

Source: Kumar, Purohit, Svitkina, Vee and Wang, "Efficient Rematerialization for Deep Networks" (NeurIPS
2019). Its text was not at hand: the recursion and (a) and (b) are those of the public implementation in
Haskell that the package of Rockmate and HiRemate calls, which always goes to the end and passes six times.
Ours: the depths, of which the fastest schedule that fits counts, the order of children in 2., two
decompositions (networkx: the op with fewest neighbours goes first, or with fewest new edges), updates at
their place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import networkx as nx
from networkx.algorithms.approximation.treewidth import MinDegreeHeuristic, min_fill_in_heuristic

from ....formulations.model import BuildTimeout, Tick, ticker
from ....formulations.recompute.data import RecomputeData
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from .method import first_bound, offer

Neighbours = dict[int, set[int]]

Rule = Callable[[Neighbours], int | None]

DECOMPOSITIONS: dict[str, Callable[[Any], Any]] = {
    "min-degree": lambda graph: MinDegreeHeuristic(graph).best_node,
    "min-fill": lambda graph: min_fill_in_heuristic,
}
"""By name, what makes a `Rule` for a graph: the op that goes next is that with fewest neighbours, or with
fewest new edges, and none when all ops that are left are neighbours of each other."""

PASSES = 6
"""Second thoughts about a schedule, at most."""

MOST_RUNS = 60
"""Runs per op, above which a depth is given up."""


@dataclass(frozen=True, kw_only=True)
class Separator:
    """A separator in its tree.

    Attributes
    ----------
    ops
        Its ops that are in no separator above, ascending.
    below
        Its children.
    all
        Its ops and those below.
    """

    ops: tuple[int, ...]
    below: tuple[Separator, ...]
    all: frozenset[int]

    @property
    def depth(self) -> int:
        """How many separators there are on the longest way down, itself among them."""
        return 1 + max((x.depth for x in self.below), default=0)


def solve_tw_remat(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedules of all depths; option ``decomposition``: by which rule, or both.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    >>> result = lt.solve(problem, "tw-remat")
    >>> result.objective, result.facts["min_degree_width"]
    (13, 2)
    """
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    chosen, fits = context.options["decomposition"], False
    facts: dict[str, int] = {}
    tick = ticker(lambda: context.expired)
    try:
        trees = {name: separators(data, name, tick) for name in DECOMPOSITIONS if chosen in ("both", name)}
        facts |= {f"{name.replace('-', '_')}_width": width for name, (width, _) in trees.items()}
        for name, (width, root) in trees.items():
            for depth in range(1, root.depth + 1):
                if context.closed:
                    return Outcome(facts=facts)
                context.progress(f"{name}: width {width}, depth {depth} of {root.depth}")
                runs = schedule(data, root, depth, tick)
                fits = (runs is not None and offer(context, data, runs)) or fits
    except BuildTimeout:
        return Outcome(reason=None if context.closed else "time", facts=facts)
    return Outcome(detail="" if fits else "the schedule of no depth fits", facts=facts)


def outer(data: RecomputeData) -> list[int]:
    """Return the ops of which no other one finds anything, nor waits for them."""
    inner = {j for i in range(data.n) for j in (*data.inputs[i], *data.after[i])}
    return [i for i in range(data.n) if i not in inner]


def separators(data: RecomputeData, name: str, tick: Tick = lambda: None) -> tuple[int, Separator]:
    """Return the width of a tree decomposition of all but outer ops, and the tree of its separators.

    `tick` is called for each op and each separator, and may raise.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:chain?n=8")))
    >>> width, root = separators(data, "min-degree")
    >>> width, root.ops, [x.ops for x in root.below]
    (1, (2, 3), [(0, 1), (4, 5)])
    """
    leaves = set(outer(data))
    edges = [(j, i) for i in range(data.n) if i not in leaves for j in (*data.inputs[i], *data.after[i])]
    whole: Any = nx.Graph()
    whole.add_nodes_from(i for i in range(data.n) if i not in leaves)
    whole.add_edges_from(edges)
    if not whole:
        return 0, Separator(ops=(), below=(), all=frozenset())
    graph: Neighbours = {i: set(whole[i]) - {i} for i in whole}
    tree = decomposition(graph, DECOMPOSITIONS[name](graph), tick)
    return max(map(len, tree)) - 1, _balanced(tree, list(tree), frozenset(), tick)


def decomposition(graph: Neighbours, rule: Rule, tick: Tick) -> Any:
    """Return the tree decomposition of an order of elimination: a graph of bags, that of the last ops first.

    Ops go by a rule, their neighbours become neighbours of each other. Backwards, the bag of an op and its
    neighbours is joined to the first one that has all of these, as networkx does it; that one is looked up
    among the bags of the neighbour that is in fewest, so that it takes no time with the square of the ops.
    """
    gone: list[tuple[int, set[int]]] = []
    while (i := rule(graph)) is not None:
        tick()
        beside = graph.pop(i)
        for j in beside:
            graph[j].update(k for k in beside if k != j)
        for j in beside:
            graph[j].remove(i)
        gone.append((i, beside))
    tree: Any = nx.Graph()
    first = frozenset(graph)
    tree.add_node(first)
    homes: dict[int, list[frozenset[int]]] = {i: [first] for i in first}
    for i, beside in reversed(gone):
        tick()
        near = min((homes[j] for j in beside), key=len, default=[])
        bag = frozenset(beside | {i})
        tree.add_edge(next((some for some in near if beside <= some), first), bag)
        for j in bag:
            homes.setdefault(j, []).append(bag)
    return tree


def _balanced(tree: Any, bags: Sequence[frozenset[int]], gone: Set[int], tick: Tick) -> Separator:
    """Return the separators of a part of a tree decomposition, without ops that are gone."""
    tick()
    inside, up = set(bags), {bags[0]: bags[0]}
    order = [bags[0]]
    for bag in order:
        for beside in sorted(inside.intersection(tree[bag]) - {up[bag]}, key=sorted):
            up[beside] = bag
            order.append(beside)
    size, largest = dict.fromkeys(order, 1), dict.fromkeys(order, 0)
    for bag in reversed(order[1:]):
        size[up[bag]] += size[bag]
        largest[up[bag]] = max(largest[up[bag]], size[bag])
    root = min(order, key=lambda bag: (max(largest[bag], len(order) - size[bag]), sorted(bag)))
    ops = root - gone
    below = [
        _balanced(tree, sorted(part, key=sorted), gone | root, tick)
        for part in nx.connected_components(tree.subgraph(inside - {root}))
    ]
    below = sorted((x for x in below if x.all), key=lambda x: min(x.all))
    return Separator(ops=tuple(sorted(ops)), below=tuple(below), all=ops.union(*(x.all for x in below)))


def schedule(data: RecomputeData, root: Separator, depth: int, tick: Tick = lambda: None) -> list[int] | None:
    """Return the runs of a depth after second thoughts, None if there are too many; they need not fit.

    `tick` is called for each run and each pass over a run, and may raise.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5))
    >>> schedule(data, separators(data, "min-fill")[1], 2)
    [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 8, 9, 10]
    """
    alone = {i for i in range(data.n) if not set(data.reads[i]).isdisjoint(data.destroys[i])}
    last, seen, runs = outer(data), set[int](), list[int]()
    outside = set(last)
    for i in _recursion(data, root, last, depth):
        tick()
        if i not in alone or i not in seen:
            runs.append(i)
            seen.add(i)
        if len(runs) > MOST_RUNS * data.n:
            return None
    runs = useful(data, with_outer(data, runs, last))
    for _ in range(PASSES):
        fewer = [i for i in held_on(data, runs, tick) if i not in outside]
        fewer = useful(data, with_outer(data, fewer, last))
        if fewer == runs:
            break
        runs = fewer
    return runs


def _recursion(data: RecomputeData, root: Separator, last: Sequence[int], depth: int) -> Iterator[int]:
    """Yield the runs of all but outer ops; a separator at that depth runs what is needed below it at once."""
    before = [{*data.inputs[i], *data.after[i]} for i in range(data.n)]

    def have(at: Separator, wanted: Set[int], left: int) -> Iterator[int]:
        if not wanted:
            return
        needed = 0
        for v in wanted:
            needed |= data.ancestors[v]
        if not left or not at.below:
            yield from (v for v in sorted(at.all) if needed >> v & 1)
            return
        for v in at.ops:
            if needed >> v & 1:
                for x in at.below:
                    yield from have(x, x.all & before[v], left - 1)
                yield v
        for x in sorted(at.below, key=lambda x: max(x.all & wanted, default=0)):
            yield from have(x, x.all & wanted, left - 1)

    wanted = {j for i in last for j in before[i]}
    wanted |= {w for x in data.values if x.final and (w := x.writer) is not None and w in root.all}
    yield from have(root, wanted, depth)


def with_outer(data: RecomputeData, inner: Sequence[int], last: Sequence[int]) -> list[int]:
    """Return the runs with each outer op after all that it must not come before.

    That is the last run that finds or leaves what it overwrites, and, from there on, the first one of each op
    that leaves what it finds; the last one at all where there is none from there on.
    """
    places: dict[int, list[int]] = {}
    for k, i in enumerate(inner):
        places.setdefault(i, []).append(k)
    place, behind = dict[int, int](), [list[int]() for _ in range(len(inner) + 1)]
    for s in last:
        rivals = (data.values[u] for u in data.destroys[s])
        others = {i for x in rivals for i in (*x.readers, x.writer) if i is not None and i != s}
        at = max((places[i][-1] if i in places else place.get(i, -1) for i in others), default=-1)
        at = max([at, *(places[i][0] for i in data.after[s])])
        for i in data.inputs[s]:
            k = bisect_left(places[i], at)
            at = max(at, places[i][k] if k < len(places[i]) else -1)
        place[s] = at
        behind[at + 1].append(s)
    runs = list(behind[0])
    for i, more in zip(inner, behind[1:], strict=True):
        runs += [i, *more]
    return runs


def useful(data: RecomputeData, runs: Sequence[int]) -> list[int]:
    """Return the runs without those that leave nothing which is read before it is left again: (b).

    Of each op one run stays, the first one if none is of use, or if other ops wait for it.
    """
    needed, kept, used = [x.final for x in data.values], set[int](), list[int]()
    first, awaited = {i: k for k, i in reversed(list(enumerate(runs)))}, set().union(*data.after)
    for k in range(len(runs) - 1, -1, -1):
        i = runs[k]
        if (first[i] == k and (i in awaited or i not in kept)) or any(needed[u] for u in data.writes[i]):
            kept.add(i)
            used.append(i)
            for u in data.writes[i]:
                needed[u] = False
            for u in data.reads[i]:
                needed[u] = True
    return used[::-1]


def held_on(data: RecomputeData, runs: Sequence[int], tick: Tick = lambda: None) -> list[int]:
    """Return the runs without those of which all is still there: (a).

    What a run leaves must stay to its last use before the op runs again; then it may go.
    """
    values, sizes, end = data.values, data.sizes, len(runs)
    read, left = ([list[int]() for _ in values] for _ in range(2))
    for k, i in enumerate(runs):
        for u in data.reads[i]:
            read[u].append(k)
        for u in data.writes[i]:
            left[u].append(k)

    def again(u: int, k: int) -> int:
        """Where it is left next."""
        at = bisect_right(left[u], k)
        return left[u][at] if at < len(left[u]) else end

    def must_stay(u: int, k: int) -> int:
        """Up to which run it must stay."""
        until = again(u, k)
        if until == end and values[u].final:
            return end
        at = bisect_right(read[u], until)
        return max(k, read[u][at - 1]) if at else k

    there = {u for u, x in enumerate(values) if x.at_start}
    level, ran, made = sum(sizes[u] for u in there), set[int](), list[int]()
    loose: dict[int, float] = {}
    until = {u: must_stay(u, -1) for u in there}
    ends = [list[int]() for _ in range(end + 1)]
    for u, k in until.items():
        ends[k].append(u)
    for k, i in enumerate(runs):
        tick()
        if i not in ran or not there.issuperset(data.writes[i]) or not data.writes[i]:
            lost = there.intersection(data.destroys[i])
            fresh = [u for u in data.writes[i] if u not in there]
            more = sum(sizes[u] for u in fresh) - sum(sizes[u] for u in lost) + data.workspace[i]
            over = level + more > data.memory
            for u in sorted(loose.keys() - data.touches[i] if over else (), key=lambda u: (loose[u], u)):
                if level + more <= data.memory:
                    break
                del loose[u]
                there.discard(u)
                level -= sizes[u]
            level += sum(sizes[u] for u in fresh) - sum(sizes[u] for u in lost)
            there.difference_update(lost)
            there.update(fresh)
            ran.add(i)
            made.append(i)
        for u in data.writes[i]:
            until[u] = must_stay(u, k)
            ends[until[u]].append(u)
            loose.pop(u, None)
        for u in data.destroys[i]:
            loose.pop(u, None)
        for u in ends[k]:
            if u not in there or until[u] != k:
                continue
            if again(u, k) == end:
                there.discard(u)
                level -= sizes[u]
            else:
                writer = values[u].writer
                assert writer is not None
                loose[u] = data.duration[writer] / max(1, sizes[u])
    return made
