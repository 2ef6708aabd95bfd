"""Machines for tests of placement: two tiers, AutoTM's node, channels past the host, several GPUs."""

from __future__ import annotations

from dataclasses import replace

import lowtide as lt
from lowtide.models.machine import Access, Channel, Machine, Processor, Tier
from tests.problems.placement import machine


def two_tiers(memory: int | None, rate: int) -> Machine:
    """Return a device of so many bytes and a host; `rate` in bytes per second."""
    return Machine(
        name="two",
        tiers=(Tier(name="gpu", capacity=memory), Tier(name="host")),
        processors=(Processor(name="p", kind="gpu", tiers=(Access(tier="gpu"),)),),
        channels=tuple(
            Channel(src=a, dst=b, bytes_per_s=rate) for a, b in (("gpu", "host"), ("host", "gpu"))
        ),
    )


def bypass(device: int, host: int | None) -> lt.Machine:
    """Device, host and SSD, each with a channel to each other one, and joint caps at the device."""
    bench = machine(device, host)
    ways = (("host", "ssd"), ("ssd", "host"))
    return replace(
        bench, channels=(*bench.channels, *(lt.Channel(src=a, dst=b, bytes_per_s=10**7) for a, b in ways))
    )


def without_host(bench: lt.Machine) -> lt.Machine:
    """Return a machine's device and SSD."""
    pairs = tuple(c for c in bench.channels if "host" not in (c.src, c.dst))
    return replace(bench, tiers=(bench.tiers[0], bench.tiers[2]), channels=pairs, groups=())


DRAM, PMM = "dram", "pmm"


def node(room: int, *, in_place: bool = True, latency: int = 0) -> lt.Machine:
    """Return DRAM and PMM, 4 and 10 ns a byte between them; ops use PMM in place at 3 ns a byte, or not."""
    access = (lt.Access(tier=DRAM), lt.Access(tier=PMM, bytes_per_s=10**9 // 4))
    return lt.Machine(
        tiers=(lt.Tier(name=DRAM, capacity=room), lt.Tier(name=PMM)),
        processors=(lt.Processor(name="cpu0", tiers=access if in_place else access[:1]),),
        channels=(
            lt.Channel(src=DRAM, dst=PMM, bytes_per_s=10**9 // 10, latency_ns=latency),
            lt.Channel(src=PMM, dst=DRAM, bytes_per_s=10**9 // 5, latency_ns=latency),
        ),
    )


RATE_OUT, RATE_IN = 5_000_000, 6_000_000


def gpus(many: int, device: int, *, shared: int = 1) -> lt.Machine:
    """GPUs with links of their own, and a host link as fast as `shared` of them."""
    names = [f"gpu{g}" for g in range(many)]
    outward, inward = tuple((name, "host") for name in names), tuple(("host", name) for name in names)
    return lt.Machine(
        name=f"{many} GPUs",
        tiers=(*(lt.Tier(name=name, capacity=device) for name in names), lt.Tier(name="host")),
        processors=tuple(lt.Processor(name=name, kind=name, tiers=(lt.Access(tier=name),)) for name in names),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=RATE_IN if a == "host" else RATE_OUT)
            for a, b in (*outward, *inward)
        ),
        groups=(
            lt.ChannelGroup(name="out", channels=outward, bytes_per_s=RATE_OUT * shared),
            lt.ChannelGroup(name="in", channels=inward, bytes_per_s=RATE_IN * shared),
        ),
    )


def linked(many: int, memory: int, rate_out: int, rate_in: int, between: int | None = None) -> lt.Machine:
    """GPUs on one link to the host, in bytes/s each way; perhaps with channels between the first two."""
    homes = [f"gpu{g}" for g in range(many)]
    outs, ins = ([(x, "host") for x in homes], [("host", x) for x in homes])
    channels = [lt.Channel(src=a, dst=b, bytes_per_s=rate_out) for a, b in outs]
    channels += [lt.Channel(src=a, dst=b, bytes_per_s=rate_in) for a, b in ins]
    if between is not None:
        pairs = (homes[:2], homes[1::-1])
        channels += [lt.Channel(src=a, dst=b, bytes_per_s=between) for a, b in pairs]
    return lt.Machine(
        tiers=(*(lt.Tier(name=x, capacity=memory) for x in homes), lt.Tier(name="host")),
        processors=tuple(lt.Processor(name=x, kind=x, tiers=(lt.Access(tier=x),)) for x in homes),
        channels=tuple(channels),
        groups=(
            lt.ChannelGroup(name="out", channels=tuple(outs), bytes_per_s=rate_out),
            lt.ChannelGroup(name="in", channels=tuple(ins), bytes_per_s=rate_in),
        ),
    )
