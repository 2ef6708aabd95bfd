"""``lowtide solve makespan|recompute … --sweep-memory N``: the trade-off between memory and makespan."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import emit, emit_json, emit_pairs, emit_table, note
from .parser import refuse_useless, whole_number
from .progress import Progress

if TYPE_CHECKING:
    from ..models.problems.trade_off import TradeOff

_USELESS = ("memory", "hint", "log")
"""Flags of a single schedule."""


def add_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags of a sweep."""
    parser.add_argument(
        "--sweep-memory",
        type=whole_number(2),
        metavar="N",
        help="the fastest plan within each of N memories, from the least to what is enough for the fastest "
        "(--time-limit is for all together; --plan FOLDER takes a plan for each)",
    )
    parser.add_argument("--plot", metavar="FILE", help="with --sweep-memory: a picture, .svg, .png or .pdf")


def check_flags(args: argparse.Namespace) -> None:
    """Raise `UsageError` at flags that do not go together, files that cannot be written.

    Called before anything is loaded.
    """
    from ..instances import check_writable
    from ..models.errors import UsageError
    from ..results import plot

    if args.sweep_memory is None:
        if args.plot is not None:
            raise UsageError("solve: found --plot without --sweep-memory, expected both")
        return
    refuse_useless(args, "--sweep-memory", _USELESS)
    if args.plot is not None:
        check_writable(args.plot)
        plot.file_kind(args.plot)
        plot.new_figure()  # whether there is matplotlib, before the sweep
    if args.plan is not None:
        _check_folder(args.plan)


def run(args: argparse.Namespace, problem: Any, options: dict[str, str]) -> int:
    """Sweep, print the curve, write plans and picture."""
    from ..results import plot
    from ..solvers.trade_off import sweep_memory

    with Progress(quiet=args.quiet, always=args.progress, unit=problem.unit) as progress:
        curve = sweep_memory(
            problem,
            args.sweep_memory,
            method=args.method,
            time_limit=args.time_limit,
            seed=args.seed,
            threads=args.threads,
            memory_limit=args.memory_limit,
            options=options,
            progress=progress,
        )
    paths = [] if args.plan is None or not curve.points else _write_plans(curve, Path(args.plan))
    if args.plot is not None and curve.points:
        plot.save(plot.trade_off(curve, plot.new_axes()), args.plot)
    if args.json:
        emit_json(curve.record(paths))
    else:
        _show(curve, args)
    if curve.reason == "crash":
        note(f"{curve.runs[-1].method}: {curve.runs[-1].detail}")
        return 1
    return 130 if curve.reason == "interrupted" and not curve.points else 0


def _check_folder(path: str) -> None:
    """Raise `UsageError` unless the path is a folder, or can become one."""
    from ..models.errors import UsageError

    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--plan: found the file {path}, expected a folder for the plans of the sweep")
    if not folder.exists() and not folder.absolute().parent.is_dir():
        raise UsageError(f"--plan: found no folder above {path}, expected an existing one")


def _write_plans(curve: TradeOff, folder: Path) -> list[str | None]:
    """Write a plan for each memory, named by its bytes; return the paths."""
    from ..instances import write_plan

    folder.mkdir(exist_ok=True)
    paths: list[str | None] = []
    for point in curve.points:
        assert point.plan is not None
        path = str(folder / f"{point.memory}.json")
        write_plan(point.plan, path)
        paths.append(path)
    return paths


def _show(curve: TradeOff, args: argparse.Namespace) -> None:
    """Write what people want to know, then a row for each memory."""
    from ..models.units import exact_bytes, exact_value, format_bytes, format_duration, format_gap

    stopped = {"time": "stopped by time", "crash": "failed"}.get(curve.reason or "", curve.reason)
    rows: list[tuple[str, str]] = [
        ("instance", curve.instance),
        ("machine", curve.machine),
        ("method", curve.method),
        ("no schedule below", f"{exact_bytes(curve.least_memory)} (proved)"),
    ]
    if curve.bound is not None:
        rows.append(("bound at any memory", exact_value(curve.bound, "ns")))
    if stopped is not None:
        rows.append(("ended", f"{stopped}, after {len(curve.points)} of {args.sweep_memory} memories"))
    rows.append(("seconds", f"{curve.seconds:.2f}"))
    emit_pairs(rows)
    columns = ("memory", "peak", "makespan", "bound", "gap", "status")
    table = [
        (
            format_bytes(point.memory),
            format_bytes(point.peak),
            format_duration(point.makespan),
            "none" if point.bound is None else format_duration(point.bound),
            format_gap(point.gap),
            "optimal" if point.optimal else "feasible",
        )
        for point in curve.points
    ]
    if table:
        emit_table(columns, table, right=columns[:-1])
    written = [path for path in (args.plan, args.plot) if path is not None and curve.points]
    if written:
        emit(f"\nwritten: {', '.join(written)}")
