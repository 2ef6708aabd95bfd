"""Recomputation in training graphs: best schedules and proved bounds beside Checkmate's relaxation.

    python results/reproductions/recompute_graphs.py [--seconds S] [--ops N] [--jobs N] [--table]

Writes ``recompute_graphs.csv`` (a row per graph and memory) and ``recompute_graphs.md`` beside this script;
with ``--table`` the table is made again from the committed rows.

Graphs: training steps of U-Net, ResNet-50 and EfficientNet-B0 (inverted bottlenecks, as in MobileNet), traced
by PyTorch, in N blocks of consecutive ops of like durations. Two things are put aside first, as frameworks do
that recompute: running statistics of batch norms are not written, and the optimizer's updates come after
everything else. Memories lie between the largest block's and what the reference order needs, each op once.
"""

from __future__ import annotations

import argparse
import csv
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from lowtide import Graph, Recompute, Result, load, solve
from lowtide.formulations.recompute.data import levels, recompute_data
from lowtide.instances import write_graph
from lowtide.instances.transforms.blocks import in_blocks
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import HERE, write_rows
from lowtide.solvers.context import Context
from lowtide.solvers.recompute.models.stages import relax

GRAPHS = {
    "U-Net": "catalogue:original-unet-train",
    "ResNet-50": "catalogue:resnet50-train",
    "EfficientNet-B0": "catalogue:efficientnet-b0-train",
}
PERCENTS = (15, 30, 45, 60, 80)
METHODS = ("checkmate-rounding", "local-search", "eviction", "chen-greedy", "chen-sqrt")
GRAPHS_FOLDER = HERE / "graphs"
Row = dict[str, str]


def training_graph(spec: str, blocks: int) -> Graph:
    """Return the graph with its updates last and without running statistics, in blocks."""
    graph = load(spec)
    initial = [tensor.initial for tensor in graph.tensors]
    statistics = {
        t for op in graph.ops if not all(initial[t] for t in op.writes) for t in op.writes if initial[t]
    }
    ops = [
        replace(
            op,
            reads=tuple(t for t in op.reads if t not in statistics),
            writes=tuple(t for t in op.writes if t not in statistics),
        )
        for op in graph.ops
    ]
    last = {i for i, op in enumerate(ops) if op.writes and all(initial[t] for t in op.writes)}
    order = sorted(range(len(ops)), key=lambda i: (i in last, i))
    place = {i: k for k, i in enumerate(order)}
    moved = [replace(ops[i], after=tuple(sorted(place[a] for a in ops[i].after))) for i in order]
    return in_blocks(replace(graph, ops=tuple(moved)), blocks)


def graph_file(name: str, blocks: int) -> str:
    """Write the graph of that name; return its file, which the table's questions name."""
    GRAPHS_FOLDER.mkdir(exist_ok=True)
    path = GRAPHS_FOLDER / f"{name}.json.gz"
    write_graph(training_graph(GRAPHS[name], blocks), path)
    return str(path)


def shown(result: Result) -> str:
    """Return an objective, or nothing."""
    return "" if result.objective is None else str(result.objective)


def row_of(name: str, percent: int, seconds: float, blocks: int) -> Row:
    """Return the row of a graph and a memory; times in ns, sizes in bytes, empty where nothing was found."""
    graph = load(graph_file(name, blocks))
    data = recompute_data(Recompute(graph))
    most, least = max(levels(data, range(data.n))) * data.unit, max(data.footprint) * data.unit
    problem = Recompute(graph, memory=least + (most - least) * percent // 100)
    began = time.perf_counter()
    best = solve(problem, time_limit=seconds, threads=1)
    took = time.perf_counter() - began
    limit = seconds / 4
    lp = relax(
        recompute_data(problem), Context(problem=problem, time_limit=limit), recompute_data(problem).memory
    )
    row = {
        "graph": name,
        "ops": str(len(graph.ops)),
        "most": str(most),
        "largest_op": str(least),
        "percent": str(percent),
        "memory": str(problem.memory),
        "least_time": str(problem.least_time),
        "status": str(best.status),
        "objective": shown(best),
        "bound": str(best.bound),
        "bound_kind": best.bound_kind or "",
        "seconds": f"{took:.0f}",
        "limit": f"{seconds:.0f}",
        "relaxation": "" if lp is None else str(data.ns(1) * round(lp[0])),
    }
    for method in METHODS:
        options = {"moves": "20"} if method == "eviction" else {}
        row[method] = shown(solve(problem, method, time_limit=limit, threads=1, options=options))
    return row


def markdown(table: list[Row]) -> str:
    """Return the table, times as multiples of the time of each op once."""
    limit = table[0]["limit"]
    lines = [
        f"Recomputation in training graphs of {table[0]['ops']} blocks: time over that of each op once. "
        "Memory between the largest op's (0 %) and what the reference order needs (100 %). Best and bound: "
        f"`auto` with one thread for at most {limit} s, the bound proved for the problem itself (HiGHS, "
        "floating). Relaxation: the linear one of Checkmate's partitioned stages, a bound for "
        f"these only; it and its rounding in at most {int(limit) // 4} s. Local search: annealing of "
        "sequences of runs until it stalls. Eviction: rules with 20 moves. "
        "A dash: none found within the memory and the time. Every schedule is verified. Made by "
        "`python results/reproductions/recompute_graphs.py`.",
        "",
        "| graph | memory, MB | % | best | bound | gap, % | s | relaxation | rounding "
        "| local search | eviction | Chen, greedy | Chen, sqrt |",
        "|---|" + "---:|" * 12,
    ]
    for row in table:
        unit = int(row["least_time"])

        def ratio(key: str, row: Row = row, unit: int = unit) -> str:
            return f"{int(row[key]) / unit:.4f}" if row[key] else "-"

        gap = "-"
        if row["objective"]:
            gap = f"{100 * (1 - int(row['bound']) / int(row['objective'])):.2g}"
        cells = [
            row["graph"],
            f"{int(row['memory']) / 1e6:.0f}",
            row["percent"],
            ratio("objective"),
            ratio("bound"),
            "0" if row["status"] == "optimal" else gap,
            row["seconds"],
            *(ratio(k) for k in ("relaxation", *METHODS)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summary(table: list[Row]) -> str:
    """Return a row per graph: the time of each op once is 1."""
    lines = [
        "| graph | " + " | ".join(f"{percent} %" for percent in PERCENTS) + " |",
        "|---|" + "---:|" * len(PERCENTS),
    ]
    for name in GRAPHS:
        cells = []
        for row in (row for row in table if row["graph"] == name):
            if not row["objective"]:
                cells.append("-")
                continue
            best, bound, unit = int(row["objective"]), int(row["bound"]), int(row["least_time"])
            proved = "proved" if row["status"] == "optimal" else f"gap {100 * (1 - bound / best):.2g} %"
            cells.append(f"{best / unit:.3f} ({proved})")
        lines.append(f"| {name}, training step in {table[0]['ops']} blocks | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for `auto` on each row")
    parser.add_argument("--ops", type=int, default=50, help="blocks of each graph")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    args = parser.parse_args()
    path = HERE / "recompute_graphs.csv"
    if not args.table:
        cases = [(name, percent, args.seconds, args.ops) for name in GRAPHS for percent in PERCENTS]
        found = []
        with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
            for row in pool.map(row_of, *zip(*cases, strict=True)):
                found.append(row)
                print(f"{row['graph']}, {row['percent']} %: {row['status']}, {row['objective']}", flush=True)
        write_rows(path, list(found[0]), found)
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    (HERE / "recompute_graphs.md").write_text(markdown(table))
    into_readme("recompute_graphs", summary(table))


if __name__ == "__main__":
    main()
