"""What is known about the least peak of a graph: from the catalogue, or by a quick bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.graph import Graph

QUICK = 10.0
"""Seconds that a bound may take where nobody asked for one."""


class Known(NamedTuple):
    """The best peak and the best bound known, in bytes, and where the bound comes from."""

    best: int | None
    bound: int | None
    origin: str | None


def known_about(graph: Graph, *, given: int | None, order: Sequence[int] | None) -> Known:
    """Return the best that is known about the peak of a graph.

    Parameters
    ----------
    graph
        The catalogue knows it by its hash.
    given
        A bound that the caller knows; it is taken as it is.
    order
        The order that is scored: a bound is computed if there is none; None: do not compute.
    """
    from ..instances.catalogue import entries

    entry = next((e for e in entries().values() if e.sha256 == graph.sha256), None)
    best = None
    if entry is not None:
        best = entry.peak.upper if entry.peak.optimum is None else entry.peak.optimum
    if given is not None:
        return Known(best, given, "given")
    if entry is not None and entry.peak.optimum is not None:
        return Known(best, entry.peak.optimum, "catalogue, optimum")
    if entry is not None and entry.peak.lower is not None:
        return Known(best, entry.peak.lower, "catalogue, lower bound")
    if order is None:
        return Known(best, None, None)
    from ..solvers.algorithms.cut_bound import cut_bound

    end = time.perf_counter() + QUICK
    cut = cut_bound(graph, [order], expired=lambda: time.perf_counter() >= end)
    return Known(best, cut.value, "largest working set" if cut.op is None else "minimum cut")
