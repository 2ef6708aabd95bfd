"""`certify_parallel`: prove a bound on the memory of every parallel schedule, and write the flows down."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...models.certificate import Certificate
from ...models.checks import as_bytes, check_integer, check_seconds, check_type
from ...models.flow_proof import ParallelSetting
from ...models.graph import Graph
from ...models.problems.memory_edges import Edge, MemoryEdges
from ...models.problems.parallel_memory import ParallelMemory
from ...models.result import Result
from ..certify import Certified
from ..context import Context
from ..interrupts import asked_to_stop

MOST_CASES = 2_000
"""Cases of a proof, each with a flow on the whole network."""


def certify_parallel(
    graph: Graph,
    bound: int | str,
    *,
    processors: int | None = None,
    edges: tuple[Edge, ...] = (),
    time_limit: float | None = 60.0,
    progress: Callable[[str], None] = lambda line: None,
) -> Certificate | None:
    """Return a certificate that no parallel schedule of a graph needs more than some bytes.

    It is that of the least bound that was proved, which is `bound` if there was time and no Ctrl-C; None if
    there is a schedule that needs more than `bound`.

    Parameters
    ----------
    graph
        Every op may run on any processor.
    bound
        Bytes: that of a result of `parallel-memory`, or of the question of `memory-edges`.
    processors
        How many ops run at one time at most; None: any number.
    edges
        Further precedence: the first op of a pair ends before the second starts.
    time_limit
        Seconds; None for no limit.
    progress
        Called with a line of text now and then.

    Raises
    ------
    InstanceError
        If an edge is no pair of ops or dangles, or they close a cycle.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:randwire?n=12&seed=1")
    >>> most = lt.solve(lt.ParallelMemory(graph, processors=2)).objective
    >>> certificate = lt.certify_parallel(graph, most, processors=2)
    >>> certificate.bound == most, lt.verify_certificate(graph, certificate).valid
    (True, True)
    """
    from ...formulations.parallel import network as parallel_cut
    from ...models.derived.edges_of import edges_of
    from ...models.derived.precedence import order_with
    from .cases import search

    check_type(graph, Graph, "certify_parallel, graph")
    target: int = as_bytes(bound, 0, "certify_parallel, bound")
    check_integer(processors, 1, "certify_parallel, processors", optional=True)
    check_seconds(time_limit, "certify_parallel, time limit", zero=True)
    edges = edges_of(graph, edges)
    order_with(graph, edges)
    end = None if time_limit is None else time.perf_counter() + time_limit
    with asked_to_stop() as asked:
        found = search(
            parallel_cut.build(graph, edges),
            processors,
            target=target,
            most_nodes=MOST_CASES,
            expired=lambda: asked() or (end is not None and time.perf_counter() >= end),
            proved=lambda least: progress(f"certificate: flow, {least} bytes"),
        )
    if found.moment is not None:
        return None
    proof = found.proof()
    setting = ParallelSetting(processors=processors, edges=tuple(sorted(edges)))
    return Certificate.of(graph, proof.value(processors), proof, setting)


def certify_memory(problem: ParallelMemory, result: Result, context: Context) -> Certified:
    """Return a certificate of a result's bound."""
    if result.bound is None:
        return Certified(None, None, "there is no bound")
    return _certified(problem, result.bound, (), context)


def certify_edges(problem: MemoryEdges, result: Result, context: Context) -> Certified:
    """Return a certificate that the edges of a result keep the memory within the problem's bound."""
    if result.edges is None:
        return Certified(None, None, "there are no edges")
    return _certified(problem, problem.bound, result.edges, context)


def _certified(
    problem: ParallelMemory | MemoryEdges, claim: int, edges: tuple[Edge, ...], context: Context
) -> Certified:
    certificate = certify_parallel(
        problem.graph,
        claim,
        processors=problem.processors,
        edges=edges,
        time_limit=context.time_limit,
        progress=context.progress,
    )
    return Certified(claim, certificate)
