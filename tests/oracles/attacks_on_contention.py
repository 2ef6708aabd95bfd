"""Attacks on plans of ops that share a device, which the naive simulator does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowtide.models.graph import Graph
from lowtide.models.machine import Access, Channel, Contention, Machine, Processor, Tier
from lowtide.models.plan import Copy, Plan
from tests.oracles.attack_kit import op, plan, run, tensor
from tests.random_plans import Case

ROW = [op(), op(after=(0,))]
SIDE = [op(share=3), op(share=2), op(share=1)]


def device(model: str, *, sync: int = 0, capacity: int | None = None, rate: int | None = None) -> Machine:
    """Return a device of four parts with three streams."""
    access = (Access(tier="memory", bytes_per_s=rate),)
    return Machine(
        tiers=(Tier(name="memory", capacity=capacity),),
        processors=tuple(Processor(name=f"s{k}", tiers=access) for k in range(3)),
        contention=Contention(model=model, parts=4, sync_ns=sync),
    )


def pair(*, shared: bool) -> Machine:
    """Return two devices of four parts with two streams each, and a link of 1 byte per ns."""
    even, tiers = device("proportional"), (Tier(name="d0"), Tier(name="d1"))
    return replace(
        even,
        tiers=tiers,
        processors=tuple(
            Processor(name=f"{tier.name}s{k}", tiers=(Access(tier=tier.name),))
            for tier in tiers
            for k in "01"
        ),
        channels=(Channel(src="d0", dst="d1", bytes_per_s=10**9, shared=shared),),
    )


def case(ops: list[Any], made: Plan, tensors: tuple[Any, ...] = ()) -> Case:
    return Case(Graph(name="shared", tensors=tensors, ops=tuple(ops)), made)


def attacks_on_contention() -> dict[str, tuple[Case, set[str]]]:
    """Return each attack with the kinds of violation that it must be given."""
    free, alone, even, staged = (device(x) for x in ("none", "none", "proportional", "fluid"))
    late = device("none", sync=3)
    beside = [run(k, 0, f"s{k}", ns=6) for k in range(3)]
    hasty = [run(0, 0, "s0", ns=6), run(1, 0, "s1", ns=5), run(2, 0, "s2", ns=5)]
    bytes_of = (tensor(4, "f"), tensor(4, "f"))
    writers = [
        op((), (0,), workspace=5, share=1),
        op((), (1,), share=1),
        op(after=(1,), workspace=5, share=1),
    ]
    parted = replace(
        device("fluid"),
        tiers=(Tier(name="memory"), Tier(name="other")),
        processors=(*staged.processors[:2], replace(staged.processors[2], tiers=(Access(tier="other"),))),
    )
    roomy = [run(0, 0, "s0"), run(1, 0, "s1"), run(2, 4, "s1")]
    two, common = pair(shared=False), pair(shared=True)
    full = [run(k, 0, f"d{k}s0") for k in range(2)]
    made = [op((), (0, 1), share=2), op((0, 1), share=2)]
    moves = [run(0, 0, "d0s0"), Copy(0, "d0", "d1", 4, 8), Copy(1, "d0", "d1", 4, 8), run(1, 8, "d1s0")]
    hurried = [*moves[:2], Copy(1, "d0", "d1", 4, 7), moves[3]]
    sent = (tensor(4), tensor(4))
    return {
        "two devices that are full": (case([op(), op()], plan(*full, machine=two)), set()),
        "one of two devices that is more than full": (
            case([op(share=4), op(share=2), op(share=4)], plan(*full, run(2, 0, "d1s1"), machine=two)),
            {"contention"},
        ),
        "two copies on a channel that is not shared": (case(made, plan(*moves, machine=two), sent), set()),
        "two copies on one that is": (case(made, plan(*moves, machine=common), sent), {"channel-rate"}),
        "a copy that is too fast where none else counts": (
            case(made, plan(*hurried, machine=two), sent),
            {"channel-rate"},
        ),
        "two in a row": (case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s1"), machine=free)), set()),
        "stages without contention": (
            case(ROW, plan(run(0, 0), run(1, 4), stages=(0,))),
            {"shape"},
        ),
        "stages under events": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=alone, stages=(0,))),
            {"shape"},
        ),
        "a period under contention": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=alone, period=8)),
            {"shape"},
        ),
        "a slow tier under contention": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=device("none", rate=1))),
            {"shape"},
        ),
        "a device with two memories": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=parted, stages=(0,))),
            {"shape"},
        ),
        "a wait that is long enough": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 7, "s1"), machine=late)),
            set(),
        ),
        "a wait that is too short": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 6, "s1"), machine=late)),
            {"sync"},
        ),
        "a wait within a stream": (case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=late)), set()),
        "a device that is full": (case(SIDE, plan(*beside, machine=even)), set()),
        "a device that is more than full": (
            case(SIDE, plan(*(run(k, 0, f"s{k}", ns=5) for k in range(3)), machine=even)),
            {"contention"},
        ),
        "one that may be late": (case(SIDE, plan(*hasty, machine=even)), {"contention"}),
        "a run shorter than its mode": (
            case(SIDE, plan(run(0, 0, "s0", ns=3), *beside[1:], machine=even)),
            {"duration", "contention"},
        ),
        "stages that are none": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=staged, stages=(4, 0))),
            {"shape"},
        ),
        "two stages": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s0"), machine=staged, stages=(0, 4))),
            set(),
        ),
        "a run over the end of a stage": (
            case(ROW, plan(run(0, 0, "s0", ns=8), run(1, 8, "s0"), machine=staged, stages=(0, 4, 8))),
            {"stage"},
        ),
        "groups that depend on each other": (
            case(ROW, plan(run(0, 0, "s0"), run(1, 4, "s1"), machine=staged, stages=(0,))),
            {"stage"},
        ),
        "a stage that is too short": (
            case(SIDE, plan(*(run(k, 0, f"s{k}", ns=5) for k in range(3)), machine=staged, stages=(0,))),
            {"stage"},
        ),
        "a stage without room for all at once": (
            case(
                writers,
                plan(*roomy, machine=device("fluid", capacity=17), stages=(0,)),
                bytes_of,
            ),
            {"stage"},
        ),
    }
