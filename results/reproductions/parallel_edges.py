"""Which heuristic bounds parallel memory with the shortest critical path, and how often each fails.

    python results/reproductions/parallel_edges.py [--seeds N] [--large] [--table]

Writes ``parallel_edges.csv`` (a row per graph, bound and rule) and ``parallel_edges.md`` beside this
script; with ``--table`` the table is made again from the committed rows. Graphs of 40 ops from four
families under both accountings; bounds at 0, 25, 50 and 75 % of the way from the least sequential peak to
the largest parallel memory. With ``--large`` the same for graphs of 1,000 ops, into
``parallel_edges_large.csv`` and ``.md``; there the way begins at the peak of the better one of the reference
order and the greedy one, and rows that the file has are kept.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

from lowtide import MemoryEdges, ParallelMemory, Peak, load, solve
from lowtide.results.reproductions.table_files import write_rows

FAMILIES = (
    "gen:layered?layers=8&width=5",
    "gen:sp?n=40",
    "gen:randwire?n=40",
    "gen:tasks?n=40",
)
RULES = ("min-levels", "respect-order", "max-size", "max-min-size")
FRACTIONS = (0, 25, 50, 75)
SECONDS = 20.0
LARGE = (
    "gen:layered?layers=100&width=10",
    "gen:sp?n=1000",
    "gen:tasks?n=1000",
)
LARGE_FRACTIONS = (50,)
LARGE_SECONDS = 300.0
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


def large_rows(known: list[Row]) -> Iterator[Row]:
    """Yield a row for each large graph, bound and rule, with CPU seconds."""
    for family in LARGE:
        spec = f"{family}&seed=1"
        kept = [row for row in known if row["graph"] == spec]
        if len(kept) == len(LARGE_FRACTIONS) * len(RULES):
            yield from kept
            continue
        graph = load(spec)
        orders = [solve(Peak(graph), method, threads=1).objective for method in ("reference", "greedy")]
        least = min(peak for peak in orders if peak is not None)
        most = solve(ParallelMemory(graph), "flow", threads=1)
        assert most.bound is not None
        for percent in LARGE_FRACTIONS:
            bound = least + (most.bound - least) * percent // 100
            for rule in RULES:
                began = time.process_time()
                result = solve(MemoryEdges(graph, bound), rule, time_limit=LARGE_SECONDS, threads=1)
                seconds = time.process_time() - began
                yield {
                    "graph": spec,
                    "ops": str(len(graph.ops)),
                    "percent": str(percent),
                    "bound": str(bound),
                    "rule": rule,
                    "status": str(result.status),
                    "reason": result.reason or "",
                    "edges": "" if result.edges is None else str(len(result.edges)),
                    "critical_path": "" if result.objective is None else str(result.objective),
                    "critical_path_without": str(result.bound or ""),
                    "cpu_seconds": f"{seconds:.1f}",
                }


def large_markdown(table: list[Row]) -> str:
    """Return, by graph and bound, the edges of each rule, what they cost and how long they took."""
    lines = [
        "Edges that bound the memory of parallel schedules of larger graphs: how many, critical path over "
        "that without edges, CPU seconds. Every answer is verified with its flow. Bounds from the peak of a "
        f"good order (0 %) to the largest parallel memory (100 %); {LARGE_SECONDS:.0f} s of wall time at "
        "most, on a busy machine. Made by `python results/reproductions/parallel_edges.py --large`.",
        "",
        "| graph | ops | bound | " + " | ".join(RULES) + " |",
        "|---|---:|---:|" + "---:|" * len(RULES),
    ]
    for start in range(0, len(table), len(RULES)):
        some = table[start : start + len(RULES)]
        cells = []
        for row in some:
            if row["edges"]:
                ratio = int(row["critical_path"]) / int(row["critical_path_without"])
                cells.append(f"{int(row['edges']):,}, x {ratio:.2f}, {row['cpu_seconds']} s")
            else:
                cells.append(f"{row['reason'] or 'fails'}, {row['cpu_seconds']} s")
        graph = some[0]["graph"].removeprefix("gen:")
        head = f"| {graph} | {int(some[0]['ops']):,} | {some[0]['percent']} % | "
        lines.append(head + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


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


def read(path: Path) -> list[Row]:
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="graphs of each family and accounting")
    parser.add_argument("--large", action="store_true", help="graphs of 1,000 ops")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    args = parser.parse_args()
    name = "parallel_edges_large" if args.large else "parallel_edges"
    path = HERE / f"{name}.csv"
    if not args.table:
        found = []
        known = read(path) if args.large and path.exists() else []
        for row in large_rows(known) if args.large else rows(args.seeds):
            found.append(row)
            if len(found) % len(RULES) == 0:
                print(f"{len(found)} rows: {row['graph']}, {row['percent']} %", flush=True)
                write_rows(path, list(found[0]), found)
    table = read(path)
    (HERE / f"{name}.md").write_text(large_markdown(table) if args.large else markdown(table))


if __name__ == "__main__":
    main()
