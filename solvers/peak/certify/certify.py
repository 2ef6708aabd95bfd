"""`certify`: prove a known bound on the peak of every order once more, and write the proof down.

It is apart from the search that found the bound: all it takes from there is the number. The kinds are
tried from the smallest proof to the largest: one op's working set, one op's cut, descents, states.
The last two run in rounds with efforts that grow, as in `lowtide.solvers.peak.search.rounds`: descents
towards either end, states in both directions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ....models.certificate import Certificate, Proof
from ....models.checks import as_bytes, check_seconds, check_type
from ....models.graph import Graph
from ....models.problems.peak import Peak
from ....models.result import Result
from ...certify import Certified
from ...context import Context
from ..search.state_space import MASK_LIMIT, state_space

DESCENTS = 4_000
"""Effort of the first search by descents."""

STEPS = 50_000
"""Steps of the first exhaustive pass, which is not compiled."""

STEPS_PER_DESCENT = 200
"""Steps of later passes for each unit of effort of descents: takes about as long."""

GROWTH = 4
"""Of efforts, from round to round."""

MEMORY = 2**32
"""Bytes that a search may hold if the caller does not say."""


def certify(
    graph: Graph,
    bound: int | str,
    *,
    orders: Sequence[Sequence[int]] = (),
    kinds: Sequence[str] = ("working-set", "cut", "descents", "states"),
    time_limit: float | None = 60.0,
    memory_limit: int | str | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Certificate | None:
    """Return a certificate that no order of a graph has a peak below `bound`, or None if none was found.

    Parameters
    ----------
    graph
        Any graph.
    bound
        Bytes, such as `Result.bound`.
    orders
        Good orders, which save cuts.
    kinds
        The kinds of proof that may be tried.
    time_limit
        Seconds; None for no limit.
    memory_limit
        Bytes that a search may hold.
    progress
        Called with a line of text now and then.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:chain?n=5&seed=1")
    >>> lt.certify(graph, lt.solve(lt.Peak(graph)).bound).proof.kind
    'working-set'
    """
    check_type(graph, Graph, "certify, graph")
    value: int = as_bytes(bound, 0, "certify, bound")
    check_seconds(time_limit, "certify, time limit", zero=True)
    most_bytes = as_bytes(memory_limit, 1, "certify, memory limit", optional=True)
    end = None if time_limit is None else time.perf_counter() + time_limit

    def expired() -> bool:
        return end is not None and time.perf_counter() >= end

    proof = _prove(graph, value, orders, kinds, expired, most_bytes or MEMORY, progress)
    if proof is None:
        return None
    return Certificate.of(graph, value, proof)


def certify_peak(problem: Peak, result: Result, context: Context) -> Certified:
    """Return a certificate of a result's bound."""
    if result.bound is None:
        return Certified(None, None, "there is no bound")
    orders = [] if result.plan is None else [[run.op for run in result.plan.runs]]
    certificate = certify(
        problem.graph,
        result.bound,
        orders=orders,
        time_limit=context.time_limit,
        memory_limit=context.memory_limit,
        progress=context.progress,
    )
    return Certified(result.bound, certificate)


def _prove(
    graph: Graph,
    bound: int,
    orders: Sequence[Sequence[int]],
    kinds: Sequence[str],
    expired: Callable[[], bool],
    nbytes: int,
    progress: Callable[[str], None],
) -> Proof | None:
    from .simple import prove_by_cut, prove_by_working_set

    proof: Proof | None = None
    if "working-set" in kinds:
        proof = prove_by_working_set(graph, bound)
    if proof is None and "cut" in kinds:
        progress("certificate: cut")
        proof = prove_by_cut(graph, bound, orders, expired)
    if proof is not None or not graph.ops or len(graph.ops) > MASK_LIMIT:
        return proof
    return _search(graph, bound, kinds, expired, nbytes, progress)


def _search(
    graph: Graph,
    bound: int,
    kinds: Sequence[str],
    expired: Callable[[], bool],
    nbytes: int,
    progress: Callable[[str], None],
) -> Proof | None:
    """Search in rounds, until there is a proof, no time or memory is left, or an order is below."""
    from .descents import DescentProver
    from .ends import OutOfMemory, TooHigh
    from .states import prove_by_states

    prover = DescentProver(graph, bound)
    ways: list[tuple[str, bool]] = [
        (kind, back) for kind in ("descents", "states") if kind in kinds for back in (False, True)
    ]
    effort, steps = DESCENTS, STEPS
    while ways and not expired():
        progress(f"certificate: descents, effort {effort:,}; states, {steps:,} steps")
        for way in list(ways):
            kind, back = way
            proof: Proof | None
            try:
                if kind == "descents":
                    proof = prover.prove(whole=back, most=effort, expired=expired, nbytes=nbytes // 2)
                else:
                    space = state_space(graph, backward=back)
                    proof = prove_by_states(space, bound, steps, expired, nbytes // 2)
            except OutOfMemory:
                ways.remove(way)
                continue
            except TooHigh:
                return None
            if proof is not None:
                return proof
        effort *= GROWTH
        steps = STEPS_PER_DESCENT * effort
    return None
