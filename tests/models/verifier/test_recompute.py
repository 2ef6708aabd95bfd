"""Plans that run ops again, discard and move tensors to a slower tier, broken in every way: all rejected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import pytest

import lowtide as lt
from lowtide.models.graph import KINDS
from lowtide.models.plan import Copy, Free, Plan, Run
from lowtide.models.verifier.verdict import Verification
from tests.oracles.brute_recompute import fastest_recomputation

T = TypeVar("T")

DISK = lt.Machine(
    tiers=(lt.Tier(name="memory"), lt.Tier(name="disk")),
    processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
    channels=(
        lt.Channel(src="memory", dst="disk", bytes_per_s=10**9, latency_ns=1),
        lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
    ),
)

PROBLEMS = {
    "again": (lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=4), "hetero-chain"),
    "moved": (
        lt.Recompute(lt.load("gen:backprop-chain?l=3&forward=9&backward=9"), memory=4, machine=DISK),
        "poet",
    ),
    "both": (
        lt.Recompute(
            lt.load("gen:backprop-chain?l=3&largest=3&forward=6&backward=9&spread=2&seed=5"),
            memory=8,
            machine=DISK,
        ),
        "poet",
    ),
}


@pytest.fixture(scope="module", params=sorted(PROBLEMS))
def fastest(request: pytest.FixtureRequest) -> tuple[lt.Recompute, Plan]:
    """A problem and a fastest plan of it, with accounting ``coexist``."""
    problem, method = PROBLEMS[request.param]
    result = lt.solve(problem, method, time_limit=None, threads=1)
    assert result.plan is not None
    assert result.objective == fastest_recomputation(problem.graph, problem.machine)
    return problem, result.plan


def judged(problem: lt.Recompute, plan: Plan) -> Verification:
    return lt.verify(problem.graph, plan, rerun=True, start_tiers=dict.fromkeys(KINDS, (problem.fast,)))


def kinds(problem: lt.Recompute, plan: Plan) -> set[str]:
    return {v.kind for v in judged(problem, plan).violations}


def each(items: tuple[T, ...]) -> Iterator[tuple[int, tuple[T, ...]]]:
    """Yield the place of each item, and the items without it."""
    for k in range(len(items)):
        yield k, items[:k] + items[k + 1 :]


@pytest.mark.slow
def test_no_action_of_a_fastest_plan_can_be_left_out(fastest: tuple[lt.Recompute, Plan]) -> None:
    problem, plan = fastest
    assert not kinds(problem, plan)
    for k, runs in each(plan.runs):
        found = kinds(problem, replace(plan, runs=runs))
        once = sum(run.op == plan.runs[k].op for run in plan.runs) == 1
        assert found & {"read", "copy-source", "final", "missing-run"}, plan.runs[k]
        assert ("missing-run" in found) == once
    for k, copies in each(plan.copies):
        assert kinds(problem, replace(plan, copies=copies)) & {"read", "copy-source"}, plan.copies[k]


@pytest.mark.slow
def test_nothing_is_discarded_a_nanosecond_too_early(fastest: tuple[lt.Recompute, Plan]) -> None:
    problem, plan = fastest
    for k, free in enumerate(plan.frees):
        if free.time == 0:
            continue
        frees = (*plan.frees[:k], replace(free, time=free.time - 1), *plan.frees[k + 1 :])
        verdict = judged(problem, replace(plan, frees=frees))
        found = {v.kind for v in verdict.violations if v.tensor == free.tensor}
        assert found & {"read", "copy-source", "write-conflict", "copy-target", "free"}, free


def test_no_byte_of_capacity_is_too_much(fastest: tuple[lt.Recompute, Plan]) -> None:
    problem, plan = fastest
    for k, (tier, peak) in enumerate(judged(problem, plan).peaks.items()):
        if not peak:
            continue
        for capacity, expected in ((peak, set[str]()), (peak - 1, {"capacity"})):
            tiers = list(plan.machine.tiers)
            tiers[k] = lt.Tier(name=tier, capacity=capacity)
            smaller = replace(plan, machine=replace(plan.machine, tiers=tuple(tiers)))
            assert kinds(problem, smaller) == expected
            assert {v.tier for v in judged(problem, smaller).violations} <= {tier}


def test_no_time_is_saved_by_shorter_or_overlapping_actions(fastest: tuple[lt.Recompute, Plan]) -> None:
    problem, plan = fastest
    for k, run in enumerate(plan.runs):
        for change in (-1, 1):
            changed = replace(run, end=run.end + change)
            if changed.end > changed.start:
                runs = (*plan.runs[:k], changed, *plan.runs[k + 1 :])
                assert "duration" in kinds(problem, replace(plan, runs=runs))
    for k, copy in enumerate(plan.copies):
        copies = (*plan.copies[:k], replace(copy, end=copy.end - 1), *plan.copies[k + 1 :])
        assert kinds(problem, replace(plan, copies=copies)) & {"channel", "channel-rate"}
    for a, b in pairwise(sorted(plan.runs, key=lambda run: run.start)):
        runs = tuple(
            run if run != b else replace(b, start=a.start, end=a.start + b.end - b.start) for run in plan.runs
        )
        assert "processor-overlap" in kinds(problem, replace(plan, runs=runs))


def test_the_objective_is_the_time_of_all_actions(fastest: tuple[lt.Recompute, Plan]) -> None:
    problem, plan = fastest
    verdict = judged(problem, plan)
    actions: list[Run | Copy] = [*plan.runs, *plan.copies]
    assert verdict.makespan == sum(action.end - action.start for action in actions)
    assert problem.evaluate(problem.read(plan)) == verdict.makespan
    assert verdict.recomputed == len(plan.runs) - len(problem.graph.ops)
    assert verdict.stall == sum(copy.end - copy.start for copy in plan.copies)
    later = replace(plan, runs=tuple(replace(run, start=run.start + 5, end=run.end + 5) for run in plan.runs))
    assert judged(problem, later).makespan >= verdict.makespan


def updating() -> lt.Graph:
    """x is read, updated in place, and read again."""
    tensors = (
        lt.Tensor(name="x", nbytes=2),
        lt.Tensor(name="y", nbytes=1),
        lt.Tensor(name="z", nbytes=1, final=True),
    )
    ops = (
        lt.Op(name="make", writes=(0,)),
        lt.Op(name="look", reads=(0,), writes=(1,)),
        lt.Op(name="update", reads=(0,), writes=(0,)),
        lt.Op(name="end", reads=(0, 1), writes=(2,)),
    )
    return lt.Graph(name="updating", tensors=tensors, ops=ops)


def carried_out(
    *actions: lt.Compute | lt.Transfer | lt.Discard, capacity: int | None = None
) -> tuple[lt.Recompute, Plan]:
    tiers = (lt.Tier(name="memory"), lt.Tier(name="disk", capacity=capacity))
    problem = lt.Recompute(updating(), machine=replace(DISK, tiers=tiers))
    return problem, problem.lower(problem.read(actions))


OUT, BACK = lt.Transfer(0, "memory", "disk"), lt.Transfer(0, "disk", "memory")
MAKE, LOOK, UPDATE, END = (lt.Compute(i) for i in range(4))
DROP, DROP_Y = lt.Discard(0, "memory"), lt.Discard(1, "memory")


def test_the_updating_graph_has_valid_plans() -> None:
    for actions in (
        (MAKE, LOOK, UPDATE, END),
        (MAKE, UPDATE, DROP, MAKE, LOOK, UPDATE, END),
        (MAKE, LOOK, DROP_Y, LOOK, UPDATE, END),
        (MAKE, OUT, LOOK, DROP, BACK, UPDATE, END),
        (MAKE, LOOK, UPDATE, OUT, DROP, BACK, END),
    ):
        problem, plan = carried_out(*actions)
        assert not judged(problem, plan).violations, actions


@pytest.mark.parametrize(
    ("actions", "kind", "words"),
    [
        (
            (MAKE, LOOK, UPDATE, DROP_Y, END),
            "read",
            "reads tensor 1 'y' in version 1, but tensor 1 'y' is not in",
        ),
        (
            (MAKE, DROP, LOOK, UPDATE, END),
            "read",
            "reads tensor 0 'x' in version 1, but tensor 0 'x' is not in",
        ),
        (
            (MAKE, LOOK, UPDATE, DROP_Y, LOOK, END),
            "read",
            "in version 1, but tensor 0 'x' is version 2 in tier",
        ),
        (
            (MAKE, LOOK, UPDATE, UPDATE, END),
            "read",
            "op 2 'update', which starts at 3 ns, reads tensor 0 'x' in v",
        ),
        (
            (MAKE, LOOK, UPDATE, MAKE, END),
            "read",
            "reads tensor 0 'x' in version 2, but tensor 0 'x' is version 1",
        ),
        ((MAKE, OUT, MAKE, DROP, BACK, LOOK, UPDATE, END), "copy-source", "is stale in tier 'disk'"),
        ((MAKE, OUT, LOOK, UPDATE, DROP, BACK, END), "copy-source", "is stale in tier 'disk'"),
        ((MAKE, LOOK, DROP, UPDATE, BACK, END), "copy-source", "is not in tier 'disk'"),
        ((MAKE, LOOK, UPDATE, DROP, DROP, END), "free", "is not in tier 'memory', expected it allocated"),
        ((MAKE, LOOK, UPDATE, END, lt.Discard(2, "memory")), "final", "tensor 2 'z'"),
        ((MAKE, LOOK, UPDATE), "missing-run", "op 3 'end' never runs"),
    ],
)
def test_wrong_versions_and_places_are_named(
    actions: tuple[lt.Compute | lt.Transfer | lt.Discard, ...], kind: str, words: str
) -> None:
    problem, plan = carried_out(*actions)
    assert any(v.kind == kind and words in v.message for v in judged(problem, plan).violations), [
        str(v) for v in judged(problem, plan).violations
    ]
    assert problem.judge(actions).objective is None


def test_a_slower_tier_that_is_too_small_is_named() -> None:
    problem, plan = carried_out(MAKE, OUT, LOOK, DROP, BACK, UPDATE, END, capacity=1)
    (fault,) = judged(problem, plan).violations
    assert str(fault).startswith(
        "capacity: tier 'disk' holds 2 bytes from 1 ns, expected at most its capacity 1"
    )


def test_copies_at_once_on_one_channel_are_named() -> None:
    problem, plan = carried_out(MAKE, LOOK, OUT, lt.Transfer(1, "memory", "disk"), UPDATE, END)
    assert not judged(problem, plan).violations
    first, second = plan.copies
    moved = replace(second, start=first.start, end=first.start + second.end - second.start)
    (fault,) = judged(problem, replace(plan, copies=(first, moved))).violations
    assert (fault.kind, fault.resource) == ("channel-rate", "memory->disk")
    with pytest.raises(lt.InstanceError, match="two actions at once"):
        problem.read(replace(plan, copies=(first, moved)))


def test_a_copy_that_has_not_arrived_is_not_read() -> None:
    problem, plan = carried_out(MAKE, OUT, LOOK, DROP, BACK, UPDATE, END)
    early = tuple(
        replace(run, start=run.start - 1, end=run.end - 1) if run.op == 2 else run for run in plan.runs
    )
    found = judged(problem, replace(plan, runs=early)).violations
    assert any(v.kind == "read" and "is stale in tier 'memory'" in v.message for v in found)


def test_ops_wait_for_those_that_must_have_run_once() -> None:
    tensors = (lt.Tensor(name="x", nbytes=1),)
    ops = (lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,), after=(0,)), lt.Op(name="c", after=(1,)))
    problem = lt.Recompute(lt.Graph(name="after", tensors=tensors, ops=ops), memory=1)
    assert problem.judge(problem.read([0, 1, 2, 0, 1])).objective == 5
    (fault,) = problem.judge(problem.read([0, 2, 1])).violations
    assert (fault.kind, fault.op, fault.other) == ("precedence", 2, 1)


def test_a_discard_of_the_copy_elsewhere_is_none_of_the_operand() -> None:
    problem, plan = carried_out(MAKE, OUT, LOOK, DROP, BACK, UPDATE, END)
    elsewhere = tuple(Free(free.tensor, "disk", free.time) for free in plan.frees)
    found = judged(problem, replace(plan, frees=elsewhere)).violations
    assert {v.kind for v in found} == {"copy-source", "read"}


def test_plans_start_in_the_fast_memory_alone(fastest: tuple[lt.Recompute, Plan]) -> None:
    problem, plan = fastest
    slower = [tier.name for tier in plan.machine.tiers[1:]]
    for k, entry in enumerate(plan.start):
        for tier in slower:
            start = (*plan.start[:k], replace(entry, tier=tier), *plan.start[k + 1 :])
            assert "start" in kinds(problem, replace(plan, start=start))
        assert "read" in kinds(problem, replace(plan, start=plan.start[:k] + plan.start[k + 1 :]))
