"""``lowtide explain``: which buffers make a capacity impossible, none of them to be spared."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .files import check_outputs
from .output import emit_json, emit_pairs, emit_table
from .parser import SPEC_HELP, add_verb, seconds_or_none, size, whole_number
from .progress import Progress

if TYPE_CHECKING:
    from ..models.buffers import Buffers
    from ..solvers.explain import Explanation
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "explain",
        run,
        details="Exit status 0 whether they fit or not, 1 if the time was up before either was proved.",
        examples=[
            "lowtide explain buffers.csv --capacity 1MiB",
            "lowtide explain plan.json --capacity 40GiB --out core.csv --json",
        ],
    )
    parser.add_argument("spec", help=f"buffers: {SPEC_HELP}")
    parser.add_argument("--capacity", type=size, metavar="SIZE", help="instead of those of the instance")
    parser.add_argument(
        "--method", default="cpsat", help="an exact method for offsets that answers (default cpsat)"
    )
    parser.add_argument(
        "--time-limit",
        type=seconds_or_none,
        default=60.0,
        metavar="SECONDS",
        help="or none (default 60)",
    )
    parser.add_argument("--seed", type=whole_number(0), default=0, help="for everything random (default 0)")
    parser.add_argument(
        "--threads", type=whole_number(1), metavar="N", help="default: the cores this process may use"
    )
    parser.add_argument("--out", metavar="FILE", help="write the set as buffers, .csv or .json(.gz)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--progress", action="store_true", help="show every step, also in a pipe")
    shown.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Explain and print the set."""
    from ..instances import load_buffers
    from ..models.errors import UsageError
    from ..solvers.explain import explain, subset
    from ..solvers.registry import find_method

    if find_method("offsets", args.method).proves != "optimum":
        raise UsageError(f"explain: found method {args.method!r}, expected an exact one")
    check_outputs({"--out": args.out}, (args.spec,))
    given = {} if args.capacity is None else {"capacity": args.capacity}
    buffers = load_buffers(args.spec, **given)
    check_outputs({"--out": args.out})
    unlimited = all(capacity is None for capacity in buffers.pools.values())
    if unlimited and all(b.offset is None for b in buffers.buffers):
        raise UsageError(f"{args.spec}: found no capacity, expected --capacity SIZE")
    with Progress(quiet=args.quiet, always=args.progress) as progress:
        why = explain(
            buffers,
            method=args.method,
            time_limit=args.time_limit,
            seed=args.seed,
            threads=args.threads,
            progress=progress,
        )
    written = None
    if args.out is not None and why.members:
        _write(subset(buffers, why.members), args.out)
        written = args.out
    if args.json:
        emit_json(
            {"instance": buffers.name, "buffers": len(buffers.buffers), **why.to_dict(), "written": written}
        )
    else:
        _print(buffers, why, written)
    return 1 if why.status == "unknown" else 0


def _write(buffers: Buffers, path: str) -> None:
    from ..instances import write_buffers, write_csv
    from ..instances.answers import is_csv

    if is_csv(path):
        write_csv(buffers, path)
    else:
        write_buffers(buffers, path)


def _print(buffers: Buffers, why: Explanation, written: str | None) -> None:
    from ..models.units import exact_bytes, format_duration

    rows = [
        ("instance", f"{buffers.name} ({len(buffers.buffers):,} buffers)"),
        ("status", why.status.value),
        ("reason", why.detail),
    ]
    if why.members:
        if why.pool:
            rows.append(("pool", why.pool))
        if why.capacity is not None:
            rows.append(("capacity", exact_bytes(why.capacity)))
        rows.append(("set", _about_set(why)))
    rows.append(("time", format_duration(round(why.seconds * 1e9))))
    if written is not None:
        rows.append(("written", written))
    emit_pairs(rows)
    members = [b for b in buffers.buffers if b.id in set(why.members)]
    if members:
        emit_table(
            ["id", "lower", "upper", "size", "alignment", "offset", "gaps"],
            [_row(b.to_dict()) for b in members],
            title="buffers without allocation",
            right=("lower", "upper", "size", "alignment", "offset"),
        )


def _about_set(why: Explanation) -> str:
    count = len(why.members)
    if count == 1:
        return "1 buffer, by itself"
    if why.irreducible:
        return f"{count:,} buffers, irreducible: without any one of them the others fit"
    return f"{count:,} buffers, {len(why.witnesses):,} of them proved to be needed before the time was up"


def _row(values: dict[str, Any]) -> list[str]:
    keys = ("id", "lower", "upper", "size", "alignment", "offset")
    return [*(str(values.get(key, "-")) for key in keys), str(values.get("gaps", "-"))]
