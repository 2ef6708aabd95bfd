"""What ``lowtide show`` says of a machine."""

from __future__ import annotations

import argparse

from ..models.machine import Access
from ..models.units import exact_bytes, format_duration
from ..models.work import Rates
from .output import emit, emit_json, emit_pairs, emit_table


def run(args: argparse.Namespace) -> None:
    """Print tiers, processors, channels and their joint caps."""
    from ..instances.machines import load_machine, machine_names

    machine = load_machine(args.spec)
    about = machine_names().get(args.spec, "")
    if args.json:
        rates = {} if machine.compute is None else {"compute": machine.compute.to_dict()}
        emit_json({"source": args.spec, "description": about, **machine.to_dict(), **rates})
        return
    found = machine.provenance
    measured = [] if found is None else [("measured", f"{found.date}, {found.device}; {found.conditions}")]
    emit_pairs([("machine", machine.name), *([("about", about)] if about else []), *measured])
    rows = [[t.name, "unlimited" if t.capacity is None else exact_bytes(t.capacity)] for t in machine.tiers]
    emit_table(["tier", "capacity"], rows, title="tiers", right=("capacity",))
    uses = [[p.name, p.kind, ", ".join(map(_access, p.tiers))] for p in machine.processors]
    emit_table(["processor", "kind", "reads and writes"], uses, title="processors")
    channels = [
        [f"{c.src} -> {c.dst}", _rate(c.bytes_per_s), format_duration(c.latency_ns)] for c in machine.channels
    ]
    if channels:
        emit_table(["channel", "rate", "latency"], channels, title="channels", right=("rate", "latency"))
    caps = [
        [g.name, _rate(g.bytes_per_s), ", ".join(f"{a} -> {b}" for a, b in g.channels)]
        for g in machine.groups
    ]
    if caps:
        emit_table(["group", "rate", "channels"], caps, title="joint caps", right=("rate",))
    if machine.compute is not None:
        _print_rates(machine.compute, machine.device)


def _print_rates(rates: Rates, device: str) -> None:
    memory = ["memory", _rate(rates.bytes_per_s), f"{rates.memory_percent} %"]
    arithmetic = [
        [dtype, f"{rate / 1e12:g} TOP/s", f"{rates.arithmetic_percent} %"]
        for dtype, rate in rates.operations_per_s
    ]
    title = f"rates of {device}; a kernel's launch takes {format_duration(rates.launch_ns)}"
    emit_table(["of", "rate", "reached"], [memory, *arithmetic], title=title, right=("rate", "reached"))
    if rates.source:
        emit(f"source: {rates.source}")


def _access(access: Access) -> str:
    return access.tier if access.bytes_per_s is None else f"{access.tier} at {_rate(access.bytes_per_s)}"


def _rate(bytes_per_s: int) -> str:
    """Return a rate as data sheets have it: a GB has 10**9 bytes."""
    return f"{bytes_per_s / 1e9:g} GB/s"
