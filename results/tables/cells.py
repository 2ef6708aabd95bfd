"""The cells of tables: runs grouped by the names of row and column, and their numbers reduced to one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .measured import VIRTUAL_BEST
from .values import ShownValue, why_absent

if TYPE_CHECKING:
    import pandas as pd

Names = tuple[str, ...]

STATUSES = ("optimal", "feasible", "infeasible", "unknown", "failed")


@dataclass(frozen=True, slots=True)
class Cell:
    """A number, over how many of how many runs; or words.

    Attributes
    ----------
    value
        None if no run has one.
    counted, runs
        Runs that have the value; all runs of the cell.
    words
        Why there is no number; the statuses.
    best
        Whether it is the best of its row: most runs counted, then the better number.
    """

    value: float | int | None = None
    counted: int = 0
    runs: int = 0
    words: str = ""
    best: bool = False


def cells_of(
    runs: pd.DataFrame, rows: Sequence[str], cols: Sequence[str], shown: ShownValue, how: str, shift: float
) -> dict[tuple[Names, Names], Cell]:
    """Return the cells that have runs, by the names of row and column.

    Parameters
    ----------
    runs
        With the number of each run in ``_number``, and texts in the columns `rows` and `cols`.
    how, shift
        The mean, of pandas or ``sgm``: ``prod(v + shift) ** (1 / n) - shift``, in which small values, whose
        ratios mean little, do not rule (T. Achterberg, "Constraint Integer Programming", thesis, TU Berlin
        2007).
    """
    import numpy as np

    keys = [*rows, *cols]
    numbers = runs["_number"].astype("float64")
    geometric = how == "sgm"
    groups = runs.assign(_float=np.log(numbers + shift) if geometric else numbers).groupby(keys, sort=False)
    means = groups["_float"].agg("mean" if geometric else how)
    means = np.exp(means) - shift if geometric else means
    exact = groups["_number"].max()  # of a single run: not rounded by the mean
    words = _statuses(runs, keys) if shown.kind == "words" else _reasons(runs, keys)
    cells = {}
    columns = (means, exact, groups["_float"].count(), groups.size())
    for name, mean, only, counted, size in zip(means.index, *columns, strict=True):
        value = None if not counted else np.asarray(only if counted == 1 else mean).item()
        if value is not None and shown.kind in ("count", "part"):
            value = round(value)
        cell = Cell(value, int(counted), int(size), words.get(name, ""))
        cells[name[: len(rows)], name[len(rows) :]] = cell
    return cells


def _statuses(runs: pd.DataFrame, keys: Sequence[str]) -> dict[Any, str]:
    """Return the statuses of each cell, with their numbers if there are several runs."""
    counts: dict[Any, dict[str, int]] = {}
    for name, number in runs.groupby([*keys, "status"]).size().items():
        assert isinstance(name, tuple)
        counts.setdefault(name[:-1], {})[name[-1]] = number
    return {
        name: ", ".join(s if by == {s: 1} else f"{by[s]} {s}" for s in STATUSES if s in by)
        for name, by in counts.items()
    }


def _reasons(runs: pd.DataFrame, keys: Sequence[str]) -> dict[Any, str]:
    """Return the most frequent reason for which the runs of a cell have no number."""
    absent = runs[runs["_number"].isna()]
    counts = absent.assign(_why=why_absent(absent)).groupby([*keys, "_why"]).size().sort_values(kind="stable")
    return {name[:-1]: name[-1] for name in counts.index}


def marked(row: Sequence[Cell], columns: Sequence[Names], shown: ShownValue) -> tuple[Cell, ...]:
    """Return the row with its best cells marked, where methods are compared."""

    def rank(cell: Cell) -> tuple[int, float]:
        assert cell.value is not None
        return -cell.counted, shown.better * cell.value

    own = [
        c for c, name in zip(row, columns, strict=True) if VIRTUAL_BEST not in name and c.value is not None
    ]
    if not shown.better or len(own) < 2:
        return tuple(row)
    best = min(map(rank, own))
    return tuple(
        replace(c, best=VIRTUAL_BEST not in name and c.value is not None and rank(c) == best)
        for c, name in zip(row, columns, strict=True)
    )


def natural(names: Names) -> list[Any]:
    """Return what sorts names by the numbers in them, the virtual best last."""
    parts = [[(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in re.split(r"(\d+)", n)] for n in names]
    return [VIRTUAL_BEST in names, parts]
