"""Streams whose ops run as soon as they can: lists, contention, memory, and what `auto` proves."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, permutations
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.streams import synchronisations
from lowtide.solvers.context import Context
from lowtide.solvers.streams.bounds import critical_path
from lowtide.solvers.streams.lists import lios
from lowtide.solvers.streams.pieces import offer_held, solve_by_makespan
from tests.effort import seeds
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_makespan import fastest_schedule
from tests.oracles.brute_parallel import least_critical_path, most_memory
from tests.solvers.streams.events import question
from tests.solvers.streams.stages import with_shares
from tests.strategies import random_graph

EVENTS = ("auto", "matching", "nimble", "lios", "opara", "asap", "sequential")


@pytest.mark.parametrize("seed", seeds(300))
def test_every_method_keeps_to_the_question(seed: int) -> None:
    problem = question(seed)
    graph = problem.graph
    least = max(critical_path(problem), -(-problem.area // 4) if problem.contention != "none" else 0)
    for method in EVENTS:
        result = lt.solve(problem, method, threads=1)
        assert result.status != "failed", result.detail
        if result.objective is None:
            continue
        assert result.objective >= least
        assert result.bound is not None
        assert result.bound <= result.objective
        assert result.plan is not None
        answer = problem.read(result.plan)
        assert isinstance(answer, lt.StreamOrder)
        assert len(answer.streams) <= (problem.streams or len(graph.ops))
        if problem.contention == "proportional" and not problem.sync_ns and problem.memory is None:
            assert result.objective <= critical_path(problem) + -(-problem.area // 4) + 2 * len(graph.ops)
        if problem.memory is not None:
            assert result.edges is not None
            assert most_memory(graph, set(result.edges)) <= problem.memory


@pytest.mark.parametrize("seed", seeds(60))
def test_without_contention_auto_proves_the_fastest_schedule(seed: int) -> None:
    problem = replace(question(seed), contention="none", sync_ns=0, memory=None)
    known = fastest_schedule(problem.graph, problem.streams or len(problem.graph.ops), None)
    result = lt.solve(problem, threads=1)
    assert (str(result.status), result.objective) == ("optimal", known)


@pytest.mark.parametrize(
    ("name", "streams", "longest", "bottom"),
    [
        ("squeezenet", 2, 436_650, 436_650),
        ("inception_v3", 2, 2_909_928, 2_457_546),
        ("inception_v3", 4, 2_310_759, 2_310_759),
        ("randwire_large", 2, 1_978_919, 1_756_334),
        ("randwire_large", 4, 1_227_196, 1_106_251),
        ("nasnet_large", 2, 4_532_380, 4_210_400),
        ("nasnet_large", 4, 3_400_660, 3_013_633),
    ],
)
def test_lists_of_published_networks(name: str, streams: int, longest: int, bottom: int) -> None:
    problem = lt.Streams(lt.load(f"catalogue:ios/{name}"), streams=streams)
    for priority, known in (("longest", longest), ("bottom", bottom)):
        assert problem.evaluate(problem.read(lios(problem.graph, streams, priority))) == known


@pytest.mark.parametrize(
    ("name", "sequential", "nimble", "four", "least"),
    [
        ("inception_v3", 4_347_815, 2_324_072, 2_324_072, 2_310_759),
        ("randwire_large", 3_209_862, 1_475_488, 1_465_290, 1_212_507),
        ("nasnet_large", 8_304_170, 4_533_224, 4_336_846, 3_867_854),
        ("squeezenet", 533_630, 462_075, 462_075, 436_650),
    ],
)
def test_proportional_contention_on_published_networks(
    name: str, sequential: int, nimble: int, four: int, least: int
) -> None:
    # Events are put off to whole nanoseconds here: at most one for each start and end.
    problem = lt.Streams(lt.load(f"catalogue:ios/{name}"), contention="proportional")
    slack = len(problem.graph.ops)
    assert max(critical_path(problem), -(-problem.area // problem.device.parts)) in (least, least + 1)
    for method, known in (("sequential", sequential), ("nimble", nimble)):
        result = lt.solve(problem, method, threads=1)
        assert result.objective is not None
        assert known <= result.objective <= known + slack
        assert result.bound is not None
        assert result.bound >= least
    result = lt.solve(replace(problem, streams=4), "lios", threads=1)
    assert result.objective is not None
    assert four <= result.objective <= four + slack


@pytest.mark.slow
def test_nasnet_within_22_megabytes() -> None:
    problem = lt.Streams(lt.load("catalogue:ios/nasnet_large"), memory=22_000_000)
    context = Context(problem=problem)
    offer_held(problem, context, "respect-order", 22_000_000)
    assert context.incumbent == 3_080_092  # 3,111,755 from another order of the same peak
    judged = problem.judge(context.answer)
    assert judged.objective == 3_080_092
    assert isinstance(context.answer, lt.StreamOrder)
    assert context.answer.flow.value() <= 22_000_000


def test_of_equally_fast_streams_those_with_the_fewest_synchronisations_are_taken() -> None:
    graph = lt.load("catalogue:ios/squeezenet")
    for memory in (None, 10_067_200):
        problem = lt.Streams(graph, memory=memory)
        result = lt.solve(problem, threads=1)
        answer = problem.read(result.plan)
        assert isinstance(answer, lt.StreamOrder)
        waits = len(synchronisations(graph, answer.streams, result.edges or ()))
        assert (result.objective, len(answer.streams), waits) == (436_650, 2, 20)


def test_a_plan_is_read_as_the_streams_that_it_runs() -> None:
    problem = lt.Streams(lt.load("catalogue:ios/squeezenet"), contention="proportional")
    result = lt.solve(problem, "nimble", threads=1)
    again = lt.solve(problem, "sequential", hint=result.plan, threads=1)
    assert again.objective == result.objective
    staged = replace(problem, contention="fluid")
    stages = lt.solve(staged, "ios", threads=1)
    assert staged.evaluate(staged.read(stages.plan)) == stages.objective


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ([[0, 1], [2]], "expected each of 4 once"),
        ([[0, 1, 2, 3], [0]], "expected each of 4 once"),
        ([[3, 0], [1], [2]], "cycle"),
        ([[0], [1], [2], [3]], "expected at most 3"),
        (5, "expected a Plan"),
        (lt.Stages(stages=()), "expected StreamOrder"),
    ],
)
def test_what_is_no_answer(item: object, words: str) -> None:
    problem = lt.Streams(lt.load("catalogue:diamond"), streams=3)
    with pytest.raises(lt.InstanceError, match=words):
        problem.read(item)


@pytest.mark.parametrize(
    "item",
    [
        [[0.7, 1, 2, 3]],
        ["0123"],
        lt.StreamOrder(streams=5),  # type: ignore[arg-type]
        lt.StreamOrder(streams=((0.0, 1, 2, 3),)),  # type: ignore[arg-type]
        lt.StreamOrder(streams=((0, 1, 2, 3),), waits=5),  # type: ignore[arg-type]
        lt.StreamOrder(streams=((0, 1, 2, 3),), waits=((0, 1, 2),)),  # type: ignore[arg-type]
        lt.StreamOrder(streams=((0, 1, 2, 3),), waits=(("a", 1),)),  # type: ignore[arg-type]
        lt.StreamOrder(streams=((0, 1, 2, 3),), flow=None),  # type: ignore[arg-type]
    ],
)
def test_answers_of_other_things_than_integers(item: object) -> None:
    with pytest.raises(lt.InstanceError, match="expected a"):
        lt.Streams(lt.load("catalogue:diamond")).read(item)


@pytest.mark.parametrize("contention", ["proportional", "fluid"])
@pytest.mark.parametrize(
    "change", [{"op": "x"}, {"op": 9}, {"start": None}, {"processor": "s9"}, {"processor": []}]
)
def test_plans_that_are_none_are_not_read(contention: str, change: dict[str, Any]) -> None:
    problem = lt.Streams(lt.load("catalogue:diamond"), contention=contention)
    plan = lt.solve(problem, threads=1).plan
    assert plan is not None
    changed = replace(plan, runs=(replace(plan.runs[0], **change), *plan.runs[1:]))
    with pytest.raises(lt.InstanceError, match="expected"):
        problem.read(changed)
    if contention == "fluid":
        for stages in ((), 5, ("a",)):
            with pytest.raises(lt.InstanceError, match="expected"):
                problem.read(replace(plan, stages=stages))  # type: ignore[arg-type]


def test_empty_streams_and_stages_do_not_count() -> None:
    problem = lt.Streams(lt.load("catalogue:diamond"), streams=1)
    assert problem.read([[], [0, 1, 2, 3], []]) == lt.StreamOrder(streams=((0, 1, 2, 3),))
    staged = replace(problem, contention="fluid")
    assert staged.read([[[0, 1], []], [], [[2, 3]]]) == lt.Stages(stages=(((0, 1),), ((2, 3),)))
    assert staged.judge(staged.read([[[0, 1], []], [], [[2, 3]]])).objective == 4


def test_waits_that_hold_the_memory_are_counted() -> None:
    ops = (lt.Op(name="a", workspace=3), lt.Op(name="b", workspace=3))
    problem = lt.Streams(lt.Graph(name="two", tensors=(), ops=ops), memory=3)
    answer = lt.solve(replace(problem, memory=None), "matching", threads=1).plan
    assert answer is not None
    from lowtide.solvers.streams.memory import with_flow

    judged = problem.judge(with_flow(problem, problem.read(answer)))
    assert judged.objective == 2
    assert ("synchronisations", 1, "1") in problem.facts(judged)


@pytest.mark.parametrize("contention", ["none", "proportional", "fluid", "half-serial"])
def test_less_memory_than_an_op_needs_is_infeasible(contention: str) -> None:
    graph = lt.Graph(name="two", tensors=(), ops=(lt.Op(name="a", workspace=3), lt.Op(name="b", workspace=2)))
    result = lt.solve(lt.Streams(graph, contention=contention, memory=2), threads=1)
    assert result.status == "infeasible"
    kept = lt.Graph(name="kept", tensors=(lt.Tensor(name="x", nbytes=3, initial=True, final=True),), ops=())
    staged = ("ios", "ios-cpsat", "tenants") if contention in ("fluid", "half-serial") else ("sequential",)
    for method in ("auto", *staged):
        result = lt.solve(lt.Streams(kept, contention=contention, memory=2), method, threads=1)
        assert result.status == "infeasible"


@pytest.mark.parametrize("seed", seeds(60))
def test_less_than_every_order_needs_is_infeasible_and_nothing_else_is(seed: int) -> None:
    rng = Random(seed)
    graph = with_shares(random_graph(rng, max_ops=4, max_duration=9), rng)
    before = must_precede(graph)
    orders = [p for p in permutations(range(len(graph.ops))) if not {*combinations(p[::-1], 2)} & before]
    least = min(most_memory(graph, {*combinations(order, 2)}) for order in orders)
    for memory in {least, max(0, least - 1)}:
        problem = lt.Streams(graph, memory=memory, contention=rng.choice(("none", "proportional")))
        for method in ("sequential", "auto"):
            result = lt.solve(problem, method, threads=1)
            assert (result.status == "infeasible") == (memory < least)
            assert (result.objective is None) == (memory < least)


@pytest.mark.parametrize("seed", seeds(40))
def test_within_a_memory_auto_proves_nothing_beyond_enumeration(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, max_ops=4, max_duration=9)
    graph = replace(graph, ops=tuple(replace(op, modes=()) for op in graph.ops))
    problem = lt.Streams(graph, memory=rng.randint(0, max(1, most_memory(graph))))
    assert problem.memory is not None
    known = least_critical_path(graph, problem.memory)
    result = lt.solve(problem, threads=1)
    if known is None:
        assert result.objective is None
        return
    assert result.status != "infeasible"
    assert result.bound is not None
    assert result.bound <= known
    if result.status == "optimal":
        assert result.objective == known


def test_stages_that_break_the_precedence() -> None:
    problem = lt.Streams(lt.load("catalogue:diamond"), contention="fluid")
    for stages in ([[[0]], [[1], [3]], [[2]]], [[[0], [1]], [[2]], [[3]]]):
        with pytest.raises(lt.InstanceError, match="must precede"):
            problem.read(stages)


def test_streams_wait_for_each_other() -> None:
    problem = lt.Streams(lt.load("catalogue:diamond"), sync_ns=5)
    answer = problem.read([[0, 1, 3], [2]])
    judged = problem.judge(answer)
    assert judged.objective == 13
    assert judged.plan is not None
    waits = [a.end for a, b in pairwise(sorted(judged.plan.runs, key=lambda run: run.start))]
    assert waits[0] == 1


@pytest.mark.slow
def test_a_question_without_a_memory_is_not_answered_worse_than_one_with_it() -> None:
    """Edges that keep to less memory put ops one after another that slow each other down."""
    bettered = 0
    for seed in range(3):
        graph = with_shares(lt.load(f"gen:randwire?n=24&seed={seed}"), Random(seed))
        least = sequential_memory(graph).reference_peak
        free = lt.Streams(graph, contention="proportional")
        found = lt.solve(free, threads=1)
        held = lt.solve(replace(free, memory=least * 3 // 2), threads=1)
        assert found.objective is not None
        assert held.objective is not None
        assert found.objective <= held.objective, seed
        bettered += any(
            turn.part == "edges by rule" and turn.before[0] != turn.after[0] for turn in found.parts
        )
    assert bettered


def test_schedules_of_graphs_whose_followers_take_gigabytes_are_not_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = tuple(lt.Op(name=str(i), workspace=3) for i in range(3))
    problem = lt.Streams(lt.Graph(name="three", tensors=(), ops=ops), memory=6)
    for most in (3, 2):
        monkeypatch.setattr("lowtide.solvers.streams.memory.MOST_OPS", most)
        context = Context(problem=problem, threads=1)
        solve_by_makespan(problem, context)
        assert context.bound == 2
        assert context.incumbent == (2 if most == 3 else None)
