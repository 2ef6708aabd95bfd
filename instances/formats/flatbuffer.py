"""Reading of flatbuffers: tables, vectors and texts of a file of bytes, every place checked against its end.

The encoding, as the FlatBuffers project documents it (text): all numbers are little-endian. A table begins
with the distance back to its vtable, which has the places of its fields, 0 for those that have their default.
Texts, vectors and tables within a table are at a distance ahead of the field that names them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ...models.errors import InstanceError

_READ = 4
"""Bytes of vectors and texts that may be read for each byte of a file: honest files share few of them."""


class FlatBuffer:
    """The bytes of a file.

    Parameters
    ----------
    content
        All of it; the root table is named in the first four bytes.
    where
        What messages call the file.
    """

    def __init__(self, content: bytes, where: str) -> None:
        self.content = content
        self.where = where
        self._left = _READ * len(content)

    def number(self, kind: str, at: int) -> int:
        """Return the integer at a place, of a kind of `struct`.

        Raises
        ------
        InstanceError
            If the file ends before it.
        """
        if not 0 <= at <= len(self.content) - struct.calcsize(f"<{kind}"):
            raise InstanceError(
                f"{self.where}: found a reference to byte {at} of {len(self.content)}, expected a whole file"
            )
        (value,) = struct.unpack_from(f"<{kind}", self.content, at)
        assert isinstance(value, int)
        return value

    def ahead(self, at: int) -> int:
        """Return the place that the distance at a place leads to."""
        return at + self.number("I", at)

    def field(self, table: int, k: int) -> int:
        """Return the place of field k of a table; 0 if it has its default."""
        vtable = table - self.number("i", table)
        entry = 4 + 2 * k
        if self.number("H", vtable) < entry + 2:
            return 0
        distance = self.number("H", vtable + entry)
        return table + distance if distance else 0

    def integer(self, table: int, k: int, kind: str, default: int = 0) -> int:
        """Return the integer of field k of a table."""
        at = self.field(table, k)
        return self.number(kind, at) if at else default

    def elements(self, table: int, k: int, width: int) -> tuple[int, int]:
        """Return the place of the first element of the vector of field k, and their number; (0, 0) if absent.

        Parameters
        ----------
        width
            Bytes of an element.

        Raises
        ------
        InstanceError
            If the file ends before it, or vectors overlap so often that reading all would take too long.
        """
        at = self.field(table, k)
        if not at:
            return 0, 0
        start = self.ahead(at)
        count = self.number("I", start)
        if start + 4 + count * width > len(self.content):
            raise InstanceError(
                f"{self.where}: found a vector of {count} elements at byte {start} of {len(self.content)}, "
                "expected a whole file"
            )
        self._left -= count * width
        if self._left < 0:
            raise InstanceError(
                f"{self.where}: found vectors that overlap, expected each with bytes of its own"
            )
        return start + 4, count

    def integers(self, table: int, k: int) -> tuple[int, ...]:
        """Return the 32-bit integers of the vector of field k."""
        at, count = self.elements(table, k, 4)
        return struct.unpack_from(f"<{count}i", self.content, at)

    def tables(self, table: int, k: int) -> Iterator[int]:
        """Yield the places of the tables in the vector of field k."""
        at, count = self.elements(table, k, 4)
        for i in range(count):
            yield self.ahead(at + 4 * i)

    def text(self, table: int, k: int) -> str:
        """Return the text of field k; empty if absent."""
        at, count = self.elements(table, k, 1)
        return self.content[at : at + count].decode("utf-8", "replace")
