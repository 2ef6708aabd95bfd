"""What the report shows, derived from run records: one view per run, per question, per setting."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.problems import PROBLEMS
from ...models.result import Status, relative_gap
from ...models.units import format_bytes, format_duration
from ..audits.claims import is_maximized
from ..tables.store import setting
from .report_charts import Axis, Chart, Point, Series, own_gaps, sparkline, step_chart, time_axis
from .report_text import command_of, instance_of

STYLES = 8
"""Settings beyond this number share colours."""

_PLACE = ("limits", "machine", "versions", "commit", "sources")
"""Facts that are usually the same for all runs."""


@dataclass(kw_only=True)
class RunView:
    """One run, as its row and its section show it.

    Attributes
    ----------
    anchor
        Unique in the page.
    instance, problem, setting
        What was run; the setting is the method with its parameters.
    style
        Number of the setting's colour.
    seconds
        Of building and solving; None if it never came to that.
    gap
        To the best bound that any run proved of its question.
    command
        The shell command that repeats it.
    spark
        SVG path of its gap over time, or "".
    facts
        Further names and values for people.
    """

    anchor: str
    name: str
    instance: str
    problem: str
    setting: str
    style: int
    seed: int | None
    status: str
    reason: str | None
    objective: int | None
    bound: int | None
    gap: float | None
    unit: str
    seconds: float | None
    peak_rss: int | None
    command: str
    spark: str
    facts: list[tuple[str, str]]
    record: Mapping[str, Any]

    @property
    def solved(self) -> bool:
        """Whether the question was answered: a proved optimum, or a proof that there is no plan."""
        return self.status in (Status.OPTIMAL, Status.INFEASIBLE)


@dataclass(kw_only=True)
class QuestionView:
    """One instance and problem, with all its runs.

    Attributes
    ----------
    objective, bound, gap, status
        The best of all runs together: least objective and greatest bound (greatest and least where the
        objective is maximized), and what follows from them.
    known
        What is known from elsewhere that is better, in words.
    chart, picture
        Incumbents and bounds over time; the memory profile or the allocation of the best plan, or None.
    picture_note
        Why there is none.
    """

    anchor: str
    instance: str
    problem: str
    sha256: str | None
    unit: str
    runs: list[RunView]
    objective: int | None
    bound: int | None
    gap: float | None
    status: str
    chart: Chart | None
    known: str = ""
    picture: Chart | None = None
    picture_note: str = ""
    settings_solved: int = 0
    settings: int = 0

    @property
    def about(self) -> str:
        """What the hash is of: a graph or buffers."""
        asked = PROBLEMS.get(self.problem)
        return "graph" if asked is None else asked.about


def views(records: Sequence[Mapping[str, Any]]) -> list[QuestionView]:
    """Return the questions that records are about, each with its runs, in the order of their names."""
    settings = sorted({setting(r) for r in records}, key=_natural)
    styles = {name: k % STYLES for k, name in enumerate(settings)}
    times = [s for r in records for s in (_seconds(r), *(p[0] for p in r.get("trace") or ())) if s]
    limits = [s for r in records if (s := (r.get("limits") or {}).get("seconds"))]
    axis = time_axis([*times, *limits])
    by_question: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        key = (record.get("instance_sha256") or "", str(record["problem"]))
        by_question.setdefault(key if key[0] else (instance_of(record), key[1]), []).append(record)
    ordered = sorted(by_question.values(), key=lambda rs: (_natural(instance_of(rs[0])), rs[0]["problem"]))
    views = [
        _question(f"q{k}", about, [_run(f"q{k}r{i}", r, styles, axis) for i, r in enumerate(_sorted(about))])
        for k, about in enumerate(ordered, start=1)
    ]
    _drop_common_facts([run for question in views for run in question.runs])
    return views


def _seconds(record: Mapping[str, Any]) -> float | None:
    """Return the seconds of building and solving."""
    seconds = record.get("seconds") or {}
    solve, build = seconds.get("solve"), seconds.get("build")
    return None if solve is None else float(solve + (build or 0))


def _sorted(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(records, key=lambda r: (_natural(setting(r)), r.get("seed") or 0, str(r.get("name"))))


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sorting key by which ``width=8`` comes before ``width=16``."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", text) if p]


def _run(anchor: str, record: Mapping[str, Any], styles: Mapping[str, int], axis: Axis) -> RunView:
    gaps = own_gaps(record.get("trace") or ())
    name = setting(record)
    return RunView(
        anchor=anchor,
        name=str(record.get("name") or "-"),
        instance=instance_of(record),
        problem=str(record["problem"]),
        setting=name,
        style=styles[name],
        seed=record.get("seed"),
        status=str(record["status"]),
        reason=record.get("killed_by") or record.get("reason"),
        objective=record.get("objective"),
        bound=record.get("bound"),
        gap=record.get("gap"),
        unit=record.get("unit") or "",
        seconds=_seconds(record),
        peak_rss=record.get("peak_rss"),
        command=command_of(record),
        spark=sparkline(gaps, _end(record), axis),
        facts=_facts(record),
        record=record,
    )


def _facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what else there is to know about a run."""
    seconds = record.get("seconds") or {}
    phases = ", ".join(f"{k} {v:.3f}" for k, v in seconds.items() if v is not None)
    limits = record.get("limits") or {}
    memory = limits.get("memory")
    limit = "no limit" if limits.get("seconds") is None else f"{limits['seconds']:g} s"
    limit += "" if memory is None else f", {format_bytes(memory)}"
    machine = record.get("machine") or {}
    versions = record.get("versions") or {}
    commit, cpu = record.get("git_commit"), record.get("cpu_seconds")
    pairs = [
        ("detail", record.get("detail")),
        ("proof of the bound", record.get("proof")),
        ("bound by", record.get("bound_kind")),
        ("durations", record.get("durations")),
        ("verified", "yes" if record.get("verified") else "no"),
        ("peaks", _sizes(record.get("peaks"))),
        ("traffic", _sizes(record.get("traffic"))),
        ("stall", None if not (stall := record.get("stall")) else format_duration(stall)),
        ("recomputed runs", record.get("recomputed") or None),
        ("killed by", record.get("killed_by")),
        ("seconds", phases),
        ("CPU", None if cpu is None else f"{cpu:.3f} s"),
        ("limits", limit if limits else None),
        ("started", record.get("started")),
        ("machine", ", ".join(str(machine[k]) for k in ("host", "cpu") if machine.get(k))),
        ("load then", machine.get("load")),
        ("versions", ", ".join(f"{k} {v}" for k, v in versions.items())),
        ("commit", commit[:12] if isinstance(commit, str) else None),
        ("sources", record.get("source_hash")),
        ("log", _place(record, "log")),
        ("plan", _place(record, "plan")),
    ]
    return [(name, str(value)) for name, value in pairs if value not in (None, "")]


def _sizes(values: Mapping[str, int] | None) -> str:
    """Return sizes by tier or channel in words."""
    return ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in (values or {}).items())


def _drop_common_facts(runs: Sequence[RunView]) -> None:
    """Take off the facts about the code and the machine that are the same for all of several runs."""
    if len(runs) < 2:
        return
    values = [dict(run.facts) for run in runs]
    same = {key for key in _PLACE if len({facts.get(key) for facts in values}) == 1}
    for run in runs:
        run.facts[:] = [fact for fact in run.facts if fact[0] not in same]


def folder_of(record: Mapping[str, Any]) -> Path:
    """Return the folder that the paths in a record count from."""
    place = Path(str(record.get("folder", "")))
    return place.parent if place.is_file() else place


def _place(record: Mapping[str, Any], key: str) -> str | None:
    """Return the path of a run's file, from where the report was made."""
    value = record.get(key)
    return str(folder_of(record) / value) if isinstance(value, str) else None


def _question(anchor: str, records: Sequence[Mapping[str, Any]], runs: list[RunView]) -> QuestionView:
    objectives = [r.objective for r in runs if r.objective is not None and r.status != Status.FAILED]
    bounds = [r.bound for r in runs if r.bound is not None and r.status != Status.FAILED]
    best, tightest = (max, min) if is_maximized(runs[0].problem) else (min, max)
    objective, bound = best(objectives, default=None), tightest(bounds, default=None)
    for run in runs:
        if run.status != Status.FAILED:
            run.gap = relative_gap(run.objective, bound)
    counts = Counter(r.status for r in runs)
    if objective is not None:
        status = "optimal" if objective == bound else "feasible"
    else:
        status = next((s for s in ("infeasible", "unknown", "failed") if counts[s]), "unknown")
    unit = next((r.unit for r in runs if r.unit), "")
    return QuestionView(
        anchor=anchor,
        instance=runs[0].instance,
        problem=runs[0].problem,
        sha256=records[0].get("instance_sha256"),
        unit=unit,
        runs=runs,
        objective=objective,
        bound=bound,
        gap=relative_gap(objective, bound),
        status=status,
        chart=_progress_chart(runs, unit),
        settings=len({r.setting for r in runs}),
        settings_solved=len({r.setting for r in runs if r.solved}),
    )


def _progress_chart(runs: Sequence[RunView], unit: str) -> Chart | None:
    """Return incumbents (drawn through) and bounds (dashed) of all runs over time."""
    series: list[Series] = []
    for run in runs:
        who = run.setting if run.seed is None else f"{run.setting}, seed {run.seed}"
        for column, is_bound in ((2, True), (1, False)):
            points: list[Point] = [(p[0], p[column]) for p in run.record.get("trace") or ()]
            if any(value is not None for _, value in points):
                style = f"line m{run.style}" + (" dashed" if is_bound else "")
                series.append(Series(who, style, points, _end(run.record), is_bound))
    values = [v for s in series for _, v in s.points if v is not None]
    if not values:
        return None
    x = time_axis([t for s in series for t in (s.end, *(t for t, _ in s.points))])
    room = 0.06 * (max(values) - min(values) or max(values) or 1)
    y = Axis(max(0, min(values) - room), max(values) + room)
    legend = list(dict.fromkeys((run.setting, f"line m{run.style}") for run in runs))
    legend.append(("bound", "line plain dashed"))
    return step_chart("Incumbent and bound over time", series, x, y, unit=unit, legend=legend)


def _end(record: Mapping[str, Any]) -> float:
    """Return when a run ended, in seconds of building and solving."""
    return max([_seconds(record) or 0.0, *(float(p[0]) for p in record.get("trace") or ())])
