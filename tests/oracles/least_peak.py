"""Least peak memory by dynamic programming over executed sets, straight from the definitions.

For graphs of up to a dozen ops, of which there may be millions of orders but only thousands of sets. Nothing
here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from functools import cache

from lowtide.models.graph import Accounting, Graph
from tests.oracles.brute_force import must_precede


def least_peak(graph: Graph) -> int:
    """Return the least peak over all orders (ops of one mode)."""
    n = len(graph.ops)
    before = {j: {i for i, k in must_precede(graph) if k == j} for j in range(n)}

    @cache
    def rest(done: frozenset[int]) -> int:
        """Return the least peak of what is still to run."""
        ready = [j for j in range(n) if j not in done and before[j] <= done]
        return min((max(memory_while(graph, j, done), rest(done | {j})) for j in ready), default=0)

    used = {t for op in graph.ops for t in (*op.reads, *op.writes)}
    first = (x.nbytes for t, x in enumerate(graph.tensors) if x.initial and (x.final or t in used))
    return max(sum(first), rest(frozenset()))


def memory_while(graph: Graph, running: int, done: frozenset[int]) -> int:
    """Return the bytes that are live while an op runs, when exactly `done` have run before it."""
    (mode,) = graph.ops[running].all_modes
    total = mode.workspace
    for t, tensor in enumerate(graph.tensors):
        writers = {i for i, op in enumerate(graph.ops) if t in op.writes}
        accessors = writers | {i for i, op in enumerate(graph.ops) if t in op.reads}
        if not accessors:
            total += tensor.nbytes if tensor.initial and tensor.final else 0
            continue
        exists = tensor.initial or bool(writers & (done | {running}))
        later = accessors - done - {running}
        if graph.accounting is Accounting.REPLACE:
            needed = bool(later) or running in writers
        else:
            needed = bool(later) or running in accessors
        if exists and (tensor.final or needed):
            total += tensor.nbytes
    return total
