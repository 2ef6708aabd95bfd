"""Checkmate's two-phase rounding: round what is kept between stages, then run what that makes necessary.

Source: Jain et al., "Checkmate" (MLSys 2020), section 5, Algorithm 2: given what is kept, the least runs
are those that produce what a stage needs and does not find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....formulations.recompute.data import RecomputeData


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
    found: list[int] = []
    for t in range(data.n):
        runs, missing = {t}, list(data.reads[t])
        missing += [u for u in wanted[t + 1] if (w := values[u].writer) is not None and w <= t]
        while missing:
            u = missing.pop()
            writer = values[u].writer
            if u not in there and writer is not None and writer not in runs:
                runs.add(writer)
                missing += data.reads[writer]
        found += sorted(runs)
        there |= {u for i in runs for u in data.writes[i]}
        there &= wanted[t + 1] | {u for u, x in enumerate(values) if x.writer is None}
    return found
