"""Small ONNX models: what becomes a tensor, what vanishes, sizes, shapes, subgraphs."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances.onnx_import import load_onnx
from lowtide.instances.onnx_import.element_types import BITS
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph
from tests.onnx_models import (
    integers,
    node,
    require_onnx,
    save_model,
    transformer_block,
    value,
    weight,
)

pytest.importorskip("onnx", reason="the package onnx is not installed")


def tensors(graph: Graph) -> dict[str, tuple[int, str]]:
    return {t.name: (t.nbytes, t.kind) for t in graph.tensors}


def ops(graph: Graph) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    def names(indices: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(graph.tensors[t].name for t in indices)

    return [(op.kind, names(op.reads), names(op.writes)) for op in graph.ops]


def test_a_small_network_by_hand(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [
            node("Gemm", "x w b", "h"),
            node("Relu", "h", "r"),
            node("MatMul", "x w2", "r2"),
            node("Add", "r r2", "y"),
        ],
        [value("x", (4, 8))],
        [value("y", (4, 5))],
        [weight("w", 8, 5), weight("b", 5), weight("w2", 8, 5)],
    )
    graph = load_onnx(path, weights=True)
    assert ops(graph) == [
        ("Gemm", ("x", "w", "b"), ("h",)),
        ("Relu", ("h",), ("r",)),
        ("MatMul", ("x", "w2"), ("r2",)),
        ("Add", ("r", "r2"), ("y",)),
    ]
    assert tensors(graph) == {
        "x": (128, "input"),
        "w": (160, "weight"),
        "b": (20, "weight"),
        "h": (80, "activation"),
        "r": (80, "activation"),
        "w2": (160, "weight"),
        "r2": (80, "activation"),
        "y": (80, "output"),
    }
    flags = {t.name: (t.initial, t.final) for t in graph.tensors}
    assert flags["x"] == (True, False)
    assert flags["w"] == (True, True)
    assert flags["y"] == (False, True)
    assert graph.ops[1].inplace == ((3, 4),)
    assert graph.ops[3].inplace == ((4, 7), (6, 7))


def test_views_vanish_wherever_they_stand(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [
            node("Flatten", "x", "flat"),
            node("Relu", "flat", "r"),
            node("Reshape", "r shape", "r2"),
            node("Dropout", "r2", "d mask"),
            node("Identity", "d", "y"),
            node("Unsqueeze", "x axis", "z"),
            node("Transpose", "z", "zt", perm=[1, 0, 2, 3]),
            node("Cast", "zt", "same", to=1),
        ],
        [value("x", (2, 3, 4))],
        [value("y", None), value("same", None)],
        [integers("shape", 6, 4), integers("axis", 0)],
    )
    graph = load_onnx(path)
    assert ops(graph) == [("Relu", ("x",), ("r",))]
    assert tensors(graph) == {"x": (96, "input"), "r": (96, "output")}
    assert [t.final for t in graph.tensors] == [True, True]
    assert graph.provenance["views_folded"] == 7


def test_dropout_with_a_used_mask_or_in_training_mode_is_an_op(tmp_path: Path) -> None:
    inputs = [value("x", (2, 3))]
    mask = [value("y", (2, 3)), value("m", (2, 3), "BOOL")]
    graph = load_onnx(save_model(tmp_path, [node("Dropout", "x", "y m")], inputs, mask))
    assert ops(graph) == [("Dropout", ("x",), ("y", "m"))]
    assert tensors(graph)["m"] == (6, "output")
    from onnx import TensorProto

    training = require_onnx().make_tensor("training", TensorProto.BOOL, [], [True])
    nodes = [node("Dropout", "x - training", "y")]
    assert len(load_onnx(save_model(tmp_path, nodes, inputs, mask[:1], [training])).ops) == 1


def test_values_that_depend_on_no_input_are_weights(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [
            node("ConstantOfShape", "huge", "w"),
            node("Transpose", "w", "wt"),
            node("Mul", "wt scale", "scaled"),
            node("MatMul", "x scaled", "h"),
            node("Constant", "", "half", value_float=0.5),
            node("Mul", "h half", "y"),
            node("Relu", "h", "dead"),
        ],
        [value("x", (1, 100000))],
        [value("y", (1, 200000))],
        [integers("huge", 200000, 100000), weight("scale", 100000, 1)],
    )
    graph = load_onnx(path, weights=True)
    assert ops(graph) == [("MatMul", ("x", "scaled"), ("h",)), ("Mul", ("h",), ("y",))]
    assert tensors(graph)["scaled"] == (8 * 10**10, "weight")
    assert graph.provenance["dead_nodes"] == 1


def test_weights_lose_their_bytes_and_keep_their_versions(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [node("MatMul", "x w", "y")],
        [value("x", (2, 3))],
        [value("y", (2, 5))],
        [weight("w", 3, 5)],
    )
    graph = load_onnx(path)
    assert tensors(graph) == {"x": (24, "input"), "w": (0, "weight"), "y": (40, "output")}
    assert graph.provenance["dropped_bytes"] == {"weight": 60}


def test_initializers_that_are_declared_as_inputs_are_weights(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [node("MatMul", "x w", "y")],
        [value("x", (2, 3)), value("w", (3, 5))],
        [value("y", (2, 5))],
        [weight("w", 3, 5)],
    )
    assert tensors(load_onnx(path, weights=True))["w"] == (60, "weight")


def test_weights_in_missing_external_files_need_not_exist(tmp_path: Path) -> None:
    import onnx

    tensor = weight("w", 3, 5)
    tensor.ClearField("float_data")
    tensor.raw_data = bytes(60)
    onnx.external_data_helper.set_external_data(tensor, "nowhere.bin", 0, 60)
    tensor.ClearField("raw_data")
    path = save_model(
        tmp_path,
        [node("MatMul", "x w", "y")],
        [value("x", (2, 3))],
        [value("y", (2, 5))],
        [tensor],
    )
    assert tensors(load_onnx(path, weights=True))["w"] == (60, "weight")


def test_target_shapes_in_external_files_are_read(tmp_path: Path) -> None:
    import onnx

    target = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(integers("target", 3, -1)), "target")
    nodes = [node("Reshape", "x target", "r"), node("MatMul", "r w", "y")]
    path = save_model(tmp_path, nodes, [value("x", (2, 6))], [value("y", None)], [weight("w", 4, 5)])
    model = onnx.load(str(path))
    model.graph.initializer.append(target)
    onnx.save(model, str(path), save_as_external_data=True, location="data.bin", size_threshold=0)
    assert tensors(load_onnx(path))["y"] == (60, "output")


def test_maps_of_classifiers_are_their_probabilities(tmp_path: Path) -> None:
    nodes = [
        node("TreeEnsembleClassifier", "x", "label p", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
        node("ZipMap", "p", "maps", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    helper = require_onnx()
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, []))
    )
    outputs = [value("label", (4,), "INT64"), helper.make_value_info("maps", maps)]
    path = save_model(tmp_path, nodes, [value("x", (4, 6))], outputs, domains=("ai.onnx.ml",))
    graph = load_onnx(path)
    assert tensors(graph) == {"x": (96, "input"), "label": (32, "output"), "p": (48, "output")}


def test_constant_and_passed_through_outputs(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [node("Shape", "x", "shape"), node("Identity", "x", "same")],
        [value("x", (2, 3)), value("unused", (7,))],
        [value("shape", (2,), "INT64"), value("same", (2, 3))],
    )
    graph = load_onnx(path)
    assert graph.ops == ()
    assert tensors(graph) == {"x": (24, "input"), "unused": (28, "input"), "shape": (0, "weight")}
    assert [t.final for t in graph.tensors] == [True, False, True]


def test_several_outputs_and_absent_operands(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [node("LSTM", "x w r - - h0", "- last cell", hidden_size=4), node("Relu", "last", "y")],
        [value("x", (5, 2, 3)), value("h0", (1, 2, 4))],
        [value("y", None)],
        [weight("w", 1, 16, 3), weight("r", 1, 16, 4)],
    )
    graph = load_onnx(path)
    assert ops(graph)[0] == ("LSTM", ("x", "w", "r", "h0"), ("last", "cell"))
    assert tensors(graph)["cell"] == (32, "activation")


def test_subgraphs_read_what_they_capture(tmp_path: Path) -> None:
    helper = require_onnx()
    shape = [value("t", (2, 3))]
    inner = node("Mul", "captured w", "t")
    then = helper.make_graph([node("Relu", "a", "b"), node("Add", "b deep", "t")], "then", [], shape)
    nested = node("If", "condition", "t", then_branch=then, else_branch=then)
    path = save_model(
        tmp_path,
        [
            node("Relu", "x", "captured"),
            node("Neg", "x", "a"),
            node("Abs", "x", "deep"),
            node(
                "If",
                "condition",
                "y",
                then_branch=helper.make_graph([inner], "then", [], shape),
                else_branch=helper.make_graph([nested], "else", [], shape),
            ),
        ],
        [value("x", (2, 3)), value("condition", (), "BOOL")],
        [value("y", (2, 3))],
        [weight("w", 2, 3)],
    )
    graph = load_onnx(path)
    kind, reads, writes = ops(graph)[-1]
    assert (kind, writes) == ("If", ("y",))
    assert sorted(reads) == ["a", "captured", "condition", "deep", "w"]


def test_local_functions_are_inlined_and_foreign_operators_are_generic(tmp_path: Path) -> None:
    helper = require_onnx()
    twice = helper.make_function(
        "mine",
        "AddTwice",
        ["a", "b"],
        ["o"],
        [node("Add", "a b", "t"), node("Add", "t b", "o")],
        [helper.make_opsetid("", 17)],
    )
    path = save_model(
        tmp_path,
        [
            node("AddTwice", "x x", "f", domain="mine"),
            node("Reshape", "f", "y", domain="theirs"),
        ],
        [value("x", (2, 3))],
        [value("y", (3, 2))],
        domains=("mine", "theirs"),
        functions=[twice],
    )
    assert [op.kind for op in load_onnx(path).ops] == ["Add", "Add", "theirs.Reshape"]


def test_element_types_have_their_size(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    known = set(TensorProto.DataType.keys()) - {"UNDEFINED", "STRING"}
    assert known <= set(BITS)
    for kind in sorted(known):
        path = save_model(
            tmp_path,
            [node("Relu", "x", "y", domain="mine")],
            [value("x", (3, 5), kind)],
            [value("y", (3, 5), kind)],
            domains=("mine",),
        )
        nbytes = -(-15 * BITS[kind] // 8)
        assert tensors(load_onnx(path))["x"] == (nbytes, "input")
        packed = kind.endswith(("2", "4", "E2M1", "E2M3", "E3M2")) and BITS[kind] < 8
        if not packed:  # numpy knows the others
            dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
            assert 8 * dtype.itemsize == BITS[kind]
    assert [-(-15 * BITS[kind] // 8) for kind in ("INT4", "FLOAT6E2M3", "INT2")] == [8, 12, 4]


def test_transformer_block_with_symbolic_dimensions(tmp_path: Path) -> None:
    path = transformer_block(tmp_path)
    graph = load_onnx(path, batch=2, dims={"length": 10})
    assert graph == load_onnx(path, dims={"length": 10, "batch_size": 2})
    sizes = tensors(graph)
    assert sizes["scores"] == (4 * 2 * 4 * 10 * 10, "activation")
    assert sizes["q0"] == (4 * 2 * 10 * 16, "activation")
    assert "heads_shape" not in sizes
    kinds = [op.kind for op in graph.ops]
    assert "Reshape" not in kinds
    assert "Concat" not in kinds
    assert len(kinds) == 20
    assert graph.name == "model?batch=2&length=10"


def test_folded_mask_is_a_constant_of_the_expanded_size(tmp_path: Path) -> None:
    graph = load_onnx(transformer_block(tmp_path), batch=1, dims={"length": 10}, weights=True)
    assert tensors(graph)["mask_full"] == (400, "weight")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((2, 12), (10, 12)),  # leading entry is the batch
        ((2, -1), (10, 12)),
        ((-1, 12), (10, 12)),  # already right
        ((0, 12), (10, 12)),
        ((6, 4), (30, 4)),  # batch times another dimension
    ],
)
def test_another_batch_rewrites_target_shapes(
    tmp_path: Path, target: tuple[int, int], expected: tuple[int, int]
) -> None:
    path = save_model(
        tmp_path,
        [node("Reshape", "x target", "r"), node("Reshape", "w target", "w2"), node("Abs", "r", "y")],
        [value("x", (2, 3, 4)), value("other", (2, 7)), value("fixed", (3, 7))],
        [value("y", None), value("w2", None), value("other", None), value("fixed", None)],
        [weight("w", 2, 12), integers("target", *target)],
    )
    graph = load_onnx(path, batch=10, weights=True)
    sizes = tensors(graph)
    assert sizes["y"] == (4 * expected[0] * expected[1], "output")
    assert sizes["w"] == (4 * 24, "weight")
    assert sizes["other"] == (4 * 70, "input")
    assert sizes["fixed"] == (4 * 21, "input")
    assert graph.provenance["target_shapes_rewritten"] == (target[0] in (2, 6))
    assert graph.provenance["values_not_scaled_with_batch"] == 1  # fixed


def test_target_shapes_computed_from_the_input_follow_another_batch(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [
            node("Shape", "x", "shape"),
            node("Equal", "shape minus", "unset"),
            node("Where", "unset minus shape", "target"),  # ONNX does not propagate this
            node("Expand", "w target", "e"),
            node("Add", "x e", "y"),
        ],
        [value("x", (2, 3))],
        [value("y", None)],
        [weight("w", 1, 3), integers("minus", -1, -1)],
    )
    assert tensors(load_onnx(path))["y"] == (24, "output")
    assert tensors(load_onnx(path, batch=10, weights=True))["e"] == (120, "weight")


def test_stale_shapes_in_the_file_do_not_count(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Own", "a", "b", domain="theirs"),
        node("NonZero", "b", "nz"),
        node("Concat", "a a", "y", axis=0),
    ]
    outputs = [value("y", (3, 3)), value("b", (5,)), value("nz", (1, 4), "INT64")]
    path = save_model(tmp_path, nodes, [value("x", (2, 3))], outputs, domains=("theirs",))
    sizes = {name: size for name, (size, _) in tensors(load_onnx(path)).items()}
    # of y the operators say the shape; of b and nz only the file does
    assert sizes == {"x": 24, "a": 24, "b": 20, "nz": 32, "y": 48}
    branch = require_onnx().make_graph([node("Neg", "x", "t")], "branch", [], [value("t", (7, 7))])
    nodes = [node("If", "c", "y", then_branch=branch, else_branch=branch)]
    path = save_model(tmp_path, nodes, [value("x", (2, 3)), value("c", (), "BOOL")], [value("y", (9,))])
    assert tensors(load_onnx(path))["y"] == (24, "output")


def test_shapes_can_be_given_by_hand(tmp_path: Path) -> None:
    nodes = [node("NonZero", "x", "nz"), node("Transpose", "nz", "y"), node("Own", "y", "z", domain="theirs")]
    path = save_model(tmp_path, nodes, [value("x", None)], [value("z", None)], domains=("theirs",))
    graph = lt.load(f"{path}?shape.x=2x3&shape.nz=?x5&shape.z=7")
    assert tensors(graph) == {
        "x": (24, "input"),
        "nz": (80, "activation"),
        "y": (80, "activation"),
        "z": (56, "output"),
    }
    assert graph.provenance["shapes"] == {"x": [2, 3], "nz": [None, 5], "z": [7]}
    shapes = {"x": (2, 3), "nz": (2, 5), "z": (7,)}
    assert load_onnx(path, shapes=shapes).sha256 == graph.sha256


def test_shapes_that_follow_from_constants_are_computed(tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", "square", "ones", value=integers("one", 1)),
        node("Trilu", "ones", "lower", upper=0),
        node("NonZero", "lower", "pairs"),
        node("Transpose", "pairs", "indices"),
        node("GatherND", "x indices", "y"),
    ]
    path = save_model(
        tmp_path, nodes, [value("x", (40, 40))], [value("y", None)], [integers("square", 40, 40)]
    )
    assert tensors(load_onnx(path))["y"] == (4 * 820, "output")


def test_dimensions_are_called_by_input_and_axis_or_follow_from_others(tmp_path: Path) -> None:
    inputs = [
        value("x:0", ("DynamicDimension.0", 3, "?", "unk__7")),
        value("past", ("DynamicDimension.0", "length", "?")),
        value("mask", ("DynamicDimension.0", "2*length + 1")),
    ]
    path = save_model(tmp_path, [node("Relu", "x:0", "y")], inputs, [value("y", None)])
    with pytest.raises(InstanceError, match=r"as in \?x_0_0=1&x_0_2=224&x_0_3=224&length=224&past_2=224$"):
        load_onnx(path)
    graph = lt.load(f"{path}?batch=2&x_0_2=5&x_0_3=7&length=4&past_2=6")
    assert {t.name: t.nbytes for t in graph.tensors if t.kind == "input"} == {
        "x:0": 4 * 2 * 3 * 5 * 7,
        "past": 4 * 2 * 4 * 6,
        "mask": 4 * 2 * 9,
    }
    assert graph.name == "model?batch=2&x_0_2=5&x_0_3=7&length=4&past_2=6"
    given = {"DynamicDimension.0": 2, "x_0_2": 5, "unk__7": 7, "length": 4, "past_2": 6}
    assert load_onnx(path, dims=given).sha256 == graph.sha256
    with pytest.raises(InstanceError, match=r"and x_0_0=3, expected one size for both"):
        load_onnx(path, batch=2, dims={**given, "past_0": 3})


def test_suggested_sizes_fit_the_model(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x grid", "g"), node("MatMul", "g w", "y")]
    constants = [integers("grid", -1, 256), weight("w", 256, 2)]
    path = save_model(tmp_path, nodes, [value("x", ("n", "length"))], [value("y", None)], constants)
    with pytest.raises(InstanceError, match=r"as in \?n=1&length=256$"):
        load_onnx(path)
    lt.load(f"{path}?n=1&length=256")


def test_durations_follow_the_roofline(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [
            node("Conv", "x w", "c", kernel_shape=[3, 3]),
            node("Relu", "c", "r"),
            node("GlobalAveragePool", "r", "y"),
        ],
        [value("x", (8, 64, 58, 58))],
        [value("y", None)],
        [weight("w", 128, 64, 3, 3)],
    )
    conv, relu, pool = load_onnx(path).ops
    outputs = 8 * 128 * 56 * 56
    assert conv.duration_ns == -(-outputs * 64 * 9 // 9750)
    assert relu.duration_ns == -(-2 * 4 * outputs // 1555)
    assert pool.duration_ns == -(-(4 * outputs + 4 * 8 * 128) // 1555)
