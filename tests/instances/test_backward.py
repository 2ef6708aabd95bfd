"""Training graphs: who reads, writes and sums which gradient."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances.generators import FAMILIES, generate
from lowtide.instances.generators.backward import training_graph
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph, Op, Tensor
from tests.effort import many

SIZED_BY_N = ("chain", "intree", "outtree", "sp", "randwire")


def described(graph: Graph) -> list[tuple[str, list[str], list[str]]]:
    """Return name, reads and writes of each op by name."""
    name = [t.name for t in graph.tensors]
    return [(op.name, [name[t] for t in op.reads], [name[t] for t in op.writes]) for op in graph.ops]


def weight(name: str) -> Tensor:
    return Tensor(name=name, nbytes=2, kind="weight", initial=True, final=True)


def test_chain_by_hand() -> None:
    assert described(generate("chain", n=4, train=1))[4:] == [
        ("loss", ["t3"], ["d.t3"]),
        ("op3.backward", ["d.t3", "t2"], ["d.t2"]),
        ("op2.backward", ["d.t2", "t1"], ["d.t1"]),
        ("op1.backward", ["d.t1", "t0"], []),
    ]


def test_residual_block_by_hand() -> None:
    """x -> a = relu(conv(x, w)), y = x' + a where x' = stem(x); the addition has no backward op."""
    tensors = (
        Tensor(name="in", nbytes=1, kind="input", initial=True),
        weight("w0"),
        Tensor(name="x", nbytes=8),
        weight("w1"),
        Tensor(name="c", nbytes=8),
        Tensor(name="a", nbytes=8),
        Tensor(name="y", nbytes=8, kind="output", final=True),
    )
    ops = (
        Op(name="stem", kind="Conv", reads=(0, 1), writes=(2,), duration_ns=10),
        Op(name="conv", kind="Conv", reads=(2, 3), writes=(4,), duration_ns=20),
        Op(name="relu", kind="Relu", reads=(4,), writes=(5,), duration_ns=3),
        Op(name="add", kind="Add", reads=(2, 5), writes=(6,)),
    )
    graph = training_graph(Graph(name="r", tensors=tensors, ops=ops))
    assert described(graph)[4:] == [
        ("loss", ["y"], ["d.y"]),
        ("relu.backward", ["d.y", "a"], ["d.c"]),
        ("conv.backward", ["d.c", "x", "w1"], ["d.x.conv", "d.w1"]),
        ("w1.update", ["w1", "d.w1"], ["w1"]),
        ("x.sum", ["d.y", "d.x.conv"], ["d.x"]),
        ("stem.backward", ["d.x", "in", "w0"], ["d.w0"]),
        ("w0.update", ["w0", "d.w0"], ["w0"]),
    ]
    times = {op.name: op.duration_ns for op in graph.ops}
    assert times["conv.backward"] == 40
    assert times["stem.backward"] == 10
    assert {t.name for t in graph.tensors if t.final} == {"w0", "w1"}
    assert {t.name: t.nbytes for t in graph.tensors if t.kind == "gradient"} == {
        "d.y": 8,
        "d.c": 8,
        "d.x.conv": 8,
        "d.w1": 2,
        "d.x": 8,
        "d.w0": 2,
    }


def test_shared_weight_is_updated_once_after_its_last_gradient() -> None:
    tensors = (
        Tensor(name="in", nbytes=1, kind="input", initial=True),
        weight("w"),
        Tensor(name="x", nbytes=8),
        Tensor(name="y", nbytes=8),
    )
    ops = (Op(name="f", reads=(0, 1), writes=(2,)), Op(name="g", reads=(2, 1), writes=(3,)))
    graph = training_graph(Graph(name="s", tensors=tensors, ops=ops))
    assert described(graph)[3:] == [
        ("g.backward", ["d.y", "x", "w"], ["d.x", "d.w.g"]),
        ("f.backward", ["d.x", "in", "w"], ["d.w.f"]),
        ("w.sum", ["d.w.g", "d.w.f"], ["d.w"]),
        ("w.update", ["w", "d.w"], ["w"]),
    ]


@pytest.mark.parametrize(
    ("kind", "saved"),
    [
        ("Conv", ["x", "w"]),
        ("Softmax", ["y"]),
        ("AveragePool", []),
        ("Concat", []),
        ("Embedding", ["x"]),
    ],
)
def test_what_is_saved(kind: str, saved: list[str]) -> None:
    tensors = (Tensor(name="x", nbytes=1, initial=True), weight("w"), Tensor(name="y", nbytes=1))
    graph = training_graph(
        Graph(name="s", tensors=tensors, ops=(Op(name="f", kind=kind, reads=(0, 1), writes=(2,)),))
    )
    assert described(graph)[2] == ("f.backward", ["d.y", *saved], ["d.w"])


@pytest.mark.parametrize("initial", [True, False])
def test_several_writers_are_refused(initial: bool) -> None:
    tensors = (Tensor(name="x", nbytes=1, initial=initial),)
    ops = (Op(name="a", writes=(0,)),) * (1 if initial else 2)
    with pytest.raises(InstanceError, match="found tensor 'x' with another content before"):
        training_graph(Graph(name="g", tensors=tensors, ops=ops))


@many(60)
@given(
    family=st.sampled_from(SIZED_BY_N),
    n=st.integers(5, 25),
    seed=st.integers(0, 10**6),
)
def test_every_forward_op_has_its_backward_op_and_every_gradient_one_writer(
    family: str, n: int, seed: int
) -> None:
    forward = generate(family, n=n, seed=seed)
    graph = generate(family, n=n, seed=seed, train=1)
    assert graph.ops[: len(forward.ops)] == forward.ops
    names = [op.name for op in graph.ops]
    assert [x for x in names if x.endswith(".backward")] == [
        f"{op.name}.backward" for op in reversed(forward.ops) if op.reads
    ]
    source = {t for op in forward.ops if not op.reads for t in op.writes}
    readers = Counter(t for op in forward.ops for t in op.reads)
    sums = {x.removesuffix(".sum") for x in names if x.endswith(".sum")}
    assert sums == {forward.tensors[t].name for t, count in readers.items() if count > 1 and t not in source}
    writers = Counter(t for op in graph.ops for t in op.writes)
    read = {t for op in graph.ops for t in op.reads}
    for t, tensor in enumerate(graph.tensors):
        assert writers[t] == 1
        assert t in read or tensor.kind != "gradient"


@pytest.mark.parametrize(
    "family", [name for name, f in FAMILIES.items() if {"train", "weights"} <= {*f.parameters}]
)
def test_every_weight_is_updated_as_soon_as_its_gradient_exists(family: str) -> None:
    graph = generate(family, train=1, weights=1)
    updated = [op for op in graph.ops if op.kind == "Update"]
    weights = [t for t, tensor in enumerate(graph.tensors) if tensor.kind == "weight"]
    assert sorted(op.writes[0] for op in updated) == weights
    before = {op.name: graph.ops[i - 1] for i, op in enumerate(graph.ops)}
    for op in updated:
        assert op.reads[0] == op.writes[0]
        assert op.reads[1] in before[op.name].writes
    assert {t.kind for t in graph.tensors if t.final} == {"weight"}
