"""Small machines and random training iterations."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

import lowtide as lt
from lowtide.models.graph import Accounting


def machine(
    device: int, host: int | None, *, latency: int = 0, shared: bool = True, ssd: bool = True
) -> lt.Machine:
    """Device, host and SSD; 5 and 6 MB/s beside 1 and 2, with joint caps if `shared`."""
    channels = [
        lt.Channel(src=a, dst=b, bytes_per_s=rate, latency_ns=latency)
        for a, b, rate in (
            ("gpu", "host", 5_000_000),
            ("host", "gpu", 6_000_000),
            ("gpu", "ssd", 1_000_000),
            ("ssd", "gpu", 2_000_000),
        )
    ]
    groups = (
        lt.ChannelGroup(name="out", channels=(("gpu", "host"), ("gpu", "ssd")), bytes_per_s=5_000_000),
        lt.ChannelGroup(name="in", channels=(("host", "gpu"), ("ssd", "gpu")), bytes_per_s=6_000_000),
    )
    return lt.Machine(
        tiers=(
            lt.Tier(name="gpu", capacity=device),
            lt.Tier(name="host", capacity=host),
            lt.Tier(name="ssd"),
        )[: 3 if ssd else 2],
        processors=(lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"),)),),
        channels=tuple(channels[: 4 if ssd else 2]),
        groups=groups if shared and ssd else (),
    )


def random_graph(seed: int, ops: int = 14) -> lt.Graph:
    """Weights that are updated, weights that are read, inputs, activations, an output, workspace."""
    rng = np.random.default_rng(seed)
    tensors = [
        lt.Tensor(name=f"w{i}", nbytes=int(rng.integers(0, 9)), kind="weight", initial=True, final=True)
        for i in range(4)
    ]
    tensors.append(lt.Tensor(name="in", nbytes=int(rng.integers(1, 9)), kind="input", initial=True))
    made, rows = [0, 1, 2, 3, 4], []
    for k in range(ops):
        reads = sorted({int(i) for i in rng.choice(made, size=int(rng.integers(1, 4)))})
        writes = []
        if rng.random() < 0.25:
            weight = int(rng.integers(0, 3))
            reads, writes = sorted({*reads, weight}), [weight]
        else:
            tensors.append(
                lt.Tensor(name=f"t{k}", nbytes=int(rng.integers(0, 9)), final=bool(rng.random() < 0.1))
            )
            writes = [len(tensors) - 1]
            made.append(writes[0])
        rows.append(
            lt.Op(
                name=f"op{k}",
                reads=tuple(reads),
                writes=tuple(writes),
                duration_ns=int(rng.integers(1, 4000)),
                workspace=int(rng.integers(0, 4)),
            )
        )
    return lt.Graph(name=f"random {seed}", tensors=tuple(tensors), ops=tuple(rows))


def working_set(graph: lt.Graph) -> int:
    """Return the most bytes that an op has on the device at one instant; ``replace``: reads or writes."""

    def total(some: Iterable[int]) -> int:
        return sum(graph.tensors[t].nbytes for t in {*some})

    if graph.accounting is Accounting.REPLACE:
        return max(max(total(op.reads), total(op.writes) + op.workspace) for op in graph.ops)
    return max(total([*op.reads, *op.writes]) + op.workspace for op in graph.ops)


def tiny_graph(seed: int) -> lt.Graph:
    """Three or four ops; a weight that may be updated, perhaps an input, activations, perhaps a kept one."""
    rng = np.random.default_rng(seed)
    tensors = [lt.Tensor(name="w", nbytes=int(rng.integers(1, 9)), kind="weight", initial=True, final=True)]
    if rng.random() < 0.5:
        tensors.append(lt.Tensor(name="in", nbytes=int(rng.integers(1, 9)), kind="input", initial=True))
    ops = []
    for k in range(int(rng.integers(3, 5))):
        made = len(tensors)
        reads = sorted({int(i) for i in rng.integers(0, made, size=int(rng.integers(0, 3)))})
        if rng.random() < 0.3 and 0 in reads:
            writes = [0]
        else:
            tensors.append(
                lt.Tensor(name=f"t{k}", nbytes=int(rng.integers(1, 9)), final=bool(rng.random() < 0.2))
            )
            writes = [made]
        ops.append(
            lt.Op(
                name=f"op{k}",
                reads=tuple(reads),
                writes=tuple(writes),
                duration_ns=int(rng.integers(1, 20)) * 100,
                workspace=int(rng.integers(0, 3)),
            )
        )
    return lt.Graph(name=f"tiny {seed}", tensors=tuple(tensors), ops=tuple(ops))


def tiny_placement(seed: int, accounting: Accounting = Accounting.COEXIST) -> lt.Placement:
    """Whole tensors on a device with little room and an unlimited host; inputs may start on the host."""
    graph = replace(tiny_graph(seed), accounting=accounting)
    room = working_set(graph) + int(np.random.default_rng(seed).integers(0, 6))
    start = {"input": ("host",) if seed % 2 else ("gpu",), "weight": ("gpu",)}
    bench = lt.Machine(
        tiers=(lt.Tier(name="gpu", capacity=room), lt.Tier(name="host")),
        processors=(lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"),)),),
        channels=(
            lt.Channel(src="gpu", dst="host", bytes_per_s=5_000_000),
            lt.Channel(src="host", dst="gpu", bytes_per_s=10_000_000),
        ),
    )
    return lt.Placement(graph, bench, whole=True, start=start)
