"""Small problems of recomputation on machines with several slower tiers, and the same with fewer of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from tests.problems.recompute import needed, tight_problem

WAYS = {
    "star": (("memory", "host"), ("memory", "disk")),
    "path": (("memory", "host"), ("host", "disk")),
    "all": (("memory", "host"), ("memory", "disk"), ("host", "disk")),
}
"""Between which tiers there are channels, in both directions."""


def bench(rng: Random, ways: str, room: int | None = None) -> lt.Machine:
    """A host with a little room and a disk; what is nearer is faster."""
    costs = {"host": rng.choice((1, 2)), "disk": rng.choice((2, 4))}
    tiers = (
        lt.Tier(name="memory"),
        lt.Tier(name="host", capacity=rng.randint(1, 6) if room is None else room),
        lt.Tier(name="disk", capacity=rng.choice((None, 4))),
    )
    channels = []
    for near, far in WAYS[ways]:
        rate = 10**9 // costs[far] * (2 if near == "host" else 1)
        channels.append(lt.Channel(src=near, dst=far, bytes_per_s=rate))
        channels.append(lt.Channel(src=far, dst=near, bytes_per_s=rate, latency_ns=1))
    access = (lt.Access(tier="memory"),)
    return lt.Machine(
        tiers=tiers,
        processors=(lt.Processor(name="p", tiers=access),),
        channels=tuple(channels),
    )


def with_tiers(problem: lt.Recompute, machine: lt.Machine, *names: str) -> lt.Recompute:
    """The problem on the part of the machine that has these slower tiers."""
    kept = {"memory", *names}
    part = replace(
        machine,
        tiers=tuple(tier for tier in machine.tiers if tier.name in kept),
        channels=tuple(c for c in machine.channels if {c.src, c.dst} <= kept),
    )
    return lt.Recompute(problem.graph, memory=problem.memory, machine=part)


def short_chain(seed: int, length: int = 3) -> lt.Recompute | None:
    """A chain of values of different sizes in less memory than it needs; None where nothing is to decide."""
    rng = Random(seed)
    options = f"l={length}&largest=3&forward=9&backward=9&spread=2&seed={seed}"
    graph = lt.load(f"gen:backprop-chain?{options}&accounting={rng.choice(('coexist', 'replace'))}")
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    if needed(graph) <= least:
        return None
    problem = lt.Recompute(graph, memory=rng.randrange(least, needed(graph)))
    return None if problem.impossible() else problem


def small_problem(seed: int) -> lt.Recompute | None:
    """A chain or any small graph."""
    return short_chain(seed) if seed % 2 else tight_problem(seed)
