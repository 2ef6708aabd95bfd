"""One run, in this process: load the instance, solve, keep the plan, say what was found.

`run_job` carries out a run of an experiment in the calling process and writes its record; that is for
debuggers and profilers (``lowtide job OUT NAME --here``). Everything else goes through
`lowtide.results.sweeps.supervise`, which starts ``python -m lowtide.results.sweeps.job FD`` for each run: the
run comes as JSON on standard input, what was found goes as JSON lines to the file descriptor FD, standard
error is the log. So one run is one process, with one solver library, whose death costs one row.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import InstanceError, LowtideError, UsageError
from ...models.texts import printable
from .folder import FolderError, log_path, plan_path, read_run, write_record
from .record import Usage, complete, load_average, now, unanswered
from .runspec import RunSpec, option_texts, source_hash

if TYPE_CHECKING:
    from ...models.problems.problem import Problem
    from ...models.result import Result

ADDRESS_SLACK = 4 << 30
"""Bytes of address space beyond the memory limit: libraries, thread stacks and arenas reserve without use."""
THREAD_SLACK = 256 << 20
"""Further bytes of address space for each thread."""


def data_folder() -> Path | None:
    """Return the folder that ``data:`` stands for, which LOWTIDE_DATA names; None if it names none."""
    given = os.environ.get("LOWTIDE_DATA")
    return Path(given) if given else None


def loadable(spec: str) -> str:
    """Return what `load` takes for an instance of an experiment: ``data:PATH`` is a file's path then.

    Raises
    ------
    InstanceError
        If there is no data folder.
    """
    if not spec.startswith("data:"):
        return spec
    folder = data_folder()
    if folder is None:
        raise InstanceError(f"instance {spec!r}: found no data folder, expected LOWTIDE_DATA to name it")
    return str(folder / spec.removeprefix("data:"))


def load_question(problem: str, spec: str) -> Problem:
    """Return a problem about an instance of an experiment: what `load_problem` takes, or ``data:PATH``.

    Raises
    ------
    InstanceError, UsageError
        As `load_problem`; also if there is no data folder.
    """
    from ...instances import load_problem

    return load_problem(problem, loadable(spec))


def perform(
    run: RunSpec,
    *,
    plan: Path | None = None,
    log: Path | None = None,
    loaded: Callable[[float], None] = lambda seconds: None,
) -> dict[str, Any]:
    """Carry out a run in this process and return its part of the record.

    Parameters
    ----------
    plan
        Where the execution plan goes if the run keeps it.
    log
        File for the solver's own log.
    loaded
        Called with the seconds of loading, just before solving begins.

    Returns
    -------
    dict
        `Result.record` and ``unit``, ``graph``, ``instance_sha256``; a failure of any kind is a status in it.

    Raises
    ------
    FolderError
        If the plan cannot be written.
    UsageError
        If the code is not the one that the run is to be carried out by.
    """
    if (code := source_hash(run.problem, run.method)) != run.source_hash:
        raise UsageError(
            f"run {run.name}: found other solver sources ({code}) than it was planned with "
            f"({run.source_hash}), expected the same; start the experiment again under the new ones"
        )
    begun = time.perf_counter()
    seconds: dict[str, float] = {}
    try:
        problem = load_question(run.problem, run.source)
        instance = problem.instance
        seconds["load"] = time.perf_counter() - begun
        if run.instance_sha256 not in (None, instance.sha256):
            raise InstanceError(
                f"instance {run.source!r}: found sha256 {instance.sha256}, expected {run.instance_sha256}"
            )
        loaded(seconds["load"])
        result = _solve(run, problem, log)
    except (FolderError, KeyboardInterrupt):
        raise
    except MemoryError:
        answer = unanswered(run, "unknown", "memory", "out of memory")
    except Exception as error:  # whatever a loader or a method does, the run has its row
        with contextlib.suppress(OSError):  # the log's disk may be full
            traceback.print_exc()
        text = str(error) if isinstance(error, LowtideError) else f"{type(error).__name__}: {error}"
        answer = unanswered(run, "failed", "crash", text)
    else:
        keep = plan if run.save_plan and _verified(result) else None
        if keep is not None:
            _write_plan(result, run, keep)
        relative = None if keep is None else "/".join(keep.parts[-3:])
        answer = {**result.record(relative), "unit": result.unit}
        answer |= {"graph": instance.name, "instance_sha256": instance.sha256}
    answer["seconds"] = {**{k: round(v, 6) for k, v in seconds.items()}, **answer["seconds"]}
    return answer


def run_job(out: Path, name: str) -> dict[str, Any]:
    """Carry out one run of an experiment in this process, write its record and return it.

    Its limits are asked of the method, not enforced; `lowtide.results.sweeps.supervise.supervise` does that.

    Raises
    ------
    InstanceError
        If the folder holds no such run.
    FolderError
        If the record or the plan cannot be written.
    KeyboardInterrupt
        If it was interrupted: it has no record then.
    """
    run = read_run(out, name)
    started, load, begun = now(), load_average(), time.perf_counter()
    answer = perform(run, plan=plan_path(out, name))
    if answer["reason"] == "interrupted":
        raise KeyboardInterrupt
    usage = Usage(
        started=started,
        load=load,
        total=time.perf_counter() - begun,
        cpu_seconds=time.process_time(),
        peak_rss=peak_resident(),
    )
    log = log_path(out, name)
    record = complete(run, answer, usage, str(log.relative_to(out)) if log.exists() else None)
    write_record(out, record)
    return record


def peak_resident() -> int:
    """Return the most bytes that this process ever had resident."""
    try:
        # The kernel's ru_maxrss also counts what the parent held when it started this process.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def main(descriptor: int) -> int:
    """Carry out the run that standard input describes; report to a file descriptor."""
    os.set_inheritable(descriptor, False)  # a solver's own process must not keep it open
    # The supervisor's way to ask for an end; a background job of a shell starts with it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    order = json.loads(sys.stdin.buffer.read())
    _die_with(order["parent"])
    run = RunSpec.from_dict(order["run"])
    _limit_address_space(run)

    def report(message: Mapping[str, Any]) -> None:
        os.write(descriptor, json.dumps(message, allow_nan=False).encode() + b"\n")

    plan, log = (Path(order[key]) for key in ("plan", "log"))
    report({"begun": time.time()})
    try:
        answer = perform(run, plan=plan, log=log, loaded=lambda seconds: report({"loaded": seconds}))
        if answer["reason"] == "interrupted":  # only the supervisor interrupts, once the time is up
            answer["reason"] = "time"
    except KeyboardInterrupt:
        answer = unanswered(run, "unknown", "time", "interrupted after its time limit")
    except (FolderError, UsageError) as error:
        report({"refused": str(error)})
        return 2
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(descriptor, "wb") as file:
        message = {"found": answer, "peak_rss": peak_resident()}
        file.write(json.dumps(message, allow_nan=False).encode() + b"\n")
    return 0


def _solve(run: RunSpec, problem: Problem, log: Path | None) -> Result:
    from ...solvers.solve import solve

    begun = time.perf_counter()
    memory = run.limits.memory
    if memory is not None:  # what a method may add; below the limit, so that it stops before it is killed
        memory = max(1, (memory - peak_resident()) * 9 // 10)

    def progress(line: str) -> None:
        with contextlib.suppress(OSError):  # a full disk is no defect of the method
            print(f"{time.perf_counter() - begun:9.3f} s  {printable(line)}", file=sys.stderr, flush=True)

    return solve(
        problem,
        run.method,
        time_limit=run.limits.seconds,
        seed=run.seed,
        threads=run.limits.threads,
        memory_limit=memory,
        options=option_texts(run.parameters),
        log=log,
        progress=progress,
    )


def _verified(result: Result) -> bool:
    return result.verification is not None and result.verification.valid


def _write_plan(result: Result, run: RunSpec, path: Path) -> None:
    from ...instances import write_answer

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_answer(result, path, source=loadable(run.source))
    except (OSError, UsageError) as error:
        raise FolderError(str(error)) from None


def _limit_address_space(run: RunSpec) -> None:
    """Keep one process from taking the whole machine between two looks of the supervisor."""
    if run.limits.memory is None or sys.platform != "linux":
        return
    bound = run.limits.memory + ADDRESS_SLACK + THREAD_SLACK * run.limits.threads
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or bound < hard:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when the one that watches it is gone, however that ended."""
    if sys.platform == "linux":
        death_signal_option = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(death_signal_option, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("the process that started this run has ended")


if __name__ == "__main__":
    from ...solvers.engines.supervise import leave

    sys.exit(leave(main(int(sys.argv[1]))))
