"""The file that receives a solver's own log."""

from __future__ import annotations

from pathlib import Path

from ...models.errors import UsageError


def check_log(path: Path) -> None:
    """Make the log file, empty.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise UsageError(
            f"log {str(path)!r}: found {error.strerror}, expected a file that can be written"
        ) from None
