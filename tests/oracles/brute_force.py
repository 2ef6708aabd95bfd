"""Peak memory by enumeration of every topological order, straight from the definitions.

Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowtide.models.graph import Accounting, Graph


def must_precede(graph: Graph) -> set[tuple[int, int]]:
    """Return the pairs (i, j) of ops, i before j: read-after-write, write-after-read,
    write-after-write in the reference order, and `after`.
    """
    pairs = set()
    for j, later in enumerate(graph.ops):
        for i, earlier in enumerate(graph.ops[:j]):
            shares = (
                set(earlier.writes) & set(later.reads)
                or set(earlier.reads) & set(later.writes)
                or set(earlier.writes) & set(later.writes)
            )
            if shares or i in later.after:
                pairs.add((i, j))
    return pairs


def topological_orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Yield every order of the ops that respects the precedence, in lexicographic order."""
    pairs = must_precede(graph)
    before = {j: {i for i, k in pairs if k == j} for j in range(len(graph.ops))}

    def extend(prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(prefix) == len(graph.ops):
            yield prefix
        for j in range(len(graph.ops)):
            if j not in prefix and before[j] <= set(prefix):
                yield from extend((*prefix, j))

    return extend(())


def memory_profile(graph: Graph, order: Sequence[int]) -> list[int]:
    """Return the bytes live during each op of the order (ops of one mode)."""
    profile = []
    for i in order:
        (mode,) = graph.ops[i].all_modes
        profile.append(mode.workspace)
    for t, tensor in enumerate(graph.tensors):
        accesses = [k for k, i in enumerate(order) if t in graph.ops[i].reads or t in graph.ops[i].writes]
        if not accesses and not (tensor.initial and tensor.final):
            continue
        first = 0 if tensor.initial else next(k for k in accesses if t in graph.ops[order[k]].writes)
        last = len(order) - 1 if tensor.final else accesses[-1]
        if graph.accounting is Accounting.REPLACE and not tensor.final:
            released = t not in graph.ops[order[last]].writes
            if released:
                last -= 1
        for k in range(first, last + 1):
            profile[k] += tensor.nbytes
    return profile


def order_peak(graph: Graph, order: Sequence[int]) -> int:
    """Return the peak of one order: the most bytes before the first op or during any."""
    return max([start_bytes(graph), *memory_profile(graph, order)])


def start_bytes(graph: Graph) -> int:
    """Return the bytes that are there before the first op: of what is initial, and accessed or final."""
    accessed = {t for op in graph.ops for t in (*op.reads, *op.writes)}
    return sum(x.nbytes for t, x in enumerate(graph.tensors) if x.initial and (x.final or t in accessed))


def brute_force_peak(graph: Graph) -> tuple[int, tuple[int, ...]]:
    """Return the least peak over all topological orders, and the first order that has it."""
    return min((order_peak(graph, order), order) for order in topological_orders(graph))
