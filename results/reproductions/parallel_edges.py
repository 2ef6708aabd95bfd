"""Which heuristic bounds parallel memory with the shortest critical path, and how often each fails.

    python results/reproductions/parallel_edges.py [--seeds N] [--table]

Writes ``parallel_edges.csv`` (a row per graph, bound and rule) and ``parallel_edges.md`` beside this
script; with ``--table`` the table is made again from the committed rows. Graphs of 40 ops from four
families under both accountings; bounds at 0, 25, 50 and 75 % of the way from the least sequential peak to
the largest parallel memory.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from lowtide import MemoryEdges, ParallelMemory, Peak, load, solve

FAMILIES = (
    "gen:layered?layers=8&width=5",
    "gen:sp?n=40",
    "gen:randwire?n=40",
    "gen:tasks?n=40",
)
RULES = ("min-levels", "respect-order", "max-size", "max-min-size")
FRACTIONS = (0, 25, 50, 75)
SECONDS = 20.0
HERE = Path(__file__).parent
Row = dict[str, str]


def rows(seeds: int) -> Iterator[Row]:
    """Yield a row for each graph, bound and rule; critical paths in ns, empty where a rule failed."""
    for family in FAMILIES:
        for accounting in ("coexist", "replace"):
            for seed in range(seeds):
                spec = f"{family}&seed={seed}&accounting={accounting}"
                graph = load(spec)
                least = solve(Peak(graph), time_limit=SECONDS, threads=1)
                most = solve(ParallelMemory(graph), "flow", threads=1)
                assert least.objective is not None
                assert most.bound is not None
                for percent in FRACTIONS:
                    bound = least.objective + (most.bound - least.objective) * percent // 100
                    for rule in RULES:
                        result = solve(MemoryEdges(graph, bound), rule, time_limit=SECONDS, threads=1)
                        yield {
                            "graph": spec,
                            "percent": str(percent),
                            "bound": str(bound),
                            "rule": rule,
                            "status": str(result.status),
                            "reason": result.reason or "",
                            "edges": "" if result.edges is None else str(len(result.edges)),
                            "critical_path": "" if result.objective is None else str(result.objective),
                            "critical_path_without": str(result.bound or ""),
                        }


def markdown(table: list[Row]) -> str:
    """Return, by rule and bound, failures, and how often and by how much it is above the best rule."""
    lines = [
        "Edges that bound the memory of parallel schedules: failures, instances on which the rule has the "
        "shortest critical path of the four, and the mean of its critical path over the shortest one (where "
        "it did not fail). Every answer is verified with its flow. Bounds from the least sequential peak "
        "(0 %) to the largest parallel memory (100 %); 40 ops. Made by "
        "`python results/reproductions/parallel_edges.py`.",
        "",
        "| bound | graphs | " + " | ".join(f"{rule}: fails, shortest, mean" for rule in RULES) + " |",
        "|---:|---:|" + "---:|" * len(RULES),
    ]
    for percent in map(str, FRACTIONS):
        graphs = sorted({row["graph"] for row in table if row["percent"] == percent})
        paths = {
            (row["graph"], row["rule"]): int(row["critical_path"])
            for row in table
            if row["percent"] == percent and row["critical_path"]
        }
        cells = []
        for rule in RULES:
            ratios = []
            for graph in graphs:
                if (graph, rule) in paths:
                    best = min(paths[graph, other] for other in RULES if (graph, other) in paths)
                    ratios.append(paths[graph, rule] / best)
            mean = f"{sum(ratios) / len(ratios):.3f}" if ratios else "-"
            cells.append(f"{len(graphs) - len(ratios)}, {sum(r == 1 for r in ratios)}, {mean}")
        lines.append(f"| {percent} % | {len(graphs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="graphs of each family and accounting")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    args = parser.parse_args()
    path = HERE / "parallel_edges.csv"
    if not args.table:
        found = []
        for row in rows(args.seeds):
            found.append(row)
            if len(found) % len(RULES) == 0:
                print(f"{len(found)} rows: {row['graph']}, {row['percent']} %", flush=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    with path.open(newline="") as file:
        (HERE / "parallel_edges.md").write_text(markdown(list(csv.DictReader(file))))


if __name__ == "__main__":
    main()
