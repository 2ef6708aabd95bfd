"""The makespan problem: what it accepts, how it lowers, and its judge."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.makespan import Makespan


def two_branches(accounting: str = "coexist") -> lt.Graph:
    """Return x (4 bytes) read by two ops of 2 and 3 ns; each writes 1 byte that is kept."""
    return lt.Graph(
        name="branches",
        tensors=(
            lt.Tensor(name="x", nbytes=4),
            lt.Tensor(name="y", nbytes=1, final=True),
            lt.Tensor(name="z", nbytes=1, final=True),
        ),
        ops=(
            lt.Op(name="load", writes=(0,)),
            lt.Op(name="left", reads=(0,), writes=(1,), duration_ns=2),
            lt.Op(name="right", reads=(0,), writes=(2,), duration_ns=3, workspace=7),
        ),
        accounting=lt.Accounting(accounting),
    )


@pytest.mark.parametrize(("accounting", "peak"), [("coexist", 13), ("replace", 9)])
def test_two_branches_side_by_side(accounting: str, peak: int) -> None:
    problem = Makespan(two_branches(accounting), processors=2, memory=peak)
    judged = problem.judge((0, 1, 1))
    assert judged.objective == 4
    assert judged.plan is not None
    assert {run.processor for run in judged.plan.runs} == {"p0", "p1"}
    less = Makespan(two_branches(accounting), processors=2, memory=peak - 1).judge((0, 1, 1))
    assert [v.kind for v in less.violations] == ["capacity"]


@pytest.mark.parametrize(
    ("starts", "kind"), [((0, 0, 1), "precedence"), ((0, 1, 2), "processor-overlap"), ((0, 1, -1), "shape")]
)
def test_judge_reports_wrong_starts(starts: tuple[int, ...], kind: str) -> None:
    judged = Makespan(two_branches(), processors=1).judge(starts)
    assert judged.objective is None
    assert kind in {v.kind for v in judged.violations}


def test_plan_is_read_back() -> None:
    problem = Makespan(two_branches(), processors=2)
    plan = problem.lower((0, 4, 1))
    assert problem.read(plan) == (0, 4, 1)
    assert problem.evaluate((0, 4, 1)) == 6


@pytest.mark.parametrize("item", ["text", 5, (0, 1), None])
def test_what_is_no_answer_is_refused(item: object) -> None:
    with pytest.raises(lt.InstanceError, match="found"):
        Makespan(two_branches()).read(item)


def test_numbers_out_of_range_are_refused() -> None:
    for options in ({"processors": 0}, {"processors": True}, {"memory": -1}, {"memory": 1.5}):
        with pytest.raises(lt.InstanceError, match="expected an integer"):
            Makespan(two_branches(), **options)
    with pytest.raises(lt.InstanceError, match="no ops"):
        Makespan(lt.Graph(name="none", tensors=(), ops=()))


def test_ops_with_several_modes_are_refused() -> None:
    op = lt.Op(name="a", modes=(lt.Mode(duration_ns=1), lt.Mode(duration_ns=2)))
    with pytest.raises(lt.InstanceError, match="found 2 modes"):
        Makespan(lt.Graph(name="modes", tensors=(), ops=(op,)))


def test_one_op_that_never_fits_is_impossible() -> None:
    result = lt.solve(Makespan(two_branches(), memory=11), "list")
    assert result.status == "infeasible"
    assert "op 2 'right' needs 12 B" in result.detail


def test_options_in_specifications() -> None:
    problem = load_problem("makespan", "gen:chain?n=4,seed=1,processors=3,memory=1kB")
    assert isinstance(problem, Makespan)
    assert (problem.processors, problem.memory) == (3, 1000)
    assert problem.source == "gen:chain?n=4&seed=1&processors=3&memory=1kB"
    for bad in ("processors=0", "processors=two", "memory=much"):
        with pytest.raises(lt.InstanceError, match=bad.split("=")[0]):
            load_problem("makespan", f"gen:chain?n=4,{bad}")


def test_hash_covers_the_question() -> None:
    graph = two_branches()
    hashes = {Makespan(graph, p, m).instance.sha256 for p in (1, 2) for m in (None, 5, 6)}
    assert len(hashes) == 6
