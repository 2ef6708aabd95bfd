"""Predicted against measured: training steps that need more than a device's memory, each with several plans.

    python -m lowtide.results.predicted_measured NETWORK... --memory SIZE --out DIR
        [--times 1.5 2 3] [--device cuda] [--iterations 20] [--seconds 30] [--stage measure|plan|run]

For each network of ``torch:`` and each of ``--times`` the batch is the one whose training step needs about so
many times the memory, in the reference order. Then, in stages:

1. ``measure``: the graph with the durations and workspaces of its ops, and the machine with its rates
   (`lowtide.instances.torch_import.measure`), on all of the device.
2. ``plan``: for `SHARE` of the memory the orders, placements, periods and recomputations of `questions`.
   Needs neither torch nor the device.
3. ``run``: each plan is carried out, torch's allocator held to the memory; where that is not enough for it,
   the row says so, and the plan is carried out without the cap. Beside them torch's own step, also with
   ``torch.utils.checkpoint``, both without the cap.

What is there already is not made again, so stages can run on different machines, and an interrupted one goes
on. In DIR: ``machine.toml``; for each step a folder with ``graph.json.gz`` and ``plans``; ``rows.jsonl``, a
row for each plan; what a row holds: `COLUMNS`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..instances.load import load
from ..instances.load_plan import load_plan
from ..instances.machines import load_machine
from ..instances.save import save
from ..instances.spec import parse_spec
from ..models.errors import LowtideError, UsageError
from ..models.graph import Graph
from ..models.machine import Machine
from ..models.plan import Plan
from ..models.problems import PROBLEMS
from ..models.texts import one_line
from ..models.units import parse_bytes
from ..models.verifier.verify import verify
from ..solvers.solve import solve
from .tables.spec import Row

STAGES = ("measure", "plan", "run")

SHARE = 0.9
"""Of the memory that plans may fill; torch's allocator needs the rest, for gaps and for what cuBLAS keeps."""

POLICIES = ("vdnn", "autoswap", "demand-lru")
"""Published: one that offloads by layers, one by scores of absences, and one without any forecast."""

COLUMNS = (
    *("network", "batch", "memory", "needs", "device", "plan", "fits", "iterations", "copies", "recomputed"),
    *("predicted_peak", "measured_peak", "allocated_peak", "reserved_peak", "every_instant", "same_bits"),
    *("predicted_ns", "measured_ns", "predicted_busy_ns", "operators_ns"),
    *("predicted_stall_ns", "measured_stall_ns"),
)
"""Bytes and nanoseconds. ``needs`` is the peak of the reference order; ``measured_peak`` counts tensors,
``allocated_peak`` what torch's allocator gave out with workspaces, ``reserved_peak`` what it took from the
device. Busy: the sum over the ops; stall: what the period, or the one run, takes beyond that. The ratio of
``operators_ns`` to ``predicted_busy_ns`` is what copies beside them cost the ops."""


def questions(graph: Graph, machine: Machine, memory: int) -> dict[str, tuple[Any, str]]:
    """Return the questions about a step, each with the method that answers it, by what its plan is.

    Parameters
    ----------
    machine
        Its first tier is the device, of any capacity.
    memory
        Bytes that recomputation has.

    Notes
    -----
    The planner knows no cap on both directions together, so its machine is that of `uncoupled`.
    """
    placement = partial(PROBLEMS["placement"].of, graph, machine=machine, whole=True)
    planner = partial(PROBLEMS["placement"].of, graph, machine=uncoupled(machine), whole=True)
    recompute = PROBLEMS["recompute"].of(graph, memory=memory)
    return {
        "least-peak order": (PROBLEMS["peak"].of(graph), "auto"),
        "copies, `auto`": (placement(), "auto"),
        "copies, `planner`": (planner(), "planner"),
        **{f"copies, `{policy}`": (placement(), policy) for policy in POLICIES},
        "copies in a period, `auto`": (placement(periodic=True), "auto"),
        "copies in a period, `planner`": (planner(periodic=True), "planner"),
        "second runs, `auto`": (recompute, "auto"),
        "second runs, `segments`": (recompute, "segments"),
        "copies and second runs, `auto`": (placement(recompute=True), "auto"),
    }


def uncoupled(machine: Machine) -> Machine:
    """Return a machine without groups, whose channels keep to them: each has its share of what they allow."""
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    for group in machine.groups:
        whole = sum(rates[way] for way in group.channels)
        if whole > group.bytes_per_s:
            rates.update({way: rates[way] * group.bytes_per_s // whole for way in group.channels})
    channels = (replace(c, bytes_per_s=rates[c.src, c.dst]) for c in machine.channels)
    return replace(machine, channels=tuple(channels), groups=())


def batch_for(network: str, options: dict[str, str], bytes_needed: int) -> int:
    """Return the batch whose step needs about so many bytes: the peak is affine in the batch."""

    def peak(batch: int) -> int:
        words = {"train": "1", "weights": "1", **options, "batch": str(batch)}
        graph = load(f"torch:{network}?" + "&".join(f"{key}={value}" for key, value in words.items()))
        return peak_of(graph)

    small, large = peak(4), peak(8)
    return max(2, 4 + round(4 * (bytes_needed - small) / (large - small)))


def peak_of(graph: Graph) -> int:
    """Return the bytes of the reference order."""
    return max(verify(graph, Plan.from_order(graph, range(len(graph.ops)))).peaks.values())


def measure(folder: Path, network: str, options: dict[str, str], device: str, iterations: int) -> None:
    """Write the measured graph of a step, and beside its folder the measured machine."""
    from ..instances.machines.written import write_machine
    from ..instances.torch_import import record_torch
    from ..instances.torch_import.measure import measured_graph, measured_machine, measurement

    measured = measurement(device, iterations, "")
    machine = folder.parent / "machine.toml"
    if not machine.exists():
        write_machine(measured_machine(device, measured), machine, f"{measured.device}, as measured")
    given: dict[str, Any] = dict(options)
    step = record_torch(network, device=device, **given)
    save(measured_graph(step, measured), folder / "graph.json.gz")


def plan(folder: Path, memory: int, seconds: float) -> None:
    """Write the plans of a step that its methods find, and the reference order."""
    graph = load(str(folder / "graph.json.gz"))
    room = int(SHARE * memory)
    machine = load_machine(str(folder.parent / "machine.toml"), {"device": room})
    plans: dict[str, Plan | None] = {"reference order": Plan.from_order(graph, range(len(graph.ops)))}
    for kind, question in questions(graph, machine, room).items():
        result = solve(*question, time_limit=seconds, threads=1)
        plans[kind] = result.plan
        _say(f"{folder.name}, {kind}: {result.status}")
    (folder / "plans").mkdir(exist_ok=True)
    names = []
    for number, (kind, made) in enumerate(plans.items()):
        if made is not None:
            names.append([kind, f"{number:02}.json.gz"])
            save(made, folder / "plans" / names[-1][1])
    (folder / "plans.json").write_text(json.dumps(names, indent=1) + "\n")


def run(folder: Path, memory: int, device: str, iterations: int, done: set[str]) -> Iterator[Row]:
    """Carry out the plans of a step, and torch's own step; yield a row for each that is not done."""
    from ..instances.torch_import import record_torch
    from ..instances.torch_import.running.eager import eager_times
    from ..instances.torch_import.running.run import WARM_UP, deterministic

    graph = load(str(folder / "graph.json.gz"))
    spec = parse_spec(str(graph.provenance["source"]))
    given: dict[str, Any] = dict(spec.options)
    step = record_torch(spec.name, device=device, **given)
    common = {"network": spec.name, "batch": int(spec.options["batch"]), "memory": memory}
    common |= {"needs": peak_of(graph), "device": graph.provenance["measured"]["device"]}
    for kind, name in json.loads((folder / "plans.json").read_text()):
        if kind not in done:
            found, _ = load_plan(folder / "plans" / name, str(folder / "graph.json.gz"))
            yield {**common, "plan": kind, **_carried_out(step, found, graph, iterations, memory)}
    for kind, checkpointed in (("torch", False), ("torch, `checkpoint`", True)):
        if kind not in done:
            with deterministic(device):
                eager = eager_times(
                    step,
                    iterations=iterations,
                    first=WARM_UP if device == "cuda" else 0,
                    checkpointed=checkpointed,
                )
            peak = eager.allocated_peak
            fits = "" if peak is None else "yes" if peak <= memory else "no"
            own = {"plan": kind, "fits": fits, "iterations": iterations}
            yield {**common, **own, "allocated_peak": peak, "measured_ns": eager.measured_ns}


def _carried_out(step: Any, plan: Plan, graph: Graph, iterations: int, memory: int) -> Row:
    """Return what is predicted and measured of a plan; its own fields of a row."""
    import torch

    from ..instances.torch_import.running.run import run_plan

    carried_out = partial(run_plan, step, plan, graph, iterations=iterations)
    fits = "yes"
    try:
        seen = carried_out(cap=memory)
    except torch.OutOfMemoryError:
        fits = "no"
        seen = None
    if seen is None:  # not in the handler, whose error holds on to what had been allocated
        seen = carried_out()
    fast, verdict = plan.machine.tiers[0].name, verify(graph, plan)
    if seen.allocated_peak is None and seen.measured_peaks[fast] > memory:  # the CPU, which has no cap
        fits = "no"
    return {
        "fits": fits,
        "iterations": iterations,
        "copies": len(plan.copies),
        "recomputed": verdict.recomputed,
        "predicted_peak": seen.predicted_peaks[fast],
        "measured_peak": seen.measured_peaks[fast],
        "allocated_peak": seen.allocated_peak,
        "reserved_peak": seen.reserved_peak,
        "every_instant": "yes" if seen.same_profile else "no",
        "same_bits": "no" if seen.differing else "yes",
        "predicted_ns": seen.predicted_ns,
        "measured_ns": seen.measured_ns,
        "predicted_busy_ns": seen.predicted_busy_ns,
        "operators_ns": seen.operators_ns,
        "predicted_stall_ns": seen.predicted_ns - seen.predicted_busy_ns,
        "measured_stall_ns": seen.measured_ns - seen.operators_ns,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the command line says; return the exit status."""
    try:
        return _main(arguments)
    except LowtideError as error:
        _say(f"lowtide: {one_line(str(error))}")
        return 2


def _main(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lowtide.results.predicted_measured", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("networks", nargs="+", metavar="NETWORK", help="of torch:, with options behind ?")
    parser.add_argument("--memory", required=True, metavar="SIZE", help="of the device, such as 4GiB")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the files go")
    parser.add_argument("--times", nargs="+", type=float, default=[1.5, 2.0, 3.0], metavar="X", help="needs")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu")
    parser.add_argument("--iterations", type=int, default=20, metavar="N", help="that count (default 20)")
    parser.add_argument("--seconds", type=float, default=30.0, help="limit of each solve (default 30)")
    parser.add_argument("--stage", choices=STAGES, help="only this one; default: all three")
    args = parser.parse_args(arguments)
    memory, stages = parse_bytes(args.memory), STAGES if args.stage is None else (args.stage,)
    if args.iterations < 1:
        raise UsageError(f"--iterations: found {args.iterations}, expected an integer >= 1")
    if args.stage != "plan":
        _prepare(args.device)
    for word in args.networks:
        spec = parse_spec(f"torch:{word}")
        for times in args.times:
            folder = args.out / f"{spec.name}-{times:g}"
            if "measure" not in stages and not (folder / "graph.json.gz").exists():
                raise UsageError(f"--stage: found {args.stage}, expected measure first: {folder} has no step")
            if args.stage == "run" and not (folder / "plans.json").exists():
                raise UsageError(f"--stage: found run, expected plan first: {folder} has no plans")
            folder.mkdir(parents=True, exist_ok=True)
            if "measure" in stages and not (folder / "graph.json.gz").exists():
                options = {"train": "1", "weights": "1", **spec.options}
                options["batch"] = str(batch_for(spec.name, spec.options, int(times * memory)))
                _say(f"{folder.name}: batch {options['batch']}")
                measure(folder, spec.name, options, args.device, args.iterations)
            if "plan" in stages and not (folder / "plans.json").exists():
                plan(folder, memory, args.seconds)
            if "run" in stages:
                _rows(args.out / "rows.jsonl", folder, memory, args)
    return 0


def _prepare(device: str) -> None:
    from ..instances.torch_import.tracing import require_device

    require_device(device, "predicted_measured")
    if device == "cuda":
        from ..instances.torch_import.running.run import prepare

        prepare(device)


def _rows(path: Path, folder: Path, memory: int, args: argparse.Namespace) -> None:
    """Add the rows of a step that are not there yet, each as soon as it is measured."""
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {row["plan"] for row in known if row["step"] == folder.name}
    for row in run(folder, memory, args.device, args.iterations, done):
        with path.open("a") as file:
            file.write(json.dumps({"step": folder.name, **{key: row.get(key) for key in COLUMNS}}) + "\n")
        _say(f"{folder.name}, {row['plan']}: {row['measured_ns'] / 1e6:,.1f} ms")


def _say(line: str) -> None:
    """Tell how far it is, on standard error."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
