"""Largest parallel memory by minimum flow, computed as one maximum flow.

The network problem of `lowtide.formulations.parallel_cut` selects events, each with those before it, of the
largest total gain: a maximum-weight closure (Picard, "Maximal closure of a graph and applications to
combinatorial problems", Management Science 1976), found by a maximum flow from a source through the events
of positive gain to those of negative gain and a sink. The minimum cut is the moment. The flow, turned round
and put on top of the bytes that each arc must carry, is a flow of least value under those lower bounds:
`lowtide.models.verify_flow` checks it and so proves the bound in integers, whatever the library that found
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..formulations import parallel_cut
from ..formulations.parallel_cut import SINK, SOURCE, CutNetwork
from ..models.parallel_memory import Moment, ParallelMemory
from ..models.verify_flow import FlowCertificate, verify_flow
from .context import Context, Outcome


@dataclass(frozen=True, kw_only=True)
class LargestCut:
    """The optimum of a network: its value in bytes, the moment of the cut, the flow that proves the value."""

    value: int
    moment: Moment
    flow: FlowCertificate


def solve_flow(problem: ParallelMemory, context: Context) -> Outcome:
    """Offer the moment of the largest cut and raise the bound to its value.

    Exact if every tensor has one last access, and processors are not limited; else an upper bound, and the
    moment, if at most `processors` ops run at it.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.ParallelMemory(lt.load("gen:chain?n=4&seed=1")), "flow", threads=1)
    >>> result.bound_kind, result.proof, result.gap
    ('flow', 'exact', 0.0)
    """
    network = parallel_cut.build(problem.graph)
    cut = largest_cut(network)
    wrong = verify_flow(problem.graph, (), cut.flow)
    if wrong:
        return Outcome(reason="crash", detail=f"the flow proves nothing: {wrong[0].message}")
    context.raise_bound(cut.flow.value, "exact", kind="flow")
    shared = len(network.shared)
    if problem.processors is None or len(cut.moment.running) <= problem.processors:
        context.offer(cut.moment)
    if context.closed:
        return Outcome()
    if problem.processors is not None:
        return Outcome(detail="the flow knows no number of processors: its bound holds for any number")
    return Outcome(
        detail=f"{shared} tensor{'s' * (shared > 1)} with several last accesses: the flow's bound "
        "lets them live on"
    )


def largest_cut(network: CutNetwork) -> LargestCut:
    """Return the largest cut of a network, by the maximum flow of OR-tools.

    Raises
    ------
    OverflowError
        If the bytes together leave 62 bits.
    RuntimeError
        If the library fails.
    """
    from ortools.graph.python import max_flow

    gains, constant = network.gains()
    gain = np.array(gains, dtype=np.int64)
    total = sum(g for g in gains if g > 0)
    if total >= 2**62:
        raise OverflowError(f"parallel memory: found {total} bytes in all, expected fewer than 2**62")
    sink, source = network.n_events, network.n_events + 1  # OR-tools fails if no arc names the last node
    positive, negative = np.flatnonzero(gain > 0), np.flatnonzero(gain < 0)
    orders = np.array(network.orders, dtype=np.int64).reshape(-1, 2)
    first = len(orders)
    if not total:
        return _nothing_gained(network, constant)
    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(
        np.concatenate([orders[:, 1], np.full(len(positive), source), negative]),
        np.concatenate([orders[:, 0], positive, np.full(len(negative), sink)]),
        np.concatenate([np.full(first, total), gain[positive], -gain[negative]]),
    )
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-tools: found maximum flow status {status}, expected optimal")
    happened = [False] * network.n_events
    for v in solver.get_source_side_min_cut():
        if v < network.n_events:
            happened[v] = True
    carried = solver.flows(np.arange(solver.num_arcs())).tolist()
    arcs = network.least_flow()

    def put(u: int, v: int, nbytes: int) -> None:
        if nbytes:
            arcs[u, v] = arcs.get((u, v), 0) + nbytes

    for (u, v), nbytes in zip(network.orders, carried, strict=False):
        put(u, v, nbytes)
    for v, nbytes in zip(positive.tolist(), carried[first:], strict=False):
        put(SOURCE, v, gains[v] - nbytes)
    for v, nbytes in zip(negative.tolist(), carried[first + len(positive) :], strict=False):
        put(v, SINK, -gains[v] - nbytes)
    flow = FlowCertificate(arcs=tuple((u, v, nbytes) for (u, v), nbytes in sorted(arcs.items())))
    return LargestCut(
        value=constant + total - solver.optimal_flow(), moment=network.moment(happened), flow=flow
    )


def _nothing_gained(network: CutNetwork, constant: int) -> LargestCut:
    """Return the cut at the first moment: no event has a positive gain, arcs carry just their bytes."""
    gains, _ = network.gains()
    arcs = network.least_flow()
    for v, gain in enumerate(gains):
        if gain:
            arcs[v, SINK] = arcs.get((v, SINK), 0) - gain
    flow = FlowCertificate(arcs=tuple((u, v, nbytes) for (u, v), nbytes in sorted(arcs.items())))
    return LargestCut(value=constant, moment=network.moment([False] * network.n_events), flow=flow)
