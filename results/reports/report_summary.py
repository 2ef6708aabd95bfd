"""The head of the report: one row per setting, the totals, and how many runs got how far."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ...models.result import relative_gap
from ..audits.best_known import read_best_known
from ..tables.cells import STATUSES, Cell
from ..tables.measured import measured
from ..tables.store import frame
from ..tables.tables import summary
from ..tables.values import Kind
from .report_charts import LEAST_GAP, Axis, Chart, Point, Series, step_chart, time_axis
from .report_text import gap_text, seconds_text
from .report_view import QuestionView


@dataclass(frozen=True, kw_only=True)
class MethodRow:
    """How one setting did: a row of `lowtide.results.tables.tables.summary`, for the page.

    Attributes
    ----------
    names
        The setting, after what else must not be mixed (such as the problem).
    style
        Number of the setting's colour.
    runs, solved
        How many there are; how many ended with a proof.
    counts
        Runs by status; without those that there are none of.
    cells
        Of each column the text, how many runs it counts if not all do, and the number to sort by.
    """

    names: tuple[str, ...]
    style: int
    runs: int
    solved: int
    counts: dict[str, int]
    cells: list[tuple[str, str, float | int | None]]


@dataclass(frozen=True, kw_only=True)
class MethodTable:
    """The rows, their headings, and how the numbers were made."""

    keys: list[str]
    columns: list[str]
    rows: list[MethodRow]
    note: str


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Figures for the tiles."""

    runs: int
    missing: int
    questions: int
    proved: int
    failed: int
    median_gap: float | None
    cpu_seconds: float | None


def method_table(folders: Sequence[str | os.PathLike[str]], questions: Sequence[QuestionView]) -> MethodTable:
    """Return the summary of the runs in some folders, one row per setting.

    Parameters
    ----------
    questions
        The same runs; they have the colours.
    """
    styles = {r.setting: r.style for q in questions for r in q.runs}
    table = summary(measured(frame(list(folders)), read_best_known()))
    number = {heading: k for k, heading in enumerate(table.columns)}
    shown = [k for heading, k in number.items() if heading not in ("runs", *STATUSES)]
    rows = []
    for names, cells in zip(table.labels, table.cells, strict=True):
        counts = {s: n for s in STATUSES if (n := int(cells[number[s]].value or 0))}
        rows.append(
            MethodRow(
                names=names,
                style=styles[names[-1]],
                runs=int(cells[number["runs"]].value or 0),
                solved=counts.get("optimal", 0) + counts.get("infeasible", 0),
                counts=counts,
                cells=[_shown(cells[k], table.kinds[k]) for k in shown],
            )
        )
    return MethodTable(
        keys=[key.replace("limits_", "").replace("_", " ") for key in table.keys],
        columns=[table.columns[k].partition(" [")[0] for k in shown],
        rows=rows,
        note=table.note,
    )


def totals(questions: Sequence[QuestionView], missing: int) -> Totals:
    """Return the figures over everything."""
    runs = [r for q in questions for r in q.runs]
    gaps = [q.gap for q in questions if q.gap is not None]
    cpu = [s for r in runs if (s := r.record.get("cpu_seconds")) is not None]
    return Totals(
        runs=len(runs),
        missing=missing,
        questions=len(questions),
        proved=sum(q.status in ("optimal", "infeasible") for q in questions),
        failed=sum(r.status == "failed" for r in runs),
        median_gap=median(gaps) if gaps else None,
        cpu_seconds=sum(cpu) if cpu else None,
    )


def solved_chart(problem: str, questions: Sequence[QuestionView]) -> Chart | None:
    """Return how many runs each setting had solved after how many seconds; None if nothing was solved."""
    runs = [r for q in questions if q.problem == problem for r in q.runs]
    times: dict[tuple[str, int], list[float]] = {}
    most = Counter(r.setting for r in runs)
    for run in runs:
        if run.solved and run.seconds is not None:
            times.setdefault((run.setting, run.style), []).append(run.seconds)
    if not times:
        return None
    limits = [s for r in runs if (s := (r.record.get("limits") or {}).get("seconds"))]
    x = time_axis([*limits, *(t for ts in times.values() for t in ts)])
    y = Axis(0, max(most.values()) * 1.04)
    series = []
    for (name, style), ts in times.items():
        points: list[Point] = [(t, k) for k, t in enumerate(sorted(ts), start=1)]
        series.append(Series(name, f"line strong m{style}", [(x.low, 0), *points], x.high))
    never = [name for name in most if name not in {s.name for s in series}]
    return step_chart(
        "Runs solved over time",
        series,
        x,
        y,
        unit="",
        legend=[(s.name, s.style) for s in series],
        note=f"{', '.join(never)}: none solved." if never else "",
    )


def gap_chart(problem: str, questions: Sequence[QuestionView]) -> Chart | None:
    """Return how many runs of each setting ended within what gap of the best bound; None without bounds."""
    about = [q for q in questions if q.problem == problem and q.bound is not None]
    gaps: dict[tuple[str, int], list[float]] = {}
    most = Counter(r.setting for q in about for r in q.runs)
    for question in about:
        for run in question.runs:
            gap = relative_gap(run.objective, question.bound)
            if gap is not None and run.status != "failed":
                gaps.setdefault((run.setting, run.style), []).append(max(gap, LEAST_GAP))
    if not gaps:
        return None
    x, y = Axis(LEAST_GAP, 1, log=True), Axis(0, max(most.values()) * 1.04)
    series = []
    for (name, style), values in gaps.items():
        points: list[Point] = [(g, k) for k, g in enumerate(sorted(values), start=1)]
        series.append(Series(name, f"line strong m{style}", points, x.high))
    return step_chart(
        "Runs within a gap to the best bound",
        series,
        x,
        y,
        unit="",
        legend=[(s.name, s.style) for s in series],
        x_unit="gap",
    )


def _shown(cell: Cell, kind: Kind) -> tuple[str, str, float | int | None]:
    """Return a cell as the page shows it; a value that only some runs have says of how many it is."""
    if cell.value is None:
        return cell.words or "-", "", None
    if kind == "count":
        return f"{cell.value:,}", "", cell.value
    text = gap_text(cell.value) if kind == "share" else seconds_text(cell.value)
    part = f"{cell.counted}/{cell.runs}" if cell.counted < cell.runs else ""
    return text, part, cell.value
