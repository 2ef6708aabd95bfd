"""The placement problem: what it is about, what it refuses, how it judges plans."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement

GIB = 2**30


def machine(device: int = 100, host: int | None = 100) -> lt.Machine:
    return lt.Machine(
        name="two tiers",
        tiers=(lt.Tier(name="gpu", capacity=device), lt.Tier(name="host", capacity=host)),
        processors=(lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"),)),),
        channels=(
            lt.Channel(src="gpu", dst="host", bytes_per_s=10**9),
            lt.Channel(src="host", dst="gpu", bytes_per_s=10**9),
        ),
    )


def graph() -> lt.Graph:
    return lt.Graph(
        name="pair",
        tensors=(
            lt.Tensor(name="x", nbytes=4, kind="input", initial=True),
            lt.Tensor(name="y", nbytes=8, final=True),
        ),
        ops=(
            lt.Op(name="a", reads=(0,), writes=(1,), duration_ns=5),
            lt.Op(name="b", reads=(1,), duration_ns=5),
        ),
    )


def plan(problem: Placement) -> lt.Plan:
    return lt.Plan(
        machine=problem.machine,
        start=(lt.Resident(0, "host"),),
        runs=(lt.Run(0, 0, 4, 9, "gpu0"), lt.Run(1, 0, 9, 14, "gpu0")),
        copies=(lt.Copy(0, "host", "gpu", 0, 4),),
    )


def test_the_objective_is_the_makespan_of_the_verified_plan() -> None:
    problem = Placement(graph(), machine())
    judgement = problem.judge(plan(problem))
    assert not judgement.violations
    assert judgement.objective == 14 == problem.evaluate(plan(problem))


def test_inputs_start_in_the_outermost_tier_unless_the_problem_says_otherwise() -> None:
    problem = Placement(graph(), machine())
    there = replace(
        plan(problem),
        start=(lt.Resident(0, "gpu"),),
        runs=(lt.Run(0, 0, 0, 5, "gpu0"), lt.Run(1, 0, 5, 10, "gpu0")),
        copies=(),
    )
    assert [v.kind for v in problem.judge(there).violations] == ["start"]
    free = replace(problem, start={"input": ("gpu", "host")})
    assert free.judge(there).objective == 10


def test_ops_run_in_the_reference_order() -> None:
    two = replace(
        graph(),
        ops=(
            lt.Op(name="a", reads=(0,), writes=(1,), duration_ns=5),
            lt.Op(name="b", duration_ns=5),
        ),
    )
    problem = Placement(two, machine())
    swapped = replace(plan(problem), runs=(lt.Run(1, 0, 4, 9, "gpu0"), lt.Run(0, 0, 9, 14, "gpu0")))
    (violation,) = problem.judge(swapped).violations
    assert violation.kind == "order"
    assert "op 0 runs on 'gpu0' after op 1" in violation.message


def test_whole_tensors_forbid_parts() -> None:
    problem = Placement(graph(), machine(), whole=True)
    parts = (lt.Copy(0, "host", "gpu", 0, 2, (0, 2)), lt.Copy(0, "host", "gpu", 2, 4, (2, 4)))
    assert not problem.judge(plan(problem)).violations
    found = problem.judge(replace(plan(problem), copies=parts)).violations
    assert [v.kind for v in found] == ["whole", "whole"]
    assert not replace(problem, whole=False).judge(replace(plan(problem), copies=parts)).violations


def test_a_working_set_that_fits_nowhere_is_infeasible_with_its_witness() -> None:
    problem = Placement(graph(), machine(device=11), periodic=True)
    result = lt.solve(problem, "planner")
    assert result.status == "infeasible"
    assert "op 0 'a' needs 12 bytes at once, expected at most 11" in result.detail


def test_each_part_of_the_question_is_part_of_the_hash() -> None:
    base = Placement(graph(), machine())
    others = [
        replace(base, periodic=True),
        replace(base, whole=True),
        replace(base, start={"input": ("gpu",)}),
        replace(base, machine=machine(device=99)),
        replace(base, graph=replace(graph(), accounting=lt.Accounting.REPLACE)),
    ]
    hashes = {p.instance.sha256 for p in (base, *others)}
    assert len(hashes) == 6
    renamed = replace(base, machine=replace(machine(), name="another name"))
    assert renamed.instance.sha256 == base.instance.sha256
    assert base.instance.name == "pair on two tiers"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: object(), "found object, expected a Plan"),
        (lambda p: replace(plan(p), machine=machine(device=7)), "another machine"),
        (lambda p: replace(plan(p), graph_sha256="0" * 64), "another graph"),
        (lambda p: replace(plan(p), period=20), "found a plan with a period, expected none"),
    ],
)
def test_answers_to_other_questions_are_refused(change, message) -> None:  # type: ignore[no-untyped-def]
    problem = Placement(graph(), machine())
    with pytest.raises(lt.InstanceError, match=message):
        problem.read(change(problem))


def test_a_tier_without_a_way_there_or_back_is_refused() -> None:
    one_way = replace(machine(), channels=machine().channels[:1])
    with pytest.raises(lt.InstanceError, match="tier 'host': found no channel to the processors' tiers"):
        Placement(graph(), one_way)
    with pytest.raises(lt.InstanceError, match="tier 'host': found no channel from the processors' tiers"):
        Placement(graph(), replace(machine(), channels=machine().channels[1:]))


def test_start_names_tiers_of_the_machine() -> None:
    with pytest.raises(lt.InstanceError, match="start of kind 'input': found tier 'disk'"):
        Placement(graph(), machine(), start={"input": ("disk",)})
