"""Plans that were drawn and worked out by hand, for the tests of the verifier.

The first is a swap plan: one processor, GPU memory of 18 bytes and a host; a copy to the GPU waits 1 ns and
then brings 1 byte per ns, a copy back brings 2::

    ns    0      5      10     15     18     22     26
    p                   |  a   |  b   |  c   |
    x     |copy to gpu--|             free
    w     [0, 4) is on the gpu; copy [4, 8)--|     |copy back--|  free
    gpu   8      12     18     18     18     14     6
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.machine import Access, Channel, ChannelGroup, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from lowtide.models.verifier.verdict import Verification, Violation

W, X, Y, Z = range(4)
GIGA = 10**9

GRAPH = Graph(
    name="step",
    tensors=(
        Tensor(name="w", nbytes=8, kind="weight", initial=True, final=True),
        Tensor(name="x", nbytes=4, kind="input", initial=True),
        Tensor(name="y", nbytes=4),
        Tensor(name="z", nbytes=6, kind="output", final=True),
    ),
    ops=(
        Op(name="a", duration_ns=5, workspace=2, reads=(W, X), writes=(Y,)),
        Op(name="b", duration_ns=3, reads=(Y,), writes=(Z,)),
        Op(name="c", duration_ns=4, reads=(W, Y), writes=(W,)),
    ),
)
MACHINE = Machine(
    tiers=(Tier(name="gpu", capacity=18), Tier(name="host")),
    processors=(Processor(name="p", kind="gpu", tiers=(Access(tier="gpu"),)),),
    channels=(
        Channel(src="host", dst="gpu", bytes_per_s=GIGA, latency_ns=1),
        Channel(src="gpu", dst="host", bytes_per_s=2 * GIGA),
    ),
    groups=(ChannelGroup(name="pcie", channels=(("host", "gpu"), ("gpu", "host")), bytes_per_s=2 * GIGA),),
)
PLAN = Plan(
    machine=MACHINE,
    start=(Resident(W, "host"), Resident(W, "gpu", (0, 4)), Resident(X, "host")),
    runs=(Run(0, 0, 10, 15, "p"), Run(1, 0, 15, 18, "p"), Run(2, 0, 18, 22, "p")),
    copies=(
        Copy(X, "host", "gpu", 0, 5),
        Copy(W, "host", "gpu", 5, 10, (4, 8)),
        Copy(W, "gpu", "host", 22, 26),
    ),
    frees=(Free(X, "gpu", 15), Free(Y, "gpu", 22), Free(W, "gpu", 26)),
)


def witness(violation: Violation) -> dict[str, Any]:
    """Return everything but the sentence."""
    found = violation.to_dict()
    del found["message"]
    return found


def only(verdict: Verification) -> Violation:
    assert [str(v) for v in verdict.violations][1:] == []
    return verdict.violations[0]


def of_kind(verdict: Verification, kind: str) -> list[dict[str, Any]]:
    return [witness(v) for v in verdict.violations if v.kind == kind]


def kinds(verdict: Verification) -> set[str]:
    return {v.kind for v in verdict.violations}


def edited(plan: Plan, name: str, position: int, **changes: Any) -> Plan:
    """Return the plan with other fields in one action."""
    items = list(getattr(plan, name))
    items[position] = replace(items[position], **changes)
    changed: dict[str, Any] = {name: tuple(items)}
    return replace(plan, **changed)


def one_tier(
    graph: Graph, runs: list[tuple[int, int, int]], frees: tuple[Free, ...] = (), **more: Any
) -> Plan:
    """Return a plan of ``(op, start, end)``, each run on a processor of its own."""
    machine = Machine.single(kinds=[f"p{k}" for k in range(max(len(runs), 1))])
    initial = [t for t, tensor in enumerate(graph.tensors) if tensor.initial]
    return Plan(
        machine=machine,
        accounting=graph.accounting,
        start=tuple(Resident(t, "memory") for t in initial),
        runs=tuple(Run(op, 0, s, e, f"p{k}0") for k, (op, s, e) in enumerate(runs)),
        frees=frees,
        **more,
    )


def chain(accounting: Accounting) -> Graph:
    """Return x -> f -> y -> g -> z with 3, 5 and 2 bytes."""
    return Graph(
        name="chain",
        accounting=accounting,
        tensors=(
            Tensor(name="x", nbytes=3, kind="input", initial=True),
            Tensor(name="y", nbytes=5),
            Tensor(name="z", nbytes=2, final=True),
        ),
        ops=(
            Op(name="f", duration_ns=2, workspace=1, reads=(0,), writes=(1,)),
            Op(name="g", duration_ns=2, reads=(1,), writes=(2,)),
        ),
    )


VERSIONS = Graph(
    name="write, read, overwrite, overwrite, then",
    tensors=(Tensor(name="t", nbytes=1, final=True), Tensor(name="u", nbytes=1)),
    ops=(
        Op(name="write", writes=(0,)),
        Op(name="read", reads=(0,), writes=(1,)),
        Op(name="overwrite", writes=(0,)),
        Op(name="last", writes=(0,)),
        Op(name="then", after=(1,)),
    ),
)
