"""Placement of training chains with skip connections at three budgets: plans of `slot-lp` and their gaps.

    python results/reproductions/placement_chains.py [--ops 50 200] [--seeds 10] [--time-limit 120]

Writes ``placement_chains.csv`` and ``placement_chains.md`` beside this script. Everything starts on the
device, which has a part of the peak of the reference order; 12 GB/s each way; one thread. Seconds are those
of the processor, of loading, solving and verifying: the time limit is one of the clock.
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

HERE = Path(__file__).resolve().parent
PARTS = (70, 50, 35)
"""Percent of the peak."""
COLUMNS = ("ops", "seed", "budget", "device", "ideal", "makespan", "bound", "gap", "copies", "seconds")

Row = dict[str, Any]


def solved(ops: int, seed: int, part: int, time_limit: float) -> Row:
    """Return the row of one instance."""
    spec = f"gen:skipchain?n={ops}&seed={seed}"
    graph = lt.load(spec)
    device = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) * part // 100
    began = time.process_time()
    problem = load_placement(f"{spec}&machine=v100-16g-pcie3&start=gpu&device={device}B")
    result = lt.solve(problem, "slot-lp", time_limit=time_limit, threads=1)
    assert result.status is not lt.Status.FAILED, result.detail
    return {
        "ops": ops,
        "seed": seed,
        "budget": f"{part}%",
        "device": device,
        "ideal": graph.summary()["duration_ns"],
        "makespan": result.objective,
        "bound": result.bound,
        "gap": result.gap,
        "copies": None if result.plan is None else len(result.plan.copies),
        "seconds": round(time.process_time() - began, 2),
    }


def markdown(table: list[Row]) -> str:
    """Return a line for each size and budget: gaps, stalls and seconds over the seeds."""
    lines = [
        "Training chains with skip connections, single run, everything on the device at the start; plans of "
        "`slot-lp`, verified, against certified bounds. Made by "
        "`python results/reproductions/placement_chains.py`.",
        "",
        "| ops | budget | seeds | solved | median gap | largest gap | median stall | median CPU s "
        "| largest CPU s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for ops, part in dict.fromkeys((row["ops"], row["budget"]) for row in table):
        some = [row for row in table if (row["ops"], row["budget"]) == (ops, part)]
        found = [row for row in some if row["makespan"] is not None]
        gaps = [row["gap"] for row in found]
        stalls = [row["makespan"] / row["ideal"] - 1 for row in found]
        seconds = [row["seconds"] for row in some]
        cells = [str(ops), part, str(len(some)), str(len(found))]
        cells += [f"{statistics.median(gaps):.1e}", f"{max(gaps):.1e}"] if gaps else ["-", "-"]
        cells += [f"{statistics.median(stalls):.1%}"] if stalls else ["-"]
        cells += [f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Solve all instances, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--time-limit", type=float, default=120)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the files")
    arguments = parser.parse_args()
    table = []
    for ops in arguments.ops:
        for part in PARTS:
            for seed in range(1, arguments.seeds + 1):
                table.append(solved(ops, seed, part, arguments.time_limit))
                print(table[-1], flush=True)
    with (arguments.out / "placement_chains.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(table)
    text = markdown(table)
    (arguments.out / "placement_chains.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
