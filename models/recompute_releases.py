"""Discards as early as they can be, for runs in a given sequence.

In one memory this is best: between two writes of a tensor, what the first one left must stay until the last
read before the second one, and nothing is gained by keeping it longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from .graph import Graph
from .recompute_lowering import Action, Compute, Discard


def with_discards(graph: Graph, runs: Iterable[Compute], tier: str) -> tuple[Action, ...]:
    """Return the runs, each followed by a discard of what nothing reads before it is written afresh.

    Final tensors keep what the last run that writes them left.

    Parameters
    ----------
    graph
        Its ops are what runs.
    runs
        In their sequence; operands are in one memory.
    tier
        The name of that memory.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.recompute_lowering import Compute
    >>> from lowtide.models.recompute_releases import with_discards
    >>> with_discards(lt.load("gen:chain?n=2"), [Compute(0), Compute(1)], "memory")[1:]
    (Compute(op=1, mode=0), Discard(tensor=0, tier='memory'))
    """
    runs = list(runs)
    needed = [tensor.final for tensor in graph.tensors]
    dying: list[list[int]] = []
    for run in reversed(runs):
        op = graph.ops[run.op]
        touched = sorted({*op.reads, *op.writes})
        dying.append([t for t in touched if not needed[t]])
        for t in op.writes:
            needed[t] = False
        for t in op.reads:
            needed[t] = True
    actions: list[Action] = []
    for run, ends in zip(runs, reversed(dying), strict=True):
        actions.append(run)
        actions += [Discard(t, tier) for t in ends]
    return tuple(actions)
