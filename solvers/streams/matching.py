r"""Streams of most concurrency with the fewest synchronisations, by bipartite matching.

Every stream is a chain of the precedence, so that nothing independent is run one after another. Then the
cover edges of the precedence (its transitive reduction, C) are either between neighbours of a stream or
synchronisations: there are as many as C has edges, less those between neighbours. A partition into chains is
a matching of op i as a predecessor with op j as a successor in the transitive closure; of n ops and m matched
pairs it has n - m streams.

``nimble``
    As in the published code of Nimble (Kwon, Yu, Jeong and Chun, NeurIPS 2020): a largest matching of C gives
    paths, with the fewest synchronisations there are; then a largest matching of the paths, where one follows
    another if its last op precedes the other's first, joins paths to streams. The second step takes the first
    one's paths as they are, and may use more streams than are needed. Both matchings are by augmenting paths
    (Kuhn), in the order of the ops.

``matching``
    One matching of greatest weight, n + 1 for pairs in C and 1 for others: fewest synchronisations, and
    among these fewest streams. With a limit of s streams a flow of n - s of least cost, -1 for pairs in C:
    the fewest synchronisations on s streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from ...formulations.model import BuildTimeout, Tick, ticker
from ...models.derived.precedence import bits, descendants_with
from ...models.derived.streams import cover_edges
from ...models.graph import Graph
from ...models.problems.stream_answers import StreamOrder
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import raise_first_bound
from .events import in_time, refuse_stages
from .memory import offer_within

MOST_OPS = 3000
"""Ops up to which the closure is matched: it has up to half their square of pairs."""

MOST_PATHS = 30_000
"""Ops up to which paths are joined: half as many paths may each have all others for followers, a gigabyte."""

PAIR_SECONDS = 1e-6
"""That a pair of the closure takes at most; on 3.6 million of them it was 0.6e-6."""


@in_time
def solve_nimble(problem: Streams, context: Context) -> Outcome:
    """Offer Nimble's streams."""
    refuse_stages(problem)
    raise_first_bound(problem, context)
    if (count := len(problem.graph.ops)) > MOST_PATHS:
        return Outcome(detail=f"found {count} ops, expected at most {MOST_PATHS}")
    streams = nimble(problem.graph, ticker(lambda: context.expired))
    if problem.streams is not None and len(streams) > problem.streams:
        return Outcome(detail=f"it makes {len(streams)} streams, more than there may be")
    return offer_within(problem, context, StreamOrder(streams=streams))


@in_time
def solve_matching(problem: Streams, context: Context) -> Outcome:
    """Offer the streams of fewest synchronisations, and among them of fewest streams."""
    refuse_stages(problem)
    raise_first_bound(problem, context)
    if len(problem.graph.ops) > MOST_OPS:
        return Outcome(detail=f"found {len(problem.graph.ops)} ops, expected at most {MOST_OPS}")
    tick = ticker(lambda: context.expired)
    streams = best_chains(problem.graph, problem.streams, tick=tick, seconds=context.remaining())
    if streams is None:
        return Outcome(detail=f"no {problem.streams} chains of the precedence cover all ops")
    return offer_within(problem, context, StreamOrder(streams=streams))


def nimble(graph: Graph, tick: Tick = lambda: None) -> tuple[tuple[int, ...], ...]:
    """Return the streams that Nimble's two matchings make; `tick` may end it.

    Examples
    --------
    >>> import lowtide as lt
    >>> nimble(lt.load("catalogue:diamond"))
    ((0, 1, 3), (2,))
    """
    n = len(graph.ops)
    later: list[list[int]] = [[] for _ in range(n)]
    for i, j in cover_edges(graph, (), tick):
        later[i].append(j)
    paths = _chains(largest_matching(later, tick))
    after = descendants_with(graph, (), tick)
    number = {path[0]: a for a, path in enumerate(paths)}
    heads, follows = sum(1 << i for i in number), []
    for path in paths:
        tick()
        follows.append([number[i] for i in bits(after[path[-1]] & heads)])
    joined = _chains(largest_matching(follows, tick))
    return tuple(sorted(tuple(i for a in some for i in paths[a]) for some in joined))


def largest_matching(later: Sequence[Sequence[int]], tick: Tick = lambda: None) -> list[int | None]:
    """Return the successor that each element is matched with, in a largest matching (Kuhn 1955)."""
    before: dict[int, int] = {}

    def augment(root: int) -> None:
        # A depth-first search with a stack of its own: paths may be longer than Python's.
        seen: set[int] = set()
        path: list[tuple[int, int]] = []
        branches = [iter(later[root])]
        while branches:
            j = next((x for x in branches[-1] if x not in seen), None)
            if j is None:
                branches.pop()
                if path:
                    path.pop()
                continue
            seen.add(j)
            path.append((root if len(branches) == 1 else before[path[-1][1]], j))
            if j not in before:
                for i, x in path:
                    before[x] = i
                return
            branches.append(iter(later[before[j]]))

    for i in range(len(later)):
        tick()
        augment(i)
    found: list[int | None] = [None] * len(later)
    for j, i in before.items():
        found[i] = j
    return found


def _chains(follower: Sequence[int | None]) -> list[tuple[int, ...]]:
    """Return the chains that pairs of neighbours make, by their first elements."""
    followers = {j for j in follower if j is not None}
    chains = []
    for first in range(len(follower)):
        if first not in followers:
            chain, at = [first], follower[first]
            while at is not None:
                chain.append(at)
                at = follower[at]
            chains.append(tuple(chain))
    return chains


def best_chains(
    graph: Graph,
    most: int | None = None,
    *,
    exactly: bool = False,
    tick: Tick = lambda: None,
    seconds: float = inf,
) -> tuple[tuple[int, ...], ...] | None:
    """Return chains that cover the ops with the fewest synchronisations, then the fewest chains.

    Parameters
    ----------
    most
        Chains at most; None: any number.
    exactly
        Whether there shall be so many.
    tick
        Called for each op while the network is built; may end it.
    seconds
        That are left: what takes longer is not begun, for the matching itself cannot be ended.

    Returns
    -------
    tuple of tuple of int or None
        None if there are no so few chains.

    Raises
    ------
    BuildTimeout
        If the seconds are too few.
    """
    import numpy as np
    from ortools.graph.python import min_cost_flow

    n = len(graph.ops)
    if not n:
        return ()
    covers = np.array(cover_edges(graph, (), tick), np.int64).reshape(-1, 2)
    after = descendants_with(graph, (), tick)
    if PAIR_SECONDS * sum(some.bit_count() for some in after) > seconds:
        raise BuildTimeout("the time left is too short for the matching")
    width = -(-n // 8)
    masks = np.frombuffer(b"".join(some.to_bytes(width, "little") for some in after), np.uint8)
    firsts, lasts = np.nonzero(np.unpackbits(masks.reshape(n, width), axis=1, count=n, bitorder="little"))
    costs = np.full(len(firsts), -1)
    costs[np.searchsorted(firsts * n + lasts, covers @ (n, 1))] = -(n + 1)
    ops, source, sink = np.arange(n), 2 * n, 2 * n + 1
    flow = min_cost_flow.SimpleMinCostFlow()
    tails, heads = np.stack((np.full(n, source), n + ops), 1), np.stack((ops, np.full(n, sink)), 1)
    once = np.ones(2 * n, np.int64)
    flow.add_arcs_with_capacity_and_unit_cost(tails.ravel(), heads.ravel(), once, 0 * once)
    arcs = flow.add_arcs_with_capacity_and_unit_cost(firsts, n + lasts, np.ones_like(costs), costs)
    streams = n if most is None else min(most, n)
    if not exactly:
        flow.add_arc_with_capacity_and_unit_cost(source, sink, streams, 0)
    flow.set_node_supply(source, n - streams if exactly else n)
    flow.set_node_supply(sink, streams - n if exactly else -n)
    if flow.solve() != flow.OPTIMAL:
        return None
    matched = flow.flows(arcs) > 0
    follower: list[int | None] = [None] * n
    for i, j in zip(firsts[matched].tolist(), lasts[matched].tolist(), strict=True):
        follower[i] = j
    return tuple(_chains(follower))


def frontier(graph: Graph) -> list[tuple[int, int]]:
    """Return the fewest synchronisations on each number of streams, from the width of the graph to its ops.

    Examples
    --------
    >>> import lowtide as lt
    >>> frontier(lt.load("catalogue:diamond"))
    [(2, 2), (3, 3), (4, 4)]
    """
    covers = set(cover_edges(graph))
    edges = []
    for streams in range(1, len(graph.ops) + 1):
        chains = best_chains(graph, streams, exactly=True)
        if chains is not None:
            kept = sum(pair in covers for chain in chains for pair in pairwise(chain))
            edges.append((streams, len(covers) - kept))
    return edges
