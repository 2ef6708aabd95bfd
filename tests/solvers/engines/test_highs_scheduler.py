"""Runs of HiGHS take turns, keep to the time while they wait, and print nothing."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable

import pytest

from lowtide.solvers.engines import highs_scheduler
from lowtide.solvers.engines.highs_scheduler import run_in_turn


class Solver:
    """Stands for HiGHS: notes what is asked of it."""

    def __init__(self, work: Callable[[], object] = lambda: None) -> None:
        self.work = work
        self.calls: list[str] = []
        self.options: dict[str, float] = {}

    def setOptionValue(self, name: str, value: float) -> None:
        self.options[name] = value

    def run(self) -> None:
        self.calls.append("run")
        self.work()


def test_the_scheduler_is_made_anew_and_what_is_left_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver()
    monkeypatch.setattr("highspy.Highs.resetGlobalScheduler", lambda wait: solver.calls.append("reset"))
    assert run_in_turn(solver, lambda: 3.0)
    assert (solver.calls, solver.options) == (["reset", "run"], {"time_limit": 3.0})
    solver = Solver()
    assert run_in_turn(solver, lambda: float("inf"))
    assert run_in_turn(solver, lambda: 3.0, limit=False)
    assert solver.options == {}


def test_who_waits_for_a_turn_longer_than_it_has_does_not_run() -> None:
    began, end = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        end.wait()

    thread = threading.Thread(target=run_in_turn, args=(Solver(hold), lambda: float("inf")))
    thread.start()
    began.wait()
    late = Solver()
    assert not run_in_turn(late, lambda: 0.01)
    end.set()
    thread.join()
    left = iter((1.0, 0.0))  # its turn comes, and no time is left
    assert not run_in_turn(late, lambda: next(left))
    assert not late.calls
    assert run_in_turn(late, lambda: 1.0)


def test_all_runs_of_this_package_take_turns() -> None:
    from lowtide.solvers.engines import highs, highs_lp

    assert vars(highs)["run_in_turn"] is vars(highs_lp)["run_in_turn"] is run_in_turn


@pytest.mark.skipif(highs_scheduler._stdout() is None, reason="stdout is no variable of this C library")
def test_what_c_prints_meanwhile_is_not_seen_and_what_python_prints_is(
    capfd: pytest.CaptureFixture[str],
) -> None:
    library = ctypes.CDLL(None)

    def work() -> None:
        library.puts(b"of HiGHS")
        print("of Python", flush=True)

    library.puts(b"before")
    assert run_in_turn(Solver(work), lambda: 1.0)
    library.puts(b"after")
    library.fflush(None)
    sys.stdout.flush()
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "after", "before", "of Python"]
    assert run_in_turn(Solver(work), lambda: 1.0, silent=False)
    library.fflush(None)
    assert "of HiGHS" in capfd.readouterr().out
