r"""What the formulation and the list scheduler of makespan on distributed memory share, in small integers.

Ops :math:`i \in I`; places :math:`q \in Q`, of :math:`p_q` processors of one kind that use one memory
:math:`m_q \in M`; alternatives :math:`a \in R_i` of an op: in place :math:`q_a`, of duration :math:`d_{ia}`
and workspace :math:`w_{ia}`. Values :math:`y \in Y`: what op :math:`o_y` makes of tensor :math:`t_y` and ops
:math:`U_y` read. Links :math:`(k, m) \in L` between memories: a transfer of value y takes
:math:`\lambda_{km}` and then :math:`\beta_{ykm}`, during which it has the lanes of the link to itself. Memory
m has :math:`K_m` bytes for tensors that are accessed.

Times are in ticks, their greatest common divisor, bytes in multiples of ``unit``, that of sizes and
workspaces; capacities are rounded down. Neither loses anything, nor does a horizon of all durations and
transfers:

*Proof.* Take a fastest schedule. For each two intervals in it (runs, uses of lanes, stays of tensors in a
memory) of which one ends when or before the other begins, require that it does so. Together with the times
that runs and transfers take, and that a stay covers its uses, these say which instant is how much later than
which at least, in multiples of the tick. Whatever satisfies them is a schedule: intervals that overlap
pairwise did so in the first one, and all met at one instant there (Helly). The earliest such schedule has all
instants at longest paths: multiples of the tick, and no path has a run or a transfer twice.

``head`` and ``tail``: the longest chains of least durations before and after an op.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...models.derived.precedence import precedence
from ...models.derived.values import Value
from ...models.graph import Accounting
from ...models.problems.distributed import Distributed
from ...models.problems.processors import Alternative


@dataclass(frozen=True, kw_only=True)
class DistributedData:
    """The data of the page of mathematics; times in multiples of `tick`, bytes in those of `unit`.

    Attributes
    ----------
    alternatives
        By op; `Alternative.kind` is the number of a place.
    counts, memory_of
        By place: p and m.
    capacity
        By memory; None if it holds all tensors and workspaces at once.
    sent, maker
        The values that an op makes and others read, and that op.
    values
        All values.
    nbytes, final
        By tensor.
    writes
        By op.
    busy
        By value in `sent`, and link: ticks of its lanes.
    latency, lanes
        By link.
    """

    tick: int
    unit: int
    replace: bool
    alternatives: tuple[tuple[Alternative, ...], ...]
    counts: tuple[int, ...]
    memory_of: tuple[int, ...]
    capacity: tuple[int | None, ...]
    predecessors: tuple[tuple[int, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    values: tuple[Value, ...]
    sent: tuple[Value, ...]
    maker: tuple[int, ...]
    nbytes: tuple[int, ...]
    final: tuple[bool, ...]
    writes: tuple[frozenset[int], ...]
    busy: tuple[dict[tuple[int, int], int], ...]
    latency: dict[tuple[int, int], int]
    lanes: dict[tuple[int, int], tuple[str, ...]]
    head: tuple[int, ...]
    tail: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.alternatives)

    def memories(self, i: int) -> list[int]:
        """Return the memories where an op can run."""
        return sorted({self.memory_of[a.kind] for a in self.alternatives[i]})

    def takes(self, y: int, link: tuple[int, int]) -> int:
        """Return the ticks of a transfer of value number y in `sent`."""
        return self.latency[link] + self.busy[y][link]

    @property
    def horizon(self) -> int:
        """Ticks that some fastest schedule does not exceed."""
        total = sum(max(a.duration for a in some) for some in self.alternatives)
        for y in range(len(self.sent)):
            for m in range(len(self.capacity)):
                total += max((self.takes(y, link) for link in self.latency if link[1] == m), default=0)
        return total


def distributed_data(problem: Distributed) -> DistributedData:
    """Return the data of a problem.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.distributed.data import distributed_data
    >>> machine = lt.load_machine("v100x4-16g-shared-pcie3")
    >>> data = distributed_data(lt.Distributed(lt.load("catalogue:diamond"), machine))
    >>> data.n, data.memory_of, data.latency
    (4, (0, 1, 2, 3), {})
    """
    graph, links = problem.graph, problem.links
    sent = tuple(x for x in problem.values if x.writer is not None and x.readers)
    times = [{way: link.busy(graph.tensors[x.tensor].nbytes) for way, link in links.items()} for x in sent]
    every = [a for some in problem.alternatives for a in some]
    durations = [a.duration for a in every]
    tick = math.gcd(*durations, *(x.latency for x in links.values()), *(b for d in times for b in d.values()))
    sizes = [t.nbytes for t in graph.tensors]
    unit = math.gcd(*sizes, *(a.workspace for a in every)) or 1
    alternatives = tuple(
        tuple(replace(a, duration=a.duration // tick, workspace=a.workspace // unit) for a in some)
        for some in problem.alternatives
    )
    most = sum(sizes) + sum(max(a.workspace for a in some) for some in problem.alternatives)
    least = [min(a.duration for a in some) for some in alternatives]
    order = precedence(graph)
    head, tail = [0] * len(least), [0] * len(least)
    for i, before in enumerate(order.predecessors):
        head[i] = max((head[j] + least[j] for j in before), default=0)
    for i in reversed(range(len(least))):
        tail[i] = max((tail[j] + least[j] for j in order.successors[i]), default=0)
    return DistributedData(
        tick=tick,
        unit=unit,
        replace=graph.accounting is Accounting.REPLACE,
        alternatives=alternatives,
        counts=tuple(len(x.processors) for x in problem.places),
        memory_of=tuple(x.memory for x in problem.places),
        capacity=tuple(None if k is None or k >= most else k // unit for k in problem.capacities),
        predecessors=order.predecessors,
        successors=order.successors,
        values=problem.values,
        sent=sent,
        maker=tuple(x.writer for x in sent if x.writer is not None),
        nbytes=tuple(size // unit for size in sizes),
        final=tuple(t.final for t in graph.tensors),
        writes=tuple(frozenset(op.writes) for op in graph.ops),
        busy=tuple({way: b // tick for way, b in some.items()} for some in times),
        latency={way: link.latency // tick for way, link in links.items()},
        lanes={way: link.lanes for way, link in links.items()},
        head=tuple(head),
        tail=tuple(tail),
    )
