"""Answers to problems: read from what users give, evaluated and judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.problems.offsets import Offsets

X = Buffer(id="x", lower=0, upper=3, size=4)
Y = Buffer(id="y", lower=2, upper=5, size=8)
Z = Buffer(id="z", lower=0, upper=1, size=5, pool="host")
THREE = Buffers(buffers=(X, Y, Z), pools={"": 12})


def test_answer_is_a_mapping_a_sequence_or_a_plan_with_an_allocation() -> None:
    problem = Offsets(THREE)
    expected = {"x": 8, "y": 0, "z": 0}
    assert problem.read({"z": 0, "y": 0, "x": 8}) == expected
    assert problem.read([8, 0, 0]) == expected
    graph = lt.load("gen:chain?n=3&seed=1")
    plan = lt.Plan.from_order(graph, range(3))
    own = Offsets.from_plan(graph, plan)
    offsets = dict.fromkeys((b.id for b in own.buffers.buffers), 0)
    assert own.read(replace(plan, allocation=offsets)) == offsets


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"x": 8, "y": 0}, "found no offset of buffer 'z'"),
        ([8, 0], "found 2 offsets, expected 3"),
        (7, "found int, expected offsets by buffer id"),
        ({"x": 9, "y": 0, "z": 0}, "pool '': found height 13, expected at most 12"),
        (lt.Plan.from_order(lt.load("gen:chain?n=3"), range(3)), "found a plan without an allocation"),
    ],
)
def test_what_is_no_answer(item: Any, words: str) -> None:
    with pytest.raises(lt.InstanceError, match=words):
        Offsets(THREE).read(item)


def test_objective_is_the_sum_of_the_heights() -> None:
    problem = Offsets(THREE)
    answer = problem.read([8, 0, 0])
    assert problem.evaluate(answer) == 17
    judgement = problem.judge(answer)
    assert (judgement.objective, judgement.violations, judgement.plan) == (17, (), None)


def test_wrong_answer_has_no_objective() -> None:
    judgement = Offsets(THREE).judge({"x": 7, "y": 0, "z": 0})
    assert judgement.objective is None
    assert [(v.kind, v.buffers) for v in judgement.violations] == [("overlap", ("x", "y"))]


def test_allocation_goes_into_the_plan_that_the_buffers_come_from() -> None:
    graph = lt.load("catalogue:harpoon")
    plan = lt.Plan.from_order(graph, range(len(graph.ops)))
    problem = Offsets.from_plan(graph, plan)
    offsets, end = {}, 0
    for b in problem.buffers.buffers:
        offsets[b.id] = end
        end += b.size
    judgement = problem.judge(offsets)
    assert judgement.objective == end
    assert judgement.plan is not None
    assert judgement.plan.allocation == offsets
    assert lt.verify(graph, judgement.plan).valid


def test_invalid_plan_is_refused() -> None:
    graph = lt.load("gen:chain?n=3&seed=1")
    plan = lt.Plan.from_order(graph, range(3))
    with pytest.raises(lt.InstanceError, match="found an invalid plan"):
        Offsets.from_plan(graph, replace(plan, runs=plan.runs[1:]))


def test_satisfying_needs_capacities() -> None:
    with pytest.raises(lt.UsageError, match="no capacity of pool 'host'"):
        Offsets(THREE, satisfy=True)
    assert Offsets(replace(THREE, pools={"": 12, "host": 5}), satisfy=True).satisfied(17)
    assert not Offsets(THREE).satisfied(17)


def test_fixed_offset_that_contradicts_its_alignment() -> None:
    with pytest.raises(lt.InstanceError, match="buffer 'x': found fixed offset 3, expected a multiple"):
        Offsets(Buffers(buffers=(replace(X, offset=3, alignment=2),)))


@pytest.mark.parametrize("number", [1.7, None, "1", float("inf")])
def test_numbers_of_answers_that_are_no_integers_are_refused(number: object) -> None:
    graph = lt.load("catalogue:diamond")
    asked: list[tuple[Any, object]] = [
        (lt.ParallelMemory(graph), ([0], [number])),
        (lt.Recompute(graph, 10**6), [0, 1, 2, number]),
        (lt.Makespan(graph), [0, 1, 2, number]),
    ]
    for problem, item in asked:
        with pytest.raises(lt.InstanceError, match="of other things"):
            problem.read(item)


@pytest.mark.parametrize("number", [1.7, "1", float("inf")])
def test_addresses_that_are_no_integers_are_refused(number: Any) -> None:
    graph = lt.load("catalogue:diamond")
    addresses = (number,) * (len(graph.tensors) + len(graph.ops))
    with pytest.raises(lt.InstanceError, match="addresses of other things"):
        lt.Arena(graph).read(lt.Addressed((0, 1, 2, 3), addresses))
