"""The waiting thread: Ctrl-C, overrun time, memory, errors, and a solver that does not stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.engines import supervise
from lowtide.solvers.engines.supervise import Supervisor
from tests.effort import LONG_AGO

PROBLEM = lt.Peak(lt.load("gen:chain?n=3"))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who obeys has all the time it needs."""
    for name in ("GRACE_SECONDS", "LATE_SECONDS"):
        monkeypatch.setattr(supervise, name, 600)
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.01)


class Solver:
    """Runs until it is asked to stop, or longer."""

    def __init__(self, *, obeys: bool = True, interrupts: int = 0) -> None:
        self.obeys, self.interrupts = obeys, interrupts
        self.asked, self.released = threading.Event(), threading.Event()

    def solve(self) -> None:
        for _ in range(self.interrupts):
            os.kill(os.getpid(), signal.SIGINT)
            self.asked.wait(600)
        (self.asked if self.obeys else self.released).wait(600)

    def stop(self) -> None:
        self.asked.set()


def supervised(solver: Solver, **limits: object) -> Supervisor:
    supervisor = Supervisor(Context(problem=PROBLEM, **limits))  # type: ignore[arg-type]
    supervisor.run(solver.solve, solver.stop)
    solver.released.set()
    return supervisor


def test_solver_that_ends_by_itself() -> None:
    supervisor = Supervisor(Context(problem=PROBLEM))
    supervisor.run(lambda: None, lambda: None)
    assert (supervisor.reason, supervisor.abandoned) == (None, False)


def test_ctrl_c_stops_the_solver() -> None:
    supervisor = supervised(Solver(interrupts=1))
    assert (supervisor.reason, supervisor.abandoned) == ("interrupted", False)


def test_overrun_time_stops_the_solver() -> None:
    supervisor = supervised(Solver(), time_limit=1.0, started=LONG_AGO)
    assert (supervisor.reason, supervisor.abandoned) == ("time", False)


def test_memory_above_the_limit_stops_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter((1000, 1500, 2500))
    monkeypatch.setattr(supervise, "resident_bytes", lambda: next(used))
    supervisor = supervised(Solver(), memory_limit=1000)
    assert (supervisor.reason, supervisor.abandoned) == ("memory", False)


@pytest.mark.parametrize(("interrupts", "reason"), [(0, "time"), (1, "interrupted"), (2, "interrupted")])
def test_solver_that_does_not_stop_is_abandoned_and_heard_no_more(
    monkeypatch: pytest.MonkeyPatch, interrupts: int, reason: str
) -> None:
    if interrupts < 2:  # a second one must come before the patience ends, else it would stop the tests
        for name in ("GRACE_SECONDS", "LATE_SECONDS"):
            monkeypatch.setattr(supervise, name, 0.05)
    solver = Solver(obeys=False, interrupts=interrupts)
    supervisor = supervised(solver, time_limit=None if interrupts else 1e-9, started=LONG_AGO)
    assert (supervisor.reason, supervisor.abandoned) == (reason, True)
    heard: list[int] = []
    supervisor.callback(heard.append)(1)
    assert heard == []


def test_first_error_of_a_callback_stops_the_solver_and_is_raised() -> None:
    supervisor = Supervisor(Context(problem=PROBLEM))
    solver = Solver()
    heard: list[str] = []

    def callback(text: str) -> None:
        heard.append(text)
        raise ValueError(text)

    def solve() -> None:
        report = supervisor.callback(callback)
        report("first")
        report("second")
        solver.solve()

    with pytest.raises(ValueError, match="first"):
        supervisor.run(solve, solver.stop)
    assert heard == ["first"]


def test_error_of_the_solver_is_raised() -> None:
    def solve() -> None:
        raise RuntimeError("solver")

    with pytest.raises(RuntimeError, match="solver"):
        Supervisor(Context(problem=PROBLEM)).run(solve, lambda: None)


def test_what_runs_in_another_thread_can_be_stopped() -> None:
    asked, started = threading.Event(), threading.Event()
    mine, other = Context(problem=PROBLEM), Context(problem=PROBLEM)

    def solve() -> None:
        started.set()
        asked.wait(600)

    thread = threading.Thread(target=Supervisor(mine).run, args=(solve, asked.set))
    thread.start()
    assert started.wait(600)
    supervise.stop_running(other)
    assert not asked.is_set()
    supervise.stop_running(mine)
    assert asked.is_set()
    thread.join(600)
    assert not thread.is_alive()


LEAVING = """
import atexit, sys, threading
import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.engines import supervise
atexit.register(print, "behind the end")
obeys, stop = {obeys}, threading.Event()
supervise.GRACE_SECONDS = supervise.LATE_SECONDS = 600 if obeys else 0.01
context = Context(problem=lt.Peak(lt.load("gen:chain?n=3")), time_limit=1, started={long_ago})
supervise.Supervisor(context).run(stop.wait, stop.set if obeys else lambda: None)
print("answer")
sys.exit(supervise.leave(3))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("obeys", "printed"), [(True, "answer\nbehind the end\n"), (False, "answer\n")])
def test_a_process_ends_with_its_status_whether_its_solver_stops_or_not(obeys: bool, printed: str) -> None:
    """HiGHS would abort a process that ends in the usual way under it."""
    code = LEAVING.format(obeys=obeys, long_ago=LONG_AGO)
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, printed)
