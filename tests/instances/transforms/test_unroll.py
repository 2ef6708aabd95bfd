"""Unrolled plans: by hand, and against the memory of one iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from lowtide.instances.transforms.unroll import unroll
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.lowering.residencies import first_moment, residencies
from lowtide.models.plan import Copy, Free, Plan, Resident
from tests.drawings import one_tier
from tests.effort import seeds
from tests.models.verifier import steady
from tests.random_plans import random_case


def training_step() -> Graph:
    """An input x, an activation y made in its place, a weight w that is updated, and a loss."""
    return Graph(
        name="step",
        tensors=(
            Tensor(name="x", nbytes=2, kind="input", initial=True),
            Tensor(name="y", nbytes=2),
            Tensor(name="w", nbytes=4, kind="weight", initial=True, final=True),
            Tensor(name="loss", nbytes=1, kind="output", final=True),
        ),
        ops=(
            Op(name="f", reads=(0, 2), writes=(1,), inplace=((0, 1),), workspace=3),
            Op(name="g", reads=(1, 2), writes=(2, 3)),
        ),
    )


FREES = (Free(0, "memory", 2), Free(1, "memory", 4))


def lines(buffers: Iterable[Buffer]) -> list[tuple[str, int, int, int]]:
    return [(b.id, b.lower, b.upper, b.size) for b in buffers]


def test_weights_live_on_and_the_rest_is_made_anew() -> None:
    graph = training_step()
    start = (Resident(0, "memory"), Resident(2, "memory"))
    plan = replace(one_tier(graph, [(0, 0, 2), (1, 2, 4)], FREES), start=start)
    found = unroll(graph, plan, 3)
    assert lines(found.buffers) == [
        ("0:x@memory@0", 0, 2, 2),
        ("0:x@memory@4", 4, 6, 2),
        ("0:x@memory@8", 8, 10, 2),
        ("1:y@memory@0", 0, 4, 2),
        ("1:y@memory@4", 4, 8, 2),
        ("1:y@memory@8", 8, 12, 2),
        ("2:w@memory@0", 0, 12, 4),
        ("3:loss@memory@2", 2, 4, 1),
        ("3:loss@memory@6", 6, 8, 1),
        ("3:loss@memory@10", 10, 12, 1),
        ("0:f/workspace@memory@0", 0, 2, 3),
        ("0:f/workspace@memory@4", 4, 6, 3),
        ("0:f/workspace@memory@8", 8, 10, 3),
    ]
    assert found.inplace == tuple((f"0:x@memory@{t}", f"1:y@memory@{t}") for t in (0, 4, 8))
    assert found.name == "step x3"
    assert found.pools == {"memory": None}
    assert replace(unroll(graph, plan, 1), name="step") == buffers_from_plan(graph, plan)


def test_a_weight_that_the_plan_fetches_and_returns_is_there_in_parts() -> None:
    """The gpu holds w from 2 to 14 of each 20; the host holds it always but for one byte."""
    start = (Resident(0, "host"),)
    plan = Plan(
        machine=steady.MACHINE,
        start=start,
        copies=(Copy(0, "host", "gpu", 2, 6), Copy(0, "gpu", "host", 14, 20, (7, 8))),
        frees=(Free(0, "host", 8, (7, 8)), Free(0, "gpu", 20)),
    )
    assert lines(unroll(steady.GRAPH, plan, 2).buffers) == [
        ("0:w@gpu@2", 2, 20, 8),
        ("0:w@gpu@22", 22, 40, 8),
        ("0:w[7:8]@host@0", 0, 8, 1),
        ("0:w[0:7]@host@0", 0, 40, 7),
        ("0:w[7:8]@host@14", 14, 28, 1),
        ("0:w[7:8]@host@34", 34, 40, 1),
    ]


def test_what_is_left_but_not_there_at_the_start_is_released_at_the_border() -> None:
    plan = Plan(machine=steady.MACHINE, start=(Resident(0, "host"),), copies=(Copy(0, "host", "gpu", 2, 6),))
    assert lines(unroll(steady.GRAPH, plan, 2).buffers) == [
        ("0:w@gpu@2", 2, 6, 8),
        ("0:w@gpu@8", 8, 12, 8),
        ("0:w@host@0", 0, 12, 8),
    ]


def test_periodic_plan() -> None:
    """The host's copy of the weight goes at 4 and comes back from 14 on: alive across each border."""
    plan = replace(steady.PLAN, frees=(*steady.PLAN.frees, Free(0, "host", 4)))
    hosts = [b for b in unroll(steady.GRAPH, plan, 3).buffers if b.id.startswith("0:w@host")]
    assert lines(hosts) == [
        ("0:w@host@0", 0, 4, 8),
        ("0:w@host@14", 14, 24, 8),
        ("0:w@host@34", 34, 44, 8),
        ("0:w@host@54", 54, 60, 8),
    ]


@pytest.mark.parametrize("iterations", [0, -1, True, 2.0])
def test_refused_numbers(iterations: object) -> None:
    plan = one_tier(training_step(), [])
    with pytest.raises(InstanceError, match=r"unroll, iterations: found .*, expected an integer >= 1"):
        unroll(training_step(), plan, iterations)  # type: ignore[arg-type]


def weight(buffers: Buffers, time: int) -> Counter[str]:
    """Return the bytes alive at an instant by tensor, tier and workspace."""
    found = Counter[str]()
    for b in buffers.buffers:
        if any(s <= time < e for s, e, *_ in b.rectangles):
            name = b.id.split("[")[0] if "[" in b.id else b.id.split("@")[0]
            found[f"{name}@{b.pool}"] += b.size
    return found


@pytest.mark.parametrize("seed", seeds(100))
def test_every_iteration_weighs_what_one_weighs(seed: int) -> None:
    """At each instant, tensor by tensor; only what is both initial and final crosses a border."""
    case = random_case(Random(seed))
    single = buffers_from_plan(case.graph, case.plan)
    one, three = unroll(case.graph, case.plan, 1), unroll(case.graph, case.plan, 3)
    ends = [run.end for run in case.plan.runs] + [copy.end for copy in case.plan.copies]
    length = case.plan.period or max([1, *ends, *(free.time for free in case.plan.frees)])
    length += first_moment(residencies(case.graph, case.plan))  # before what is released at time 0
    if case.plan.period is None:
        assert len(one.buffers) <= len(single.buffers)  # fewer if neighbouring bytes end at the very end
        assert len(one.inplace) == len(single.inplace)
    times = {t for b in single.buffers for r in b.rectangles for t in r[:2] if t < length} | {0}
    for t in times:
        expected = weight(single, t)
        assert weight(one, t) == expected
        assert all(weight(three, t + k * length) == expected for k in range(3))
    for b in three.buffers:
        if any(b.lower < k * length < b.upper for k in (1, 2)):
            tensor = case.graph.tensors[int(b.id.split(":")[0])]
            assert tensor.initial
            assert tensor.final
    known = {b.id for b in three.buffers}
    assert all(x in known for pair in three.inplace for x in pair)
    assert len(three.inplace) >= len(one.inplace)
