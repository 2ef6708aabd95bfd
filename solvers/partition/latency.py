r"""What no latency of contiguous stages is below, by the cuts of a path.

Let :math:`p_1 \dots p_L` be a path of classes in the order O of `lowtide.formulations.partition.data`. In a
split, stages never fall along it, so each stage that has some of it has an interval :math:`p_i \dots p_j`,
and one begins when the one before has ended: the latency is at least the sum of the loads of these stages.

Such a stage, if it is no host's, has

- all classes between :math:`p_i` and :math:`p_j` in O, the *hull* H, as stages never fall along O;
- none of those before :math:`p_{i-1}` in O nor of those after :math:`p_{j+1}`, these two included, which are
  on earlier and on later stages.

Let T be the set of its classes. Its load is :math:`\ell(T) = \sum_{c \in T} t_c + \sum_v \tau_v (o_v(T) +
i_v(T))`, with :math:`t_c` the least time on a device that is no host's. With
:math:`\ell_{ij}` the least :math:`\ell(T)` of all sets that the two points allow, infinite where the initial
tensors of H exceed the memory or one of its classes cannot run there, and :math:`t^h_p` the time of p on the
host, at most n devices having one interval each,

.. math:: f(0, 0) = 0, \qquad
          f(j, q) = \min\big(f(j-1, q) + t^h_{p_j},\; \min_{i \le j} f(i-1, q-1) + \ell_{ij}\big),

and the latency is at least :math:`\min_{q \le n} f(L, q)`: a stage of the host has a load of at least the sum
of its classes' times. Any lower bounds in the place of :math:`\ell_{ij}` do.

:math:`\ell_{ij}` is a minimum cut, T being the side of H: c is cut from the other side by :math:`t_c`; a
value by :math:`\tau_v` if its writer is in T and some reader is not, and once more if some reader is and the
writer is not. Before that cut is made the transfers alone count that cross for certain, and only intervals of
a best solution are refined, at most `CUTS` times.

Several paths are tried: the longest ones by time, bytes, transfers, and count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...formulations.partition.data import PartitionData, partition_data
from ...models.problems.partition import Partition
from ...models.split import HOST
from ..context import Context

CUTS = 300
"""Times that a best solution of a path is refined at most."""

SHARE = 1 / 4
"""Part of the time that is left which these bounds take; the rest is for plans."""

NEVER = 1 << 62
"""More than any latency in ns: there is no such cut."""

KIND = "cuts of a path"


@dataclass(frozen=True, kw_only=True)
class ClassOrder:
    """The classes of a problem with masks of those before and after each, itself included."""

    problem: Partition
    data: PartitionData

    @cached_property
    def devices(self) -> list[int]:
        """Return the kinds that are no host's."""
        return [k for k, (kind, _) in enumerate(self.data.kinds) if kind != HOST]

    @cached_property
    def times(self) -> list[int | None]:
        """Return the least time of each class on such a device."""
        able = ([row[k] for k in self.devices] for row in self.data.times)
        return [min((t for t in some if t is not None), default=None) for some in able]

    @cached_property
    def on_host(self) -> list[int | None]:
        """Return the time of each class on the host."""
        host = [k for k, (kind, _) in enumerate(self.data.kinds) if kind == HOST]
        return [row[host[0]] if host else None for row in self.data.times]

    @cached_property
    def until(self) -> list[int]:
        """Return by class those before it."""
        masks: list[int] = []
        for c, before in enumerate(self.data.before):
            masks.append(1 << c)
            for b in before:
                masks[c] |= masks[b]
        return masks

    @cached_property
    def since(self) -> list[int]:
        """Return by class those after it."""
        masks = [1 << c for c in range(self.data.n)]
        for c in reversed(range(self.data.n)):
            for b in self.data.before[c]:
                masks[b] |= masks[c]
        return masks

    @cached_property
    def readers(self) -> list[int]:
        """Return by value its readers."""
        return [sum(1 << r for r in v.readers) for v in self.data.passed]

    def paths(self) -> Iterator[list[int]]:
        """Yield long paths by several measures."""
        data = self.data
        times = [min((t for t in row if t is not None), default=0) for row in data.times]
        nbytes = [sum(data.sizes[t] for t in held) for held in data.held]
        sent = [0] * data.n
        for v in data.passed:
            sent[v.writer] += 2 * v.time
        both = [a + b for a, b in zip(times, sent, strict=True)]
        seen = set()
        for weight in (both, times, nbytes, [1] * data.n):
            path = self._longest(weight)
            if tuple(path) not in seen:
                seen.add(tuple(path))
                yield path

    def _longest(self, weight: Sequence[int]) -> list[int]:
        length: list[tuple[int, int]] = []
        for c, before in enumerate(self.data.before):
            most, last = max(((length[b][0], b) for b in before), default=(0, -1))
            length.append((most + weight[c], last))
        path = [max(range(self.data.n), key=lambda c: length[c][0])]
        while length[path[-1]][1] >= 0:
            path.append(length[path[-1]][1])
        return path[::-1]


@dataclass(kw_only=True)
class Cuts:
    """The intervals of a path, with lower bounds of what a stage of each takes."""

    order: ClassOrder
    path: list[int]
    least: dict[tuple[int, int], int] = field(default_factory=dict)

    def sides(self, i: int, j: int) -> tuple[int, int]:
        """Return the masks of the hull of places i to j - 1, and of what is on other stages."""
        order, path = self.order, self.path
        outside = order.until[path[i - 1]] if i else 0
        if j < len(path):
            outside |= order.since[path[j]]
        return order.since[path[i]] & order.until[path[j - 1]], outside

    def begin(self, context: Context) -> bool:
        """State each interval that a device may have, by what crosses for certain; return whether all are."""
        order, data = self.order, self.order.data
        memory = order.problem.memory
        for i in range(len(self.path)):
            for j in range(i + 1, len(self.path) + 1):
                if context.expired:
                    return False
                hull, outside = self.sides(i, j)
                inside = [c for c in range(data.n) if hull >> c & 1]
                times = [t for c in inside if (t := order.times[c]) is not None]
                held = set().union(*(data.held[c] for c in inside))
                if len(times) < len(inside) or (
                    memory is not None and sum(data.sizes[t] for t in held) > memory
                ):
                    break
                cost = sum(times)
                for v, readers in zip(data.passed, order.readers, strict=True):
                    if hull >> v.writer & 1:
                        cost += v.time if readers & outside else 0
                    elif outside >> v.writer & 1 and readers & hull:
                        cost += v.time
                self.least[i, j] = cost
        return True

    def shortest(self) -> tuple[int, list[tuple[int, int]]] | None:
        """Return the least latency by what is known, and its intervals on devices; None if there is none."""
        length = len(self.path)
        count = sum(self.order.data.kinds[k][1] for k in self.order.devices)
        ending: list[list[tuple[int, int]]] = [[] for _ in range(length + 1)]
        for (i, j), cost in self.least.items():
            ending[j].append((i, cost))
        rows = [[(0, -1)] + [(NEVER, -1)] * length]
        for q in range(min(count, length) + 1):
            row = [(0, -1)] if not q else [(NEVER, -1)]
            for j in range(1, length + 1):
                alone = self.order.on_host[self.path[j - 1]]
                found = (row[j - 1][0] + alone, -1) if alone is not None else (NEVER, -1)
                for i, cost in ending[j] if q else ():
                    found = min(found, (rows[q - 1][i][0] + cost, i))
                row.append(found)
            rows[q:] = [row]
        q = min(range(len(rows)), key=lambda q: rows[q][length][0])
        total, some, j = rows[q][length][0], [], length
        if total >= NEVER:
            return None
        while j:
            i = rows[q][j][1]
            if i < 0:
                j -= 1
            else:
                some.append((i, j))
                q, j = q - 1, i
        return total, some

    def cut(self, i: int, j: int) -> int:
        """Return the least load of a stage with places i to j - 1 of the path."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        order, data = self.order, self.order.data
        hull, outside = self.sides(i, j)
        source, sink = data.n, data.n + 1
        node = [source if hull >> c & 1 else sink if outside >> c & 1 else c for c in range(data.n)]
        flow, cost, fresh = SimpleMaxFlow(), 0, data.n + 2
        free = sum(t or 0 for t in order.times) + 2 * sum(v.time for v in data.passed) + 1
        if free * (data.n + sum(map(len, (v.readers for v in data.passed)))) >= NEVER:
            return self.least[i, j]
        for c, time in enumerate(order.times):
            if node[c] == source:
                cost += time or 0
            elif node[c] == c:
                flow.add_arc_with_capacity(c, sink, free if time is None else time)
        for v in data.passed:
            ends = {node[r] for r in v.readers}
            if ends == {node[v.writer]} or not v.time:
                continue
            for start, way in ((fresh, 1), (fresh + 1, -1)):
                pairs = [(node[v.writer], start, v.time), *((start, e, free) for e in sorted(ends))]
                for a, b, most in pairs:
                    flow.add_arc_with_capacity(*((a, b) if way == 1 else (b, a)), most)
            fresh += 2
        if flow.solve(source, sink) != flow.OPTIMAL:
            return self.least[i, j]
        return cost + int(flow.optimal_flow())


def raise_latency(problem: Partition, context: Context, share: float = SHARE) -> None:
    """Raise the bound by the cuts of several paths, in a part of the time, unless that has been done."""
    if not context.once(KIND):
        return
    order = ClassOrder(problem=problem, data=partition_data(problem))
    clock = context.inner(problem, share * context.remaining(), "")
    for path in order.paths():
        cuts, exact = Cuts(order=order, path=path), set[tuple[int, int]]()
        if not cuts.begin(clock):
            return
        for _ in range(CUTS):
            found = cuts.shortest()
            if found is None:
                break
            context.raise_bound(found[0], kind=KIND)
            fresh = [some for some in found[1] if some not in exact]
            if not fresh or context.closed or clock.expired:
                break
            for some in fresh:
                cuts.least[some] = max(cuts.least[some], cuts.cut(*some))
                exact.add(some)
