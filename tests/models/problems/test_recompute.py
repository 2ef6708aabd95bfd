"""Problem `recompute`: actions and their plans, strategies on slides, exhaustive search, what runs again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.errors import InstanceError
from lowtide.models.lowering.actions import actions_of
from lowtide.models.problems.recompute import Action
from lowtide.models.verifier.verify import Verification
from tests.oracles.brute_recompute import Step, fastest_recomputation, fastest_steps
from tests.strategies import random_graph


def chain(l: int, accounting: str = "replace") -> lt.Graph:  # noqa: E741
    return lt.load(f"gen:backprop-chain?l={l}&accounting={accounting}")


STRATEGIES = {
    "F0K F1K F2K F3K F4K B5 B4 B3 B2 B1 B0": (6, 0),
    "F0K F1 F2 F3 F4 B5 F0K F1 F2 F3 B4 F0K F1 F2 B3 F0K F1 B2 F0K B1 B0": (3, 10),
    "F0K F1 F2K F3 F4 B5 F2K F3 B4 F2K B3 B2 F0K B1 B0": (4, 4),
    "F0K F1 F2 F3K F4 B5 F3K B4 B3 F0K F1K B2 B1 B0": (4, 3),
    "F0K F1 F2 F3 F4K B5 B4 F0K F1 F2 B3 F0K F1 B2 F0K B1 B0": (3, 6),
    "F0K F1 F2K F3 F4K B5 B4 F2K B3 B2 F0K B1 B0": (4, 2),
}
"""Strategies for five forwards: K keeps the operand of a forward; peak in cells and forwards run again."""


def slide_actions(text: str, l: int) -> list[Action]:  # noqa: E741
    """Return the actions of a strategy: what an op reads goes, unless a forward keeps it."""
    actions: list[Action] = []
    for word in text.split():
        i = int(word[1:].rstrip("K"))
        if word[0] == "F":
            actions.append(lt.Compute(i))
            if not word.endswith("K"):
                actions.append(lt.Discard(i, "memory"))
        else:
            actions += [lt.Compute(2 * l - i), lt.Discard(i, "memory")]
            if i < l:
                actions.append(lt.Discard(2 * l - i, "memory"))
    return actions


@pytest.mark.parametrize("text", STRATEGIES)
def test_strategies_on_slides_replay(text: str) -> None:
    problem = lt.Recompute(chain(5))
    judged = problem.judge(problem.read(slide_actions(text, 5)))
    assert not judged.violations
    verdict = judged.verification
    assert isinstance(verdict, Verification)
    assert (verdict.peaks["memory"], verdict.recomputed) == STRATEGIES[text]
    assert judged.objective == 11 + verdict.recomputed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accounting", "least"),
    [("replace", {2: None, 3: 6, 4: 2, 5: 1, 6: 0}), ("coexist", {3: None, 4: 6, 5: 2})],
)
def test_five_forwards_again_by_peak(accounting: str, least: dict[int, int | None]) -> None:
    graph = chain(5, accounting)
    for memory, again in least.items():
        best = fastest_recomputation(graph, lt.Machine.single(memory))
        assert best == (None if again is None else 11 + again)


def two_tiers(rng: Random, memory: int) -> lt.Machine:
    channels = tuple(
        lt.Channel(src=a, dst=b, bytes_per_s=rng.choice((10**9, 4 * 10**8)), latency_ns=rng.randint(0, 2))
        for a, b in (("memory", "disk"), ("disk", "memory"))
    )
    return lt.Machine(
        tiers=(lt.Tier(name="memory", capacity=memory), lt.Tier(name="disk", capacity=rng.choice((None, 3)))),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=channels,
    )


def from_steps(steps: list[Step], tiers: list[str]) -> list[Action]:
    actions: list[Action] = []
    for what, a, b, more in steps:
        if what == "run":
            actions.append(lt.Compute(a, b))
            actions += [lt.Discard(t, tiers[0]) for t in more]
        elif what == "move":
            actions.append(lt.Transfer(a, tiers[b], tiers[more[0]]))
        else:
            actions.append(lt.Discard(a, tiers[b]))
    return actions


def small_problem(seed: int, *, single_writer: bool | None = None) -> lt.Recompute:
    rng = Random(seed)
    graph = random_graph(rng, min_ops=2, max_ops=5, max_tensors=5, max_nbytes=3, single_writer=single_writer)
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    memory = least + rng.choice((0, 0, 1, 2))
    machine = two_tiers(rng, memory) if seed % 3 == 0 else lt.Machine.single(memory)
    return lt.Recompute(graph, machine=machine)


@pytest.mark.slow
def test_exhaustive_steps_verify_and_sequences_of_ops_are_never_faster() -> None:
    again = 0
    for seed in range(100):
        problem = small_problem(seed)
        graph, rng = problem.graph, Random(seed)
        found = fastest_steps(graph, problem.machine)
        if problem.impossible() is not None:
            assert found is None, f"seed {seed}"
        if found is not None and len(problem.machine.tiers) == 1:
            judged = problem.judge(problem.read(from_steps(found[1], ["memory"])))
            assert not judged.violations, f"seed {seed}: {judged.violations[0]}"
            assert judged.objective == found[0], f"seed {seed}"
            assert found[0] >= problem.least_time
            again += judged.objective > problem.least_time
        for _ in range(40):
            n = len(graph.ops)
            ops = sorted([*range(n), *(rng.randrange(n) for _ in range(rng.randint(0, 2)))])
            if rng.random() < 0.5:
                rng.shuffle(ops)
            judged = problem.judge(problem.read(ops))
            if not judged.violations:
                assert found is not None, f"seed {seed}: {ops}"
                assert judged.objective is not None
                assert judged.objective >= found[0], f"seed {seed}: {ops}"
    assert again > 0


@pytest.mark.slow
def test_exhaustive_steps_through_two_tiers_verify() -> None:
    moved = 0
    for seed in range(0, 120, 3):
        problem = small_problem(seed, single_writer=True)  # so that no copy elsewhere becomes stale
        found = fastest_steps(problem.graph, problem.machine)
        if found is None:
            continue
        judged = problem.judge(problem.read(from_steps(found[1], ["memory", "disk"])))
        assert not judged.violations, f"seed {seed}: {judged.violations[0]}"
        assert judged.objective == found[0]
        assert judged.plan is not None
        moved += bool(judged.plan.copies)
    assert moved > 0


@pytest.mark.slow
def test_actions_of_a_plan_make_that_plan() -> None:
    for seed in range(60):
        problem = small_problem(seed, single_writer=True)
        found = fastest_steps(problem.graph, problem.machine)
        if found is not None:
            plan = problem.lower(problem.read(from_steps(found[1], ["memory", "disk"])))
            again = problem.lower(actions_of(plan, problem.graph))
            assert (again.runs, again.copies) == (plan.runs, plan.copies)
            assert sorted(again.frees, key=repr) == sorted(plan.frees, key=repr)
            starts = {x.kind: ("memory",) for x in problem.graph.tensors if x.initial}
            several = len(problem.machine.tiers) > 1
            assert plan.start_tiers == again.start_tiers == (starts if several else None)
            assert (
                lt.verify(problem.graph, again, rerun=True).valid
                == lt.verify(problem.graph, plan, rerun=True).valid
            )


def test_what_is_freed_once_it_is_copied_stays_behind_the_copy() -> None:
    graph = lt.load("gen:chain?n=2")
    steps: tuple[Action, ...] = (lt.Compute(0), lt.Transfer(0, "memory", "disk"), lt.Discard(0, "memory"))
    steps += (lt.Transfer(0, "disk", "memory"), lt.Discard(0, "disk"), lt.Compute(1))
    problem = lt.Recompute(graph, machine=two_tiers(Random(0), 10))
    assert actions_of(problem.lower(problem.read(steps)), graph) == steps


def test_answers_that_are_none_are_refused() -> None:
    problem = lt.Recompute(chain(2), memory=4)
    for item, words in (
        ("F0", "found str"),
        ([9], r"found op 9, expected an index in \[0, 5\)"),
        ([lt.Compute(0, 1)], "action 0: found Compute"),
        ([lt.Transfer(0, "memory", "disk")], "and a channel"),
        ([lt.Discard(0, "disk")], "and a tier"),
    ):
        with pytest.raises(InstanceError, match=words):
            problem.read(item)
    with pytest.raises(InstanceError, match="found -1"):
        lt.Recompute(chain(2), memory=-1)
    with pytest.raises(InstanceError, match="found 4 processors"):
        lt.Recompute(chain(2), machine=lt.load_machine("v100x4-16g-shared-pcie3"))


def without_contents_at_the_start(accounting: lt.Accounting) -> lt.Graph:
    """Ten bytes that no op finds, or that the first run finds and may release at once."""
    x, y, z = (lt.Tensor(name=name, nbytes=n, initial=n > 1) for name, n in (("x", 10), ("y", 5), ("z", 1)))
    first = (0, 1) if accounting is lt.Accounting.REPLACE else (1,)
    ops = (lt.Op(name="a", reads=first, writes=(2,)), lt.Op(name="b", reads=(2,), writes=(0,)))
    return lt.Graph(name="begin", tensors=(x, y, z), ops=ops, accounting=accounting)


@pytest.mark.parametrize("accounting", lt.Accounting)
def test_what_is_there_at_the_start_must_fit_though_it_is_discarded_at_once(
    accounting: lt.Accounting,
) -> None:
    graph = without_contents_at_the_start(accounting)
    least = 15
    for memory in (11, least - 1, least):
        problem = lt.Recompute(graph, memory=memory)
        judged = problem.judge(problem.read([0, 1]))
        assert [v.kind for v in judged.violations] == ["capacity"] * (memory < least)
        assert (problem.impossible() is None) == (memory == least)
        assert (judged.objective is None) == (memory < least)
    faults = lt.Recompute(graph, 14).judge((lt.Compute(0), lt.Compute(1))).violations
    assert any("holds 15 bytes at the start, expected at most" in fault.message for fault in faults)
    curve = lt.sweep_memory(lt.Recompute(graph), 4)
    assert (curve.least_memory, [p.memory for p in curve.points]) == (least, [least])


def test_ops_that_the_one_processor_cannot_run_are_refused() -> None:
    graph = chain(2)
    kinds = [replace(op, modes=(lt.Mode(processors=("gpu",)),)) for op in graph.ops]
    assert lt.Recompute(replace(graph, ops=tuple(kinds))).machine.processors[0].kind == "gpu"
    kinds[1] = replace(kinds[1], modes=(lt.Mode(processors=("link",)),))
    with pytest.raises(InstanceError, match=r"op 1 .*: found kind link, expected gpu: all ops run on one"):
        lt.Recompute(replace(graph, ops=tuple(kinds)))


def test_specification_says_memory_slots_and_machine() -> None:
    spec = "gen:backprop-chain?l=5&accounting=replace"
    assert load_problem(lt.Recompute, spec, slots=2).memory == 4
    assert load_problem(lt.Recompute, "gen:backprop-chain?l=5", slots=2).memory == 5
    problem = load_problem("recompute", spec, memory="1KiB", machine="a100-40g-pcie3")
    assert isinstance(problem, lt.Recompute)
    assert [t.capacity for t in problem.machine.tiers] == [1024, 128 << 30, None]
    with pytest.raises(InstanceError, match="expected one of them"):
        load_problem(lt.Recompute, spec, slots=2, memory=4)
    with pytest.raises(InstanceError, match="different sizes"):
        load_problem(lt.Recompute, "gen:backprop-chain?l=5&largest=20", slots=2)
