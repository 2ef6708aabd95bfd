"""Statistics of solver experiments: exact definitions and their sources.

Objectives are not negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def primal_gap(objective: float | None, best: float | None) -> float:
    """Return ``|objective - best|`` as a share of the larger: 0 if both are equal, 1 without an objective.

    The primal gap of T. Berthold, "Measuring the impact of primal heuristics", Operations Research
    Letters 41, 2013, for objectives of one sign; `best` is the best that is known.

    Examples
    --------
    >>> primal_gap(125, 100), primal_gap(0, 0), primal_gap(None, 100)
    (0.2, 0.0, 1.0)
    >>> primal_gap(75, 100)  # of an objective that is maximized
    0.25
    """
    if objective is None or best is None:
        return 1.0
    return abs(objective - best) / max(objective, best) if objective != best else 0.0


def primal_integral(trace: Iterable[Sequence[float | None]], best: float | None, horizon: float) -> float:
    """Return the mean primal gap over ``[0, horizon]``: the primal integral P(T) divided by T.

    The gap is 1 until the first incumbent and then a step function (Berthold 2013). So 0 is the best
    objective at once, 1 is nothing ever. After the end of a run its last incumbent stays.

    Parameters
    ----------
    trace
        Points (seconds, incumbent or None, ...), by time.
    best
        The best objective that is known; None if nobody has any: then 1.
    horizon
        T in seconds, usually the time limit.

    Examples
    --------
    >>> primal_integral([[10, 200, None], [30, 100, 100]], best=100, horizon=60)
    0.3333333333333333
    """
    area, since, gap = 0.0, 0.0, 1.0
    for point in trace:
        if point[1] is None:
            continue
        now = min(max(float(point[0] or 0), since), horizon)
        area += gap * (now - since)
        since, gap = now, primal_gap(point[1], best)
    return (area + gap * (horizon - since)) / horizon


def performance_ratios(costs: pd.DataFrame, floor: float = 0.0) -> pd.DataFrame:
    """Return each method's cost divided by the least cost of any method in that case.

    E. Dolan, J. Moré, "Benchmarking optimization software with performance profiles", Mathematical
    Programming 91, 2002: ratio 1 for the best of a case; a failure has ratio infinity, and a case that
    nobody solves counts as one that everybody fails.

    Parameters
    ----------
    costs
        One row per case, one column per method; NaN or infinity for a failure.
    floor
        Costs below it count as this: ratios of times that nobody can tell apart say nothing.

    Examples
    --------
    >>> import pandas as pd
    >>> performance_ratios(pd.DataFrame({"a": [1, 6], "b": [4, None]})).to_dict("list")
    {'a': [1.0, 1.0], 'b': [4.0, inf]}
    """
    clipped = costs.astype("float64").clip(lower=floor).fillna(math.inf)
    best = clipped.min(axis=1)
    ratios = clipped.div(best, axis=0).where(clipped != math.inf, math.inf)
    return ratios.where(clipped.ne(best, axis=0) | (clipped == math.inf), 1.0)  # 0 / 0 is a tie


def profile_steps(ratios: ArrayLike) -> tuple[Floats, Floats]:
    """Return where a performance profile steps, and the share of cases within each ratio.

    Examples
    --------
    >>> at, share = profile_steps([1.0, 1.0, 2.0, float("inf")])
    >>> at.tolist(), share.tolist()
    ([1.0, 2.0], [0.5, 0.75])
    """
    import numpy as np  # which `lowtide --help` does without

    found = np.asarray(ratios, dtype=np.float64)
    at, counts = np.unique(found[np.isfinite(found)], return_counts=True)
    return at, counts.cumsum() / max(found.size, 1)
