"""What a run over a set is worth: solved, feasible, gaps, PAR10, new records.

Gaps are shifted geometric means of percentages with a shift of one, over all runs: one without an answer, or
whose question has no bound at all, counts with a gap of 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ..audits.claims import Question, is_maximized
from ..tables.tables import Table, pivot

if TYPE_CHECKING:
    import pandas as pd

    from ..audits.best_known import BestKnown

SHIFT = 0.01
"""Shift of the mean of gaps, as a share: one percent, as the handbook's design asks."""


class NewRecord(NamedTuple):
    """An objective or a bound (`side`) better than the best known, `old`; None if nothing was known."""

    instance: str
    method: str
    side: str
    old: int | None
    new: int


def scores(runs: pd.DataFrame) -> Table:
    """Return one row per setting.

    Parameters
    ----------
    runs
        A frame of `lowtide.results.tables.measured.measured`, with all that is known.

    Raises
    ------
    UsageError
        If a row mixes what cannot be compared, such as two limits.
    """
    gaps = {column: runs[column].fillna(1.0) for column in ("gap_best_bound", "gap_best_known")}
    runs = runs.assign(_all="", **gaps)
    row, column = ["setting"], ["_all"]
    parts = {
        "solved": pivot(runs, row, column, "solved"),
        "feasible": pivot(runs.assign(solved=runs["answered"]), row, column, "solved"),
        "gap to best bound [%]": pivot(runs, row, column, "gap-best-bound", aggregate="sgm", shift=SHIFT),
        "gap to best known [%]": pivot(runs, row, column, "gap-best-known", aggregate="sgm", shift=SHIFT),
        "PAR10 [s]": pivot(runs, row, column, "par10"),
    }
    first = parts["solved"]
    return Table(
        title="scores",
        note="Solved: a proved optimum, or a proof that there is no plan. Gaps: shifted geometric means "
        "(shift 1 %) of all runs, 100 % without an answer or a bound. PAR10: mean seconds, unsolved ones "
        "with 10 times the limit.",
        keys=("method",),
        labels=first.labels,
        columns=tuple(parts),
        kinds=tuple(part.kinds[0] for part in parts.values()),
        cells=tuple(tuple(part.cells[i][0] for part in parts.values()) for i in range(len(first.labels))),
    )


def mean_rank(runs: pd.DataFrame, known: Mapping[Question, BestKnown]) -> tuple[float | None, float]:
    """Return the mean rank of runs among the methods of the committed tables, and the mean number of these.

    The rank of a run is one more than the number of other methods with a better objective, whatever time they
    had; a run without an answer is behind all of them. None if no method has an objective.
    """
    import pandas as pd

    ranks, counts = [], []
    for method, sha256, problem, objective in runs[
        ["method", "instance_sha256", "problem", "objective"]
    ].itertuples(index=False, name=None):
        entry = known.get((sha256, problem))
        others = {} if entry is None else {m: pair[0] for m, pair in entry.tried.items() if m != method}
        values = [value for value in others.values() if value is not None]
        if values:
            larger = is_maximized(problem)
            better = (pd.isna(objective) or (v > objective if larger else v < objective) for v in values)
            ranks.append(1 + sum(better))
            counts.append(len(values))
    return (fmean(ranks), fmean(counts)) if ranks else (None, 0.0)


def new_records(runs: pd.DataFrame, known: Mapping[Question, BestKnown]) -> list[NewRecord]:
    """Return the verified objectives and the bounds of runs that are better than the best known."""
    import pandas as pd

    records = []
    columns = ("instance", "setting", "instance_sha256", "problem", "objective", "bound")
    for instance, setting, sha256, problem, *values in runs[[*columns]].itertuples(index=False, name=None):
        entry = known.get((sha256, problem))
        for side, value in zip(("objective", "bound"), values, strict=True):
            mark = None if entry is None else getattr(entry, side)
            larger = is_maximized(problem) is (side == "objective")
            if pd.isna(value) or (
                mark is not None and not (value > mark.value if larger else value < mark.value)
            ):
                continue
            records.append(
                NewRecord(instance, setting, side, None if mark is None else mark.value, int(value))
            )
    return records
