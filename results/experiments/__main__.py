"""Carry out an experiment again and make its table, or make the table again from its committed rows.

    python -m lowtide.results.experiments [NAME] [--out DIR] [--only TEXT] [--table | --check]

Without a name: which experiments there are. What they consist of: `lowtide.results.experiments.running`.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, get_args, get_type_hints

from ...models.errors import LowtideError, UsageError
from ...models.texts import one_line
from ..audits.ledger import read_ledger
from ..tables.columns import EVERY
from ..tables.spec import Part, Row, filled, latex, markdown
from .compared import differences
from .running import (
    HERE,
    Case,
    into_documents,
    lowtide,
    made_by,
    made_now,
    read_rows,
    records_of,
    say,
    write_rows,
)

ONLY = "what the names of cases contain; their rows are printed, and what is committed stays"
WORDS = {
    "optimal": "rows that say optimal",
    "bounds": "rows whose bound nothing but the row says",
    "feasible": "other rows with an objective",
}
CHECK = "compare with the committed rows all but times, write nothing; exit status 1 if anything differs"
OUT = "keep the runs there, and go on with those that are there; with --table: where the text goes"


def experiments() -> dict[str, Path]:
    """Return the module of every experiment by its name."""
    found = [*HERE.glob("*/table.py"), *HERE.glob("*/make.py")]
    return {path.parent.name: path for path in sorted(found)}


def load(name: str) -> ModuleType:
    """Return the module of an experiment.

    Raises
    ------
    UsageError
        If there is none of that name, or it needs a package that is not installed.
    """
    known = experiments()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "without a name, all are listed"
        raise UsageError(f"experiment: found {name!r}, expected one that is there; {hint}")
    try:
        return import_module(f"{__package__}.{name}.{known[name].stem}")
    except ModuleNotFoundError as error:
        raise UsageError(f"{name}: found no package {error.name}, expected it to be installed") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the command line says; return the exit status."""
    try:
        return _main(sys.argv[1:] if arguments is None else arguments)
    except LowtideError as error:
        say(f"lowtide: {one_line(str(error))}")
        return 2
    except KeyboardInterrupt:
        say("lowtide: stopped; what --out DIR has is gone on with")
        return 130
    except subprocess.CalledProcessError as error:  # a row in a process of its own
        say(f"lowtide: {error.cmd[-1]}: {(error.stderr or '').strip().rpartition(chr(10))[2]}")
        return 1


def _main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        parser = argparse.ArgumentParser(prog=f"python -m {__package__}", usage="%(prog)s [NAME] [-h] ...")
        parser.description = (__doc__ or "").partition("\n")[0] + " Without a name: a list of them."
        parser.parse_args(arguments)
        for name, path in experiments().items():
            summary = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
            print(f"{name:24}{summary}")
        return 0
    name, module = arguments[0], load(arguments[0])
    args, options = _parsed(name, module, arguments[1:])
    if hasattr(module, "make"):
        module.make(**options)
    elif args.row:
        print(json.dumps(module.row(*args.row)))
    elif args.latex:
        print(latex(text_of(name, read_rows(name))), end="")
    elif args.table:
        _write_text(name, args.out)
    else:
        rows = _carried_out(name, module, args, options)
        if not args.only:
            rows = getattr(module, "together", list)(rows)
        if args.check:
            lines = list(differences(name, rows, subset=bool(args.only)))
            print(*lines or [f"{name}: {len(rows)} rows are as committed"], sep="\n")
            return int(bool(lines))
        if not args.only:
            write_rows(name, rows)
            if hasattr(module, "draw"):
                module.draw()
            _write_text(name, None)
    return 0


def _parsed(
    name: str, module: ModuleType, arguments: Sequence[str]
) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Return what the command line says, and of it what is an option of this experiment alone."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__} {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    function = getattr(module, "make", getattr(module, "cases", None))
    own = inspect.signature(function).parameters if function else {}
    hints = get_type_hints(function) if function else {}
    for key, parameter in own.items():
        kind = next((t for t in get_args(hints[key]) if t is not type(None)), hints[key])
        words = f"default {parameter.default}" if parameter.default else ""
        more: dict[str, Any] = {"action": "store_true"} if kind is bool else {"type": kind}
        parser.add_argument(f"--{key.replace('_', '-')}", default=parameter.default, help=words, **more)
    if not hasattr(module, "make"):
        parser.add_argument("--out", type=Path, metavar="DIR", help=OUT)
        parser.add_argument("--only", default="", metavar="TEXT", help=ONLY)
        parser.add_argument(
            "--table", action="store_true", help="make the text again from the committed rows"
        )
        parser.add_argument("--check", action="store_true", help=CHECK)
        parser.add_argument("--latex", action="store_true", help="print the committed table as LaTeX")
        parser.add_argument("--row", nargs="+", help=argparse.SUPPRESS)
        if function is None:
            parser.add_argument("--jobs", type=int, default=getattr(module, "JOBS", 1), help="runs at a time")
    args = parser.parse_args(arguments)
    return args, {key: getattr(args, key) for key in own}


def _carried_out(
    name: str, module: ModuleType, args: argparse.Namespace, options: dict[str, Any]
) -> list[Row]:
    """Return the rows of an experiment, measured or kept from before."""
    lowtide("compile", "--quiet")  # nothing that is measured waits for that
    found: list[Row] = []
    if hasattr(module, "cases"):
        groups = _measured(module.cases(**options), args.only, args.out, getattr(module, "THREADS", 1))
    else:
        file = getattr(module, "experiment", lambda folder: HERE / name / "experiment.toml")
        records = records_of(file, args.out, only=args.only, jobs=args.jobs)
        mark = made_by(records)
        groups = iter([[{**row, **mark, **row} for row in module.rows(records)]])
    for rows in groups:
        found += rows
        for row in rows if args.only and not args.check else ():
            print(*(cell for name, cell in row.items() if name not in EVERY), flush=True)
    if not found:
        raise UsageError(f"--only: found no case that contains {args.only!r}")
    return found


def _measured(every: Iterator[Case], only: str, out: Path | None, threads: int) -> Iterator[list[Row]]:
    """Yield the rows of cases, and keep them in a folder, if there is one."""
    cases = [case for case in every if only in case.name]
    kept = None if out is None else out / "rows.jsonl"
    known: dict[str, list[Row]] = {}
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        if kept.exists():
            known = dict(json.loads(line) for line in kept.read_text().splitlines())
    begun = time.monotonic()
    for number, case in enumerate(cases, start=1):
        if case.name not in known:
            say(f"{number} of {len(cases)}, after {time.monotonic() - begun:.0f} s: {case.name}")
            started = time.monotonic()
            with _interruptible():
                rows = list(case.measure())
            mark = made_now(threads, time.monotonic() - started)
            known[case.name] = [{**row, **mark, **row} for row in rows]
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps([case.name, known[case.name]]) + "\n")
        yield known[case.name]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end after a Ctrl-C that a solver answered with what it had by then."""
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if seen:
        raise KeyboardInterrupt


def _write_text(name: str, folder: Path | None) -> None:
    """Make the text from the committed rows, and, unless it goes elsewhere, its copies in documents."""
    rows = read_rows(name)
    text = written(name, rows)
    path = (folder or HERE / name) / "table.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    copies = into_documents(name, written(name, rows, "excerpt")) if folder is None else []
    say(f"wrote {', '.join(map(str, (path, *copies)))}")


def written(name: str, rows: list[Row], what: str = "text") -> str:
    """Return an experiment's text, or the excerpt that documents have, as Markdown."""
    return markdown(text_of(name, rows, what))


def text_of(name: str, rows: list[Row], what: str = "text") -> list[Part]:
    """Return the parts of a text: those of the template, filled with what the module says of the rows."""
    module = load(name)
    of = getattr(module, what, getattr(module, "text", lambda rows: {"table": module.TABLE.of(rows)}))
    own = HERE / name / f"{what}.md"
    template = own if own.exists() else HERE / name / "text.md"
    parts = filled(template.read_text(), {**vars(module), "rows": len(rows), **of(rows)})
    return [*parts, *witnesses_of(name)] if what == "text" else parts


def witnesses_of(name: str) -> list[Part]:
    """Return a paragraph on the rows of a table that no witness shows, as the ledger counts them."""
    entry = (read_ledger(HERE) or {}).get(name, {})
    counts = [f"{n:,} {WORDS[lacking]}" for lacking, n in entry.get("unwitnessed", {}).items()]
    said = f"Without a plan that is kept and verified again: {', '.join(counts)}."
    return (
        [f"{said} Only their hashes in `ledger.json` hold them, and what the audit makes again."]
        if counts
        else []
    )


if __name__ == "__main__":
    from ...solvers.engines.supervise import leave

    sys.exit(leave(main()))
