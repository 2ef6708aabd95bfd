"""Progress of a task, or of a sweep, on standard error: live on a terminal with rich, else lines."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..models.texts import printable
from ..models.units import format_bytes, format_duration, format_gap

if TYPE_CHECKING:
    from rich.console import Group

    from ..results.sweeps.estimate import Estimator
    from ..results.sweeps.local import RunEvent
    from ..results.sweeps.runspec import RunSpec

DELAY = 2.0
"""Seconds before anything is shown: most commands end sooner."""
_VALUE = re.compile(r"\b(incumbent|bound) (\d+)(?: (bytes|ns|units)\b)?")
_PAUSE = 1.0
"""Seconds between two plain lines of the progress of a solve."""


@contextmanager
def loading(spec: str, *, quiet: bool = False) -> Iterator[None]:
    """Say that a specification is being loaded, if that takes longer than `DELAY`."""
    with Progress(quiet=quiet) as progress:
        progress(f"loading {spec}")
        yield


class Progress:
    """Shows the latest line: live on a terminal with rich, else as plain lines now and then.

    Parameters
    ----------
    always
        Show plain lines from the start, whatever standard error is.
    unit
        Of objectives and bounds: ``bytes`` or ``ns``.
    """

    def __init__(self, *, quiet: bool = False, always: bool = False, unit: str = "bytes") -> None:
        self._quiet, self._unit = quiet, unit
        self._delay = 0.0 if always else DELAY
        self._live = not quiet and not always and _draws()
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
        _say(f"{now - self._started:7.1f} s  {self._line}")

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


class SweepProgress:
    """Listens to the events of `run_all` and shows them on standard error.

    Parameters
    ----------
    left
        The runs to do.
    done
        The records of the others.

    Attributes
    ----------
    remark
        Words about those who carry out the runs, shown with the counts.
    live
        Whether it is shown on a terminal.
    """

    def __init__(
        self, left: Sequence[RunSpec], done: Iterable[Mapping[str, Any]], *, jobs: int, quiet: bool = False
    ) -> None:
        from ..results.sweeps.estimate import Estimator

        known = list(done)
        self.statuses = Counter(record["status"] for record in known)
        self.total = len(left) + len(known)
        self.done = len(known)
        self.finished: list[dict[str, Any]] = []
        self._estimator = Estimator(left, known)
        self.jobs = jobs
        self.remark = ""
        self._quiet = quiet
        self.live = not quiet and _draws()
        self._running: dict[str, tuple[RunSpec, float]] = {}
        self._started, self._shown = time.monotonic(), 0.0
        self._lock = threading.Lock()
        self._display: Any = None

    def __call__(self, event: RunEvent) -> None:
        """Take the latest news."""
        run = event.run
        with self._lock:
            if event.kind == "started":
                self._running[run.name] = run, time.monotonic()
                return
            self._running.pop(run.name, None)
            if event.kind == "stopped":
                return
            self.done += 1
            self._estimator.finish(run, event.record if event.kind == "finished" else None)
            if event.record is not None:
                self.statuses[event.record["status"]] += 1
            if event.kind == "finished" and event.record is not None:
                self.finished.append(event.record)
        if self._quiet or self.live:
            return
        now = time.monotonic()
        if now - self._shown >= _PAUSE or self.done == self.total:
            self._shown = now
            _say(self.line(event))

    def line(self, event: RunEvent) -> str:
        """Return the news of one run in a line."""
        run, record = event.run, event.record
        status = "in work elsewhere" if record is None else record["status"]
        if event.kind == "finished" and record is not None:
            status += f" in {record['seconds']['total']:.1f} s"
        return f"{self.done}/{self.total}  {title(run)}: {status}; {self.left()}"

    def left(self) -> str:
        """Return how long the rest takes, for people."""
        if self.done == self.total:
            return f"took {clock(time.monotonic() - self._started)}"
        return estimated(self._estimator, self.jobs, spent=self._spent()) + " left"

    def _spent(self) -> float:
        """Return the seconds that the runs in work have had, at most what such runs take."""
        now = time.monotonic()
        return sum(
            min(now - begun, self._estimator.expected((run.problem, run.method, run.limits.seconds)))
            for run, begun in self._running.values()
        )

    def __enter__(self) -> Self:
        if self.live:
            from rich.console import Console
            from rich.live import Live

            self._display = Live(
                get_renderable=self._picture, console=Console(stderr=True), refresh_per_second=4
            )
            self._display.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._display is not None:
            self._running.clear()
            self._display.stop()

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            head = Table.grid(padding=(0, 1))
            bar = ProgressBar(total=max(self.total, 1), completed=self.done, width=40)
            share = f"{self.done}/{self.total}"
            head.add_row(bar, Text(share, "bold"), Text(clock(time.monotonic() - self._started)), self.left())
            words = [f"{status} {n}" for status, n in sorted(self.statuses.items())]
            counts = Text("  ".join([*words, self.remark] if self.remark else words))
            rows = Table.grid(padding=(0, 2))
            now = time.monotonic()
            for run, begun in self._running.values():
                limit = "" if run.limits.seconds is None else f" of {run.limits.seconds:g}"
                rows.add_row("", Text(title(run)), Text(f"{now - begun:.0f}{limit} s"))
            return Group(head, counts, rows)


def title(run: RunSpec) -> str:
    """Return what people call a run."""
    words = [run.problem, run.method, *(f"{key}={value}" for key, value in run.parameters.items())]
    return printable(f"{' '.join(words)} {run.instance} seed {run.seed}")


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes, seconds.

    Examples
    --------
    >>> clock(3661.2)
    '1:01:01'
    """
    return str(timedelta(seconds=round(seconds)))


def estimated(estimator: Estimator, jobs: int, *, spent: float = 0.0) -> str:
    """Return how long the runs that are left take."""
    rest = estimator.rest()
    words = "about" if rest.seen else "at most about"
    return f"{words} {clock(max(0.0, rest.seconds - spent) / jobs)}"


def _draws() -> bool:
    """Whether progress is drawn: a terminal, and rich is installed."""
    return sys.stderr.isatty() and importlib.util.find_spec("rich") is not None


def _say(line: str) -> None:
    print(f"lowtide: {line}", file=sys.stderr, flush=True)


def readable(line: str, unit: str = "bytes") -> str:
    """Return a line of news with its objectives in larger units, and the gap if there is one.

    Parameters
    ----------
    unit
        Of objectives and bounds that the line gives none for.

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
    text = _VALUE.sub(lambda m: f"{m[1]} {_in_words(int(m[2]), m[3] or unit)}", line)
    if len(values) == 2 and 0 < values["bound"] < values["incumbent"]:
        text += f", gap {format_gap(1 - values['bound'] / values['incumbent'])}"
    return text


def _in_words(value: int, unit: str) -> str:
    """Return a value as people read it; units of problems that users bring stay as they are."""
    shown = {"bytes": format_bytes, "ns": format_duration}.get(unit)
    return shown(value) if shown else f"{value:,} {unit}"
