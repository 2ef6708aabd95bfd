"""``lowtide table``: a table of the runs of experiments."""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING

from . import runs as runs_of
from .files import check_outputs
from .output import emit, emit_pairs, emit_table
from .parser import add_verb

if TYPE_CHECKING:
    from ..results.tables.tables import Table
    from .parser import Subparsers

FORMATS = {"text": ".txt", "md": ".md", "latex": ".tex", "csv": ".csv", "json": ".json"}
"""The formats, and the ending of a file that names each."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "table",
        run,
        details=(
            "Without --value and --cols: a summary, one row per method. Means are over the runs that have "
            "the value, and say over how many; runs that cannot be compared are not mixed."
        ),
        examples=[
            "lowtide table runs/peak",
            "lowtide table runs/peak --rows instance --cols method --value gap --total --format latex",
            "lowtide table runs/peak --value objective --unit MiB --where problem=peak --where seed=1",
            "lowtide table runs/peak --value par10 --rows problem --virtual-best --format csv -o par10.csv",
        ],
    )
    parser.add_argument("paths", nargs="+", metavar="DIR|FILE", help="experiments, or files of records")
    parser.add_argument("--rows", type=_names, metavar="COLUMNS", help="what names the rows (instance)")
    parser.add_argument("--cols", type=_names, metavar="COLUMNS", help="what names the columns (setting)")
    parser.add_argument("--value", metavar="NAME", help=f"{_values()}, or a column of numbers")
    parser.add_argument("--aggregate", metavar="HOW", help="mean, sgm, median, min, max or sum")
    parser.add_argument(
        "--shift",
        type=_shift,
        default=1.0,
        metavar="NUMBER",
        help="of the shifted geometric mean (default 1)",
    )
    parser.add_argument("--total", action="store_true", help="add rows over all rows")
    parser.add_argument(
        "--pool", type=_names, default=(), metavar="COLUMNS", help="mix runs that differ in these"
    )
    parser.add_argument("--unit", metavar="UNIT", help="of bytes or ns: KiB, MiB, GiB, us, ms, s")
    runs_of.add_options(parser)
    parser.add_argument("--format", choices=[*FORMATS], help="default: by the ending of the file, else text")
    parser.add_argument("-o", "--out", metavar="FILE", help="write it there instead")


def run(args: argparse.Namespace) -> int:
    """Print or write the table."""
    from ..models.errors import UsageError
    from ..models.files import write_whole
    from ..results.tables.tables import pivot, summary

    check_outputs({"--out": args.out}, args.paths)
    chosen = _format(args)
    records = runs_of.read_runs(args.paths, args)
    if args.value is None and args.cols is None:
        if args.aggregate is not None or args.total:
            raise UsageError("table: found --aggregate or --total without --value, expected one")
        table = summary(records, args.rows, shift=args.shift, pool=args.pool)
    else:
        table = pivot(
            records,
            args.rows or ("instance",),
            args.cols or ("setting",),
            args.value or "gap",
            aggregate=args.aggregate,
            shift=args.shift,
            total=args.total,
            pool=args.pool,
        )
    if args.out is not None:
        write_whole(args.out, _text(table, chosen, args.unit).encode())
        emit_pairs([("rows", f"{len(table.labels)}"), ("written", args.out)])
    elif chosen == "text":
        _show(table, args.unit)
    else:
        emit(_text(table, chosen, args.unit).rstrip("\n"))
    return 0


def _format(args: argparse.Namespace) -> str:
    from ..models.errors import UsageError

    chosen: str | None = args.format
    if args.json and chosen not in (None, "json"):
        raise UsageError(f"table: found --json with --format {chosen}, expected one of them")
    ending = os.path.splitext(args.out or "")[1]
    named = next((form for form, known in FORMATS.items() if known == ending), "text")
    return "json" if args.json else chosen or named


def _text(table: Table, form: str, unit: str | None) -> str:
    import json

    from ..results.tables import table_text

    if form == "md":
        return table_text.markdown(table, unit)
    if form == "latex":
        return table_text.latex(table, unit)
    if form == "csv":
        return table_text.csv(table)
    if form == "json":
        return json.dumps(table_text.json_values(table), ensure_ascii=False) + "\n"
    return table_text.text(table, unit)


def _show(table: Table, unit: str | None) -> None:
    from ..results.tables.table_text import plain

    title, columns, rows = plain(table, unit)
    emit_table(columns, rows, title=title, right=columns[len(table.keys) :])
    if table.note:
        emit("")
        emit(table.note)


def _names(text: str) -> tuple[str, ...]:
    """Convert ``a,b``; in names of columns ``.`` and ``-`` are as good as ``_``."""
    names = tuple(name.strip().replace(".", "_").replace("-", "_") for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected names of columns: A or A,B")
    return names


def _shift(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number >= 0")
    return value


def _values() -> str:
    from ..results.tables.values import VALUES

    return ", ".join(VALUES)
