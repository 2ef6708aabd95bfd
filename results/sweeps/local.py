"""Carry out runs on this machine: N at a time, each in its own process, until done or stopped.

Every engine rests on one command::

    lowtide job OUT NAME [NAME ...]

which carries out named runs of a prepared folder one after another, each supervised in a process of its
own, skips those that have a record or are in work elsewhere, and stops cleanly on SIGTERM: the run that
is interrupted leaves no record. So any scheduler can drive an experiment on a folder that its machines
share. ``lowtide bench EXP.toml --out OUT --prepare`` makes the folder and starts nothing;
``lowtide bench --resume OUT --dry-run --json`` tells what is left, as ``{"pending": [name, ...]}``.

- GNU parallel: ``lowtide bench --resume OUT --dry-run --json | jq -r '.pending[]' |
  parallel -j 8 lowtide job OUT {}``
- snakemake: a rule with ``output: "OUT/records/{p}/{name}.json"`` and
  ``shell: "lowtide job OUT {wildcards.name}"``
- HTCondor: ``executable = lowtide``, ``arguments = job OUT $(name)``, ``queue name from names.txt``;
  Kubernetes: the same words as the command of an indexed job.

Each may run a name twice or lose a machine: records are written whole, and what has none is repeated.
Threads, limits and records are the same whoever drives.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...instances.formats.strict_json import read_json
from ...models.errors import InstanceError, UsageError
from .folder import FolderError, log_path, read_record, read_run, record_path
from .record import now
from .runspec import RunSpec
from .supervise import supervise


class RunEvent(NamedTuple):
    """What happened to a run: started, finished (with its record), or left to another process."""

    kind: str
    run: RunSpec
    record: dict[str, Any] | None = None


def run_all(
    out: Path,
    runs: Sequence[RunSpec],
    *,
    jobs: int = 1,
    retry: Iterable[str] = (),
    stop: threading.Event | None = None,
    listener: Callable[[RunEvent], None] = lambda event: None,
) -> None:
    """Carry out runs of an experiment, `jobs` at a time, in the given order.

    Parameters
    ----------
    runs
        Runs of it. One that has a record, or that another process works on, is skipped.
    retry
        Statuses whose records do not count.
    stop
        When it is set, the runs in work are killed and leave no record; then this returns.
    listener
        Called in this thread with what happens; kinds "started", "finished", "skipped".

    Raises
    ------
    FolderError, UsageError
        If the folder cannot be written or a run cannot be started: no further run is, those in work
        are stopped, and no record is lost.
    """
    stop = threading.Event() if stop is None else stop
    left, again = iter(runs), frozenset(retry)
    news: queue.SimpleQueue[RunEvent | BaseException | None] = queue.SimpleQueue()
    lock = threading.Lock()

    def work() -> None:
        try:
            while not stop.is_set():
                with lock:
                    run = next(left, None)
                if run is None:
                    break
                for event in _carry_out(out, run, again, stop):
                    news.put(event)
        except BaseException as error:  # goes to the caller's thread
            news.put(error)
        finally:
            news.put(None)

    # A run's process dies with the thread that started it: each thread stays until its run has ended.
    threads = [threading.Thread(target=work, name=f"slot {i}") for i in range(min(jobs, len(runs)))]
    for thread in threads:
        thread.start()
    failure: BaseException | None = None
    try:
        working = len(threads)
        while working:
            item = news.get()
            if item is None:
                working -= 1
            elif isinstance(item, RunEvent):
                listener(item)
            else:
                failure = failure or item
                stop.set()
    except BaseException:
        stop.set()
        raise
    finally:
        for thread in threads:
            thread.join()
    if failure is not None:
        raise failure


def execute(
    out: str | os.PathLike[str],
    names: Sequence[str],
    *,
    retry: Iterable[str] = (),
    listener: Callable[[RunEvent], None] = lambda event: None,
) -> bool:
    """Carry out named runs of an experiment one after another: what ``lowtide job OUT NAME ...`` does.

    Parameters
    ----------
    out, names
        The folder, and names of its runs.
    retry
        Statuses whose records do not count.
    listener
        As for `run_all`.

    Returns
    -------
    bool
        False if a signal (SIGINT, SIGTERM, SIGHUP) stopped it; the run in work has no record then.

    Raises
    ------
    InstanceError
        If the folder holds no such run; nothing was started.
    FolderError, UsageError
        As `run_all`.
    """
    folder = Path(out)
    runs = [read_run(folder, name) for name in names]
    with stopped_by_signals() as stop:
        run_all(folder, runs, retry=retry, stop=stop, listener=listener)
    return not stop.is_set()


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT, SIGTERM and SIGHUP set meanwhile, unless they were ignored before."""
    stop = threading.Event()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def hold(out: Path) -> Iterator[None]:
    """Keep a second ``lowtide bench`` from the folder meanwhile; the kernel lets go when this process ends.

    Raises
    ------
    UsageError
        If another process holds it.
    FolderError
        If the folder cannot be written.
    """
    path = out / "lock"
    with _locked(path) as mine:
        if not mine:
            with contextlib.suppress(InstanceError, TypeError, LookupError):
                holder = read_json(path)
                raise UsageError(
                    f"{out}: found process {holder['pid']} of {holder['host']} at work since "
                    f"{holder['started']}, expected none (--join works beside it)"
                )
            raise UsageError(f"{out}: found another process at work, expected none (--join works beside it)")
        content = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started": now()})
        try:
            path.write_text(content + "\n")
        except OSError as error:
            raise FolderError(f"{path}: found {error.strerror}, expected a file to write to") from None
        yield


def _carry_out(out: Path, run: RunSpec, again: frozenset[str], stop: threading.Event) -> Iterator[RunEvent]:
    """Carry out one run unless it is done or in work elsewhere."""
    with _locked(log_path(out, run.name)) as mine:
        record = read_record(record_path(out, run.name))
        if not mine or (record is not None and record["status"] not in again):
            yield RunEvent("skipped", run, record)
            return
        yield RunEvent("started", run)
        record = supervise(out, run, stop=stop)
        if record is not None:
            yield RunEvent("finished", run, record)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a file, made if missing, for as long as this process lives; yield False if another has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise FolderError(f"{path}: found {error.strerror}, expected a file to write to") from None
    with file:
        mine = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            mine = False
        except OSError:
            pass  # a file system without locks: at worst a run is carried out twice
        yield mine
