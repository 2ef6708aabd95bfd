"""Every bound is reported with its kind: in the result, its record, its trace, and by the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.problems.offsets import Offsets
from lowtide.models.problems.peak import Peak
from lowtide.results.reports.report_charts import own_gaps
from lowtide.solvers.context import Context
from tests.commands import answer, within


def context() -> Context:
    return Context(problem=Peak(lt.load("gen:chain?n=3")))


def test_the_kind_is_that_of_the_best_bound() -> None:
    run = context()
    run.raise_bound(10, kind="working set")
    run.raise_bound(12, kind="cut")
    run.raise_bound(12, "floating", kind="HiGHS")
    run.raise_bound(11, kind="descents")
    assert (run.bound, run.proof, run.bound_kind) == (12, "exact", "cut")
    assert [(p.bound, p.bound_kind) for p in run.trace] == [(10, "working set"), (12, "cut")]


def test_a_bound_that_does_not_say_its_kind_does_not_keep_the_kind_before_it() -> None:
    run = context()
    run.raise_bound(10, kind="working set")
    run.raise_bound(12)
    assert (run.bound, run.bound_kind) == (12, None)


@pytest.mark.parametrize(
    ("spec", "method", "kind"),
    [
        ("catalogue:harpoon", "cpsat", "CP-SAT"),
        ("catalogue:harpoon", "milp", "HiGHS"),
    ],
)
def test_kind_of_a_solver(spec: str, method: str, kind: str) -> None:
    result = lt.solve(lt.Peak(lt.load(spec)), method, threads=1)
    assert (result.status, result.bound_kind) == (lt.Status.OPTIMAL, kind)
    record = result.record()
    assert record["bound_kind"] == kind
    assert record["trace"][-1][2:] == [result.bound, kind]


def test_kinds_of_offsets() -> None:
    graph = lt.load("gen:layered?layers=3&width=3&seed=1")
    plan = lt.Plan.from_order(graph, range(len(graph.ops)))
    result = lt.solve(Offsets.from_plan(graph, plan), threads=1)
    assert result.status == lt.Status.OPTIMAL
    assert result.bound_kind in ("load", "branch and bound", "CP-SAT")


def test_no_bound_no_kind() -> None:
    result = lt.solve(lt.Peak(lt.load("gen:chain?n=3")), "reference")
    assert (result.bound, result.bound_kind, result.record()["bound_kind"]) == (None, None, None)


def test_the_command_says_the_kind(tmp_path: Path) -> None:
    record = answer("solve", "peak", "catalogue:harpoon", "--method", "cpsat", cwd=tmp_path)
    assert record["bound_kind"] == "CP-SAT"
    done = within("solve", "peak", "catalogue:harpoon", "--method", "cpsat", cwd=tmp_path)
    assert "15 B by CP-SAT, proof exact" in done.stdout


def test_traces_of_older_records_have_no_kind() -> None:
    older: list[list[Any]] = [[0.1, 12, None], [0.2, 12, 6]]
    newer: list[list[Any]] = [[0.1, 12, None, None], [0.2, 12, 6, "cut"]]
    assert own_gaps(older) == own_gaps(newer) == [(0.1, None), (0.2, 0.5)]
