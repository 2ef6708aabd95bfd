"""How much memory there is, how much this process uses, and whether a model will fit."""

from __future__ import annotations

from pathlib import Path

from ...formulations.model import ModelSize
from ..context import Context, Outcome

_CGROUP, _PROC = Path("/sys/fs/cgroup"), Path("/proc")


def available_bytes() -> int | None:
    """Return the memory that this process can still get without swapping; None if nothing tells."""
    found = [_proc("meminfo", "MemAvailable:"), _cgroup("memory.max", "memory.current")]
    found.append(_cgroup("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
    known = [x for x in found if x is not None]
    return max(0, min(known)) if known else None


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None if nothing tells."""
    return _proc("self/status", "VmRSS:")


def refuse_if_too_large(
    size: ModelSize, *, bytes_per_term: int, context: Context, what: str
) -> Outcome | None:
    """Return why a model is not built, if building and solving it would exhaust the memory.

    Parameters
    ----------
    bytes_per_term
        Measured bytes at the solver's peak, per nonzero coefficient.
    context
        Its memory limit counts, else nine tenths of the memory that is available.
    what
        The model, for the message.
    """
    needed = size.terms * bytes_per_term
    limit, source = context.memory_limit, "the memory limit is"
    available = available_bytes()
    if available is not None and (limit is None or available * 9 // 10 < limit):
        limit, source = available * 9 // 10, "available are"
    if limit is None or needed <= limit:
        return None
    return Outcome(
        reason="memory",
        detail=(
            f"{what} was not built: {size.variables:,} variables and {size.terms:,} coefficients need "
            f"about {needed / 1e9:.1f} GB, {source} {limit / 1e9:.1f} GB"
        ),
    )


def _proc(name: str, row: str) -> int | None:
    """Return the bytes in a row of a file of the kernel; None if nothing tells."""
    try:
        for line in (_PROC / name).read_text().splitlines():
            if line.startswith(row):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup(limit: str, usage: str) -> int | None:
    """Return what is left in the control group (containers); None without a limit."""
    try:
        return int((_CGROUP / limit).read_text()) - int((_CGROUP / usage).read_text())
    except (OSError, ValueError):  # no such file, or the word "max"
        return None
