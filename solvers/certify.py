"""`certify`: prove a known bound on the peak of every order once more, and write the proof down.

It is apart from the search that found the bound: all it takes from there is the number. The kinds are
tried from the smallest proof to the largest: one op's working set, one op's cut, descents, states.
The last two run in rounds with efforts that grow fourfold, as in
`lowtide.solvers.algorithms.peak.widening`; descents towards either end, states in both directions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..models.certificate import Certificate, Proof
from ..models.graph import Graph
from .algorithms.peak.state_space import MASK_LIMIT, state_space

FIRST_WIDTH = 128
EFFORT_PER_WIDTH = 30
"""Effort of descents for each state of a level."""

STATES_PER_WIDTH = 60
"""States in all for each state of a level."""

MEMORY = 2**32
"""Bytes that a search may hold if the caller does not say."""

BYTES_PER_STATE = 200
"""Of one state in a proof, its level's numbers included, besides masks."""


def certify(
    graph: Graph,
    bound: int,
    *,
    orders: Sequence[Sequence[int]] = (),
    kinds: Sequence[str] = ("working-set", "cut", "descents", "states"),
    time_limit: float | None = 60.0,
    memory_limit: int | None = None,
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
    end = None if time_limit is None else time.perf_counter() + time_limit

    def expired() -> bool:
        return end is not None and time.perf_counter() >= end

    proof = _prove(graph, bound, orders, kinds, expired, memory_limit or MEMORY, progress)
    if proof is None:
        return None
    return Certificate(
        bound=bound,
        proof=proof,
        graph_name=graph.name,
        graph_source=graph.source,
        graph_sha256=graph.sha256,
    )


def _prove(
    graph: Graph,
    bound: int,
    orders: Sequence[Sequence[int]],
    kinds: Sequence[str],
    expired: Callable[[], bool],
    nbytes: int,
    progress: Callable[[str], None],
) -> Proof | None:
    from .algorithms.peak.certificates.descents import DescentProver
    from .algorithms.peak.certificates.simple import prove_by_cut, prove_by_working_set
    from .algorithms.peak.certificates.states import prove_by_states

    proof: Proof | None = None
    if "working-set" in kinds:
        proof = prove_by_working_set(graph, bound)
    if proof is None and "cut" in kinds:
        progress("certificate: cut")
        proof = prove_by_cut(graph, bound, orders, expired)
    if proof is not None or not graph.ops or len(graph.ops) > MASK_LIMIT:
        return proof
    prover = DescentProver(graph, bound) if "descents" in kinds else None
    spaces = [state_space(graph, backward=backward) for backward in (False, True) if "states" in kinds]
    width, most = FIRST_WIDTH, nbytes // (BYTES_PER_STATE + len(graph.ops) // 2)
    while not expired() and width * STATES_PER_WIDTH < 4 * most:
        if prover is not None and prover.nbytes < nbytes:
            progress(f"certificate: descents, effort {width * EFFORT_PER_WIDTH:,}")
            for whole in (False, True):
                effort = width * EFFORT_PER_WIDTH
                proof = prover.prove(whole=whole, most=effort, expired=expired, nbytes=nbytes)
                if proof is not None:
                    return proof
        for space in spaces:
            progress(f"certificate: states, up to {width:,} per level")
            proof = prove_by_states(space, bound, width, min(most, width * STATES_PER_WIDTH), expired)
            if proof is not None:
                return proof
        width *= 4
    return None
