"""The profile by kind: its total is the verifier's, and thinning keeps the peak."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lowtide import Graph, Op, Plan, Tensor, verify
from lowtide.models.derived.profile import memory_profile, reference_profile
from tests.effort import many
from tests.random_plans import FLAVOURS, random_case
from tests.strategies import graphs

MANY = many(60)


def assert_total_is_the_verifiers(graph: Graph, plan: Plan) -> None:
    verdict = verify(graph, plan)
    for tier in verdict.profiles:
        points = verdict.profiles[tier]
        times = [time for time, _ in points]
        memory = memory_profile(graph, plan, tier)
        for start, value in zip(memory.times[:-1].tolist(), memory.total.tolist(), strict=True):
            assert points[bisect_right(times, start) - 1][1] == value
        assert memory.peak == verdict.peaks[tier]
        assert sum(memory.by_kind.values(), np.zeros_like(memory.total)).tolist() == memory.total.tolist()


@MANY
@given(graphs(8))
def test_total_of_an_order_is_the_verifiers(graph: Graph) -> None:
    assert_total_is_the_verifiers(graph, Plan.from_order(graph, range(len(graph.ops))))


@MANY
@given(st.integers(0, 10**6), st.sampled_from(FLAVOURS))
def test_total_of_any_valid_plan_is_the_verifiers(seed: int, flavour: str) -> None:
    case = random_case(Random(seed), flavour)
    assert_total_is_the_verifiers(case.graph, case.plan)


@MANY
@given(graphs(8, min_ops=4), st.integers(1, 5))
def test_thin_keeps_the_peak_and_the_kinds_of_a_moment(graph: Graph, columns: int) -> None:
    memory = memory_profile(graph, Plan.from_order(graph, range(len(graph.ops))))
    thin = memory.thin(columns)
    assert thin.total.size <= max(columns, 1)
    assert thin.peak == memory.peak
    assert (thin.times[0], thin.times[-1]) == (memory.times[0], memory.times[-1])
    assert set(thin.total.tolist()) <= set(memory.total.tolist())
    assert sum(thin.by_kind.values(), np.zeros_like(thin.total)).tolist() == thin.total.tolist()


def test_workspace_counts_in_the_home_tier_while_the_op_runs() -> None:
    graph = Graph(
        name="g",
        tensors=(Tensor(name="x", nbytes=3, kind="weight", initial=True, final=True),),
        ops=(Op(name="a", reads=(0,), workspace=4, duration_ns=2), Op(name="b", reads=(0,))),
    )
    plan = Plan.from_order(graph, (0, 1))
    memory = memory_profile(graph, plan)
    assert memory.times.tolist() == [0, 2, 3]
    assert {kind: values.tolist() for kind, values in memory.by_kind.items()} == {
        "weight": [3, 3],
        "workspace": [4, 0],
    }
    assert (memory.peak, memory.peak_time) == (7, 0)
    reference = reference_profile(graph, plan)
    assert reference is not None
    assert reference.total.tolist() == [7, 3]
