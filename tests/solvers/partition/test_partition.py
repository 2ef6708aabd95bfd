"""Partition: the programs against exhaustive search, the verifier against the letter, published optima."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.partition import stages_milp
from lowtide.formulations.partition.data import partition_data
from lowtide.formulations.partition.stages_milp import empty, memories
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.partition import program
from lowtide.solvers.partition.chain import solve_chain
from lowtide.solvers.partition.choice import least_time
from lowtide.solvers.partition.ideals import ideals_of
from lowtide.solvers.partition.published import balanced
from tests.effort import seeds
from tests.oracles.brute_partition import best, least_block, objective
from tests.problems.partition import CHAIN, KEPT, PASSED, WEIGHTS, chain_of, random_partition, random_split
from tests.strategies import random_graph


def test_ideals_find_what_exhaustive_search_finds() -> None:
    seen = set()
    for seed in seeds(48, least=9):
        problem = random_partition(seed)
        if seed % 4 == 0:
            problem = replace(problem, objective="time")
        result, expected = lt.solve(problem, "ideals", threads=1), best(problem)
        assert (result.objective, result.bound) == (expected, expected), (seed, result.detail)
        assert result.status == ("infeasible" if expected is None else "optimal"), seed
        seen.add(result.status)
        along = lt.solve(problem, "chain", threads=1)
        assert along.objective is None or (expected is not None and along.objective >= expected), seed
        if along.bound is not None:
            assert expected is not None
            assert along.bound <= expected, seed
    assert seen == {lt.Status.OPTIMAL, lt.Status.INFEASIBLE}


def test_what_replicas_make_again_is_not_exchanged() -> None:
    """Of what a stage holds only the weights have gradients."""
    devices = {"acc": 3, "cpu": 1}
    for seed in (5009, 5010, 5012, 5025, 5033):
        problem = random_partition(seed, most_ops=4)
        problem = replace(problem, processors=devices, schedule="gpipe", recompute="all", replicate=2)
        problem = replace(problem, sync=10**9, objective="load" if seed % 3 else "time")
        result, expected = lt.solve(problem, "ideals", threads=1), best(problem)
        assert (result.objective, result.bound) == (expected, expected), seed


@pytest.mark.parametrize(
    ("replicate", "sync", "load"),
    [(1, 3 * 10**9, 100), (2, 3 * 10**9, 70), (3, 3 * 10**9, 52), (2, None, 50)],
)
def test_replicas_take_turns_and_exchange_gradients(replicate: int, sync: int | None, load: int) -> None:
    """Of r replicas of 100 ns, in all 4 (r - 1) / r times 60 bytes at 3 bytes a ns: 40 ns and 54 ns more."""
    g = lt.GraphBuilder()
    g.op("o", reads=[g.tensor("w", 60, initial=True, final=True)], duration=100)
    problem = lt.Partition(g.build(), 3, replicate=replicate, sync=sync)
    result = lt.solve(problem, "ideals", threads=1)
    assert (result.objective, result.bound) == (load, load)


@pytest.mark.parametrize(("nbytes", "load"), [(140, 147), (180, 150)])
def test_stages_are_replicated_if_the_exchange_is_worth_it(nbytes: int, load: int) -> None:
    """In turns two devices take 100 ns and half of 2/3 ns a byte; a stage for each op takes 150 ns."""
    g = lt.GraphBuilder()
    g.op(
        "a", reads=[g.tensor("w", nbytes, initial=True, final=True)], writes=[g.tensor("x", 1)], duration=150
    )
    g.op("b", reads=["x"], duration=50)
    problem = lt.Partition(g.build(), 2, replicate=2, sync=3 * 10**9)
    result = lt.solve(problem, "ideals", threads=1)
    assert (result.objective, result.bound) == (load, load)


def test_classes_that_share_ops_are_one() -> None:
    """Ops 2 and 3 are in a class with forward op 0, though not with it alone: neither has to go back."""
    g = lt.GraphBuilder()
    for i in range(4):
        g.op(f"o{i}", writes=[g.tensor(f"x{i}", 1)], duration=5)
    g.op("o4", reads=["x2"], duration=5)
    problem = lt.Partition(g.build(), 2, together=((2, 3), (3, 0), (4, 1)), backward=(2, 3, 4))
    assert problem.together == ((2, 3, 0), (4, 1))
    result = lt.solve(problem, "ideals", threads=1)
    assert (result.status, result.objective) == ("optimal", best(problem) or 0) == ("optimal", 15)


def test_ideals_end_where_they_are_too_many() -> None:
    """300 ops in any order have 44,850 ideals of two, of 300 words each: not even these are all kept."""
    g = lt.GraphBuilder()
    for i in range(300):
        g.op(f"o{i}")
    problem = lt.Partition(g.build(), 2)
    data = partition_data(problem)
    tracemalloc.start()
    try:
        assert ideals_of(data, 2000, Context(problem=problem)) is None
        assert tracemalloc.get_traced_memory()[1] < 30 * 10**6
    finally:
        tracemalloc.stop()


def test_no_time_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up at each look at the clock, in turn: nothing is proved before the last."""
    graph, classes = chain_of([(1, 2)] * 3, (0, 0, 0), (5, 6, 7), (0, 0, 0))
    asked = {"memory": 20, "micro": 2, "schedule": "gpipe", "recompute": "choose", **classes}
    problem = lt.Partition(graph, 1, **asked)
    assert least_time([(0, 5, 1), (1, 6, 1)], 2, 18, lambda: True) is None
    looks = 0

    def look(_: Context) -> bool:
        nonlocal looks
        looks -= 1
        return looks < 0

    for count in range(100):
        looks, context = count, Context(problem=problem)
        monkeypatch.setattr(Context, "expired", property(look))
        outcome = solve_chain(problem, context)
        if outcome.reason is None:
            break
        assert (outcome.reason, outcome.infeasible, context.bound) == ("time", False, None), count
    assert count > 12
    assert context.bound == context.incumbent == 11


def test_where_states_are_many_the_clock_is_asked_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, looks = lt.Partition(line(range(1, 11)), 3), iter([False] * 3)
    monkeypatch.setattr(program, "CELLS", 44)  # of one ideal
    monkeypatch.setattr(Context, "expired", property(lambda _: next(looks, True)))
    assert solve_chain(problem, Context(problem=problem)).reason == "time"


@pytest.mark.parametrize("name", ["stage 0 again +", "stage 0 again 1++2", "stage 0 x" + "9" * 5000])
def test_other_names_of_processors_say_nothing(name: str) -> None:
    problem = lt.Partition(line((2, 3)), 1)
    plan = lt.solve(problem, threads=1).plan
    assert plan is not None
    machine = replace(plan.machine, processors=(replace(plan.machine.processors[0], name=name),))
    other = replace(plan, machine=machine, runs=tuple(replace(x, processor=name) for x in plan.runs))
    assert problem.read(other) == lt.Split(stage=(0, 0), kinds=("any",), replicas=(1,))


@pytest.mark.slow  # two engines
def test_models_find_what_exhaustive_search_finds() -> None:
    for seed in seeds(10):
        problem = random_partition(seed, most_ops=4)
        problem = replace(problem, schedule="none", recompute="none", replicate=1)
        rng = Random(seed)
        problem = replace(
            problem, contiguous=rng.random() < 0.5, objective=rng.choice(("load", "load", "time"))
        )
        expected = best(problem)
        for method in ("milp", "cpsat"):
            result = lt.solve(problem, method, threads=1)
            assert (result.objective, result.bound) == (expected, expected), (seed, method, result.detail)
            assert result.status == ("infeasible" if expected is None else "optimal"), (seed, method)


def test_the_best_split_is_a_point_of_the_model() -> None:
    """As a hint it satisfies all rows with its own load, and is read back."""
    import pyomo.environ as pyo

    seen = set()
    for seed in range(12):
        problem = random_partition(seed, most_ops=4)
        problem = replace(problem, schedule="none", recompute="none", replicate=1)
        problem = replace(problem, contiguous=seed % 3 > 0, objective="time" if seed % 2 else "load")
        result = lt.solve(problem, "ideals" if problem.contiguous else "milp", threads=1)
        if result.plan is None:
            continue
        built = stages_milp.build(problem, hint=problem.read(result.plan))
        assert all(x.lb <= x.value <= x.ub for x in built.variables.values())
        assert min(row.lslack() for row in built.model.rows.values()) >= 0
        assert pyo.value(built.model.objective) == result.objective
        split = stages_milp.decode(built, pyo.value)
        assert split is not None
        assert problem.evaluate(split) == result.objective
        seen.add((problem.contiguous, problem.objective, problem.memory is None, len(split.kinds) > 1))
    assert len(seen) >= 5


@pytest.mark.parametrize(("contiguous", "least"), [(True, 6), (False, 4)])
@pytest.mark.parametrize("method", ["milp", "cpsat"])
def test_only_stages_in_any_order_take_both_ends_of_a_chain(
    method: str, contiguous: bool, least: int
) -> None:
    problem = lt.Partition(line((2, 4, 2)), 2, contiguous=contiguous)
    assert lt.solve(problem, method, threads=1).objective == least


def test_rows_of_memory_do_not_grow_with_its_unit() -> None:
    rows = []
    for unit, more in ((1, 0), (2**40, 2**40 - 1)):
        graph, _ = chain_of([(1, 1)] * 2, (2 * unit, 3 * unit), (0, 0), (0, 0))
        rows.append([*memories(empty(lt.Partition(graph, 2, memory=32 * unit + more)))])
    assert rows[0] == rows[1] == [([(("h", 0, d), -2), (("h", 1, d), -3)], -2) for d in range(2)]


@pytest.mark.slow  # 60 enumerations, and as many MILPs
def test_acyclic_quotients_of_graphs_of_eight_ops() -> None:
    """MTPP's program (Archer and others 2024), over ideals and as a MILP, against enumeration."""
    for seed in seeds(60):
        graph = random_graph(Random(seed), min_ops=5, max_ops=8, max_tensors=10, max_duration=9)
        problem, expected = (
            lt.Partition(graph, 1 + seed % 3, link=10**9),
            least_block(graph, 1 + seed % 3, 10**9),
        )
        for method in ("ideals", "milp"):
            result = lt.solve(problem, method, threads=1)
            assert (result.objective, result.bound) == (expected, expected), (seed, method)


def test_the_verifier_judges_by_the_letter() -> None:
    broken = 0
    for seed in seeds(60):
        rng = Random(seed)
        problem = random_partition(seed)
        if seed % 3 == 0:
            problem = replace(problem, recompute="choose", objective=rng.choice(("load", "time")))
        if seed % 5 == 0:
            problem = replace(problem, contiguous=False, schedule="none")
        for _ in range(8):
            split = random_split(problem, rng)
            judged = problem.judge(problem.read(split))
            assert judged.objective == objective(problem, split), (seed, split, judged.violations)
            assert bool(judged.violations) == (judged.objective is None)
            broken += bool(judged.violations)
    assert broken


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"memory": 5}, "memory", "stage 0 holds 6 B, expected at most 5 B"),
        ({"stage": (1, 0, 1)}, "contiguity", "op 1 'b' on stage 0 needs op 0 'a' on stage 1"),
        ({"together": ((0, 2),)}, "class", "ops 0 'a' and 2 'c' of one class are on stages 0 and 1"),
        ({"processors": 1}, "devices", "found 2 devices of kind 'any', expected at most 1"),
        ({"replicas": (2, 1)}, "replicas", "stage 0: found 2 replicas, expected 1 to 1"),
    ],
)
def test_each_fault_has_its_witness(change: dict[str, Any], kind: str, words: str) -> None:
    g = lt.GraphBuilder()
    weight = g.tensor("w", 6, initial=True, final=True)
    g.op("a", reads=[weight], writes=[g.tensor("x", 4)], duration=5)
    g.op("b", reads=["x"], writes=[g.tensor("y", 1)], duration=7)
    g.op("c", reads=["y"], duration=9)
    problem = lt.Partition(g.build(), 3, memory=6)
    split = lt.Split(stage=(0, 0, 1), kinds=("any", "any"), replicas=(1, 1))
    assert problem.judge(split).objective == 12
    for key, value in change.items():
        if hasattr(problem, key):
            problem = replace(problem, **{key: value})
        else:
            split = replace(split, **{key: value})
    found = problem.judge(split).violations
    assert [x.kind for x in found] == [kind]
    assert words in found[0].message


def test_backward_ops_without_forward_ones_go_the_other_way() -> None:
    g = lt.GraphBuilder()
    g.op("f", writes=[g.tensor("x", 1)])
    g.op("loss", reads=["x"], writes=[g.tensor("g", 1)])
    g.op("b", reads=["g"])
    problem = lt.Partition(g.build(), 2, together=((0, 2),), backward=(1, 2))
    assert not problem.judge(lt.Split(stage=(0, 1, 0), kinds=("any", "any"), replicas=(1, 1))).violations
    (found,) = problem.judge(lt.Split(stage=(1, 0, 1), kinds=("any", "any"), replicas=(1, 1))).violations
    assert (found.kind, found.op, found.other) == ("contiguity", 1, 2)


def oracle(devices: int, **rules: Any) -> int | None:
    """Return the optimum for a chain of 12 layers in µs, almost all of it in backward ops."""
    graph, classes = chain_of(tuple((1, 1000 * t - 1) for t in CHAIN), WEIGHTS, KEPT, PASSED)
    problem = lt.Partition(graph, devices, micro=8, **classes, **rules)
    found = lt.solve(problem, "chain", threads=1)
    assert found.status in ("optimal", "infeasible"), found.detail
    return None if found.objective is None else found.objective // 1000


def test_the_chain_within_memories() -> None:
    assert [oracle(k) for k in range(1, 7)] == [52, 27, 21, 14, 14, 11]
    memories = (250, 300, 400, 600, 1000)
    assert [oracle(4, memory=m, schedule="gpipe") for m in memories] == [None, None, None, 27, 16]
    assert [oracle(4, memory=m, schedule="1f1b") for m in memories] == [None, 27, 16, 16, 14]
    assert [oracle(4, memory=m, schedule="1f1b", recompute="all") for m in memories] == [16, 14, 14, 14, 14]


def test_alpas_program_on_the_chain() -> None:
    assert [oracle(k, objective="time") for k in range(1, 7)] == [416, 241, 199, 150, 150, 129]


def random_chain(seed: int) -> lt.Partition:
    """Return a training chain of up to four layers with little memory."""
    rng = Random(seed)
    n = rng.randint(1, 4)
    times = [(rng.randint(1, 9), rng.randint(1, 18)) for _ in range(n)]
    weights, kept, passed = ([rng.randint(0, 9) for _ in range(n)] for _ in range(3))
    graph, classes = chain_of(times, weights, kept, passed)
    return lt.Partition(
        graph,
        rng.randint(1, 3),
        memory=rng.randint(0, 16 * sum(weights) // 2 + 3 * sum(kept) + sum(passed)),
        link=rng.choice((None, 10**9)),
        schedule=rng.choice(("gpipe", "1f1b")),
        micro=rng.randint(1, 4),
        recompute=rng.choice(("none", "all", "choose")),
        **classes,
    )


def held_to_the_best(seed: int) -> lt.Status:
    problem = random_chain(seed)
    result, expected = lt.solve(problem, "chain", threads=1), best(problem)
    assert (result.objective, result.bound) == (expected, expected), (seed, result.detail)
    assert result.status == ("infeasible" if expected is None else "optimal"), seed
    if result.plan is not None:
        assert problem.judge(problem.read(result.plan)).objective == expected, seed
    return result.status


def test_chains_against_enumeration() -> None:
    assert {held_to_the_best(seed) for seed in seeds(60)} == {lt.Status.OPTIMAL, lt.Status.INFEASIBLE}


@pytest.mark.slow  # 600 chains, and 300 that choose what runs again
def test_many_chains_against_enumeration() -> None:
    for seed in seeds(920):
        held_to_the_best(1000 + seed)


def line(times: Sequence[int]) -> lt.Graph:
    """Return ops one after another."""
    g = lt.GraphBuilder()
    for j, t in enumerate(times):
        g.op(f"o{j}", reads=[f"x{j - 1}"] if j else [], writes=[g.tensor(f"x{j}", 1)], duration=t)
    return g.build()


def test_torchgpipe_balances_less_than_it_could() -> None:
    problem = lt.Partition(line((27, 30, 27, 23, 17, 16, 17)), 3)
    assert lt.solve(problem, "torchgpipe", threads=1).objective == 100
    assert lt.solve(problem, threads=1).objective == 57
    even = lt.solve(lt.Partition(line(range(1, 7)), 2), "torchgpipe", threads=1)
    assert even.plan is not None
    assert [run.processor for run in even.plan.runs] == ["stage 0"] * 4 + ["stage 1"] * 2


def test_blocks_of_torchgpipe_that_cross() -> None:
    assert balanced([1, 1, 11, 15, 1, 18, 1, 5], 6) == [3, 4, 6, 8, 6, 8]
    result = lt.solve(lt.Partition(line((1, 1, 11, 15, 1, 18, 1, 5)), 6), "torchgpipe", threads=1)
    assert (result.status, result.plan) == ("unknown", None)
    assert "a block without layers" in (result.detail or "")


@pytest.mark.parametrize("layers", [5, {"expert": 5}, {"expert": [[0]]}, {"graph": 1, "source": 2, "x": 3}])
def test_provenance_of_others_is_no_split(layers: object) -> None:
    problem = lt.Partition.of(replace(line((2, 3)), provenance={"layers": layers}))
    assert (problem.processors, problem.together) == (1, ())
    result = lt.solve(problem, "expert", threads=1)
    assert result.status == "unknown"
    assert "no split of all its ops" in (result.detail or "")


@pytest.mark.parametrize("given", [{"together": 5}, {"together": [5]}, {"backward": 5}])
def test_what_are_no_lists(given: dict[str, Any]) -> None:
    with pytest.raises(lt.InstanceError, match="found no lists"):
        lt.Partition(line((2, 3)), **given)


def test_published_splits_are_judged_as_all_are() -> None:
    for seed in seeds(16):
        problem = random_partition(seed)
        known = lt.solve(problem, "ideals", threads=1)
        for method in ("torchgpipe", "pipedream", "alpa"):
            result = lt.solve(problem, method, threads=1)
            assert result.status in ("feasible", "unknown", "optimal"), (seed, method)
            if result.objective is not None:
                assert known.objective is not None
                assert result.bound is not None
                assert result.bound <= known.objective <= result.objective, (seed, method)
    problem = load_problem(lt.Partition, "catalogue:layers/bert24-training")
    expert = lt.solve(problem, "expert", threads=1)
    assert expert.plan is not None
    assert len(expert.plan.machine.processors) == 6
    assert expert.objective is not None
    assert expert.objective > 41_745_816
    assert lt.solve(lt.Partition(line((1, 2)), 2), "expert", threads=1).status == "unknown"


PUBLISHED = {
    "bert24-inference": 17.78990625,
    "bert24-training": 41.7458125,
    "gnmt-training": 107.0044140625,
    "resnet50-inference": 33.774666015625,
    "resnet50-training": 78.6318125,
    "resnet50-ops-inference": 124.34884977404485,
    "resnet50-ops-training": 255.19441645217384,
    "bert-3-ops-inference": 27.9185676799125,
    "bert-3-ops-training": 65.30314912208605,
    "bert-12-ops-training": 437.9976378578455,
}
"""Optima in ms, by the dynamic program in the public code of dnn-partitioning; the others are in a table."""

QUICK = ("bert24-inference", "bert24-training", "resnet50-training")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PUBLISHED]
)
def test_published_optima_but_for_rounding(name: str) -> None:
    """Durations and transfers are whole ns, at least 1: an error of 1 ns at most for each op and value."""
    problem = load_problem(lt.Partition, f"catalogue:layers/{name}")
    result = lt.solve(problem, "ideals", threads=1)
    graph = problem.graph
    assert result.status is lt.Status.OPTIMAL
    assert result.objective is not None
    assert abs(result.objective - PUBLISHED[name] * 1e6) < len(graph.ops) + len(graph.tensors)


@pytest.mark.parametrize(
    ("network", "replicated", "straight"),
    [("vgg16", 175_732_624, 216_450_000), ("alexnet", 23_165_752, 28_721_000)],
)
def test_pipedream_splits_as_its_code_does(network: str, replicated: int, straight: int) -> None:
    spec = f"catalogue:layers/pipedream-{network}?processors=4"
    assert lt.solve(load_problem("partition", spec), "chain", threads=1).objective == straight
    problem = load_problem("partition", spec, replicate=4, sync="1GB")
    result = lt.solve(problem, "chain", threads=1)
    assert (result.status, result.objective) == ("optimal", replicated)
