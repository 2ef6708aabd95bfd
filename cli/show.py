"""``lowtide show``: what a graph, buffers or a machine consist of, and how much memory is needed at least."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from .output import emit_json, emit_pairs, emit_table
from .parser import SPEC_HELP, add_verb, whole_number
from .progress import loading

if TYPE_CHECKING:
    from ..models.graph import Graph
    from .parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "show",
        run,
        examples=[
            "lowtide show onnx:densenet121",
            "lowtide show graph.json.gz --largest 20",
            "lowtide show snapshot.pickle",
            "lowtide show h200-node",
        ],
    )
    parser.add_argument("spec", help=f"{SPEC_HELP}; or a machine (lowtide list machines, or a .toml file)")
    parser.add_argument(
        "--largest",
        type=whole_number(0),
        default=8,
        metavar="N",
        help="tensors or buffers to list (default 8)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the description."""
    from ..instances import load, load_buffers
    from ..instances.machines import machine_names
    from ..models.errors import UsageError
    from ..models.texts import nearest
    from . import show_buffers, show_machine, show_snapshot

    if args.spec in machine_names() or args.spec.endswith(".toml"):
        show_machine.run(args)
        return 0
    if show_snapshot.is_snapshot(args.spec):
        show_snapshot.run(args)
        return 0
    if show_buffers.holds_buffers(args.spec):
        about = show_buffers.describe(load_buffers(args.spec), args.spec, args.largest)
        emit_json(about) if args.json else show_buffers.print_description(about)
        return 0
    close = nearest(args.spec, machine_names())
    if close.startswith("did you mean") and not ({":", "/", "."} & {*args.spec} or os.path.exists(args.spec)):
        raise UsageError(f"show: found no file or machine {args.spec!r}, {close}")
    with loading(args.spec):
        about = describe(load(args.spec), args.spec, args.largest)
    if args.json:
        emit_json(about)
    else:
        _print(about)
    return 0


def describe(graph: Graph, source: str, largest: int) -> dict[str, Any]:
    """Return what ``show --json`` prints."""
    from ..models.derived.memory import sequential_memory
    from ..models.derived.precedence import precedence
    from ..solvers.peak.bounds.cut_bound import working_set_bound
    from .known import known_about

    known = known_about(graph, given=None, order=None)
    by_size = sorted(range(len(graph.tensors)), key=lambda t: (-graph.tensors[t].nbytes, t))
    return {
        "source": source,
        **graph.summary(),
        "durations": graph.durations,
        "edges": precedence(graph).n_edges,
        "tensors_by_kind": _count([t.kind for t in graph.tensors]),
        "ops_by_kind": _count([op.kind for op in graph.ops]),
        "dropped_bytes": graph.dropped_bytes,
        "reference_peak": sequential_memory(graph).peak(range(len(graph.ops))),
        "working_set_bound": working_set_bound(graph),
        "best_known": known.best,
        "known_bound": known.bound,
        "largest": [
            {
                "index": t,
                "name": graph.tensors[t].name,
                "kind": graph.tensors[t].kind,
                "nbytes": graph.tensors[t].nbytes,
            }
            for t in by_size[:largest]
        ],
        "provenance": dict(graph.provenance),
    }


def _count(words: list[str]) -> dict[str, int]:
    from collections import Counter

    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _print(about: dict[str, Any]) -> None:
    from ..models.units import exact_bytes, format_bytes, format_duration

    rows = [
        ("graph", about["name"]),
        ("source", about["source"]),
        ("sha256", about["sha256"]),
        ("accounting", about["accounting"]),
        ("ops", f"{about['ops']:,}" + _list_of(about["ops_by_kind"])),
        ("tensors", f"{about['tensors']:,} ({about['initial']:,} initial, {about['final']:,} final)"),
        ("precedence", f"{about['edges']:,} edges"),
        ("bytes", exact_bytes(about["bytes"])),
        ("sum of durations", format_duration(about["duration_ns"])),
        ("durations", about["durations"]),
        ("reference order", f"peak {exact_bytes(about['reference_peak'])}"),
        ("largest working set", f"{exact_bytes(about['working_set_bound'])}, a bound for every order"),
    ]
    if about["best_known"] is not None:
        rows.append(("best known peak", exact_bytes(about["best_known"])))
    if about["known_bound"] is not None:
        rows.append(("best known bound", exact_bytes(about["known_bound"])))
    folded = about["provenance"].get("views_folded")
    if type(folded) is int and folded > 0:
        rows.append(("views", f"{folded:,} nodes of the model (Reshape and the like): no ops, no bytes"))
    rows += [
        ("dropped", f"{kinds} tensors count 0 bytes; they are {exact_bytes(lost)}")
        for kinds, lost in about["dropped_bytes"].items()
    ]
    emit_pairs(rows)
    emit_table(
        ["kind", "tensors", "bytes", "size"],
        [
            [kind, f"{count:,}", f"{nbytes:,}", format_bytes(nbytes)]
            for kind, count in about["tensors_by_kind"].items()
            for nbytes in [about["bytes_by_kind"].get(kind, 0)]
        ],
        title="bytes by kind",
        right=("tensors", "bytes", "size"),
    )
    if about["largest"]:
        emit_table(
            ["tensor", "name", "kind", "bytes", "size"],
            [
                [str(t["index"]), t["name"], t["kind"], f"{t['nbytes']:,}", format_bytes(t["nbytes"])]
                for t in about["largest"]
            ],
            title="largest tensors",
            right=("tensor", "bytes", "size"),
        )


def _list_of(counts: dict[str, int]) -> str:
    """Return the most frequent kinds of op, in brackets."""
    parts = [f"{count} {kind}" for kind, count in counts.items() if kind]
    return f" ({', '.join(parts[:6])}{', …' if len(parts) > 6 else ''})" if parts else ""
