"""The file that receives a solver's own log."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from ...models.errors import UsageError
from ..context import Context, Outcome


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


def logged(run: Context, solve: Callable[[], Outcome]) -> Outcome:
    """Run a solver in the context `run` of one of several runs, and append its log to that of the whole."""
    log = run.log
    if log is None:
        return solve()
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        run.log = Path(folder) / "run.log"
        try:
            return solve()
        finally:
            if run.log.exists():
                with log.open("ab") as whole:
                    whole.write(run.log.read_bytes())
