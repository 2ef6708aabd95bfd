"""Sizes of ONNX element types, in bits: 4-, 6- and 2-bit types are packed, as ONNX stores them."""

from __future__ import annotations

from math import prod

from ...models.errors import InstanceError

BITS = {
    "BOOL": 8,
    "UINT2": 2,
    "INT2": 2,
    "UINT4": 4,
    "INT4": 4,
    "FLOAT4E2M1": 4,
    "FLOAT6E2M3": 6,
    "FLOAT6E3M2": 6,
    "UINT8": 8,
    "INT8": 8,
    "FLOAT8E4M3FN": 8,
    "FLOAT8E4M3FNUZ": 8,
    "FLOAT8E5M2": 8,
    "FLOAT8E5M2FNUZ": 8,
    "FLOAT8E8M0": 8,
    "UINT16": 16,
    "INT16": 16,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "UINT32": 32,
    "INT32": 32,
    "FLOAT": 32,
    "UINT64": 64,
    "INT64": 64,
    "DOUBLE": 64,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
}
"""Name in ``onnx.TensorProto.DataType`` -> bits of one element (a bool takes a whole byte)."""

TRAINABLE = frozenset({"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"})
"""The element types that gradients exist for."""

STORED = {
    "fp32": "FLOAT",
    "tf32": "FLOAT",
    "bf16": "BFLOAT16",
    "fp16": "FLOAT16",
    "fp8": "FLOAT8E4M3FN",
    "int8": "INT8",
}
"""Data type of arithmetic -> the element type that its values are stored as."""


def type_name(code: int, where: str) -> str:
    """Return the name of the element type with this number in ``onnx.TensorProto.DataType``.

    Raises
    ------
    InstanceError
        If the installed onnx does not know the number, or elements of the type have no fixed size.
    """
    from onnx import TensorProto

    try:
        name = str(TensorProto.DataType.Name(code))
    except ValueError:
        name = f"number {code}"
    if name not in BITS:
        raise InstanceError(
            f"{where}: found element type {name}, expected a type of fixed size (numbers or bool); "
            "export the model without it"
        )
    return name


def size_in_bytes(shape: tuple[int, ...], element_type: str) -> int:
    """Return the bytes of a dense tensor; packed types are rounded up to a whole byte.

    Examples
    --------
    >>> size_in_bytes((3, 5), "FLOAT"), size_in_bytes((3, 5), "INT4"), size_in_bytes((), "BOOL")
    (60, 8, 1)
    """
    return -(-prod(shape) * BITS[element_type] // 8)
