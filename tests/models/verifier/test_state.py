"""The verifier on releases, capacity, the end; slow access, zero bytes, recomputation."""

from __future__ import annotations

from dataclasses import replace

from lowtide.models.graph import Accounting, Graph, Mode, Op, Tensor
from lowtide.models.machine import Access, Channel, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from lowtide.models.verifier.verdict import PLAN_KINDS
from lowtide.models.verifier.verify import verify
from tests.drawings import (
    GIGA,
    GRAPH,
    MACHINE,
    PLAN,
    W,
    X,
    Y,
    Z,
    chain,
    edited,
    kinds,
    of_kind,
    only,
    witness,
)


def test_free() -> None:
    later = edited(PLAN, "frees", 0, time=19)
    verdict = verify(GRAPH, replace(later, frees=(*later.frees, Free(X, "gpu", 20, (1, 3)))))
    (violation,) = [v for v in verdict.violations if v.kind == "free"]
    assert witness(violation) == {
        "kind": "free", "time": 20, "tensor": X, "tier": "gpu", "free": 3,
    }  # fmt: skip
    assert violation.message == (
        "free 3 at 20 ns: bytes [1, 3) of tensor 1 'x' is not in tier 'gpu', expected it allocated"
    )


def test_free_before_the_starts_of_its_instant() -> None:
    """At 15 ns, y is there and z is not yet."""
    early = replace(PLAN, frees=(*PLAN.frees, Free(Z, "gpu", 15)))
    violation = only(verify(GRAPH, early))
    assert witness(violation) == {
        "kind": "free", "time": 15, "tensor": Z, "tier": "gpu", "free": 3,
    }  # fmt: skip


def test_free_of_partly_allocated_bytes_releases_those_that_are() -> None:
    plan = replace(PLAN, frees=(*PLAN.frees, Free(W, "gpu", 4)))
    verdict = verify(GRAPH, plan)
    found = [v for v in verdict.violations if v.kind == "free"]
    assert "bytes [4, 8) of tensor 0 'w' is not in tier 'gpu'" in found[0].message
    assert verdict.profiles["gpu"][:3] == ((0, 8), (4, 4), (5, 8))


def test_capacity_reports_each_overload_once() -> None:
    tight = replace(PLAN, machine=replace(MACHINE, tiers=(Tier(name="gpu", capacity=17), Tier(name="host"))))
    violation = only(verify(GRAPH, tight))
    assert witness(violation) == {"kind": "capacity", "time": 10, "tier": "gpu"}
    assert violation.message.startswith("tier 'gpu' holds 18 bytes from 10 ns, expected at most")
    more = replace(tight, frees=(Free(X, "gpu", 15), Free(Y, "gpu", 18), Free(W, "gpu", 26)))
    assert [v["time"] for v in of_kind(verify(GRAPH, more), "capacity")] == [10]


def test_capacity_counts_what_is_there_at_the_start_before_it_is_released_at_once() -> None:
    """x gives way as the first op starts; profiles do not show it, but it has to be somewhere before."""
    graph = Graph(
        name="begin",
        tensors=(Tensor(name="x", nbytes=9, initial=True), Tensor(name="y", nbytes=2)),
        ops=(Op(name="a", reads=(0,), writes=(1,)), Op(name="b", reads=(1,))),
        accounting=Accounting.REPLACE,
    )
    for capacity in (8, 9):
        verdict = verify(graph, Plan.from_order(graph, (0, 1), Machine.single(capacity=capacity)))
        assert verdict.profiles == {"memory": ((0, 2), (1, 0))}
        assert verdict.valid == (capacity == 9)
    violation = only(verify(graph, Plan.from_order(graph, (0, 1), Machine.single(capacity=8))))
    assert witness(violation) == {"kind": "capacity", "time": 0, "tier": "memory"}
    assert violation.message == "tier 'memory' holds 9 bytes at the start, expected at most its capacity 8"
    stays = Plan.from_order(replace(graph, accounting=Accounting.COEXIST), (0, 1), Machine.single(capacity=8))
    assert [v.time for v in verify(graph, stays).violations if v.kind == "capacity"] == [0]


def test_capacity_overload_that_ends_and_returns() -> None:
    graph = Graph(
        name="two workspaces",
        tensors=(),
        ops=(Op(name="a", workspace=5), Op(name="b", workspace=3), Op(name="c", workspace=6)),
    )
    plan = Plan(
        machine=Machine.single(capacity=4),
        runs=(Run(0, 0, 0, 1, "any0"), Run(1, 0, 1, 2, "any0"), Run(2, 0, 2, 3, "any0")),
    )
    verdict = verify(graph, plan)
    assert of_kind(verdict, "capacity") == [
        {"kind": "capacity", "time": 0, "tier": "memory"},
        {"kind": "capacity", "time": 2, "tier": "memory"},
    ]
    assert verdict.profiles == {"memory": ((0, 5), (1, 3), (2, 6), (3, 0))}


def test_final() -> None:
    """Released at the makespan it is gone; later it may go."""
    verdict = verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(Z, "gpu", 26))))
    violation = only(verdict)
    assert witness(violation) == {"kind": "final", "time": 26, "tensor": Z}
    assert (
        "every byte at 26 ns somewhere in version 1, but tensor 3 'z' is not in tier 'gpu'"
        in violation.message
    )
    verdict = verify(GRAPH, replace(PLAN, frees=(*PLAN.frees, Free(Z, "gpu", 27))))
    assert verdict.valid
    assert verdict.profiles["gpu"][-1] == (27, 0)


def test_final_tensor_may_end_in_pieces_but_every_byte_counts() -> None:
    half = edited(PLAN, "copies", 2, bytes=(0, 4), end=24)
    halves = edited(half, "frees", 2, time=24, bytes=(0, 4))
    assert verify(GRAPH, halves).valid
    verdict = verify(GRAPH, edited(half, "frees", 2, time=24, bytes=None))
    violation = only(verdict)
    assert witness(violation) == {"kind": "final", "time": 24, "tensor": W}
    assert "bytes [4, 8) of tensor 0 'w' is not in tier 'gpu'" in violation.message
    assert "bytes [4, 8) of tensor 0 'w' is stale in tier 'host'" in violation.message


def test_final_tensor_that_nobody_writes_must_be_there() -> None:
    graph = Graph(
        name="weight",
        tensors=(Tensor(name="w", nbytes=2, kind="weight", initial=True, final=True),),
        ops=(),
    )
    assert verify(graph, Plan(machine=MACHINE, start=(Resident(0, "host"),))).valid
    verdict = verify(graph, Plan(machine=MACHINE))
    assert witness(only(verdict)) == {"kind": "final", "time": 0, "tensor": 0}
    unused = replace(graph, tensors=(replace(graph.tensors[0], final=False),))
    assert verify(unused, Plan(machine=MACHINE)).valid


SLOW = Machine(
    tiers=(Tier(name="dram"), Tier(name="pmem"), Tier(name="disk")),
    processors=(
        Processor(
            name="cpu",
            tiers=(
                Access(tier="dram"),
                Access(tier="disk", bytes_per_s=GIGA // 2),
                Access(tier="pmem", bytes_per_s=3 * GIGA),
            ),
        ),
    ),
    channels=(Channel(src="disk", dst="dram", bytes_per_s=GIGA),),
)


def slow_graph(*modes: Mode) -> Graph:
    tensors = (
        Tensor(name="r", nbytes=4, kind="state", initial=True),
        Tensor(name="s", nbytes=3, kind="state", initial=True),
        Tensor(name="t", nbytes=5, final=True),
    )
    op = Op(name="f", duration_ns=2, reads=(0, 1), writes=(2, 1), modes=modes)
    return Graph(name="slow", tensors=tensors, ops=(op,))


def slow_end(graph: Graph, *start: Resident) -> int:
    """Return the end of the only run that the verifier accepts."""
    plan = Plan(machine=SLOW, start=start)
    ends = [e for e in range(1, 40) if verify(graph, replace(plan, runs=(Run(0, 0, 0, e, "cpu"),))).valid]
    assert len(ends) == 1
    return ends[0]


def test_slow_access_by_hand() -> None:
    graph = slow_graph()
    dram = (Resident(0, "dram"), Resident(1, "dram"))
    assert slow_end(graph, *dram) == 2
    # r from pmem: 4/3 ns, rounded up
    assert slow_end(graph, Resident(0, "pmem"), dram[1]) == 2 + 2
    # r and s from pmem: (4 + 3)/3 rounded up once; s is written to dram
    assert slow_end(graph, Resident(0, "pmem"), Resident(1, "pmem")) == 2 + 3
    # r from disk 8 ns, s from pmem 1 ns
    assert slow_end(graph, Resident(0, "disk"), Resident(1, "pmem")) == 2 + 9
    # in several tiers: the fastest
    assert slow_end(graph, Resident(0, "disk"), Resident(0, "pmem"), dram[1]) == 2 + 2
    assert slow_end(graph, Resident(0, "disk"), Resident(0, "dram"), dram[1]) == 2


def test_slow_access_where_the_mode_says() -> None:
    named = slow_graph(Mode(duration_ns=2, operands=((0, "disk"), (1, "pmem"), (2, "pmem"))))
    both = (Resident(0, "dram"), Resident(0, "disk"), Resident(1, "pmem"))
    # r 8 ns, s read and written there once 1 ns, t 5/3 ns
    assert slow_end(named, *both) == 2 + 11
    plan = Plan(machine=SLOW, start=both[::2], runs=(Run(0, 0, 0, 13, "cpu"),))
    violation = only(verify(named, plan))
    assert witness(violation) == {
        "kind": "read", "time": 0, "op": 0, "tensor": 0, "tier": "disk", "run": 0,
    }  # fmt: skip


def test_a_tier_serves_a_read_only_if_it_does_so_to_the_end() -> None:
    """r is freed in dram meanwhile: it was read from the disk, and that takes 8 ns more."""
    graph = slow_graph()
    start = (Resident(0, "dram"), Resident(0, "disk"), Resident(1, "dram"))
    plan = Plan(machine=SLOW, start=start, frees=(Free(0, "dram", 1),), runs=(Run(0, 0, 0, 10, "cpu"),))
    assert verify(graph, plan).valid
    violation = only(verify(graph, replace(plan, runs=(Run(0, 0, 0, 2, "cpu"),))))
    assert violation.message.endswith("2 ns, expected 10 ns")
    gone = replace(plan, frees=(Free(0, "dram", 1), Free(0, "disk", 3, (0, 1))))
    violation = only(verify(graph, gone))
    assert witness(violation) == {
        "kind": "read", "time": 3, "op": 0, "tensor": 0, "tier": "disk", "run": 0,
    }  # fmt: skip


ZERO = Graph(
    name="zero bytes",
    tensors=(
        Tensor(name="z", nbytes=0, kind="state", initial=True, final=True),
        Tensor(name="a", nbytes=0),
        Tensor(name="b", nbytes=7),
    ),
    ops=(Op(name="f", reads=(0,), writes=(1,)), Op(name="g", reads=(0, 1), writes=(2,))),
)


def test_zero_byte_tensors_are_there_or_not() -> None:
    runs = (Run(0, 0, 0, 1, "p"), Run(1, 0, 1, 2, "p"))
    plan = Plan(machine=MACHINE, start=(Resident(0, "gpu", (0, 0)),), runs=runs)
    verdict = verify(ZERO, plan)
    assert verdict.valid
    assert verdict.profiles["gpu"] == ((0, 0), (1, 7))
    assert of_kind(verify(ZERO, replace(plan, start=())), "read") == [
        {"kind": "read", "time": 0, "op": 0, "tensor": 0, "tier": "gpu", "run": 0},
        {"kind": "read", "time": 1, "op": 1, "tensor": 0, "tier": "gpu", "run": 1},
    ]
    freed = verify(ZERO, replace(plan, frees=(Free(1, "gpu", 1),)))
    assert of_kind(freed, "read") == [
        {"kind": "read", "time": 1, "op": 1, "tensor": 1, "tier": "gpu", "run": 1}
    ]
    twice = verify(ZERO, replace(plan, frees=(Free(1, "gpu", 2), Free(1, "gpu", 2, (0, 0)))))
    assert of_kind(twice, "free") == [{"kind": "free", "time": 2, "tensor": 1, "tier": "gpu", "free": 1}]
    empty = verify(ZERO, replace(plan, frees=(Free(2, "gpu", 2, (3, 3)),)))
    assert kinds(empty) == {"shape"}


def test_zero_byte_copies_may_take_no_time_and_chain() -> None:
    """From disk to dram to pmem at 3 ns, where a run reads it at 3 ns."""
    graph = Graph(
        name="travel",
        tensors=(Tensor(name="z", nbytes=0, kind="state", initial=True),),
        ops=(Op(name="f", reads=(0,)),),
    )
    machine = replace(
        SLOW,
        processors=(Processor(name="cpu", tiers=(Access(tier="pmem"),)),),
        channels=(*SLOW.channels, Channel(src="dram", dst="pmem", bytes_per_s=1)),
    )
    copies = (Copy(0, "dram", "pmem", 3, 3), Copy(0, "disk", "dram", 3, 3, (0, 0)))
    plan = Plan(machine=machine, start=(Resident(0, "disk"),), copies=copies, runs=(Run(0, 0, 3, 4, "cpu"),))
    verdict = verify(graph, plan)
    assert verdict.valid
    assert verdict.traffic == {}
    verdict = verify(graph, replace(plan, copies=copies[:1]))
    assert [witness(v) for v in verdict.violations] == [
        {"kind": "copy-source", "time": 3, "tensor": 0, "tier": "dram", "copy": 0},
        {"kind": "read", "time": 3, "op": 0, "tensor": 0, "tier": "pmem", "run": 0},
    ]
    waiting = replace(machine, channels=(machine.channels[0], replace(machine.channels[1], latency_ns=1)))
    violation = only(verify(graph, replace(plan, machine=waiting)))
    assert witness(violation) == {
        "kind": "channel", "time": 3, "tensor": 0, "copy": 0, "resource": "dram->pmem",
    }  # fmt: skip


def test_recomputation_by_hand() -> None:
    """x (3) -> f -> y (5) -> g -> z (2); h reads x and y again: y is dropped and made anew."""
    graph = chain(Accounting.COEXIST)
    last = Op(name="h", duration_ns=1, reads=(1, 2), writes=(2,))
    graph = replace(graph, ops=(*graph.ops, last))
    one = Machine.single()
    plan = Plan(
        machine=one,
        start=(Resident(0, "memory"),),
        runs=tuple(Run(op, 0, s, e, "any0") for op, s, e in ((0, 0, 2), (1, 2, 4), (0, 5, 7), (2, 7, 8))),
        frees=(Free(1, "memory", 4), Free(0, "memory", 7), Free(1, "memory", 8)),
    )
    verdict = verify(graph, plan)
    assert verdict.valid
    assert verdict.profiles == {"memory": ((0, 9), (2, 10), (4, 5), (5, 11), (7, 7), (8, 2))}
    assert (verdict.makespan, verdict.stall, verdict.recomputed) == (8, 1, 1)
    again = replace(plan, runs=(*plan.runs, Run(1, 0, 8, 10, "any0")), frees=plan.frees[:2])
    violation = only(verify(graph, again))
    assert witness(violation) == {"kind": "final", "time": 10, "tensor": 2}
    assert "in version 2, but tensor 2 'z' is version 1 in tier 'memory'" in violation.message


def test_every_kind_is_provoked_here_or_in_the_periodic_tests() -> None:
    """A rule added to the verifier needs its drawing: this list is kept by hand."""
    drawn = {
        "graph", "shape", "start", "missing-run", "repeated-run", "duration", "processor-kind",
        "processor-overlap", "precedence", "read", "write-conflict", "copy-source", "copy-target",
        "channel", "channel-rate", "group-rate", "free", "capacity", "final", "period",
    }  # fmt: skip
    assert drawn == set(PLAN_KINDS)
