"""Shapes that the operators of ONNX Runtime (``com.microsoft``) and of ``ai.onnx.ml`` make.

ONNX's shape inference does not know the first and only some of the second. The rules are those of the page
"Contrib operators" of ONNX Runtime and of ONNX's own page of ``ai.onnx.ml``, from memory. Most of them were
compared with runs of ONNX Runtime, but not those of MultiHeadAttention, GroupQueryAttention and
DynamicQuantizeLSTM. An operator or a layout without a rule stays unknown, unless the model states the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .shapes import KnownValue

Made = tuple[tuple[int, ...], str]
"""Shape and element type of an output."""

MICROSOFT = "com.microsoft."
"""What stands in front of the operators of ONNX Runtime."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A node: its inputs (None: absent), its attributes, and the contents of small constants by input."""

    inputs: list[KnownValue | None]
    attributes: Mapping[str, Any]
    contents: list[Any]

    def shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of an input; IndexError if it is absent."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise IndexError
        return value.shape

    def has(self, position: int) -> bool:
        """Return whether an input is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def kind(self, position: int = 0) -> str:
        """Return the element type of an input, FLOAT if it is absent."""
        value = self.inputs[position] if position < len(self.inputs) else None
        return "FLOAT" if value is None else value.element_type

    def number(self, name: str, default: int = 0) -> int:
        """Return an attribute; ValueError if it is no integer."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise ValueError
        return value

    def numbers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an attribute; ValueError if it is no list of integers."""
        values = self.attributes.get(name, default)
        if not isinstance(values, tuple | list) or not all(isinstance(x, int) for x in values):
            raise ValueError
        return tuple(values)


def made_by(operator: str, node: Foreign) -> list[Made | None]:
    """Return shape and type of the outputs of a node; None, or nothing, for those without a rule."""
    try:
        made = FOREIGN[operator](node)
    except (IndexError, ValueError, ZeroDivisionError):  # operands that the operator does not take
        return []
    negative = any(size < 0 for output in made if output is not None for size in output[0])
    return [] if negative else made


def _same(node: Foreign) -> list[Made | None]:
    return [(node.shape(0), node.kind())]


def _floats(node: Foreign) -> list[Made | None]:
    return [(node.shape(0), "FLOAT")]


def _quantized_pair(node: Foreign) -> list[Made | None]:
    return [(np.broadcast_shapes(node.shape(0), node.shape(3)), node.kind())]


def _quantized_where(node: Foreign) -> list[Made | None]:
    return [(np.broadcast_shapes(node.shape(0), node.shape(1), node.shape(4)), node.kind(1))]


def _quantized_concat(node: Foreign) -> list[Made | None]:
    shapes = [node.shape(k) for k in range(2, len(node.inputs), 3)]
    axis = node.number("axis") % len(shapes[0])
    joined = sum(shape[axis] for shape in shapes)
    return [((*shapes[0][:axis], joined, *shapes[0][axis + 1 :]), node.kind(2))]


def _windows(node: Foreign, image: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Return the spatial sizes behind a window that moves over an image."""
    rank = len(image)
    strides = node.numbers("strides", (1,) * rank)
    dilations = node.numbers("dilations", (1,) * rank)
    pads = node.numbers("pads", (0,) * 2 * rank)
    how = node.attributes.get("auto_pad", b"NOTSET")
    if how in (b"SAME_UPPER", b"SAME_LOWER", "SAME_UPPER", "SAME_LOWER"):
        return tuple(-(-size // step) for size, step in zip(image, strides, strict=True))
    up = node.number("ceil_mode")
    return tuple(
        (size + pads[k] + pads[k + rank] - (dilations[k] * (kernel[k] - 1) + 1) + up * (strides[k] - 1))
        // strides[k]
        + 1
        for k, size in enumerate(image)
    )


def _convolution(weights: int, *, last: bool) -> Callable[[Foreign], list[Made | None]]:
    """Return the rule of a convolution with its weights at an input; channels come last, or may."""

    def rule(node: Foreign) -> list[Made | None]:
        data, kernel = node.shape(0), node.shape(weights)
        behind = last or bool(node.number("channels_last"))
        image = data[1:-1] if behind else data[2:]
        found = _windows(node, image, node.numbers("kernel_shape", kernel[2:]))
        shape = (data[0], *found, kernel[0]) if behind else (data[0], kernel[0], *found)
        return [(shape, node.kind())]

    return rule


def _quantized_pool(node: Foreign) -> list[Made | None]:
    data = node.shape(0)
    behind = bool(node.number("channels_last"))
    found = _windows(node, data[1:-1] if behind else data[2:], node.numbers("kernel_shape"))
    return [((data[0], *found, data[-1]) if behind else (*data[:2], *found), node.kind())]


def _quantized_global_pool(node: Foreign) -> list[Made | None]:
    data = node.shape(0)
    ones = (1,) * (len(data) - 2)
    return [((data[0], *ones, data[-1]) if node.number("channels_last") else (*data[:2], *ones), node.kind())]


def _quantized_mean(node: Foreign) -> list[Made | None]:
    data = node.shape(0)
    axes = {axis % len(data) for axis in node.numbers("axes", tuple(range(len(data))))}
    kept = [(1 if axis in axes else size) for axis, size in enumerate(data)]
    if not node.number("keepdims", 1):
        kept = [size for axis, size in enumerate(data) if axis not in axes]
    return [(tuple(kept), node.kind())]


def _product(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a matrix product, as numpy's ``matmul``."""
    if len(one) == 1 or len(other) == 1:
        return (*one[:-1], *other[:-2], *other[-1:])[: len(one) + len(other) - 2]
    return (*np.broadcast_shapes(one[:-2], other[:-2]), one[-2], other[-1])


def _flipped(shape: tuple[int, ...], flip: int) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if flip and len(shape) > 1 else shape


def _fused_product(node: Foreign) -> list[Made | None]:
    if node.number("transBatchA") or node.number("transBatchB"):
        return [None]
    one = _flipped(node.shape(0), node.number("transA"))
    return [(_product(one, _flipped(node.shape(1), node.number("transB"))), node.kind())]


def _product_in_floats(node: Foreign) -> list[Made | None]:
    return [(_product(node.shape(0), node.shape(1)), node.kind(2))]


def _dynamic_product(node: Foreign) -> list[Made | None]:
    return [(_product(node.shape(0), node.shape(1)), node.kind())]


def _packed_product(node: Foreign) -> list[Made | None]:
    return [((*node.shape(0)[:-1], node.number("N")), node.kind())]


def _gemm(node: Foreign, other: int, kind: str) -> list[Made | None]:
    one = _flipped(node.shape(0), node.number("transA"))
    return [((one[0], _flipped(node.shape(other), node.number("transB"))[1]), kind)]


def _recurrent(node: Foreign) -> list[Made | None]:
    sequence, batch, _ = node.shape(0)
    hidden = node.number("hidden_size") or node.shape(2)[1]
    ways = 2 if node.attributes.get("direction") in (b"bidirectional", "bidirectional") else 1
    last = ((ways, batch, hidden), node.kind())
    return [((sequence, ways, batch, hidden), node.kind()), last, last]


def _skip_normalization(node: Foreign) -> list[Made | None]:
    made = (node.shape(0), node.kind())
    rows = ((*node.shape(0)[:-1], 1), "FLOAT")
    return [made, rows, rows, made]


def _embedding(words: int) -> Callable[[Foreign], list[Made | None]]:
    def rule(node: Foreign) -> list[Made | None]:
        batch, sequence = node.shape(0)
        kind = "FLOAT" if words == 2 and node.kind(words) in ("INT8", "UINT8") else node.kind(words)
        made = ((batch, sequence, node.shape(words)[1]), kind)
        return [made, ((batch,), "INT32"), made]

    return rule


def _attention(past: int, kind: int) -> Callable[[Foreign], list[Made | None]]:
    """Return the rule of attention that projects its own queries, keys and values."""

    def rule(node: Foreign) -> list[Made | None]:
        batch, sequence, _ = node.shape(0)
        sizes = node.numbers("qkv_hidden_sizes") or (node.shape(1)[1] // 3,) * 3
        heads = node.number("num_heads")
        before = node.shape(past)[3] if node.has(past) else 0
        if node.number("past_present_share_buffer"):
            before -= sequence
        present = (2, batch, heads, before + sequence, sizes[1] // heads)
        return [((batch, sequence, sizes[2]), node.kind(kind)), (present, node.kind(kind))]

    return rule


def _heads(node: Foreign) -> list[Made | None]:
    """MultiHeadAttention: queries may come packed with keys and values, keys packed with values."""
    query, heads, kind = node.shape(0), node.number("num_heads"), node.kind()
    batch, sequence = query[:2]
    key, value = node.inputs[1:3] + [None] * (3 - len(node.inputs[:3]))
    width, size = query[-1], query[-1] // heads
    if len(query) == 5:
        size, width, length = query[4], heads * query[4], sequence
    elif key is None:
        return [None]
    elif value is None:  # (batch, length, heads, 2, size)
        size, width, length = key.shape[4], heads * key.shape[4], key.shape[1]
    elif len(value.shape) == 4:  # (batch, heads, length, size)
        width, length = heads * value.shape[3], value.shape[2]
    else:
        width, length = value.shape[2], value.shape[1]
    past = node.shape(6)[2] if node.has(6) else 0
    keys = (batch, heads, past + length, size)
    values = (batch, heads, past + length, width // heads)
    scores = (batch, heads, sequence, past + length)
    return [((batch, sequence, width), kind), (keys, kind), (values, kind), (scores, kind)]


def _grouped_heads(node: Foreign) -> list[Made | None]:
    """GroupQueryAttention; its caches keep the length that they have, or grow by the new tokens."""
    batch, sequence, width = node.shape(0)
    heads, groups = node.number("num_heads"), node.number("kv_num_heads")
    packed = not node.has(1)
    size = width // (heads + 2 * groups) if packed else width // heads
    kind = node.kind()
    total = node.contents[6] if len(node.contents) > 6 else None
    past = node.shape(3)[2] if node.has(3) else 0
    if total is not None and total.size == 1:
        length = max(past, int(total.reshape(-1)[0]))
    else:
        length = past + sequence
    cache = ((batch, groups, length, size), node.kind(3) if node.has(3) else kind)
    return [((batch, sequence, heads * size), kind), cache, cache]


def _gathered_blocks(node: Foreign) -> list[Made | None]:
    data, indices = list(node.shape(0)), node.shape(1)
    axis = node.number("gather_axis") % len(data)
    bits = node.number("bits", 4)
    if node.kind() == "UINT8" and bits == 4:
        data[-1] *= 2
    return [((*data[:axis], *indices, *data[axis + 1 :]), node.kind(2))]


def _bias_split(node: Foreign) -> list[Made | None]:
    *rows, width = node.shape(0)
    return [((*rows, width // 2), node.kind())]


def _quantized(node: Foreign) -> list[Made | None]:
    return [(node.shape(0), node.kind(2) if node.has(2) else "UINT8")]


def _classes(node: Foreign) -> int:
    labels = node.attributes.get("classlabels_int64s", node.attributes.get("classlabels_ints"))
    return len(labels if labels is not None else node.attributes.get("classlabels_strings", ()))


def _classifier(node: Foreign) -> list[Made | None]:
    rows = node.shape(0)[0] if len(node.shape(0)) > 1 else 1
    label = None if node.attributes.get("classlabels_strings") else ((rows,), "INT64")
    return [label, ((rows, _classes(node)), "FLOAT")]


def _regressor(name: str) -> Callable[[Foreign], list[Made | None]]:
    def rule(node: Foreign) -> list[Made | None]:
        rows = node.shape(0)[0] if len(node.shape(0)) > 1 else 1
        return [((rows, node.number(name, 1)), "FLOAT")]

    return rule


def _features(node: Foreign) -> list[Made | None]:
    shapes = [node.shape(k) for k in range(len(node.inputs))]
    return [((shapes[0][0], sum(prod(shape[1:]) for shape in shapes)), "FLOAT")]


_CONV, _CONV_LAST = _convolution(1, last=False), _convolution(1, last=True)
_EMBEDDING, _TARGETS = _embedding(2), _regressor("n_targets")

FOREIGN: dict[str, Callable[[Foreign], list[Made | None]]] = {
    **dict.fromkeys(
        [
            *("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization"),
            *(
                MICROSOFT + name
                for name in (
                    *("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "GroupNorm", "Inverse", "MoE", "QMoE"),
                    *("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QuickGelu"),
                    *("QOrderedGelu", "RotaryEmbedding", "Trilu"),
                )
            ),
            "ai.onnx.ml.Binarizer",
            "ai.onnx.ml.Imputer",
        ],
        _same,
    ),
    "ai.onnx.ml.Normalizer": _floats,
    "ai.onnx.ml.Scaler": _floats,
    **{MICROSOFT + name: _quantized_pair for name in ("QLinearAdd", "QLinearMul")},
    "com.microsoft.Attention": _attention(4, 0),
    "com.microsoft.BiasSplitGelu": _bias_split,
    "com.microsoft.DequantizeLinear": lambda node: [(node.shape(0), node.kind(1))],
    "com.microsoft.DynamicQuantizeLSTM": _recurrent,
    "com.microsoft.DynamicQuantizeMatMul": _dynamic_product,
    "com.microsoft.EmbedLayerNormalization": _EMBEDDING,
    "com.microsoft.FusedConv": _CONV,
    "com.microsoft.FusedGemm": lambda node: _gemm(node, 1, node.kind()),
    "com.microsoft.FusedMatMul": _fused_product,
    "com.microsoft.FusedMatMulActivation": _fused_product,
    "com.microsoft.GatherBlockQuantized": _gathered_blocks,
    "com.microsoft.GroupQueryAttention": _grouped_heads,
    "com.microsoft.MatMulBnb4": _packed_product,
    "com.microsoft.MatMulFpQ4": _packed_product,
    "com.microsoft.MatMulIntegerToFloat": _product_in_floats,
    "com.microsoft.MatMulNBits": _packed_product,
    "com.microsoft.MultiHeadAttention": _heads,
    "com.microsoft.NGramRepeatBlock": lambda node: [(node.shape(1), node.kind(1))],
    "com.microsoft.NhwcConv": _CONV_LAST,
    "com.microsoft.NhwcFusedConv": _CONV_LAST,
    "com.microsoft.QAttention": _attention(8, 3),
    "com.microsoft.QEmbedLayerNormalization": _EMBEDDING,
    "com.microsoft.QGemm": lambda node: _gemm(node, 3, node.kind() if node.has(7) else node.kind(1)),
    "com.microsoft.QLinearAveragePool": _quantized_pool,
    "com.microsoft.QLinearConcat": _quantized_concat,
    "com.microsoft.QLinearConv": _convolution(3, last=False),
    "com.microsoft.QLinearGlobalAveragePool": _quantized_global_pool,
    "com.microsoft.QLinearReduceMean": _quantized_mean,
    "com.microsoft.QLinearWhere": _quantized_where,
    "com.microsoft.QuantizeLinear": _quantized,
    "com.microsoft.SkipGroupNorm": lambda node: _same(node) * 2,
    "com.microsoft.SkipLayerNormalization": _skip_normalization,
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_normalization,
    "com.microsoft.TransposeMatMul": _fused_product,
    "ai.onnx.ml.FeatureVectorizer": _features,
    "ai.onnx.ml.LinearClassifier": _classifier,
    "ai.onnx.ml.LinearRegressor": _regressor("targets"),
    "ai.onnx.ml.SVMClassifier": _classifier,
    "ai.onnx.ml.SVMRegressor": _TARGETS,
    "ai.onnx.ml.TreeEnsembleClassifier": _classifier,
    "ai.onnx.ml.TreeEnsembleRegressor": _TARGETS,
}
"""Operator -> rule."""
