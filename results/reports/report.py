"""The report: one HTML file that holds everything about some experiments and fetches nothing.

It is made from the run records alone. Where a plan was kept and its instance is at hand, the plan is
verified again and its memory profile or its allocation drawn.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...instances.formats.strict_json import parse_toml, read_bytes
from ...models.errors import BackendUnavailable, InstanceError, UsageError
from ...models.files import check_writable, write_whole
from ...models.problems import PROBLEMS
from ..audits.audit import compare
from ..audits.best_known import BestKnown, read_best_known
from ..audits.claims import Question, claim_of, is_maximized
from ..audits.findings import Contradiction
from ..tables.cells import STATUSES
from ..tables.store import DamagedRecordWarning, missing_runs, read_records
from .report_charts import SPARK_HEIGHT, SPARK_WIDTH, Chart, memory_chart
from .report_summary import gap_chart, method_table, solved_chart, totals
from .report_text import amount, count_text, gap_text, seconds_text, short
from .report_view import QuestionView, folder_of, views

if TYPE_CHECKING:
    from ...models.problems.problem import Judgement, Problem


PAGE = 500
"""Runs, and instances, that the page shows before it is asked for more."""


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    profiles: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> int:
    """Write the report of some experiments to a file, whole or not at all; return its size in bytes.

    Parameters
    ----------
    folders, title, profiles, progress
        As for `report_html`.
    path
        The file, ``.html``.

    Raises
    ------
    UsageError
        If a folder holds no records, or the file cannot be written.
    BackendUnavailable
        If jinja2 is not installed.
    """
    check_writable(path)
    content = report_html(folders, title=title, profiles=profiles, progress=progress).encode()
    write_whole(path, content)
    return len(content)


def report_html(
    folders: Sequence[str | os.PathLike[str]],
    *,
    title: str | None = None,
    profiles: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> str:
    """Return the report of some experiments as one HTML document.

    Parameters
    ----------
    folders
        Folders of experiments, or files of records.
    title
        Default: the names of the experiments.
    profiles
        Draw the memory profile or the allocation of the best plan of each question; each is verified first.
    progress
        Called with a line of text for each picture.

    Raises
    ------
    UsageError
        If a folder is missing or holds no records.
    BackendUnavailable
        If jinja2 is not installed.
    """
    template = _template()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedRecordWarning)
        records = read_records(folders)
        damaged = [str(w.message) for w in caught]
    if not records:
        raise UsageError(f"{', '.join(str(f) for f in folders)}: found no run records, expected at least one")
    questions = views(records)
    known = read_best_known()
    for question in questions:
        question.known = _better_known(question, known)
    if profiles:
        for question in questions:
            _draw_plan(question, progress)
    problems = list(dict.fromkeys(q.problem for q in questions))
    units = {q.unit for q in questions if q.unit}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedRecordWarning)  # they were counted above
        methods = method_table(folders, questions)
    page: str = template.render(
        title=title or _title(folders),
        folders=[os.fspath(folder) for folder in folders],
        version=__version__,
        totals=totals(questions, sum(missing_runs(folder) for folder in folders)),
        methods=methods,
        charts=[
            (p, [c for c in (solved_chart(p, questions), gap_chart(p, questions)) if c]) for p in problems
        ],
        problems=problems,
        unit=f" [{units.pop()}]" if len(units) == 1 else "",
        noun="instances" if len(problems) == 1 else "questions",
        questions=questions,
        statuses=STATUSES,
        page=PAGE,
        settings=list(dict.fromkeys(r.setting for q in questions for r in q.runs)),
        facts=_facts(records),
        contradictions=_contradictions(records),
        damaged=damaged,
        spark=(SPARK_WIDTH, SPARK_HEIGHT),
    )
    return page


def _template() -> Any:
    """Return the page's template."""
    try:
        import jinja2
    except ImportError:
        raise BackendUnavailable(
            "jinja2: found no such package, expected it for reports (pip install 'lowtide[report]')"
        ) from None
    folder = resources.files(__package__).joinpath("page")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"amount": amount, "gap": gap_text, "seconds": seconds_text, "count": count_text}
    environment.globals["short"] = short
    return environment.get_template("report.html")


def _title(folders: Sequence[str | os.PathLike[str]]) -> str:
    """Return the names that the experiments have in their own files, else those of their folders."""
    names = []
    for folder in folders:
        name = None
        file = os.path.join(folder, "experiment.toml")
        with suppress(InstanceError, KeyError, TypeError):
            name = parse_toml(read_bytes(file), file)["experiment"]["name"]
        names.append(str(name or os.path.basename(os.path.realpath(folder))))
    return ", ".join(dict.fromkeys(names))


def _facts(records: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what all the records have in common or between them: time, machines, limits, versions."""
    started = sorted(r["started"] for r in records if isinstance(r.get("started"), str))
    when = [s.replace("T", " ")[:16] for s in (started[:1] + started[-1:])]
    machines: set[str] = set()
    limits: set[str] = set()
    versions: set[str] = set()
    commits: set[str] = set()
    for record in records:
        machine = record.get("machine") or {}
        words = [machine.get("cpu"), f"{machine['cores']} cores" if machine.get("cores") else None]
        words.append(short(machine.get("memory"), "bytes") if machine.get("memory") else None)
        machines.add(", ".join(str(w) for w in (machine.get("host"), *words) if w))
        limit = record.get("limits") or {}
        seconds = "no time limit" if limit.get("seconds") is None else f"{limit['seconds']:g} s"
        memory = "" if limit.get("memory") is None else f", {short(limit['memory'], 'bytes')}"
        threads = limit.get("threads") or 1
        limits.add(f"{seconds}{memory}, {threads} thread{'s' * (threads > 1)}" if limit else "")
        versions.update(f"{k} {v}" for k, v in (record.get("versions") or {}).items())
        commits.add((record.get("git_commit") or "")[:12])
    pairs = [
        ("started", " to ".join(dict.fromkeys(when)) + " UTC" if when else ""),
        ("limits of a run", "; ".join(sorted(limits - {""}))),
        ("machines", "; ".join(sorted(machines - {""}))),
        ("versions", ", ".join(sorted(versions))),
        ("commits", ", ".join(sorted(commits - {""}))),
    ]
    return [(name, text) for name, text in pairs if text]


def _better_known(question: QuestionView, known: Mapping[Question, BestKnown]) -> str:
    """Return what the best-known file has that is better than all runs, in words."""
    entry = known.get((question.sha256 or "", question.problem))
    words = []
    if entry is not None:
        objective, bound = entry.objective, entry.bound
        sign = -1 if is_maximized(question.problem) else 1
        if objective and (question.objective is None or sign * objective.value < sign * question.objective):
            words.append(f"objective {objective.value:,} ({objective.method})")
        if bound and (question.bound is None or sign * bound.value > sign * question.bound):
            words.append(f"bound {bound.value:,} ({bound.method})")
    return ", ".join(words)


def _contradictions(records: Sequence[dict[str, Any]]) -> list[Contradiction]:
    """Return what the numbers on record contradict each other in."""
    claims = [claim_of(r, r["folder"], str(r.get("name")), folder_of(r)) for r in records]
    return compare(c for c in claims if c is not None)


def _draw_plan(question: QuestionView, progress: Callable[[str], None]) -> None:
    """Give a question the picture of its best plan that verifies, or the reason why it has none."""
    from ..audits.recheck import recheck

    problems: dict[Question, Problem] = {}
    what, draw = _picture(PROBLEMS.get(question.problem))
    with_plan = [r for r in question.runs if r.record.get("plan") and r.objective is not None]
    sign = -1 if is_maximized(question.problem) else 1
    for run in sorted(with_plan, key=lambda r: sign * (r.objective or 0)):
        claim = claim_of(run.record, run.record["folder"], run.name, folder_of(run.record))
        if claim is None:
            continue
        progress(f"{question.instance}: {what} of {run.setting}")
        checked = recheck(claim, problems)
        if checked.judgement is not None:
            if draw is not None:
                question.picture = draw(question, run.setting, problems[claim.question], checked.judgement)
            question.picture_note = ""
            return
        reason = (checked.fault or ("", checked.unchecked))[1]
        question.picture_note = f"No {what}: {reason}" if reason else ""


def _allocation(question: QuestionView, setting: str, problem: Any, judgement: Judgement) -> Chart | None:
    from ..figures.allocation_case import AllocationCase
    from .report_allocation import allocation_chart

    assert judgement.allocation is not None
    heights = problem.heights(judgement.allocation)
    graph = problem.plan_graph
    case = AllocationCase(problem.buffers, judgement.allocation, heights, graph, judgement.plan, None)
    return allocation_chart(f"Best allocation ({setting})", case, bound=question.bound)


def _memory_profile(question: QuestionView, setting: str, problem: Any, judgement: Judgement) -> Chart:
    from ...models.derived.profile import memory_profile, reference_profile
    from ..figures.profile_drawing import COLOURS

    graph, plan = problem.graph, judgement.plan
    assert plan is not None
    return memory_chart(
        f"Memory of the best plan ({setting})",
        memory_profile(graph, plan),
        reference=reference_profile(graph, plan),
        bound=question.bound,
        counts_ops=all(run.end - run.start == 1 for run in plan.runs),
        kinds=tuple(COLOURS),
    )


def _picture(problem: type[Problem] | None) -> tuple[str, Callable[..., Chart | None] | None]:
    """Return what is drawn of the best answer to a question, and by whom."""
    if problem is not None and problem.about == "buffers":
        return "allocation", _allocation
    if problem is not None and not problem.picture:
        return "picture", None
    of_peak = problem is not None and problem.measure == "peak" and not problem.maximize
    return "memory profile", _memory_profile if of_peak else None
