"""Progress on standard error, for work that takes longer than a moment."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

from ..models.texts import printable
from ..models.units import format_bytes, format_duration

DELAY = 2.0
"""Seconds before anything is shown."""
_VALUE = re.compile(r"\b(incumbent|bound) (\d+)(?: (bytes|ns)\b)?")
_SHOWN = {"bytes": format_bytes, "ns": format_duration}
_PAUSE = 1.0  # seconds between two plain lines


class Progress:
    """Shows the latest line: live on a terminal with rich, else as plain lines now and then.

    Parameters
    ----------
    quiet
        Show nothing.
    always
        Show plain lines from the start, whatever standard error is.
    unit
        Of objectives and bounds: ``bytes`` or ``ns``.

    Examples
    --------
    >>> with Progress(quiet=True) as show:
    ...     show("incumbent 12, bound 10")
    """

    def __init__(self, *, quiet: bool = False, always: bool = False, unit: str = "bytes") -> None:
        self._quiet, self._unit = quiet, unit
        self._delay = 0.0 if always else DELAY
        rich = importlib.util.find_spec("rich") is not None
        self._live = not quiet and not always and sys.stderr.isatty() and rich
        self._line = ""
        self._pending = False
        self._started = self._shown = time.monotonic()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._display: Any = None

    def __call__(self, line: str) -> None:
        """Take the latest news."""
        self._line, self._pending = printable(readable(line, self._unit)), True
        if self._quiet:
            return
        if self._live:
            with self._lock:
                if self._display is not None:
                    self._display.update(self._display.task_ids[0], description=self._line)
            return
        with self._lock:
            now = time.monotonic()
            if now - self._started >= self._delay and (now - self._shown >= _PAUSE or self._delay == 0):
                self._print(now)

    def __enter__(self) -> Self:
        if not self._quiet and (self._live or self._delay):
            self._timer = threading.Timer(self._delay, self._start if self._live else self._catch_up)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._live:
            with self._lock:
                self._live = False
                if self._display is not None:
                    self._display.stop()
        elif not self._quiet and self._pending and time.monotonic() - self._started >= self._delay:
            self._print(time.monotonic())

    def _print(self, now: float) -> None:
        self._shown, self._pending = now, False
        print(f"lowtide: {now - self._started:7.1f} s  {self._line}", file=sys.stderr, flush=True)

    def _catch_up(self) -> None:
        """Print what came before the delay was over (called by the timer): the next news may be far away."""
        with self._lock:
            if self._pending:
                self._print(time.monotonic())

    def _start(self) -> None:
        """Open the live display (called by the timer)."""
        from rich import progress
        from rich.console import Console

        with self._lock:
            if not self._live:
                return
            self._display = progress.Progress(
                progress.SpinnerColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("{task.description}", markup=False),
                console=Console(stderr=True),
                get_time=time.monotonic,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._display.add_task(self._line or "solving", total=None)
            self._display.tasks[0].start_time = self._started  # the delay counts too
            self._display.start()


def readable(line: str, unit: str = "bytes") -> str:
    """Return a line of news with its objectives in larger units, and the gap if there is one.

    Parameters
    ----------
    line
        What a method says.
    unit
        Of objectives and bounds that the line gives none for: ``bytes`` or ``ns``.

    Examples
    --------
    >>> readable("incumbent 2097152, bound 1048576")
    'incumbent 2 MiB, bound 1 MiB, gap 50.00 %'
    >>> readable("incumbent 3715945690, bound 3715945690", "ns")
    'incumbent 3.716 s, bound 3.716 s'
    >>> readable("activation order: incumbent 2048 bytes", "ns")
    'activation order: incumbent 2 KiB'
    """
    values = {match[1]: int(match[2]) for match in _VALUE.finditer(line)}
    text = _VALUE.sub(lambda m: f"{m[1]} {_SHOWN[m[3] or unit](int(m[2]))}", line)
    if len(values) == 2 and 0 < values["bound"] < values["incumbent"]:
        text += f", gap {100 * (1 - values['bound'] / values['incumbent']):.2f} %"
    return text
