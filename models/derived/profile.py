"""What is resident in a tier over the time of a plan, by kind of tensor: the data of the pictures.

The verifier judges a plan and has the last word on its totals; this module says which kinds they
consist of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import InstanceError
from ..graph import KINDS
from ..lowering.order import lower_order
from ..lowering.residencies import home_tiers, mode_of, residencies

if TYPE_CHECKING:
    from ..graph import Graph
    from ..plan import Plan

IntArray = NDArray[np.int64]

Change = tuple[int, str, int]
"""Time (-1: before the first event), kind of tensor, bytes that are allocated (+) or released (-)."""


@dataclass(frozen=True, eq=False)
class MemoryProfile:
    """Bytes resident in one tier over time, as step functions, and what is there before the first event.

    Attributes
    ----------
    tier
        Its name.
    times
        Nanoseconds, shape (n + 1,), ascending; step k holds over ``[times[k], times[k + 1])``.
    by_kind
        Bytes of each kind of tensor that is ever resident, in the order of `KINDS`, shape (n,) each.
    total
        Bytes of all kinds, shape (n,).
    start
        Bytes that are there at time 0 before any event, also those that are released at once.
    """

    tier: str
    times: IntArray
    by_kind: dict[str, IntArray]
    total: IntArray
    start: int = 0

    @property
    def peak(self) -> int:
        """The most bytes at any time, at the start included."""
        return int(self.total.max(initial=self.start))

    @property
    def starts_highest(self) -> bool:
        """Whether more is there before the first event than ever after it."""
        return self.start > int(self.total.max(initial=0))

    @property
    def peak_time(self) -> int:
        """The first time at which the peak is reached."""
        return 0 if self.starts_highest or not self.total.size else int(self.times[int(self.total.argmax())])

    def thin(self, columns: int) -> MemoryProfile:
        """Return a profile of at most `columns` steps for a picture: of each column its highest step.

        The peak is kept. A profile with no more steps than that is returned as it is.
        """
        n = self.total.size
        if n <= columns:
            return self
        first, last = int(self.times[0]), int(self.times[-1])
        edges = np.unique(np.linspace(first, last, columns + 1).astype(np.int64))
        # A column's candidates: the step that covers its left edge, and all that begin within it.
        starts = np.searchsorted(self.times[:-1], edges[:-1], side="right") - 1
        stops = np.searchsorted(self.times[:-1], edges[1:], side="left")
        best = np.array([a + int(self.total[a:b].argmax()) for a, b in zip(starts, stops, strict=True)])
        return MemoryProfile(
            tier=self.tier,
            times=edges,
            by_kind={kind: values[best] for kind, values in self.by_kind.items()},
            total=self.total[best],
            start=self.start,
        )


def memory_profile(graph: Graph, plan: Plan, tier: str | None = None) -> MemoryProfile:
    """Return the bytes resident in a tier over time, by kind of tensor.

    Parameters
    ----------
    graph, plan
        A plan that verifies; of another one the profile means nothing.
    tier
        Default: the first (innermost) of the machine.
    """
    return memory_profiles(graph, plan)[plan.machine.tiers[0].name if tier is None else tier]


def memory_profiles(graph: Graph, plan: Plan) -> dict[str, MemoryProfile]:
    """Return the bytes resident in each tier over time, by name of the tier."""
    changes = _changes(graph, plan)
    ends = [*(run.end for run in plan.runs), *(copy.end for copy in plan.copies)]
    ends += [time for some in changes.values() for time, _, _ in some]
    end = plan.period or max([0, *ends])
    return {tier: _profile(tier, some, end) for tier, some in changes.items()}


def _profile(tier: str, changes: list[Change], end: int) -> MemoryProfile:
    stamps = np.array([max(time, 0) for time, _, _ in changes], dtype=np.int64)
    times = np.unique(np.concatenate([stamps[stamps < end], np.array([0, end], dtype=np.int64)]))
    steps = np.zeros((len(KINDS), len(times)), dtype=np.int64)
    rows = np.array([KINDS.index(kind) for _, kind, _ in changes], dtype=np.int64)
    amounts = np.array([amount for _, _, amount in changes], dtype=np.int64)
    np.add.at(steps, (rows, np.searchsorted(times, stamps)), amounts)
    values = steps.cumsum(axis=1)[:, :-1]
    return MemoryProfile(
        tier=tier,
        times=times,
        by_kind={kind: values[k] for k, kind in enumerate(KINDS) if values[k].any()},
        total=values.sum(axis=0),
        start=sum(amount for time, _, amount in changes if time < 0),
    )


def reference_profile(graph: Graph, plan: Plan) -> MemoryProfile | None:
    """Return the profile of the reference order on the plan's machine, to compare the plan with.

    None where there is none: several tiers, a periodic plan, or ops that cannot run one by one there.
    """
    if len(plan.machine.tiers) > 1 or plan.period is not None:
        return None
    try:
        return memory_profile(graph, lower_order(graph, range(len(graph.ops)), plan.machine))
    except InstanceError:
        return None


def _changes(graph: Graph, plan: Plan) -> dict[str, list[Change]]:
    """Return by tier everything that is allocated (+) and released (-) in it."""
    changes: list[list[Change]] = [[] for _ in plan.machine.tiers]
    for r in residencies(graph, plan):
        edges = [r.lower, *(time for gap in r.gaps for time in gap), r.upper]
        kind = graph.tensors[r.tensor].kind
        for a, b in zip(edges[::2], edges[1::2], strict=True):
            changes[r.tier] += [(a, kind, r.high - r.low), (b, kind, r.low - r.high)]
    homes = home_tiers(plan)
    for run in plan.runs:
        if workspace := mode_of(graph, run).workspace:
            held = changes[homes[run.processor]]
            held += [(run.start, "workspace", workspace), (run.end, "workspace", -workspace)]
    return {tier.name: some for tier, some in zip(plan.machine.tiers, changes, strict=True)}
