"""In which modes the planner's ops run, where they have several: by a rent for workspace, then one by one.

1. The bytes of a workspace are there while the op runs, and in their place others must leave and return. With
   a *rent* of r ns a byte, every op takes the mode of least duration and rent together. Tried are the
   reference modes (`reductions.modes`), rents from a 32nd to four times what a byte takes on
   the fastest channel to the first tier, and the modes of least workspace.
2. From the best of these on, each op in turn takes each of its other modes, kept if the plan is faster, until
   a round changes nothing or `MOST` plans were made.

Source: this project's; the rent is a Lagrange multiplier of the memory, the same one for all ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ..reductions.modes import reference_modes, runnable, smallest_modes

MOST = 200
"""Plans that are made for single changes."""
PARTS = 32
"""Of what a byte takes on a channel: the least rent; the others double up to `PARTS * 4` of these."""

Planned = Callable[[Sequence[int]], Plan | str]
"""Returns the plan of some modes, or why there is none."""


def chosen_modes(
    problem: Placement, planned: Planned, stop: Callable[[], bool]
) -> tuple[list[int], Plan | None]:
    """Return the best modes that were tried, with their plan; the reference modes where none has one.

    Parameters
    ----------
    problem
        Its ops have several modes.
    planned
        Plans.
    stop
        Whether to take what there is.
    """
    best, plan = reference_modes(problem), None
    seen = set[tuple[int, ...]]()

    def better(modes: list[int]) -> bool:
        nonlocal best, plan
        if tuple(modes) in seen:
            return False
        seen.add(tuple(modes))
        candidate = planned(modes)
        if isinstance(candidate, str):
            return False
        if plan is not None and problem.evaluate(plan) <= problem.evaluate(candidate):
            return False
        best, plan = modes, candidate
        return True

    for modes in _starts(problem):
        if stop():
            return best, plan
        better(modes)
    several = [k for k, op in enumerate(problem.graph.ops) if len(op.modes) > 1]
    most, changed = len(seen) + MOST, plan is not None
    while changed:
        changed = False
        for k in several:
            for m, _ in runnable(problem, k):
                if stop() or len(seen) >= most:
                    return best, plan
                changed |= better([*best[:k], m, *best[k + 1 :]])
    return best, plan


def _starts(problem: Placement) -> Iterator[list[int]]:
    """Yield the reference modes, those of some rents, and the smallest."""
    yield reference_modes(problem)
    device = problem.machine.tiers[0].name
    rate = max(c.bytes_per_s for c in problem.machine.channels if c.dst == device)
    ways = [runnable(problem, k) for k in range(len(problem.graph.ops))]
    for power in range(8):
        rent = SECOND << power  # in a PARTS-th of a second over the bytes per second
        yield [
            min((PARTS * rate * mode.duration_ns + rent * mode.workspace, m) for m, mode in modes)[1]
            for modes in ways
        ]
    yield smallest_modes(problem)
