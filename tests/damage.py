"""Files with one value replaced: readers refuse each of them in a line, or read what it says."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]

JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**9,
    2**70,
    10**400,
    1e300,
    "x",
    "2",
    [],
    [1],
    [["x"], {}],
    {},
    {"9" * 5000: 1},
    DEEP,
)
"""JSON values that stand where others belong."""

WORDS = ("", "0", "-1", "1.5", "nan", "inf", "1e999", "9" * 30, "9" * 5000, "x", "[1", "1;2", "²", '"', "\0")
"""Words that stand where others belong in text."""

ROOM = 2**30
"""Bytes of address space that a reader of a small file may take."""


def damaged_json(data: Any) -> Iterator[tuple[str, bytes]]:
    """Yield JSON texts with one value replaced, left out or named otherwise, each with what was done."""
    for holder, key in list(_places(data)):
        was = holder[key]
        for value in JUNK:
            holder[key] = value
            yield f"{key!r}: {str(was)[:40]} -> {str(value)[:40]}", json.dumps(data).encode()
        holder[key] = "here"
        for literal in (b"NaN", b"-Infinity", b"1e999", b"9" * 5000):
            yield f"{key!r}: {literal[:9]!r}", json.dumps(data).encode().replace(b'"here"', literal)
        if isinstance(holder, dict):
            del holder[key]
            yield f"{key!r} left out", json.dumps(data).encode()
            holder["9" * 5000] = was
            yield f"{key!r} renamed", json.dumps(data).encode()
            del holder["9" * 5000]
        holder[key] = was


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in [*items]:
        yield value, key
        yield from _places(item)


def damaged_text(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield texts with one word replaced, each with what was done."""
    for found in re.finditer(r"[\w.+-]+", text):
        for word in WORDS:
            changed = text[: found.start()] + word + text[found.end() :]
            yield f"{found[0]!r} at {found.start()} -> {word[:9]!r}", changed.encode()


@contextmanager
def little_memory() -> Iterator[None]:
    """Let what runs within take no more than `ROOM` besides what is taken already."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
