"""Reading files that must be exactly right: every mistake is one line with place, found, expected.

The one place where files, JSON and TOML are read: no file is taken that is larger than a limit, unpacked, and
no text whose nesting would overflow what walks through it later.

A *field table* says what an object may hold: for each key a test, the words for what it expects, and
whether it must be there. `problem` compares an object with its table and returns the first difference
as text, so that the caller can put the place in front of it only when there is one to report.

In all formats `where` is what messages call the text that is read, usually its file.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

from ...models.errors import InstanceError, UsageError
from ...models.files import note_file
from ...models.texts import nearest as nearest
from ...models.units import exact_bytes, parse_bytes


class Field(NamedTuple):
    """What one key of an object must hold."""

    test: Callable[[Any], bool]
    expected: str
    required: bool = False


Fields = Mapping[str, Field]


def is_size(value: object) -> bool:
    """Return whether the value is an integer >= 0 (a truth value is none)."""
    return type(value) is int and value >= 0


def is_positive(value: object) -> bool:
    """Return whether the value is an integer >= 1."""
    return type(value) is int and value >= 1


def is_text(value: object) -> bool:
    """Return whether the value is a string."""
    return type(value) is str


def is_flag(value: object) -> bool:
    """Return whether the value is true or false."""
    return type(value) is bool


def is_list(value: object) -> bool:
    """Return whether the value is a list."""
    return type(value) is list


def is_object(value: object) -> bool:
    """Return whether the value is a JSON object."""
    return type(value) is dict


def is_int_list(value: object) -> bool:
    """Return whether the value is a list of integers."""
    return isinstance(value, list) and {*map(type, value)} <= {int}


def is_text_list(value: object) -> bool:
    """Return whether the value is a list of strings."""
    return isinstance(value, list) and {*map(type, value)} <= {str}


def is_pair_list(value: object) -> bool:
    """Return whether the value is a list of pairs of integers."""
    return isinstance(value, list) and all(is_int_list(p) and len(p) == 2 for p in value)


def optional(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return the test that also accepts null."""
    return lambda value: value is None or test(value)


SIZE = Field(is_size, "an integer >= 0")
TEXT = Field(is_text, "a string")
FLAG = Field(is_flag, "true or false")


def required(field: Field) -> Field:
    """Return the same field, which must be there."""
    return field._replace(required=True)


REFERENCE: Fields = {
    "name": TEXT,
    "source": Field(optional(is_text), "a string or null"),
    "sha256": Field(
        optional(lambda value: is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None),
        "64 hexadecimal digits or null",
    ),
}
"""What an answer says of the graph or the buffers that it is for."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place in front of what is said to be wrong within."""
    try:
        yield
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None


def show(value: object) -> str:
    """Return a value as it goes into a message: JSON on one line, shortened if long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def problem(value: object, fields: Fields) -> str | None:
    """Return the first difference between an object and its field table, or None."""
    if type(value) is not dict:
        return f"found {show(value)}, expected an object"
    count = 0
    for key, item in value.items():
        field = fields.get(key)
        if field is None:
            return f"found unknown key {key!r}, {nearest(key, fields)}"
        if not field.test(item):
            return f"{key}: found {show(item)}, expected {field.expected}"
        count += field.required
    if count < sum(field.required for field in fields.values()):
        missing = next(key for key, f in fields.items() if f.required and key not in value)
        return f"found no key {missing!r}, expected {fields[missing].expected}"
    return None


def check_object(value: object, fields: Fields, where: str) -> None:
    """Raise if the object differs from its field table."""
    if text := problem(value, fields):
        raise InstanceError(f"{where}: {text}")


def check_rows(rows: Sequence[Any], fields: Fields, where: str, noun: str, *, key: str = "name") -> None:
    """Raise, naming the row by its `key`, if an object of a list differs from its field table."""
    for i, row in enumerate(rows):
        if text := problem(row, fields):
            name = row.get(key) if isinstance(row, dict) else None
            called = f" {name!r}" if isinstance(name, str) else ""
            raise InstanceError(f"{where}: {noun} {i}{called}, {text}")


def check_header(data: object, what: str, where: str) -> None:
    """Raise unless the object says that it is version 1 of the format ``lowtide/<what>``."""
    if not isinstance(data, dict):
        raise InstanceError(f"{where}: found {show(data)}, expected an object")
    expected: dict[str, object] = {"format": f"lowtide/{what}", "version": 1}
    for key, value in expected.items():
        if key not in data:
            raise InstanceError(f"{where}: found no key {key!r}, expected {show(value)}")
        if data[key] != value or type(data[key]) is not type(value):
            hint = "; lowtide verify and lowtide plot read plans" if data[key] == "lowtide/plan" else ""
            raise InstanceError(f"{where}: {key}: found {show(data[key])}, expected {show(value)}{hint}")


UNPACK_LIMIT = 2**31
"""Bytes of a file's content, unpacked, unless the environment variable `UNPACK_VARIABLE` says otherwise."""

UNPACK_VARIABLE = "LOWTIDE_UNPACK_LIMIT"

_PART = 2**24
"""Bytes that are read at a time."""

DEEPEST = 100
"""Objects and lists within each other."""


def unpack_limit() -> int | None:
    """Return how many bytes a file may hold, unpacked; None: any number.

    Raises
    ------
    UsageError
        If the environment variable holds no size.
    """
    text = os.environ.get(UNPACK_VARIABLE)
    if text is None or text == "none":
        return UNPACK_LIMIT if text is None else None
    try:
        return parse_bytes(text)
    except UsageError as error:
        raise UsageError(f"environment variable {UNPACK_VARIABLE}: {error}") from None


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, uncompressed if its name ends in ``.gz``.

    Raises
    ------
    InstanceError
        If it is missing, a folder, not readable, no complete gzip file, or larger than `unpack_limit`.
    """
    limit = unpack_limit()
    try:
        note_file(path)
        with open(path, "rb") as file:
            content = _up_to(file, limit)
    except FileNotFoundError:
        raise InstanceError(f"{path}: found no such file, expected one to read") from None
    except IsADirectoryError:
        raise InstanceError(f"{path}: found a folder, expected a file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InstanceError(f"{path}: found {reason}, expected a readable file") from None
    if limit is not None and len(content) > limit:
        raise InstanceError(_too_large(path, limit, "a file of"))
    if not os.fsdecode(path).endswith(".gz"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            content = _up_to(packed, limit)
        if limit is not None and len(content) > limit:
            raise InstanceError(_too_large(path, limit, "a gzip file that unpacks to"))
        return content
    except EOFError:
        raise InstanceError(f"{path}: found a truncated gzip file, expected a complete one") from None
    except (OSError, zlib.error) as error:
        raise InstanceError(f"{path}: found {error}, expected a gzip file") from None


def _up_to(file: BinaryIO | gzip.GzipFile, limit: int | None) -> bytes:
    """Return the content of a file; of one that holds more than `limit` bytes, some more than that."""
    # One read of `limit` bytes would reserve all of them, however small the file is.
    parts, size = [], 0
    while (limit is None or size <= limit) and (part := file.read(_PART)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _too_large(path: str | os.PathLike[str], limit: int, what: str) -> str:
    size = exact_bytes(limit)
    return f"{path}: found {what} more than {size}, expected at most that (--unpack-limit SIZE, or none)"


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the value of a JSON file, as `read_bytes` and `parse_json` read it."""
    return parse_json(read_bytes(path), os.fsdecode(path))


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """Return the table of a TOML text that is not nested too deeply.

    Raises
    ------
    InstanceError
        If it is no such text.
    """
    try:
        text = content.decode("utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InstanceError(f"{where}:{line}: found bytes that are not UTF-8, expected TOML") from None
    except RecursionError:
        raise InstanceError(f"{where}: found TOML nested too deeply, expected flat data") from None
    except ValueError as error:  # also of numbers with too many digits
        match = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.DOTALL)
        words, at = (match[1], match[2]) if match else (str(error), None)
        line = int(at) if at else text.count("\n") + 1
        raise InstanceError(f"{where}:{line}: found no TOML: {words}") from None
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
    if level:
        raise InstanceError(f"{where}: found TOML nested too deeply, expected flat data")
    return table


_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _too_deep(content: bytes) -> bool:
    """Return whether a JSON text has more than `DEEPEST` (at most twice as many) levels.

    Each round takes away the innermost pairs of brackets; strings are left out only where brackets in
    them may be what stays.
    """
    for text in (content, None):
        rest = (_STRING.sub(b"", content) if text is None else text).translate(None, _NO_BRACKETS)
        for _ in range(DEEPEST):
            less = rest.replace(b"[]", b"").replace(b"{}", b"")
            if less == rest:
                break
            rest = less
        else:
            less = b""
        if not rest:
            return False
    return less != rest  # else the brackets do not match: the parser says where


def parse_json(content: bytes, where: str) -> Any:
    """Return the value of a JSON text (RFC 8259; no repeated keys, NaN, Infinity or huge numbers).

    Raises
    ------
    InstanceError
        If it is not such a text; the message has line and column where they are known.
    """
    if _too_deep(content):
        raise InstanceError(f"{where}: found JSON nested too deeply, expected flat data")
    try:
        text = content.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_finite,
            parse_constant=_finite,
        )
        if "\\u" in text:
            # An escaped half of a surrogate pair is a string that can be neither written nor shown.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise InstanceError(
            f"{where}: found byte {content[error.start]:#04x} at offset {error.start}, expected UTF-8 text"
        ) from None
    except UnicodeEncodeError:
        raise InstanceError(f"{where}: found a lone surrogate in a string, expected Unicode text") from None
    except json.JSONDecodeError as error:
        raise InstanceError(
            f"{where}, line {error.lineno}, column {error.colno}: found {error.msg}, expected JSON"
        ) from None
    except RecursionError:
        raise InstanceError(f"{where}: found JSON nested too deeply, expected flat data") from None
    except ValueError as error:
        raise InstanceError(f"{where}: found {error}, expected JSON") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} twice in one object")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text}")
    return number


def dump_json(data: Mapping[str, Any], rows: Sequence[str]) -> bytes:
    """Return JSON text with one line per key, and one line per element of the lists named in `rows`.

    Raises
    ------
    InstanceError
        If a value is none of JSON's.
    """
    lines = []
    try:
        for key, value in data.items():
            if key in rows and value:
                inner = ",\n".join(_dumps(item) for item in value)
                lines.append(f"{_dumps(key)}: [\n{inner}\n]")
            else:
                lines.append(f"{_dumps(key)}: {_dumps(value)}")
    except (TypeError, ValueError, RecursionError) as error:
        raise InstanceError(f"key {key!r}: found {error}, expected JSON values") from None
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _dumps(value: object) -> str:
    text = json.dumps(value, allow_nan=False)
    if "\\ud" in text:  # half of a surrogate pair could not be read back
        json.dumps(value, ensure_ascii=False).encode()
    return text
