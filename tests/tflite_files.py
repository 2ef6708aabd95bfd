"""TensorFlow Lite models written by hand, in an order of parts that TensorFlow's writer does not use."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

Value = Any
"""A field: ``("b", 3)`` a number of a kind of `struct`, text, bytes, a list of int32 or of tables."""

RELU, MAXIMUM, LOGISTIC = 19, 55, 14
"""Operators without options."""


class Repeated(NamedTuple):
    """A list that names one table so many times, as no honest writer does."""

    times: int
    table: Mapping[int, Value]


def encode(root: Mapping[int, Value], identifier: bytes = b"TFL3") -> bytes:
    """Return the flatbuffer of a table, field number by value; parts follow what names them."""
    out = bytearray(8)
    out[4:8] = identifier
    _link(out, 0, _table(out, root))
    return bytes(out)


def _align(out: bytearray, to: int, ahead: int = 0) -> None:
    while (len(out) + ahead) % to:
        out.append(0)


def _link(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


def _table(out: bytearray, fields: Mapping[int, Value]) -> int:
    places, inline, children = [0] * (max(fields, default=-1) + 1), bytearray(4), []
    for k, value in sorted(fields.items(), key=lambda item: -_width(item[1])):
        while (len(inline) + 4) % max(_width(value), 1):  # tables stand at 4 modulo 8
            inline.append(0)
        places[k] = len(inline)
        if _is_number(value):
            inline += struct.pack(f"<{value[0]}", value[1])
        else:
            children.append((len(inline), value))
            inline += bytes(4)
    _align(out, 8, 4 + 2 * len(places) + 4)
    vtable = len(out)
    out += struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), len(inline), *places)
    table = len(out)
    struct.pack_into("<i", inline, 0, table - vtable)
    out += inline
    for at, value in children:
        _link(out, table + at, _vector(out, value))
    return table


def _width(value: Value) -> int:
    return struct.calcsize(value[0]) if _is_number(value) else 4


def _is_number(value: Value) -> bool:
    return isinstance(value, tuple) and not isinstance(value, Repeated)


def _vector(out: bytearray, value: Value) -> int:
    if isinstance(value, Mapping):
        return _table(out, value)
    if isinstance(value, str | bytes):
        content = value.encode() if isinstance(value, str) else value
        _align(out, 16, 4)
        at = len(out)
        out += struct.pack("<I", len(content)) + content + b"\0"
        return at
    _align(out, 4)
    at = len(out)
    if isinstance(value, Repeated):
        out += struct.pack("<I", value.times) + bytes(4 * value.times)
        target = _table(out, value.table)
        for k in range(value.times):
            _link(out, at + 4 + 4 * k, target)
        return at
    out += struct.pack("<I", len(value)) + bytes(4 * len(value))
    for k, item in enumerate(value):
        place = at + 4 + 4 * k
        if isinstance(item, int):
            struct.pack_into("<i", out, place, item)
        else:
            _link(out, place, _table(out, item))
    return at


def tensor(
    name: str, *shape: int, kind: int = 0, buffer: int = 0, variable: bool = False
) -> dict[int, Value]:
    fields: dict[int, Value] = {0: list(shape), 1: ("b", kind), 2: ("I", buffer), 3: name}
    return {**fields, 5: ("b", 1)} if variable else fields


def operator(code: int, inputs: Sequence[int], outputs: Sequence[int]) -> dict[int, Value]:
    return {0: ("I", code), 1: list(inputs), 2: list(outputs)}


def model(
    tensors: Sequence[Mapping[int, Value]] | Repeated,
    operators: Sequence[Mapping[int, Value]],
    inputs: Sequence[int],
    outputs: Sequence[int],
    **more: Any,
) -> dict[int, Value]:
    """Return the table Model: codes `RELU`, `MAXIMUM`, `LOGISTIC` and an own one, buffers of 0 and 8."""
    codes: list[dict[int, Value]] = [{0: ("b", c), 3: ("i", c)} for c in (RELU, MAXIMUM, LOGISTIC)]
    subgraph = {0: tensors, 1: [*inputs], 2: [*outputs], 3: [*operators], 4: "main"}
    found = {
        0: ("I", 3),
        1: [*codes, {1: "own"}],
        2: [subgraph],
        3: "by hand",
        4: [{}, {0: struct.pack("<2f", 1.5, -2)}],
        6: [{0: "note", 1: ("I", 0)}],
    }
    return {**found, **{int(key[1:]): value for key, value in more.items()}}


def random_model(rng: Random) -> dict[int, Value]:
    """Return a model of `RELU`, `LOGISTIC` and `MAXIMUM` of rows of two floats, some with a constant."""
    tensors, operators, values = [tensor("x", 2), tensor("constant", 2, buffer=1)], [], [0]
    for k in range(rng.randint(3, 12)):
        inputs = [rng.choice(values), rng.choice([*values, 1])]
        code = rng.randrange(3)
        operators.append(operator(code, inputs if code == 1 else inputs[:1], [len(tensors)]))
        values.append(len(tensors))
        tensors.append(tensor(f"t{k}", 2))
    read = {t for op in operators for t in op[1]}
    return model(tensors, operators, [0], [t for t in values if t not in read])
