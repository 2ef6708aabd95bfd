"""Training graphs: the table of derivatives against torch's record, and backward passes by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.instances.onnx_import import load_onnx
from lowtide.instances.onnx_import.derivatives import DERIVATIVES
from lowtide.instances.onnx_import.network import Node
from lowtide.instances.onnx_import.shapes import KnownValue
from lowtide.instances.onnx_import.views import VIEWS
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph
from tests.onnx_models import integers, node, require_onnx, save_model, transformer_block, value, weight

pytest.importorskip("onnx", reason="the package onnx is not installed")

RECORD = Path(lowtide.__file__).parent / "results/experiments/torch_saved_tensors/record.json"
ATTRIBUTES = {"GroupNormalization": {"num_groups": 2}}
SAME_AS = {"Upsample": "Resize"}
OBSERVED = [op_type for op_type, row in DERIVATIVES.items() if row.steps and not row.by_sizes]


def operators_of_torch() -> dict[str, dict[str, Any]]:
    if not RECORD.exists():
        pytest.skip("the record of torch's saved tensors is part of the source tree only")
    operators: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())["operators"]
    return operators


def kept_by_the_table(op_type: str, case: dict[str, Any]) -> Counter[str]:
    """What the row keeps for the backward pass, in the words of the record."""
    row = DERIVATIVES[op_type]
    names = tuple(f"x{i}" for i in range(len(case["operands"])))
    values = {
        name: KnownValue(name, tuple(shape), "FLOAT")
        for name, shape in zip((*names, "y0"), (*case["operands"], case["output"]), strict=True)
    }
    one = Node(op_type, op_type, names, ("y0",), names, (), ATTRIBUTES.get(op_type, {}))
    own = {}
    for saved in row.saved:
        dtype = {0: "float32", 1: "bool", 8: "int64"}[saved.bytes_each]
        elements = saved.nbytes(one, values) // (saved.bytes_each or 4)
        own[saved.name] = f"{dtype}[{elements}]"
    kept: dict[str, str] = {}
    for step in row.steps:
        for word in step.reads:
            for name in names if word == "x*" else [word]:
                kept[name] = own.get(name, name)
    return Counter(kept.values())


def test_every_derivative_was_observed_in_torch() -> None:
    assert {SAME_AS.get(op_type, op_type) for op_type in OBSERVED} == set(operators_of_torch())


@pytest.mark.parametrize("op_type", sorted(OBSERVED))
def test_the_table_keeps_what_torch_keeps_unless_it_says_why_not(op_type: str) -> None:
    case = operators_of_torch()[SAME_AS.get(op_type, op_type)]
    agrees = kept_by_the_table(op_type, case) == Counter(case["saves"])
    assert agrees == (DERIVATIVES[op_type].note == "")


def test_views_have_no_row_but_dropout() -> None:
    assert VIEWS & set(DERIVATIVES) == {"Dropout"}


# Backward passes by hand


def lines(graph: Graph) -> list[str]:
    """One line per op: kind, reads -> writes; ``'`` marks a gradient."""

    def names(indices: tuple[int, ...]) -> str:
        return " ".join(
            graph.tensors[t].name.replace("/gradient_sum", "'").replace("/gradient", "'") for t in indices
        )

    return [f"{op.kind}: {names(op.reads)} -> {names(op.writes)}" for op in graph.ops]


def train(folder: Path, nodes: list[Any], constants: list[Any], *shape: int) -> Graph:
    path = save_model(folder, nodes, [value("x", shape)], [value("y", None)], constants)
    return load_onnx(path, train=True, weights=True)


def test_a_multilayer_perceptron(tmp_path: Path) -> None:
    graph = train(
        tmp_path,
        [node("Gemm", "x w1 b1", "h"), node("Relu", "h", "r"), node("Gemm", "r w2 b2", "y")],
        [weight("w1", 8, 5), weight("b1", 5), weight("w2", 5, 3), weight("b2", 3)],
        *(4, 8),
    )
    assert lines(graph) == [
        "Gemm: x w1 b1 -> h",
        "Relu: h -> r",
        "Gemm: r w2 b2 -> y",
        "Loss: y y/labels -> loss y'",
        "GemmGradient: y' w2 -> r'",
        "GemmGradient: y' r -> w2' b2'",
        "Update: w2 w2' -> w2",
        "Update: b2 b2' -> b2",
        "ReluGradient: r' r -> h'",
        "GemmGradient: h' x -> w1' b1'",
        "Update: w1 w1' -> w1",
        "Update: b1 b1' -> b1",
    ]
    by_name = {t.name: t for t in graph.tensors}
    assert (by_name["y/labels"].nbytes, by_name["y/labels"].initial) == (32, True)
    assert (by_name["loss"].nbytes, by_name["loss"].final) == (4, True)
    assert (by_name["y"].kind, by_name["y"].final) == ("output", False)
    assert (by_name["w1/gradient"].nbytes, by_name["w1/gradient"].kind) == (160, "gradient")
    # the network does 4*8*5 and 4*5*3 multiply-adds; bytes dominate everywhere at this size
    assert {op.duration_ns for op in graph.ops} == {1}


def test_a_residual_sum_passes_its_gradient_and_adds_contributions_once(tmp_path: Path) -> None:
    graph = train(
        tmp_path,
        [
            node("MatMul", "x w", "a"),
            node("Relu", "a", "b"),
            node("Tanh", "a", "c"),
            node("Sum", "a b c", "s"),
            node("Reshape", "s flat", "v"),
            node("Add", "v bias", "y"),
        ],
        [weight("w", 8, 8), weight("bias", 8), integers("flat", 4, 8)],
        *(2, 2, 8),
    )
    assert lines(graph)[4:] == [
        "Add: s bias -> y",
        "Loss: y y/labels -> loss y'",
        "SumBroadcast: y' -> bias'",
        "Update: bias bias' -> bias",
        "TanhGradient: y' c -> a'1",
        "ReluGradient: y' b -> a'2",
        "SumGradients: y' a'1 a'2 -> a'",
        "MatMulGradient: a' x -> w'",
        "Update: w w' -> w",
    ]
    gradient = next(op for op in graph.ops if op.kind == "SumGradients")
    assert {r for r, _ in gradient.inplace} == set(gradient.reads)


def test_operands_used_twice(tmp_path: Path) -> None:
    graph = train(
        tmp_path,
        [node("Mul", "x w", "a"), node("Mul", "a a", "b"), node("Add", "b b", "y")],
        [weight("w", 8)],
        *(2, 8),
    )
    assert lines(graph)[4:] == [
        "SumGradients: y' -> b'",
        "MulGradient: b' a -> a'",
        "MulGradient: b' a -> a'1",
        "SumGradients: a' a'1 -> a'",
        "MulGradient: a' x -> w'",
        "Update: w w' -> w",
    ]


def test_a_shared_weight_is_updated_once_behind_its_first_reader(tmp_path: Path) -> None:
    graph = train(
        tmp_path,
        [
            node("MatMul", "x w", "a"),
            node("Tanh", "a", "b"),
            node("MatMul", "b w", "c"),
            node("Gemm", "c w2", "y"),
        ],
        [weight("w", 8, 8), weight("w2", 8, 3)],
        *(2, 8),
    )
    assert lines(graph)[5:] == [
        "GemmGradient: y' w2 -> c'",
        "GemmGradient: y' c -> w2'",
        "Update: w2 w2' -> w2",
        "MatMulGradient: c' w -> b'",
        "MatMulGradient: c' b -> w'",
        "TanhGradient: b' b -> a'",
        "MatMulGradient: a' x -> w'1",
        "SumGradients: w' w'1 -> w'",
        "Update: w w' -> w",
    ]


def test_normalization_pooling_and_dropout_save_what_they_need(tmp_path: Path) -> None:
    graph = train(
        tmp_path,
        [
            node("Conv", "x w b", "c", kernel_shape=[3, 3]),
            node("BatchNormalization", "c scale bias mean var", "n"),
            node("MaxPool", "n", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("Dropout", "p", "y"),
        ],
        [weight("w", 6, 3, 3, 3), weight("b", 6)]
        + [weight(name, 6) for name in ("scale", "bias", "mean", "var")],
        *(2, 3, 10, 10),
    )
    assert lines(graph) == [
        "Conv: x w b -> c",
        "BatchNormalization: c scale bias mean var -> n n/mean n/invstd mean var",
        "MaxPool: n -> p p/indices",
        "Dropout: p -> y y/mask",
        "Loss: y y/labels -> loss y'",
        "DropoutGradient: y' y/mask -> p'",
        "MaxPoolGradient: p' n p/indices -> n'",
        "BatchNormalizationGradient: n' c scale n/mean n/invstd -> c' scale' bias'",
        "Update: scale scale' -> scale",
        "Update: bias bias' -> bias",
        "ConvGradient: c' x -> w' b'",
        "Update: w w' -> w",
        "Update: b b' -> b",
    ]
    sizes = {t.name: t.nbytes for t in graph.tensors}
    elements = 2 * 6 * 4 * 4
    assert sizes["p/indices"] == 8 * elements
    assert sizes["y/mask"] == elements
    assert sizes["n/mean"] == sizes["n/invstd"] == 24


def test_only_the_first_output_may_take_the_place_of_an_operand(tmp_path: Path) -> None:
    nodes = [node("Mul", "x w", "h"), node("BatchNormalization", "h scale bias mean var", "y")]
    constants = [weight(name, 6) for name in ("w", "scale", "bias", "mean", "var")]
    graph = train(tmp_path, nodes, constants, *(1, 6))
    normalize = graph.ops[1]
    assert {graph.tensors[t].nbytes for t in normalize.writes} == {24}
    assert normalize.inplace == ((normalize.reads[0], normalize.writes[0]),)


def test_an_optional_output_that_is_read_serves_as_the_saved_tensor(tmp_path: Path) -> None:
    path = save_model(
        tmp_path,
        [
            node("MatMul", "x w", "h"),
            node("Dropout", "h", "d mask"),
            node("LayerNormalization", "d scale", "y unused"),
        ],
        [value("x", (2, 8))],
        [value("y", None), value("mask", None, "BOOL")],
        [weight("w", 8, 8), weight("scale", 8)],
    )
    found = lines(load_onnx(path, train=True))
    assert found[1:3] == ["Dropout: h -> d mask", "LayerNormalization: d scale -> y y/mean y/invstd"]
    assert "DropoutGradient: d' mask -> h'" in found


def test_gradients_stop_where_there_is_no_derivative(tmp_path: Path) -> None:
    graph = train(
        tmp_path,
        [
            node("MatMul", "x w", "a"),
            node("Relu", "x", "r"),
            node("Greater", "a r", "mask"),
            node("Where", "mask a r", "y"),
        ],
        [weight("w", 8, 8)],
        *(2, 8),
    )
    assert lines(graph)[5:] == [
        "WhereGradient: y' mask -> a'",
        "MatMulGradient: a' x -> w'",
        "Update: w w' -> w",
    ]


def test_constants_of_the_graph_are_not_trained(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    table = helper.make_tensor("table", TensorProto.FLOAT, [8], [1.0] * 8)
    graph = train(
        tmp_path,
        [node("Constant", "", "k", value=table), node("Add", "x k", "a"), node("Mul", "a w", "y")],
        [weight("w", 8)],
        *(2, 8),
    )
    assert [op.kind for op in graph.ops] == ["Add", "Mul", "Loss", "MulGradient", "Update"]


def test_constants_that_are_weights_of_layers_are_trained(tmp_path: Path) -> None:
    nodes = [
        *(node("Constant", "", name, value=weight(name, *shape)) for name, shape in CONSTANTS.items()),
        node("Reshape", "flat square", "matrix"),
        node("MatMul", "x matrix", "h"),
        node("Add", "h bias", "a"),
        node("Mul", "a one", "b"),
        node("Add", "b late", "y"),
    ]
    graph = train(tmp_path, nodes, [integers("square", 8, 8)], *(2, 8))
    updated = [op.name for op in graph.ops if op.kind == "Update"]
    # a scalar and what stands behind the bias are no weights of the layer
    assert updated == ["bias/update", "flat/update"]


CONSTANTS = {"flat": (64,), "bias": (8,), "one": (), "late": (8,)}


@pytest.mark.parametrize(("op_type", "gates", "states"), [("LSTM", 4, 5), ("GRU", 3, 4), ("RNN", 1, 0)])
def test_recurrent_layers_have_derivatives_by_sizes(
    tmp_path: Path, op_type: str, gates: int, states: int
) -> None:
    path = save_model(
        tmp_path,
        [node(op_type, "x w r b", "- last", hidden_size=4), node("Mul", "last scale", "y")],
        [value("x", (5, 2, 3))],
        [value("y", None)],
        [
            weight("w", 1, gates * 4, 3),
            weight("r", 1, gates * 4, 4),
            weight("b", 1, gates * 8),
            weight("scale", 4),
        ],
    )
    graph = load_onnx(path, train=True, weights=True)
    ahead, back = (
        next(op for op in graph.ops if op.kind == kind) for kind in (op_type, f"{op_type}Gradient")
    )
    sizes = {graph.tensors[t].name: graph.tensors[t].nbytes for t in ahead.writes}
    expected = {"last": 4 * 2 * 4, "last/hidden": 4 * 5 * 2 * 4, "last/gates": 4 * 5 * 2 * 4 * states}
    assert sizes == {name: nbytes for name, nbytes in expected.items() if nbytes}
    assert {graph.tensors[t].name for t in back.reads} == {"last/gradient", "x", "w", "r"} | (
        set(sizes) - {"last"}
    )
    assert [graph.tensors[t].name for t in back.writes] == ["w/gradient", "r/gradient", "b/gradient"]
    assert ahead.work[0].multiply_adds == 5 * 2 * gates * 4 * (3 + 4)
    assert back.work[0].multiply_adds == 2 * ahead.work[0].multiply_adds
    assert sum(op.kind == "Update" for op in graph.ops) == 4


def test_an_if_is_differentiated_by_running_its_branch_again(tmp_path: Path) -> None:
    helper = require_onnx()
    branches = [
        helper.make_graph(
            [node("Mul", "h own", "wide"), node("Concat", "wide wide", "t", axis=0)],
            "then",
            [],
            [value("t", (4, 3))],
            [weight("own", 2, 3)],
        ),
        helper.make_graph([node("Concat", "h h", "t", axis=0)], "else", [], [value("t", (4, 3))]),
    ]
    nodes = [
        node("Mul", "x w", "h"),
        node("If", "c", "y", name="if", then_branch=branches[0], else_branch=branches[1]),
    ]
    inputs = [value("x", (2, 3)), value("c", (), "BOOL")]
    path = save_model(tmp_path, nodes, inputs, [value("y", (4, 3))], [weight("w", 2, 3)])
    graph = load_onnx(path, train=True)
    assert lines(graph)[3:] == [
        "IfGradient: y' c h if/then_branch/own -> h' if/then_branch/own'",
        "Update: if/then_branch/own if/then_branch/own' -> if/then_branch/own",
        "MulGradient: h' x -> w'",
        "Update: w w' -> w",
    ]
    back = graph.ops[3]
    assert back.workspace == 2 * 4 * (6 + 12)  # the larger branch makes `wide` and `t`, and their gradients
    assert back.duration_ns == 3 * graph.ops[1].duration_ns


def trained_loop(folder: Path, many: int | None, kind: str = "Tanh") -> Path:
    """Write a model: h = x w goes round a Loop that multiplies it by a weight, twice as wide in between."""
    helper = require_onnx()
    nodes = [node("MatMul", "v u", "wide"), node(kind, "wide", "bent"), node("MatMul", "bent d", "next")]
    inputs = [value("i", (), "INT64"), value("go", (), "BOOL"), value("v", None)]
    collected = [] if many is None else [value("bent", None)]
    outputs = [value("go", (), "BOOL"), value("next", None), *collected]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    names = f"{'-' if many is None else 'most'} yes h"
    constants = [
        weight("w", 4, 3),
        weight("u", 3, 6),
        weight("d", 6, 3),
        helper.make_tensor("yes", 9, [], [True]),
    ]
    constants += [] if many is None else [helper.make_tensor("most", 7, [], [many])]
    loop = node("Loop", names, "y" if many is None else "y all", name="loop", body=body)
    nodes = [node("MatMul", "x w", "h"), loop]
    return save_model(folder, nodes, [value("x", (2, 4))], [value("y", (2, 3))], constants)


def test_a_loop_saves_what_it_carries_and_runs_again_in_the_backward_pass(tmp_path: Path) -> None:
    graph = load_onnx(trained_loop(tmp_path, 5), train=True, weights=True)
    assert lines(graph) == [
        "MatMul: x w -> h",
        "Loop: h u d -> y all loop/carried",
        "Loss: y y/labels -> loss y'",
        "LoopGradient: y' h u d loop/carried -> h' u' d'",
        "Update: u u' -> u",
        "Update: d d' -> d",
        "MatMulGradient: h' x -> w'",
        "Update: w w' -> w",
    ]
    sizes = {t.name: t.nbytes for t in graph.tensors}
    carried, wide = 4 * 2 * 3, 4 * 2 * 6
    assert sizes["loop/carried"] == 4 * carried  # into all iterations but the first, which starts with h
    # one iteration again: wide, bent and next, the gradient of each, and that of what it carries
    back = graph.ops[3]
    assert back.workspace == 2 * (wide + wide + carried) + carried
    assert back.duration_ns == 3 * graph.ops[1].duration_ns
    # at once: weights w, u, d and their gradients u', d'; x; h and h', y', the saved ones; the loss
    held = 4 * (12 + 18 + 18) + 4 * (18 + 18) + sizes["x"] + 3 * carried + 4 * carried + 4
    assert sequential_memory(graph).profile(range(len(graph.ops)))[0][3] == held + back.workspace


def test_one_iteration_saves_nothing_and_a_loop_without_end_is_refused(tmp_path: Path) -> None:
    graph = load_onnx(trained_loop(tmp_path, 1), train=True)
    assert "LoopGradient: y' h u d -> h' u' d'" in lines(graph)
    with pytest.raises(InstanceError, match=r"found operator Loop without a constant number of iterations"):
        load_onnx(trained_loop(tmp_path, None), train=True)
    with pytest.raises(InstanceError, match=r"body: node 'Asin.*found operator Asin, whose derivative"):
        load_onnx(trained_loop(tmp_path, 2, "Asin"), train=True)


def test_a_scan_gives_gradients_to_what_it_scans_and_to_its_state(tmp_path: Path) -> None:
    helper = require_onnx()
    nodes = [
        node("Mul", "piece scale", "scaled"),
        node("Add", "state scaled", "next"),
        node("Tanh", "next", "out"),
    ]
    inner = helper.make_graph(
        nodes, "body", [value("state", None), value("piece", None)], [value("next", None), value("out", None)]
    )
    scan = node("Scan", "start h", "last outs", name="scan", num_scan_inputs=1, body=inner)
    constants = [weight("w", 7, 3), weight("start", 3), weight("scale", 3)]
    path = save_model(
        tmp_path, [node("Mul", "x w", "h"), scan], [value("x", (7, 3))], [value("outs", (7, 3))], constants
    )
    graph = load_onnx(path, train=True, weights=True)
    assert "ScanGradient: outs' start h scale scan/carried -> start' h' scale'" in lines(graph)
    sizes = {t.name: t.nbytes for t in graph.tensors}
    assert sizes["scan/carried"] == 6 * 4 * 3
    assert sizes["h/gradient"] == sizes["h"] == 4 * 7 * 3
    back = next(op for op in graph.ops if op.kind == "ScanGradient")
    assert back.workspace == 2 * 3 * 12 + 12


def quantized(folder: Path, *between: Any, last: str = "d") -> Path:
    """Write a model whose activations and second weight are quantized and made numbers again."""
    constants = [
        weight("w", 8, 6),
        weight("v", 6, 4),
        weight("s"),
        require_onnx().make_tensor("z", 3, [], [0]),
    ]
    nodes = [
        node("MatMul", "x w", "h"),
        node("QuantizeLinear", "h s z", "q"),
        *between,
        node("DequantizeLinear", f"{'t' if between else 'q'} s z", "d"),
        node("QuantizeLinear", "v s z", "vq"),
        node("DequantizeLinear", "vq s z", "vd"),
        node("MatMul", f"{last} vd", "y"),
    ]
    return save_model(folder, nodes, [value("x", (2, 8))], [value("y", None)], constants)


def test_quantization_is_passed_straight_through(tmp_path: Path) -> None:
    graph = load_onnx(quantized(tmp_path), train=True, weights=True)
    assert lines(graph) == [
        "MatMul: x w -> h",
        "QuantizeLinear: h -> q q/mask",
        "DequantizeLinear: q -> d",
        "MatMul: d vd -> y",
        "Loss: y y/labels -> loss y'",
        "MatMulGradient: y' vd -> d'",
        "MatMulGradient: y' d -> vd'",
        "Update: vd vd' -> vd",
        "QuantizeLinearGradient: d' q/mask -> h'",
        "MatMulGradient: h' x -> w'",
        "Update: w w' -> w",
    ]
    sizes = {t.name: t.nbytes for t in graph.tensors}
    assert (sizes["q"], sizes["q/mask"], sizes["d/gradient"], sizes["h/gradient"]) == (12, 12, 48, 48)


def test_gradients_of_integers_have_the_size_of_the_numbers(tmp_path: Path) -> None:
    twice = [
        node("DequantizeLinear", "q s z", "e"),
        node("Neg", "e", "n"),
        node("Identity", "q", "t"),
        node("DequantizeLinear", "q s z", "f"),
        node("Mul", "f n", "both"),
    ]
    path = quantized(tmp_path, *twice, last="both")
    graph = load_onnx(path, train=True)
    (total,) = (t for t in graph.tensors if t.name == "q/gradient_sum")
    assert total.nbytes == 48


def test_other_operators_of_integers_have_no_derivative(tmp_path: Path) -> None:
    turned = [node("Transpose", "q", "r", perm=[1, 0]), node("Transpose", "r", "t", perm=[1, 0])]
    with pytest.raises(InstanceError, match="found operator Transpose, whose derivative is not known"):
        load_onnx(quantized(tmp_path, *turned), train=True)


def test_operators_that_compute_with_integers_name_the_next_step(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "h"),
        node("DynamicQuantizeLinear", "h", "q s z"),
        node("Cast", "q", "y", to=1),
    ]
    path = save_model(tmp_path, nodes, [value("x", (2, 8))], [value("y", None)], [weight("w", 8, 6)])
    with pytest.raises(InstanceError, match=r"DynamicQuantizeLinear.*take the model that was quantized"):
        load_onnx(path, train=True)


def test_a_transformer_block_can_be_trained(tmp_path: Path) -> None:
    graph = load_onnx(transformer_block(tmp_path), batch=2, dims={"length": 10}, train=True)
    kinds = Counter(op.kind for op in graph.ops)
    assert kinds["Update"] == 11  # six matrices, two norms, and the expanded mask
    assert kinds["SumGradients"] == 3  # of up, of r1, and of n1 (queries, keys and values)
    assert kinds["LayerNormalizationGradient"] == 2
    assert sequential_memory(graph).peak(range(len(graph.ops))) > 0


def test_unknown_derivatives_are_named(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "h"), node("Det", "h", "y")]
    path = save_model(tmp_path, nodes, [value("x", (8, 8))], [value("y", ())], [weight("w", 8, 8)])
    with pytest.raises(InstanceError, match=r"operator Det, .* one of Abs, .*, Where; export the model"):
        load_onnx(path, train=True)
    nodes = [node("Det", "x", "h"), node("Mul", "h w", "y")]
    path = save_model(tmp_path, nodes, [value("x", (8, 8))], [value("y", (1,))], [weight("w", 1)])
    assert len(load_onnx(path, train=True).ops) == 5  # Det needs no gradient here


def test_a_network_without_weights_cannot_be_trained(tmp_path: Path) -> None:
    path = save_model(tmp_path, [node("Relu", "x", "y")], [value("x", (1,))], [value("y", (1,))])
    with pytest.raises(InstanceError, match="found no output that depends on a trained weight"):
        load_onnx(path, train=True)
