"""Small questions of placement, one for each trait that a method may support or refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.graph import Accounting

RATE = 5 * 10**8
DEVICE = 175
"""Bytes of the fast memory; the graph's tensors together have 330."""
NEAR = {"input": ("gpu", "host")}
REPLICAS = "gen:skipchain?n=6&seed=1&machine=v100x4-16g-shared-pcie3&device=450MB&start=device&replicas=2{}"


def steps() -> lt.Graph:
    """Return a training step of four layers and a weight."""
    tensors = [
        lt.Tensor(name="w", nbytes=40, kind="weight", initial=True, final=True),
        lt.Tensor(name="x", nbytes=30, kind="input", initial=True),
        *(lt.Tensor(name=f"a{k}", nbytes=50) for k in range(4)),
        *(lt.Tensor(name=f"g{k}", nbytes=20) for k in range(4)),
    ]
    ops = [
        lt.Op(
            name=f"f{k}",
            reads=(k + 1, *(() if k % 2 else (0,))),
            writes=(k + 2,),
            duration_ns=100 + 10 * k,
            workspace=10 if k == 1 else 0,
        )
        for k in range(4)
    ]
    ops.append(lt.Op(name="loss", reads=(5,), writes=(6,), duration_ns=120))
    ops += [lt.Op(name=f"b{k}", reads=(6 + k, 4 - k), writes=(7 + k,), duration_ns=130) for k in range(3)]
    ops.append(lt.Op(name="update", reads=(0, 9), writes=(0,), duration_ns=60))
    return lt.Graph(name="steps", tensors=tuple(tensors), ops=tuple(ops))


def with_modes(modes: Callable[[int, lt.Op], tuple[lt.Mode, ...]]) -> lt.Graph:
    """Return the graph whose ops have these modes."""
    graph = steps()
    return replace(
        graph,
        ops=tuple(replace(op, workspace=0, modes=modes(k, op)) for k, op in enumerate(graph.ops)),
    )


def both(a: str, b: str, rate: int = RATE, latency: int = 0) -> tuple[lt.Channel, ...]:
    """Return the channels between two tiers."""
    return tuple(
        lt.Channel(src=src, dst=dst, bytes_per_s=rate, latency_ns=latency) for src, dst in ((a, b), (b, a))
    )


def processor(name: str, *tiers: str | lt.Access) -> lt.Processor:
    """Return a processor of a kind of its own that uses some tiers."""
    access = tuple(lt.Access(tier=x) if isinstance(x, str) else x for x in tiers)
    return lt.Processor(name=name, kind=name, tiers=access)


def bench(
    tiers: dict[str, int | None],
    channels: tuple[lt.Channel, ...],
    *processors: lt.Processor,
    groups: tuple[lt.ChannelGroup, ...] = (),
) -> lt.Machine:
    """Return a machine; its processor uses the first tier if none is given."""
    return lt.Machine(
        name="bench",
        tiers=tuple(lt.Tier(name=name, capacity=nbytes) for name, nbytes in tiers.items()),
        processors=processors or (processor("p", next(iter(tiers))),),
        channels=channels,
        groups=groups,
    )


TWO = bench({"gpu": DEVICE, "host": None}, both("gpu", "host"))
NEAR_SSD = bench(
    {"gpu": DEVICE, "host": 60, "ssd": None}, (*both("gpu", "host"), *both("gpu", "ssd", RATE // 4))
)


def far(host: int) -> lt.Machine:
    """Return a machine with a drive behind the host."""
    channels = (*both("gpu", "host"), *both("host", "ssd", RATE // 4))
    return bench({"gpu": DEVICE, "host": host, "ssd": None}, channels)


def in_place(*channels: lt.Channel, **tiers: int | None) -> lt.Machine:
    """Return a machine whose processor uses a second, slower tier in place."""
    slow = lt.Access(tier="pmem", bytes_per_s=3 * 10**8)
    return bench({"dram": DEVICE, **tiers}, channels, processor("p", "dram", slow))


OPTANE = in_place(*both("dram", "pmem"), pmem=None)


def capped(machine: lt.Machine, **pairs: tuple[tuple[str, str], ...]) -> lt.Machine:
    """Return a machine whose channels have joint caps."""
    groups = (
        lt.ChannelGroup(name=name, channels=some, bytes_per_s=RATE) for name, some in sorted(pairs.items())
    )
    return replace(machine, groups=tuple(groups))


def of_kinds(kinds: tuple[str, ...]) -> lt.Graph:
    """Return the graph whose op k runs on processors of that kind."""
    return with_modes(
        lambda k, op: (lt.Mode(duration_ns=op.duration_ns, workspace=op.workspace, processors=(kinds[k],)),)
    )


def lanes_that_differ() -> lt.Placement:
    """Return two GPUs of which one is slower at its first op."""
    problem = load_problem(lt.Placement, REPLICAS.format(""))
    first, *others = problem.graph.ops
    slower = tuple(replace(mode, duration_ns=2 * mode.duration_ns) for mode in first.all_modes)
    return replace(problem, graph=replace(problem.graph, ops=(replace(first, modes=slower), *others)))


def questions() -> dict[str, lt.Placement]:
    """Return a question for each trait, by its name."""
    place = lt.Placement
    graph, held = steps(), replace(steps(), accounting=Accounting.REPLACE)
    reading = replace(graph, ops=graph.ops[:-1])
    empty = replace(
        graph, tensors=tuple(replace(t, nbytes=0) if k == 1 else t for k, t in enumerate(graph.tensors))
    )
    two_modes = with_modes(
        lambda k, op: (
            lt.Mode(duration_ns=op.duration_ns, workspace=20),
            lt.Mode(duration_ns=op.duration_ns + 40),
        )
    )

    def operands(tier: str) -> lt.Graph:
        return with_modes(
            lambda k, op: (
                lt.Mode(duration_ns=op.duration_ns),
                lt.Mode(duration_ns=op.duration_ns + 60, operands=((op.writes[0], tier),)),
            )
        )

    one_op = lt.Graph(name="nothing", tensors=(), ops=(lt.Op(name="a", duration_ns=1),))
    idle = replace(one_op, tensors=(lt.Tensor(name="x", nbytes=9, initial=True),))
    no_bytes = replace(graph, tensors=tuple(replace(t, nbytes=0) for t in graph.tensors))
    slow = processor("p", lt.Access(tier="gpu", bytes_per_s=10**10))
    sharing = bench(
        {"gpu": 300, "host": None}, both("gpu", "host"), processor("a", "gpu"), processor("b", "gpu")
    )
    hybrid = bench(
        {"gpu": DEVICE, "host": None}, both("gpu", "host"), processor("gpu", "gpu"), processor("cpu", "host")
    )
    four = {"gpu": DEVICE, "host": 40, "cxl": 40, "ssd": None}
    one = bench({"gpu": 400}, ())
    late = bench({"gpu": DEVICE, "host": None}, both("gpu", "host", RATE, 30))
    ring = (*both("gpu", "host"), *both("gpu", "ssd", RATE // 4)[:1], *both("ssd", "host", RATE // 4)[:1])
    many = (*both("gpu", "host"), *both("gpu", "cxl", RATE // 2), *both("gpu", "ssd", RATE // 4))
    dram = {"input": ("dram", "pmem")}
    return {
        "plain": place(graph, TWO, start=NEAR),
        "period": place(graph, TWO, periodic=True),
        "whole tensors": place(graph, TWO, start=NEAR, whole=True),
        "whole tensors, period": place(graph, TWO, periodic=True, whole=True),
        "free order": place(graph, TWO, start=NEAR, order="free"),
        "ops run again": place(graph, TWO, start=NEAR, recompute=True),
        "ops run again, one tier": place(
            graph, bench({"gpu": 260}, ()), recompute=True, start={"input": ("gpu",)}
        ),
        "one tier": place(graph, one, start={"input": ("gpu",)}),
        "addresses": place(graph, TWO, start=NEAR, addresses=True),
        "pages": place(graph, TWO, start=NEAR, page=8),
        "replace": place(held, replace(TWO, tiers=bench({"gpu": 130, "host": None}, ()).tiers), start=NEAR),
        "modes": place(two_modes, TWO, start=NEAR),
        "in place": place(graph, OPTANE, start=dram),
        "in place, period": place(graph, OPTANE, periodic=True),
        "in place, replace": place(held, OPTANE, start=dram),
        "in place, apart": place(
            graph, in_place(*both("dram", "host"), host=None, pmem=None), start={"input": ("dram", "host")}
        ),
        "in place, behind the host": place(
            graph,
            in_place(*both("dram", "host"), *both("host", "pmem"), host=90, pmem=None),
            start={"input": ("dram", "host")},
        ),
        "a mode names a slow tier": place(operands("pmem"), OPTANE, start=dram),
        "a mode names no tier of the machine": place(operands("pmem"), TWO, start=NEAR),
        "slowed by the first tier": place(graph, replace(TWO, processors=(slow,)), start=NEAR),
        "three near tiers": place(graph, NEAR_SSD, start=NEAR),
        "three near tiers, period": place(graph, NEAR_SSD, periodic=True),
        "caps of directions": place(
            graph,
            capped(NEAR_SSD, out=(("gpu", "host"), ("gpu", "ssd")), back=(("host", "gpu"), ("ssd", "gpu"))),
            start=NEAR,
        ),
        "a cap of both directions": place(
            graph, capped(TWO, both=(("gpu", "host"), ("host", "gpu"))), start=NEAR
        ),
        "a far tier": place(graph, far(400), start=NEAR),
        "a far tier that is needed": place(graph, far(80), start=NEAR),
        "a far tier, period": place(graph, far(400), periodic=True),
        "starts far away": place(graph, far(400), start={"input": ("ssd",), "weight": ("ssd",)}),
        "four near tiers": place(graph, bench(four, many), start=NEAR),
        "latency": place(graph, late, start=NEAR),
        "latency, period": place(graph, late, periodic=True),
        "a ring of channels": place(
            graph, bench({"gpu": DEVICE, "host": 400, "ssd": None}, ring), start=NEAR
        ),
        "only read, starts outside, period": place(reading, TWO, periodic=True, start={"weight": ("host",)}),
        "written, starts outside, period": place(graph, TWO, periodic=True, start={"weight": ("host",)}),
        "an empty tensor": place(empty, TWO, start=NEAR),
        "only empty tensors": place(no_bytes, TWO, start=NEAR),
        "no tensor": place(one_op, TWO),
        "no tensor, period": place(one_op, TWO, periodic=True),
        "a tensor that no op accesses": place(idle, TWO),
        "replicas": load_problem(place, REPLICAS.format("")),
        "replicas, period": load_problem(place, REPLICAS.format("&periodic=1")),
        "replicas, whole tensors": load_problem(place, REPLICAS.format("&whole=1")),
        "processors that differ": lanes_that_differ(),
        "processors that share a tier": place(of_kinds(("a", "b") * 5), sharing, start=NEAR),
        "GPU and host's processor": place(of_kinds(("gpu",) * 8 + ("cpu",)), hybrid, start=NEAR),
    }


def mixture(seed: int) -> tuple[str, lt.Placement]:
    """Return one of these questions with more traits, and what it is."""
    random = Random(seed)
    name, problem = random.choice(sorted(questions().items()))
    order = random.choice(("reference", "reference", "reference", "free"))
    again = random.random() < 0.2
    changed = replace(
        problem,
        periodic=random.random() < 0.4 and not again,
        whole=random.random() < 0.4,
        order=order,
        recompute=again,
        addresses=random.random() < 0.1,
    )
    if random.random() < 0.3:
        changed = replace(changed, graph=replace(changed.graph, accounting=Accounting.REPLACE))
    return name, changed
