"""Largest parallel memory by minimum flow: `lowtide.solvers.parallel.closure` finds both."""

from __future__ import annotations

from dataclasses import dataclass

from ...formulations.model import BuildTimeout
from ...formulations.parallel import network as parallel_cut
from ...formulations.parallel.network import CutNetwork
from ...models.derived.precedence import precedence
from ...models.flow_proof import FlowProof
from ...models.problems.parallel_memory import Moment, ParallelMemory, most_workspace
from ...models.verifier.flow import verify_flow
from ..context import Context, Outcome
from .cases import search
from .closure import cut_arrays, flow_case, largest_closure

LATE = "the time was up before the network was built"


@dataclass(frozen=True, kw_only=True)
class LargestCut:
    """The optimum of a network: its value in bytes, the moment of the cut, the flow that proves the value."""

    value: int
    moment: Moment
    flow: FlowProof


def solve_flow(problem: ParallelMemory, context: Context) -> Outcome:
    """Offer the moment of the largest cut and raise the bound to its value.

    Exact if every tensor has one last access, and processors are not limited; else an upper bound, and the
    moment, if at most `processors` ops run at it.
    """
    network = network_in_time(problem, context)
    if network is None:
        return Outcome(reason="time", detail=LATE)
    cut = largest_cut(network)
    fits = problem.processors is None or len(cut.moment.running) <= problem.processors
    if context.expired:
        offer_at_once(problem, context, cut.moment if fits else None)
        return Outcome(reason="time", detail="the time was up before the flow was judged")
    wrong = verify_flow(problem.graph, (), cut.flow)
    if wrong:
        return Outcome(reason="crash", detail=f"the flow proves nothing: {wrong[0].message}")
    context.raise_bound(cut.value, "exact", kind="flow")
    shared = len(network.shared)
    if fits:
        context.offer(cut.moment)
    if context.closed:
        return Outcome()
    if problem.processors is not None:
        return Outcome(detail="the flow knows no number of processors: its bound holds for any number")
    return Outcome(
        detail=f"{shared} tensor{'s' * (shared > 1)} with several last accesses: the flow's bound "
        "lets them live on"
    )


def solve_branch(problem: ParallelMemory, context: Context) -> Outcome:
    """Branch on the events of ops, with flows as bounds: exact for shared tensors and processors."""
    nodes = offer_cases(problem, context)
    if nodes is None:
        return Outcome(reason="time", detail=LATE)
    return Outcome(reason="time" if context.expired and not context.closed else None, detail=f"{nodes} nodes")


def network_in_time(problem: ParallelMemory, context: Context) -> CutNetwork | None:
    """Return the network of the graph; if the time is up before, offer what is known at once."""
    try:
        return parallel_cut.build(problem.graph, expired=lambda: context.expired)
    except BuildTimeout:
        offer_at_once(problem, context)
        return None


def offer_at_once(problem: ParallelMemory, context: Context, moment: Moment | None = None) -> None:
    """Offer a moment, else that at which ops run that wait for none, and the bound by all bytes at once.

    No moment has more live than every tensor, and the workspaces of as many ops as may run.
    """
    if moment is None:
        ready = [i for i, before in enumerate(precedence(problem.graph).predecessors) if not before]
        moment = Moment(finished=(), running=tuple(ready[: problem.processors]))
    context.offer(moment)
    ops = range(len(problem.graph.ops))
    workspaces = sorted((most_workspace(problem.graph, i)[0] for i in ops), reverse=True)
    total = sum(tensor.nbytes for tensor in problem.graph.tensors) + sum(workspaces[: problem.processors])
    context.raise_bound(total, "exact", kind="all bytes")


def offer_cases(problem: ParallelMemory, context: Context, most_nodes: int | None = None) -> int | None:
    """Offer what a branch and bound finds, and raise the bound; return its nodes, None without a network."""
    network = network_in_time(problem, context)
    if network is None:
        return None
    found = search(
        network,
        problem.processors,
        most_nodes=most_nodes,
        expired=lambda: context.expired,
        found=lambda moment, nbytes: context.offer(moment),
        proved=lambda bound: context.raise_bound(bound, "exact", kind="flow, in cases"),
    )
    context.raise_bound(found.bound, "exact", kind="flow, in cases")
    return found.nodes


def largest_cut(network: CutNetwork) -> LargestCut:
    """Return the largest cut of a network.

    Raises
    ------
    RuntimeError
        If the library of flows fails.
    """
    cut = cut_arrays(network)
    closure = largest_closure(cut)
    return LargestCut(
        value=closure.gain,
        moment=network.moment(closure.happened.tolist()),
        flow=FlowProof(cases=(flow_case(cut, closure),)),
    )
