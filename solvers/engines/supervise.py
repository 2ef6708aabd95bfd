"""Run a solver in a thread of its own, so that Ctrl-C, the clock and the memory limit can stop it.

A solver's call does not return to Python until it ends, so in the main thread it would hold back
KeyboardInterrupt. Here the calling thread only waits. It asks the solver to stop at Ctrl-C, when the
memory limit is passed, or when the solver has overrun its time limit; a solver that then goes on (large
presolves do, for minutes or hours) is abandoned: its thread lives on until the process ends, but
nothing that it reports is taken any more. Only a process of its own could be killed.

The end of the process waits a little for solvers that still run, because HiGHS aborts a process that ends
under it: one in a thread of the caller's own when that was interrupted, or one that was abandoned. A process
of the suite's own ends by `leave`, whatever still runs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..context import Context
from .memory import resident_bytes

if TYPE_CHECKING:
    from ...models.arrays import Integers

POLL_SECONDS = 0.05
"""How often the waiting thread looks at the clock and the memory; also the delay of a Ctrl-C."""

OVERRUN_SECONDS = 0.25
"""How much longer than its limit a solver may take by itself."""

LATE_SECONDS = 0.5
"""How long it may then take to stop: a limit is kept to a second."""

GRACE_SECONDS = 5.0
"""How long it may take to stop for another reason, and when the process ends."""


_running: set[Supervisor] = set()


@atexit.register
def stop_running(context: Context | None = None) -> None:
    """Stop the solvers that still run, of one context or of all, and wait for them for a while."""
    for supervisor in list(_running):
        if context is None or supervisor.context is context:
            supervisor.stop(GRACE_SECONDS)


def leave(status: int) -> int:
    """Return the exit status of a process that has done its work; end it here if a solver will not stop."""
    stop_running()
    if _running:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    return status


@dataclass(eq=False)
class Supervisor:
    """One supervised call.

    Attributes
    ----------
    context
        Its limits count, from now on.
    reason
        Why the solver was asked to stop: "interrupted", "memory", "time"; None if it was not.
    abandoned
        Whether it went on nevertheless, and was left alone.
    meanwhile
        Called now and then by the thread that waits.
    """

    context: Context
    meanwhile: Callable[[], None] = lambda: None
    reason: str | None = None
    abandoned: bool = False
    _error: BaseException | None = None
    _give_up: float | None = None
    _stop: Callable[[], None] = lambda: None
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def remark(self) -> str:
        """What people should know of the stop, to be put behind the solver's own status."""
        if self.reason is None or self.reason == "interrupted":
            return ""
        return f" (asked to stop: beyond its {self.reason} limit)"

    def callback(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return the function for the solver to call: it never raises into the solver.

        The first exception stops the solver and is raised by `run`. After the call has been
        abandoned the function does nothing.
        """

        def guarded(*args: Any) -> None:
            if self.abandoned or self._error is not None:
                return
            try:
                function(*args)
            except BaseException as error:
                self._error = error
                self._stop()

        return guarded

    def run(self, solve: Callable[[], None], stop: Callable[[], None]) -> None:
        """Call `solve` in a thread and wait for it.

        Parameters
        ----------
        solve
            Returns when the solver has ended.
        stop
            Asks the solver to end soon; may be called from any thread, several times.
        """
        self._stop = stop
        used = resident_bytes()

        def work() -> None:
            try:
                solve()
            except BaseException as error:
                self._error = self._error or error
            finally:
                _running.discard(self)
                self._done.set()

        thread = threading.Thread(target=work, name="lowtide solver", daemon=True)
        _running.add(self)
        interrupts = 0
        while interrupts < 2:  # at the second Ctrl-C there is no more patience
            try:
                if not interrupts:
                    thread.start()
                else:
                    self._ask_to_stop("interrupted")
                self._watch(used)
                break
            except KeyboardInterrupt:
                interrupts += 1
        self.abandoned = not self._done.is_set()
        if self._error is not None:
            raise self._error

    def stop(self, seconds: float) -> None:
        """Ask the solver to stop, and wait so long for it at most."""
        end = time.perf_counter() + seconds
        self._stop()
        while not self._done.wait(POLL_SECONDS) and time.perf_counter() < end:
            self._stop()

    def _watch(self, used: int | None) -> None:
        """Return when the solver has ended, or has not stopped in time after it was asked to."""
        while not self._done.wait(POLL_SECONDS):
            self.meanwhile()
            if self._give_up is not None:
                self._stop()  # again: the first time may have been before the solver listened
                if time.perf_counter() > self._give_up:
                    return
            elif (reason := self._why_stop(used)) is not None:
                self._ask_to_stop(reason)

    def _ask_to_stop(self, reason: str) -> None:
        self.reason = reason
        self._give_up = time.perf_counter() + (LATE_SECONDS if reason == "time" else GRACE_SECONDS)
        self._stop()

    def _why_stop(self, used: int | None) -> str | None:
        context = self.context
        if _seconds_left(context) < -OVERRUN_SECONDS:
            return "time"
        if context.memory_limit is not None and used is not None:
            now = resident_bytes()
            if now is not None and now - used > context.memory_limit:
                return "memory"
        return None


def guarded(solve: Callable[[], object], crashes: list[str]) -> Callable[[], None]:
    """Return `solve` as a function that never raises: what a solver's own code throws goes to `crashes`.

    What its callbacks raise does not come here (`Supervisor.callback`).
    """

    def work() -> None:
        try:
            solve()
        except MemoryError:
            raise
        except Exception as error:
            crashes.append(" ".join(f"{type(error).__name__}: {error}".split()))

    return work


def run_passes(
    context: Context, stop: Integers, go: Callable[[Callable[[], bool]], None], least: float = 0.0
) -> str | None:
    """Run compiled passes in a thread; say why they were asked to stop, if they were.

    Parameters
    ----------
    context
        Its limits hold. Where its turn is over (`lowtide.solvers.portfolio`), the passes stand still, from
        their next look at the clock until its next turn.
    stop
        One number; passes end soon after it is set to 1, which it is when the time is up.
    go
        Runs them, given their clock: a function that returns whether they are to end.
    least
        Seconds that they have in any case.
    """
    passes = _PausedPasses(context, stop, time.perf_counter() + least)
    supervisor = Supervisor(context, meanwhile=passes.watch)
    try:
        supervisor.run(partial(go, passes.expired), passes.end)
    except BaseException:  # such as that of a part whose last turn was over
        supervisor.stop(LATE_SECONDS)
        raise
    return supervisor.reason


@dataclass(eq=False)
class _PausedPasses:
    """Passes in a thread that stand still while the part that they belong to has no turn."""

    context: Context
    stop: Integers
    soonest: float
    _asked: threading.Event = field(default_factory=threading.Event)
    _rests: threading.Event = field(default_factory=threading.Event)
    _goes_on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def expired(self) -> bool:
        """Return whether the passes are to end; wait for the next turn first. Called in their thread."""
        if self._asked.is_set() and not self.stop[0]:
            self._rests.set()
            self._goes_on.acquire()
        return bool(self.stop[0]) or self._is_over()

    def watch(self) -> None:
        """Pause the part once its passes stand still, and end them with the time. Called while they run."""
        if self._rests.is_set():
            self._asked.clear()
            self._rests.clear()
            self.context.remaining()  # returns at the next turn
            self._goes_on.release()
        elif self.context.clock.turn_over:
            self._asked.set()
        if self._is_over():
            self.end()

    def end(self) -> None:
        """Have them end soon."""
        self.stop[0] = 1
        self._goes_on.release()

    def _is_over(self) -> bool:
        return _seconds_left(self.context) <= 0 and time.perf_counter() >= self.soonest


def _seconds_left(context: Context) -> float:
    """Return the same as `Context.remaining`, below 0 too, without waiting for a turn."""
    return min(context.ends - context.elapsed(), context.clock.left())
