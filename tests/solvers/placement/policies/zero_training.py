"""Training steps with updates on the host, for ZeRO-Offload and ZeRO-Infinity."""

from __future__ import annotations

from dataclasses import replace

import lowtide as lt
from lowtide.instances.transforms.zero import on_zero
from lowtide.solvers.placement.policies.zero_offload import Offload
from tests.problems.placement import random_training


def bench(
    device: int | None, host: int | None = None, *, latency: int = 0, cap: int | None = None
) -> lt.Machine:
    """A GPU and a host's processor; 1 byte per us out, 2 back."""
    ways = ((("gpu", "host"), 1_000_000), (("host", "gpu"), 2_000_000))
    both = tuple(pair for pair, _ in ways)
    return lt.Machine(
        tiers=(lt.Tier(name="gpu", capacity=device), lt.Tier(name="host", capacity=host)),
        processors=(
            lt.Processor(name="cpu0", kind="cpu", tiers=(lt.Access(tier="host"),)),
            lt.Processor(name="gpu0", kind="gpu", tiers=(lt.Access(tier="gpu"),)),
        ),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=rate, latency_ns=latency) for (a, b), rate in ways
        ),
        groups=() if cap is None else (lt.ChannelGroup(name="link", channels=both, bytes_per_s=cap),),
    )


def carried_out(problem: lt.Placement, bucket: int) -> lt.Plan | str:
    cpu, gpu = problem.machine.processors
    return Offload(problem, gpu, cpu, bucket).carry_out()


def two_layers() -> lt.Graph:
    """Weights of 4 bytes, backward ops of 1000 ns that make their gradients, updates of 3000 ns."""
    kinds = ("weight", "gradient", "state")
    tensors = tuple(
        lt.Tensor(
            name=f"{kind}{k}", nbytes=4, kind=kind, initial=kind != "gradient", final=kind != "gradient"
        )
        for kind in kinds
        for k in range(2)
    )
    gpu, cpu = (lt.Mode(duration_ns=ns, processors=(kind,)) for ns, kind in ((1000, "gpu"), (3000, "cpu")))
    ops = (
        lt.Op(name="f", reads=(0, 1), modes=(gpu,)),
        lt.Op(name="b1", reads=(1,), writes=(3,), modes=(gpu,)),
        lt.Op(name="u1", reads=(3, 5), writes=(1, 5), modes=(cpu,)),
        lt.Op(name="b0", reads=(0,), writes=(2,), modes=(gpu,)),
        lt.Op(name="u0", reads=(2, 4), writes=(0, 4), modes=(cpu,)),
    )
    return lt.Graph(name="two layers", tensors=tensors, ops=ops)


def delayed_layers() -> lt.Graph:
    """`two_layers` with delayed updates."""
    plain = replace(
        two_layers(),
        ops=tuple(replace(op, kind="Update" if op.writes[1:] else "", modes=()) for op in two_layers().ops),
    )
    graph = on_zero(plain, delayed=True)
    slow = {"f": 1000, "b1": 1000, "b0": 1000, "u1": 3000, "u0": 3000}
    ops = (
        replace(
            op,
            modes=(replace(op.modes[0], duration_ns=slow.get(op.name, 1)),),
            duration_ns=slow.get(op.name, 1),
        )
        for op in graph.ops
    )
    return replace(graph, ops=tuple(ops))


def trained(seed: int, *, delayed: bool = False) -> lt.Graph:
    """Return a random training graph with updates on the host's processor."""
    graphs = (random_training(1000 * seed + k, 3 + seed % 5) for k in range(1000))
    plain = next(graph for graph in graphs if any(op.kind == "Update" for op in graph.ops))
    return on_zero(plain, delayed=delayed)


def rule(graph: lt.Graph, bucket: int) -> int:
    """Return parameters, activations and bucket in bytes, op by op of the GPU."""
    on_gpu = [k for k, op in enumerate(graph.ops) if "gpu" in op.modes[0].processors]
    out = {t for op in graph.ops if "cpu" in op.modes[0].processors for t in op.reads}
    uses = {
        t: [k for k in on_gpu if t in (*graph.ops[k].reads, *graph.ops[k].writes)]
        for t in range(len(graph.tensors))
    }
    most = 0
    for k in on_gpu:
        load = graph.ops[k].modes[0].workspace
        for t, some in uses.items():
            if some and t not in out:
                tensor = graph.tensors[t]
                load += tensor.nbytes * ((tensor.initial or some[0] <= k) and (tensor.final or k <= some[-1]))
        most = max(most, load)
    return most + bucket
