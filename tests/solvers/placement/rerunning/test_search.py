"""Ops may run again beside copies: limits, exhaustive search, and what the verifier refuses."""

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import recompute_data
from lowtide.models.errors import InstanceError, UsageError
from lowtide.models.machine import Access, Machine, Processor, Tier
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.returns import raise_by_returns, ways_of
from lowtide.solvers.placement.reductions.reruns import sequenced
from lowtide.solvers.placement.rerunning.search import in_reference_order
from tests.oracles.brute_jointly import fastest_jointly
from tests.problems.placement import working_set
from tests.solvers.placement.graphs import chain
from tests.solvers.placement.machines import two_tiers
from tests.solvers.placement.rerunning.second_runs import start_of, tiny


def time_of(problem: lt.Placement | lt.Recompute) -> int:
    """Return the objective; of problems without a plan more than any time."""
    found = lt.solve(problem, threads=1)
    assert found.bound is not None
    return 10**18 if found.objective is None else found.objective


def planned(problem: lt.Placement) -> lt.Plan:
    plan = lt.solve(problem, "planner", threads=1).plan
    assert plan is not None
    return plan


@pytest.mark.slow
def test_as_fast_as_exhaustive_search() -> None:
    joined = 0
    for seed in (5, 10, 12):  # those in which something must be decided
        problem = tiny(seed)
        best = fastest_jointly(problem.graph, problem.machine, start_of(problem))
        found = lt.solve(problem, threads=1)
        assert found.objective == best
        assert best is not None
        assert found.bound is not None
        assert found.bound <= best
        assert found.plan is not None
        joined += len(found.plan.runs) > len(problem.graph.ops) and bool(found.plan.copies)
    assert joined


@pytest.mark.slow
def test_limits() -> None:
    """No channel: recomputation. Slow second runs: placement. One more option never hurts."""
    for seed in (2, 4):
        rng = Random(seed)
        graph = chain(rng, 4)
        memory = working_set(graph) + rng.randint(0, 3)
        machine = two_tiers(memory, 10**9 // rng.choice((1, 2, 4)))
        one = replace(machine, tiers=machine.tiers[:1], channels=())
        anywhere = lt.Placement(graph, machine, start={}, recompute=True)
        again = lt.solve(lt.Recompute(graph, machine=one), threads=1)
        single = lt.solve(lt.Placement(graph, one, recompute=True), threads=1)
        assert (single.objective, single.bound, single.status) == (again.objective, again.bound, again.status)
        joint, alone = time_of(anywhere), time_of(replace(anywhere, recompute=False))
        either = alone if again.objective is None else min(again.objective, alone)
        assert joint <= either
        slow = replace(graph, ops=tuple(replace(op, duration_ns=10**6) for op in graph.ops))
        both, alone = (time_of(replace(anywhere, graph=slow, recompute=x)) for x in (True, False))
        assert both == alone


def test_what_the_verifier_refuses() -> None:
    graph = lt.load("gen:backprop-chain?l=2")
    problem = lt.Placement(graph, two_tiers(4, 10**9), start={}, recompute=True)
    runs = [0, 1, 2, 0, 3, 4]
    again = sequenced(graph, runs)
    alone = replace(problem, graph=again.graph, recompute=False)
    plan = again.of_first(planned(alone))
    verdict = lt.verify(graph, plan, rerun=True, start_tiers={})
    assert (verdict.valid, verdict.recomputed) == (True, 1)
    assert problem.judge(plan).objective == verdict.makespan

    def kinds(problem: lt.Placement, plan: lt.Plan) -> set[str]:
        return {v.kind for v in problem.judge(plan).violations}

    assert "repeated-run" in kinds(replace(problem, recompute=False), plan)
    in_time = sorted(plan.runs, key=lambda run: run.start)
    for k, run in enumerate(in_time):
        assert kinds(problem, replace(plan, runs=tuple(x for x in plan.runs if x != run)))
        if k != 3 and runs[k] != 4:  # two first runs change places
            other = in_time[k + 1 + (k == 2)]
            names = {run: other.op, other: run.op}
            assert kinds(
                problem, replace(plan, runs=tuple(replace(x, op=names.get(x, x.op)) for x in plan.runs))
            )
    for copy in plan.copies:
        assert kinds(problem, replace(plan, copies=tuple(x for x in plan.copies if x != copy)))


def test_first_runs_keep_the_order() -> None:
    """Two ops that do not depend on each other; the verifier takes both orders, the problem one."""
    graph = lt.load("catalogue:diamond")
    problem = lt.Placement(graph, two_tiers(None, 10**9), start={}, recompute=True)
    for runs, right in (([0, 1, 1, 2, 3], True), ([0, 1, 2, 1, 3], True), ([0, 2, 1, 2, 3], False)):
        plan = sequenced(graph, runs)
        alone = replace(problem, graph=plan.graph, recompute=False)
        found = problem.judge(plan.of_first(planned(alone)))
        assert {v.kind for v in found.violations} == (set() if right else {"order"})
    ordered = in_reference_order(graph)
    assert [op.after for op in ordered.ops] == [(), (0,), (1,), (2,)]


def test_who_refuses_second_runs() -> None:
    graph = lt.load("catalogue:diamond")
    with pytest.raises(InstanceError, match="found a period, expected a single run"):
        lt.Placement(graph, two_tiers(9, 10**9), periodic=True, recompute=True)
    with pytest.raises(UsageError, match="method belady: found recompute, expected a method that knows it"):
        lt.solve(lt.Placement(graph, two_tiers(9, 10**9), recompute=True), "belady")


def test_no_bound_is_above_exhaustive_search() -> None:
    above = 0
    for seed in (3, 5, 6, 10, 12):
        problem = tiny(seed)
        best = fastest_jointly(problem.graph, problem.machine, start_of(problem))
        context = Context(problem=problem, time_limit=10.0)
        raise_by_returns(problem, context, in_reference_order(problem.graph))
        assert best is not None
        assert context.bound is not None
        assert context.bound <= best
        above += context.bound > sum(op.duration_ns for op in problem.graph.ops)
    assert above


def test_a_cap_of_one_direction_is_none_of_both() -> None:
    problem = tiny(3)
    rate = problem.machine.channels[0].bytes_per_s
    into = lt.ChannelGroup(name="in", channels=(("host", "gpu"),), bytes_per_s=rate // 2)
    capped = replace(problem, machine=replace(problem.machine, groups=(into,)))
    ways = ways_of(capped, recompute_data(lt.Recompute(capped.graph), bundled=False))
    assert (ways.into, ways.out, ways.both) == (rate // 2, rate, 2 * rate)


def test_what_is_overwritten_before_it_is_read_need_not_be_there_at_first() -> None:
    """Recomputation has it in the memory at 0; a placement need not."""
    tensors = (
        lt.Tensor(name="in", nbytes=2, initial=True),
        lt.Tensor(name="old", nbytes=2, initial=True, final=True),
        lt.Tensor(name="made", nbytes=1),
    )
    ops = (
        lt.Op(name="a", reads=(0,), writes=(2,)),
        lt.Op(name="b", reads=(2,), writes=(1,)),
    )
    graph = lt.Graph(name="g", tensors=tensors, ops=ops)
    one = Machine.single(3)
    assert lt.solve(lt.Recompute(graph, machine=one), threads=1).status == "infeasible"
    found = lt.solve(lt.Placement(graph, one, recompute=True), threads=1)
    assert (found.status, found.objective) == ("optimal", 2)


@pytest.mark.parametrize("order", ["reference", "free"])
def test_without_channels_what_one_memory_cannot_hold_may_be_elsewhere(order: str) -> None:
    """Recomputation has all that is initial in the first tier; a placement may have it in another one."""
    weight = lt.Tensor(name="w", nbytes=5, kind="weight", initial=True, final=True)
    graph = lt.Graph(
        name="g",
        tensors=(weight, lt.Tensor(name="y", nbytes=1)),
        ops=(lt.Op(name="a", reads=(0,), writes=(1,)), lt.Op(name="b", reads=(1,))),
    )
    tiers = (Tier(name="gpu", capacity=3), Tier(name="host"))
    access = tuple(Access(tier=tier.name) for tier in tiers)
    machine = Machine(name="m", tiers=tiers, processors=(Processor(name="p", kind="gpu", tiers=access),))
    found = lt.solve(lt.Placement(graph, machine, start={}, recompute=True, order=order), threads=1)
    assert (found.status, found.objective) == ("optimal", 2)


def test_one_memory_that_recomputation_does_not_serve_is_that_of_placement_alone() -> None:
    graph = lt.load("catalogue:diamond")
    slow = Processor(name="p", kind="gpu", tiers=(Access(tier="gpu", bytes_per_s=10**8),))
    machine = Machine(name="slow", tiers=(Tier(name="gpu"),), processors=(slow,))
    problem = lt.Placement(graph, machine, start={})
    both, alone = (lt.solve(replace(problem, recompute=x), threads=1) for x in (True, False))
    assert alone.objective is not None
    assert both.objective == alone.objective
    assert "one memory" not in [turn.part for turn in both.parts]


def test_under_a_cap_of_both_directions_ops_run_again_all_the_same() -> None:
    """Copies are so slow that nothing is worth one; the planner does not know such a cap."""
    problem = replace(tiny(6), start={})
    machine, graph = problem.machine, in_reference_order(problem.graph)
    ways = tuple((c.src, c.dst) for c in machine.channels)
    slow = lt.ChannelGroup(name="both", channels=ways, bytes_per_s=10**6)
    found = lt.solve(replace(problem, machine=replace(machine, groups=(slow,))), threads=1)
    alone = lt.solve(lt.Recompute(graph, machine=Machine.single(machine.tiers[0].capacity)), threads=1)
    assert found.plan is not None
    assert len(found.plan.runs) > len(graph.ops)
    assert (found.status, found.objective) == ("optimal", alone.objective)
    assert found.bound_kind == "returns"
