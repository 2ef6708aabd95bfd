"""Attacks on memory: events that meet at one instant, parts of tensors, versions, tensors without bytes."""

from __future__ import annotations

from dataclasses import replace

from lowtide.models.machine import Channel, Tier
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


def at_one_instant() -> None:
    """Ends, reads, frees and starts that meet."""
    w, x = [tensor(4, "i"), tensor(4)], [op((0,), (1,)), op((), (0,))]
    here = Resident(0, F)
    in_both_accountings(
        "overwrite as a read starts",
        ("read", "precedence"),
        ("read", "precedence"),
        w,
        x,
        plan(here, run(0, 0), run(1, 0, "p1")),
    )
    in_both_accountings(
        "overwrite during a read",
        ("read", "precedence"),
        ("precedence",),
        w,
        x,
        plan(here, run(0, 0), run(1, 2, "p1")),
    )
    in_both_accountings("overwrite as a read ends", (), (), w, x, plan(here, run(0, 0), run(1, 4, "p1")))
    in_both_accountings(
        "free as a read starts", ("read",), (), w, x[:1], plan(here, run(0, 0), Free(0, F, 0))
    )
    in_both_accountings("free during a read", ("read",), (), w, x[:1], plan(here, run(0, 0), Free(0, F, 3)))
    in_both_accountings("free as a read ends", (), (), w, x[:1], plan(here, run(0, 0), Free(0, F, 4)))
    in_both_accountings(
        "free half during a read", ("read",), (), w, x[:1], plan(here, run(0, 0), Free(0, F, 1, (3, 4)))
    )
    over = plan(here, Resident(0, S), run(0, 2), Copy(0, S, F, 2, 6))
    in_both_accountings("copy over what a run starts to read", ("read",), (), w, x[:1], over)
    late = plan(here, Resident(0, S), run(0, 2), Copy(0, S, F, 4, 8, (0, 1)))
    in_both_accountings("copy over what a run reads", ("read",), (), w, x[:1], late)
    early = plan(Resident(0, S), run(0, 3), Copy(0, S, F, 0, 4))
    in_both_accountings("read 1 ns before the copy ends", ("read",), ("read",), w, x[:1], early)
    just = plan(Resident(0, S), run(0, 4), Copy(0, S, F, 0, 4))
    in_both_accountings("read as the copy ends", (), (), w, x[:1], just)
    attack(
        "copies both ways at once",
        w,
        [],
        plan(here, Resident(0, S), Copy(0, F, S, 0, 4), Copy(0, S, F, 0, 4)),
        "copy-source",
    )
    twice = replace(MACHINE, channels=tuple(replace(c, bytes_per_s=2 * PER_NS) for c in MACHINE.channels))
    attack(
        "two copies into the same bytes",
        w,
        [],
        plan(here, Copy(0, F, S, 0, 4, (0, 3)), Copy(0, F, S, 0, 4, (2, 4)), machine=twice),
        "copy-target",
    )
    attack(
        "two copies side by side",
        w,
        [],
        plan(here, Copy(0, F, S, 0, 4, (0, 2)), Copy(0, F, S, 0, 4, (2, 4)), machine=twice),
    )
    attack("copy after copy into the same bytes", w, [], plan(here, Copy(0, F, S, 0, 4), Copy(0, F, S, 4, 8)))
    attack(
        "copy leaves as its tensor is written",
        w,
        x[1:],
        plan(here, run(0, 2), Copy(0, F, S, 2, 6)),
        "copy-source",
        "copy-target",
    )
    attack("copy leaves as the write ends", w, x[1:], plan(run(0, 2), Copy(0, F, S, 6, 10)))
    attack(
        "copy lands where a run starts to write",
        w,
        x[1:],
        plan(Resident(0, S), run(0, 2), Copy(0, S, F, 0, 4)),
        "copy-source",
        "copy-target",
        "write-conflict",
    )
    attack(
        "copy into what a run is writing",
        w,
        x[1:],
        plan(Resident(0, S), run(0, 0), Copy(0, S, F, 2, 6)),
        "copy-source",
        "write-conflict",
    )
    attack(
        "source freed under way", w, [], plan(here, Copy(0, F, S, 0, 4), Free(0, F, 3, (0, 1))), "copy-source"
    )
    attack("source freed on arrival", w, [], plan(here, Copy(0, F, S, 0, 4), Free(0, F, 4)))
    attack("target freed under way", w, [], plan(here, Copy(0, F, S, 0, 4), Free(0, S, 3)), "copy-target")
    attack("output freed while it is written", w, x[1:], plan(run(0, 0), Free(0, F, 2)), "write-conflict")
    attack(
        "released and taken at one instant",
        [tensor(4, "i"), tensor(4)],
        [op((0,)), op((), (1,))],
        plan(
            here,
            run(0, 0),
            run(1, 4),
            Free(0, F, 4),
            machine=with_machine(tiers=(Tier(name=F, capacity=4), Tier(name=S))),
        ),
    )
    attack(
        "taken 1 ns before the release",
        [tensor(4, "i"), tensor(4)],
        [op((0,)), op((), (1,))],
        plan(
            here,
            run(0, 0),
            run(1, 4),
            Free(0, F, 5),
            machine=with_machine(tiers=(Tier(name=F, capacity=4), Tier(name=S))),
        ),
        "capacity",
    )
    attack(
        "workspace counts while it runs",
        [],
        [op(workspace=3), op(workspace=3)],
        plan(
            run(0, 0), run(1, 3, "p1"), machine=with_machine(tiers=(Tier(name=F, capacity=5), Tier(name=S)))
        ),
        "capacity",
    )
    attack("free twice at one instant", w, [], plan(here, Free(0, F, 1), Free(0, F, 1, (1, 2))), "free")
    attack(
        "final tensor freed at the makespan",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), Free(0, F, 4)),
        "final",
    )
    attack(
        "final tensor freed after the makespan",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), Free(0, F, 5)),
    )


def ranges_and_versions() -> None:
    """Parts of tensors, stale copies, versions that a rerun brings back."""
    w, read = [tensor(4, "i"), tensor(4)], [op((0,), (1,))]
    halves = (Resident(0, F, (0, 2)), Resident(0, S, (2, 4)))
    attack("half in each tier", w, read, plan(*halves, run(0, 0, "both", 6)), "read")
    attack("halves brought together", w, read, plan(*halves, Copy(0, S, F, 0, 2, (2, 4)), run(0, 2)))
    attack("all but one byte", w, read, plan(Resident(0, F, (0, 3)), run(0, 0)), "read")
    attack("entries that meet", w, read, plan(Resident(0, F, (0, 2)), Resident(0, F, (2, 4)), run(0, 0)))
    attack(
        "entries that overlap",
        w,
        read,
        plan(Resident(0, F, (0, 3)), Resident(0, F, (2, 4)), run(0, 0)),
        "start",
    )
    attack(
        "copy of a stale byte",
        w,
        read,
        plan(Resident(0, S, (0, 3)), Resident(0, S, (3, 4), False), Copy(0, S, F, 0, 4), run(0, 4)),
        "copy-source",
        "read",
    )
    both = (Resident(0, F), Resident(0, S))
    update = [tensor(4, "i"), tensor(4)], [op((), (0,)), op((0,), (1,))]
    attack("stale copy in the other tier", *update, plan(*both, run(0, 0), run(1, 4, "cpu")), "read")
    attack(
        "fresh copy in the other tier", *update, plan(*both, run(0, 0), Copy(0, F, S, 4, 8), run(1, 8, "cpu"))
    )
    attack(
        "final tensor stale where it is left",
        [tensor(4, "i", "f")],
        [op((), (0,))],
        plan(*both, run(0, 0), Free(0, F, 4)),
        "final",
    )
    attack(
        "final tensor in two halves",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), Copy(0, F, S, 4, 6, (0, 2)), Free(0, F, 6, (0, 2))),
    )
    attack(
        "half of a final tensor",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), Copy(0, F, S, 4, 6, (0, 2)), Free(0, F, 6)),
        "final",
    )
    old = [tensor(4), tensor(4, "f")]
    again = [op((), (0,)), op((), (0,)), op((0,), (1,))]
    attack(
        "older version written again", old, again, plan(run(0, 0), run(1, 4), run(0, 8), run(2, 12)), "read"
    )
    attack("newer version written again", old, again, plan(run(0, 0), run(1, 4), run(1, 8), run(2, 12)))
    attack(
        "dead writes in the other order",
        [tensor(4, "f")],
        [op((), (0,)), op((), (0,))],
        plan(run(1, 0), run(0, 4)),
        "final",
        rerun=True,
    )
    step = [tensor(4, "i", "f")], [op((0,), (0,))]
    attack("update applied twice", *step, plan(Resident(0, F), run(0, 0), run(0, 4)), "read")
    attack(
        "update applied twice to a saved input",
        *step,
        plan(Resident(0, F), Resident(0, S), run(0, 0), Copy(0, S, F, 4, 8), run(0, 8)),
        "copy-source",
        "read",
    )
    attack(
        "two runs write at once",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), run(0, 2, "p1")),
        "write-conflict",
    )
    attack(
        "two tiers written at once",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), run(0, 2, "cpu")),
        "write-conflict",
    )
    attack(
        "repeated although each op runs once",
        [tensor(4, "f")],
        [op((), (0,))],
        plan(run(0, 0), run(0, 4)),
        "repeated-run",
        rerun=False,
    )
    later = [op(), op(after=(0,))]
    attack(
        "control edge broken by the first run only",
        [],
        later,
        plan(run(1, 0), run(0, 4), run(1, 8)),
        "precedence",
    )
    attack(
        "control edge from an op that never runs",
        [],
        later,
        plan(run(1, 0), run(1, 4)),
        "precedence",
        "missing-run",
    )
    attack("control edge kept once, then not needed", [], later, plan(run(0, 0), run(1, 4), run(0, 4, "p1")))


def without_bytes() -> None:
    """Tensors of zero bytes are there or not all the same."""
    nothing, read = [tensor(0, "i"), tensor(0, "i", "f")], [op((0,))]
    where = Resident(1, S)
    attack("nothing, not there", nothing, read, plan(where, run(0, 0)), "read")
    attack("nothing, in the other tier", nothing, read, plan(where, Resident(0, S), run(0, 0)), "read")
    attack("nothing, stale", nothing, read, plan(where, Resident(0, F, None, False), run(0, 0)), "read")
    attack("nothing, freed", nothing, read, plan(where, Resident(0, F), run(0, 0), Free(0, F, 1)), "read")
    attack(
        "nothing, freed twice",
        nothing,
        [],
        plan(where, Resident(0, F), Free(0, F, 0, (0, 0)), Free(0, F, 0)),
        "free",
    )
    attack("nothing, listed twice", nothing, [], plan(where, Resident(1, S, (0, 0))), "start")
    attack("nothing, final, freed", nothing, [], plan(where, Free(1, S, 0)), "final")
    attack("nothing, by a byte", nothing, [], plan(where, Free(1, S, 0, (0, 1))), "shape")
    attack(
        "nothing, copied in no time",
        nothing,
        read,
        plan(where, Resident(0, S), Copy(0, S, F, 0, 0), run(0, 0)),
    )
    attack(
        "nothing, copied in no time from nowhere",
        nothing,
        [],
        plan(where, Copy(0, S, F, 0, 0)),
        "copy-source",
    )
    three = with_machine(
        tiers=(Tier(name=F), Tier(name="middle"), Tier(name=S)),
        channels=(
            Channel(src=S, dst="middle", bytes_per_s=1),
            Channel(src="middle", dst=F, bytes_per_s=1),
            Channel(src=F, dst="middle", bytes_per_s=1),
        ),
    )
    chain = (Copy(0, "middle", F, 0, 0), Copy(0, S, "middle", 0, 0))
    attack(
        "nothing, through two tiers in no time",
        nothing,
        read,
        plan(where, Resident(0, S), *chain, run(0, 0), machine=three),
    )
    attack(
        "nothing, round in a circle",
        nothing,
        [],
        plan(where, Copy(0, "middle", F, 0, 0), Copy(0, F, "middle", 0, 0), machine=three),
        "copy-source",
    )
    attack("nothing, left behind", [tensor(0)], [op((), (0,))], plan(run(0, 0), period=4), "period")
    attack(
        "nothing, written by two",
        [tensor(0, "f")],
        [op((), (0,))],
        plan(run(0, 0), run(0, 2, "p1")),
        "write-conflict",
    )
    attack(
        "nothing, on a slow channel",
        nothing,
        [],
        plan(
            where,
            Resident(0, S),
            Copy(0, S, F, 0, 1),
            Copy(1, S, F, 0, 1),
            machine=with_machine(channels=(Channel(src=S, dst=F, bytes_per_s=1),)),
        ),
    )
    attack(
        "nothing, within the latency",
        nothing,
        [],
        plan(
            where,
            Copy(1, S, F, 0, 1),
            machine=with_machine(channels=(Channel(src=S, dst=F, bytes_per_s=1, latency_ns=2),)),
        ),
        "channel",
    )
    attack("no ops at all, final tensor absent", nothing, [], plan(), "final")
