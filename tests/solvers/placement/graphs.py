"""Graphs for tests of placement: layers, chains, weights, and larger copies of any graph."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt


def scaled(graph: lt.Graph, factor: int) -> lt.Graph:
    """More bytes and more time, at the same rates."""
    return replace(
        graph,
        tensors=tuple(replace(t, nbytes=t.nbytes * factor) for t in graph.tensors),
        ops=tuple(
            replace(op, duration_ns=op.duration_ns * factor, workspace=op.workspace * factor)
            for op in graph.ops
        ),
    )


def weights(*sizes: int) -> lt.Graph:
    """Weights that are read one after the other and kept."""
    return lt.Graph(
        name="weights",
        tensors=tuple(
            lt.Tensor(name=f"w{i}", nbytes=size, kind="weight", initial=True, final=True)
            for i, size in enumerate(sizes)
        ),
        ops=tuple(lt.Op(name=f"op{i}", reads=(i,), duration_ns=100) for i in range(len(sizes))),
    )


def spill() -> lt.Graph:
    """A tensor of 10,000 bytes that is idle while an op of 100 us needs nearly all the memory."""
    return lt.Graph(
        name="spill",
        tensors=(
            lt.Tensor(name="a", nbytes=10_000),
            lt.Tensor(name="b", nbytes=5_000),
            lt.Tensor(name="c", nbytes=20_000),
            lt.Tensor(name="d", nbytes=5_000),
        ),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=100_000),
            lt.Op(name="before", writes=(1,), duration_ns=100_000),
            lt.Op(name="fill", writes=(2,), duration_ns=100_000),
            lt.Op(name="behind", writes=(3,), duration_ns=100_000),
            lt.Op(name="use", reads=(0,), duration_ns=100_000),
        ),
    )


def network(kinds: str, *, gradients: bool = False) -> lt.Graph:
    """A layer per letter (C: convolution) makes 10 bytes in 1000 ns; a loss; backward ops, last first."""
    names = {"C": "Conv", "R": "Relu"}
    tensors = [lt.Tensor(name=f"x{k}", nbytes=10) for k in range(len(kinds))]
    ops = [
        lt.Op(
            name=f"f{k}",
            kind=names[c],
            reads=(k - 1,) if k else (),
            writes=(k,),
            duration_ns=1000,
        )
        for k, c in enumerate(kinds)
    ]
    last = len(kinds) - 1
    if gradients:
        tensors += [lt.Tensor(name=f"g{k}", nbytes=0) for k in range(last + 1)]
    ops.append(
        lt.Op(
            name="loss",
            kind="Loss",
            reads=(last,),
            writes=(2 * last + 1,) if gradients else (),
            duration_ns=1000,
        )
    )
    for k in reversed(range(last)):
        more = (last + 2 + k,) if gradients else ()
        made = (last + 1 + k,) if gradients else ()
        kind = f"{names[kinds[k + 1]]}Backward"
        ops.append(lt.Op(name=f"b{k}", kind=kind, reads=(k, *more), writes=made, duration_ns=1000))
    return lt.Graph(name=kinds, tensors=tuple(tensors), ops=tuple(ops))


def random_network(seed: int) -> lt.Graph:
    """Return layers of random sizes and times, some of whose activations the backward pass does not read."""
    rng = Random(seed)
    graph = network("".join(rng.choice("CRR") for _ in range(rng.randint(5, 9))))
    tensors = tuple(replace(x, nbytes=rng.randint(1, 20)) for x in graph.tensors)
    some = (op for op in graph.ops if "Backward" not in op.kind or rng.random() < 0.7)
    ops = tuple(replace(op, duration_ns=rng.choice((1, 10, 1000))) for op in some)
    return replace(graph, tensors=tensors, ops=ops)


def small(names: str, *ops: tuple[tuple[int, ...], tuple[int, ...]]) -> lt.Graph:
    """Return ops of 1 ns, each what it reads and writes, on tensors of a byte; capitals outlast the run."""
    return lt.Graph(
        name=names,
        tensors=tuple(
            lt.Tensor(name=x, nbytes=1, initial=x.isupper(), final=x.isupper()) for x in names.split()
        ),
        ops=tuple(lt.Op(name=f"o{k}", reads=a, writes=b) for k, (a, b) in enumerate(ops)),
    )


def chain(rng: Random, forwards: int) -> lt.Graph:
    """Return a plain chain of random sizes and times."""
    graph = lt.load(f"gen:backprop-chain?l={forwards}")
    tensors = (replace(x, nbytes=rng.randint(0, 5)) for x in graph.tensors)
    ops = (replace(op, duration_ns=rng.randint(1, 6), workspace=rng.randint(0, 1)) for op in graph.ops)
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))
