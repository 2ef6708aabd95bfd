"""Placement of training iterations at three budgets: plans of `slot-lp` and their gaps.

    python results/reproductions/placement_chains.py [--ops 50 200] [--seeds 10] [--networks NAME ...]

Instances: training chains with skip connections (`gen:skipchain`) on 12 GB/s each way, and networks of the
catalogue in blocks of 50 ops (`blocks=50`) on links, each way, over which all activations go and come back in
the time of the ops. Everything starts on the device, which has a part of the peak of the reference order; one
thread. Seconds are those of the processor, of loading, solving and verifying: the time limit is one of the
clock.

Writes ``placement_chains.csv`` and ``placement_chains.md`` beside this script; rows of instances that are not
solved again stay.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.instances.load_placement import load_placement
from lowtide.instances.spec import resolved_spec
from lowtide.results.reproductions.table_files import HERE, two_tiers, write_table

PARTS = (70, 50, 35)
"""Percent of the peak."""
NETWORKS = (
    "resnet50",
    "densenet121",
    "efficientnet-b0",
    "original-unet",
    "diffusion-unet",
    "vit-b-16",
    "swin-t",
    "bert-base",
    "gpt2-small-flash",
)
BLOCKS = 50
COLUMNS = (
    "graph", "ops", "seed", "budget", "device", "bytes_per_s", "ideal", "status", "makespan", "bound", "gap",
    "copies", "seconds",
)  # fmt: skip

Row = dict[str, Any]


def chain(ops: int, seed: int) -> tuple[str, str]:
    """Return the specification of a training chain, and its machine: links of 12 GB/s."""
    return f"gen:skipchain?n={ops}&seed={seed}", "v100-16g-pcie3"


def network(name: str) -> tuple[str, str]:
    """Return the specification of a network in blocks, and the file of its machine.

    Its activations go over the links and return while its ops run.
    """
    spec = f"catalogue:{name}-train?blocks={BLOCKS}"
    graph = lt.load(spec)
    activations = sum(t.nbytes for t in graph.tensors if t.kind == "activation")
    rate = 2 * activations * 10**9 // graph.summary()["duration_ns"]
    return spec, two_tiers(f"links-{name}", ("gpu", "host"), rate)


def solved(name: str, seed: int | None, spec: str, machine: str, part: int, time_limit: float) -> Row:
    """Return the row of one instance."""
    graph = lt.load(spec)
    device = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) * part // 100
    instance = f"{spec}&machine={machine}&start=gpu&device={device}B"
    began = time.process_time()
    problem = load_placement(resolved_spec(instance, str(HERE)))
    (rate,) = {c.bytes_per_s for c in problem.machine.channels}
    result = lt.solve(problem, "slot-lp", time_limit=time_limit, threads=1)
    assert result.status is not lt.Status.FAILED, result.detail
    return {
        "instance": instance,
        "graph": name,
        "ops": len(graph.ops),
        "seed": seed,
        "budget": f"{part}%",
        "device": device,
        "bytes_per_s": rate,
        "ideal": graph.summary()["duration_ns"],
        "status": str(result.status),
        "makespan": result.objective,
        "bound": result.bound,
        "gap": result.gap,
        "copies": None if result.plan is None else len(result.plan.copies),
        "seconds": round(time.process_time() - began, 2),
    }


def markdown(table: list[Row]) -> str:
    """Return a line for each size and budget of chains, then one for each network and budget."""
    lines = [
        "Training iterations, single run, everything on the device at the start; plans of `slot-lp`, "
        "verified, against certified bounds. Chains: random ones with skip connections; links of 12 GB/s "
        "each way. Made by `python results/reproductions/placement_chains.py`.",
        "",
        "| ops | budget | seeds | solved | median gap | largest gap | median stall | median CPU s "
        "| largest CPU s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    chains = [row for row in table if row["graph"] == "skipchain"]
    for ops, part in dict.fromkeys((row["ops"], row["budget"]) for row in chains):
        some = [row for row in chains if (row["ops"], row["budget"]) == (ops, part)]
        found = [row for row in some if row["makespan"] is not None]
        gaps = [row["gap"] for row in found]
        stalls = [row["makespan"] / row["ideal"] - 1 for row in found]
        seconds = [row["seconds"] for row in some]
        cells = [str(ops), part, str(len(some)), str(len(found))]
        cells += [f"{statistics.median(gaps):.1e}", f"{max(gaps):.1e}"] if gaps else ["-", "-"]
        cells += [f"{statistics.median(stalls):.1%}"] if stalls else ["-"]
        cells += [f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        f"Networks of the catalogue in blocks of {BLOCKS} ops, durations by a roofline model, on links over "
        "which all activations go and come back in the time of the ops. Budgets that one op alone exceeds "
        "are infeasible.",
        "",
        "| network | budget | GB/s | status | gap | stall | copies | CPU s |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in table:
        if row["graph"] != "skipchain":
            cells = [row["graph"], row["budget"], f"{row['bytes_per_s'] / 1e9:.0f}", row["status"]]
            if row["makespan"] is None:
                cells += ["-", "-", "-"]
            else:
                stall = row["makespan"] / row["ideal"] - 1
                cells += [f"{row['gap']:.1e}", f"{stall:.1%}", str(row["copies"])]
            lines.append("| " + " | ".join([*cells, f"{row['seconds']:.1f}"]) + " |")
    return "\n".join(lines) + "\n"


def read(path: Path) -> list[Row]:
    """Return the rows that are there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    for row in rows:
        for key in ("ops", "seed", "device", "bytes_per_s", "ideal", "makespan", "bound", "copies"):
            row[key] = int(row[key]) if row[key] else None
        for key in ("gap", "seconds"):
            row[key] = float(row[key]) if row[key] else None
    return rows


def main() -> None:
    """Solve the instances, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", type=int, nargs="*", default=[50, 200], help="lengths of chains")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--time-limit", type=float, default=120)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the files")
    arguments = parser.parse_args()
    instances: list[tuple[str, int | None, str, str]] = [
        ("skipchain", seed, *chain(ops, seed))
        for ops in arguments.ops
        for seed in range(1, arguments.seeds + 1)
    ]
    instances += [(name, None, *network(name)) for name in arguments.networks]
    path = arguments.out / "placement_chains.csv"
    rows = {(r["graph"], r["ops"], r["seed"], r["budget"]): r for r in read(path)}
    for name, seed, spec, machine in instances:
        for part in PARTS:
            row = solved(name, seed, spec, machine, part, arguments.time_limit)
            rows[row["graph"], row["ops"], row["seed"], row["budget"]] = row
            print(row, flush=True)
    known = ["skipchain", *NETWORKS]
    table = sorted(
        rows.values(),
        key=lambda r: (known.index(r["graph"]), r["ops"], -int(r["budget"][:-1]), r["seed"] or 0),
    )
    text = markdown(table)
    write_table("placement_chains", COLUMNS, table, text, folder=arguments.out)
    print(text)


if __name__ == "__main__":
    main()
