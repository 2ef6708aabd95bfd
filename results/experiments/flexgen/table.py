"""Inference in FlexGen's block schedule on a T4, its host and its drive: plans of the suite beside FlexGen's.

Graphs ``gen:flexgen``; weights, keys and values may be anywhere at first, prompts and tokens are on the host;
one thread. In the last question GPU and host together have no room for all weights and caches: some rest on
the drive. *FlexGen's program* is policy `flexgen` with the fractions of the GPU that ``lowtide estimate
flexgen --new 4 --share 1`` gives for the same sequences (it lets the host attend to caches there, which these
graphs do not); *best fractions* is the policy with those that are fastest here. The bound is the best of all
methods'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case, with_best_bounds

NEW = 4
"""Tokens that each sequence gets after its prompt."""
QUESTIONS = (
    ("opt-6.7b", 4, 8, 200, (61.39, 100, 0)),
    ("opt-30b", 48, 3, 200, (14.76, 0, 0)),
    ("opt-66b", 16, 4, 200, (8.22, 0, 0)),
    ("opt-66b", 16, 4, 100, (7.86, 0, 100)),
)
"""Model, sequences of a batch, batches, GiB of the host, and percent of weights, caches and states that the
program lets rest on the GPU."""
SECONDS = 30
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each question, with and without prefill."""
    for model, batch, batches, host, percent in QUESTIONS:
        for prefill in (1, 0):
            spec = f"gen:flexgen?model={model}&new={NEW}&batch={batch}&batches={batches}&prefill={prefill}"
            name = f"{model}, {batches} x {batch}, {'all' if prefill else 'decode'}"
            spec += "&machine=t4-flexgen&start.input=host"
            if host < 200:
                spec, name = f"{spec}&host={host}GiB", f"{name}, host {host} GiB"
            yield Case(f"{model}-{host}-{prefill}", partial(rows_of, name, spec, percent))


def rows_of(name: str, spec: str, percent: tuple[float, float, float]) -> Iterator[Row]:
    """Yield a row for each method."""
    problem = load_problem(lt.Placement, spec)
    fractions = dict(zip(("weights", "cache", "states"), map(str, percent), strict=True))
    methods: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("FlexGen's program", "flexgen", fractions),
        ("best fractions", "flexgen", {}),
        ("planner", "planner", {}),
        ("auto", "auto", {}),
    )
    for called, method, options in methods:
        began = time.process_time()
        result = lt.solve(problem, method, options=options, threads=1, time_limit=SECONDS)
        assert result.status is not lt.Status.FAILED, result.detail
        yield {
            "instance": spec,
            "question": name,
            "method": called,
            "run": method,
            "ops": len(problem.graph.ops),
            "ideal": sum(op.duration_ns for op in problem.graph.ops),
            "status": str(result.status),
            "objective": result.objective,
            "bound": result.bound,
            "detail": result.detail if method == "flexgen" else "",
            "seconds": round(time.process_time() - began, 2),
        }


def _fractions(row: Row) -> str:
    return " / ".join(word.split()[1] for word in str(row["detail"]).split(", ") if "%" in word)


TABLE = TableSpec(
    (
        Column("question"),
        Column("ops", kind=",d"),
        Column("ideal, s", lambda row: row["ideal"] / 1e9, ".3f"),
        Column("bound, s", lambda row: row["best"] / 1e9, ".3f"),
        Column("method"),
        Column("weights / cache / states", _fractions),
        Column("s", lambda row: None if row["objective"] is None else row["objective"] / 1e9, ".3f"),
        Column(
            "gap",
            lambda row: None if row["objective"] is None else 1 - row["best"] / row["objective"],
            ".2%",
        ),
        Column("CPU s", "seconds", ".1f"),
    )
)


def text(rows: list[Row]) -> Fields:
    """Return the table, each row with the best bound of its question."""
    return {"table": TABLE.of(with_best_bounds(rows))}
