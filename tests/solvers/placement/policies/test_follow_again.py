"""Capuchin and SuperNeurons: by hand, against exhaustive search, in their limits; what runs again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import levels
from lowtide.models.errors import UsageError
from lowtide.solvers.context import Context
from lowtide.solvers.placement.policies import superneurons
from lowtide.solvers.placement.rerunning.dropping import droppable, may_run_again, with_dropped
from lowtide.solvers.registry import find_method
from tests.effort import seeds
from tests.oracles.brute_jointly import fastest_jointly
from tests.solvers.placement.graphs import network, small
from tests.solvers.placement.rerunning.second_runs import (
    again,
    data_of,
    first_case,
    random_again,
    start_of,
    tiny,
)

BOTH = ("capuchin", "superneurons")


def runs_of(result: lt.Result) -> list[int]:
    assert result.plan is not None, result.detail
    return [run.op for run in sorted(result.plan.runs, key=lambda run: run.start)]


# What is dropped, and made again


def test_each_run_of_a_sequence_finds_what_it_reads() -> None:
    """Whatever is dropped, kept on the way, and may run again; the first runs keep the order."""
    more = 0
    for seed in range(60):
        rng = Random(seed)
        data = data_of(random_again(seed).graph)
        some = [d for d in droppable(data) if rng.random() < 0.6]
        kept = None if seed % 3 == 0 else {u for u in range(len(data.values)) if rng.random() < 0.5}
        runs = with_dropped(data, some, again={w for w in range(data.n) if rng.random() < 0.7}, kept=kept)
        levels(data, runs)
        assert list(dict.fromkeys(runs)) == list(range(data.n))
        more += len(runs) - data.n
    assert more > 100


def test_dead_sources_are_made_again_or_stay() -> None:
    """x1 is read by f2 alone: to make x2 again, f1 runs again, too, or x1 stays."""
    graph = network("CRRR")
    graph = replace(graph, ops=tuple(op for op in graph.ops if op.name != "b1"))
    data = data_of(graph)
    (x2,) = (d for d in droppable(data) if d.value == 2)
    assert with_dropped(data, [x2]) == [0, 1, 2, 3, 4, 2, 5, 6]
    assert with_dropped(data, [x2], again={1}) == [0, 1, 2, 3, 4, 1, 2, 5, 6]
    assert with_dropped(data, [x2], again={2}) == [0, 1, 2, 3, 4, 2, 5, 6]


def test_what_is_there_does_not_run_again() -> None:
    """What the op behind an absence reads itself, and what was made for an op before it."""
    data = data_of(small("x y z", ((), (0,)), ((0,), (1,)), ((), (2,)), ((0, 1), ())))
    (y,) = (d for d in droppable(data) if d.value == 1)
    assert with_dropped(data, [y], again={0, 1}) == [0, 1, 2, 1, 3]
    data = data_of(small("x y z", ((), (0,)), ((0,), (1,)), ((), (2,)), ((0,), ()), ((1,), ())))
    some = [d for d in droppable(data) if d.value < 2]
    assert with_dropped(data, some, kept=()) == [0, 1, 2, 0, 3, 1, 4]


def test_what_was_overwritten_is_no_source() -> None:
    data = data_of(small("x y", ((), (0,)), ((0,), (1,)), ((), (0,)), ((0, 1), ())))
    assert not may_run_again(data, 0, 1)  # it would leave x anew
    data = data_of(small("W x y", ((0,), (1,)), ((1,), (2,)), ((0, 1), (0,)), ((1, 2), ())))
    assert [may_run_again(data, 0, now) for now in (1, 2, 3)] == [True, True, False]
    assert not may_run_again(data, 2, 3)
    assert [data.tensors[data.values[d.value].tensor] for d in droppable(data)] == [(2,)]


# SuperNeurons


def test_segments_run_again_once_or_for_each_op() -> None:
    """Layers of 10 bytes, l_peak 20: the segment of three layers takes 30, that of one 10."""
    data = data_of(network("CRRRCRC"))
    found = {
        form: superneurons.recomputed(data, [0, 4, 6], 8, form) for form in ("speed", "memory", "cost-aware")
    }
    assert {form: sorted(kept) for form, (_, kept) in found.items()} == {
        "speed": [1, 2, 3, 5],
        "memory": [],
        "cost-aware": [5],
    }
    assert all(sorted(d.value for d in dropped) == [1, 2, 3, 5] for dropped, _ in found.values())
    graph = network("CRRRCRC")  # x1 is read by f4, too, and not in the backward pass
    ops = [
        replace(op, reads=(*op.reads, 1)) if op.name == "f4" else op for op in graph.ops if op.name != "b1"
    ]
    other = data_of(replace(graph, ops=tuple(ops)))
    assert sorted(d.value for d in superneurons.recomputed(other, [0, 4, 6], 8, "speed")[0]) == [2, 3, 5]
    two = data_of(network("CRRCR"))
    assert sorted(superneurons.recomputed(two, [0, 3], 6, "cost-aware")[1]) == [1, 2, 4]


def test_speed_and_memory_by_hand() -> None:
    """Behind the loss, b4 to b0 read x4 to x0; x0 and x3 are checkpoints, which leave.

    x3, from which x4 is made again, is asked for when the loss has ended: 10 ns.
    """
    problem = again(network("CRRCRR"), 30)
    once = [0, 1, 2, 3, 4, 5, 6]
    for form, runs in (
        ("speed", [*once, 4, 7, 8, 1, 2, 9, 10, 11]),
        ("memory", [*once, 4, 7, 8, 1, 2, 9, 1, 10, 11]),
        ("cost-aware", [*once, 4, 7, 8, 1, 2, 9, 10, 11]),
    ):
        found = lt.solve(problem, "superneurons", options={"recomputation": form}, threads=1)
        assert runs_of(found) == runs
        assert found.objective == 1000 * len(runs) + 10
        assert found.plan is not None
        assert found.bound == 12_000
        assert {c.tensor for c in found.plan.copies} == {0, 3}
        assert found.facts["emergencies"] == 0


def test_checkpoints_never_run_again() -> None:
    """The backward pass does not read x0: it stays, or leaves, for x1 and x2 to be made again."""
    graph = network("CRRCRR")
    graph = replace(graph, ops=tuple(op for op in graph.ops if op.name != "b0"))
    found = lt.solve(again(graph, 30), "superneurons", threads=1)
    assert runs_of(found) == [*range(7), 4, 7, 8, 1, 2, 9, 10]


def test_it_does_no_more_than_it_must() -> None:
    graph = network("CRRCRR")
    peak = int(first_case(again(graph, 999)).live.max())
    found = {
        memory: lt.solve(again(graph, memory), "superneurons", threads=1) for memory in (peak, peak - 10, 30)
    }
    assert [x.detail.split(",")[0] for x in found.values()] == ["liveness alone", *["checkpoints leave"] * 2]
    assert [len(runs_of(x)) for x in found.values()] == [12, 12, 15]
    plan = found[peak].plan
    assert plan is not None
    assert not plan.copies


def test_checkpoints_return_when_the_one_before_starts() -> None:
    """x4 is asked for when the forward pass ends, x2 when b4 starts, x0 when b2 does."""
    graph = network("CRCRCR")
    result = lt.solve(again(graph, 50), "superneurons", threads=1)
    assert result.plan is not None
    start = {graph.ops[run.op].name: run.start for run in result.plan.runs}
    back = {copy.tensor: copy.start for copy in result.plan.copies if copy.dst == "gpu"}
    out = {copy.tensor: copy.start for copy in result.plan.copies if copy.dst == "host"}
    assert back == {4: 7000, 2: start["b4"], 0: start["b2"]}
    assert out == {0: 1000, 2: 3000, 4: 5000}


# Both


def against_exhaustive_search(some: Iterable[int]) -> int:
    """Return how often an op runs again, or an optimum is found."""
    met = 0
    for seed in some:
        problem = tiny(seed)
        best = fastest_jointly(problem.graph, problem.machine, start_of(problem))
        for name in BOTH:
            found = lt.solve(problem, name, threads=1)
            assert found.bound is not None
            assert best is not None
            assert found.bound <= best
            if found.plan is not None and found.objective is not None:
                assert best <= found.objective
                met += len(found.plan.runs) > len(problem.graph.ops) or best == found.objective
    return met


def test_never_faster_than_exhaustive_search() -> None:
    assert against_exhaustive_search((2, 6, 7, 11, 13)) > 3


@pytest.mark.slow
def test_never_faster_than_exhaustive_search_on_many() -> None:
    assert against_exhaustive_search(range(50)) > 30


class Strict(Context):
    """Fails on a plan that does not verify."""

    def offer(self, item: object) -> int:
        value = super().offer(item)
        assert not self.refused, self.refused
        return value


@pytest.mark.parametrize("name", BOTH)
def test_every_plan_verifies(name: str) -> None:
    copied = twice = 0
    method = find_method("placement", name)
    for seed in seeds(60, least=15):
        problem = random_again(seed)
        context = Strict(problem=problem, method=name, options=method.typed({})[0])
        outcome = method.load()(problem, context)
        assert context.answer is not None or outcome.detail, seed
        if context.answer is not None:
            copied += bool(context.answer.copies)
            twice += len(context.answer.runs) > len(problem.graph.ops)
            if len(problem.machine.tiers) == 1:
                assert not context.answer.copies
                assert context.answer.machine == problem.machine
    assert copied > 8
    assert twice > 2


@pytest.mark.parametrize("name", BOTH)
def test_without_a_channel_ops_run_again(name: str) -> None:
    graph = network("CRRRRRCR")
    single = lt.Placement(graph, lt.Machine.single(capacity=60), recompute=True)
    found = lt.solve(single, name, threads=1)
    assert found.plan is not None
    assert not found.plan.copies
    assert len(found.plan.runs) > len(graph.ops)
    best = lt.solve(lt.Recompute(graph, memory=60), threads=1)
    assert best.objective is not None
    assert found.objective is not None
    assert found.objective >= best.objective
    assert lt.solve(replace(single, machine=lt.Machine.single(capacity=10)), name).objective is None


def test_what_takes_forever_does_not_run_again() -> None:
    """Capuchin with and without second runs is the same, if these take a million times as long as copies."""
    met = 0
    for seed in seeds(30):
        problem = random_again(seed)
        if len(problem.machine.tiers) == 1:
            continue
        slow = tuple(replace(op, duration_ns=10**9 * (1 + op.duration_ns)) for op in problem.graph.ops)
        problem = replace(problem, graph=replace(problem.graph, ops=slow))
        found, alone = (lt.solve(replace(problem, recompute=x), "capuchin", threads=1) for x in (True, False))
        if alone.facts.get("emergencies") == 0:
            assert found.objective == alone.objective
            met += bool(found.plan and found.plan.copies)
    assert met > 1


@pytest.mark.parametrize("name", BOTH)
def test_strict_ends_without_evictions(name: str) -> None:
    none = 0
    for seed in seeds(16):
        found = lt.solve(random_again(seed), name, options={"strict": "1"}, threads=1)
        assert found.facts.get("emergencies", 0) == 0
        none += found.plan is None and bool(found.detail)
    assert none


def test_what_they_refuse() -> None:
    problem = again(network("CR"), 99)
    gpus = replace(problem.machine.processors[0], name="q")
    several = replace(
        problem, machine=replace(problem.machine, processors=(*problem.machine.processors, gpus))
    )
    with pytest.raises(UsageError, match="method capuchin: found several processors"):
        lt.solve(several, "capuchin")


def test_ops_with_several_modes_run_once() -> None:
    graph = network("CRRCRR")
    modes = (lt.Mode(duration_ns=1000), lt.Mode(duration_ns=900, workspace=5))
    graph = replace(graph, ops=(replace(graph.ops[0], modes=modes), *graph.ops[1:]))
    for name in BOTH:
        found = lt.solve(again(graph, 45), name, threads=1)
        assert found.plan is not None
        assert len(found.plan.runs) == len(graph.ops)
