"""Watch over one run: its process, its limits, its record.

The run's process is asked to stop (SIGINT, so that a method can hand over its incumbent) once its time
limit and the grace have passed, and is killed after as much grace again; loading the instance has at
least `LOAD_SECONDS`. Memory is the sum of the resident bytes of the process and its descendants,
sampled; pages that they share count once for each. The address space of the process is bounded as well
(a little above the limit), which stops an allocation that would fill the machine between two samples.
Killed are always the process, its descendants and its process group. When the supervisor itself dies,
the kernel kills the run's process (Linux).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...models.errors import UsageError
from .folder import FolderError, log_path, plan_path, write_record
from .process_tree import ProcessTree
from .record import Usage, complete, load_average, now, unanswered
from .runspec import RunSpec

LOAD_SECONDS = 60.0
"""A run may take at least this long to load its instance."""
SAMPLE_SECONDS = 0.05
"""Between two looks at a run."""
STOP_SECONDS = 0.5
"""A scheduler ends all processes of a job at once: a run may die so long before the word to stop comes."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
"""What numerical libraries read when they are loaded."""


@dataclass(kw_only=True)
class _Watched:
    """What is known of a process under watch."""

    process: subprocess.Popen[bytes]
    tree: ProcessTree
    started: float
    deadline: float | None
    received: bytearray = field(default_factory=bytearray)
    messages: dict[str, Any] = field(default_factory=dict)
    asked: bool = False
    killed_by: str | None = None
    cpu_seconds: float | None = None


def supervise(out: Path, run: RunSpec, *, stop: threading.Event | None = None) -> dict[str, Any] | None:
    """Carry out a run of an experiment in its own process and write its record.

    Parameters
    ----------
    stop
        When it is set, the run is killed and leaves no record.

    Returns
    -------
    dict or None
        The record; None if the run was stopped.

    Raises
    ------
    FolderError
        If log, plan or record cannot be written; the run has no record then.
    UsageError
        If the run's process cannot be started, or its code is not the one that was planned.
    """
    log = log_path(out, run.name)
    done = watch(run, log=log, plan=plan_path(out, run.name), stop=stop)
    if done is None:
        return None
    record = complete(run, *done, log.relative_to(out).as_posix())
    write_record(out, record)
    return record


def watch(
    run: RunSpec, *, log: Path, plan: Path, stop: threading.Event | None = None
) -> tuple[dict[str, Any], Usage] | None:
    """Carry out a run in its own process; return what it found and used, or None if it was stopped."""
    stop = threading.Event() if stop is None else stop
    solver_log = log.with_suffix(".solver")
    started, load, begun = now(), load_average(), time.monotonic()
    with _start(run, log, solver_log, plan) as (process, descriptor):
        seconds = run.limits.seconds
        watched = _Watched(
            process=process,
            tree=ProcessTree(process.pid),
            started=begun,
            deadline=None if seconds is None else begun + max(LOAD_SECONDS, seconds) + run.grace,
        )
        try:
            _follow(run, watched, descriptor, stop)
        finally:
            watched.tree.kill()
            _reap(watched, 0)
        total = time.monotonic() - begun
    with contextlib.suppress(OSError):  # what is lost when the disk is full is told by the record's write
        _append(solver_log, log)
    messages = watched.messages
    if "refused" in messages:
        raise UsageError(messages["refused"])
    died = watched.killed_by is None and "found" not in messages
    if watched.killed_by == "stop" or (died and stop.wait(STOP_SECONDS)):
        return None
    answer = messages.get("found") or _explain(run, watched, log)
    if "loaded" in messages:
        answer["seconds"] = {"load": round(messages["loaded"], 6), **answer["seconds"]}
    code = process.returncode
    killed_by = watched.killed_by or (f"signal {-code}" if code < 0 and "found" not in messages else None)
    usage = Usage(
        started=started,
        load=load,
        total=total,
        cpu_seconds=watched.cpu_seconds,
        peak_rss=max(watched.tree.peak, messages.get("peak_rss", 0)) or None,
        killed_by="memory" if killed_by == "signal 6" and answer["reason"] == "memory" else killed_by,
        returncode=code,
    )
    return answer, usage


def child_environment(threads: int) -> dict[str, str]:
    """Return the environment of a run: every numerical library has so many threads."""
    fixed = {"PYTHONFAULTHANDLER": "1", "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
    return {**os.environ, **fixed, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


@contextlib.contextmanager
def _start(
    run: RunSpec, log: Path, solver_log: Path, plan: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the process; yield it and the descriptor on which it reports."""
    order = {"run": run.to_dict(), "log": str(solver_log), "plan": str(plan), "parent": os.getpid()}
    reader, writer = os.pipe()
    try:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            solver_log.unlink(missing_ok=True)
            with log.open("wb") as empty:
                empty.flush()
            file = log.open("ab")  # the solver's own processes may write as well
        except OSError as error:
            raise FolderError(f"{log}: found {error.strerror}, expected a file to write to") from None
        with file:
            process = subprocess.Popen(
                [sys.executable, "-m", "lowtide.results.sweeps.job", str(writer)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                pass_fds=(writer,),
                env=child_environment(run.limits.threads),
                start_new_session=True,  # Ctrl-C on the terminal is for the supervisor
            )
        os.close(writer)
        writer = -1
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once: the exit status says so
            process.stdin.write(json.dumps(order).encode())
            process.stdin.close()
        yield process, reader
    finally:
        for descriptor in (reader, writer):
            if descriptor >= 0:
                os.close(descriptor)


def _follow(run: RunSpec, watched: _Watched, descriptor: int, stop: threading.Event) -> None:
    """Collect what the process reports until it has ended or is to be killed."""
    pid = watched.process.pid
    os.set_blocking(descriptor, False)
    with selectors.DefaultSelector() as selector, _exit_of(pid) as exit_descriptor:
        selector.register(descriptor, selectors.EVENT_READ)
        if exit_descriptor is not None:
            selector.register(exit_descriptor, selectors.EVENT_READ)
        while True:
            ended = _reap(watched, os.WNOHANG)
            if not _receive(run, watched, descriptor) and descriptor in selector.get_map():
                selector.unregister(descriptor)
            if ended:
                return
            watched.killed_by = _verdict(run, watched, stop)
            if watched.killed_by is not None:
                return
            selector.select(SAMPLE_SECONDS)


def _verdict(run: RunSpec, watched: _Watched, stop: threading.Event) -> str | None:
    """Return why the process is to be killed now, if it is; ask it to stop when its time is up."""
    if stop.is_set():
        return "stop"
    resident = watched.tree.resident()
    if run.limits.memory is not None and resident > run.limits.memory and "found" not in watched.messages:
        return "memory"
    if watched.deadline is None or time.monotonic() < watched.deadline:
        return None
    if watched.asked or "found" in watched.messages:
        return "time"
    watched.asked, watched.deadline = True, time.monotonic() + run.grace
    with contextlib.suppress(ProcessLookupError):
        watched.process.send_signal(signal.SIGINT)
    return None


def _receive(run: RunSpec, watched: _Watched, descriptor: int) -> bool:
    """Take what has arrived; return whether more can come."""
    while True:
        try:
            chunk = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        watched.received += chunk
        *lines, rest = watched.received.split(b"\n")
        watched.received = bytearray(rest)
        for line in lines:
            message = json.loads(line)
            watched.messages |= message
            if watched.deadline is not None and "loaded" in message:
                watched.deadline = time.monotonic() + (run.limits.seconds or 0) + run.grace
            if "found" in message:  # what remains is to end
                watched.deadline = time.monotonic() + run.grace


def _explain(run: RunSpec, watched: _Watched, log: Path) -> dict[str, Any]:
    """Return what a run found that ended without telling: nothing, and why."""
    last = _last_line(log)
    if watched.killed_by == "time":
        limit = f"{run.limits.seconds:g} s" if "loaded" in watched.messages else "time to load its instance"
        return unanswered(run, "unknown", "time", f"killed after its limit of {limit}")
    if watched.killed_by == "memory":
        return unanswered(run, "unknown", "memory", f"killed above its limit of {run.limits.memory} bytes")
    code = watched.process.returncode
    if "begun" not in watched.messages:
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        raise UsageError(f"{log}: found a run whose process ended as it started ({how}: {last})")
    if run.limits.memory is not None and code == -signal.SIGABRT and "bad_alloc" in last:
        return unanswered(run, "unknown", "memory", f"an allocation failed under its memory limit: {last}")
    if code < 0:
        return unanswered(run, "failed", "crash", f"killed by {signal.Signals(-code).name}: {last}")
    return unanswered(run, "failed", "crash", f"ended with exit status {code} without an answer: {last}")


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    words = [line.strip() for line in lines if line.strip()]
    telling = [line for line in words if "bad_alloc" in line or line.startswith("Fatal Python error")]
    return (telling or words or [""])[-1][:300]


def _append(source: Path, target: Path) -> None:
    """Move the content of one log to the end of another."""
    if source.exists():
        with source.open("rb") as old, target.open("ab") as new:
            while chunk := old.read(1 << 20):
                new.write(chunk)
        source.unlink()


def _reap(watched: _Watched, option: int) -> bool:
    """Take the exit status and the CPU seconds (with those of waited-for processes) once it has ended."""
    process = watched.process
    if process.returncode is None:
        pid, status, usage = os.wait4(process.pid, option)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            watched.cpu_seconds = usage.ru_utime + usage.ru_stime
    return process.returncode is not None


@contextlib.contextmanager
def _exit_of(pid: int) -> Iterator[int | None]:
    """Yield a descriptor that becomes readable when the process ends; None where there is none."""
    descriptor = None
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
