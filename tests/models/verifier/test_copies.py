"""The verifier's rules on copies and the rates of channels, for hand-made plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.machine import Access, Channel, ChannelGroup, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from lowtide.models.verifier.verdict import Verification
from lowtide.models.verifier.verify import verify
from tests.drawings import (
    GIGA,
    GRAPH,
    MACHINE,
    PLAN,
    W,
    X,
    edited,
    kinds,
    of_kind,
    only,
    witness,
)


def test_copy_source_that_is_not_there() -> None:
    plan = replace(PLAN, start=(Resident(W, "host", (0, 7)), *PLAN.start[1:]))
    violation, *others = [v for v in verify(GRAPH, plan).violations if v.kind != "read"]
    assert witness(violation) == {
        "kind": "copy-source", "time": 5, "tensor": W, "tier": "host", "copy": 1,
    }  # fmt: skip
    assert violation.message == (
        "copy 1 takes bytes [4, 8) of tensor 0 'w' from 'host' to 'gpu' from 5 to 10 ns, "
        "but bytes [7, 8) of tensor 0 'w' is not in tier 'host'"
    )
    assert others == []


def test_copy_source_released_or_overwritten_meanwhile() -> None:
    released = verify(GRAPH, edited(PLAN, "frees", 2, time=25))
    assert [witness(v) for v in released.violations] == [
        {"kind": "copy-source", "time": 25, "tensor": W, "tier": "gpu", "copy": 2},
        {"kind": "final", "time": 26, "tensor": W},
    ]
    late = edited(PLAN, "copies", 1, start=15, end=19)
    found = [v for v in verify(GRAPH, late).violations if v.kind.startswith("copy")]
    assert [witness(v) for v in found] == [
        {"kind": "copy-source", "time": 18, "tensor": W, "tier": "host", "copy": 1},
        {"kind": "copy-target", "time": 18, "tensor": W, "tier": "gpu", "copy": 1},
    ]
    assert "op 2 'c' starts to write it at 18 ns" in found[0].message


def test_copy_source_where_another_copy_lands() -> None:
    """Bytes [0, 1) of w travel back to the host while the host's bytes are being sent."""
    extra = Copy(W, "gpu", "host", 1, 2, (0, 1))
    assert verify(GRAPH, replace(PLAN, copies=(*PLAN.copies, extra))).valid
    plan = replace(PLAN, copies=(*PLAN.copies, extra, Copy(W, "host", "gpu", 0, 3, (0, 1))))
    found = of_kind(verify(GRAPH, plan), "copy-source")
    assert found == [
        {"kind": "copy-source", "time": 1, "tensor": W, "tier": "gpu", "copy": 3},
        {"kind": "copy-source", "time": 1, "tensor": W, "tier": "host", "copy": 4},
    ]


def test_copy_source_must_be_in_one_version() -> None:
    """Half of t is version 1 from the slow tier, half is version 2: no copy may take both halves."""
    graph = Graph(
        name="two versions",
        tensors=(Tensor(name="t", nbytes=2),),
        ops=(Op(name="a", writes=(0,)), Op(name="b", writes=(0,))),
    )
    machine = replace(
        MACHINE,
        processors=(
            Processor(name="p", tiers=(Access(tier="gpu"),)),
            Processor(name="q", tiers=(Access(tier="host"),)),
        ),
        channels=(Channel(src="host", dst="gpu", bytes_per_s=2 * GIGA), MACHINE.channels[1]),
        groups=(),
    )
    runs = (Run(0, 0, 0, 2, "p"), Run(1, 0, 1, 2, "q"))
    plan = Plan(machine=machine, runs=runs, copies=(Copy(0, "host", "gpu", 2, 3, (0, 1)),))
    graph = replace(graph, ops=(replace(graph.ops[0], duration_ns=2), graph.ops[1]))
    assert kinds(verify(graph, plan, rerun=True)) == {"write-conflict"}
    both = replace(plan, copies=(*plan.copies, Copy(0, "gpu", "host", 3, 4)))
    (violation,) = [v for v in verify(graph, both, rerun=True).violations if v.kind == "copy-source"]
    assert witness(violation) == {
        "kind": "copy-source", "time": 3, "tensor": 0, "tier": "gpu", "copy": 1,
    }  # fmt: skip


def test_copy_target_of_two_copies() -> None:
    fast = replace(MACHINE.channels[0], bytes_per_s=4 * GIGA)
    machine = replace(MACHINE, channels=(fast, MACHINE.channels[1]), groups=())
    plan = replace(PLAN, machine=machine)
    apart = replace(plan, copies=(*plan.copies, Copy(X, "host", "gpu", 5, 8, (0, 2))))
    assert verify(GRAPH, apart).valid
    both = replace(plan, copies=(*plan.copies, Copy(X, "host", "gpu", 4, 8, (0, 2))))
    (violation,) = [v for v in verify(GRAPH, both).violations if v.kind == "copy-target"]
    assert witness(violation) == {
        "kind": "copy-target", "time": 4, "tensor": X, "tier": "gpu", "copy": 3, "other_copy": 0,
    }  # fmt: skip
    assert violation.message.endswith("where copy 0 lands until 5 ns")


def test_copy_target_released_meanwhile() -> None:
    plan = replace(PLAN, frees=(*PLAN.frees, Free(X, "gpu", 3, (1, 2))))
    found = of_kind(verify(GRAPH, plan), "copy-target")
    assert found == [{"kind": "copy-target", "time": 3, "tensor": X, "tier": "gpu", "copy": 0}]


def test_a_copy_makes_its_target_stale_until_it_ends() -> None:
    """Bytes [0, 4) of w are valid on the gpu; copied again, they are so only at the copy's end."""
    again = replace(PLAN, copies=(*PLAN.copies, Copy(W, "host", "gpu", 5, 11, (0, 1))))
    fast = replace(MACHINE, channels=tuple(replace(c, bytes_per_s=4 * GIGA) for c in MACHINE.channels))
    again = replace(again, machine=replace(fast, groups=()))
    assert kinds(verify(GRAPH, again)) == {"read"}
    assert verify(GRAPH, edited(again, "copies", 3, end=10)).valid


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"start": 0, "end": 1}, "found a duration of 1 ns, expected more than the latency 1 ns"),
        ({"start": 0, "end": 0}, "found a duration of 0 ns, expected more than the latency 1 ns"),
        ({"dst": "host"}, "found no channel from 'host' to 'host'"),
    ],
)
def test_channel(change: dict[str, Any], fault: str) -> None:
    plan = edited(PLAN, "copies", 0, **change)
    (violation,) = [v for v in verify(GRAPH, plan).violations if v.kind == "channel"]
    resource = f"host->{change.get('dst', 'gpu')}"
    assert witness(violation) == {
        "kind": "channel", "time": 0, "tensor": X, "copy": 0, "resource": resource,
    }  # fmt: skip
    assert violation.message == f"copy 0 of tensor 1 'x' at 0 ns: {fault}"


def test_channel_that_the_machine_lacks() -> None:
    machine = replace(MACHINE, channels=MACHINE.channels[:1], groups=())
    violation = only(verify(GRAPH, replace(PLAN, machine=machine)))
    assert witness(violation) == {
        "kind": "channel", "time": 22, "tensor": W, "copy": 2, "resource": "gpu->host",
    }  # fmt: skip


def test_channel_rate_of_one_copy() -> None:
    """4 bytes in 3 ns after the latency need 4/3 bytes per ns."""
    violation = only(verify(GRAPH, edited(PLAN, "copies", 0, end=4)))
    assert witness(violation) == {
        "kind": "channel-rate", "time": 1, "copy": 0, "resource": "host->gpu",
    }  # fmt: skip
    latency = replace(MACHINE.channels[0], latency_ns=2)
    slower = replace(PLAN, machine=replace(MACHINE, channels=(latency, MACHINE.channels[1])))
    found = of_kind(verify(GRAPH, slower), "channel-rate")
    assert [v["time"] for v in found] == [2, 7]


def parallel_copies(*copies: tuple[int, int, int], bytes_per_s: int) -> Verification:
    """Judge copies ``(start, end, nbytes)`` of as many tensors from b to a, without latency."""
    graph = Graph(
        name="copies",
        tensors=tuple(
            Tensor(name=f"t{k}", nbytes=n, kind="state", initial=True) for k, (_, _, n) in enumerate(copies)
        ),
        ops=(),
    )
    machine = Machine(
        tiers=(Tier(name="a"), Tier(name="b")),
        processors=(Processor(name="p", tiers=(Access(tier="a"),)),),
        channels=(Channel(src="b", dst="a", bytes_per_s=bytes_per_s),),
        groups=(ChannelGroup(name="all", channels=(("b", "a"),), bytes_per_s=10**12),),
    )
    return verify(
        graph,
        Plan(
            machine=machine,
            start=tuple(Resident(k, "b") for k in range(len(copies))),
            copies=tuple(Copy(k, "b", "a", s, e) for k, (s, e, _) in enumerate(copies)),
        ),
    )


def test_channel_rate_is_exact_where_rates_are_periodic_fractions() -> None:
    """1/3 + 2/7 + 8/21 bytes per ns is exactly 1; one byte per second less is too little."""
    copies = ((0, 3, 1), (0, 7, 2), (0, 21, 8))
    assert parallel_copies(*copies, bytes_per_s=GIGA).valid
    violation = only(parallel_copies(*copies, bytes_per_s=GIGA - 1))
    assert witness(violation) == {"kind": "channel-rate", "time": 0, "copy": 2, "resource": "b->a"}
    tiny_excess = ((0, 3, 1), (0, 7, 2), (0, 21, 8), (0, 10**30 // 10**12, 1))
    assert kinds(parallel_copies(*tiny_excess, bytes_per_s=GIGA)) == {"channel-rate"}


def test_channel_rate_reports_each_overload_once() -> None:
    """Two bytes per ns from 2 to 4, from 4 on (no break), and again from 8 to 9."""
    copies = ((0, 4, 4), (2, 6, 4), (4, 6, 2), (7, 9, 2), (8, 10, 2))
    verdict = parallel_copies(*copies, bytes_per_s=GIGA)
    assert [(v.time, v.copy) for v in verdict.violations] == [(2, 1), (8, 4)]
    assert parallel_copies(*copies, bytes_per_s=2 * GIGA).valid


def test_group_rate() -> None:
    """The weight goes back at 2 bytes per ns; half a byte per ns of x beside it is too much."""
    plan = replace(PLAN, copies=(*PLAN.copies, Copy(X, "host", "gpu", 22, 27)))
    plan = edited(plan, "frees", 2, time=26)
    violation = only(verify(GRAPH, plan))
    assert witness(violation) == {
        "kind": "group-rate", "time": 23, "copy": 3, "resource": "pcie",
    }  # fmt: skip
    wider = replace(MACHINE.groups[0], bytes_per_s=3 * GIGA)
    assert verify(GRAPH, replace(plan, machine=replace(MACHINE, groups=(wider,)))).valid
