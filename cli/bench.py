"""``lowtide bench``: carry out an experiment, go on with one, or say what it would take."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.errors import UsageError
from . import bench_slurm
from .output import complain, emit, emit_found, emit_json, emit_table, note
from .parser import add_verb, whole_number

if TYPE_CHECKING:
    from ..results.sweeps.runspec import RunSpec
    from .parser import Subparsers

    Show = Callable[[argparse.Namespace, Mapping[str, Any]], None]

STOPPED = 130
"""Exit status after a signal: 128 and the number of SIGINT, as shells have it."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "bench",
        run,
        details="A run that has its record is not repeated; Ctrl-C, a crash or a full disk cost the runs in "
        "work. Exit status 1 if a run failed, 130 if stopped.",
        examples=[
            "lowtide bench results/experiments/peak_methods/experiment.toml --out runs/peak --jobs 2",
            "lowtide bench --resume runs/peak --jobs 2 --retry failed",
            "lowtide bench results/experiments/peak_methods/experiment.toml --dry-run",
            "lowtide bench exp.toml --out /shared/runs/peak --slurm partition=cpu,time=01:00:00 --chunk 20",
        ],
    )
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT.toml", help="what to run")
    parser.add_argument("--out", metavar="DIR", help="folder for records, logs and plans")
    parser.add_argument("--resume", metavar="DIR", help="go on with the experiment of that folder")
    parser.add_argument(
        "--jobs",
        type=whole_number(1),
        metavar="N",
        help=f"runs at a time (default 1); with --slurm tasks at a time (default {bench_slurm.TASKS})",
    )
    bench_slurm.add_options(parser)
    parser.add_argument(
        "--retry",
        action="append",
        default=[],
        choices=("failed", "unknown"),
        help="repeat runs that ended so; repeatable",
    )
    parser.add_argument(
        "--join", action="store_true", help="with --resume: work beside another process on the folder"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="list the runs and the estimated time")
    only.add_argument(
        "--prepare", action="store_true", help="make the folder, start nothing (see lowtide job)"
    )
    parser.add_argument(
        "--update-best-known",
        action="store_true",
        help="afterwards improve the best-known file by what verifies again",
    )
    parser.add_argument("--best-known", metavar="FILE", help="with it; default: the package's")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Carry out the experiment."""
    from ..results.sweeps.experiment import ExperimentError

    if (args.experiment is None) == (args.resume is None):
        found = "both" if args.resume is not None else "neither"
        raise UsageError(f"bench: found {found}, expected EXPERIMENT.toml or --resume DIR")
    if args.resume is not None and args.out not in (None, args.resume):
        raise UsageError("bench: found --out beside --resume, expected one of them")
    if args.join and args.resume is None:
        raise UsageError("bench: found --join without --resume, expected --resume DIR --join")
    if args.best_known is not None and not args.update_best_known:
        raise UsageError("bench: found --best-known without --update-best-known, expected both")
    bench_slurm.check(args)
    args.jobs = args.jobs or (1 if args.slurm is None else bench_slurm.TASKS)
    try:
        return _resume(args) if args.resume is not None else begin_experiment(args)
    except ExperimentError as error:
        for problem in error.problems:
            complain(problem)
        return 2


def begin_experiment(args: argparse.Namespace, show: Show | None = None) -> int:
    """Read the experiment, make its folder, carry it out.

    Parameters
    ----------
    args
        As the parser returns them.
    show
        What prints the summary; default: `show_summary`.
    """
    from ..results.sweeps.experiment import read_experiment
    from ..results.sweeps.folder import begin, check_begin, pending, record_files
    from ..results.sweeps.local import hold
    from .progress import Progress

    if args.out is None and not args.dry_run:
        raise UsageError("bench: found no --out, expected --out DIR")
    with Progress(quiet=args.quiet) as progress:
        experiment = read_experiment(args.experiment, progress=progress)
    if experiment.repeated:
        note(f"{experiment.repeated} runs are left out: they are the same as others")
    runs = experiment.runs
    if args.out is None:
        return _list(args, runs, runs, {})
    out = Path(args.out)
    check_begin(out)
    left, done = pending(out, runs, args.retry)
    if args.dry_run:
        return _list(args, runs, left, done)
    make_folder(out)
    with hold(out):
        begin(out, experiment.content, runs)
        names = {run.name for run in runs}
        if others := sum(path.stem not in names for path in record_files(out)):
            note(f"{out}: {others} records of other runs stay there, of the experiment or code as it was")
        return _carry_out(args, out, left, done, show or show_summary)


def _resume(args: argparse.Namespace) -> int:
    """Carry out what is left of a folder."""
    from contextlib import nullcontext

    from ..results.sweeps.folder import pending, read_runs
    from ..results.sweeps.local import hold

    out = Path(args.resume)
    runs = read_runs(out)
    left, done = pending(out, runs, args.retry)
    if args.dry_run:
        return _list(args, runs, left, done)
    check_code(left, out)
    say_what_changed((run for run in runs if run.name in done), out)
    with nullcontext() if args.join else hold(out):
        return _carry_out(args, out, left, done, show_summary)


def _carry_out(
    args: argparse.Namespace,
    out: Path,
    left: Sequence[RunSpec],
    done: Mapping[str, Mapping[str, Any]],
    show: Show,
) -> int:
    """Carry out the runs that are left, on this machine or on a cluster."""
    from ..results.sweeps.folder import FolderError
    from ..results.sweeps.local import run_all, stopped_by_signals
    from .progress import SweepProgress

    total = len(left) + len(done)
    if args.prepare:
        note(f"{out}: {len(left)} of {total} runs to do; lowtide job {out} NAME ... carries them out")
        return 0
    if args.slurm is None:
        warn_of_threads(left, args.jobs)
    _compile(left, quiet=args.quiet)
    again, lost = bench_slurm.again(args, out), False
    started = time.monotonic()
    try:
        with (
            SweepProgress(left, done.values(), jobs=args.jobs, quiet=args.quiet) as progress,
            stopped_by_signals() as stop,
        ):
            if args.slurm is None:
                run_all(out, left, jobs=args.jobs, retry=args.retry, stop=stop, listener=progress)
            elif left:
                lost = bench_slurm.carry_out(args, out, left, stop, progress)
    except FolderError as error:
        raise FolderError(f"{error}; no record is lost, {again} goes on") from None
    summary = {
        "out": str(out),
        "runs": total,
        "done": sum(progress.statuses.values()),
        "finished": len(progress.finished),
        "statuses": dict(sorted(progress.statuses.items())),
        "seconds": round(time.monotonic() - started, 3),
        "interrupted": stop.is_set(),
    }
    report_failures(out, progress.finished)
    if args.update_best_known and not stop.is_set():
        improve_best_known(out, args.best_known)
    show(args, summary)
    if stop.is_set():
        note(f"stopped; {again} goes on")
        return STOPPED
    return 1 if lost or progress.statuses["failed"] else 0


def _compile(left: Sequence[RunSpec], *, quiet: bool) -> None:
    """Compile what the methods of the runs call and does not lie on disk: once, not in each run."""
    from ..solvers.engines.compilation import prepare
    from ..solvers.registry import find_method
    from .progress import Progress

    methods = {(run.problem, run.method) for run in left}
    kernels = {name for problem, method in methods for name in find_method(problem, method).kernels}
    with Progress(quiet=quiet) as progress:
        prepare(sorted(kernels), progress=progress)


def improve_best_known(out: Path, path: str | None) -> None:
    """Improve a best-known file by the records of the folder, and say what became better."""
    from ..results.audits.best_known import FOLDER
    from ..results.audits.evidence import read_claims
    from ..results.audits.improvements import update

    done = update(read_claims([out]).claims, path or FOLDER)
    for change in done.changes:
        old = "nothing" if change.old is None else f"{change.old:,}"
        words = f"{change.problem} {change.side} {old} -> {change.new:,}"
        note(f"best known, {change.instance}: {words} ({change.method})")
    for doubt in done.refused:
        note(f"best known: left as it is: {doubt}")
    if not done.changes:
        note("best known: nothing is better")


def make_folder(out: Path) -> None:
    """Make the folder of an experiment, or raise `UsageError`."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: found {error.strerror}, expected a folder that can be made") from None


def check_code(left: Sequence[RunSpec], out: Path) -> None:
    """Raise `UsageError` if runs were planned for other sources: their records would lie."""
    from ..results.sweeps.runspec import source_hash

    for problem, method, code in sorted({(run.problem, run.method, run.source_hash) for run in left}):
        if (now := source_hash(problem, method)) != code:
            raise UsageError(
                f"{out}: found runs of {method} that were planned with other solver sources ({code}, now "
                f"{now}), expected the same; lowtide bench EXPERIMENT.toml --out {out} plans them anew"
            )


def say_what_changed(done: Iterable[RunSpec], out: Path) -> None:
    """Say which methods of finished runs are other code by now: resuming leaves their records as they are."""
    from ..results.sweeps.runspec import source_hash

    changed = set()
    for problem, method, code in {(run.problem, run.method, run.source_hash) for run in done}:
        with suppress(UsageError):  # a method that is gone
            if source_hash(problem, method) != code:
                changed.add(method)
    if changed:
        note(
            f"{out}: the code of {', '.join(sorted(changed))} has changed since they ran; "
            f"lowtide bench EXPERIMENT.toml --out {out} runs them anew"
        )


def warn_of_threads(left: Sequence[RunSpec], jobs: int) -> None:
    """Say so if the runs at a time need more cores than there are: their times would mean little."""
    from ..solvers.context import available_cores

    threads = max((run.limits.threads for run in left), default=1)
    if threads * min(jobs, len(left)) > available_cores():
        note(
            f"{jobs} jobs of {threads} threads share {available_cores()} cores: times will not be comparable"
        )


def report_failures(out: Path, finished: Sequence[Mapping[str, Any]]) -> None:
    """Say which runs failed, and where their logs are."""
    failed = [record for record in finished if record["status"] == "failed"]
    for record in failed[:5]:
        note(f"failed: {record['method']} {record['instance']}: {record['detail']} ({out / record['log']})")
    if len(failed) > 5:
        note(f"failed: {len(failed) - 5} more")


def show_summary(args: argparse.Namespace, summary: Mapping[str, Any]) -> None:
    """Print what is done."""
    from .progress import clock

    statuses = ", ".join(f"{status} {count}" for status, count in summary["statuses"].items())
    rows = [
        ("folder", summary["out"]),
        ("runs", f"{summary['done']} of {summary['runs']} done, {summary['finished']} of them now"),
        ("statuses", statuses or "none"),
        ("time", clock(summary["seconds"])),
    ]
    emit_found(args.json, dict(summary), rows)


def _list(
    args: argparse.Namespace,
    runs: Sequence[RunSpec],
    left: Sequence[RunSpec],
    done: Mapping[str, Mapping[str, Any]],
) -> int:
    """Print the runs and how long what is left takes; nothing is written."""
    from ..results.sweeps.estimate import Estimator
    from .progress import estimated

    estimator = Estimator(left, done.values())
    if args.slurm is None:
        warn_of_threads(left, args.jobs)
    if args.json:
        rest = estimator.rest()
        emit_json(
            {
                "runs": [run.to_dict() for run in runs],
                "pending": [run.name for run in left],
                "jobs": args.jobs,
                "seconds": round(rest.seconds / args.jobs, 3),
            }
        )
        return 0
    columns = ("run", "problem", "instance", "method", "parameters", "seed", "state")
    rows = [
        (
            run.name,
            run.problem,
            run.instance,
            run.method,
            ", ".join(f"{key}={value}" for key, value in run.parameters.items()),
            str(run.seed),
            str(done[run.name]["status"]) if run.name in done else "to do",
        )
        for run in runs
    ]
    emit_table(columns, rows, right=("seed",))
    kinds = Counter(run.method for run in left)
    emit("")
    emit(f"{len(left)} of {len(runs)} runs to do: {', '.join(f'{m} {n}' for m, n in sorted(kinds.items()))}")
    emit(f"{estimated(estimator, args.jobs)} with {args.jobs} at a time")
    return 0
