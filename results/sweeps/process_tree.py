"""A process and its descendants: the memory that they hold, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


class ProcessTree:
    """A process that leads its own process group, and its descendants as they are found.

    Attributes
    ----------
    peak
        The most resident bytes that `resident` has seen.
    """

    def __init__(self, pid: int) -> None:
        import psutil

        self._gone = (psutil.NoSuchProcess, psutil.AccessDenied)
        self._root = psutil.Process(pid)
        self._others: list[psutil.Process] = []
        self._next = 0.0
        self.peak = 0

    def resident(self) -> int:
        """Return the resident bytes of all."""
        total = 0
        self._look(time.monotonic())
        for process in (self._root, *self._others):
            with contextlib.suppress(*self._gone):
                total += process.memory_info().rss
        self.peak = max(self.peak, total)
        return total

    def kill(self) -> None:
        """Kill what is left of all, and of the process group of the first."""
        self._next = 0.0
        self._look(time.monotonic())
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._root.pid, signal.SIGKILL)
        for process in (self._root, *self._others):
            with contextlib.suppress(*self._gone):
                process.kill()

    def _look(self, now: float) -> None:
        """Find the descendants from time to time: that reads the list of all the machine's processes."""
        if now < self._next:
            return
        with contextlib.suppress(*self._gone):
            found = self._root.children(recursive=True)
            self._others = [*found, *(p for p in self._others if p not in found and p.is_running())]
        spent = time.monotonic() - now
        self._next = now + max(0.5, 50 * spent)
