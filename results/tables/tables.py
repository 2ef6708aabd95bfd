"""Tables of experiments: one value by rows and columns, or a summary per method.

Nothing unsolved is averaged as if it were solved: a mean is over the runs that have the value (a gap
needs a plan and a bound, a time to solve needs a proof), and its cell says over how many of how many.
The penalized means PAR2 and PAR10 are those that every run enters. A cell does not mix runs of different
problems, settings, limits or versions of the code, unless it is told to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...models.errors import UsageError
from .cells import STATUSES, Cell, Names, cells_of, marked, natural
from .measured import CASE, LIMITS, VIRTUAL_BEST, name_of
from .values import Kind, value_of

if TYPE_CHECKING:
    import pandas as pd

AGGREGATES = {
    "mean": "arithmetic mean",
    "sgm": "shifted geometric mean (shift {shift:g})",
    "median": "median",
    "min": "least",
    "max": "largest",
    "sum": "sum",
}
"""What can become of several runs in one cell."""

_ALIKE = ("problem", "setting", *LIMITS, "version", "source_hash")
"""What the runs of one cell must have in common."""

_SUMMARY = {
    "time to solve [s]": "seconds",
    "PAR2 [s]": "par2",
    "PAR10 [s]": "par10",
    "gap [%]": "gap",
    "gap to best known [%]": "gap-best-known",
    "primal integral [%]": "primal-integral",
    "wins": "wins",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells, and what it takes to write them in any format (`lowtide.results.tables.table_text`).

    Attributes
    ----------
    title, note
        What the numbers are, and how they were made.
    keys, labels
        Headings of the columns that name the rows; the names, one tuple a row.
    columns, kinds
        Heading of each column of cells, and how its numbers are written.
    cells
        One tuple a row.
    totals
        How many rows at the end are over all the others.
    """

    title: str
    note: str
    keys: Names
    labels: tuple[Names, ...]
    columns: Names
    kinds: tuple[Kind, ...]
    cells: tuple[tuple[Cell, ...], ...]
    totals: int = 0

    def counts(self, kind: Kind) -> bool:
        """Return whether numbers of a kind need the runs counted beside them."""
        if kind in ("count", "part", "words"):
            return False
        return any((c.counted, c.runs) != (1, 1) for row in self.cells for c in row if c.value is not None)

    def frame(self) -> pd.DataFrame:
        """Return the exact numbers, and the runs counted where that matters, as a pandas frame."""
        import pandas as pd

        columns: dict[str, Any] = {key: [row[i] for row in self.labels] for i, key in enumerate(self.keys)}
        for j, (name, kind) in enumerate(zip(self.columns, self.kinds, strict=True)):
            column = [row[j] for row in self.cells]
            if kind == "words":
                columns[name] = [cell.words for cell in column]
                continue
            values = [cell.value for cell in column]
            whole = {*map(type, values)} <= {int, type(None)}
            columns[name] = pd.array(values, dtype="Int64" if whole else "Float64")
            if self.counts(kind):
                columns[f"{name}: counted"] = [cell.counted for cell in column]
                columns[f"{name}: runs"] = [cell.runs for cell in column]
        return pd.DataFrame(columns)


def pivot(
    runs: pd.DataFrame,
    rows: Sequence[str] = ("instance",),
    cols: Sequence[str] = ("setting",),
    value: str = "gap",
    *,
    aggregate: str | None = None,
    shift: float = 1.0,
    total: bool = False,
    pool: Iterable[str] = (),
) -> Table:
    """Return a table of one value.

    Parameters
    ----------
    runs
        A measured frame (`lowtide.results.tables.measured.measured`).
    rows, cols
        Columns of the frame whose values name the rows and the columns; ``setting`` is the method with
        its parameters.
    value
        One of `VALUES`, or a column of numbers of the frame.
    aggregate
        One of `AGGREGATES`; default: what suits the value.
    shift
        Of the shifted geometric mean, in the unit of the value.
    total
        Add a row over everything, and one over the cases where all columns have the value in all
        runs: there the means compare like with like. (Columns that never have it do not count.)
    pool
        Columns in which the runs of one cell may differ.

    Raises
    ------
    UsageError
        If a name is unknown, or a cell mixes what cannot be compared.

    Examples
    --------
    >>> import pandas as pd
    >>> from lowtide.results.tables.measured import measured
    >>> run = {"instance": "chain", "problem": "peak", "status": "optimal", "objective": 4, "bound": 4}
    >>> times = {"a": 1, "b": 3}
    >>> rows = [run | {"method": m, "setting": m, "seconds_solve": s} for m, s in times.items()]
    >>> print(pivot(measured(pd.DataFrame(rows)), value="seconds").frame())
      instance    a    b
    0    chain  1.0  3.0
    """
    keys = [*rows, *cols]
    _check_names(runs, [*keys, *pool])
    if not rows or not cols or len({*keys}) < len(keys):
        raise UsageError(f"columns: found {', '.join(keys)}, expected different ones for rows and columns")
    shown, numbers = value_of(runs, value)
    how = aggregate or shown.aggregate
    if how not in AGGREGATES:
        raise UsageError(f"aggregate: found {how!r}, expected one of {', '.join(AGGREGATES)}")
    of_instance = value in ("objective", "bound")
    if total and of_instance:
        raise UsageError(f"total: found the value {value}, expected one that compares over instances")
    runs = runs.assign(_number=numbers, **{key: runs[key].map(name_of) for key in keys})
    if shown.kind not in ("count", "words"):
        _refuse_mixtures(runs, keys, {*_ALIKE, *(["instance"] if of_instance else [])} - {*pool})
    columns = sorted({*runs[[*cols]].itertuples(index=False, name=None)}, key=natural)
    parts = [runs]
    if total and len(runs):
        common = runs[_in_common(runs, cols)]
        blank = dict.fromkeys(rows, "")
        parts.append(runs.assign(**blank | {rows[0]: "all"}))
        if len(common) < len(runs):
            parts.append(common.assign(**blank | {rows[0]: "in common"}))
    labels: list[Names] = []
    cells: list[tuple[Cell, ...]] = []
    for part in parts:
        values = cells_of(part, rows, cols, shown, how, shift)
        for name in sorted({name for name, _ in values}, key=natural):
            labels.append(name)
            cells.append(marked([values.get((name, c), Cell()) for c in columns], columns, shown))
    table = Table(
        title=shown.heading + (" [%]" if shown.kind == "share" else ""),
        note="",
        keys=tuple(rows),
        labels=tuple(labels),
        columns=tuple(", ".join(column) for column in columns),
        kinds=(shown.kind,) * len(columns),
        cells=tuple(cells),
        totals=len(parts) - 1,
    )
    words = (_note(table, shown.kind, AGGREGATES[how].format(shift=shift)), _durations(runs))
    return replace(table, note=" ".join(word for word in words if word))


def summary(
    runs: pd.DataFrame,
    rows: Sequence[str] | None = None,
    *,
    shift: float = 1.0,
    pool: Iterable[str] = (),
) -> Table:
    """Return one row per setting: runs by status, times, gaps and wins.

    Parameters
    ----------
    runs
        A measured frame.
    rows
        Columns that name the rows; default: the setting, and what else must not be mixed.
    shift
        Of the shifted geometric mean, in seconds.
    pool
        Columns in which the runs of one row may differ.

    Raises
    ------
    UsageError
        If a name is unknown, or a row mixes what cannot be compared.
    """
    pool = {*pool}
    if rows is None:
        differ = [c for c in _ALIKE if c in runs and c not in pool and _differs(runs, c)]
        rows = [*(c for c in differ if c != "setting"), "setting"]
    runs = runs.assign(_all="")
    parts = {"runs": pivot(runs, rows, ["_all"], "runs")}
    for status in STATUSES:
        parts[status] = pivot(
            runs.assign(_all="", solved=runs["status"] == status), rows, ["_all"], "solved", pool=pool
        )
    for heading, value in _SUMMARY.items():
        parts[heading] = pivot(runs, rows, ["_all"], value, shift=shift, pool=pool)
    first = parts["runs"]
    return Table(
        title="summary",
        note=(
            f"Time to solve: {AGGREGATES['sgm'].format(shift=shift)} of the runs that solved their case. "
            "PAR2, PAR10: mean of all runs, unsolved ones with 2 or 10 times the limit. Gaps: means of "
            "the runs that have one. Primal integral: divided by the time limit. Wins: runs with the "
            "best objective of their case. (n/m): n of m runs count."
            f"{' ' if (words := _durations(runs)) else ''}{words}"
        ),
        keys=first.keys,
        labels=first.labels,
        columns=tuple(parts),
        kinds=tuple("count" if h in ("runs", *STATUSES, "wins") else t.kinds[0] for h, t in parts.items()),
        cells=tuple(tuple(table.cells[i][0] for table in parts.values()) for i in range(len(first.labels))),
    )


def _differs(runs: pd.DataFrame, column: str) -> bool:
    """Return whether runs differ in a column; in their code, whether those of one setting do."""
    if column != "source_hash":
        return bool(runs[column].nunique(dropna=False) > 1)
    return bool((runs.groupby(["problem", "setting"])[column].nunique(dropna=False) > 1).any())


def _check_names(runs: pd.DataFrame, names: Iterable[str]) -> None:
    for name in names:
        if name not in runs:
            known = ", ".join(str(c) for c in runs if not str(c).startswith("_"))
            raise UsageError(f"column: found {name!r}, expected one of {known}")


def _refuse_mixtures(runs: pd.DataFrame, keys: Sequence[str], alike: set[str]) -> None:
    """Raise if the runs of a cell differ in what must be alike."""
    wanted = sorted(c for c in alike if c in runs and c not in keys)
    single = runs[runs["method"] != VIRTUAL_BEST]
    if not wanted or single.empty:
        return
    most = single.groupby([*keys])[wanted].nunique(dropna=False).max()
    for column in wanted:
        if most[column] > 1:
            texts = sorted(name_of(v) for v in runs[column].unique())
            some = ", ".join(texts[:3]) + (", …" if len(texts) > 3 else "")
            raise UsageError(
                f"cells: found different {column} ({some}) in one cell, expected {column} among the rows or "
                f"the columns, a selection of one of them, or that it is pooled (--cols setting,{column}, "
                f"--where {column}=…, --pool {column})"
            )


def _in_common(runs: pd.DataFrame, cols: Sequence[str]) -> pd.Series[bool]:
    """Return which runs are of cases where every column has the value in each of its runs.

    Columns that never have it, such as the gap of a heuristic, do not count.
    """
    has = runs["_number"].notna()
    column = runs.groupby([*cols]).ngroup()
    able = has.groupby(column).transform("any")
    case = runs.groupby([*CASE], dropna=False).ngroup()
    everywhere = column.where(able).groupby(case).transform("nunique") == column[able].nunique()
    return everywhere & (has | ~able).groupby(case).transform("all")


def _durations(runs: pd.DataFrame) -> str:
    """Return where the durations of runs in ns come from; empty if no record says it."""
    column = runs["durations"].dropna() if "durations" in runs else ()
    texts = sorted({*map(str, column)})
    return f"Durations: {'; '.join(texts[:3])}{'; …' if len(texts) > 3 else ''}." if texts else ""


def _note(table: Table, kind: Kind, mean: str) -> str:
    if kind == "part":
        return "n/m: n of m runs."
    if not table.counts(kind):
        return ""
    text = f"Of several runs the {mean} of those that have the value; (n/m): n of m."
    return text + " In common: the cases where all columns have it." if table.totals > 1 else text
