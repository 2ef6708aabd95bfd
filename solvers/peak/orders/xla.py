"""The orders of XLA's memory schedulers: list, depth-first, post-order, breadth-first, the best of three.

With operands, control edges, users and outputs as in `lowtide.solvers.peak.orders.dataflow`.
The ops that write final tensors are operands of one tuple, the root, if there are several; an op that
does so alone is the root itself.

* *List*. Of the ops that may run next, take the one with the largest (bytes freed less bytes defined; number
  of users); of equals, the one that came last to its priority. Bytes are freed by the last use of a buffer;
  buffers of inputs and constants do not count, outputs are used once more at the end.
* *Depth-first*. From the sinks that are not the root, then from the root; what an op needs is visited by
  (extra users, total bytes), largest first. Extra users of an op are its users less one plus those of
  its operands, total bytes its own plus those of its operands: both count shared parts once per path, and
  both are capped, by the number of ops and by the bytes of the ops so far.
* *Post-order*. From the ops without users in the given order, the root last; operands first to last, before
  them the control edges, last to first. TVM's Relay runs the same order, operands first to last from the
  outputs (``src/relay/backend/graph_executor_codegen.cc``).
* *Breadth-first*. First in, first out (Kahn's algorithm); users enter before control successors.

The default keeps the best of list, depth-first and post-order, of equals the first.

Source: XLA, ``xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc`` (``xla/service`` before 2025),
classes ``ListScheduler``, ``DFSMemoryScheduler``, ``PostOrderScheduler``, ``BFScheduler`` and
``DefaultMemoryScheduler``; the walks in ``HloInstruction::AcceptWithOperandOrder`` and
``HloComputation::MakeInstructionPostOrder``.

Deviations: XLA schedules after fusion and lets scalars, infeeds and outfeeds jump the queue, which a graph
without shapes cannot tell; it breaks ties by name where the reference order does here; its peak is a heap
simulation with aliases, here it is the one of `lowtide.models.derived.memory`.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.graph import Graph
from .dataflow import Dataflow, dataflow
from .post_order import post_order


def _uses(graph: Graph, size: list[int]) -> list[list[int]]:
    """Return by op the tensors with bytes that it accesses and an op before it has written."""
    written: set[int] = set()
    uses: list[list[int]] = []
    for op in graph.ops:
        uses.append([t for t in dict.fromkeys((*op.reads, *op.writes)) if t in written])
        written.update(t for t in op.writes if size[t])
    return uses


def list_order(graph: Graph) -> tuple[int, ...]:
    """Return the order of the list scheduler.

    Examples
    --------
    >>> from lowtide import load
    >>> list_order(load("catalogue:binary-tree"))
    (7, 6, 11, 5, 4, 10, 13, 3, 2, 9, 1, 0, 8, 12, 14)
    """
    flow, order, memory = dataflow(graph), precedence(graph), sequential_memory(graph)
    n, root = len(graph.ops), _root(flow)
    size = [0 if tensor.initial else tensor.nbytes for tensor in graph.tensors]
    uses = _uses(graph, size)
    left = [int(tensor.final) for tensor in graph.tensors]
    for some in uses:
        for t in some:
            left[t] += 1
    n_users = [len(some) for some in flow.users]
    if root is None:
        for u in flow.outputs:
            n_users[u] += 1
    waits = [len(some) for some in order.predecessors]
    current: dict[int, tuple[int, int]] = {}
    queue: list[tuple[int, int, int, int]] = []
    entered = 0

    def enter(v: int) -> None:
        nonlocal entered
        freed = sum(size[t] for t in uses[v] if left[t] == 1)
        priority = (freed - memory.first_bytes[v], n_users[v])
        if current.get(v) != priority:
            current[v] = priority
            entered += 1
            heappush(queue, (-priority[0], -priority[1], -entered, v))

    for v in range(n):
        if not waits[v]:
            enter(v)
    done: list[int] = []
    while queue:
        freed, users, _, v = heappop(queue)
        if current.get(v) != (-freed, -users):
            continue  # it has run, or has another priority since
        del current[v]
        done.append(v)
        for t in uses[v]:
            left[t] -= 1
        for w in (*flow.users[v], *(w for w in order.successors[v] if v not in flow.operands[w])):
            waits[w] -= 1
            if not waits[w]:
                enter(w)
        if any(left[t] == 1 for t in uses[v]):
            for u in flow.operands[v]:
                for w in flow.users[u]:
                    if w in current:
                        enter(w)
    return tuple(done)


def depth_first(graph: Graph) -> tuple[int, ...]:
    """Return the order of the depth-first scheduler.

    Examples
    --------
    >>> from lowtide import load
    >>> depth_first(load("catalogue:kept-output"))
    (0, 2, 3, 1)
    """
    flow, order, memory = dataflow(graph), precedence(graph), sequential_memory(graph)
    n, root = len(graph.ops), _root(flow)
    extra, total, so_far = [0] * n, [0] * n, 0
    in_tuple = set(flow.outputs) if root is None else set()
    for v in range(n):
        so_far += memory.first_bytes[v]
        own = max(0, len(flow.users[v]) + (v in in_tuple) - 1)
        extra[v] = min(own + sum(extra[u] for u in flow.operands[v]), n)
        total[v] = min(memory.first_bytes[v] + sum(total[u] for u in flow.operands[v]), so_far)

    def key(v: int) -> tuple[int, int, int]:
        return (-extra[v], -total[v], v)

    roots = [v for v in range(n) if not order.successors[v] and v != root and v not in in_tuple]
    roots += sorted(in_tuple, key=key) if root is None else [root]
    return post_order(roots, lambda v: sorted(order.predecessors[v], key=key), n)


def plain_post_order(graph: Graph) -> tuple[int, ...]:
    """Return the post-order, operands as they are listed.

    Examples
    --------
    >>> from lowtide import load
    >>> plain_post_order(load("catalogue:accumulate"))
    (0, 1, 4, 2, 5, 3, 6)
    """
    flow = dataflow(graph)
    in_tuple = set(flow.outputs) if _root(flow) is None else set()
    roots = [v for v, some in enumerate(flow.users) if not some and v not in in_tuple]
    if in_tuple:
        roots += flow.outputs
    return post_order(roots, lambda v: (*reversed(flow.control[v]), *flow.operands[v]), len(graph.ops))


def breadth_first(graph: Graph) -> tuple[int, ...]:
    """Return the order of a queue.

    Examples
    --------
    >>> from lowtide import load
    >>> breadth_first(load("catalogue:two-branches"))
    (0, 1, 3, 2, 4, 5)
    """
    flow, order = dataflow(graph), precedence(graph)
    waits = [len(some) for some in order.predecessors]
    queue = deque(v for v, count in enumerate(waits) if not count)
    done: list[int] = []
    while queue:
        v = queue.popleft()
        done.append(v)
        for w in (*flow.users[v], *(w for w in order.successors[v] if v not in flow.operands[w])):
            waits[w] -= 1
            if not waits[w]:
                queue.append(w)
    return tuple(done)


def _root(flow: Dataflow) -> int | None:
    """Return the op that is the root, or None if the root is a tuple."""
    return flow.outputs[0] if len(flow.outputs) == 1 else None
