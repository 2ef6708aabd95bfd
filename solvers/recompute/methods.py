"""The methods of problem `recompute`, in the order in which they are listed."""

from __future__ import annotations

from ..method import Method
from .methods_chains import CHAIN_KERNELS, CHAIN_METHODS
from .methods_graphs import GRAPH_KERNELS

RECOMPUTE_METHODS = (
    Method(
        name="auto",
        problem="recompute",
        run=".recompute.auto:solve_auto",
        summary="each op once, if that fits; else chain programs, heuristics, moments, retention intervals",
        exact=True,
        kernels=(*CHAIN_KERNELS, *GRAPH_KERNELS),
    ),
    Method(
        name="store-all",
        problem="recompute",
        run=".recompute.auto:solve_store_all",
        summary="each op once, in the reference order, nothing computed again",
        kernels=(*CHAIN_KERNELS, *GRAPH_KERNELS),
    ),
    *CHAIN_METHODS,
)
