"""Edges that bound parallel memory: four heuristics that cut one too large moment after the other.

Loop: find the largest moment by flow; while the flow is above the bound, add an edge u -> v from a *head*
u, an op that holds a live tensor at that moment (or runs), to a *tail* v, an op that gave birth to one (or
runs), and that no path leads from to u. At that moment u has not finished and v has started, so it no
longer occurs. Rules:

* ``min-levels``: least critical path through the new edge: end of u at the earliest plus the longest path
  from v;
* ``respect-order``: in an order whose peak is within the bound, first head and last tail;
* ``max-size``: most bytes held by u and born by v together;
* ``max-min-size``: most of the smaller one of the two.

**Shared tensors and processors.** The flow may be above the bound though no moment is: because of tensors
with several last accesses, or because it knows no number P of processors. Then a branch and bound of limited
effort (`lowtide.solvers.parallel.cases`) looks for a moment above the bound with at most P running
ops, or proves that there is none, in cases. If it is undecided, an edge is added that may not be needed:
against a moment with more than P running ops, if one is above the bound, else one that puts two of the last
accesses of a tensor in order, by levels or as in the order. Such a step takes one last access away.

**``respect-order`` does not fail.** Edges agree with the order. Were no head before the last tail v in the
order at a moment above the bound, then, when v runs in that order, all tails have started and no head has
finished, so all that is live at the moment is live then: the order's peak were above the bound. Without a
tail only initial tensors are live, which they are before the first op: `MemoryEdges.impossible` has looked
at that.

Source: Marchal, Nagy, Simon and Vivien, "Parallel scheduling of DAGs under memory constraints", IPDPS 2018,
as public code of its authors (memDAG) and later accounts describe it; we did not read the paper. Ours:
levels count an op's duration at u, sizes are of op-level heads and tails, ties go to the lowest index, and
the steps for shared tensors and processors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...formulations.parallel.network import Shared
from ...models.arrays import Booleans
from ...models.flow_proof import FlowProof
from ...models.graph import Graph
from ...models.problems.memory_edges import Edge, Edges
from ...models.problems.parallel_memory import Moment
from .cases import Relaxed, search
from .closure import Closure, flow_case, overrated
from .growing import Ends, Growing, StateExpired
from .growing_flow import GrowingFlow

RULES = ("min-levels", "respect-order", "max-size", "max-min-size")
"""The heuristics."""


def nodes_for(ops: int) -> int:
    """Return how many nodes a branch and bound may have; 0 for large graphs, whose flows take longer."""
    return 10_000 // max(ops, 1) if ops <= 600 else 0


MOST_OPS = 50_000
"""Above so many ops the rules are not tried: sets of followers of all ops would take a gigabyte and more."""


def edges_by_rule(
    graph: Graph,
    bound: int,
    rule: str,
    order: Sequence[int] = (),
    *,
    processors: int | None = None,
    given: Sequence[Edge] = (),
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Edges | None:
    """Return edges after which a flow is within the bound; None if the rule fails or the time is up.

    Parameters
    ----------
    graph, bound, processors
        As in `lowtide.models.problems.memory_edges.MemoryEdges`.
    rule
        One of `RULES`.
    order
        Of ``respect-order``: its peak is within the bound.
    given
        Edges that are there already, without a cycle; they are among those returned unless others imply them.
    progress
        Called with one line of text now and then.
    """
    try:
        growing = Growing(graph, expired)
    except StateExpired:
        return None
    for i, j in given:
        if not growing.after[i] >> j & 1:
            growing.add(i, j)
    flow = GrowingFlow(growing)
    levels: tuple[Mapping[int, int], Mapping[int, int]] | None = None
    if rule == "respect-order":
        rank = {i: k for k, i in enumerate(order)}
        levels = {i: -k for i, k in rank.items()}, rank
    wait = patience = 0  # after a search that was undecided only roots: of 1, 3, 7 and so on
    while not expired():
        closure = flow.largest()
        if len(growing.edges) % 100 == 0:
            progress(f"{rule}: {len(growing.edges)} edges, the flow is {closure.gain} bytes")
        if closure.gain <= bound:
            return _answer(growing, FlowProof(cases=(flow_case(growing.cut(), closure),)))
        first, last = levels or _levels(growing)
        found: Ends | Shared | None = _exceeding(growing, closure, bound, processors)
        if found is None and processors is None and not nodes_for(len(growing.after)):
            found = overrated(growing.network, closure.happened)[0]
        elif found is None:
            effort = 0 if wait else nodes_for(len(growing.after))
            result = search(growing.cut(), processors, target=bound, most_nodes=effort, expired=expired)
            if result.bound <= bound:
                return _answer(growing, result.proof())
            if result.moment is not None:
                found, patience = growing.ends(_happened(growing, result.moment)), 0
            else:
                found = _blamed(growing, result.root, bound)
                patience = patience if wait else 2 * patience + 1
                wait = wait - 1 if wait else patience
        if isinstance(found, Shared):
            edge: Edge | None = _order_two(found.accessors, first, last)
        else:
            edge = _best_edge(rule, found, first, last, growing.after)
        if edge is None:
            return None
        growing.add(*edge)
    return None


def _answer(growing: Growing, proof: FlowProof) -> Edges:
    return Edges(edges=tuple(growing.edges), flow=proof)


def _exceeding(growing: Growing, closure: Closure, bound: int, processors: int | None) -> Ends | None:
    """Return the ends of the moment of a closed set, if that is one, and above the bound."""
    if processors is not None and closure.running > processors:
        return None
    ends = growing.ends(closure.happened)
    return ends if ends.nbytes > bound else None


def _blamed(growing: Growing, root: Relaxed, bound: int) -> Ends | Shared:
    """Return what the relaxation at the root exceeds the bound with."""
    largest = root.sets[-1]
    ends = growing.ends(largest.happened)
    return ends if ends.nbytes > bound else overrated(growing.network, largest.happened)[0]


def _happened(growing: Growing, moment: Moment) -> Booleans:
    """Return which events have happened at a moment; the deaths of tensors are left out."""
    happened = np.zeros(growing.network.n_events, np.bool_)
    for i in moment.finished:
        happened[2 * i : 2 * i + 2] = True
    for i in moment.running:
        happened[2 * i] = True
    return happened


def _levels(growing: Growing) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return minus the earliest end of each op, and minus the longest path from its start, in ns."""
    ends = enumerate(zip(growing.start, growing.duration, strict=True))
    return {i: -(s + d) for i, (s, d) in ends}, {i: -b for i, b in enumerate(growing.bottom)}


def _best_edge(
    rule: str, ends: Ends, first: Mapping[int, int], last: Mapping[int, int], after: Sequence[int]
) -> Edge | None:
    """Return the head and the tail of the largest score that close no cycle; None if there is none."""
    if rule in ("min-levels", "respect-order"):
        heads, tails = {u: first[u] for u in ends.heads}, {v: last[v] for v in ends.tails}
    else:
        heads, tails = ends.heads, ends.tails
    smaller = rule == "max-min-size"
    us = sorted(heads, key=lambda u: (-heads[u], u))
    vs = sorted(tails, key=lambda v: (-tails[v], v))
    best: tuple[int, Edge] | None = None
    for u in us:
        for v in vs:
            score = min(heads[u], tails[v]) if smaller else heads[u] + tails[v]
            if best is not None and score <= best[0]:
                break
            if u != v and not after[v] >> u & 1:
                best = (score, (u, v))
                break
    return None if best is None else best[1]


def _order_two(accessors: Sequence[int], first: Mapping[int, int], last: Mapping[int, int]) -> Edge:
    """Return two ops without a path between them, in the order of the largest score."""
    pairs = [(u, v) for u in accessors for v in accessors if u != v]
    return max(pairs, key=lambda edge: (first[edge[0]] + last[edge[1]], -edge[0], -edge[1]))
