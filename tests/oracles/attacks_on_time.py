"""Attacks on time: rates, durations, processors, order, and the period."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowtide.models.graph import Mode
from lowtide.models.machine import Access, Channel, ChannelGroup, Tier
from lowtide.models.plan import Copy, Free, Resident
from tests.oracles.attack_kit import (
    MACHINE,
    PER_NS,
    F,
    S,
    attack,
    in_both_accountings,
    op,
    plan,
    run,
    tensor,
    with_machine,
)


def rates() -> None:
    """Channels and groups to the last byte."""

    def channel(limit: int, latency: int = 0) -> object:
        return with_machine(channels=(Channel(src=S, dst=F, bytes_per_s=limit, latency_ns=latency),))

    one = [tensor(1, "i") for _ in range(3)]
    there = tuple(Resident(t, S) for t in range(3))
    thirds = tuple(Copy(t, S, F, 0, 3) for t in range(3))
    attack("three thirds of a channel", one, [], plan(*there, *thirds, machine=channel(PER_NS)))
    attack(
        "three thirds of a channel but 1 B/s",
        one,
        [],
        plan(*there, *thirds, machine=channel(PER_NS - 1)),
        "channel-rate",
    )
    attack("a third rounded up", one, [], plan(*there, thirds[0], machine=channel(333_333_334)))
    attack(
        "a third rounded down", one, [], plan(*there, thirds[0], machine=channel(333_333_333)), "channel-rate"
    )
    four = [tensor(4, "i"), tensor(4, "i")]
    here = (Resident(0, S), Resident(1, S))
    attack("one after the other", four, [], plan(*here, Copy(0, S, F, 0, 4), Copy(1, S, F, 4, 8)))
    attack("1 ns together", four, [], plan(*here, Copy(0, S, F, 0, 4), Copy(1, S, F, 3, 7)), "channel-rate")
    attack(
        "together in the latency only",
        four,
        [],
        plan(*here, Copy(0, S, F, 0, 7), Copy(1, S, F, 4, 11), machine=channel(PER_NS, 3)),
    )
    attack(
        "latency takes its share",
        four,
        [],
        plan(*here, Copy(0, S, F, 0, 6), machine=channel(PER_NS, 3)),
        "channel-rate",
    )
    attack(
        "nothing left after the latency",
        four,
        [],
        plan(*here, Copy(0, S, F, 0, 3), machine=channel(10**18, 3)),
        "channel",
    )
    attack("in no time", four, [], plan(*here, Copy(0, S, F, 2, 2)), "channel")
    attack("from a tier to itself", four, [], plan(*here, Copy(0, S, S, 0, 4)), "channel")
    group = ChannelGroup(name="link", channels=((S, F), (F, S)), bytes_per_s=PER_NS)
    linked = with_machine(groups=(group,))
    across = (Resident(0, S), Resident(1, F))
    attack(
        "both ways over one link",
        four,
        [],
        plan(*across, Copy(0, S, F, 0, 4), Copy(1, F, S, 3, 7), machine=linked),
        "group-rate",
    )
    attack(
        "both ways at half the rate",
        four,
        [],
        plan(*across, Copy(0, S, F, 0, 8), Copy(1, F, S, 0, 8), machine=linked),
    )
    held = [tensor(4, "i", "f"), tensor(4, "i", "f")]
    round_it = Copy(0, S, F, 8, 12), Free(0, F, 3)
    attack(
        "straddling copy and one at the beginning",
        held,
        [],
        plan(*here, *round_it, Copy(1, S, F, 1, 5), Free(1, F, 5), period=10),
        "channel-rate",
    )
    late = with_machine(channels=(Channel(src=S, dst=F, bytes_per_s=PER_NS, latency_ns=4),))
    waits = (*here, Copy(0, S, F, 8, 16), Free(0, F, 7), Free(1, F, 10))
    attack(
        "latency across the end, 1 ns together",
        held,
        [],
        plan(*waits, Copy(1, S, F, 1, 9), period=10, machine=late),
        "channel-rate",
    )
    attack(
        "latency across the end, one after the other",
        held,
        [],
        plan(*waits, Copy(1, S, F, 2, 10), period=10, machine=late),
    )
    attack(
        "straddling copy and one after it",
        held,
        [],
        plan(*here, *round_it, Copy(1, S, F, 2, 6), Free(1, F, 6), period=10),
    )


def durations() -> None:
    """Operands in place, in the tier that serves them best."""
    w, read = [tensor(4, "i")], [op((0,))]
    both = (Resident(0, F), Resident(0, S))
    attack("as if read from the slow tier", w, read, plan(*both, run(0, 0, "both", 8)), "duration")
    attack("read from the fast tier", w, read, plan(*both, run(0, 0, "both", 4)))
    attack("read from the slow tier", w, read, plan(both[1], run(0, 0, "both", 8)))
    attack("as if read from the fast tier", w, read, plan(both[1], run(0, 0, "both", 4)), "duration")
    in_both_accountings(
        "fast copy freed under way",
        ("duration",),
        (),
        w,
        read,
        plan(*both, run(0, 0, "both", 4), Free(0, F, 2)),
    )
    in_both_accountings(
        "fast copy freed under way, slow in time",
        (),
        ("duration",),
        w,
        read,
        plan(*both, run(0, 0, "both", 8), Free(0, F, 2)),
    )
    in_both_accountings(
        "fast copy lands too late", (), (), w, read, plan(both[1], Copy(0, S, F, 0, 4), run(0, 1, "both", 8))
    )
    third = replace(MACHINE.processors[0], tiers=(Access(tier=F, bytes_per_s=3 * PER_NS),))
    slow = with_machine(processors=(third,))
    ones = [tensor(1, "i"), tensor(1, "i")]
    two = plan(Resident(0, F), Resident(1, F), run(0, 0, ns=5), machine=slow)
    attack("one rounding of the sum", ones, [op((0, 1))], two)
    attack("a sum of roundings", ones, [op((0, 1))], replace(two, runs=(run(0, 0, ns=6),)), "duration")
    attack(
        "read and written there: once",
        [tensor(3, "i")],
        [op((0,), (0,))],
        plan(Resident(0, F), run(0, 0, ns=5), machine=slow),
    )
    attack(
        "read there and written elsewhere: the read counts",
        w,
        [op((0,), (0,))],
        plan(both[1], run(0, 0, "both", 8)),
    )
    attack("written without a read", [tensor(3)], [op((), (0,))], plan(run(0, 0, ns=5), machine=slow))
    attack("1 ns too long", w, read, plan(both[0], run(0, 0, ns=5)), "duration")
    named = [op((0,), modes=(Mode(duration_ns=4, operands=((0, S),)),))]
    attack("mode names the other tier", w, named, plan(both[0], run(0, 0, "both", 4)), "read")
    attack("mode names the slow tier", w, named, plan(*both, run(0, 0, "both", 8)))
    attack("mode names a tier out of reach", w, named, plan(*both, run(0, 0)), "processor-kind")
    made = [op((), (0,), modes=(Mode(duration_ns=4, operands=((0, S),)),)), op((0,))]
    fresh = [tensor(4)]
    attack("written where the mode says", fresh, made, plan(run(0, 0, "both", 8), run(1, 8, "cpu")))
    attack("sought at home", fresh, made, plan(run(0, 0, "both", 8), run(1, 8)), "read")
    kinds = [
        op(modes=(Mode(duration_ns=4, processors=("cpu",)), Mode(duration_ns=2, processors=("any", "both"))))
    ]
    attack("mode of another processor kind", [], kinds, plan(run(0, 0)), "processor-kind")
    attack("mode of this processor kind", [], kinds, plan(run(0, 0, ns=2, mode=1)))
    attack("1 ns together on a processor", [], [op(), op()], plan(run(0, 0), run(1, 3)), "processor-overlap")
    attack(
        "one inside the other on a processor",
        [],
        [op(ns=9), op(ns=1)],
        plan(run(0, 0, ns=9), run(1, 3, ns=1)),
        "processor-overlap",
    )
    attack("seamless on a processor", [], [op(), op()], plan(run(0, 0), run(1, 4)))


def order() -> None:
    """Precedence where no memory tells."""
    attack(
        "write before the read it follows",
        [tensor(4, "i")],
        [op((0,)), op((), (0,))],
        plan(Resident(0, F), run(0, 0), run(1, 1, "p1")),
        "precedence",
        replace=True,
    )
    attack(
        "dead writes swapped",
        [tensor(4)],
        [op((), (0,)), op((), (0,))],
        plan(run(1, 0), run(0, 4)),
        "precedence",
    )
    attack("after, 1 ns early", [], [op(), op(after=(0,))], plan(run(0, 0), run(1, 3, "p1")), "precedence")
    attack("after, on time", [], [op(), op(after=(0,))], plan(run(0, 0), run(1, 4, "p1")))
    attack(
        "free to swap where versions decide",
        [tensor(4)],
        [op((), (0,)), op((), (0,))],
        plan(run(1, 0), run(0, 4)),
        rerun=True,
    )
    inputs = [tensor(4, "i", kind="input")]
    attack("input starts inside", inputs, [], plan(Resident(0, F)), "start")
    attack("input starts inside where it may", inputs, [], plan(Resident(0, F)), start_tiers={"input": (F,)})
    attack(
        "input starts inside where the plan says",
        inputs,
        [],
        plan(Resident(0, F), start_tiers={"input": (F,)}),
    )
    attack(
        "input starts outside, the plan says inside",
        inputs,
        [],
        plan(Resident(0, S), start_tiers={"input": (F,)}),
        "start",
    )
    for name, stated, kinds in (
        ("more than the question", {"input": (F, S)}, ("start",)),
        ("anywhere, not the question", {}, ("start",)),
        ("of kinds that are not there", {"input": (F,), "weight": (F, S)}, ()),
        ("no mapping", [], ("shape",)),
        ("no kind", {"inputs": (F,)}, ("shape",)),
        ("a kind that is no text", {0: (F,)}, ("shape",)),
        ("a kind that has no hash of its own", {(F, S): (F,)}, ("shape",)),
        ("a tier of another machine", {"input": ("moon",)}, ("shape",)),
        ("no tiers", {"input": F}, ("shape",)),
        ("a tier that is no text", {"input": ([],)}, ("shape",)),
    ):
        attack(
            f"the plan says {name}",
            inputs,
            [],
            plan(Resident(0, F), start_tiers=stated),
            *kinds,
            start_tiers={"input": (F,), "weight": ()},
        )
    attack(
        "weight may start nowhere",
        [tensor(4, "i")],
        [],
        plan(Resident(0, F)),
        "start",
        start_tiers={"weight": ()},
    )
    attack(
        "start of what is not initial", [tensor(4)], [op((), (0,))], plan(Resident(0, F), run(0, 0)), "start"
    )
    attack(
        "start of what is not initial, read",
        [tensor(4), tensor(4)],
        [op((), (0,)), op((0,))],
        plan(Resident(0, F), run(1, 0), run(0, 4)),
        "start",
        "read",
        "precedence",
    )
    attack("final tensor nowhere", [tensor(4, "i", "f")], [], plan(), "final")
    attack("untouched tensor nowhere", [tensor(4, "i")], [], plan())
    attack("for another graph", [], [], plan(graph_sha256="0" * 64), "graph")
    nonsense: tuple[Any, ...] = (True, 0.0, float("nan"), -1, 2, None, "0", (0,), 10**30)
    for n, wrong in enumerate(nonsense):
        time: Any = 1.0 if wrong == 2 else wrong
        attack(
            f"op of a run, wrong {n}",
            [],
            [op(), op()],
            plan(run(0, 0), replace(run(1, 4), op=wrong)),
            "shape",
            "missing-run",
        )
        attack(
            f"time of a free, wrong {n}",
            [tensor(4, "i")],
            [],
            plan(Resident(0, F), Free(0, F, time)),
            "shape",
        )
        attack(
            f"tensor of a copy, wrong {n}",
            [tensor(4, "i")],
            [],
            plan(Resident(0, F), Copy(wrong, F, S, 0, 4)),
            "shape",
        )
        bad = (1, 1) if wrong is None else wrong
        attack(f"bytes of a start, wrong {n}", [tensor(4, "i")], [], plan(Resident(0, F, bad)), "shape")
    attack("ends before it starts", [tensor(4, "i")], [], plan(Resident(0, F), Copy(0, F, S, 4, 3)), "shape")
    attack("runs in no time", [], [op()], plan(run(0, 0, ns=0)), "shape", "missing-run")


def periods() -> None:
    """Steady states."""
    w, read, use = [tensor(4, "i", "f")], [op((0,))], Resident(0, S)
    fetch = (use, Copy(0, S, F, 0, 4), run(0, 4))
    attack("fetched and released", w, read, plan(*fetch, Free(0, F, 8), period=8))
    attack("fetched and kept", w, read, plan(*fetch, period=8), "period")
    attack("released at the wrong end", w, read, plan(*fetch, Free(0, F, 0), period=8), "free", "period")
    early = (use, Copy(0, S, F, 6, 12), Free(0, F, 6))
    attack("fetched across the end", w, read, plan(*early, run(0, 2), period=10))
    attack("read 1 ns before it lands", w, read, plan(*early, run(0, 1), period=10), "read")
    attack(
        "said to be there while it lands", w, read, plan(*early, Resident(0, F), run(0, 0), period=10), "read"
    )
    attack(
        "capacity while it lands",
        w,
        read,
        plan(
            *early, run(0, 2), period=10, machine=with_machine(tiers=(Tier(name=F, capacity=3), Tier(name=S)))
        ),
        "capacity",
    )
    attack(
        "source released while it lands",
        w,
        read,
        plan(*early, run(0, 2), Free(0, S, 1), period=10),
        "copy-source",
        "read",
        "final",
        "period",
    )
    attack(
        "target released while it lands",
        w,
        [],
        plan(*early, Free(0, F, 1), Free(0, F, 6), period=10),
        "copy-target",
        "free",
    )
    attack(
        "target released at the end",
        w,
        read,
        plan(*early, run(0, 2), Free(0, F, 10), period=10),
        "copy-target",
        "read",
        "period",
    )
    attack("fetched for a whole period", w, [], plan(use, Copy(0, S, F, 3, 13), period=10))
    attack("fetched for more than a period", w, [], plan(use, Copy(0, S, F, 3, 14), period=10), "shape")
    attack("fetched from the period's end on", w, [], plan(use, Copy(0, S, F, 10, 14), period=10), "shape")
    attack("runs across the end", w, read, plan(Resident(0, F), run(0, 8), period=10), "shape", "missing-run")
    attack("runs to the end", w, read, plan(Resident(0, F), run(0, 6), period=10))
    attack(
        "lands at the end",
        w,
        read,
        plan(use, Resident(0, F), run(0, 0), Free(0, F, 4), Copy(0, S, F, 6, 10), period=10),
    )
    step = [op((0,), (0,))]
    cycle = (use, run(0, 2), Free(0, F, 10), Copy(0, S, F, 10, 16))
    attack("updated, brought back, fetched", w, step, plan(*cycle, Copy(0, F, S, 6, 10), period=14))
    attack(
        "updated, fetched without", w, step, plan(*cycle, period=14), "copy-source", "read", "final", "period"
    )
    attack(
        "updated as it lands",
        w,
        step,
        plan(use, run(0, 0), Free(0, F, 10), Copy(0, F, S, 4, 8), Copy(0, S, F, 10, 16), period=14),
        "read",
        "write-conflict",
        "copy-source",
        "copy-target",
    )
    fresh, here = [op((), (0,))], Resident(0, F)
    attack("overwritten beside a valid copy", w, fresh, plan(here, use, run(0, 0), period=4), "period")
    attack(
        "overwritten beside a stale copy",
        w,
        fresh,
        plan(here, Resident(0, S, None, False), run(0, 0), period=4),
    )
    attack(
        "stale copy made valid",
        w,
        [],
        plan(here, Resident(0, S, None, False), Copy(0, F, S, 0, 4), period=4),
        "period",
    )
    attack("half a copy more", w, [], plan(here, Copy(0, F, S, 0, 2, (0, 2)), period=4), "period")
    attack("half a copy less", w, [], plan(here, use, Free(0, S, 0, (0, 2)), period=4), "period")
    attack(
        "moved to the other tier", w, [], plan(here, Copy(0, F, S, 0, 4), Free(0, F, 4), period=4), "period"
    )
    activation = [tensor(4)]
    attack("activation left behind", activation, fresh, plan(run(0, 0), period=4), "period")
    attack("activation released at the end", activation, fresh, plan(run(0, 0), Free(0, F, 4), period=4))
    attack("output left behind", [tensor(4, "f")], fresh, plan(run(0, 0), period=4))
    state = [tensor(4, "i")]
    attack("input released for the next one", state, [], plan(use, Free(0, S, 4), period=4))
    attack(
        "input left in another tier",
        state,
        [],
        plan(use, Copy(0, S, F, 0, 4), Free(0, S, 4), period=4),
        "period",
    )
    attack("input across the end", state, [], plan(use, Copy(0, S, F, 6, 12), period=10), "period")
    old = [op((0,)), op((0,), (0,))]
    attack(
        "old version fetched, as its writer never runs",
        w,
        old,
        plan(*early, run(0, 2), period=10),
        "missing-run",
        "read",
        "final",
        "period",
    )
    attack("period of 1 ns", [], [op(ns=1)], plan(run(0, 0, ns=1), period=1))
    for n, wrong in enumerate((True, 0, -1, 8.0, float("nan"), 2**63)):
        attack(f"period that is none, {n}", w, read, plan(here, run(0, 0), period=wrong), "shape")
