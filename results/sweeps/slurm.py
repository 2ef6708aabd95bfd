"""Carry out runs on a Slurm cluster: arrays of tasks that each work off a chunk of runs.

submitit writes and submits the batch script; that is all it is used for. A task does what
``lowtide job OUT NAME ...`` does, and a run is done when its record is there: the records in the folder,
which all machines share, are counted here, and ``squeue`` says only which tasks may still write some.
So a lost node, a cancelled task or the end of the process that watches cost the runs in work; the next
call watches the tasks that are still there and hands in what no task will do.

Beside the files of `lowtide.results.sweeps.folder` there is, safe to delete when no array is left::

    slurm/<job name>/tasks.json     the runs of each task, written before the array is submitted
    slurm/<job name>/...            batch script and output of the tasks, by submitit

SIGTERM, which Slurm sends before a time limit, at scancel and at preemption, stops a task; the run in work
leaves no record then.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...instances.formats.strict_json import read_json
from ...models.errors import InstanceError, UsageError
from .folder import FolderError, read_record, record_path, write_file
from .local import RunEvent, execute
from .runspec import RunSpec
from .slurm_options import check_time, chunks, task_parameters
from .slurm_queue import ENDED, TaskState, check_available, most_tasks, task_states

PAUSE = 1.0
"""Seconds between two looks at the records."""
LONGEST_PAUSE = 15.0
"""Seconds between two questions to Slurm, once the array is some minutes old."""
SETTLE = 3.0
"""Seconds that a shared folder has to show the last records after all tasks have ended."""

Stamp = tuple[int, int]
"""Inode and time of change of a file, which tell a record from the one that it replaces."""


@dataclass(eq=False, kw_only=True)
class Task:
    """A task of an array, and how far it is.

    Parameters
    ----------
    job, index
        Name of the array's job; number in the array.
    folder
        Where its output lies.
    left
        Its runs without a record, in the order in which it works them off.
    number
        What Slurm calls it; empty if Slurm has not said.
    state, reason
        As `TaskState`.
    """

    job: str
    index: int
    folder: Path
    left: list[str]
    number: str = ""
    state: str = "PENDING"
    reason: str = ""
    current: str | None = None

    @property
    def ended(self) -> bool:
        """Whether it does no more."""
        return self.state in ENDED

    @property
    def log(self) -> Path:
        """Its standard error."""
        return self.folder / f"{self.number}_0_log.err"

    def learn(self, state: TaskState | None) -> None:
        """Take what Slurm says of it; None if nothing."""
        if state is None:
            self.state, self.reason = "GONE", ""
        else:
            self.number, self.state, self.reason = state


class Situation(NamedTuple):
    """Numbers of tasks that run and that wait, and the most frequent reason of the latter."""

    running: int
    waiting: int
    reason: str


def run_on_slurm(
    out: Path,
    runs: Sequence[RunSpec],
    *,
    options: Mapping[str, str],
    chunk: int = 1,
    jobs: int = 256,
    retry: Iterable[str] = (),
    stop: threading.Event | None = None,
    listener: Callable[[RunEvent], None] = lambda event: None,
    watcher: Callable[[Situation], None] = lambda situation: None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Task]:
    """Have Slurm carry out runs of an experiment; wait for their records.

    Parameters
    ----------
    out
        The folder of the experiment, under a path that is the same on all machines.
    runs
        Runs of it that have no record, or one that does not count.
    options
        Of sbatch, as `parse_options` returns them.
    chunk
        The most runs of a task, unless Slurm takes no array of so many tasks.
    jobs
        The most tasks at a time.
    retry
        Statuses whose records do not count.
    stop
        When it is set, this returns; the tasks go on.
    listener
        Called with what happens to runs: "started", "finished", "stopped" (with the task).
    watcher
        Called with the situation of the tasks.
    say
        Called with lines for people.

    Returns
    -------
    list of Task
        Those with runs left: that go on, if it was stopped; else that ended before they were done.

    Raises
    ------
    BackendUnavailable
        If Slurm or submitit is not installed.
    UsageError
        If Slurm refuses the tasks, or the folder cannot be written.
    """
    check_available()
    stop = threading.Event() if stop is None else stop
    again, out = frozenset(retry), out.resolve()
    before = {run.name: _stamp(out, run.name) for run in runs if again}
    tasks = _at_work(out, {run.name for run in runs})
    if tasks:
        taken = sum(len(task.left) for task in tasks)
        numbers = " ".join(job_numbers(tasks))
        say(f"{len(tasks)} tasks of job {numbers} are still there, for {taken} runs; scancel ends them")
    covered = {name for task in tasks for name in task.left}
    if rest := [run for run in runs if run.name not in covered]:
        parts = chunks(rest, chunk, most_tasks())
        if len(parts[0]) > chunk:
            say(f"{len(parts[0])} runs to a task instead of {chunk}: an array has at most {len(parts)} tasks")
        if warning := check_time(options, parts):
            say(warning)
        new = _submit(out, parts, options, jobs, again)
        tasks += new
        say(f"job {job_numbers(new)[0]}: {len(rest)} runs in {len(new)} tasks")
    watch = _Watch(out, tasks, {run.name: run for run in runs}, before, listener)
    watch.follow(stop, watcher)
    return [task for task in tasks if task.left]


def job_numbers(tasks: Iterable[Task]) -> list[str]:
    """Return Slurm's numbers of the jobs of tasks, as scancel takes them."""
    return sorted({task.number.partition("_")[0] for task in tasks} - {""}, key=int)


class _Watch:
    """Looks at records and tasks until there is nothing to wait for."""

    def __init__(
        self,
        out: Path,
        tasks: Sequence[Task],
        runs: Mapping[str, RunSpec],
        before: Mapping[str, Stamp | None],
        listener: Callable[[RunEvent], None],
    ) -> None:
        self._out, self._tasks, self._runs, self._before = out, tasks, runs, before
        self._listener = listener
        self._jobs = {task.job for task in tasks}

    def follow(self, stop: threading.Event, watcher: Callable[[Situation], None]) -> None:
        """Report the runs until all have their records or no task does more."""
        begun = asked = time.monotonic()
        answered = True
        while not stop.is_set():
            now = time.monotonic()
            if now - asked >= min(LONGEST_PAUSE, max(PAUSE, (now - begun) / 20)):
                answered, asked = self._ask(), now
            for task in self._tasks:
                self._collect(task)
            watcher(self._situation(answered))
            busy = [task for task in self._tasks if task.left]
            if not busy:
                return
            if all(task.ended for task in busy):
                self._settle(stop)
                return
            stop.wait(PAUSE)

    def _ask(self) -> bool:
        """Ask Slurm for the states; return whether it answered."""
        states = task_states(self._jobs)
        if states is not None:
            for task in self._tasks:
                task.learn(states.get((task.job, task.index)))
        return states is not None

    def _collect(self, task: Task) -> None:
        """Take the records of a task that are new: all once it has ended, else in its order."""
        for name in [*task.left]:
            if (record := self._record(name)) is not None:
                task.left.remove(name)
                self._listener(RunEvent("finished", self._runs[name], record))
            elif not task.ended:
                break
        current = task.left[0] if task.left and task.state == "RUNNING" else None
        if current != task.current:
            if task.current in task.left:
                self._listener(RunEvent("stopped", self._runs[task.current]))
            if current is not None:
                self._listener(RunEvent("started", self._runs[current]))
            task.current = current

    def _record(self, name: str) -> dict[str, Any] | None:
        """Return the record of a run if it is there and not the one that was there before."""
        stamp = _stamp(self._out, name)
        if stamp is None or stamp == self._before.get(name):
            return None
        return read_record(record_path(self._out, name))

    def _settle(self, stop: threading.Event) -> None:
        end = time.monotonic() + SETTLE
        while any(task.left for task in self._tasks) and time.monotonic() < end and not stop.wait(PAUSE / 4):
            for task in self._tasks:
                self._collect(task)

    def _situation(self, answered: bool) -> Situation:
        open_tasks = [task for task in self._tasks if not task.ended and task.left]
        running = sum(task.state != "PENDING" for task in open_tasks)
        reasons = [task.reason for task in open_tasks if task.state == "PENDING" and task.reason != "None"]
        reason = max(sorted(set(reasons)), key=reasons.count, default="")
        return Situation(running, len(open_tasks) - running, reason if answered else "squeue does not answer")


def carry_out(out: str, names: Sequence[str], retry: Collection[str]) -> None:
    """Carry out the runs of a task one after another; submitit calls this on a node."""

    def tell(event: RunEvent) -> None:
        status = "" if event.record is None else event.record["status"]
        print(event.kind, event.run.name, status, flush=True)

    # SIGTERM ends it, which submitit by itself would have passed over.
    execute(out, names, retry=retry, listener=tell)


def _submit(
    out: Path,
    parts: Sequence[Sequence[RunSpec]],
    options: Mapping[str, str],
    parallelism: int,
    retry: Collection[str],
) -> list[Task]:
    """Submit an array with a task for each part."""
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    if "%" in str(out):
        raise UsageError(f"{out}: found '%', expected a folder without it: Slurm gives it another meaning")
    job = f"lowtide-{secrets.token_hex(8)}"
    folder, names = out / "slurm" / job, [[run.name for run in part] for part in parts]
    parameters = task_parameters(options, parts)
    # A job whose submission is not answered can be found by its name.
    write_file(folder / "tasks.json", json.dumps({"job": job, "tasks": names}).encode() + b"\n")
    said = io.StringIO()
    try:
        with _outside_of_jobs(), contextlib.redirect_stderr(said):
            # Named, because submitit's own choice goes by which commands are installed.
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
            executor.update_parameters(
                slurm_array_parallelism=parallelism,
                slurm_additional_parameters={**parameters, "job_name": job},
                # srun does not take it from sbatch since Slurm 22.05.
                slurm_srun_args=[f"--cpus-per-task={parameters['cpus_per_task']}"],
            )
            submitted = executor.map_array(
                carry_out, [str(out)] * len(names), names, [sorted(retry)] * len(names)
            )
    except (FailedJobError, FailedSubmissionError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise UsageError(f"--slurm: sbatch refused the tasks: {'; '.join(lines)}") from None
    except OSError as error:
        raise FolderError(f"{folder}: found {error.strerror}, expected a folder to write to") from None
    return [
        Task(job=job, index=i, folder=folder, left=[*part], number=submitted[i].job_id)
        for i, part in enumerate(names)
    ]


def _at_work(out: Path, names: Collection[str]) -> list[Task]:
    """Return the tasks of former arrays that may still make records of runs."""
    working = []
    for file in sorted((out / "slurm").glob("lowtide-*/tasks.json")):
        try:
            content = read_json(file)
        except InstanceError:  # nothing was submitted then
            continue
        for index, part in enumerate(content["tasks"]):
            left = [name for name in part if name in names]
            working.append(Task(job=content["job"], index=index, folder=file.parent, left=left))
    states = task_states({task.job for task in working})
    if states is None:
        raise UsageError(f"{out}: found no answer of squeue, expected the state of its tasks")
    for task in working:
        task.learn(states.get((task.job, task.index)))
    return [task for task in working if task.left and not task.ended]


def _stamp(out: Path, name: str) -> Stamp | None:
    try:
        status = record_path(out, name).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextlib.contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Hide the variables of a Slurm job that this process runs in: tasks would take them for theirs."""
    hidden = {}
    if "SLURM_JOB_ID" in os.environ:
        kept = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS")
        names = [name for name in os.environ if name.startswith(("SLURM_", "SLURMD_", "SRUN_"))]
        hidden = {name: os.environ.pop(name) for name in names if name not in kept}
    try:
        yield
    finally:
        os.environ.update(hidden)
