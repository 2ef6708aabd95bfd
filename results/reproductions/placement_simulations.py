"""Measure how fast the simulator of decisions is, and what the local search that stands on it gains.

    python results/reproductions/placement_simulations.py [--time-limit 60]

Writes ``placement_simulations.csv`` and ``placement_simulations.md`` beside this script. Training chains with
skip connections in a single run at half of their peak, everything on the device at the start, whole tensors
and chunks; then the steady states of G10's workloads on its reference machine. One thread. Simulations per
second are those of the whole search: moves, simulations, plans of new bests, and the policies at its start,
by the seconds of the processor; *alone* is one simulation again and again, of the decisions of `belady`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import lowtide as lt
from lowtide.instances.load_placement import load_placement
from lowtide.results.reproductions.placement_g10 import PUBLISHED
from lowtide.results.reproductions.table_files import write_table
from lowtide.solvers.placement.policies import belady
from lowtide.solvers.placement.policies.local_search import CHUNKS, FINEST
from lowtide.solvers.placement.simulator.simulator import simulate
from lowtide.solvers.placement.simulator.simulator_case import make_case

COLUMNS = ("instance", "ops", "copies", "ideal", "policy", "best", "simulations", "seconds", "alone")
MIB = 2**20
CHAINS = (50, 200)
POLICIES = ("belady", "autoswap", "g10")

Row = dict[str, Any]


def questions() -> list[tuple[str, str]]:
    """Return what is searched: a name and a specification."""
    found = []
    for ops in CHAINS:
        spec = f"gen:skipchain?n={ops}&seed=1"
        graph = lt.load(spec)
        device = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) // 2
        options = f"machine=v100-16g-pcie3&start=gpu&device={device}B"
        found.append((f"chain of {ops} ops, whole tensors", f"{spec}&{options}&whole=1"))
        found.append((f"chain of {ops} ops, chunks", f"{spec}&{options}"))
    for workload in PUBLISHED:
        options = "machine=a100-40g-pcie3&periodic=1&start.input=anywhere"
        found.append((workload, f"catalogue:g10/{workload}?{options}"))
    return found


def searched(name: str, spec: str, time_limit: float) -> Row:
    """Return the row of one instance."""
    problem = load_placement(spec)
    policies = [lt.solve(problem, method, threads=1).objective for method in POLICIES]
    began = time.process_time()
    result = lt.solve(problem, "local-search", time_limit=time_limit, threads=1, seed=1)
    seconds = time.process_time() - began
    assert result.plan is not None, result.detail
    return {
        "instance": name,
        "question": spec,
        "ops": len(problem.graph.ops),
        "copies": len(result.plan.copies),
        "ideal": sum(op.all_modes[0].duration_ns for op in problem.graph.ops),
        "policy": min(value for value in policies if value is not None),
        "best": result.objective,
        "simulations": result.facts["simulations"],
        "seconds": round(seconds, 1),
        "alone": round(alone(problem)),
    }


def alone(problem: lt.Placement) -> float:
    """Return how many simulations of the same decisions there are per second, in chunks as searched."""
    device = problem.machine.tiers[0].capacity or 0
    case = make_case(problem, max(FINEST, device // CHUNKS // MIB) * MIB)
    ((_, decisions),) = belady.decide(case)
    decisions = decisions.with_emergencies()
    count, began = 0, time.process_time()
    while time.process_time() - began < 2:
        assert simulate(case, decisions).time is not None
        count += 1
    return count / (time.process_time() - began)


def markdown(table: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "Local search on the simulator of decisions, one thread: training chains in a single run at half of "
        "their peak, G10's workloads in steady state. Stalls in percent of the ideal time, of the best of "
        "`belady`, `autoswap` and `g10`, and of the search; simulations per second of the processor, of the "
        "search with everything around them, and alone. Made by "
        "`python results/reproductions/placement_simulations.py`.",
        "",
        "| instance | ops | copies | stall of the best policy | of the search | simulations | CPU s "
        "| per second | alone |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in table:
        stalls = [f"{100 * (row[key] / row['ideal'] - 1):.2f}" for key in ("policy", "best")]
        cells = [row["instance"], f"{row['ops']:,}", f"{row['copies']:,}", *stalls, f"{row['simulations']:,}"]
        rate = f"{row['simulations'] / row['seconds']:,.0f}" if row["simulations"] else "-"
        cells += [f"{row['seconds']:.0f}", rate, f"{row['alone']:,}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Search every instance, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=60)
    arguments = parser.parse_args()
    table = []
    for name, spec in questions():
        table.append(searched(name, spec, arguments.time_limit))
        print(table[-1], flush=True)
    write_table("placement_simulations", COLUMNS, table, markdown(table))


if __name__ == "__main__":
    main()
