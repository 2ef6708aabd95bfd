"""Which ops to merge, so that the stages of `ios` take least, of all choices of what a graph states.

Let x be an op on every path. Ops that may be merged have the same predecessors, so none precedes another. So
x is none of them; and they are on one side of x, as one before x and one behind it would precede each other.
Hence x is on every path of each graph with merges, too, and blocks between such ops can be solved one by one
(`lowtide.solvers.streams.stages`): for each block all ways to merge disjoint sets of its ops are tried, and
the least total is that of all choices.

Within a memory, what a block holds for later ones depends on its merges, and those of earlier blocks are not
thought over. With a number of groups at most, the program puts no independent ops into one group, which may
be faster. In both cases nothing is said of other choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...formulations.model import BuildTimeout
from ...models.derived.merging import merge_ops, merged_numbers, stated_merges
from ...models.problems.streams import Streams
from .events import refuse_orders
from .stages import Pruning, blocks_of, program

Sets = tuple[tuple[int, ...], ...]


def best_merges(problem: Streams, *, expired: Callable[[], bool] = lambda: False) -> Sets:
    """Return the sets of ops that are best merged; those of the blocks that the time was enough for.

    Raises
    ------
    UsageError
        If the contention prices no stages.
    InstanceError
        If what the graph states of merges is wrong.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("catalogue:ios/squeezenet")
    >>> best_merges(lt.Streams(graph, contention="fluid"))
    ((2, 6), (13, 17), (26, 27), (36, 40))
    """
    refuse_orders(problem)
    graph, known = problem.graph, [merge.ops for merge in stated_merges(problem.graph)]
    pruning = Pruning(endings="all", most_groups=problem.streams)
    chosen: Sets = ()
    before: list[int] = []
    for block in blocks_of(graph):
        inside = [ops for ops in known if set(ops) <= set(block)]
        costs: list[tuple[int, Sets]] = []
        for some in _disjoint(inside) if inside else ():
            number = merged_numbers(graph, (*chosen, *some))
            asked = replace(problem, graph=merge_ops(graph, (*chosen, *some)))
            ops = sorted({number[i] for i in block})
            executed = sum(1 << i for i in {number[i] for i in before})
            try:
                cost = program(asked, ops, pruning, executed=executed, expired=expired).cost
            except BuildTimeout:
                return chosen
            costs += [] if cost is None else [(cost, some)]
        chosen += min(costs, default=(0, ()))[1]
        before += block
    return chosen


def _disjoint(sets: Sequence[tuple[int, ...]]) -> Iterator[Sets]:
    """Yield every choice of pairwise disjoint sets, that of none first."""
    yield ()
    for k, first in enumerate(sets):
        rest = [other for other in sets[k + 1 :] if not set(first) & set(other)]
        for more in _disjoint(rest):
            yield (first, *more)
