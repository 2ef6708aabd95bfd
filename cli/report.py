"""``lowtide report``: everything about some experiments in one HTML file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .files import check_outputs
from .output import emit_found, note
from .parser import add_verb

if TYPE_CHECKING:
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "report",
        run,
        details=(
            "It has tables that sort and filter, charts, and the command that repeats each run, and fetches\n"
            "nothing. Of plans that were kept the best of each instance is verified again and drawn."
        ),
        examples=[
            "lowtide report runs/peak -o report.html",
            "lowtide report runs/* -o all.html --no-profiles",
        ],
    )
    parser.add_argument("folders", nargs="+", metavar="DIR", help="experiments (or files of records)")
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the file to write, .html")
    parser.add_argument("--title", metavar="TEXT", help="default: the names of the experiments")
    parser.add_argument("--no-profiles", action="store_true", help="draw no memory profiles")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Write the report."""
    from ..models.errors import UsageError
    from ..models.units import exact_bytes
    from ..results.reports.report import write_report

    if not args.out.lower().endswith((".html", ".htm")):
        raise UsageError(f"{args.out}: found another ending, expected .html")
    check_outputs({"--out": args.out}, args.folders)
    size = write_report(
        args.folders,
        args.out,
        title=args.title,
        profiles=not args.no_profiles,
        progress=(lambda line: None) if args.quiet else note,
    )
    emit_found(
        args.json,
        {"experiments": args.folders, "written": args.out, "nbytes": size},
        [("experiments", ", ".join(args.folders)), ("written", f"{args.out}, {exact_bytes(size)}")],
    )
    return 0
