"""Byte sizes and durations for people: exact where they are stored, short where they are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import UsageError

BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FACTORS: dict[str, int] = {unit.lower(): 1024**k for k, unit in enumerate(BINARY)}
_FACTORS |= {unit: 1000**k for k, unit in enumerate(("", "kb", "mb", "gb", "tb", "pb"))}
MIB, GIB = 2**20, 2**30
"""Bytes of a MiB and of a GiB."""
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
SECOND = 10**9
"""Nanoseconds of a second: durations are in ns, rates in bytes per second."""

_NANOSECONDS = {"": 1, "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": 10**9}


def binary_unit(nbytes: int) -> tuple[str, int]:
    """Return name and bytes of the largest binary unit that is at most `nbytes` (B for less).

    Examples
    --------
    >>> binary_unit(5_000_000)
    ('MiB', 1048576)
    """
    power = min(max(nbytes.bit_length() - 1, 0) // 10, len(BINARY) - 1)
    return BINARY[power], 1024**power


def format_bytes(nbytes: int) -> str:
    """Return a size in a binary unit, with about four digits; exact below 1 KiB.

    Examples
    --------
    >>> format_bytes(31749648), format_bytes(1023), format_bytes(1024)
    ('30.28 MiB', '1023 B', '1 KiB')
    """
    name, unit = binary_unit(nbytes)
    if unit == 1:
        return f"{nbytes} B"
    if nbytes % unit == 0:
        return f"{nbytes // unit} {name}"
    value = nbytes / unit
    return f"{value:.{2 if value < 100 else 1}f} {name}"


def exact_bytes(nbytes: int) -> str:
    """Return a size in bytes and, where that helps, in a binary unit.

    Examples
    --------
    >>> exact_bytes(31749648), exact_bytes(12)
    ('31,749,648 B (30.28 MiB)', '12 B')
    """
    return f"{nbytes:,} B" + (f" ({format_bytes(nbytes)})" if nbytes >= 1024 else "")


def parse_bytes(text: str) -> int:
    """Return the bytes that a text such as ``4GiB``, ``1.5 GB`` or ``4096`` stands for.

    Raises
    ------
    UsageError
        If it is no size, or not a whole number of bytes >= 1.

    Examples
    --------
    >>> parse_bytes("4GiB"), parse_bytes("1.5 kB"), parse_bytes("4096")
    (4294967296, 1500, 4096)
    """
    return _parsed(text, _FACTORS, "size", "bytes", "4096, 512MiB or 4GiB")


def parse_duration(text: str) -> int:
    """Return the nanoseconds that a text such as ``3ms``, ``1.5 us`` or ``2s`` stands for; bare: ns.

    Raises
    ------
    UsageError
        If it is no duration, or not a whole number of nanoseconds >= 1.

    Examples
    --------
    >>> parse_duration("3ms"), parse_duration("1.5 us"), parse_duration("40")
    (3000000, 1500, 40)
    """
    return _parsed(text, _NANOSECONDS, "duration", "nanoseconds", "40, 1.5us, 3ms or 2s")


def parse_count(text: str) -> int:
    """Return the number that a text such as ``19.5T`` or ``480M`` stands for.

    Raises
    ------
    UsageError
        If it is no number, or not a whole one >= 1.

    Examples
    --------
    >>> parse_count("19.5T"), parse_count("480M"), parse_count("7")
    (19500000000000, 480000000, 7)
    """
    return _parsed(text, _COUNTS, "number", "a number", "480M, 19.5T or 2.25P")


def _parsed(text: str, factors: Mapping[str, int], what: str, units: str, examples: str) -> int:
    """Return the whole number of units >= 1 that a decimal number with a suffix stands for."""
    match = re.fullmatch(r"\s*(\d{1,18})(?:\.(\d{1,9}))?\s*([A-Za-zµμ]*)\s*", text, re.ASCII)
    if match is None or (factor := factors.get(match[3].lower())) is None:
        raise UsageError(f"{what}: found {text!r}, expected {units} such as {examples}")
    fraction = match[2] or ""
    number, rest = divmod(int(match[1] + fraction) * factor, int("1" + "0" * len(fraction)))
    if rest or number < 1:
        raise UsageError(f"{what}: found {text!r}, expected a whole number of {units} >= 1")
    return number


def time_unit(duration_ns: int) -> tuple[str, int]:
    """Return name and nanoseconds of the largest of ns, µs, ms, s that is at most the duration.

    Examples
    --------
    >>> time_unit(2_500_000)
    ('ms', 1000000)
    """
    for name, unit in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if duration_ns >= unit:
            return name, unit
    return "ns", 1


def format_duration(duration_ns: int) -> str:
    """Return a duration in the unit that suits it.

    Examples
    --------
    >>> format_duration(2_500_000), format_duration(12)
    ('2.5 ms', '12 ns')
    """
    name, unit = time_unit(duration_ns)
    return f"{duration_ns / unit:.4g} {name}" if unit > 1 else f"{duration_ns} ns"


def exact_value(value: int, unit: str) -> str:
    """Return an objective in its unit, ``bytes`` or ``ns``, and where that helps in a larger one.

    Examples
    --------
    >>> exact_value(31749648, "bytes"), exact_value(2_500_000, "ns"), exact_value(12, "ns")
    ('31,749,648 B (30.28 MiB)', '2,500,000 ns (2.5 ms)', '12 ns')
    """
    if unit == "bytes":
        return exact_bytes(value)
    return f"{value:,} {unit}" + (f" ({format_duration(value)})" if unit == "ns" and value >= 1000 else "")


def format_gap(gap: float | None) -> str:
    """Return a relative gap as a percentage, a small one with two significant digits: never 0 unless it is.

    Examples
    --------
    >>> format_gap(0.0), format_gap(0.0312), format_gap(1e-9), format_gap(None)
    ('0 %', '3.12 %', '1.0e-07 %', 'unknown')
    """
    if gap is None:
        return "unknown"
    if gap == 0:
        return "0 %"
    return f"{100 * gap:.2f} %" if abs(gap) >= 1e-3 else f"{100 * gap:#.2g} %"
