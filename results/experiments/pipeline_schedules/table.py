"""Published pipeline schedules against the least span or makespan within the same memory of each device.

Memory is in activations of a stage. ``NAME.svg`` are schedules, with what each device holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt
from lowtide import plot

from ....instances import load_problem
from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case

FOLDER = HERE / "pipeline_schedules"
SINGLE = ("1f1b", "zb-h1", "zb-h2", "zb")
TURNING = ("v-min", "v-half", "v-zb")
UNEVEN = "f=18&b=20&w=10"
DIFFERENT = "p=3&m=6&f=12-10-7&b=12-12-7&w=5-9-5"
QUESTIONS: tuple[tuple[str, str, tuple[int, ...], tuple[str, ...]], ...] = (
    ("p=3&m=6", "span", (1, 2, 3, 4, 5), SINGLE),
    ("p=3&m=6&keep=0", "span", (1, 2, 3, 4, 5), SINGLE),
    ("p=3&m=6", "makespan", (2, 3, 4, 5), SINGLE),
    (f"p=3&m=6&{UNEVEN}", "span", (1, 2, 3, 4, 5, 6), SINGLE),
    (f"p=3&m=6&{UNEVEN}", "makespan", (3, 6), SINGLE),
    ("p=4&m=8", "span", (1, 2, 3, 4, 5, 6, 7), SINGLE),
    ("p=4&m=8&keep=0", "span", (1, 2, 3, 4, 5, 6, 7), SINGLE),
    ("p=4&m=8", "makespan", (4, 7), SINGLE),
    (f"p=4&m=8&{UNEVEN}", "span", (2, 3, 4, 7, 8), SINGLE),
    (f"p=4&m=8&{UNEVEN}", "makespan", (8,), SINGLE),
    (DIFFERENT, "span", (3, 4, 5), SINGLE),
    ("p=4&m=8&w=0", "makespan", (2, 3, 4, 8), ("gpipe", "1f1b")),
    ("p=2&m=4&v=2&w=0", "makespan", (3, 4, 5), ("gpipe", "interleaved")),
    ("p=2&m=4&v=2&placement=v", "span", (2, 3, 4), TURNING),
    ("p=2&m=6&v=2&placement=v", "span", (2, 3, 4), TURNING),
    ("p=3&m=6&v=2&placement=v", "span", (2, 3, 4, 5, 6), TURNING),
)
"""Options of ``gen:stages``, objective, bytes of memory, methods beside ``auto``."""
SECONDS = 300.0
"""Time limit of each solve of the table, in seconds."""
PICTURES = {("p=4&m=8", "span", 4, "zb-h1"): "zb-h1", ("p=4&m=8", "span", 2, "auto"): "two"}


def cases() -> Iterator[Case]:
    """Yield a case for each question."""
    for options, objective, memories, methods in QUESTIONS:
        for memory in memories:
            name = f"{options} {objective} {memory}"
            yield Case(name, partial(rows_of, options, objective, memory, methods))


def rows_of(options: str, objective: str, memory: int, methods: tuple[str, ...]) -> Iterator[Row]:
    """Yield a row for each method, one thread; draw what is to be drawn."""
    asked = f"gen:stages?{options}&memory={memory}&objective={objective}"
    problem = load_problem(lt.Pipeline, asked)
    for method in (*methods, "auto"):
        result = lt.solve(problem, method, time_limit=SECONDS, threads=1)
        verdict = result.verification
        seen = verdict if result.plan is not None and isinstance(verdict, Verification) else None
        yield {
            "instance": asked,
            "options": options,
            "objective": objective,
            "memory": memory,
            "method": method,
            "status": str(result.status),
            "time": result.objective,
            "bound": result.bound,
            "peak": None if seen is None else max(seen.peaks.values()),
        }
        if result.plan is not None and (name := PICTURES.get((options, objective, memory, method))):
            figure = plot.new_figure(plot.timeline_inches(result.plan))
            title = f"{method}, {memory} activations, span {result.objective}"
            plot.save(
                plot.timeline(result.plan, problem.graph, figure, title=title)[0], FOLDER / f"{name}.svg"
            )


TABLE = TableSpec(
    (
        Column("stages", lambda row: row["options"].replace("&", " ")),
        Column("objective"),
        Column("memory", kind="d"),
        Column("bound", kind="d"),
        Column("auto", kind="d"),
        Column("published", lambda row: row["published"] or "-", RIGHT),
        Column("by", lambda row: row["by"] or "none fits"),
        Column("gap", lambda row: "-" if row["published"] is None else f"{row['gap']:.1%}", RIGHT),
    )
)


def text(table: list[Row]) -> Fields:
    """Return a line for each question: what is proved, and the best published schedule that fits."""
    lines: dict[str, Row] = {}
    for row in table:
        line = lines.setdefault(row["instance"], {**row, "bound": 0, "published": None, "by": None})
        line["bound"] = max(line["bound"], row["bound"] or 0)
        if row["method"] == "auto":
            line["auto"] = row["time"]
        elif row["time"] is not None and row["time"] < (line["published"] or row["time"] + 1):
            line |= {"published": row["time"], "by": row["method"]}
    for line in lines.values():
        line["gap"] = None if line["published"] is None else line["published"] / line["auto"] - 1
    open_ = [line["instance"] for line in lines.values() if line["bound"] < line["auto"]]
    behind = [line for line in lines.values() if line["published"] is not None and line["gap"] > 0]
    return {
        "table": TABLE.of(lines.values()),
        "questions": str(len(lines)),
        "proved": str(len(lines) - len(open_)),
        "behind": str(len(behind)),
    }
