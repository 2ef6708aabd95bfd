"""What results are kept as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import Allocation, load_buffers, load_problem, read_answer, write_answer
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.problems.problem import Problem
from lowtide.models.result import Result, Status

OFFSETS = {"x": 8, "y": 0}
PAIR = Buffers(
    buffers=(Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=8)),
    source="pair.csv",
)


def result_of(problem: Problem, answer: object) -> Result:
    judgement = problem.judge(problem.read(answer))
    return Result(
        problem=problem.name,
        method="none",
        instance="",
        unit="bytes",
        status=Status.FEASIBLE,
        plan=judgement.plan,
        allocation=judgement.allocation,
        buffers=problem.buffers if isinstance(problem, lt.Offsets) else None,
    )


def test_allocation_of_buffers(tmp_path: Path) -> None:
    result = result_of(lt.Offsets(PAIR), OFFSETS)
    write_answer(result, tmp_path / "a.json")
    found = read_answer(tmp_path / "a.json")
    assert isinstance(found, Allocation)
    assert (found.offsets, found.buffers_sha256) == (OFFSETS, PAIR.sha256)


def test_csv_of_buffers_with_their_offsets(tmp_path: Path) -> None:
    write_answer(result_of(lt.Offsets(PAIR), OFFSETS), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "id,lower,upper,size,offset\nx,0,3,4,8\ny,2,5,8,0\n"
    assert read_answer(tmp_path / "a.csv") == Allocation(offsets=OFFSETS)


def test_csv_that_lacks_an_offset(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,lower,upper,size,offset\nx,0,3,4,8\ny,2,5,8,-1\n")
    with pytest.raises(lt.InstanceError, match="found no offset of buffer 'y'"):
        read_answer(tmp_path / "a.csv")


def test_plan_takes_the_allocation(tmp_path: Path) -> None:
    problem = load_problem("offsets", "gen:chain?n=3&seed=1")
    assert isinstance(problem, lt.Offsets)
    offsets, end = {}, 0
    for b in problem.buffers.buffers:
        offsets[b.id] = end
        end += b.size
    result = result_of(problem, offsets)
    write_answer(result, tmp_path / "plan.json")
    plan = read_answer(tmp_path / "plan.json")
    assert isinstance(plan, lt.Plan)
    assert plan.allocation == offsets
    again = load_problem("offsets", tmp_path / "plan.json")
    assert again.instance.sha256 == problem.buffers.sha256
    write_answer(result, tmp_path / "alone.json", source="gen:chain?n=3&seed=1")
    alone = read_answer(tmp_path / "alone.json")
    assert isinstance(alone, Allocation)
    assert load_buffers(str(alone.buffers_source)).sha256 == alone.buffers_sha256


def test_plan_of_an_order(tmp_path: Path) -> None:
    problem = load_problem("peak", "gen:chain?n=3&seed=1")
    result = result_of(problem, range(3))
    write_answer(result, tmp_path / "plan.json")
    assert read_answer(tmp_path / "plan.json") == replace(result.plan, allocation=None)  # type: ignore[type-var]
    with pytest.raises(lt.UsageError, match=r"found ending .csv, expected .json"):
        write_answer(result, tmp_path / "plan.csv")


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"format": "lowtide/graph"}')
    with pytest.raises(
        lt.InstanceError, match='"lowtide/plan", "lowtide/allocation" or "lowtide/strategies"'
    ):
        read_answer(tmp_path / "g.json")


def test_unknown_problem() -> None:
    with pytest.raises(lt.UsageError, match="did you mean peak"):
        load_problem("peek", "gen:chain")
