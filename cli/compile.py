"""``lowtide compile``: compile the kernels of all methods, so that no later run does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .output import emit, emit_json, emit_table
from .parser import add_verb, whole_number
from .progress import Progress

if TYPE_CHECKING:
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "compile",
        run,
        details="Otherwise the first solve by a method compiles what it needs, before its clock starts. It "
        "is kept in LOWTIDE_CACHE_DIR, else in NUMBA_CACHE_DIR, else in the user's folder for caches.",
        examples=["lowtide compile", "LOWTIDE_CACHE_DIR=/opt/lowtide lowtide compile --jobs 8"],
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), metavar="N", help="processes at a time (default: the cores)"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Compile, and say what and where."""
    from ..solvers.engines.compilation import compile_all

    with Progress(quiet=args.quiet) as progress:
        done = compile_all(jobs=args.jobs, progress=progress)
    if args.json:
        emit_json(
            {
                "folder": str(done.folder),
                "compiled": [
                    {"kernel": name, "seconds": round(seconds, 3)} for name, seconds in done.compiled
                ],
                "present": list(done.present),
                "seconds": round(done.seconds, 3),
            }
        )
        return 0
    rows = [(name, f"{seconds:.1f}") for name, seconds in sorted(done.compiled)]
    if rows:
        emit_table(("kernel", "seconds"), rows, right=("seconds",))
    emit(
        f"{len(done.compiled)} kernels compiled in {done.seconds:.1f} s, {len(done.present)} were there: "
        f"{done.folder}"
    )
    return 0
