"""Sequences of ONNX models: the tensors in them, against ONNX's reference evaluator and by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from lowtide.instances.onnx_import import load_onnx
from lowtide.instances.onnx_import.inference import infer_values
from lowtide.instances.onnx_import.sequences import MOST_PIECES
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.errors import InstanceError
from tests.effort import seeds
from tests.onnx_models import integers, node, require_onnx, save_model, value

np = pytest.importorskip("numpy")
pytest.importorskip("onnx", reason="the package onnx is not installed")


def number(name: str, content: int) -> Any:
    from onnx import TensorProto

    return require_onnx().make_tensor(name, TensorProto.INT64, [], [content])


def random_model(folder: Path, seed: int) -> tuple[Path, tuple[int, int]]:
    """Write a model that cuts x into a sequence, changes it, and returns an element and its length."""
    rng = Random(seed)
    shape, axis = (rng.randint(2, 6), rng.randint(2, 6)), rng.choice((0, 1, -1))
    cut, size = rng.choice(("", "each", "lengths")), shape[axis]
    each = rng.randint(1, size)
    count = {"": size, "each": -(-size // each), "lengths": 2}[cut]
    constants = [integers("lengths", 1, size - 1), number("each", each)]
    keep = {"keepdims": rng.randint(0, 1)} if not cut else {}
    nodes = [node("Relu", "x", "r"), node("SplitToSequence", f"r {cut}", "s", axis=axis, **keep)]
    last = "s"
    for k in range(rng.randint(0, 4)):
        at = f"at{k}" * rng.randint(0, 1)
        constants.append(number(f"at{k}", rng.randrange(-count, count)))
        kind = rng.choice(("erase", "insert", "copy") if count > 1 else ("insert", "copy"))
        if kind == "erase":
            nodes.append(node("SequenceErase", f"{last} {at}", f"s{k}"))
            count -= 1
        elif kind == "insert":
            nodes += [node("SequenceAt", f"{last} at{k}", f"e{k}"), node("Neg", f"e{k}", f"m{k}")]
            nodes.append(node("SequenceInsert", f"{last} m{k} {at}", f"s{k}"))
            count += 1
        else:
            nodes.append(node("SequenceErase", f"{last} at{k}", f"t{k}"))
            nodes.append(node("SequenceInsert", f"t{k} r", f"s{k}"))
        last = f"s{k}"
    constants.append(number("first", rng.randrange(-count, count)))
    nodes += [node("SequenceAt", f"{last} first", "y"), node("SequenceLength", last, "n")]
    nodes += [node("SequenceConstruct", "r x r", "three")]
    nodes += [node("ConcatFromSequence", "three", "joined", axis=axis, new_axis=rng.randint(0, 1))]
    outputs = [value("y", None), value("n", (), "INT64"), value("joined", None)]
    opset = rng.choice((11, 12, 13, 17, 21))
    return save_model(folder, nodes, [value("x", shape)], outputs, constants, opset=opset), shape


@pytest.mark.parametrize("seed", seeds(100))
def test_random_sequences_give_way_to_the_tensors_that_they_hold(tmp_path: Path, seed: int) -> None:
    import onnx
    from onnx.reference import ReferenceEvaluator

    path, shape = random_model(tmp_path, seed)
    model = onnx.load(str(path))
    feeds = {"x": np.random.default_rng(seed).normal(size=shape).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(None, feeds)
    values = infer_values(model, "model")
    assert not any("Sequence" in n.op_type for n in model.graph.node)
    for name, one, other in zip(
        ("y", "n", "joined"), expected, ReferenceEvaluator(model).run(None, feeds), strict=True
    ):
        assert np.array_equal(one, other)
        assert values[name].shape == np.asarray(one).shape
    sizes = {t.name: t.nbytes for t in load_onnx(path).tensors}
    assert sizes["joined"] == expected[2].nbytes


def test_elements_are_views_and_pieces_are_written_by_one_op(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", "x lengths", "s", axis=1),
        node("SequenceAt", "s last", "e"),
        node("Exp", "e", "y"),
        node("SequenceAt", "s first", "f"),
        node("Neg", "f", "z"),
    ]
    constants = [integers("lengths", 2, 4), number("last", -1), number("first", 0)]
    outputs = [value("y", None), value("z", None)]
    graph = load_onnx(save_model(tmp_path, nodes, [value("x", (4, 6))], outputs, constants))
    assert [op.kind for op in graph.ops] == ["Split", "Exp", "Neg"]
    assert sorted(t.nbytes for t in graph.tensors) == [32, 32, 64, 64, 96]
    # Split: x and both pieces, 96 + 32 + 64; Exp: both pieces and y; Neg: y, the small piece and z
    assert sequential_memory(graph).peak(range(3)) == 192


def test_a_sequence_that_is_returned_is_one_output_for_each_element(tmp_path: Path) -> None:
    helper = require_onnx()
    from onnx import TensorProto

    nodes = [node("Relu", "x", "r"), node("SequenceConstruct", "x r r", "s")]
    outputs = [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)]
    graph = load_onnx(save_model(tmp_path, nodes, [value("x", (4, 6))], outputs))
    assert [(t.name, t.final) for t in graph.tensors] == [("x", True), ("r", True)]


def test_positions_are_computed_from_shapes(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", "x", "s"),
        node("SequenceLength", "s", "many"),
        node("Sub", "many one", "at"),
        node("SequenceAt", "s at", "e"),
        node("Neg", "e", "y"),
    ]
    path = save_model(tmp_path, nodes, [value("x", ("n", 6))], [value("y", None)], [number("one", 1)])
    graph = load_onnx(path, dims={"n": 3})
    assert [op.kind for op in graph.ops] == ["Split", "Neg"]
    assert len(graph.ops[0].writes) == 3


def test_sequences_that_stay_are_refused_with_the_next_step(tmp_path: Path) -> None:
    helper = require_onnx()
    from onnx import TensorProto

    given = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    split = node("SplitToSequence", "x", "s")
    at = node("SequenceAt", "s i", "y")
    x, i, y = value("x", (3, 6)), value("i", (), "INT64"), [value("y", None)]
    for nodes, inputs, words in (
        ([split, at], [x, i], "value 's', output of SequenceConstruct"),
        ([at], [given, i], "input 's': found no shape"),
        ([split, node("SequenceAt", "s far", "y")], [x], "value 's', output of SequenceConstruct"),
        (
            [split, node("ConcatFromSequence", "s", "y", axis=0)],
            [value("x", (MOST_PIECES + 1,))],
            "value 's'",
        ),
    ):
        path = save_model(tmp_path, nodes, inputs, y, [number("far", 3)])
        with pytest.raises(InstanceError) as caught:
            load_onnx(path)
        assert words in str(caught.value)
        assert "constant positions" in str(caught.value) or "found no shape" in words
