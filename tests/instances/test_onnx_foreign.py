"""Operators of ONNX Runtime and of ``ai.onnx.ml``: the shapes that they make, and their arithmetic."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from lowtide.instances.onnx_import import load_onnx
from lowtide.instances.onnx_import.foreign import FOREIGN, Foreign, made_by
from lowtide.instances.onnx_import.shapes import KnownValue
from lowtide.models.errors import InstanceError
from tests.effort import seeds
from tests.onnx_models import integers, node, require_onnx, save_model, value, weight

pytest.importorskip("onnx", reason="the package onnx is not installed")

F, I8, U8, I32, I64 = "FLOAT", "INT8", "UINT8", "INT32", "INT64"
IMAGE, SEQUENCE = (2, 3, 8, 9), (2, 5, 12)

# operator: operands (shape, or shape and type; None: absent), attributes, outputs, multiply-adds
CASES: dict[str, tuple[list[Any], dict[str, Any], list[Any], int]] = {
    "BiasGelu": ([SEQUENCE, (12,)], {}, [SEQUENCE], 120),
    "FastGelu": ([SEQUENCE], {}, [SEQUENCE], 120),
    "BiasSplitGelu": ([(2, 5, 12), (12,)], {}, [(2, 5, 6)], 120),
    "SkipGroupNorm": ([IMAGE, (3,), (3,), IMAGE], {}, [IMAGE, IMAGE], 432),
    "QuickGelu": ([((4, 6), "FLOAT16")], {}, [((4, 6), "FLOAT16")], 24),
    "QLinearAdd": (
        [((4, 1), U8), (), ((), U8), ((6,), U8), (), ((), U8), (), ((), U8)],
        {},
        [((4, 6), U8)],
        24,
    ),
    "QLinearWhere": (
        [((4, 6), "BOOL"), ((6,), U8), (), ((), U8), ((1,), U8), (), ((), U8), (), ((), U8)],
        {},
        [((4, 6), U8)],
        24,
    ),
    "QLinearConcat": (
        [(), ((), U8), ((2, 3), U8), (), ((), U8), ((2, 5), U8), (), ((), U8)],
        {"axis": 1},
        [((2, 8), U8)],
        16,
    ),
    "QLinearAveragePool": (
        [(IMAGE, U8), (), ((), U8), (), ((), U8)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        [((2, 3, 4, 4), U8)],
        2 * 3 * 16 * 9,
    ),
    "QLinearGlobalAveragePool": (
        [((2, 8, 9, 3), U8), (), ((), U8), (), ((), U8)],
        {"channels_last": 1},
        [((2, 1, 1, 3), U8)],
        432,
    ),
    "QLinearReduceMean": (
        [(IMAGE, U8), (), ((), U8), (), ((), U8)],
        {"axes": [-1, 1], "keepdims": 0},
        [((2, 8), U8)],
        432,
    ),
    "QLinearConv": (
        [(IMAGE, U8), (), ((), U8), ((4, 3, 3, 3), I8), (), ((), I8), (), ((), U8)],
        {"pads": [1, 1, 1, 1]},
        [((2, 4, 8, 9), U8)],
        2 * 4 * 72 * 27,
    ),
    "QGemm": ([((4, 6), U8), (), ((), U8), ((7, 6), I8), (), ((), I8)], {"transB": 1}, [(4, 7)], 4 * 7 * 6),
    "FusedConv": (
        [IMAGE, (4, 3, 3, 3), (4,)],
        {"strides": [2, 2], "auto_pad": "SAME_UPPER", "activation": "Relu"},
        [(2, 4, 4, 5)],
        2 * 4 * 20 * 27,
    ),
    "NhwcFusedConv": ([(2, 8, 9, 3), (4, 3, 3, 3)], {}, [(2, 6, 7, 4)], 2 * 4 * 42 * 27),
    "FusedMatMul": ([(7, 6, 4), (7, 5, 6)], {"transA": 1, "transB": 1}, [(7, 4, 5)], 7 * 4 * 5 * 6),
    "FusedGemm": ([(6, 4), (6, 5)], {"transA": 1}, [(4, 5)], 4 * 5 * 6),
    "MatMulNBits": ([SEQUENCE, ((7, 1, 8), U8), (7,)], {"K": 12, "N": 7}, [(2, 5, 7)], 2 * 5 * 7 * 12),
    "MatMulIntegerToFloat": ([((4, 6), U8), ((6, 5), I8), ()], {}, [(4, 5)], 120),
    "DynamicQuantizeMatMul": ([(4, 6), ((6, 5), I8), ()], {}, [(4, 5)], 120),
    "DynamicQuantizeLSTM": (
        [(5, 2, 3), ((2, 3, 16), I8), ((2, 4, 16), I8)],
        {"hidden_size": 4, "direction": "bidirectional"},
        [(5, 2, 2, 4), (2, 2, 4), (2, 2, 4)],
        2 * 5 * 2 * 16 * (3 + 4),
    ),
    "SkipLayerNormalization": (
        [SEQUENCE, SEQUENCE, (12,)],
        {},
        [SEQUENCE, (2, 5, 1), (2, 5, 1), SEQUENCE],
        120,
    ),
    "EmbedLayerNormalization": (
        [((2, 5), I32), None, (30, 12), (9, 12), None, (12,), (12,)],
        {},
        [SEQUENCE, ((2,), I32), SEQUENCE],
        360,
    ),
    "Attention": (
        [SEQUENCE, (12, 36), (36,), None, (2, 2, 3, 4, 4)],
        {"num_heads": 3},
        [SEQUENCE, (2, 2, 3, 9, 4)],
        2 * 5 * (12 * 36 + 2 * 9 * 12),
    ),
    "QAttention": (
        [(SEQUENCE, U8), ((12, 36), I8), (36,), (), ()],
        {"num_heads": 3},
        [SEQUENCE],
        2 * 5 * (12 * 36 + 2 * 5 * 12),
    ),
    "MultiHeadAttention": (
        [SEQUENCE, (2, 7, 12), (2, 7, 24), None, None, None, (2, 3, 4, 4), (2, 3, 4, 8)],
        {"num_heads": 3},
        [(2, 5, 24), (2, 3, 11, 4), (2, 3, 11, 8)],
        2 * 5 * 2 * 11 * 24,
    ),
    "GroupQueryAttention": (
        [(2, 1, 12), (2, 1, 4), (2, 1, 4), (2, 1, 8, 4), (2, 1, 8, 4), ((2,), I32), ((), I32)],
        {"num_heads": 3, "kv_num_heads": 1},
        [(2, 1, 12), (2, 1, 9, 4), (2, 1, 9, 4)],
        2 * 2 * 9 * 12,
    ),
    "RotaryEmbedding": ([SEQUENCE, ((2, 5), I64), (9, 2), (9, 2)], {}, [SEQUENCE], 120),
    "GatherBlockQuantized": ([((9, 8), U8), ((2, 5), I64), (9, 1)], {"bits": 4}, [(2, 5, 16)], 160),
    "NGramRepeatBlock": ([((2, 5), I64), (2, 30)], {"ngram_size": 2}, [(2, 30)], 60),
    "QuantizeLinear": ([(4, 6), (), ((), I8)], {}, [((4, 6), I8)], 24),
    "DequantizeLinear": ([((4, 6), I8), (), ((), I8)], {}, [(4, 6)], 24),
    "ai.onnx.ml.Scaler": ([((4, 6), I64)], {"scale": [1.0], "offset": [0.0]}, [(4, 6)], 24),
    "ai.onnx.ml.TreeEnsembleClassifier": (
        [(4, 6)],
        {"classlabels_int64s": [0, 1, 2]},
        [((4,), I64), (4, 3)],
        24,
    ),
    "ai.onnx.ml.SVMRegressor": ([(4, 6)], {}, [(4, 1)], 24),
    "ai.onnx.ml.LinearRegressor": ([(4, 6)], {"targets": 2}, [(4, 2)], 24),
    "ai.onnx.ml.FeatureVectorizer": ([(4, 6), (4, 3)], {"inputdimensions": [6, 3]}, [(4, 9)], 36),
}


def pair(operand: Any) -> tuple[tuple[int, ...], str]:
    """Return shape and type of an operand of a case."""
    typed = len(operand) == 2 and isinstance(operand[1], str)
    return operand if typed else (operand, F)


def path_of(folder: Path, kind: str, operands: list[Any], attributes: dict[str, Any], count: int) -> Path:
    domain, _, op_type = ("com.microsoft." + kind if "." not in kind else kind).rpartition(".")
    given = {f"x{k}": pair(x) for k, x in enumerate(operands) if x is not None}
    names = [f"x{k}" if x is not None else "-" for k, x in enumerate(operands)]
    outputs = [f"y{k}" for k in range(count)]
    made = node(op_type, " ".join(names), " ".join(outputs), domain=domain, name="it", **attributes)
    # what follows needs the shapes
    behind = [node("Neg", name, f"n{name}") for name in outputs]
    declared = [value(name, shape, element) for name, (shape, element) in given.items()]
    returned = [value(f"n{name}", None) for name in outputs]
    return save_model(folder, [made, *behind], declared, returned, domains=(domain,))


@pytest.mark.parametrize("kind", sorted(CASES))
def test_an_operator_that_onnx_does_not_know(tmp_path: Path, kind: str) -> None:
    operands, attributes, outputs, work = CASES[kind]
    graph = load_onnx(path_of(tmp_path, kind, operands, attributes, len(outputs)))
    helper, onnx = require_onnx(), pytest.importorskip("onnx")
    sizes = {t.name: t.nbytes for t in graph.tensors}
    for k, (shape, element) in enumerate(map(pair, outputs)):
        array = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(element))
        expected = array.itemsize
        for size in shape:
            expected *= size
        assert sizes[f"y{k}"] == expected, (k, shape)
    assert next(op for op in graph.ops if op.name == "it").work[0].multiply_adds == work


def test_each_rule_has_a_case() -> None:
    names = {kind if "." in kind else "com.microsoft." + kind for kind in CASES}
    shared = {FOREIGN[kind] for kind in names}
    assert {kind for kind, rule in FOREIGN.items() if rule not in shared} == set()


ATTRIBUTES = (
    *("axis", "axes", "strides", "dilations", "pads", "kernel_shape", "auto_pad", "ceil_mode", "num_heads"),
    *("kv_num_heads", "hidden_size", "qkv_hidden_sizes", "N", "K", "bits", "block_size", "group", "k"),
    *("channels_last", "transA", "transB", "keepdims", "direction", "perm"),
)
ANYTHING = (0, 1, 2, 8, -1, -5, (), (1, 1), (0, 0), (-1, 2), (2, 2, 2), b"SAME_UPPER", b"reverse", 1.5, "x")


@pytest.mark.parametrize("operator", sorted(FOREIGN))
def test_of_any_operands_a_rule_makes_sizes_or_nothing(operator: str) -> None:
    for seed in seeds(300):
        rng = Random(seed)
        inputs, contents = list[KnownValue | None](), list[Any]()
        for k in range(rng.randint(0, 10)):
            shape = tuple(rng.choice((0, 1, 2, 3, 4, 8)) for _ in range(rng.randint(0, 5)))
            inputs.append(
                KnownValue(f"x{k}", shape, rng.choice((F, U8, I64))) if rng.random() < 0.9 else None
            )
            contents.append(np.array(rng.choice(([1], [0, 2], [-1]))) if rng.random() < 0.5 else None)
        attributes = {name: rng.choice(ANYTHING) for name in ATTRIBUTES if rng.random() < 0.3}
        for output in made_by(operator, Foreign(inputs, attributes, contents)):
            assert output is None or (min(output[0], default=0) >= 0 and isinstance(output[1], str))


def test_a_layout_without_a_rule_asks_for_the_shape(tmp_path: Path) -> None:
    path = path_of(tmp_path, "MultiHeadAttention", [SEQUENCE], {"num_heads": 3}, 1)
    with pytest.raises(InstanceError, match=r"output of com.microsoft.MultiHeadAttention 'it': .*shape.y0="):
        load_onnx(path)
    assert load_onnx(path, shapes={"y0": (2, 5, 12)}).tensors[-1].nbytes == 480


def test_an_optimized_encoder_keeps_the_bytes_of_the_plain_one(tmp_path: Path) -> None:
    """Two blocks as ONNX Runtime writes them: fused attention, normalization and activation."""
    nodes, weights = [], [weight("scale", 16), weight("zero", 16)]
    for k in range(2):
        nodes += [
            node("Attention", f"h{k} qkv{k} bias{k}", f"a{k}", domain="com.microsoft", num_heads=4),
            node("SkipLayerNormalization", f"h{k} a{k} scale zero", f"s{k}", domain="com.microsoft"),
            node("MatMul", f"s{k} up{k}", f"u{k}"),
            node("FastGelu", f"u{k}", f"g{k}", domain="com.microsoft"),
            node("MatMulNBits", f"g{k} down{k} scales", f"d{k}", domain="com.microsoft", K=64, N=16),
            node("SkipLayerNormalization", f"s{k} d{k} scale zero", f"h{k + 1}", domain="com.microsoft"),
        ]
        weights += [weight(f"qkv{k}", 16, 48), weight(f"bias{k}", 48), weight(f"up{k}", 16, 64)]
        weights += [integers(f"down{k}", *range(16))]
    weights += [weight("scales", 16)]
    path = save_model(
        tmp_path,
        nodes,
        [value("h0", ("batch", "length", 16))],
        [value("h2", ("batch", "length", 16))],
        weights,
        domains=("com.microsoft",),
    )
    graph = load_onnx(path, batch=2, dims={"length": 10})
    sizes = [t.nbytes for t in graph.tensors if t.kind in ("activation", "output")]
    assert sizes == [1280, 1280, 5120, 5120, 1280, 1280] * 2
    assert [op.inplace != () for op in graph.ops] == [False, False, False, True, False, False] * 2
