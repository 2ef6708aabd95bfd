"""Random small placement problems with everything that the data model allows, feasible or not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from tests.problems.placement import working_set

KINDS = ("weight", "input", "activation")


def random_placement(
    seed: int, *, ops: int = 4, form: str = "any", accounting: Accounting = Accounting.COEXIST
) -> Placement:
    """Return a problem of at most so many ops.

    `form`: "any"; "star": channels at the device only, caps on one direction each, two or three tiers;
    "pair": a single run on a device and a host without limit, which the exact models accept.
    """
    rng = Random(seed)
    graph = replace(_graph(rng, rng.randint(1, ops)), accounting=accounting)
    machine = _machine(rng, graph, form)
    names = [tier.name for tier in machine.tiers]
    start = None
    if rng.random() < 0.5:
        chosen = [kind for kind in KINDS if rng.random() < 0.6]
        start = {kind: tuple(sorted(rng.sample(names, rng.randint(1, len(names))))) for kind in chosen}
    periodic = rng.random() < 0.5 and form != "pair"
    return Placement(graph, machine, periodic=periodic, whole=rng.random() < 0.5, start=start)


def brief_period(seed: int, accounting: Accounting) -> Placement:
    """Return a period of few ns, in whole tensors, with hardly any room, its weights in one tier at its ends.

    `brute_tiers.faster` tries everything that its iterations can begin with.
    """
    rng = Random(f"brief {seed}")
    problem = random_placement(seed, ops=4, form=rng.choice(("any", "star")), accounting=accounting)
    graph, machine = problem.graph, problem.machine
    ops = tuple(replace(op, duration_ns=1 + op.duration_ns % 4) for op in graph.ops)
    tensors = tuple(
        replace(x, kind="weight", final=True) if x.initial and rng.random() < 0.7 else x
        for x in (replace(t, nbytes=min(t.nbytes, rng.randint(1, 3))) for t in graph.tensors)
    )
    graph = replace(graph, ops=ops, tensors=tensors)
    channels = tuple(
        replace(c, bytes_per_s=rng.choice((10**9, 10**9, 5 * 10**8)), latency_ns=min(1, c.latency_ns))
        for c in machine.channels
    )
    groups = tuple(replace(x, bytes_per_s=rng.choice((10**9, 2 * 10**9))) for x in machine.groups)
    tiers = (replace(machine.tiers[0], capacity=working_set(graph) + rng.randint(0, 2)), *machine.tiers[1:])
    names = [tier.name for tier in tiers]
    start = {"weight": (rng.choice(names),), "input": tuple(sorted({rng.choice(names), rng.choice(names)}))}
    return Placement(
        graph,
        replace(machine, channels=channels, groups=groups, tiers=tiers),
        periodic=True,
        whole=True,
        start=start,
    )


def _graph(rng: Random, ops: int) -> lt.Graph:
    most = rng.choice((2, 9))

    def size() -> int:
        return 0 if rng.random() < 0.1 else rng.randint(1, most)

    tensors = []
    for i in range(rng.randint(0, 4)):
        kind = rng.choice(KINDS)
        final = rng.random() < (0.8 if kind == "weight" else 0.3)
        tensors.append(lt.Tensor(name=f"i{i}", nbytes=size(), kind=kind, initial=True, final=final))
    for i in range(rng.choice((0, 0, 1))):
        flag = rng.random() < 0.5
        tensors.append(lt.Tensor(name=f"alone{i}", nbytes=size(), initial=flag, final=flag))
    alone = {t for t, tensor in enumerate(tensors) if tensor.name.startswith("alone")}
    rows: list[lt.Op] = []
    for k in range(ops):
        known = [t for t in range(len(tensors)) if t not in alone]
        reads = sorted(rng.sample(known, min(len(known), rng.randint(0, 3))))
        writes = []
        if known and rng.random() < 0.3:
            writes.append(rng.choice(known))  # an update, or a new version
        if not writes or rng.random() < 0.8:
            tensors.append(lt.Tensor(name=f"t{k}", nbytes=size(), final=rng.random() < 0.2))
            writes.append(len(tensors) - 1)
        rows.append(
            lt.Op(
                name=f"op{k}",
                reads=tuple(reads),
                writes=tuple(writes),
                duration_ns=rng.randint(1, 3000),
                workspace=rng.choice((0, 0, 1, 2)),
            )
        )
    return lt.Graph(name="random", tensors=tuple(tensors), ops=tuple(rows))


def _machine(rng: Random, graph: lt.Graph, form: str) -> lt.Machine:
    needed = working_set(graph)
    total = sum(t.nbytes for t in graph.tensors)
    many = {"any": (1, 2, 2, 3, 3), "star": (2, 3), "pair": (2,)}[form]
    names = ("gpu", "host", "ssd")[: rng.choice(many)]
    capacity: list[int | None] = [max(0, needed + rng.randint(-1 if rng.random() < 0.1 else 0, 5))]
    roomy = form == "pair"
    capacity += [None if roomy else rng.choice((None, total, rng.randint(0, total))) for _ in names[1:]]
    if rng.random() < 0.1:
        capacity[0] = None
    latency = rng.choice((0, 0, 37))
    pairs = [(names[0], x) for x in names[1:]] + [(x, names[0]) for x in names[1:]]
    if len(names) == 3 and form == "any" and rng.random() < 0.3:
        pairs += [("host", "ssd"), ("ssd", "host")]
        if rng.random() < 0.5:  # the device sees the host only
            pairs = [pair for pair in pairs if set(pair) != {"gpu", "ssd"}]
    channels = tuple(
        lt.Channel(src=a, dst=b, bytes_per_s=rng.randint(1_000_000, 9_999_999), latency_ns=latency)
        for a, b in pairs
    )
    groups = []
    for number in range(rng.choice((0, 0, 1, 2))):
        some = rng.sample(pairs, rng.randint(0, len(pairs)))
        if form == "star" and some:
            some = [pair for pair in some if (pair[0] == names[0]) == (some[0][0] == names[0])]
        if some:
            rate = rng.randint(300_000, 9_999_999)
            groups.append(lt.ChannelGroup(name=f"g{number}", channels=tuple(some), bytes_per_s=rate))
    return lt.Machine(
        name="small",
        tiers=tuple(lt.Tier(name=a, capacity=b) for a, b in zip(names, capacity, strict=True)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier=names[0]),)),),
        channels=channels,
        groups=tuple(groups),
    )
