"""The native format of an allocation: JSON, also gzipped, read as strictly as plans are.

::

    {"format": "lowtide/allocation", "version": 1, "buffers": {"name", "source", "sha256"},
     "offsets": {id: offset}}

``buffers`` says for which set of buffers the offsets are: what ``load_buffers`` was given, and the hash of
the content. In the file a relative path in ``source`` counts from the folder of the allocation, so that
both can move together; in memory it counts from the working folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...models.buffers import Buffers
from ...models.errors import InstanceError
from ...models.files import write_packed
from ..spec import relative_spec, resolved_spec
from .strict_json import (
    REFERENCE,
    SIZE,
    TEXT,
    Field,
    check_header,
    check_object,
    dump_json,
    is_object,
    is_size,
    parse_json,
    read_bytes,
    required,
    show,
)

_ALLOCATION = {
    "format": required(TEXT),
    "version": required(SIZE),
    "buffers": required(Field(is_object, "an object")),
    "offsets": required(Field(is_object, "an object from buffer ids to offsets")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Offsets, and the buffers that they are for.

    Parameters
    ----------
    offsets
        Address in bytes by buffer id.
    buffers_name, buffers_source, buffers_sha256
        Which set of buffers it belongs to: its name, what ``load_buffers`` was given, its hash.

    Examples
    --------
    >>> from lowtide.instances import Allocation
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> both = Buffers(buffers=(Buffer(id="x", lower=0, upper=3, size=4),), name="small")
    >>> Allocation.of(both, {"x": 0}).buffers_name
    'small'
    """

    offsets: Mapping[str, int] = field(default_factory=dict)
    buffers_name: str = ""
    buffers_source: str | None = None
    buffers_sha256: str | None = None

    @classmethod
    def of(cls, buffers: Buffers, offsets: Mapping[str, int]) -> Allocation:
        """Return the allocation of a set of buffers."""
        return cls(
            offsets=dict(offsets),
            buffers_name=buffers.name,
            buffers_source=buffers.source,
            buffers_sha256=buffers.sha256,
        )

    def check(self, buffers: Buffers, where: str = "allocation") -> None:
        """Raise `InstanceError` unless it was made for buffers of this content, or does not say."""
        if self.buffers_sha256 not in (None, buffers.sha256):
            called = f" ({buffers.source})" if buffers.source else ""
            raise InstanceError(
                f"{where}, buffers, sha256: found {self.buffers_sha256}, expected {buffers.sha256}{called}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the native format."""
        return {
            "format": "lowtide/allocation",
            "version": 1,
            "buffers": {
                "name": self.buffers_name,
                "source": self.buffers_source,
                "sha256": self.buffers_sha256,
            },
            "offsets": dict(self.offsets),
        }


def read_allocation(path: str | os.PathLike[str]) -> Allocation:
    """Return the allocation of a file, ``.json`` or ``.json.gz``.

    Raises
    ------
    InstanceError
        If the file cannot be read or is not exactly of the format. Whether the offsets are legal is the
        verifier's question.
    """
    where = os.fspath(path)
    return allocation_from_dict(parse_json(read_bytes(path), where), where, folder=os.path.dirname(where))


def allocation_from_dict(data: Any, where: str = "allocation", *, folder: str = "") -> Allocation:
    """Return the allocation of a native JSON object.

    Parameters
    ----------
    folder
        From where a relative path in the source of the buffers counts.

    Raises
    ------
    InstanceError
        If it is not exactly of the format.
    """
    check_header(data, "allocation", where)
    check_object(data, _ALLOCATION, where)
    buffers = data["buffers"]
    check_object(buffers, REFERENCE, f"{where}, buffers")
    for name, offset in data["offsets"].items():
        if not is_size(offset):
            raise InstanceError(f"{where}, offsets, {name!r}: found {show(offset)}, expected an integer >= 0")
    source = buffers.get("source")
    return Allocation(
        offsets=data["offsets"],
        buffers_name=buffers.get("name", ""),
        buffers_source=None if source is None else resolved_spec(source, folder),
        buffers_sha256=buffers.get("sha256"),
    )


def write_allocation(allocation: Allocation, path: str | os.PathLike[str]) -> None:
    """Write an allocation in the native format; gzipped if the name ends in ``.gz``.

    The same allocation always gives the same bytes; the file is written whole or not at all.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    data = allocation.to_dict()
    if allocation.buffers_source is not None:
        folder = os.path.dirname(os.fspath(path))
        data["buffers"]["source"] = relative_spec(allocation.buffers_source, folder)
    content = dump_json(data, ())
    write_packed(path, content)
