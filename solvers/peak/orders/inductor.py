"""The orders of PyTorch's inductor: least peak memory first, breadth-first, depth-first, the best of all.

Inductor tries three topological sorts after fusion and keeps the order with the least estimated peak, the
given one included. With size(v) the bytes of the buffers that op v makes, and the reference order as index:

* *Least peak memory first* (LPMF). Let free(v) be the bytes of buffers that die if v runs now, gap the
  highest memory so far less the memory now; the highest so far begins as what is there at the start or
  the bytes of all outputs, whichever is more. Of the ops that may run next, take the least by
  (size(v) if it exceeds the gap, else 0; size(v) - free(v); index).
* *Breadth-first*. Of the ops that may run next, the least by (the places of its predecessors in the order,
  ascending; index), as lists are compared.
* *Depth-first*. Visit the ops by (size(v) plus the bytes that v reads; index); a visit first visits the
  predecessors, in the same order, then appends the op.

Source: PyTorch, ``torch/_inductor/memory.py``, functions ``topological_sort_lpmf``,
``topological_sort_bfs``, ``topological_sort_dfs`` and ``reorder_for_peak_memory`` (pull request 134874,
2024). There LPMF's key begins with max(memory now + size(v), highest so far), which sorts alike; pull request
190511 (2026, open) finds the same ops faster. Its rule for graphs whose ops are all large (161810) is off by
default and left out.

Deviations: inductor reorders kernels after fusion, these are the ops of the graph as it stands. Its
parameters cannot be freed and are not counted; here those are the tensors that are both initial and final.
Views of one buffer, and ops on other devices, are not told apart. Workspace is not part of size(v), but of
the peak by which the best order is chosen, which is the one of `lowtide.models.derived.memory`.
"""

from __future__ import annotations

from heapq import heappop, heappush

from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.graph import Graph
from .post_order import post_order


def least_peak_first(graph: Graph) -> tuple[int, ...]:
    """Return the order of LPMF; O(ops * ops that may be next).

    Examples
    --------
    >>> from lowtide import load
    >>> least_peak_first(load("catalogue:accumulate"))
    (0, 1, 4, 2, 5, 3, 6)
    """
    memory, order = sequential_memory(graph), precedence(graph)
    size, waits = memory.first_bytes, [len(some) for some in order.predecessors]
    left = [len(some) for some in memory.accessors]
    frees = [sum(memory.sizes[t] for t in some if left[t] == 1) for some in memory.accessed]
    kept = sum(x.nbytes for x in graph.tensors if x.initial and x.final)
    now = memory.initial_bytes - kept
    highest = max(now, sum(x.nbytes for x in graph.tensors if x.final) - kept)
    ready = {v for v, some in enumerate(order.predecessors) if not some}
    done: list[int] = []
    while ready:
        gap = highest - now
        v = min(ready, key=lambda v: (size[v] if size[v] > gap else 0, size[v] - frees[v], v))
        ready.remove(v)
        done.append(v)
        highest = max(highest, now + size[v])
        now += size[v] - frees[v]
        for t in memory.accessed[v]:
            left[t] -= 1
            if left[t] == 1:
                for u in memory.accessors[t]:
                    frees[u] += memory.sizes[t]  # of those only one is left
        for w in order.successors[v]:
            waits[w] -= 1
            if not waits[w]:
                ready.add(w)
    return tuple(done)


def breadth_first(graph: Graph) -> tuple[int, ...]:
    """Return the breadth-first order.

    Examples
    --------
    >>> from lowtide import load
    >>> breadth_first(load("catalogue:two-branches"))
    (0, 1, 3, 2, 4, 5)
    """
    order = precedence(graph)
    waits = [len(some) for some in order.predecessors]
    place = [0] * len(waits)
    ready: list[tuple[list[int], int]] = [([], v) for v, count in enumerate(waits) if not count]
    done: list[int] = []
    while ready:
        _, v = heappop(ready)
        place[v] = len(done)
        done.append(v)
        for w in order.successors[v]:
            waits[w] -= 1
            if not waits[w]:
                heappush(ready, (sorted(place[u] for u in order.predecessors[w]), w))
    return tuple(done)


def depth_first(graph: Graph) -> tuple[int, ...]:
    """Return the depth-first order, small ops first.

    Examples
    --------
    >>> from lowtide import load
    >>> depth_first(load("catalogue:kept-output"))
    (0, 2, 3, 1)
    """
    memory, before = sequential_memory(graph), precedence(graph).predecessors
    touched = [
        memory.first_bytes[v]
        + sum(
            graph.tensors[t].nbytes
            for t in op.reads
            if not (graph.tensors[t].initial and graph.tensors[t].final)
        )
        for v, op in enumerate(graph.ops)
    ]
    by_bytes = sorted(range(len(touched)), key=lambda v: (touched[v], v))
    rank = [0] * len(touched)
    for k, v in enumerate(by_bytes):
        rank[v] = k
    return post_order(by_bytes, lambda v: sorted(before[v], key=rank.__getitem__), len(rank))
