r"""The latency of one sample as a MILP: the program of Tarnawski and others (NeurIPS 2020), by classes.

Data of `data`, devices d of kinds that are no host's, and the host h, which runs any number of classes beside
each other; :math:`H` is a latency that need not be exceeded.

Variables. :math:`x_{cd} \in \{0, 1\}`: class c is on device d or the host; :math:`i_{vd}, o_{vd}, h_{td}` in
[0, 1] and the load :math:`L_d` as in `stages_milp`. :math:`S_d`: when d begins; :math:`F_c`: when what c
makes has left its device.

Objective. Minimize B, the latency, subject to

1. :math:`\sum_d x_{cd} = 1`, the host among the d;
2. :math:`S_d \ge F_b - H (1 - x_{cd} + x_{bd})` for :math:`(b, c) \in O`: d begins when what it needs has
   left other stages;
3. :math:`F_c \ge S_d + L_d - H (1 - x_{cd})`;
4. transfers: :math:`o_{vd} \ge x_{w_v d} - x_{rd}` and :math:`i_{vd} \ge x_{rd} - x_{w_v d}` for
   :math:`r \in R_v`;
5. loads: :math:`L_d \ge \sum_c t_{cd} x_{cd} + \sum_v \tau_v (i_{vd} + o_{vd})`;
6. memories: :math:`\sum_t s_t h_{td} \le M`;
7. :math:`h_{td} \ge x_{cd}` if c accesses t;
8. :math:`F_c \ge t_{ch} x_{ch}` and :math:`F_c \ge F_b + t_{ch} x_{ch}` for :math:`(b, c) \in O`;
9. :math:`B \ge F_c`.

Constraints 4 to 7 are those of `stages_milp`.

Stages are contiguous: if two waited for each other, each would end before it begins, as a load is at least
1 ns. Deviation: their rows on contiguity are left out for that reason, the start waits for classes in O and
not for values alone, and H is the latency of a known split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...models.problems.partition import Partition
from ...models.split import HOST, Split
from ..model import MILP_BYTES, ModelSize
from .data import partition_data
from .stages_milp import LoadModel, Name, Row, crossings, holdings, loads, memories, state
from .stages_milp import size as size_of_stages

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


def empty(problem: Partition) -> LoadModel:
    """Return the devices that are no host's."""
    given: list[int | None] = [
        k for k, (kind, n) in enumerate(problem.kinds) for _ in range(n) if kind != HOST
    ]
    return LoadModel(problem=problem, data=partition_data(problem), given=given)


def host(at: LoadModel) -> int:
    """Return the number under which the host stands behind the devices."""
    return len(at.given)


def on_host(at: LoadModel, c: int) -> int | None:
    """Return the time of a class on the host, None if it cannot run there."""
    return next(
        (t for (kind, _), t in zip(at.data.kinds, at.data.times[c], strict=True) if kind == HOST), None
    )


def one_place(at: LoadModel) -> Iterator[Row]:
    """Constraint 1."""
    for c in range(at.data.n):
        for sign in (1, -1):
            yield [(("x", c, d), sign) for d in range(host(at) + 1)], sign


def starts(at: LoadModel) -> Iterator[Row]:
    """Constraint 2."""
    most = horizon(at)
    for c, before in enumerate(at.data.before):
        for b in sorted(before):
            for d in at.stages:
                row = [(("S", d, 0), 1), (("F", b, 0), -1), (("x", c, d), -most), (("x", b, d), most)]
                yield row, -most


def ends(at: LoadModel) -> Iterator[Row]:
    """Constraint 3."""
    most = horizon(at)
    for c in range(at.data.n):
        for d in at.stages:
            yield [(("F", c, 0), 1), (("S", d, 0), -1), (("L", d, 0), -1), (("x", c, d), -most)], -most


def alone(at: LoadModel) -> Iterator[Row]:
    """Constraint 8."""
    for c, before in enumerate(at.data.before):
        own: tuple[Name, int] = (("x", c, host(at)), -(on_host(at, c) or 0))
        yield [(("F", c, 0), 1), own], 0
        yield from (([(("F", c, 0), 1), (("F", b, 0), -1), own], 0) for b in sorted(before))


def latest(at: LoadModel) -> Iterator[Row]:
    """Constraint 9."""
    for c in range(at.data.n):
        yield [(("B", 0, 0), 1), (("F", c, 0), -1)], 0


CONSTRAINTS = (one_place, starts, ends, crossings, loads, memories, holdings, alone, latest)


def horizon(at: LoadModel) -> int:
    """Return H: the hint's latency if there is one, else all classes and all transfers one after another."""
    if at.most is not None:
        return at.most
    slowest = sum(max(t or 0 for t in row) for row in at.data.times)
    return slowest + sum(v.time * (len(v.readers) + 1) for v in at.data.passed)


def names(at: LoadModel) -> Iterator[tuple[Name, int, bool]]:
    """Yield each variable with the most that it is, and whether it is an integer."""
    most = horizon(at)
    yield from ((name, top, whole) for name, top, whole in at.names() if name[0] != "B")
    yield ("B", 0, 0), most, True
    yield from ((("S", d, 0), most, True) for d in at.stages)
    for c in range(at.data.n):
        yield ("F", c, 0), most, True
        yield ("x", c, host(at)), int(on_host(at, c) is not None), True


def values_of(at: LoadModel, split: Split) -> dict[Name, int]:
    """Return what the variables are in a split."""
    data, free = at.data, list(at.stages)
    slot: dict[int, int] = {}
    for s, kind in enumerate(split.kinds):
        slot[s] = host(at)
        if kind != HOST:
            slot[s] = next(d for d in free if data.kinds[at.given[d] or 0][0] == kind)
            free.remove(slot[s])
    stage = [split.stage[some[0]] for some in data.members]
    on = [slot[s] for s in stage]
    verdict = at.problem.verdict(split)
    values: dict[Name, int] = {}
    left: list[int] = []
    for c, d in enumerate(on):
        ready = max((left[b] for b in data.before[c]), default=0)
        left.append(ready + (on_host(at, c) or 0) if d == host(at) else verdict.ends[stage[c]])
        values["x", c, d], values["F", c, 0] = 1, left[c]
        values.update({("h", t, d): 1 for t in data.held[c] if d != host(at)})
        if d != host(at):
            load = verdict.loads[stage[c]]
            values["L", d, 0], values["S", d, 0] = load, verdict.ends[stage[c]] - load
    for n, v in enumerate(data.passed):
        away = {on[r] for r in v.readers} - {on[v.writer]}
        values.update({("i", n, d): 1 for d in away if d != host(at)})
        if away and on[v.writer] != host(at):
            values["o", n, on[v.writer]] = 1
    values["B", 0, 0] = max(left)
    return values


def size(problem: Partition) -> ModelSize:
    """Return about what the model will have."""
    known, at = size_of_stages(problem), empty(problem)
    pairs = sum(map(len, at.data.before)) * len(at.given)
    more = pairs + (len(at.given) + 2) * at.data.n
    return ModelSize(known.variables + at.data.n, known.constraints + more, known.terms + 4 * more)


def build(
    problem: Partition, *, hint: Split | None = None, expired: Callable[[], bool] = lambda: False
) -> LoadModel:
    """Return the model; a known split is its start, and its latency H."""
    at = empty(problem)
    at.most = None if hint is None else problem.evaluate(hint)
    known = {} if hint is None else values_of(at, hint)
    state(at, CONSTRAINTS, names(at), [(("B", 0, 0), 1)], known, expired)
    return at


def decode(at: LoadModel, value: Callable[[Any], int]) -> Split | None:
    """Return the split of a solution: devices by their starts, each class of the host by itself."""
    on = []
    for c in range(at.data.n):
        there = [d for d in range(host(at) + 1) if value(at.variables["x", c, d]) > 0.5]
        if len(there) != 1:
            return None
        on.append(there[0])
    import networkx as nx

    group = [d if d < host(at) else host(at) + c for c, d in enumerate(on)]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(sorted(set(group)))
    graph.add_edges_from(
        (group[b], group[c])
        for c, before in enumerate(at.data.before)
        for b in sorted(before)
        if group[b] != group[c]
    )
    if not nx.is_directed_acyclic_graph(graph):
        return None
    order = list(nx.lexicographical_topological_sort(graph))
    number = {g: s for s, g in enumerate(order)}
    kinds = [HOST if g >= host(at) else at.data.kinds[at.given[g] or 0][0] for g in order]
    return at.data.split([number[g] for g in group], kinds)
