"""``lowtide demo``: the least memory of a training iteration of a real network, proved and drawn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import emit, emit_json, emit_table, note
from .parser import add_verb, seconds_or_none
from .progress import Progress
from .solve import exit_status, is_verified

if TYPE_CHECKING:
    from .parser import Subparsers

SPEC = "onnx:squeezenet?train=1"


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "demo",
        run,
        details="Writes plan.json, and profile and allocation as .svg and .png.",
        examples=["lowtide demo", "lowtide demo --out pictures"],
    )
    parser.add_argument("--out", default="demo", metavar="FOLDER", help="made if missing (default demo)")
    parser.add_argument(
        "--time-limit", type=seconds_or_none, default=60.0, metavar="SECONDS", help="default 60"
    )


def run(args: argparse.Namespace) -> int:
    """Solve, verify, draw."""
    from ..instances import check_writable, load, read_plan, write_plan
    from ..models.errors import UsageError
    from ..models.problems.offsets import Offsets
    from ..models.problems.peak import Peak
    from ..models.verifier.verify import verify
    from ..results import plot
    from ..solvers.solve import solve

    graph = load(SPEC)
    ax = plot.new_axes()
    folder = Path(args.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out: found {error.strerror} at {args.out}, expected a folder") from None
    files = {kind: str(folder / name) for kind, name in _FILES.items()}
    for path in files.values():
        check_writable(path)
    problem = Peak(graph)
    reference = solve(problem, "reference")
    greedy = solve(problem, "greedy")
    with Progress() as progress:
        best = solve(problem, time_limit=args.time_limit, progress=progress)
    if best.plan is None or not is_verified(best):
        note(f"found no plan: {best.status} {best.detail}".rstrip())
        return exit_status(best)
    with Progress() as progress:
        addresses = Offsets.from_plan(graph, best.plan)
        placed = solve(addresses, time_limit=args.time_limit, progress=progress)
    if placed.plan is None or not is_verified(placed):
        note(f"found no allocation: {placed.status} {placed.detail}".rstrip())
        return exit_status(placed)
    write_plan(placed.plan, files["plan"])
    verify(graph, read_plan(files["plan"])).raise_if_invalid()
    plot.profile(best, ax=ax)
    allocation = plot.allocation(placed, graph, plot.new_axes())
    for kind in ("svg", "png"):
        plot.save(ax, files[kind])
        plot.save(allocation, files[f"allocation_{kind}"])
    values: dict[str, Any] = {
        "instance": SPEC,
        "ops": len(graph.ops),
        "tensors": len(graph.tensors),
        "reference": reference.objective,
        "greedy": greedy.objective,
        "objective": best.objective,
        "bound": best.bound,
        "gap": best.gap,
        "status": str(best.status),
        "height": placed.objective,
        "height_bound": placed.bound,
        "verified": True,
        "seconds": round(sum(best.seconds.values()) + sum(placed.seconds.values()), 3),
        "files": files,
    }
    if args.json:
        emit_json(values)
    else:
        _print(values)
    return exit_status(best)


_FILES = {
    "plan": "plan.json",
    "svg": "profile.svg",
    "png": "profile.png",
    "allocation_svg": "allocation.svg",
    "allocation_png": "allocation.png",
}


def _print(values: dict[str, Any]) -> None:
    from ..models.units import exact_bytes, format_gap

    emit_table(
        ["", values["instance"]],
        [
            ["ops", f"{values['ops']:,}"],
            ["tensors", f"{values['tensors']:,}"],
            ["peak of the reference order", exact_bytes(values["reference"])],
            ["peak of the greedy order", exact_bytes(values["greedy"])],
            ["least peak found", exact_bytes(values["objective"])],
            ["proved bound", "none" if values["bound"] is None else exact_bytes(values["bound"])],
            ["gap", format_gap(values["gap"])],
            ["status", values["status"]],
            ["height of the allocation, in place where ops may", exact_bytes(values["height"])],
            ["proved bound of heights", exact_bytes(values["height_bound"])],
            ["verified", "yes"],
            ["seconds", f"{values['seconds']:.2f}"],
        ],
        right=(values["instance"],),
    )
    emit("\nwritten: " + ", ".join(values["files"].values()))
