r"""Edges that bound parallel memory with the shortest critical path: which edges break each conflict.

**Data.** Ops i with shortest duration :math:`w_i` in ticks, their greatest common divisor; M the bound. A
*conflict* (T, H) is taken from a moment (F, R) whose memory is above M
(`lowtide.models.problems.parallel_memory`). Some of the tensors that are live there, and of the ops that run,
are chosen whose bytes together exceed M still. T has the first writer of each chosen tensor that is not
initial, and H one access of each that is not final, which still holds it at that moment; each chosen op that
runs is in both.

**A partial order that puts no op of H before another op of T exceeds M.** Let F' be all ops before ops of
T and those of T that are in F, and R' the other ops of T that are in R. (F', R') is a moment of that order:
F' holds what is before its ops and those of R'. Every chosen tensor is born there, as T has started, and
held there: an op of H that had not finished at (F, R) is in F' only if it is before an op of T, and one
that had not started is not in T either. Every chosen op that runs is in R'. And R' is a part of R, so that
there are processors for it if there were for R. So the order exceeds M, and each that does not puts

.. math::
    u \in H \text{ before } v \in T,\quad u \ne v,                                               \tag{1}

for some pair. One without any pair shows that no partial order keeps M.

**Variables.** :math:`b_{uv} \in \{0, 1\}` for pairs of conflicts which the precedence does not turn round:
op u must end before op v starts; :math:`S_i \in [0, \sum w]` the start of op i, C the critical path.

Minimize C subject to

2. :math:`S_j \ge S_i + w_i` if i must end before j; :math:`C \ge S_i + w_i`;
3. :math:`S_v \ge S_u + w_u` if :math:`b_{uv} = 1`; so there is no cycle, as :math:`w_u \ge 1`;
4. :math:`\sum b_{uv} \ge 1` over the pairs (1) of each conflict.

Of a partial order that keeps M, the pairs that it has are a solution, S its earliest starts: **the optimum,
under any set of conflicts, is at most that of all partial orders**, in both accountings and on any number of
processors. If the edges of an optimal solution keep M, they are optimal. Else they leave a moment above M,
of which a conflict is taken that rules them out: (4) fails for it, since at that moment no op of H has
finished, or started, that is before an op of T. There are finitely many conflicts.

Sources: the ops that must not run together are *forbidden sets*, which edges break, of project scheduling
(Igelmund and Radermacher, "Preselective strategies for the optimization of stochastic project networks
under resource constraints", Networks 13, 1983); conflicts that are found as they are needed are *logic-based
Benders cuts* (Hooker and Ottosson, Mathematical Programming 96, 2003). Those of tensors are this project's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from ...models.derived.precedence import precedence
from ...models.graph import Accounting, Graph
from ...models.problems.memory_edges import shortest_mode
from ...models.problems.parallel_memory import Moment, live_tensors, most_workspace
from ..model import CPSAT_BYTES
from .network import Arc, accesses

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

LARGEST_TIME = 2**61
"""Ticks of all ops together: CP-SAT's integers have 64 bits."""


@dataclass(kw_only=True)
class ConflictModel:
    """The CP-SAT model, which grows by conflicts, and what its variables mean.

    Attributes
    ----------
    tick
        In ns.
    start, length
        S and C.
    before
        b by pair of ops.
    conflicts
        The pairs of each conflict.
    """

    model: Any
    graph: Graph
    tick: int
    length: Any
    start: list[Any] = field(default_factory=list)
    before: dict[Arc, Any] = field(default_factory=dict)
    conflicts: set[tuple[Arc, ...]] = field(default_factory=set)


def tick_of(graph: Graph) -> int:
    """Return the greatest common divisor of the shortest durations in ns."""
    return gcd(*(shortest_mode(graph, i)[0] for i in range(len(graph.ops)))) or 1


def fits(graph: Graph) -> bool:
    """Return whether the durations of all ops together are fewer than `LARGEST_TIME` ticks."""
    return sum(shortest_mode(graph, i)[0] for i in range(len(graph.ops))) // tick_of(graph) < LARGEST_TIME


def build(graph: Graph, conflicts: Iterable[tuple[Arc, ...]] = ()) -> ConflictModel:
    """Return the model of some conflicts; its objective is in ticks."""
    from ortools.sat.python import cp_model

    model, tick = cp_model.CpModel(), tick_of(graph)
    model.name = "edges by conflicts"
    duration = [shortest_mode(graph, i)[0] // tick for i in range(len(graph.ops))]
    total = sum(duration)
    built = ConflictModel(model=model, graph=graph, tick=tick, length=model.new_int_var(0, total, "C"))
    for i, spent in enumerate(duration):
        built.start.append(model.new_int_var(0, total - spent, f"S{i}"))
        model.add(built.length >= built.start[i] + spent)  # (2)
    for i, later in enumerate(precedence(graph).successors):
        for j in later:
            model.add(built.start[j] >= built.start[i] + duration[i])  # (2)
    model.minimize(built.length)
    for pairs in conflicts:
        add_conflict(built, pairs)
    return built


def add_conflict(built: ConflictModel, pairs: tuple[Arc, ...]) -> bool:
    """Add a conflict of `conflict_pairs` (4); return whether the model did not have it."""
    if pairs in built.conflicts:
        return False
    built.conflicts.add(pairs)
    for u, v in pairs:
        if (u, v) not in built.before:
            built.before[u, v] = literal = built.model.new_bool_var(f"b{u},{v}")
            spent = shortest_mode(built.graph, u)[0] // built.tick
            built.model.add(built.start[v] >= built.start[u] + spent).only_enforce_if(literal)  # (3)
    built.model.add_bool_or([built.before[pair] for pair in pairs])  # (4)
    return True


def add_cutoff(built: ConflictModel, length: int) -> None:
    """Add that the critical path is at most so long, in ns."""
    built.model.add(built.length <= length // built.tick)


def decode(built: ConflictModel, value: Callable[[Any], int]) -> list[Arc]:
    """Return the edges of a solution."""
    return sorted(pair for pair, literal in built.before.items() if value(literal))


def conflict_pairs(graph: Graph, moment: Moment, bound: int) -> tuple[Arc, ...]:
    """Return the pairs (1) of a conflict of few pairs, ascending, which the precedence does not turn round.

    Tensors and workspaces are left out, the smallest first, as long as the others exceed the bound.

    Parameters
    ----------
    graph
        Its precedence lets the moment occur.
    moment
        Its memory is above the bound.
    bound
        M in bytes.

    Examples
    --------
    >>> import lowtide as lt
    >>> ops = (lt.Op(name="a", workspace=4), lt.Op(name="b", workspace=6), lt.Op(name="c", workspace=1))
    >>> graph = lt.Graph(name="three", tensors=(), ops=ops)
    >>> conflict_pairs(graph, Moment(finished=(), running=(0, 1, 2)), 9)
    ((0, 1), (1, 0))
    """
    after = precedence(graph).descendants
    accessors, writers = accesses(graph)
    spaces = {i: most_workspace(graph, i)[0] for i in moment.running}
    live = {t: graph.tensors[t].nbytes for t in live_tensors(graph, moment)}
    excess = sum(spaces.values()) + sum(live.values()) - bound
    if excess <= 0:
        raise ValueError(f"conflict: found a moment of {bound + excess} bytes, expected more than {bound}")
    births = {t: () if graph.tensors[t].initial else (writers[t][0],) for t in live}
    free = {t for t in live if not births[t] and graph.tensors[t].final}
    items = [(nbytes, 0, i) for i, nbytes in spaces.items()]
    items += [(nbytes, 1, t) for t, nbytes in live.items() if t not in free]
    chosen: list[tuple[int, int, int]] = []
    for item in sorted(items):
        if item[0] < excess:
            excess -= item[0]
        else:
            chosen.append(item)
    started = {i for _, is_tensor, i in chosen if not is_tensor}
    holding = set(started)
    started |= {i for _, is_tensor, t in chosen if is_tensor for i in births[t]}
    for _, is_tensor, t in reversed(chosen):
        if is_tensor and not graph.tensors[t].final:
            holders = _holders(graph, moment, t, accessors[t], writers[t])
            if not holding.intersection(holders):
                holding.add(min(holders, key=lambda u: (len(_open(after, u, started)), u)))
    return tuple(sorted((u, v) for u in holding for v in _open(after, u, started)))


def _open(after: Mapping[int, int] | tuple[int, ...], u: int, ops: set[int]) -> list[int]:
    """Return the ops other than u that the precedence does not put before u."""
    return [v for v in ops if v != u and not after[v] >> u & 1]


def _holders(
    graph: Graph, moment: Moment, tensor: int, accessors: list[int], writers: list[int]
) -> list[int]:
    """Return the accesses of a tensor that have not let go of it at a moment."""
    finished = set(moment.finished)
    started = finished | set(moment.running)
    coexist = graph.accounting is Accounting.COEXIST
    return [a for a in accessors if a not in (finished if coexist or a in writers else started)]
