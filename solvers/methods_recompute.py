"""The methods of problem `recompute`, in the order in which they are listed."""

from __future__ import annotations

from .method import Method
from .methods_recompute_chains import CHAIN_METHODS

RECOMPUTE_METHODS = (
    Method(
        name="auto",
        problem="recompute",
        run=".recompute_auto:solve_auto",
        summary="each op once, if that fits; else chain programs, heuristics, moments, retention intervals",
        exact=True,
    ),
    Method(
        name="store-all",
        problem="recompute",
        run=".recompute_auto:solve_store_all",
        summary="each op once, in the reference order, nothing computed again",
    ),
    *CHAIN_METHODS,
)
