"""What is kept at some times, made a schedule: run what that makes necessary.

Checkmate's two-phase rounding rounds what is kept between stages. What a solution of the MILP of moments has
at its moments (`lowtide.formulations.recompute.moments_milp`) says what to keep there: all else is discarded
at each of them, and what an op does not find is computed again just before it.

Source: Jain et al., "Checkmate" (MLSys 2020), section 5, Algorithm 2: given what is kept, the least runs
are those that produce what a stage needs and does not find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from ....formulations.recompute.data import RecomputeData
from ..missing import writers_of


def rounded(data: RecomputeData, kept: Sequence[Sequence[float]], keep: Callable[[float], bool]) -> list[int]:
    """Return the ops as they run; whether they fit is another matter.

    Parameters
    ----------
    kept
        By stage and value, the share that the relaxation keeps until the stage begins.
    keep
        Whether a value with such a share is kept.
    """
    values = data.values
    wanted = [{u for u, share in enumerate(stage) if keep(share)} for stage in kept]
    wanted.append({u for u, x in enumerate(values) if x.final})
    there = {u for u, x in enumerate(values) if x.at_start}
    chosen: list[int] = []
    for t in range(data.n):
        needed = [u for u in wanted[t + 1] if (w := values[u].writer) is not None and w <= t]
        runs = {t, *writers_of(data, [*data.reads[t], *needed], there)}
        chosen += sorted(runs)
        there |= {u for i in runs for u in data.writes[i]}
        there &= wanted[t + 1] | {u for u, x in enumerate(values) if x.writer is None}
    return chosen


def from_moments(data: RecomputeData, moments: Sequence[int], kept: Sequence[Set[int]]) -> list[int]:
    """Return the ops as they run, first runs in the reference order; whether they fit is another matter.

    Parameters
    ----------
    moments
        Ops.
    kept
        By moment, the values that are there when its op runs first; initial ones stay in any case.
    """
    values, at = data.values, dict(zip(moments, kept, strict=True))
    there = {u for u, x in enumerate(values) if x.at_start}
    runs: list[int] = []
    for i in range(data.n):
        if i in at:
            there = {u for u in there if u in at[i] or values[u].writer is None}
        for j in (*writers_of(data, data.reads[i], there), i):
            runs.append(j)
            there.update(data.writes[j])
            there.difference_update(data.destroys[j])
    return runs
