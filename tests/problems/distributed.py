"""Small problems on distributed memory, for tests against exhaustive search.

Imported as ``from tests.problems.distributed import ...``.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from tests.oracles.brute_distributed import fastest_distributed
from tests.strategies import random_graph

KINDS = (("cpu",), ("gpu",))

RATES = (5 * 10**8, 10**9, 2 * 10**9)


def random_machine(rng: Random, least: int, most: int) -> lt.Machine:
    """Return a machine of two processors, mostly with a memory each, of so many bytes."""
    homes = ["m0", "m1" if rng.random() < 0.9 else "m0"]
    kinds = ("cpu", "gpu" if rng.random() < 0.8 else "cpu")
    used = sorted(set(homes)) + (["host"] if rng.random() < 0.2 else [])
    pairs = [(a, b) for a in used for b in used if a != b and rng.random() < 0.9]
    channels = tuple(
        lt.Channel(src=a, dst=b, bytes_per_s=rng.choice(RATES), latency_ns=rng.choice((0, 0, 1, 2)))
        for a, b in pairs
    )
    some = tuple(rng.sample(pairs, rng.randint(1, len(pairs)))) if pairs and rng.random() < 0.25 else ()
    groups = (lt.ChannelGroup(name="switch", channels=some, bytes_per_s=rng.choice(RATES)),) if some else ()
    return lt.Machine(
        name="small",
        tiers=tuple(
            lt.Tier(name=x, capacity=None if x == "host" or rng.random() < 0.2 else rng.randint(least, most))
            for x in used
        ),
        processors=tuple(
            lt.Processor(name=f"p{k}", kind=kinds[k], tiers=(lt.Access(tier=tier),))
            for k, tier in enumerate(homes)
        ),
        channels=channels,
        groups=groups,
    )


def problem_of(seed: int, *, most_ops: int = 4) -> lt.Distributed:
    """Return a problem of a few ops, some for one processor only; memories are scarce to ample."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=3, max_ops=most_ops, max_tensors=5, max_duration=4)
    bound = rng.random()
    ops = []
    for op in graph.ops:
        kinds = rng.choice(KINDS) if rng.random() < bound else ()
        modes = [lt.Mode(duration_ns=op.duration_ns, workspace=op.workspace, processors=kinds)]
        if rng.random() < 0.2:
            modes.append(lt.Mode(duration_ns=rng.randint(1, 4), workspace=rng.randint(0, 3)))
        ops.append(replace(op, modes=tuple(modes)))
    graph = replace(graph, ops=tuple(ops))
    least = max(sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) for op in graph.ops)
    total = sum(t.nbytes for t in graph.tensors)
    machine = random_machine(rng, max(least - 1, 0), max(least, total))
    channels = tuple(replace(c, shared=rng.random() < 0.8) for c in machine.channels)
    try:
        return lt.Distributed(graph, replace(machine, channels=channels))
    except lt.InstanceError:  # a processor on which no op can run, or none that an op needs
        return problem_of(seed + 1_000_000, most_ops=most_ops)


def scarce_at_the_start(seed: int) -> lt.Distributed:
    """Return a problem whose memories hold about what is there at time 0, mostly under ``replace``."""
    rng = Random(seed)
    problem = problem_of(seed, most_ops=4 if seed % 3 == 0 else 3)
    accounting = lt.Accounting.REPLACE if rng.random() < 0.7 else lt.Accounting.COEXIST
    tensors = (
        replace(t, nbytes=t.nbytes + rng.choice((0, 3, 6)), final=False)
        if t.initial and rng.random() < 0.7
        else t
        for t in problem.graph.tensors
    )
    graph = replace(problem.graph, accounting=accounting, tensors=tuple(tensors))
    most = sum(t.nbytes for t in graph.tensors if t.initial) + 4
    tiers = tuple(
        replace(tier, capacity=rng.randint(0, most)) if tier.name in problem.memories else tier
        for tier in problem.machine.tiers
    )
    return lt.Distributed(graph, replace(problem.machine, tiers=tiers))


def optimum(problem: lt.Distributed) -> int | None:
    """Return the least makespan by exhaustive search, None if there is no schedule."""
    return fastest_distributed(problem.graph, problem.machine)


def on_one_memory(problem: lt.Distributed) -> lt.Distributed:
    """Return the problem on one memory that all processors share, as large as all together."""
    machine = problem.machine
    sizes = [t.capacity for t in machine.tiers]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    access = (lt.Access(tier="memory"),)
    processors = tuple(replace(p, tiers=access) for p in machine.processors)
    tiers = (lt.Tier(name="memory", capacity=total),)
    return lt.Distributed(problem.graph, lt.Machine(name="one", tiers=tiers, processors=processors))
