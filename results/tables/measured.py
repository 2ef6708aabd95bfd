"""Frames of runs with their figures of merit, the virtual best, and who wins.

Words. A *case* is what methods are compared on: question (instance and problem), seed and limits. A run
has *solved* its case if it proved an optimum or that there is no plan; it has *answered* if it has a
verified plan. A run that crashed has done neither, whatever numbers its record holds. *Time* is the wall
seconds of building and solving.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ...models.errors import UsageError
from ..audits.claims import is_maximized
from .metrics import primal_integral

if TYPE_CHECKING:
    import pandas as pd

    from ..audits.best_known import BestKnown

SOLVED = ("optimal", "infeasible")
"""Statuses that settle the question."""

ANSWERED = ("optimal", "feasible")
"""Statuses with a verified plan."""

LIMITS = ("limits_seconds", "limits_memory", "limits_threads")
CASE = ("question", "seed", *LIMITS)
"""The columns that make a case."""

VIRTUAL_BEST = "virtual best"
"""The method of the rows that `virtual_best` returns."""

_KNOWN = {"objective": "best", "bound": "best_bound"}
_GAPS = {"gap_best_known": "best", "gap_best_bound": "best_bound"}
_NEEDED = (
    *CASE[1:],
    "instance_sha256",
    "seconds_build",
    "seconds_solve",
    "gap",
    "reason",
    "killed_by",
    "trace",
)


def measured(runs: pd.DataFrame, known: Mapping[tuple[str, str], BestKnown] | None = None) -> pd.DataFrame:
    """Return the runs with the columns that tables and figures are made from.

    ``question``
        Hash of the instance (its name where that is unknown) and problem.
    ``solved``, ``answered``
        Whether the run did so (see above).
    ``time``
        Wall seconds of building and solving, also of unsolved runs.
    ``seconds``, ``par2``, ``par10``
        Time of the solved runs; and with a penalty for the others.
    ``objective``, ``bound``, ``gap``
        As in the records, without those of runs that failed.
    ``best``, ``best_bound``
        Best objective and best bound of the question, over all runs and what is known: the least and the
        largest, where the objective is maximized the largest and the least.
    ``gap_best_known``, ``gap_best_bound``
        ``|objective - best| / objective`` and ``|objective - best_bound| / objective``.

    Parameters
    ----------
    runs
        What `lowtide.results.tables.store.frame` returns.
    known
        What else is known about each question, as `read_best_known` returns it.
    """
    frame = runs.copy()
    for column in _NEEDED:
        if column not in frame:
            frame[column] = None
    # A run that crashed before it loaded its instance may not know the hash that the others know.
    hashes = frame["instance_sha256"].fillna(frame.groupby("instance")["instance_sha256"].transform("first"))
    frame["question"] = hashes.fillna(frame["instance"]) + " " + frame["problem"]
    frame["solved"] = frame["status"].isin(SOLVED)
    frame["answered"] = frame["status"].isin(ANSWERED)
    for column in ("objective", "bound", "gap"):
        frame[column] = frame[column].where(frame["status"] != "failed")
    frame["objective"] = frame["objective"].where(frame["answered"])
    frame["gap"] = frame["gap"].astype("float64")
    frame["time"] = frame["seconds_solve"].astype("float64") + frame["seconds_build"].astype(
        "float64"
    ).fillna(0)
    frame["seconds"] = frame["time"].where(frame["solved"])
    for factor in (2, 10):
        penalty = factor * frame["limits_seconds"].astype("float64")
        frame[f"par{factor}"] = frame["seconds"].where(frame["solved"], penalty)
    sense = _sense(frame)
    for (side, column), sign in zip(_KNOWN.items(), (sense, -sense), strict=True):
        frame[column] = sign * (sign * frame[side]).groupby(frame["question"]).transform("min")
        values = {
            f"{sha256} {problem}": mark.value
            for (sha256, problem), entry in (known or {}).items()
            if (mark := getattr(entry, side)) is not None
        }
        other = frame["question"].map(values).astype("Int64")
        here = frame[column].fillna(other)
        frame[column] = here.mask((sign * other < sign * here).fillna(False), other)
    objective = frame["objective"]
    for name, column in _GAPS.items():
        gap = (objective - frame[column]).abs() / objective
        frame[name] = gap.mask((objective == frame[column]).fillna(False), 0.0).astype("float64")
    return frame


def _sense(runs: pd.DataFrame) -> pd.Series[Any]:
    """Return 1 for each run of a problem that is minimized, -1 where it is maximized."""
    return 1 - 2 * runs["problem"].map(is_maximized).astype("int64")


def primal_integrals(runs: pd.DataFrame) -> pd.Series[Any]:
    """Return `primal_integral` of each run of a measured frame over its time limit.

    NaN without a limit, and where the question is known to have no plan.
    """
    import pandas as pd

    integrals = []
    none = (runs["status"] == "infeasible").groupby(runs["question"]).transform("any")
    columns = (runs["best"], runs["limits_seconds"], none & runs["best"].isna())
    for trace, best, limit, void in zip(traces(runs), *columns, strict=True):
        least = None if pd.isna(best) else best
        integrals.append(math.nan if void or pd.isna(limit) else primal_integral(trace, least, limit))
    return pd.Series(integrals, runs.index, dtype="float64")


def traces(runs: pd.DataFrame) -> Iterator[list[tuple[float, float | None, float | None]]]:
    """Yield the trace of each run: points (seconds, incumbent, bound, …); none of a run without an answer.

    A run whose record has no trace knows its objective and bound at its end.
    """
    import pandas as pd

    columns = ("trace", "answered", "time", "objective", "bound")
    for trace, answered, time, objective, bound in zip(*(runs[c] for c in columns), strict=True):
        points = json.loads(trace) if answered and isinstance(trace, str) else []
        if answered and not points:
            points = [(time, objective, None if pd.isna(bound) else bound)]
        yield points


def virtual_best(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one run per case, the best that any method made there, with the method ``virtual best``.

    This is the oracle that picks a method for each case (also: virtual best solver). Best is: solved in
    the least time; if nobody solved, the best objective; then the best bound; then the least time.
    """
    sense = _sense(runs)
    keys = ["_unsolved", "_seconds", "_objective", "_bound", "_time", "setting", "name"]
    ranked = runs.assign(
        _unsolved=~runs["solved"],
        _seconds=runs["seconds"].fillna(math.inf),
        _objective=(sense * runs["objective"].astype("float64")).fillna(math.inf),
        _bound=(-sense * runs["bound"].astype("float64")).fillna(math.inf),
        _time=runs["time"].fillna(math.inf),
    ).sort_values(keys)
    best = ranked.groupby(list(CASE), dropna=False, sort=False).head(1)
    return best[runs.columns].assign(method=VIRTUAL_BEST, setting=VIRTUAL_BEST)


def wins(runs: pd.DataFrame, column: str = "objective") -> pd.Series[Any]:
    """Return for each run whether nobody has a better value in its case; absent values never win.

    Ties win together, so that the wins of all methods may add up to more than there are cases.

    Parameters
    ----------
    column
        ``objective``, or ``seconds`` for the fastest to solve.
    """
    values = runs[column] * (_sense(runs) if column == "objective" else 1)
    least = values.groupby([runs[key] for key in CASE], dropna=False).transform("min")
    return (values == least).fillna(False).astype(bool)


def select(runs: pd.DataFrame, conditions: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return the runs that meet all conditions, each of a column that is at least one of some patterns.

    Parameters
    ----------
    runs
        A frame of runs.
    conditions
        Pairs of a column and a text or pattern (``*``, ``?``, ``[abc]``) that its values are compared
        with; of several with the same column one is enough. In names of columns ``.`` and ``-`` are as
        good as ``_``.

    Raises
    ------
    UsageError
        If there is no such column, or no run meets a condition.

    Examples
    --------
    >>> import pandas as pd
    >>> runs = pd.DataFrame({"method": ["auto", "cpsat", "milp"], "seed": [1, 1, 2]})
    >>> select(runs, [("method", "*p*"), ("seed", "1")])["method"].tolist()
    ['cpsat']
    """
    patterns: dict[str, list[str]] = {}
    for key, pattern in conditions:
        column = key.replace(".", "_").replace("-", "_")
        if column not in runs:
            raise UsageError(f"where: found {key!r}, expected one of {', '.join(map(str, runs))}")
        patterns.setdefault(column, []).append(pattern)
    for column, wanted in patterns.items():
        names = runs[column].map(name_of)
        known = sorted(names.unique())
        good = [n for n in known if any(n == w or fnmatchcase(n, w) for w in wanted)]
        if not good:
            some = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            raise UsageError(
                f"where: found no run with {column} {' or '.join(wanted)}, expected one of {some or 'none'}"
            )
        runs = runs[names.isin(good)]
    return runs


def name_of(value: Any) -> str:
    """Return how a value of a column is written as a name: ``-`` if absent.

    Examples
    --------
    >>> name_of(60.0), name_of(0.5), name_of(None)
    ('60', '0.5', '-')
    """
    if value is None or str(value) in ("nan", "<NA>"):
        return "-"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
