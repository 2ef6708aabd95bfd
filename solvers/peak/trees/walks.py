"""Trees with additive memory as in-trees: an out-tree is one when it is walked from its end.

Reversing the precedence and the sign of each change turns orders of an out-tree into reversed orders of an
in-tree with the same memory between ops and the same peak. That needs a datum for each edge: with shared
data the reversed problem is another one. Forests are trees too.
"""

from __future__ import annotations

from ....models.errors import UsageError
from ....models.graph import Graph
from ..search.state_space import StateSpace
from ..series_parallel.additive import additive_space


def tree_space(graph: Graph, method: str) -> StateSpace:
    """Return the states of a tree in the direction in which each op has at most one op after it.

    Raises
    ------
    UsageError
        If the memory is not additive, or the graph is neither an in-tree nor an out-tree.

    Examples
    --------
    >>> from lowtide import load
    >>> tree_space(load("gen:outtree?n=5&data=edge"), "liu").backward
    True
    """
    space = additive_space(graph, method)
    if all(len(some) < 2 for some in space.after):
        return space
    if all(len(some) < 2 for some in space.before):
        return additive_space(graph, method, backward=True)
    fork = next(v for v, some in enumerate(space.after) if len(some) > 1)
    join = next(v for v, some in enumerate(space.before) if len(some) > 1)
    raise UsageError(
        f"method {method}, graph {graph.name!r}: found op {fork} {graph.ops[fork].name!r} with "
        f"{len(space.after[fork])} direct successors and op {join} {graph.ops[join].name!r} with "
        f"{len(space.before[join])} direct predecessors, expected a tree, which has only one of both kinds"
    )


def upwards(space: StateSpace) -> range:
    """Return the ops so that each stands after those below it, which walks visit before it."""
    return range(space.n - 1, -1, -1) if space.backward else range(space.n)
