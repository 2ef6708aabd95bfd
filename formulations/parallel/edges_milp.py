r"""Edges that bound parallel memory with the shortest critical path: a MILP with the certificate flow inside.

**Sets and data.** Ops i with shortest duration :math:`w_i`, W their sum; events, births, deaths and bytes
as in `lowtide.formulations.parallel.network`; M the bound, or all bytes if these are fewer.

**Variables.** :math:`b_{ij} \in \{0, 1\}`: op i must end before op j starts (1 where precedence says so, 0
against it); :math:`c_i` the end of op i, :math:`C` the critical path; :math:`f_{uv} \ge 0` the flow on an
arc.

Minimize C subject to

1. :math:`b_{ij} + b_{ji} \le 1`.
2. Transitivity: :math:`b_{ik} \ge b_{ij} + b_{jk} - 1`.
3. :math:`c_j \ge c_i + w_j - W (1 - b_{ij})`; :math:`w_i \le c_i \le C`. No end exceeds W, so W is enough.
4. Each arc from birth to death, and from start to end, carries at least its bytes.
5. As much leaves an event as arrives; the source sends at most M.
6. From the end of i to the start of j: :math:`f \le M b_{ij}`.
7. From the death of t to the start of c: :math:`f \le M b_{ac}` for every access a of t; to where access a
   lets go of t: :math:`f \le M b_{a'a}` for every other access a'.

(1) and (2) only tighten the relaxation: :math:`w \ge 1`, so that by (3) there is no cycle, and the transitive
closure of b satisfies (3), (6) and (7) with the same c and f.

(4) to (7) say that `lowtide.models.verifier.flow` accepts the flow; M bounds it on each arc since the events
stand in an order, so that the flow splits into paths of at most M together. The optimum is that over all
edges **only if no tensor has several last accesses**. In general it is that over all edges that one flow
certifies, and others may be better, or exist where these do not: it is no bound on the problem.

Source: the MILP of Marchal, Nagy, Simon and Vivien (IPDPS 2018) for one datum per edge, in the project's
notes as checked against enumeration; (7) and the events are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...models.derived.precedence import precedence
from ...models.flow_proof import SINK, SOURCE
from ...models.graph import Accounting, Graph
from ...models.problems.memory_edges import shortest_mode
from ...models.problems.parallel_memory import most_workspace
from ..model import MILP_BYTES, ModelSize, Tick, ticker
from ..pyomo_terms import silent_pyomo
from .network import Arc, accesses

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES

LARGEST_TOTAL = 2**49
"""Of bytes and of ns: HiGHS refuses models with factors of 10^15."""


@dataclass(frozen=True, kw_only=True)
class BuiltEdges:
    """The Pyomo model and the variables b by pair of ops."""

    model: Any
    before: dict[Arc, Any]


def totals(graph: Graph) -> tuple[int, int]:
    """Return the bytes of all tensors and workspaces, and W."""
    n = range(len(graph.ops))
    nbytes = sum(t.nbytes for t in graph.tensors) + sum(most_workspace(graph, i)[0] for i in n)
    return nbytes, sum(shortest_mode(graph, i)[0] for i in n)


def size(graph: Graph) -> ModelSize:
    """Return counts that those of the model do not exceed by much."""
    n, tensors = len(graph.ops), len(graph.tensors)
    return ModelSize(
        variables=2 * n * n + 2 * n * tensors,
        constraints=n**3 + n * n * tensors,
        terms=3 * n**3 + 2 * n * n * tensors + 4 * n * n,
    )


def build(graph: Graph, bound: int, *, expired: Callable[[], bool] = lambda: False) -> BuiltEdges:
    """Return the model of a graph for a bound in bytes; its `totals` are below `LARGEST_TOTAL`."""
    import pyomo.environ as pyo

    tick = ticker(expired)
    n, fixed = len(graph.ops), precedence(graph).descendants
    ops, duration = range(n), [shortest_mode(graph, i)[0] for i in range(n)]
    nbytes, total = totals(graph)
    bound = min(bound, nbytes)
    with silent_pyomo():
        model = pyo.ConcreteModel()
        pairs = [(i, j) for i in ops for j in ops if i != j]
        model.b = pyo.Var(pairs, domain=pyo.Binary)
        for i, j in pairs:
            if fixed[i] >> j & 1:
                model.b[i, j].setlb(1)
            elif fixed[j] >> i & 1:
                model.b[i, j].setub(0)
        model.c = pyo.Var(ops, bounds=(0, total))
        model.length = pyo.Var(bounds=(0, total))
        model.rows = pyo.ConstraintList()
        for i, j in pairs:
            tick()
            if i < j:
                model.rows.add(model.b[i, j] + model.b[j, i] <= 1)  # (1)
            for k in ops:
                if k not in (i, j):
                    model.rows.add(model.b[i, k] >= model.b[i, j] + model.b[j, k] - 1)  # (2)
            model.rows.add(model.c[j] >= model.c[i] + duration[j] - total * (1 - model.b[i, j]))  # (3)
        for i in ops:
            model.rows.add(model.c[i] >= duration[i])  # (3)
            model.rows.add(model.length >= model.c[i])  # (3)
        _flow(model, graph, bound, tick)
        model.objective = pyo.Objective(expr=model.length)
    return BuiltEdges(model=model, before={pair: model.b[pair] for pair in pairs})


def decode(built: BuiltEdges, graph: Graph, value: Callable[[Any], float]) -> list[Arc]:
    """Return the edges of a solution beyond the precedence."""
    fixed = precedence(graph).descendants
    return [(i, j) for (i, j), b in built.before.items() if value(b) > 0.5 and not fixed[i] >> j & 1]


def _flow(model: Any, graph: Graph, bound: int, tick: Tick) -> None:
    """State (4) to (7)."""
    import pyomo.environ as pyo

    n = len(graph.ops)
    least, needs = _arcs(graph)
    model.f = pyo.Var(sorted({*least, *needs}), bounds=(0, bound))
    for arc, nbytes in least.items():
        if nbytes:  # not as bounds of variables: an infeasible pair of these would be an error of Pyomo's
            model.rows.add(model.f[arc] >= nbytes)  # (4)
    leaves: dict[int, list[Any]] = {v: [] for v in (SOURCE, *range(2 * n + len(graph.tensors)))}
    arrives: dict[int, list[Any]] = {v: [] for v in (SINK, *range(2 * n + len(graph.tensors)))}
    for u, v in model.f:
        leaves[u].append(model.f[u, v])
        arrives[v].append(model.f[u, v])
    for v in range(2 * n + len(graph.tensors)):
        if leaves[v] or arrives[v]:
            model.rows.add(sum(leaves[v]) == sum(arrives[v]))  # (5)
    if leaves[SOURCE]:
        model.rows.add(sum(leaves[SOURCE]) <= bound)  # (5)
    for arc, befores in needs.items():
        tick()
        for pair in befores:
            model.rows.add(model.f[arc] <= bound * model.b[pair])  # (6, 7)


def _arcs(graph: Graph) -> tuple[dict[Arc, int], dict[Arc, list[Arc]]]:
    """Return the least flow of arcs, and of every arc the pairs of ops that must be in order."""
    n, coexist = len(graph.ops), graph.accounting is Accounting.COEXIST
    accessors, writers = accesses(graph)
    least: dict[Arc, int] = {(2 * i, 2 * i + 1): most_workspace(graph, i)[0] for i in range(n)}
    needs: dict[Arc, list[Arc]] = {(2 * i + 1, 2 * j): [(i, j)] for i in range(n) for j in range(n) if i != j}
    for v in range(2 * n + len(graph.tensors)):
        if v < 2 * n or _has_death(graph, accessors, v - 2 * n):
            needs[SOURCE, v] = []
            needs[v, SINK] = []
    for t, tensor in enumerate(graph.tensors):
        if not tensor.nbytes or not (accessors[t] or (tensor.initial and tensor.final)):
            continue
        birth = SOURCE if tensor.initial else 2 * writers[t][0]
        arc = (birth, SINK if tensor.final else 2 * n + t)
        least[arc] = least.get(arc, 0) + tensor.nbytes
        if tensor.final:
            continue
        for c in range(n):
            others = [(a, c) for a in accessors[t] if a != c]
            held = c in accessors[t] and (coexist or c in writers[t])
            needs[2 * n + t, 2 * c + held] = others
    return least, needs


def _has_death(graph: Graph, accessors: list[list[int]], t: int) -> bool:
    """Return whether tensor t has bytes, is accessed and not final."""
    return bool(graph.tensors[t].nbytes and accessors[t] and not graph.tensors[t].final)
