"""The makespan problem: what it accepts, how it lowers, and its judge."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.problems.makespan import Makespan


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


@pytest.mark.parametrize(
    "item", ["text", 5, (0, 1), None, (0, 1, None), (0, 1, 1.7), (0, 1, float("nan")), (0, 1, "2")]
)
def test_what_is_no_answer_is_refused(item: object) -> None:
    with pytest.raises(lt.InstanceError, match="found"):
        Makespan(two_branches()).read(item)


def test_numbers_out_of_range_are_refused() -> None:
    for options in ({"processors": 0}, {"processors": True}, {"memory": -1}, {"memory": 1.5}):
        with pytest.raises(lt.InstanceError, match="expected an integer"):
            Makespan(two_branches(), **options)
    with pytest.raises(lt.InstanceError, match="no ops"):
        Makespan(lt.Graph(name="none", tensors=(), ops=()))


def one_op(*modes: lt.Mode) -> lt.Graph:
    tensor = lt.Tensor(name="x", nbytes=1, initial=True)
    return lt.Graph(name="one", tensors=(tensor,), ops=(lt.Op(name="a", reads=(0,), modes=modes),))


def test_modes_bound_to_tiers_are_refused() -> None:
    with pytest.raises(lt.InstanceError, match=r"op 0 'a': found a mode that binds operands to tiers"):
        Makespan(one_op(lt.Mode(operands=((0, "memory"),))))


CPU, GPU = lt.Mode(duration_ns=5, processors=("cpu",)), lt.Mode(duration_ns=2, processors=("gpu",))


@pytest.mark.parametrize("given", ["cpu=2+gpu=1", {"cpu": 2, "gpu": 1}, (("cpu", 2), ("gpu", 1))])
def test_processors_may_be_given_in_any_form(given: object) -> None:
    problem = load_problem("makespan", "gen:tasks?n=12&cores=2", processors=given)
    assert isinstance(problem, Makespan)
    assert problem.processors == (("cpu", 2), ("gpu", 1))


@pytest.mark.parametrize(
    ("processors", "message"),
    [
        (
            3,
            r"'a': found no processor that can run it \(3 of kind any\), expected one of kind cpu or gpu",
        ),
        ({"cpu": 2, "gqu": 1}, "found kind 'gqu', on which no op can run, expected one of cpu, gpu"),
        ({"cpu": 0}, "processors of kind 'cpu': found 0, expected an integer >= 1"),
        ({}, "found none"),
        ((("cpu", 1), ("cpu", 2)), "found kind 'cpu' twice"),
        ({"c,pu": 1}, "found kind 'c,pu'"),
        (("cpu", "gpu"), "found 'cpu', expected a kind and its count"),
    ],
)
def test_wrong_processors_are_refused(processors: object, message: str) -> None:
    with pytest.raises(lt.InstanceError, match=message):
        Makespan(one_op(CPU, GPU), processors)  # type: ignore[arg-type]


def test_modes_that_another_one_beats_are_no_alternatives() -> None:
    slow = lt.Mode(duration_ns=9, workspace=1)
    frugal = lt.Mode(duration_ns=9, processors=("gpu",))
    problem = Makespan(one_op(slow, CPU, GPU, frugal), {"cpu": 1, "gpu": 1})
    assert [(a.mode, a.kind) for a in problem.alternatives[0]] == [(1, 0), (2, 1)]
    hungry = lt.Mode(duration_ns=1, workspace=7, processors=("gpu",))
    problem = Makespan(one_op(CPU, GPU, hungry), {"cpu": 1, "gpu": 1})
    assert [(a.mode, a.kind) for a in problem.alternatives[0]] == [(0, 0), (2, 1), (1, 1)]


def test_schedule_on_two_kinds_is_lowered_and_read_back() -> None:
    graph = lt.Graph(name="three", tensors=(), ops=tuple(lt.Op(name=x, modes=(CPU, GPU)) for x in "abc"))
    problem = Makespan(graph, processors={"cpu": 1, "gpu": 1})
    answer = (0, 0, 2, 0, 1, 1)
    judged = problem.judge(answer)
    assert judged.objective == problem.evaluate(answer) == 5
    assert judged.plan is not None
    assert [(r.op, r.mode, r.processor) for r in judged.plan.runs] == [
        (0, 0, "cpu-0"),
        (1, 1, "gpu-0"),
        (2, 1, "gpu-0"),
    ]
    assert problem.read(judged.plan) == answer
    overlap = problem.judge((0, 0, 1, 0, 1, 1))
    assert [v.kind for v in overlap.violations] == ["processor-overlap"]
    for bad in ((0, 0, 2), (0, 0, 2, 0, 1, 2)):
        with pytest.raises(lt.InstanceError, match="alternative"):
            problem.read(bad)


def test_one_op_that_never_fits_is_impossible() -> None:
    result = lt.solve(Makespan(two_branches(), memory=11), "list")
    assert result.status == "infeasible"
    assert "op 2 'right' needs 12 B" in result.detail


def test_options_in_specifications() -> None:
    problem = load_problem("makespan", "gen:chain?n=4,seed=1,processors=3,memory=1kB")
    assert isinstance(problem, Makespan)
    assert (problem.processors, problem.memory) == (3, 1000)
    assert problem.source == "gen:chain?n=4&seed=1&processors=3&memory=1kB"
    for text in ("cpu=4+gpu=1", "cpu=4,gpu=1"):
        several = load_problem("makespan", "gen:chain?n=4,seed=1", processors=text)
        assert isinstance(several, Makespan)
        assert several.kinds == (("cpu", 4), ("gpu", 1))
        assert several.source == "gen:chain?n=4&seed=1&processors=cpu=4+gpu=1"
        assert load_problem("makespan", several.source).instance.sha256 == several.instance.sha256
    for bad in ("processors=0", "processors=two", "processors=cpu=0", "memory=much"):
        with pytest.raises(lt.InstanceError, match=bad.split("=")[0]):
            load_problem("makespan", f"gen:chain?n=4,{bad}")


def test_hash_covers_the_question() -> None:
    graph = two_branches()
    hashes = {Makespan(graph, p, m).instance.sha256 for p in (1, 2) for m in (None, 5, 6)}
    assert len(hashes) == 6
