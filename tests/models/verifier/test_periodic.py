"""The verifier on a steady state that was drawn and worked out by hand.

A training step of 20 ns. The new weight goes back to the host while the next step begins, where a second
processor reads it::

    ns    0   2   4      8        14        20
    p             |  f   |   g    |
    q         | h |
    w     <---|          new      |-copy back--->
    x         |copy-|    free
    gpu   8   10  13     15       12
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowtide.models.graph import Graph
from lowtide.models.machine import Tier
from lowtide.models.plan import Copy, Free, Plan, Resident
from lowtide.models.verifier.verify import verify
from tests.drawings import GIGA, edited, kinds, of_kind, only, witness
from tests.models.verifier.steady import GRAPH, MACHINE, OUT, PLAN, H, W, X, Y


def with_channel(**changes: Any) -> Plan:
    """Return the plan with another channel back to the host."""
    back = replace(MACHINE.channels[1], **changes)
    return replace(PLAN, machine=replace(MACHINE, channels=(MACHINE.channels[0], back)))


def test_steady_state_by_hand() -> None:
    verdict = verify(GRAPH, PLAN)
    verdict.raise_if_invalid()
    assert verdict.profiles == {
        "gpu": ((0, 8), (2, 10), (4, 13), (8, 15), (14, 12)),
        "host": ((0, 10),),
    }
    assert verdict.peaks == {"gpu": 15, "host": 10}
    assert (verdict.makespan, verdict.stall, verdict.recomputed) == (20, 8, 0)
    assert verdict.traffic == {("gpu", "host"): 8, ("host", "gpu"): 2}


def test_the_target_of_a_crossing_copy_may_be_listed_in_part() -> None:
    assert verify(GRAPH, replace(PLAN, start=(*PLAN.start, Resident(W, "host", (2, 5))))).valid


def test_a_crossing_copy_is_valid_from_its_end_on() -> None:
    violation = only(verify(GRAPH, edited(PLAN, "runs", 1, start=1, end=3)))
    assert witness(violation) == {
        "kind": "read", "time": 1, "op": H, "tensor": W, "tier": "host", "run": 1,
    }  # fmt: skip
    violation = only(verify(GRAPH, edited(PLAN, "copies", 0, end=23)))
    assert (violation.kind, violation.time, violation.run) == ("read", 2, 1)


def test_what_crosses_must_carry_the_last_version() -> None:
    """Without g the copy brings version 0 round, and h then finds stale bytes."""
    verdict = verify(GRAPH, replace(PLAN, runs=PLAN.runs[:2]))
    assert kinds(verdict) == {"missing-run", "final", "period", "read"}
    assert of_kind(verdict, "read") == [
        {"kind": "read", "time": 2, "op": H, "tensor": W, "tier": "host", "run": 1}
    ]


@pytest.mark.parametrize(
    ("name", "position", "changes", "fault"),
    [
        ("runs", 2, {"start": 15, "end": 21}, "found end 21, expected it within the period 20"),
        ("copies", 0, {"end": 35}, "found a duration of 21 ns, expected at most 20"),
        ("copies", 0, {"start": 20, "end": 28}, "found start 20, expected it before the period's end"),
        ("frees", 0, {"time": 21}, "found time 21, expected it within the period 20"),
    ],
)
def test_shape_within_the_period(name: str, position: int, changes: Any, fault: str) -> None:
    verdict = verify(GRAPH, edited(PLAN, name, position, **changes))
    (violation,) = [v for v in verdict.violations if v.kind == "shape"]
    assert fault in violation.message


def test_a_copy_may_last_the_whole_period() -> None:
    """From 14 to 34: h, which needs the weight in the host, moves to the last moment before g."""
    graph = replace(GRAPH, ops=(GRAPH.ops[0], replace(GRAPH.ops[1], reads=()), GRAPH.ops[2]))
    long = edited(PLAN, "copies", 0, end=34)
    found = verify(graph, long)
    assert kinds(found) == {"copy-source", "copy-target"}  # g writes at 8, which is 28
    idle = Graph(name="idle", tensors=GRAPH.tensors[:1], ops=())
    plan = Plan(
        machine=MACHINE,
        period=20,
        start=(Resident(0, "gpu"),),
        copies=(Copy(0, "gpu", "host", 14, 34),),
    )
    assert verify(idle, plan).valid


def test_period_copy_of_a_tensor_that_does_not_live_on() -> None:
    plan = replace(PLAN, copies=(*PLAN.copies, Copy(OUT, "gpu", "host", 19, 24)))
    roomy = replace(MACHINE, tiers=(Tier(name="gpu"), Tier(name="host")))
    found = of_kind(verify(GRAPH, replace(plan, machine=roomy)), "period")
    assert found[0] == {"kind": "period", "time": 19, "tensor": OUT, "copy": 2}


def test_period_state_differs() -> None:
    violation = only(verify(GRAPH, replace(PLAN, start=(*PLAN.start, Resident(W, "gpu")))))
    assert violation.kind == "start"
    home = replace(PLAN, copies=PLAN.copies[1:], runs=PLAN.runs)
    graph = replace(GRAPH, ops=(GRAPH.ops[0], replace(GRAPH.ops[1], reads=()), GRAPH.ops[2]))
    assert verify(graph, home).valid
    host = replace(home, start=(*home.start, Resident(W, "host", (0, 3))))
    violation = only(verify(graph, host))
    assert witness(violation) == {"kind": "period", "time": 20, "tensor": W, "tier": "host"}
    assert violation.message.endswith("bytes [0, 3) of tensor 0 'w' is stale, expected valid as at time 0")
    stale = replace(home, start=(*home.start, Resident(W, "host", (0, 3), valid=False)))
    assert verify(graph, stale).valid
    freed = replace(stale, frees=(*stale.frees, Free(W, "host", 20, (1, 2))))
    violation = only(verify(graph, freed))
    assert violation.message.endswith("bytes [1, 2) of tensor 0 'w' is absent, expected stale as at time 0")


def test_period_leak() -> None:
    violation = only(verify(GRAPH, replace(PLAN, frees=PLAN.frees[:1])))
    assert witness(violation) == {"kind": "period", "time": 20, "tensor": Y, "tier": "gpu"}
    assert violation.message.endswith("tensor 2 'y' is still allocated, expected it released")
    assert verify(GRAPH, edited(PLAN, "frees", 1, time=20)).valid


def test_period_excess_of_an_initial_tensor() -> None:
    roomy = replace(PLAN, machine=replace(MACHINE, tiers=(Tier(name="gpu"), Tier(name="host"))))
    violation = only(verify(GRAPH, edited(roomy, "frees", 0, bytes=(0, 1))))
    assert witness(violation) == {"kind": "period", "time": 20, "tensor": X, "tier": "gpu"}
    assert "bytes [1, 2) of tensor 1 'x' is allocated" in violation.message
    used_up = replace(PLAN, frees=(*PLAN.frees, Free(X, "host", 20)))
    assert verify(GRAPH, used_up).valid  # it reappears


def test_final_at_the_end_of_the_period() -> None:
    violation = only(verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(OUT, "gpu", 20)))))
    assert witness(violation) == {"kind": "final", "time": 20, "tensor": OUT}


def test_the_source_of_a_crossing_copy_is_kept_after_the_end() -> None:
    verdict = verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(W, "gpu", 1, (0, 1)))))
    assert of_kind(verdict, "copy-source")[0] == {
        "kind": "copy-source", "time": 1, "tensor": W, "tier": "gpu", "copy": 0,
    }  # fmt: skip
    nowhere = replace(PLAN, start=(Resident(W, "gpu", (1, 8)), Resident(X, "host")))
    assert of_kind(verify(GRAPH, nowhere), "copy-source")[0] == {
        "kind": "copy-source", "time": 0, "tensor": W, "tier": "gpu", "copy": 0,
    }  # fmt: skip


def test_the_target_of_a_crossing_copy_is_kept_after_the_end() -> None:
    verdict = verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(W, "host", 1, (0, 1)))))
    assert of_kind(verdict, "copy-target") == [
        {"kind": "copy-target", "time": 1, "tensor": W, "tier": "host", "copy": 0}
    ]


def test_rates_go_round() -> None:
    """One byte per second less than needed: too little from 14 on, and again from 0 to 2."""
    verdict = verify(GRAPH, with_channel(bytes_per_s=GIGA - 1))
    assert [witness(v) for v in verdict.violations] == [
        {"kind": "channel-rate", "time": 0, "copy": 0, "resource": "gpu->host"},
        {"kind": "channel-rate", "time": 14, "copy": 0, "resource": "gpu->host"},
    ]
    assert verify(GRAPH, with_channel(bytes_per_s=4 * GIGA, latency_ns=6)).valid
    late = verify(GRAPH, with_channel(bytes_per_s=4 * GIGA - 1, latency_ns=6))
    assert [v.time for v in late.violations] == [0]
    later = verify(GRAPH, with_channel(bytes_per_s=8 * GIGA - 1, latency_ns=7))
    assert [v.time for v in later.violations] == [1]


def test_capacity_counts_what_arrives_from_before() -> None:
    tight = replace(MACHINE, tiers=(MACHINE.tiers[0], Tier(name="host", capacity=9)))
    violation = only(verify(GRAPH, replace(PLAN, machine=tight)))
    assert witness(violation) == {"kind": "capacity", "time": 0, "tier": "host"}
