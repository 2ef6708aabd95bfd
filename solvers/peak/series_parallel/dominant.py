"""The method `series-parallel`: a dominant order of a series-parallel graph with additive memory.

The graph is composed of its ops in series and in parallel (`networks`), and so is the order (`blocks`, whose
theorem says that its peak is the least). A dominant order read from its end is one for the reversed
graph, so nothing depends on the direction.
"""

from __future__ import annotations

from ....models.errors import UsageError
from ....models.graph import Graph
from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ...trees.blocks import Blocks, in_parallel, in_series, ops_of
from ..search.state_space import StateSpace, state_space
from .additive import additive_space, op_block
from .networks import Irreducible, compose

METHOD = "series-parallel"
KIND = "dominant order"
"""The kind of the bound: no order has a lower peak than one that dominates every order."""


def solve_series_parallel(problem: Peak, context: Context) -> Outcome:
    """Offer a dominant order, whose peak bounds that of every order."""
    graph = problem.graph
    found = dominant_blocks(additive_space(graph, METHOD))
    if isinstance(found, Irreducible):
        raise UsageError(_refusal(graph, found))
    conclude(problem, context, tuple(ops_of(found)))
    return Outcome()


def dominant_blocks(space: StateSpace) -> Blocks | Irreducible:
    """Return the blocks of a dominant order, or what is left if the ops are not series-parallel.

    Parameters
    ----------
    space
        Without groups.

    Examples
    --------
    >>> from lowtide import load
    >>> from lowtide.solvers.peak.search.state_space import state_space
    >>> space = state_space(load("gen:sp?n=9&seed=8&data=edge"))
    >>> ops_of(dominant_blocks(space))
    [0, 3, 7, 4, 5, 6, 1, 2, 8]
    """
    if not space.n:
        return []

    return compose(space, lambda v: [op_block(space, v, space.increase[v])], in_series, in_parallel)


def series_parallel_order(graph: Graph) -> tuple[int, ...] | None:
    """Return a dominant order if the graph is series-parallel with additive memory.

    Examples
    --------
    >>> from lowtide import load
    >>> series_parallel_order(load("gen:sp?n=9&seed=8&data=edge"))
    (0, 3, 7, 4, 5, 6, 1, 2, 8)
    >>> series_parallel_order(load("gen:sp?n=9&seed=8&data=op")) is None
    True
    """
    space = state_space(graph)
    if space.groups:
        return None
    found = dominant_blocks(space)
    return None if isinstance(found, Irreducible) else tuple(ops_of(found))


def conclude(problem: Peak, context: Context, order: tuple[int, ...]) -> None:
    """Offer an optimal order, and its peak as bound."""
    context.raise_bound(context.offer(order), kind=KIND)


def _refusal(graph: Graph, left: Irreducible) -> str:
    names = ", ".join(f"{v} {graph.ops[v].name!r}" for v in left.ops[:4])
    return (
        f"method {METHOD}, graph {graph.name!r}: found {left.arcs} arcs after all series and parallel "
        f"reductions, among them those of ops {names}, expected one (a series-parallel graph; sp-ization "
        "takes any graph)"
    )
