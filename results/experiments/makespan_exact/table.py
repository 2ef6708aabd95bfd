"""How many questions of 40 to 60 ops are proven optimal within a memory, by auto and by CP-SAT alone.

The graphs are layered, Inception-like, workflows and trees, of ``40 + 5 seed`` ops and lognormal durations,
for 2 and 4 processors. The memory lies 0, 10, 25, 50 and 100% of the way from the least sequential peak to
the peak of the list schedule by critical path without a bound; levels of the same bytes are one question.
``experiment.toml`` is written anew, from these bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import lowtide as lt

from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, by_instance, seconds_of

JOBS = 2
"""Runs that are carried out at the same time, by default."""
SHAPES = ("layered", "inception", "workflow", "tree")
PROCESSORS = (2, 4)
"""Numbers of processors of the questions of the table."""
LEVELS = (0, 10, 25, 50, 100)
"""Memories in percent of the way from the least sequential peak to that of the list schedule."""
SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the drawn graphs; those of larger seeds have more ops."""
HEAD = """\
# Makespan within a memory, 40 to 60 ops: how many questions are solved to proven optimality in 60 s?
#
#     python -m lowtide.results.experiments makespan_exact    # makes this file, carries it out
#
# The memory lies 0, 10, 25, 50 and 100% of the way from the least sequential peak to the peak of the list
# schedule by critical path. Beside `auto`: the plain CP-SAT model, without bounds and schedules of ours.

[experiment]
name = "makespan-exact"

[limits]
seconds = 60
memory = "4GiB"
threads = 2
"""


@cache
def questions() -> dict[str, Row]:
    """Return the distinct questions by specification: shape, processors, seed, levels and bytes of memory."""
    found: dict[str, Row] = {}
    for shape in SHAPES:
        for count in PROCESSORS:
            for seed in SEEDS:
                spec = f"gen:tasks?shape={shape}&n={40 + 5 * seed}&cores={count}&seed={seed}"
                low, high = memories(spec, count)
                row = {"shape": shape, "processors": count, "seed": seed}
                for level in LEVELS:
                    memory = low + (high - low) * level // 100
                    row = {**row, "levels": [], "ops": 40 + 5 * seed, "memory": memory}
                    found.setdefault(f"{spec}&processors={count}&memory={memory}", row)["levels"].append(
                        level
                    )
    return found


def memories(spec: str, processors: int) -> tuple[int, int]:
    """Return the least sequential peak, and the peak of a list schedule without a bound."""
    graph = lt.load(spec)
    least = lt.solve(lt.Peak(graph), threads=1)
    assert least.status is lt.Status.OPTIMAL
    assert least.objective is not None
    free = lt.solve(lt.Makespan(graph, processors), "list", threads=1, options={"priority": "critical"})
    assert isinstance(free.verification, Verification)
    return least.objective, max(free.verification.peaks.values())


def experiment(folder: Path) -> Path:
    """Write the experiment; return its file."""
    lines = "".join(f'    "{spec}",\n' for spec in questions())
    runs = '\n[[runs]]\nproblem = "makespan"\nmethods = ["{}"]\n{}instances = [\n{}]\n'
    plain = 'parameters = { start = "none" }\n'
    path = HERE / "makespan_exact" / "experiment.toml"
    path.write_text(HEAD + runs.format("auto", "", lines) + runs.format("cpsat", plain, lines))
    return path


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return one row per question."""
    runs = by_instance(records)
    found = []
    for spec in (spec for spec in questions() if spec in runs):
        row = dict(questions()[spec])
        for method, objective, before in (("auto", "makespan", ""), ("cpsat", "cumulative", "cumulative ")):
            if record := runs[spec].get(method):
                row[objective] = record["objective"]
                row |= {f"{before}{key}": record[key] for key in ("bound", "gap")}
                row[f"{before}seconds"] = round(seconds_of(record, "solve", "verify"), 1)
        found.append(row)
    return found


def _proven(key: str, group: list[Row]) -> str:
    """Return how many are proven, of how many that were asked."""
    known = [row[f"{key}gap"] for row in group if row[f"{key}bound"] is not None]
    missing = sum(gap is None for gap in known)
    proven = f"{sum(gap == 0 for gap in known)} of {len(known)}" if known else ""
    return proven + (f", {missing} without schedule" if missing else "")


def _gap(key: str, of: Callable[[Sequence[float]], float], group: list[Row]) -> str:
    """Return the mean or the largest gap where it is not closed."""
    others = [row[f"{key}gap"] for row in group if row[f"{key}gap"]]
    return f"{100 * of(others):.2f}%" if others else ""


def _shares(name: str, key: str) -> tuple[Column, ...]:
    return (
        Column(f"{name} proven", partial(_proven, key), RIGHT),
        Column("mean gap", partial(_gap, key, fmean), RIGHT),
        Column("largest", partial(_gap, key, max), RIGHT),
    )


TABLE = TableSpec(
    (
        *(Column("graphs", "shape"), Column("processors", kind="d"), Column("questions", len, "d")),
        *_shares("`auto`", ""),
        *_shares("CP-SAT", "cumulative "),
    ),
    groups=("shape", "processors"),
)


def text(table: list[Row]) -> Fields:
    """Return the shares proven and the gaps of the others, by shape and processors."""
    seeds = sorted({row["seed"] for row in table})
    plain = sum(row["cumulative bound"] is not None for row in table)
    beside = "" if plain == len(table) else f", {plain} of them"
    return {
        "plural": "s" * (len(seeds) > 1),
        "seeds": ", ".join(map(str, seeds)),
        "beside": beside,
        "table": TABLE.of([*table, *({**row, "shape": "all", "processors": ""} for row in table)]),
    }
