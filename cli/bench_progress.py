"""How far an experiment is: live on a terminal with rich, else a line now and then."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..models.texts import printable
from ..results.sweeps.estimate import Estimator

if TYPE_CHECKING:
    from rich.console import Group

    from ..results.sweeps.local import Event
    from ..results.sweeps.runspec import RunSpec

_PAUSE = 1.0  # seconds between two plain lines


class SweepProgress:
    """Listens to the events of `run_all` and shows them on standard error.

    Parameters
    ----------
    left
        The runs to do.
    done
        The records of the others.
    jobs
        How many run at a time.
    quiet
        Show nothing.

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
        known = list(done)
        self.statuses = Counter(record["status"] for record in known)
        self.total = len(left) + len(known)
        self.done = len(known)
        self.finished: list[dict[str, Any]] = []
        self._estimator = Estimator(left, known)
        self.jobs = jobs
        self.remark = ""
        self._quiet = quiet
        self.live = not quiet and sys.stderr.isatty() and importlib.util.find_spec("rich") is not None
        self._running: dict[str, tuple[RunSpec, float]] = {}
        self._started, self._shown = time.monotonic(), 0.0
        self._lock = threading.Lock()
        self._display: Any = None

    def __call__(self, event: Event) -> None:
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
            print(f"lowtide: {self.line(event)}", file=sys.stderr, flush=True)

    def line(self, event: Event) -> str:
        """Return the news of one run in a line."""
        run, record = event.run, event.record
        said = "in work elsewhere" if record is None else record["status"]
        if event.kind == "finished" and record is not None:
            said += f" in {record['seconds']['total']:.1f} s"
        return f"{self.done}/{self.total}  {title(run)}: {said}; {self.left()}"

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
