"""Whether a compiled kernel is there, or its first call takes the seconds that compilation takes."""

from __future__ import annotations

from pathlib import Path


def lies_compiled(source: Path, function: str) -> bool:
    """Return whether a function lies compiled on disk, no older than its source.

    Parameters
    ----------
    source
        File of the kernel.
    function
        The function of it that is called.
    """
    kept = (source.parent / "__pycache__").glob(f"{source.stem}.{function}-*.nbc")
    return any(file.stat().st_mtime >= source.stat().st_mtime for file in kept)
