"""Random small placements on three or four tiers whose channels between outer tiers beat the direct ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from tests.problems.placement import working_set

TIERS = ("gpu", "host", "ssd", "tape")


def linked_placement(seed: int, accounting: Accounting = Accounting.COEXIST, *, periodic: bool) -> Placement:
    """Return a problem of whole tensors, few bytes and few ns, with hardly any room.

    `tests.oracles.brute_tiers.faster` finds the fastest plan of it.
    """
    rng = Random(f"linked {seed} {periodic}")
    graph = replace(_graph(rng, periodic), accounting=accounting)
    names = TIERS[: rng.choice((3, 3, 4))]
    total = sum(t.nbytes for t in graph.tensors)
    capacity: list[int | None] = [working_set(graph) + rng.choice((0, 0, 1))]
    capacity += [rng.choice((None, None, total, rng.randint(0, total))) for _ in names[1:]]
    around = rng.sample(names, len(names))
    ring = {*zip(around, [*around[1:], around[0]], strict=True)}  # each tier can be reached from each
    channels = []
    for a in names:
        for b in names:
            direct = names[0] in (a, b)
            if a != b and ((a, b) in ring or rng.random() < 0.6):
                ns = rng.choice((1, 2, 5, 9)) if direct else rng.choice((1, 1, 2))
                latency = rng.choice((0, 0, 0, 1))
                channels.append(lt.Channel(src=a, dst=b, bytes_per_s=10**9 // ns, latency_ns=latency))
    groups = []
    if channels and rng.random() < 0.2:
        some = rng.sample(channels, rng.randint(1, len(channels)))
        pairs = tuple((c.src, c.dst) for c in some)
        groups.append(lt.ChannelGroup(name="cap", channels=pairs, bytes_per_s=rng.choice((1, 2)) * 10**9))
    machine = lt.Machine(
        name="linked",
        tiers=tuple(lt.Tier(name=a, capacity=b) for a, b in zip(names, capacity, strict=True)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier=names[0]),)),),
        channels=tuple(channels),
        groups=tuple(groups),
    )
    places = (*names, *names[1:], *names[2:])
    start = {
        kind: tuple(sorted({*rng.sample(places, rng.choice((1, 1, 2)))})) for kind in ("weight", "input")
    }
    return Placement(graph, machine, periodic=periodic, whole=True, start=start)


def _graph(rng: Random, periodic: bool) -> lt.Graph:
    most = rng.choice((1, 2, 3))
    tensors = [
        lt.Tensor(
            name=f"{kind}{i}",
            nbytes=rng.randint(1, most),
            kind=kind,
            initial=True,
            final=kind == "weight",
        )
        for i, kind in enumerate(rng.choices(("weight", "input"), k=rng.choice((0, 1, 1, 2))))
    ]
    ops = []
    for k in range(rng.randint(2, 3 if periodic else 4)):
        made = len(tensors)
        reads = sorted(rng.sample(range(made), min(made, rng.choice((0, 1, 1, 2)))))
        writes = [rng.choice(reads)] if reads and rng.random() < 0.2 else []
        if not writes or rng.random() < 0.3:
            tensors.append(lt.Tensor(name=f"t{k}", nbytes=rng.randint(1, most), final=rng.random() < 0.3))
            writes.append(made)
        ops.append(
            lt.Op(
                name=f"op{k}",
                reads=tuple(reads),
                writes=tuple(writes),
                duration_ns=rng.randint(1, 4),
                workspace=rng.choice((0, 0, 1)),
            )
        )
    return lt.Graph(name="linked", tensors=tuple(tensors), ops=tuple(ops))


def in_units(problem: Placement) -> Placement:
    """Return the problem with a tensor of its own for each byte: its plans are plans of parts."""
    graph = problem.graph
    parts: list[list[int]] = []
    tensors: list[lt.Tensor] = []
    for t in graph.tensors:
        parts.append(list(range(len(tensors), len(tensors) + t.nbytes)))
        tensors += [replace(t, name=f"{t.name}.{i}", nbytes=1) for i in range(t.nbytes)]
    ops = tuple(
        replace(
            op,
            reads=tuple(i for t in op.reads for i in parts[t]),
            writes=tuple(i for t in op.writes for i in parts[t]),
        )
        for op in graph.ops
    )
    return replace(problem, graph=replace(graph, tensors=tuple(tensors), ops=ops))
