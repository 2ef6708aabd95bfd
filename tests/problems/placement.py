"""Small machines and random training iterations."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

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


def odd_placement(seed: int) -> lt.Placement:
    """Whole tensors of up to 2 GB and ops of up to 2 s, with numbers that nothing divides, on two tiers."""
    rng = np.random.default_rng(seed)
    graph = random_graph(seed, 7) if seed % 2 else tiny_graph(seed)

    def drawn() -> int:
        return int(rng.integers(1, 2 * 10**9))

    tensors = tuple(replace(t, nbytes=drawn() if t.nbytes else 0) for t in graph.tensors)
    ops = tuple(
        replace(op, duration_ns=drawn(), workspace=drawn() if op.workspace else 0) for op in graph.ops
    )
    graph = replace(graph, tensors=tensors, ops=ops)
    bench = two_tiers(working_set(graph) + drawn() // 2, 1_300_000_007, 2_100_000_011)
    return lt.Placement(graph, bench, whole=True, start={"input": ("gpu",), "weight": ("gpu",)})


def two_tiers(device: int, rate_out: int, rate_in: int) -> lt.Machine:
    """One processor, its memory, and a host without limit."""
    return lt.Machine(
        tiers=(lt.Tier(name="gpu", capacity=device), lt.Tier(name="host")),
        processors=(lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"),)),),
        channels=(
            lt.Channel(src="gpu", dst="host", bytes_per_s=rate_out),
            lt.Channel(src="host", dst="gpu", bytes_per_s=rate_in),
        ),
    )


def tiny_placement(seed: int, accounting: Accounting = Accounting.COEXIST) -> lt.Placement:
    """Whole tensors on a device with little room and an unlimited host; inputs may start on the host."""
    graph = replace(tiny_graph(seed), accounting=accounting)
    room = working_set(graph) + int(np.random.default_rng(seed).integers(0, 6))
    start = {"input": ("host",) if seed % 2 else ("gpu",), "weight": ("gpu",)}
    return lt.Placement(graph, two_tiers(room, 5_000_000, 10_000_000), whole=True, start=start)


def random_training(seed: int, layers: int = 6) -> lt.Graph:
    """A forward pass with skips and a loss, a backward pass that uses its activations, updates of weights."""
    rng = np.random.default_rng(seed)
    tensors: list[lt.Tensor] = []
    ops: list[lt.Op] = []

    def tensor(name: str, nbytes: int, kind: str = "activation", **flags: bool) -> int:
        tensors.append(lt.Tensor(name=name, nbytes=nbytes, kind=kind, **flags))
        return len(tensors) - 1

    def op(name: str, kind: str, reads: Iterable[int], writes: Iterable[int]) -> None:
        ops.append(
            lt.Op(
                name=name,
                kind=kind,
                reads=tuple(sorted({*reads})),
                writes=tuple(writes),
                duration_ns=int(rng.integers(200, 4000)),
                workspace=int(rng.integers(0, 4)),
            )
        )

    some = [tensor("in", int(rng.integers(1, 12)), "input", initial=True)]
    weights, kinds, used = [], [], []
    for k in range(layers):
        kinds.append("Conv" if rng.random() < 0.5 else "Relu")
        weights.append(tensor(f"w{k}", int(rng.integers(0, 4)), "weight", initial=True, final=True))
        used.append([some[-1]] + [int(rng.choice(some))] * int(rng.random() < 0.3))
        made = tensor(f"x{k}", int(rng.integers(1, 12)))
        op(f"f{k}", kinds[k], [*used[k], weights[k]], [made])
        some.append(made)
    gradient = tensor("g", int(rng.integers(1, 12)), "gradient")
    op("loss", "Loss", [some[-1]], [gradient])
    for k in reversed(range(layers)):
        after = tensor(f"g{k}", int(rng.integers(1, 12)), "gradient")
        op(f"b{k}", f"{kinds[k]}Backward", [*used[k], weights[k], gradient], [after])
        if rng.random() < 0.5:
            op(f"u{k}", "Update", [after], [weights[k]])
        gradient = after
    return lt.Graph(name=f"training {seed}", tensors=tuple(tensors), ops=tuple(ops))


def training_problem(seed: int, accounting: Accounting = Accounting.COEXIST) -> lt.Placement:
    """A training iteration on a device that holds its largest op; half of them with an SSD, too."""
    rng = np.random.default_rng(seed)
    graph = replace(random_training(seed, int(rng.integers(3, 8))), accounting=accounting)
    largest, total = working_set(graph), sum(t.nbytes for t in graph.tensors)
    ssd = seed % 4 > 1
    device = largest + int(rng.integers(0, max(1, (total - largest) // 2)))
    host = [None, int(rng.integers(0, total))][seed % 3 > 1] if ssd else None
    bench = machine(device, host, latency=[0, 300][seed % 5 > 2], ssd=ssd)
    return lt.Placement(
        graph, bench, periodic=bool(seed % 2), start={"input": ("gpu",)} if seed % 3 else None
    )


def with_modes(problem: lt.Placement, seed: int, ops: int = 2) -> lt.Placement:
    """Some ops get two or three modes beside their own, of other workspaces and times, perhaps no better."""
    rng = np.random.default_rng(seed)
    rows = list(problem.graph.ops)
    for k in rng.permutation(len(rows))[:ops].tolist():
        op = rows[k]
        modes = [lt.Mode(duration_ns=op.duration_ns, workspace=op.workspace)]
        for _ in range(int(rng.integers(1, 3))):
            workspace, part = int(rng.integers(0, 8)), int(rng.integers(20, 110))
            modes.append(lt.Mode(duration_ns=max(1, op.duration_ns * part // 100), workspace=workspace))
        rows[k] = replace(op, modes=tuple(modes[i] for i in rng.permutation(len(modes)).tolist()))
    return replace(problem, graph=replace(problem.graph, ops=tuple(rows)))


def every_choice(problem: lt.Placement) -> Iterator[lt.Placement]:
    """Yield the problem with one mode of each op, in all combinations."""
    for chosen in product(*(op.all_modes for op in problem.graph.ops)):
        ops = tuple(
            replace(op, duration_ns=mode.duration_ns, workspace=mode.workspace, modes=())
            for op, mode in zip(problem.graph.ops, chosen, strict=True)
        )
        yield replace(problem, graph=replace(problem.graph, ops=ops))


def behind(device: int, host: int | None) -> lt.Machine:
    """Device, host, and an SSD that only the host sees."""
    bench = machine(device, host, shared=False)
    moved = {("gpu", "ssd"): ("host", "ssd"), ("ssd", "gpu"): ("ssd", "host")}
    pairs = [(moved.get((c.src, c.dst), (c.src, c.dst)), c) for c in bench.channels]
    return replace(bench, channels=tuple(replace(c, src=src, dst=dst) for (src, dst), c in pairs))
