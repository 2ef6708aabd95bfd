r"""Judge a proof that no parallel schedule of a graph needs more than some bytes, from raw fields alone.

The proof is a flow. Its nodes are events: the start 2i and the end 2i + 1 of each of the n ops, the death
2n + t of each tensor that is accessed and not final, a source (-1) before everything and a sink (-2) that
never happens. An arc (u, v) is *sound* if in no execution v happens before u:

* from the source, and to the sink;
* from 2i to 2i + 1; from 2i + 1 to 2j if i must end before j;
* from 2n + t to the start of an op before which every access of t must end;
* from 2n + t to where one access lets go of t (its end; under ``replace``, if it only reads t, its start),
  if every other access of t must end before that op;
* from the birth of t (the source if it is initial, else the start of its first writer) to 2n + t.

Rules: every arc is sound and carries at least 0; at every event as much arrives as leaves; the arc from
birth to death of each tensor carries at least its bytes (those of final tensors end at the sink), that from
2i to 2i + 1 at least the most workspace of op i, where arcs of several demands carry their sum.

**Then no moment needs more than the flow's value.** Let p(v) be 1 if event v has happened at the moment,
else 0. On a sound arc p(u) - p(v) is at least 0. The memory is the sum over the demands of bytes (p(u) -
p(v)), so at most the sum over all arcs of flow (p(u) - p(v)), which by conservation is the value times
p(source) - p(sink) = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .graph import Accounting, Graph
from .verdict import Violation

SOURCE, SINK = -1, -2


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCertificate:
    """A flow: ``(tail, head, bytes)`` of each arc, no arc twice."""

    arcs: tuple[tuple[int, int, int], ...]

    @property
    def value(self) -> int:
        """What leaves the source, in bytes: the bound that it proves."""
        return sum(nbytes for u, _, nbytes in self.arcs if u == SOURCE)


def verify_flow(
    graph: Graph, edges: Sequence[tuple[int, int]], flow: FlowCertificate
) -> tuple[Violation, ...]:
    """Return what is wrong with a flow that is to bound the memory of every parallel schedule.

    Parameters
    ----------
    graph
        What is executed, under its precedence.
    edges
        Further pairs (i, j): op i must end before op j starts.
    flow
        Its value is the bound.

    Returns
    -------
    tuple of Violation
        Kinds ``edge`` and ``flow``; empty if the flow proves its value.

    Examples
    --------
    >>> from lowtide.models.graph import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="one op",
    ...     tensors=(Tensor(name="x", nbytes=4),),
    ...     ops=(Op(name="make", writes=(0,)),),
    ... )
    >>> verify_flow(graph, (), FlowCertificate(arcs=((-1, 0, 4), (0, 2, 4), (2, 1, 4), (1, -2, 4))))
    ()
    >>> print(verify_flow(graph, (), FlowCertificate(arcs=()))[0])
    flow: arc from 0 to 2 carries 0 bytes, expected at least 4
    """
    n = len(graph.ops)
    found = [
        Violation(
            kind="edge", message=f"found [{i}, {j}], expected two different ops in [0, {n})", op=i, other=j
        )
        for i, j in edges
        if not (0 <= i < n and 0 <= j < n and i != j)
    ]
    if found:
        return tuple(found)
    after = _followers(graph, edges)
    if after is None:
        return (Violation(kind="edge", message="the edges close a cycle, expected none"),)
    users, writers = _uses(graph)
    carried: dict[tuple[int, int], int] = {}
    net: dict[int, int] = {}
    for u, v, nbytes in flow.arcs:
        if (u, v) in carried:
            found.append(_wrong(f"arc from {u} to {v} is listed twice, expected once"))
        if type(nbytes) is not int or nbytes < 0:
            found.append(_wrong(f"arc from {u} to {v} carries {nbytes!r}, expected an integer >= 0"))
            continue
        if not _sound(graph, u, v, after, users, writers):
            found.append(_wrong(f"arc from {u} to {v}: nothing makes {v} happen after {u}"))
        carried[u, v] = carried.get((u, v), 0) + nbytes
        net[u] = net.get(u, 0) - nbytes
        net[v] = net.get(v, 0) + nbytes
    for v, surplus in sorted(net.items()):
        if surplus and v not in (SOURCE, SINK):
            found.append(_wrong(f"event {v}: {surplus} bytes more arrive than leave, expected as many"))
    for (u, v), least in sorted(_demands(graph, users, writers).items()):
        if carried.get((u, v), 0) < least:
            held = carried.get((u, v), 0)
            found.append(_wrong(f"arc from {u} to {v} carries {held} bytes, expected at least {least}"))
    return tuple(found)


def _wrong(message: str) -> Violation:
    return Violation(kind="flow", message=message)


def _uses(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """Return per tensor the ops that access it, and those that write it, ascending."""
    users: list[list[int]] = [[] for _ in graph.tensors]
    writers: list[list[int]] = [[] for _ in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            users[t].append(i)
        for t in op.writes:
            writers[t].append(i)
    return users, writers


def _demands(graph: Graph, users: list[list[int]], writers: list[list[int]]) -> dict[tuple[int, int], int]:
    n = len(graph.ops)
    found: dict[tuple[int, int], int] = {}
    for i, op in enumerate(graph.ops):
        found[2 * i, 2 * i + 1] = max(mode.workspace for mode in op.all_modes)
    for t, tensor in enumerate(graph.tensors):
        if not users[t] and not (tensor.initial and tensor.final):
            continue
        birth = SOURCE if tensor.initial else 2 * writers[t][0]
        arc = (birth, SINK if tensor.final else 2 * n + t)
        found[arc] = found.get(arc, 0) + tensor.nbytes
    return found


def _sound(
    graph: Graph, u: int, v: int, after: list[int], users: list[list[int]], writers: list[list[int]]
) -> bool:
    n, events = len(graph.ops), 2 * len(graph.ops) + len(graph.tensors)
    if not (SINK < u < events and SINK <= v < events and v != SOURCE):
        return False
    if u == SOURCE or v == SINK:
        return True
    if v >= 2 * n:
        t = v - 2 * n
        return not graph.tensors[t].initial and bool(writers[t]) and u == 2 * writers[t][0]
    op, is_end = v // 2, v % 2 == 1
    if u < 2 * n:
        return (u % 2 == 0 and v == u + 1) or (u % 2 == 1 and not is_end and after[u // 2] >> op & 1 == 1)
    t = u - 2 * n
    if graph.tensors[t].final or not users[t]:
        return False
    if any(a != op and not after[a] >> op & 1 for a in users[t]):
        return False
    if op not in users[t]:
        return not is_end
    held = graph.accounting is Accounting.COEXIST or op in writers[t]
    return is_end == held


def _followers(graph: Graph, edges: Sequence[tuple[int, int]]) -> list[int] | None:
    """Return bit masks of the ops that must follow each op; None if there is a cycle."""
    n = len(graph.ops)
    later: list[set[int]] = [set() for _ in range(n)]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, op in enumerate(graph.ops):
        before = set(op.after)
        before.update(writer[t] for t in op.reads if t in writer)
        for t in op.writes:
            before.update(readers.get(t, ()))
            before.update([writer[t]] if t in writer else [])
        for t in op.writes:
            writer[t], readers[t] = i, []
        for t in op.reads:
            readers.setdefault(t, []).append(i)
        for j in before - {i}:
            later[j].add(i)
    for i, j in edges:
        later[i].add(j)
    waits = [0] * n
    for some in later:
        for j in some:
            waits[j] += 1
    order = [i for i in range(n) if not waits[i]]
    for i in order:
        for j in sorted(later[i]):
            waits[j] -= 1
            if not waits[j]:
                order.append(j)
    if len(order) < n:
        return None
    masks = [0] * n
    for i in reversed(order):
        for j in later[i]:
            masks[i] |= masks[j] | 1 << j
    return masks
