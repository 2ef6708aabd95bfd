"""Mutated plans of makespan, distributed and streams: accepted is what the definitions allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.plan import Plan
from lowtide.models.problems.problem import Problem
from tests.effort import share
from tests.mutated_schedules import mutate
from tests.oracles.schedule_rules import end_of, faults
from tests.problems.distributed import problem_of as distributed_problem
from tests.problems.makespan import problem_of_identical, problem_with_kinds
from tests.solvers.streams.devices import question


def makespan(seed: int) -> lt.Makespan:
    return problem_of_identical(seed) if seed % 2 else problem_with_kinds(seed)


def on_devices(seed: int) -> lt.Streams:
    """Return a question of two or three devices, every other one with contention or synchronisations."""
    rng = Random(seed)
    problem = replace(question(seed, memory=seed % 3 == 0), devices=rng.choice((2, 2, 3)))
    if seed % 2:
        contention = rng.choice(("none", "proportional"))
        streams = rng.choice((1, 2, None))
        problem = replace(problem, contention=contention, sync_ns=rng.choice((0, 1, 2)), streams=streams)
    return problem


QUESTIONS: dict[str, tuple[Callable[[int], Problem], tuple[str, ...]]] = {
    "makespan": (makespan, ("auto",)),
    "distributed": (distributed_problem, ("heft",)),
    "streams": (on_devices, ("heft", "hios-lp", "hios-mr")),
}
"""Of each problem a random question, and methods, one of which mostly has a plan."""


def attack(name: str, seed: int, changes: int = 10) -> Counter[str]:
    """Hold the judge of a question against the definitions, on a plan and changes of it; count verdicts."""
    of, methods = QUESTIONS[name]
    rng, problem = Random(f"{name} {seed}"), of(seed)
    assert isinstance(problem, lt.Makespan | lt.Distributed | lt.Streams)
    graph, seen = problem.graph, Counter[str]()
    results = (lt.solve(problem, method, threads=1) for method in methods)
    result = next((x for x in results if x.plan is not None), None)
    if result is None:
        return seen
    assert result.plan is not None
    assert (faults(graph, result.plan), end_of(result.plan)) == (set(), result.objective), seed
    for _ in range(changes):
        what, changed = mutate(rng, graph, result.plan)
        where = (name, seed, what)
        if at_one_instant(changed):
            continue
        verdict = lt.verify(graph, changed, rerun=False, start_tiers={})
        if verdict.valid:
            seen["valid"] += 1
            assert faults(graph, changed, in_turn=False) == set(), where
            assert verdict.makespan == end_of(changed), where
        try:
            answer = problem.read(changed)
        except lt.InstanceError:
            seen["refused"] += 1
            continue
        judged = problem.judge(answer)  # type: ignore[arg-type]
        assert isinstance(judged.plan, Plan)
        assert starts(judged.plan) == starts(changed), where
        wrong = faults(graph, judged.plan)
        assert judged.objective == (None if wrong else end_of(judged.plan)), (where, wrong)
        seen["rejected" if wrong else "accepted"] += 1
        assert not verdict.valid or not wrong or "turns" in wrong, where
    return seen


def at_one_instant(plan: Plan) -> bool:
    """Return whether a tensor is sent twice in no time at one instant: in which order, no rule says."""
    sent = [(copy.tensor, copy.start) for copy in plan.copies if copy.start == copy.end]
    return len(sent) > len(set(sent))


def starts(plan: Plan) -> list[tuple[int, int]]:
    return sorted((run.op, run.start) for run in plan.runs)


def attacks(name: str, seeds: range) -> None:
    seen: Counter[str] = sum((attack(name, seed) for seed in seeds), Counter())
    assert min(seen[x] for x in ("valid", "refused", "accepted", "rejected")) > len(seeds) // 8, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_judges_accept_what_the_definitions_allow(name: str) -> None:
    attacks(name, range(share(200, least=40)))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_judges_accept_what_the_definitions_allow_on_more_questions(name: str) -> None:
    attacks(name, range(1000, 1000 + share(1000)))
