r"""Machines with channels between outer tiers, such as a drive behind the host: what bounds them.

The *merged* machine has one tier in place of all outer tiers that such channels connect. Its capacity is the
sum of theirs (none if one has none), its channel from the fast memory, and that into it, carries what theirs
carry together. A joint cap stays where it is over all channels of a merged one, or of several.

**Lemma.** What bounds the time on the merged machine by conditions 1 to 5 of
`lowtide.formulations.placement.bounds.samples` bounds the time on the machine.

*Proof.* Take a plan for the machine, and let a byte be in the merged tier while it is in one of those that it
stands for. Conditions 1 and 2 speak of the fast memory, and of writes, behind which a byte is in no outer
tier, so not in the merged one. A byte gets into the merged tier only over a channel from the fast memory,
for copies between its parts do not change whether it is in one of them; and from it into the fast memory only
over a channel of a part: condition 3. Each byte in the merged tier is allocated in some part: 4. What passes
the merged channel passes those that it stands for: 5. QED.

**Near tiers as one** (`near_as_one`). What reaches the fast memory from a tier without a channel to it must
first reach a tier that has one. On another machine the fast memory and all tiers with channels to or from it
are one, of the sum of their capacities, with the channels that lead into it and out of it. The runs of a
plan, its copies over these channels and its residencies in any part (a byte in several counts once) are a
plan of the same time there: runs find valid what is valid in the fast memory, each byte is allocated in some
part, and copies between parts, which are left out, bring nothing in. So bounds of the problem on that machine
are bounds of the problem. (Certificates do not state them.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....models.machine import Channel, ChannelGroup, Machine, Tier
from ....models.problems.placement import Placement
from ....models.problems.placement_machine import LARGEST


def merged(problem: Placement) -> Placement:
    """Return the problem on the merged machine, which says what its channels carry (`too_fast`).

    The problem itself if no channel is between outer tiers.
    """
    machine = problem.machine
    device = machine.tiers[0].name
    if all(device in (c.src, c.dst) for c in machine.channels):
        return problem
    joined = _joined(problem, _merged_into(machine))
    assert joined is not None
    return joined


def too_fast(problem: Placement) -> str:
    """Return why a problem has no merged machine."""
    into, rates = _merged_into(problem.machine), dict[tuple[str, str], int]()
    for c in problem.machine.channels:
        pair = into[c.src], into[c.dst]
        rates[pair] = rates.get(pair, 0) + c.bytes_per_s * (pair[0] != pair[1])
    if (most := max(rates.values(), default=0)) <= LARGEST:
        return ""
    return f"found {most} bytes per second in channels of outer tiers together, expected at most {LARGEST}"


def near_as_one(problem: Placement) -> Placement | None:
    """Return the problem on the machine whose near tiers are one.

    None if the first tier is alone, no tier is behind the near ones, or they have no limit together, or
    channels carry more together than a machine may say.
    """
    machine = problem.machine
    device = machine.tiers[0].name
    pairs = {(c.src, c.dst) for c in machine.channels}
    near = {t.name for t in machine.tiers[1:] if {(device, t.name), (t.name, device)} & pairs}
    sizes = [t.capacity for t in machine.tiers if t.name in {device, *near}]
    if not near or len(near) + 1 == len(machine.tiers) or _sum(sizes) is None:
        return None
    return _joined(problem, {t.name: device if t.name in near else t.name for t in machine.tiers})


def _joined(problem: Placement, into: dict[str, str]) -> Placement | None:
    """Return the problem on the machine where one tier stands for several: for each, its name.

    None if channels carry more together than a machine may say.
    """
    machine = problem.machine
    tiers = []
    for name in dict.fromkeys(into[t.name] for t in machine.tiers):
        sizes = [t.capacity for t in machine.tiers if into[t.name] == name]
        tiers.append(Tier(name=name, capacity=_sum(sizes)))
    parts: dict[tuple[str, str], list[Channel]] = {}
    for c in machine.channels:
        if into[c.src] != into[c.dst]:
            parts.setdefault((into[c.src], into[c.dst]), []).append(c)
    if any(sum(c.bytes_per_s for c in joined) > LARGEST for joined in parts.values()):
        return None
    channels = tuple(
        Channel(
            src=src,
            dst=dst,
            bytes_per_s=sum(c.bytes_per_s for c in joined),
            latency_ns=min(c.latency_ns for c in joined),
        )
        for (src, dst), joined in parts.items()
    )
    groups = []
    for group in machine.groups:
        capped = {*group.channels}
        whole = [pair for pair, joined in parts.items() if all((c.src, c.dst) in capped for c in joined)]
        if whole:
            groups.append(ChannelGroup(name=group.name, channels=tuple(whole), bytes_per_s=group.bytes_per_s))
    reduced = Machine(
        name=machine.name,
        tiers=tuple(tiers),
        processors=machine.processors,
        channels=channels,
        groups=tuple(groups),
    )
    start = {
        kind: tuple(dict.fromkeys(into[name] for name in joined)) for kind, joined in problem.starts.items()
    }
    return replace(problem, machine=reduced, start=start)


def _sum(sizes: Sequence[int | None]) -> int | None:
    """Return bytes together; None if one has no limit, or they are more than a machine may say."""
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) and sum(known) <= LARGEST else None


def _merged_into(machine: Machine) -> dict[str, str]:
    """Return for each tier the one that stands for it; of those that are connected, the first."""
    names = [t.name for t in machine.tiers]
    into = {name: name for name in names}
    for c in machine.channels:
        if names[0] not in (c.src, c.dst):
            first, second = sorted((into[c.src], into[c.dst]), key=names.index)
            into = {name: first if to == second else to for name, to in into.items()}
    return into
