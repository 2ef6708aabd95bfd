"""Work of an op, for the roofline model of durations: the bytes that it moves and its multiply-adds.

Multiply-adds of matrix products, convolutions and fused attention, forward and backward, come from the
formulas of ``torch.utils.flop_counter``, which count two operations for each. Every other op does one per
element of its largest operand or result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .storages import kind_of, operands, tensors_of

_COUNTED_AS = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "_scaled_dot_product_flash_attention_backward",
}
"""Operators without a formula of their own -> those with the same arithmetic and leading arguments."""


_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
    "uint8": "int8",
}
"""Data types of torch -> those of arithmetic; all others count as fp32."""


def dtype_of(node: Any) -> str:
    """Return the data type of an op's arithmetic: that of its first result."""
    names = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors_of(node)]
    return _DTYPES.get(names[0], "fp32") if names else "fp32"


def bytes_moved(sources: Iterable[Any], node: Any) -> int:
    """Return the bytes that an op reads from its operands and writes: what each view shows, once."""
    return sum(bytes_shown(tensor) for x in (*sources, node) for tensor in tensors_of(x))


def bytes_shown(tensor: Any) -> int:
    """Return the bytes of a storage that a view shows; those that an expansion repeats count once."""
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))


def multiply_adds(node: Any) -> int:
    """Return the multiply-adds of an op."""
    import torch
    from torch.fx.node import map_arg
    from torch.utils.flop_counter import flop_registry

    kind = kind_of(node)
    packet = getattr(torch.ops.aten, _COUNTED_AS[kind]) if kind in _COUNTED_AS else node.target.overloadpacket
    formula = flop_registry.get(packet)
    if formula is None:
        return max((tensor.numel() for x in (*operands(node), node) for tensor in tensors_of(x)), default=0)
    arguments = map_arg(node.args, lambda x: x.meta["val"])
    options = map_arg(node.kwargs, lambda x: x.meta["val"])
    return int(formula(*arguments, **options, out_val=node.meta["val"])) // 2
