"""The native format of buffers: JSON, also gzipped, read strictly and written without defaults.

::

    {"format": "lowtide/buffers", "version": 1, "name", "pools": {name: capacity or null},
     "inplace": [[id, id]],
     "buffers": [{"id", "lower", "upper", "size", "alignment", "offset", "hint",
                  "gaps": [[lower, upper] or [lower, upper, low, high]], "pool", "traffic"}]}

``format``, ``version``, ``buffers`` and of each buffer the first four keys must be there; whatever else
is left out takes the default of `Buffer` and `Buffers`. Lifetimes, gaps and windows are half-open.
"""

from __future__ import annotations

import os
from typing import Any

from ...models.buffers import Buffer, Buffers, Gap
from ...models.errors import InstanceError
from ...models.files import write_packed
from .strict_json import (
    SIZE,
    TEXT,
    Field,
    check_header,
    check_object,
    check_rows,
    dump_json,
    is_int_list,
    is_list,
    is_positive,
    is_size,
    is_text_list,
    optional,
    parse_json,
    read_bytes,
    required,
)

_OFFSET = Field(optional(is_size), "an integer >= 0 or null")
_BUFFERS = {
    "format": required(TEXT),
    "version": required(SIZE),
    "name": TEXT,
    "pools": Field(
        lambda value: type(value) is dict and all(x is None or is_size(x) for x in value.values()),
        "an object from pool names to capacities (integers >= 0 or null)",
    ),
    "inplace": Field(
        lambda value: type(value) is list and all(is_text_list(p) and len(p) == 2 for p in value),
        "a list of pairs [id, id] of buffer ids",
    ),
    "buffers": required(Field(is_list, "a list of buffers")),
}
_BUFFER = {
    "id": required(TEXT),
    "lower": required(SIZE),
    "upper": required(SIZE),
    "size": required(SIZE),
    "alignment": Field(is_positive, "an integer >= 1"),
    "offset": _OFFSET,
    "hint": _OFFSET,
    "gaps": Field(
        lambda value: type(value) is list and all(is_int_list(gap) and len(gap) in (2, 4) for gap in value),
        "a list of gaps [lower, upper] or [lower, upper, low, high]",
    ),
    "pool": TEXT,
    "traffic": _OFFSET,
}


def read_buffers(path: str | os.PathLike[str]) -> Buffers:
    """Return the buffers of a native file, ``.json`` or ``.json.gz``.

    Raises
    ------
    InstanceError
        If the file cannot be read or is not exactly of the format; one line that names file, element,
        found and expected.
    """
    where = os.fspath(path)
    return buffers_from_dict(parse_json(read_bytes(path), where), where)


def buffers_from_dict(data: Any, where: str = "buffers") -> Buffers:
    """Return the buffers of a native JSON object.

    Raises
    ------
    InstanceError
        If it is not exactly of the format, or states no valid buffers.

    Examples
    --------
    >>> from lowtide.instances import buffers_from_dict
    >>> x = {"id": "x", "lower": 0, "upper": 3, "size": 4}
    >>> found = buffers_from_dict({"format": "lowtide/buffers", "version": 1, "buffers": [x]})
    >>> found.buffers[0].size
    4
    """
    check_header(data, "buffers", where)
    check_object(data, _BUFFERS, where)
    check_rows(data["buffers"], _BUFFER, where, "buffer", key="id")
    try:
        loaded = Buffers(
            buffers=tuple(_buffer(row) for row in data["buffers"]),
            pools=data.get("pools", {}),
            inplace=tuple((a, b) for a, b in data.get("inplace", ())),
            name=data.get("name", ""),
        )
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None
    return loaded


def write_buffers(buffers: Buffers, path: str | os.PathLike[str]) -> None:
    """Write buffers in the native format; gzipped if the name ends in ``.gz``.

    The same buffers always give the same bytes; defaults are left out; the file is written whole or not at
    all.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    content = dump_json(buffers.to_dict(), ("buffers",))
    write_packed(path, content)


def _buffer(row: dict[str, Any]) -> Buffer:
    return Buffer(**{**row, "gaps": tuple(Gap(*gap) for gap in row.get("gaps", ()))})
