"""Reading JSON that must be exactly right: every mistake is one line with place, found, expected.

A *field table* says what an object may hold: for each key a test, the words for what it expects, and
whether it must be there. `problem` compares an object with its table and returns the first difference
as text, so that the caller can put the place in front of it only when there is one to report.
"""

from __future__ import annotations

import difflib
import gzip
import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..models.errors import InstanceError

MAX_TOTAL = 2**62
"""Sums of bytes and of nanoseconds stay below this, so that 64-bit arithmetic on them is exact."""


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


def show(value: object) -> str:
    """Return a value as it goes into a message: JSON on one line, shortened if long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the names to propose instead of a wrong one: the near ones, all if none is near."""
    names = sorted(words)
    close = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "expected one of " + ", ".join(names) if names else "expected none"


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
            raise InstanceError(f"{where}: {key}: found {show(data[key])}, expected {show(value)}")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, uncompressed if its name ends in ``.gz``.

    Raises
    ------
    InstanceError
        If it is missing, a folder, not readable, or no complete gzip file.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InstanceError(f"{path}: found no such file, expected one to read") from None
    except IsADirectoryError:
        raise InstanceError(f"{path}: found a folder, expected a file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InstanceError(f"{path}: found {reason}, expected a readable file") from None
    if not os.fspath(path).endswith(".gz"):
        return content
    try:
        return gzip.decompress(content)
    except EOFError:
        raise InstanceError(f"{path}: found a truncated gzip file, expected a complete one") from None
    except (OSError, zlib.error) as error:
        raise InstanceError(f"{path}: found {error}, expected a gzip file") from None


def parse_json(content: bytes, where: str) -> Any:
    """Return the value of a JSON text (RFC 8259; no repeated keys, NaN, Infinity or huge numbers).

    Raises
    ------
    InstanceError
        If it is not such a text; the message has line and column where they are known.
    """
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
    return json.dumps(value, allow_nan=False)
