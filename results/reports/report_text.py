"""How the report writes sizes, times, gaps and commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ...models.units import format_bytes, format_duration, format_gap


def amount(value: int | None) -> str:
    """Return an exact value with thousands separated, or a dash.

    Examples
    --------
    >>> amount(31749648), amount(None)
    ('31,749,648', '-')
    """
    return "-" if value is None else f"{value:,}"


def short(value: int | None, unit: str) -> str:
    """Return a value in the unit that suits it, for people.

    Examples
    --------
    >>> short(31749648, "bytes"), short(2_500_000, "ns"), short(7, "syncs")
    ('30.28 MiB', '2.5 ms', '7')
    """
    if value is None:
        return "-"
    if unit == "bytes":
        return format_bytes(value)
    return format_duration(value) if unit == "ns" else f"{value:,}"


def count_text(number: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> count_text(1, "run"), count_text(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def gap_text(gap: float | None) -> str:
    """Return a gap as a percentage, or a dash."""
    return "-" if gap is None else format_gap(gap)


def seconds_text(seconds: float | None) -> str:
    """Return seconds with a precision that suits them, or a dash.

    Examples
    --------
    >>> [seconds_text(s) for s in (0.0123, 1.234, 59.96, 1234.5, None)]
    ['0.012 s', '1.23 s', '59.96 s', '1,234 s', '-']
    """
    if seconds is None:
        return "-"
    if seconds < 0.1:
        return f"{seconds:.3f} s"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def command_of(record: Mapping[str, Any]) -> str:
    """Return the shell command that repeats a run by itself.

    Examples
    --------
    >>> command_of({"spec": "gen:tree?n=9", "problem": "peak", "method": "greedy", "limits": {"seconds": 5}})
    "lowtide solve peak 'gen:tree?n=9' --method greedy --time-limit 5 --seed 0 --threads 1"
    """
    limits = record.get("limits") or {}
    seconds, memory = limits.get("seconds"), limits.get("memory")
    words = ["lowtide", "solve", str(record["problem"]), instance_of(record)]
    words += ["--method", str(record["method"])]
    words += ["--time-limit", "none" if seconds is None else f"{seconds:g}"]
    words += ["--seed", str(record.get("seed") or 0), "--threads", str(limits.get("threads") or 1)]
    words += [] if memory is None else ["--memory-limit", str(memory)]
    for key, value in sorted((record.get("parameters") or {}).items()):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--solver-option", f"{key}={text}"]
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Return a word as the shell needs it; of the data folder, whose place differs, its variable."""
    if word.startswith("data:"):
        return '"$LOWTIDE_DATA"/' + shlex.quote(word.removeprefix("data:"))
    return shlex.quote(word)


def instance_of(record: Mapping[str, Any]) -> str:
    """Return what an instance is called: its specification, else the name of its graph."""
    return str(record.get("spec") or record["instance"])
