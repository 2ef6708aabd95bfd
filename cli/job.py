"""``lowtide job``: carry out named runs of an experiment, or one run that a file describes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import emit_json, note
from .parser import add_verb

if TYPE_CHECKING:
    from ..results.sweeps.local import RunEvent
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "job",
        run,
        details="For schedulers; lowtide bench --prepare makes the folder. A run that has a record, or that "
        "another process works on, is skipped. Exit status 0 if every run has its record, whatever it "
        "says; 130 after SIGINT or SIGTERM: the run in work leaves no record.",
        examples=[
            "lowtide bench exp.toml --out runs/peak --prepare",
            "lowtide job runs/peak 20a5943ff56db87d",
            "lowtide job run.json > record.json",
        ],
    )
    parser.add_argument(
        "folder", metavar="OUT|RUN.json", help="an experiment's folder, or a file with one run"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of runs (see OUT/runs.json)")
    parser.add_argument(
        "--out", metavar="DIR", help="of RUN.json: keep record, log and plan there as an experiment would"
    )
    parser.add_argument(
        "--retry", action="append", default=[], choices=("failed", "unknown"), help="repeat such runs too"
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="in this very process, without limits on time and memory: for debuggers and profilers",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the runs."""
    from ..models.errors import UsageError

    if not Path(args.folder).is_dir():
        if args.names or args.here or args.retry:
            raise UsageError(f"job: {args.folder}: found no folder, expected that of an experiment")
        return _run_file(args.folder, args.out)
    if not args.names or args.out is not None:
        wrong = "no names" if args.out is None else "--out"
        raise UsageError(f"job: found {wrong}, expected names of runs of {args.folder}")
    if args.here:
        return _run_here(Path(args.folder), args.names, args.json)
    from ..results.sweeps.local import execute

    events: list[RunEvent] = []

    def show(event: RunEvent) -> None:
        if event.kind != "started":
            events.append(event)
            note(line(event.run.name, event.record))

    finished = execute(args.folder, args.names, retry=args.retry, listener=show)
    if args.json:
        emit_json({"records": [event.record for event in events], "interrupted": not finished})
    return 0 if finished else 130


def line(name: str, record: dict[str, Any] | None) -> str:
    """Return what became of a run, in one line."""
    if record is None:
        return f"{name}  in work elsewhere"
    words = (record["problem"], record["method"], record["instance"], f"seed {record['seed']}")
    seconds = f"{record['seconds']['total']:.2f} s"
    return "  ".join((name, *words, record["status"], seconds))


def _run_here(out: Path, names: list[str], as_json: bool) -> int:
    from ..results.sweeps.job import run_job

    records = [run_job(out, name) for name in names]
    for record in records:
        note(line(record["name"], record))
    if as_json:
        emit_json({"records": records, "interrupted": False})
    return 0


def _run_file(path: str, out: str | None) -> int:
    """Carry out the run that a file describes, print its record."""
    import shutil
    import sys
    import tempfile

    from ..instances.formats.strict_json import parse_json, read_bytes
    from ..results.sweeps.folder import log_path
    from ..results.sweeps.local import stopped_by_signals
    from ..results.sweeps.runspec import RunSpec
    from ..results.sweeps.supervise import supervise

    run = RunSpec.from_dict(parse_json(read_bytes(path), path), path)
    with tempfile.TemporaryDirectory(prefix="lowtide-") as spare, stopped_by_signals() as stop:
        folder = Path(spare if out is None else out)
        record = supervise(folder, run, stop=stop)
        if record is None:
            return 130
        if out is None:
            with log_path(folder, run.name).open(errors="replace") as log:
                shutil.copyfileobj(log, sys.stderr)
            record |= {"log": None, "plan": None}
    emit_json(record)
    return 0
