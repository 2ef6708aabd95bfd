"""Machines with channels between outer tiers, as proofs by prices read them.

Tiers behind the first one that channels join, one by one, are taken for one tier, called like the first of
them: a byte is in it while it is in any of them. It holds what they hold together. A byte enters it from the
first tier, or leaves it for there, over the channels of its parts only; the one channel that stands for them
carries as much as all of them. A group counts for such a channel if it counts all that it stands for. So what
holds for every byte and every row of the machine of fewer tiers holds for each plan of the machine.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ...machine import Channel, ChannelGroup, Tier
from ...setting import Setting


def merged_setting(setting: Setting) -> Setting:
    """Return the setting on the machine of fewer tiers; itself if no channel joins outer tiers."""
    machine = setting.machine
    device, *outer = (tier.name for tier in machine.tiers)
    joined = [{c.src, c.dst} for c in machine.channels if device not in (c.src, c.dst)]
    if not joined:
        return setting
    name_of = {device: device}
    for name in outer:
        if name in name_of:
            continue
        part = {name}
        while more := set().union(*(pair for pair in joined if pair & part)) - part:
            part |= more
        name_of |= dict.fromkeys(part, name)
    rate: dict[tuple[str, str], int] = defaultdict(int)
    parts: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for c in machine.channels:
        pair = name_of[c.src], name_of[c.dst]
        if device in pair:
            rate[pair] += c.bytes_per_s
            parts[pair].add((c.src, c.dst))
    whole = {g.name: tuple(p for p, some in parts.items() if some <= {*g.channels}) for g in machine.groups}
    smaller = replace(
        machine,
        tiers=tuple(
            replace(t, capacity=_together([x for x in machine.tiers if name_of[x.name] == t.name]))
            for t in machine.tiers
            if name_of[t.name] == t.name
        ),
        channels=tuple(Channel(src=a, dst=b, bytes_per_s=some) for (a, b), some in rate.items()),
        groups=tuple(
            ChannelGroup(name=g.name, channels=whole[g.name], bytes_per_s=g.bytes_per_s)
            for g in machine.groups
            if whole[g.name]
        ),
    )
    starts = setting.starts.items()
    start = {kind: tuple(dict.fromkeys(name_of.get(x, x) for x in some)) for kind, some in starts}
    return replace(setting, machine=smaller, start=start)


def _together(parts: list[Tier]) -> int | None:
    total = 0
    for tier in parts:
        if tier.capacity is None:
            return None
        total += tier.capacity
    return total
