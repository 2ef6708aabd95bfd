"""HiGHS runs one at a time, and prints nothing.

HiGHS has one scheduler per process. One that was made for another number of threads makes the next run fail
silently, and resetting it under a running solve is not safe: so all runs, of MILPs and of LPs, take turns.

HiGHS 1.12 prints ``HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();`` whatever its
options are, whenever a solution of the presolved model violates the model itself and is repaired. It does so
by ``puts``, to the C library's variable ``stdout``. While HiGHS runs that variable stands for a file that
goes nowhere. Descriptor 1 stays as it is, and so does what Python prints, in all threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

_turn = threading.Lock()


def run_in_turn(highs: Any, seconds: Callable[[], float], *, limit: bool = True, silent: bool = True) -> bool:
    """Run HiGHS as soon as no other run is under way; return False if the time was up before.

    Parameters
    ----------
    highs
        With its model and options.
    seconds
        Returns how many are left; infinite without a limit.
    limit
        Whether HiGHS gets what is left as its time limit.
    silent
        Whether it may print nothing.
    """
    with one_turn(seconds()) as ours:
        left = seconds()
        if not ours or left <= 0:
            return False
        if limit and math.isfinite(left):
            highs.setOptionValue("time_limit", left)
        with _silent() if silent else contextlib.nullcontext():
            highs.run()
    return True


@contextlib.contextmanager
def one_turn(seconds: float) -> Iterator[bool]:
    """Let nobody else run HiGHS, which has a new scheduler; yield False if the time was up before.

    Examples
    --------
    >>> with one_turn(1.0) as ours:
    ...     ours
    True
    """
    import highspy

    if not _turn.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX)):
        yield False
        return
    try:
        highspy.Highs.resetGlobalScheduler(True)
        yield True
    finally:
        _turn.release()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Let what C prints go nowhere, where that can be done; for one thread at a time."""
    found = _stdout()
    if found is None:
        yield
        return
    stream, nowhere = found
    before, stream.value = stream.value, nowhere
    try:
        yield
    finally:
        stream.value = before


@cache
def _stdout() -> tuple[Any, int] | None:
    """Return the C library's variable and a stream to nowhere; None where it is no variable."""
    if sys.platform == "darwin":
        name = "__stdoutp"
    elif sys.platform == "linux" and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        try:
            if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
                return None  # elsewhere it may be a constant
        except (OSError, ValueError):
            return None
        name = "stdout"
    else:
        return None
    try:
        library = ctypes.CDLL(None)
        library.fopen.restype = ctypes.c_void_p
        nowhere = library.fopen(os.devnull.encode(), b"w")
        return (ctypes.c_void_p.in_dll(library, name), nowhere) if nowhere else None
    except (OSError, ValueError, AttributeError):
        return None
