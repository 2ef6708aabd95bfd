"""``lowtide bench --slurm``: its options, and what it says while Slurm carries out the runs."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..models.errors import UsageError
from .output import note
from .parser import whole_number

if TYPE_CHECKING:
    from ..results.sweeps.runspec import RunSpec
    from ..results.sweeps.slurm import Situation
    from .progress import SweepProgress

TASKS = 256
"""The most tasks at a time unless --jobs says otherwise."""
_PAUSE = 10.0
"""Seconds between two plain lines about the tasks of a sweep."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser of ``lowtide bench``."""
    parser.add_argument(
        "--slurm",
        metavar="KEY=VALUE,...",
        help="have Slurm carry out the runs; options of sbatch such as partition=cpu,time=01:00:00",
    )
    parser.add_argument(
        "--chunk", type=whole_number(1), metavar="N", help="with --slurm: runs of a task (default 1)"
    )


def check(args: argparse.Namespace) -> None:
    """Raise `UsageError` unless the options make sense and, if runs are to be started, Slurm is there."""
    from ..results.sweeps.slurm_options import parse_options

    if args.slurm is None:
        if args.chunk is not None:
            raise UsageError("bench: found --chunk without --slurm, expected both")
        return
    try:
        parse_options(args.slurm)
    except UsageError as error:
        raise UsageError(f"bench: --slurm: {error}") from None
    if not args.dry_run and not args.prepare:
        from ..results.sweeps.slurm_queue import check_available

        check_available()


def again(args: argparse.Namespace, out: Path) -> str:
    """Return the command that goes on."""
    if args.slurm is None:
        return f"lowtide bench --resume {out}"
    words = ["lowtide bench --resume", str(out), "--slurm", args.slurm or "''"]
    return " ".join(words if args.chunk is None else [*words, "--chunk", str(args.chunk)])


def carry_out(
    args: argparse.Namespace,
    out: Path,
    left: Sequence[RunSpec],
    stop: threading.Event,
    progress: SweepProgress,
) -> bool:
    """Have Slurm carry out runs; return whether some are left that no task will do."""
    from ..results.sweeps.slurm import job_numbers, run_on_slurm
    from ..results.sweeps.slurm_options import parse_options

    tasks = run_on_slurm(
        out,
        left,
        options=parse_options(args.slurm),
        chunk=args.chunk or 1,
        jobs=args.jobs,
        retry=args.retry,
        stop=stop,
        listener=progress,
        watcher=_Watcher(progress, quiet=args.quiet),
        say=note,
    )
    if stop.is_set():
        if numbers := job_numbers(tasks):
            note(f"the tasks go on in Slurm; scancel {' '.join(numbers)} ends them")
        return False
    for task in tasks[:5]:
        note(f"task {task.number} ended ({task.state}), {len(task.left)} of its runs are left; {task.log}")
    if len(tasks) > 5:
        note(f"{len(tasks) - 5} more tasks ended before their runs were done")
    if tasks:
        note(f"{sum(len(task.left) for task in tasks)} runs have no record; {again(args, out)} goes on")
    return bool(tasks)


class _Watcher:
    """Tells how many tasks run and wait: in the live picture, else in a line when that has changed."""

    def __init__(self, progress: SweepProgress, *, quiet: bool) -> None:
        self._progress, self._quiet = progress, quiet
        self._said, self._next = "", 0.0

    def __call__(self, situation: Situation) -> None:
        words = f"tasks: {situation.running} run, {situation.waiting} wait"
        if situation.reason:
            words += f" ({situation.reason})"
        self._progress.remark, self._progress.jobs = words, max(1, situation.running)
        now = time.monotonic()
        if self._quiet or self._progress.live or words == self._said or now < self._next:
            return
        self._said, self._next = words, now + _PAUSE
        note(words)
