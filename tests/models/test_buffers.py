"""Buffers: what is refused, and what plans that were drawn by hand lower to."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.lowering.residencies import first_moment, residencies
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.models.verifier.verify import verify
from tests.drawings import GRAPH, MACHINE, PLAN, W, X, Y, chain, one_tier
from tests.effort import seeds
from tests.models.verifier import steady
from tests.random_plans import random_case

SOUND = Buffer(id="a", lower=0, upper=4, size=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": 3}, "buffer 3: expected texts as id and pool"),
        ({"pool": None}, "buffer 'a': expected texts as id and pool, found pool None"),
        ({"lower": -1}, "buffer 'a', lower: found -1, expected an integer >= 0"),
        ({"upper": 0}, "buffer 'a', upper: found 0, expected an integer >= 1"),
        ({"size": 1.5}, "buffer 'a', size: found 1.5, expected an integer >= 0"),
        ({"alignment": 0}, "buffer 'a', alignment: found 0, expected an integer >= 1"),
        ({"offset": -4}, "buffer 'a', offset: found -4, expected an integer >= 0"),
        ({"gaps": ((1, 1),)}, "buffer 'a', gaps: found 1, expected an integer >= 2"),
        ({"gaps": ((2, 3), (1, 2))}, "buffer 'a', gaps: found 1, expected an integer >= 3"),
        ({"gaps": ((2, 5),)}, "expected intervals within its lifetime"),
        ({"gaps": ((0, 4),)}, "expected intervals within its lifetime, not all of it"),
        ({"gaps": ((0, 2), (2, 4))}, "expected intervals within its lifetime, not all of it"),
    ],
)
def test_refused_buffers(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError) as info:
        replace(SOUND, **changes)
    assert message in str(info.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffers": (SOUND, SOUND)}, "found id 'a' 2 times, expected once"),
        ({"pools": {"": -1}}, "pool '', capacity: found -1, expected an integer >= 0"),
        ({"inplace": (("a", "b"),)}, "found ('a', 'b'), expected the ids of two different buffers"),
        ({"inplace": (("a", "a"),)}, "found ('a', 'a'), expected the ids of two different buffers"),
    ],
)
def test_refused_sets(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError) as info:
        replace(Buffers(buffers=(SOUND,)), **changes)
    assert message in str(info.value)


def test_pools_not_named_are_unlimited() -> None:
    assert Buffers(buffers=(SOUND,), pools={"gpu": 4}).pools == {"": None, "gpu": 4}


def test_rectangles() -> None:
    assert SOUND.rectangles == ((0, 4, 0, SOUND.size),)
    gapped = replace(SOUND, gaps=[(1, 2)], size=8)  # type: ignore[arg-type]
    assert gapped.rectangles == ((0, 1, 0, 8), (2, 4, 0, 8))
    assert replace(SOUND, gaps=(Gap(0, 1), Gap(3, 4)), size=8).rectangles == ((1, 3, 0, 8),)
    windows = (Gap(0, 1, 2, 5), Gap(1, 2, 2, 5), Gap(2, 3, 0, 8))
    assert replace(SOUND, gaps=windows, size=8).rectangles == ((0, 2, 2, 5), (2, 4, 0, 8))


def lines(buffers: Buffers) -> list[tuple[str, int, int, int, str]]:
    return [(b.id, b.lower, b.upper, b.size, b.pool) for b in buffers.buffers]


def test_swap_plan_by_hand() -> None:
    buffers = buffers_from_plan(GRAPH, PLAN)
    assert lines(buffers) == [
        ("0:w[0:4]@gpu@0", 0, 26, 4, "gpu"),
        ("0:w[4:8]@gpu@5", 5, 26, 4, "gpu"),
        ("0:w@host@0", 0, 26, 8, "host"),
        ("1:x@gpu@0", 0, 15, 4, "gpu"),
        ("1:x@host@0", 0, 26, 4, "host"),
        ("2:y@gpu@10", 10, 22, 4, "gpu"),
        ("3:z@gpu@15", 15, 26, 6, "gpu"),
        ("0:a/workspace@gpu@10", 10, 15, 2, "gpu"),
    ]
    assert buffers.pools == {"gpu": 18, "host": None}
    assert buffers.inplace == ()


def test_a_range_released_in_parts_is_several_buffers() -> None:
    frees = (Free(X, "gpu", 15, (1, 2)), Free(X, "gpu", 16, (0, 1)), Free(X, "gpu", 16, (2, 4)))
    buffers = buffers_from_plan(GRAPH, replace(PLAN, frees=(*frees, *PLAN.frees[1:])))
    assert [line for line in lines(buffers) if line[0].startswith("1:x") and line[4] == "gpu"] == [
        ("1:x[1:2]@gpu@0", 0, 15, 1, "gpu"),
        ("1:x[0:1]@gpu@0", 0, 16, 1, "gpu"),
        ("1:x[2:4]@gpu@0", 0, 16, 2, "gpu"),
    ]


def test_bytes_released_and_allocated_again_are_two_buffers() -> None:
    frees = (*PLAN.frees, Free(W, "gpu", 4, (0, 4)))
    copies = (*PLAN.copies, Copy(W, "host", "gpu", 4, 10, (0, 4)))
    found = lines(buffers_from_plan(GRAPH, replace(PLAN, frees=frees, copies=copies)))
    assert found[:3] == [
        ("0:w[0:4]@gpu@0", 0, 4, 4, "gpu"),
        ("0:w[0:4]@gpu@4", 4, 26, 4, "gpu"),
        ("0:w[4:8]@gpu@5", 5, 26, 4, "gpu"),
    ]


def test_late_releases_end_the_lifetime() -> None:
    found = lines(buffers_from_plan(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(X, "host", 40)))))
    assert ("1:x@host@0", 0, 40, 4, "host") in found
    assert ("0:w@host@0", 0, 40, 8, "host") in found


def test_nothing_of_zero_bytes_or_no_time_is_a_buffer() -> None:
    graph = Graph(
        name="zero",
        tensors=(Tensor(name="z", nbytes=0, kind="state", initial=True), Tensor(name="t", nbytes=2)),
        ops=(Op(name="f", reads=(0,), writes=(1,)),),
    )
    plan = one_tier(graph, [(0, 0, 1)], (Free(0, "memory", 0),))
    assert lines(buffers_from_plan(graph, plan)) == [("1:t@memory@0", 0, 1, 2, "memory")]
    idle = Plan(machine=MACHINE, start=(Resident(W, "gpu"), Resident(X, "host")), frees=(Free(W, "gpu", 0),))
    assert lines(buffers_from_plan(GRAPH, idle)) == [  # w is there before it is released
        ("0:w@gpu@0", 0, 1, 8, "gpu"),
        ("1:x@host@0", 0, 2, 4, "host"),
    ]


def test_same_names_stay_apart() -> None:
    graph = Graph(
        name="twice",
        tensors=(Tensor(name="t", nbytes=2), Tensor(name="t", nbytes=2)),
        ops=(Op(name="f", workspace=1, writes=(0, 1)),),
    )
    ids = [line[0] for line in lines(buffers_from_plan(graph, one_tier(graph, [(0, 0, 1), (0, 0, 1)])))]
    assert ids == [
        "0:t@memory@0",
        "1:t@memory@0",
        "0:f/workspace@memory@0",
        "0:f/workspace@memory@0#2",
    ]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (replace(PLAN, period=0), "plan, period: found 0, expected an integer >= 1"),
        (replace(PLAN, runs=(Run(9, 0, 0, 1, "p"),)), "run 0: found op 9, expected an index"),
        (replace(PLAN, start=(Resident(Y, "gpu"),)), "start entry 0: tensor 2 'y' is not initial"),
        (replace(PLAN, frees=(Free(Y, "gpu", 3),)), "free of tensor 2 'y' at 3 ns: found bytes"),
    ],
)
def test_plans_without_buffers(plan: Plan, message: str) -> None:
    with pytest.raises(InstanceError, match=message.replace("(", r"\(")):
        buffers_from_plan(GRAPH, plan)


# -- in place --------------------------------------------------------------------------------------------


def relu(*extra: Op, size: int = 5, accounting: Accounting = Accounting.COEXIST) -> Graph:
    graph = chain(accounting)
    ops = (graph.ops[0], replace(graph.ops[1], inplace=((1, 2),)), *extra)
    tensors = (*graph.tensors[:2], replace(graph.tensors[2], nbytes=size))
    return replace(graph, tensors=tensors, ops=ops)


PAIR = (("1:y@memory@0", "2:z@memory@2"),)
DIES = (Free(0, "memory", 2), Free(1, "memory", 4))


def test_a_write_may_take_the_place_of_a_read_that_dies() -> None:
    graph = relu()
    plan = one_tier(graph, [(0, 0, 2), (1, 2, 4)], DIES)
    buffers = buffers_from_plan(graph, plan)
    assert buffers.inplace == PAIR
    offsets = {b.id: 0 for b in buffers.buffers} | {"0:x@memory@0": 5, "0:f/workspace@memory@0": 8}
    verdict = verify_allocation(buffers, offsets)
    assert verdict.valid
    assert verify(graph, plan).peaks["memory"] == 10
    assert verdict.heights == {"memory": 9}


def test_no_pair_if_the_read_lives_on_or_is_shared() -> None:
    graph = relu()
    runs = [(0, 0, 2), (1, 2, 4)]
    assert buffers_from_plan(graph, one_tier(graph, runs, DIES[:1])).inplace == ()
    late = (DIES[0], Free(1, "memory", 5))
    assert buffers_from_plan(graph, one_tier(graph, runs, late)).inplace == ()
    shared = relu(Op(name="h", duration_ns=1, reads=(1,)))
    beside = one_tier(shared, [*runs, (2, 3, 4)], DIES)
    assert verify(shared, beside).valid
    assert buffers_from_plan(shared, beside).inplace == ()
    before = one_tier(shared, [(0, 0, 2), (1, 3, 5), (2, 2, 3)], (DIES[0], Free(1, "memory", 5)))
    assert buffers_from_plan(shared, before).inplace == (("1:y@memory@0", "2:z@memory@3"),)


def test_no_pair_is_needed_if_lifetimes_only_touch() -> None:
    graph = relu(accounting=Accounting.REPLACE)
    plan = one_tier(graph, [(0, 0, 2), (1, 2, 4)], (Free(0, "memory", 0), Free(1, "memory", 2)))
    assert verify(graph, plan).valid
    assert buffers_from_plan(graph, plan).inplace == ()


def test_no_pair_for_a_write_that_is_there_already() -> None:
    """The second write of z finds z allocated: no buffer begins."""
    graph = relu(Op(name="h", duration_ns=1, reads=(0, 2), writes=(2,), inplace=((0, 2), (2, 2))))
    runs = [(0, 0, 2), (1, 2, 4), (2, 4, 5)]
    plan = one_tier(graph, runs, (Free(1, "memory", 4), Free(0, "memory", 5)))
    assert verify(graph, plan).valid
    assert buffers_from_plan(graph, plan).inplace == PAIR


# -- around the period -----------------------------------------------------------------------------------


def test_steady_state_by_hand() -> None:
    assert lines(buffers_from_plan(steady.GRAPH, steady.PLAN)) == [
        ("0:w@gpu@0", 0, 20, 8, "gpu"),
        ("0:w@host@0", 0, 20, 8, "host"),
        ("1:x@gpu@2", 2, 8, 2, "gpu"),
        ("1:x@host@0", 0, 20, 2, "host"),
        ("2:y@gpu@4", 4, 14, 3, "gpu"),
        ("3:out@gpu@8", 8, 20, 4, "gpu"),
    ]


def test_what_lives_on_round_the_period_is_one_buffer_with_a_gap() -> None:
    """The host's copy of the weight goes at 4, all but a byte at 3, and comes back from 14 on."""
    frees = (Free(0, "host", 4, (0, 7)), Free(0, "host", 3, (7, 8)))
    plan = replace(steady.PLAN, frees=(*steady.PLAN.frees, *frees))
    buffers = [b for b in buffers_from_plan(steady.GRAPH, plan).buffers if b.id.startswith("0:w")]
    assert [(b.id, b.lower, b.upper, b.gaps) for b in buffers] == [
        ("0:w@gpu@0", 0, 20, ()),
        ("0:w[7:8]@host@0", 0, 20, (Gap(3, 14),)),
        ("0:w[0:7]@host@0", 0, 20, (Gap(4, 14),)),
    ]
    at_once = replace(steady.PLAN, frees=(*steady.PLAN.frees, Free(0, "host", 14)))
    found = lines(buffers_from_plan(steady.GRAPH, at_once))
    assert ("0:w@host@0", 0, 20, 8, "host") in found


def test_what_is_made_anew_each_period_is_two_buffers() -> None:
    """x leaves the gpu at 8; if it were there at the start too, nothing ties the two together."""
    tensors = list(steady.GRAPH.tensors)
    tensors[1] = replace(tensors[1], kind="state")
    graph = replace(steady.GRAPH, tensors=tuple(tensors))
    roomy = tuple(replace(tier, capacity=None) for tier in steady.MACHINE.tiers)
    plan = replace(
        steady.PLAN,
        machine=replace(steady.MACHINE, tiers=roomy),
        start=(*steady.PLAN.start, Resident(1, "gpu")),
        copies=(steady.PLAN.copies[0], Copy(1, "host", "gpu", 16, 18)),
    )
    assert verify(graph, plan).valid
    found = lines(buffers_from_plan(graph, plan))
    assert ("1:x@gpu@0", 0, 8, 2, "gpu") in found
    assert ("1:x@gpu@16", 16, 20, 2, "gpu") in found


# -- the buffers are the plan's memory -------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(120))
def test_buffers_add_up_to_the_verified_profile(seed: int) -> None:
    """At every instant of the plan the buffers alive in a pool weigh what the verifier counts.

    Where bytes are released at time 0, the moment before it comes first; the peak is the verifier's.
    """
    case = random_case(Random(seed))
    verdict = verify(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)
    assert verdict.valid
    buffers = buffers_from_plan(case.graph, case.plan)
    horizon = max((b.upper for b in buffers.buffers), default=0)
    delay = first_moment(residencies(case.graph, case.plan))
    for tier, profile in verdict.profiles.items():
        alive = [b for b in buffers.buffers if b.pool == tier]
        times = {t for b in alive for r in b.rectangles for t in r[:2]} | {t + delay for t, _ in profile}
        held = {
            now: sum(b.size for b in alive for s, e, *_ in b.rectangles if s <= now < e)
            for now in times
            if now < horizon
        }
        for now in held.keys() - range(delay):
            assert held[now] == [used for t, used in profile if t + delay <= now][-1]
        assert max(held.values(), default=verdict.peaks[tier]) == verdict.peaks[tier]
    offsets, top = {}, 0
    for b in buffers.buffers:
        offsets[b.id] = top
        top += b.size
    unlimited = replace(buffers, pools={})
    assert verify_allocation(unlimited, offsets).valid
