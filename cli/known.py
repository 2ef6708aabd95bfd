"""What is known about the least peak of a graph: from the catalogue, past runs, or a quick bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.graph import Graph

QUICK = 10.0
"""Seconds that a bound may take where nobody asked for one."""


class KnownPeak(NamedTuple):
    """The best peak and the best bound known, in bytes, and where the bound comes from."""

    best: int | None
    bound: int | None
    origin: str | None


def known_about(graph: Graph, *, given: int | None, order: Sequence[int] | None) -> KnownPeak:
    """Return the best that is known about the peak of a graph.

    Parameters
    ----------
    graph
        The catalogue and the best-known file know it by its hash.
    given
        A bound that the caller knows; it is taken as it is.
    order
        The order that is scored: a bound is computed if there is none; None: do not compute.
    """
    bests, bounds = _on_record(graph)
    best = min(bests, default=None)
    if given is not None:
        return KnownPeak(best, given, "given")
    if bounds:
        bound, origin = max(bounds, key=lambda pair: pair[0])
        return KnownPeak(best, bound, origin)
    if order is None:
        return KnownPeak(best, None, None)
    from ..solvers.peak.bounds.cut_bound import cut_bound

    end = time.perf_counter() + QUICK
    cut = cut_bound(graph, [order], expired=lambda: time.perf_counter() >= end)
    return KnownPeak(best, cut.value, "largest working set" if cut.op is None else "minimum cut")


def _on_record(graph: Graph) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the peaks that were reached, and the bounds that were proved, each with its origin."""
    from ..instances.catalogue import entries
    from ..models.problems.peak import Peak
    from ..results.audits.best_known import find_best_known

    bests, bounds = [], []
    entry = next((e for e in entries().values() if e.sha256 == graph.sha256), None)
    if entry is not None:
        known = entry.peak
        bests += [value for value in (known.optimum, known.upper) if value is not None]
        if known.optimum is not None:
            bounds.append((known.optimum, "catalogue, optimum"))
        elif known.lower is not None:
            bounds.append((known.lower, "catalogue, lower bound"))
    past = find_best_known(graph.sha256, Peak.name)
    if past is not None and past.objective is not None:
        bests.append(past.objective.value)
    if past is not None and past.bound is not None:
        bounds.append((past.bound.value, f"best known, {past.bound.method}"))
    return bests, bounds
