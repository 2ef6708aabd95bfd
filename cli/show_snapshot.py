"""``lowtide show`` of a CUDA memory snapshot: its peaks, fragmentation, and which code holds the bytes."""

from __future__ import annotations

import argparse
from typing import Any

from .output import emit, emit_json, emit_pairs, emit_table


def is_snapshot(spec: str) -> bool:
    """Return whether a specification is the file of a snapshot, without options.

    Raises
    ------
    InstanceError
        If it is no specification.
    """
    from ..instances import parse_spec
    from ..instances.formats import BUFFER_SCHEMES, format_of

    parsed, row = parse_spec(spec), BUFFER_SCHEMES["snapshot"]
    if parsed.scheme == "path":
        return format_of(parsed.name, buffers=True) is row and not parsed.options
    return parsed.scheme == row.name and not parsed.options


def run(args: argparse.Namespace) -> None:
    """Print the report."""
    from ..instances import parse_spec
    from ..results.adapters.cuda_snapshots import snapshot_report

    devices = snapshot_report(parse_spec(args.spec).name)
    for device in devices:
        device["holders"] = device["holders"][: args.largest]
    if args.json:
        emit_json({"source": args.spec, "devices": devices})
        return
    if not devices:
        emit(f"{args.spec}: no blocks, segments or entries")
    for device in devices:
        _print(device)


def _print(device: dict[str, Any]) -> None:
    from ..models.units import exact_bytes, format_bytes

    least = "the least of all addresses, for this order of events"
    if any(m["status"] != "optimal" for m in device["memories"]):
        bound = sum(m["bound"] or 0 for m in device["memories"])
        least = f"the best addresses in 10 s; no addresses need less than {exact_bytes(bound)}"
    rows = [
        ("device", f"gpu{device['device']}"),
        ("trace", f"{device['events']:,} allocations and frees, {device['blocks']:,} blocks"),
        ("requested", f"{exact_bytes(device['requested'])} at the peak"),
        ("rounded", f"{exact_bytes(device['rounded'])} at the peak, event {device['peak_event']:,}"),
        ("least", f"{exact_bytes(device['least'])}, {least}"),
        ("reserved", exact_bytes(device["reserved"])),
        ("fragmentation", f"{exact_bytes(device['fragmentation'])} = reserved - least"),
    ]
    if device["before"]:
        rows.append(("before", f"{device['before']:,} blocks are older than the trace"))
    if device["iterations"] is not None:
        found = device["iterations"]
        text = f"{found['count']:,} equal ones of {found['events']:,} events, from event {found['first']:,}"
        rows.append(("iterations", text))
    emit_pairs(rows)
    keys = ("blocks", "rounded", "least", "reserved", "fragmentation")
    emit_table(
        ["memory", *keys, "status"],
        [[m["memory"], *(f"{m[key]:,}" for key in keys), m["status"]] for m in device["memories"]],
        title="memories, in bytes",
        right=keys,
    )
    emit_table(
        ["bytes", "size", "blocks", "code"],
        [
            [f"{h['nbytes']:,}", format_bytes(h["nbytes"]), f"{h['blocks']:,}", h["frame"] or "unknown"]
            for h in device["holders"]
        ],
        title="held at the peak",
        right=("bytes", "size", "blocks"),
    )
