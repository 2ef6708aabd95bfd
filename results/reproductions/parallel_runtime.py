"""Measure what edges against too much memory do to a runtime that schedules dynamically, on real graphs.

    python results/reproductions/parallel_runtime.py [--runs N] [--table]

Writes ``parallel_runtime.csv`` (a row per graph and number of processors) and ``parallel_runtime.md``
beside this script; rows that the file has are kept, and with ``--table`` only the table is made again. The
graphs are those of the catalogue, the bounds half of the way from the peak of a good order to the most
that a run without edges needed. The edges are the best of the four rules'; each row runs
the graph as often without and with them, with durations drawn for each run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from lowtide import MemoryEdges, ParallelMemory, Peak, load, solve
from lowtide.results.reproductions.table_files import Row, read_table, write_rows
from lowtide.solvers.parallel.runtime import simulate

GRAPHS = (
    "catalogue:aten/googlenet_tr",
    "catalogue:aten/resnet50_tr",
    "catalogue:aten/swin_t_in",
)
PROCESSORS = (None, 4)
SECONDS = 300.0
HERE = Path(__file__).parent
NAME = "parallel_runtime"


def rows(runs: int, known: list[Row]) -> Iterator[Row]:
    """Yield a row for each graph and number of processors; bytes and ns. Known ones are kept."""
    for spec in GRAPHS:
        name = spec.removeprefix("catalogue:")
        kept = [row for row in known if row["graph"] == name and row["runs"] == runs]
        if len(kept) == len(PROCESSORS):
            yield from kept
            continue
        graph = load(spec)
        least = solve(Peak(graph), time_limit=SECONDS / 4, threads=2)
        assert least.objective is not None
        for processors in PROCESSORS:
            most = solve(ParallelMemory(graph, processors), time_limit=SECONDS, threads=2)
            assert most.objective is not None
            before = simulate(graph, runs=runs, processors=processors)
            bound = (least.objective + max(before)) // 2
            began = time.process_time()
            found = solve(MemoryEdges(graph, bound, processors), time_limit=SECONDS, threads=2)
            seconds = time.process_time() - began
            row = {
                "graph": name,
                "ops": len(graph.ops),
                "processors": processors,
                "order": least.objective,
                "most": most.objective,
                "most_status": str(most.status),
                "bound": bound,
                "runs": runs,
                "above_before": sum(peak > bound for peak in before),
                "most_before": max(before),
                "critical_path_before": found.bound,
                "cpu_seconds": round(seconds, 1),
            }
            if found.edges is None:
                yield {
                    **row,
                    "edges": None,
                    "above_after": None,
                    "most_after": None,
                    "critical_path": None,
                }
                continue
            after = simulate(graph, found.edges, runs=runs, processors=processors)
            yield {
                **row,
                "edges": len(found.edges),
                "above_after": sum(peak > bound for peak in after),
                "most_after": max(after),
                "critical_path": found.objective,
            }


def markdown(table: list[Row]) -> str:
    """Return shares of runs above the bound, the edges and their price."""
    runs = sorted({row["runs"] for row in table})
    lines = [
        f"Dynamic runtimes with random durations, {' or '.join(f'{n:,}' for n in runs)} runs each: how many "
        "exceed the bound without and with the edges of `memory-edges` (`auto`), and how much longer the "
        "critical path is with them. Memory over the peak of a good order: of the worst moment and run, "
        "and the bound, half of the way to that run. Made by "
        f"`python results/reproductions/{NAME}.py`.",
        "",
        "| graph | ops | processors | worst moment | worst run | bound | above it before | edges "
        "| above it after | critical path | CPU s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in table:
        share = 100 * row["above_before"] / row["runs"]
        cells = [
            row["graph"],
            f"{row['ops']:,}",
            str(row["processors"] or "any"),
            f"{row['most'] / row['order']:.3f}",
            f"{row['most_before'] / row['order']:.3f}",
            f"{row['bound'] / row['order']:.3f}",
            f"{share:.1f} %",
        ]
        if row["edges"] is not None:
            ratio = row["critical_path"] / row["critical_path_before"]
            after = 100 * row["above_after"] / row["runs"]
            cells += [str(row["edges"]), f"{after:.1f} %", f"x {ratio:.3f}", str(row["cpu_seconds"])]
        else:
            cells += ["none found", "", "", str(row["cpu_seconds"])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="of the runtime, without and with the edges")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    args = parser.parse_args()
    if not args.table:
        path = HERE / f"{NAME}.csv"
        known, found = read_table(NAME) if path.exists() else [], []
        for row in rows(args.runs, known):
            found.append(row)
            print(row, flush=True)
            write_rows(path, list(found[0]), found)
    (HERE / f"{NAME}.md").write_text(markdown(read_table(NAME)))


if __name__ == "__main__":
    main()
