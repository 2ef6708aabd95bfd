r"""What methods of `hybrid` share: layers by degree, arcs, and what a stage costs.

Layers :math:`i`, arcs :math:`e = (u, v)` for each value and each reader, order O (arcs and control edges).
For groups of t devices layer i has modes m of time :math:`p_m` ns that keep :math:`a_m` bytes for each
micro-batch under way and :math:`b_m` besides; its arcs between stages take :math:`x^t_{ie}` ns, and the
exchange of its gradients by d replicas, in a batch of N micro-batches over a link of B bytes per second,

.. math:: g^{td}_i = \Big\lceil \frac{4 (d - 1) w^t_i}{N B} \Big\rceil .

A stage of layers S in modes :math:`m_i` on d groups of t devices takes for a sample :math:`\lceil W / d
\rceil`,

.. math:: W = \sum_{i \in S} (p_{m_i} + g^{td}_i) + \sum_{e = (u, v) \text{ with one end } i \in S} x^t_{ie} ,

and holds :math:`\sum_{i \in S} (y a_{m_i} + b_{m_i})` bytes with y micro-batches under way: the replicas of
it and all later stages, over d, rounded up. d divides N. Only p, a and b depend on the mode that is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from ...models.derived.values import values_of
from ...models.hybrid_rules import Need, degree_of
from ...models.problems.hybrid import Hybrid


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMode:
    """A mode of a layer: its number in the graph, :math:`p_m`, :math:`a_m` and :math:`b_m`."""

    number: int
    time: int
    each: int
    once: int


@dataclass(frozen=True, kw_only=True)
class Degree:
    """Layers on groups of t devices.

    Attributes
    ----------
    modes
        By layer: those that are allowed; none if it cannot run there.
    made, read
        By arc (u, v): its time where only u is in the stage, :math:`x^t_{ue}`, and only v, :math:`x^t_{ve}`.
    exchanged
        By number of replicas and layer: :math:`g^{td}_i`. Only of replicas that there are devices for.
    """

    modes: tuple[tuple[LayerMode, ...], ...]
    made: tuple[int, ...]
    read: tuple[int, ...]
    exchanged: dict[int, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class HybridData:
    """The data of the page.

    Attributes
    ----------
    n
        How many layers there are.
    arcs
        Pairs of layers.
    before
        By layer: a bit for each that comes before it in O.
    degrees
        By t, ascending: those of some mode, at most the devices.
    """

    n: int
    arcs: tuple[tuple[int, int], ...]
    before: tuple[int, ...]
    degrees: dict[int, Degree]


def hybrid_data(problem: Hybrid) -> HybridData:
    """Return the data of a problem (computed once, kept with it)."""
    kept: HybridData | None = problem.__dict__.get("_data")
    if kept is None:
        kept = problem.__dict__["_data"] = _derived(problem)
    return kept


def _derived(problem: Hybrid) -> HybridData:
    graph = problem.graph
    sent = [(v.writer, i, v.tensor) for v in values_of(graph) for i in v.readers if v.writer is not None]
    arcs = tuple((u, v) for u, v, _ in sent)
    behind = [{*op.after} for op in graph.ops]
    for u, v in arcs:
        behind[v].add(u)
    before = [sum(1 << j for j in some) for some in behind]
    kinds = [[mode.processors or ("t1",) for mode in op.all_modes] for op in graph.ops]
    degrees = {degree_of(kind) or 0 for rows in kinds for some in rows for kind in some}
    small = [d for d in range(1, isqrt(problem.micro) + 1) if problem.micro % d == 0]
    divisors = sorted({*small, *(problem.micro // d for d in small)})
    data = {
        t: _degree(
            problem,
            t,
            [[m for m, some in enumerate(rows) if f"t{t}" in some] for rows in kinds],
            sent,
            divisors,
        )
        for t in sorted(degrees)
        if t <= min(problem.tensor or t, problem.processors)
    }
    return HybridData(n=len(graph.ops), arcs=arcs, before=tuple(before), degrees=data)


def _degree(
    problem: Hybrid, t: int, there: list[list[int]], sent: list[tuple[int, int, int]], divisors: list[int]
) -> Degree:
    """Return what layers take on groups of t devices, by `there`, their modes, and what is `sent`."""
    link = problem.link
    needs = [problem.all_needs[i][some[0]] if some else None for i, some in enumerate(there)]

    def crossing(i: int, tensor: int) -> int:
        need = needs[i]
        if need is None or link is None:
            return 0
        nbytes = problem.graph.tensors[tensor].nbytes + dict(need.sync).get(tensor, 0)
        return -(-2 * nbytes * 10**9 // link)

    def exchange(need: Need | None, d: int) -> int:
        if need is None or link is None:
            return 0
        return -(-4 * (d - 1) * need.weights * 10**9 // (problem.micro * link))

    most = min(problem.processors // t, problem.micro, problem.replicate or problem.processors)
    return Degree(
        modes=tuple(_allowed(problem, i, some) for i, some in enumerate(there)),
        made=tuple(crossing(u, tensor) for u, _, tensor in sent),
        read=tuple(crossing(v, tensor) for _, v, tensor in sent),
        exchanged={d: tuple(exchange(need, d) for need in needs) for d in divisors if d <= most},
    )


def _allowed(problem: Hybrid, i: int, modes: list[int]) -> tuple[LayerMode, ...]:
    """Return the modes of a layer in which it runs again or not, as the problem asks."""
    again = [m for m in modes if problem.all_needs[i][m].again]
    if problem.recompute == "none":
        modes = [m for m in modes if m not in again]
    elif problem.recompute == "all" and again:
        modes = again
    rows = [(m, problem.graph.ops[i].all_modes[m], problem.all_needs[i][m]) for m in modes]
    return tuple(
        LayerMode(number=m, time=mode.duration_ns, each=need.each, once=need.once) for m, mode, need in rows
    )
