"""The wire format of protocol buffers: the fields of a message, every length checked against the bytes.

(Text: the encoding as protobuf.dev documents it. Groups, which no schema of today has, are refused.)
"""

from __future__ import annotations

from collections.abc import Iterator

from ...models.errors import InstanceError

Value = int | bytes
"""Of fields of numbers an integer without its sign, of others the bytes."""

_NUMBERS = {1: 8, 5: 4}
"""Bytes of the numbers of fixed width, by their wire type."""


def varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Return the number of variable length at a place below 2**64, and the place behind it.

    Raises
    ------
    InstanceError
        If the bytes end before it, or it is longer.
    """
    value = 0
    for k in range(10):
        if at + k >= len(data):
            break
        value |= (data[at + k] & 0x7F) << 7 * k
        if data[at + k] < 0x80:
            if value >= 2**64:
                break
            return value, at + k + 1
    raise InstanceError(
        f"{where}: found no end of the number at byte {at} of {len(data)}, expected 1 to 10 bytes"
    )


def chunk(data: bytes, at: int, where: str) -> tuple[bytes, int]:
    """Return the bytes behind their length at a place, and the place behind them.

    Raises
    ------
    InstanceError
        If there are fewer.
    """
    size, start = varint(data, at, where)
    if size > len(data) - start:
        raise InstanceError(f"{where}: found {len(data) - start} bytes, expected the {size} of byte {at}")
    return data[start : start + size], start + size


def fields(data: bytes, where: str) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field of a message.

    Raises
    ------
    InstanceError
        If the bytes are no message.
    """
    at = 0
    while at < len(data):
        key, at = varint(data, at, where)
        number, wire = key >> 3, key & 7
        value: Value
        if wire == 0:
            value, at = varint(data, at, where)
        elif wire == 2:
            value, at = chunk(data, at, where)
        elif wire in _NUMBERS and at + _NUMBERS[wire] <= len(data):
            value, at = int.from_bytes(data[at : at + _NUMBERS[wire]], "little"), at + _NUMBERS[wire]
        else:
            raise InstanceError(
                f"{where}: found field {number} of wire type {wire}, expected a message of proto3"
            )
        yield number, value
