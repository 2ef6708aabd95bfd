"""Recomputation in whole training steps: auto's schedules and proved bounds beside what frameworks do.

Graphs: the bundled traces of training steps, whole, op by op, with the updates of the weights. A memory of
p % has what is in it from the start (weights and states, where their bytes count) and p % of what the
reference order, each op once, needs beside that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....models.derived.memory import sequential_memory
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..recompute_graphs.table import gap, multiples
from ..running import HERE, Case, read_rows

GRAPHS = {
    "GPT-2 small": "gpt2-small",
    "GPT-2 medium": "gpt2-medium",
    "BERT-base": "bert-base",
    "Llama 1B": "llama-1b",
    "ViT-B/16": "vit-b-16",
    "Swin-T": "swin-t",
    "U-Net": "original-unet",
    "diffusion U-Net": "diffusion-unet",
    "mixture of experts": "moe",
    "ResNet-50": "resnet50",
}
PERCENTS = (70, 50, 35)
"""Memories in percent of the way from what is there at the start to the peak of the reference order."""
METHODS = ("segments", "chen-greedy")


def cases(*, seconds: float = 24) -> Iterator[Case]:
    """Yield a case for each graph and memory; seconds are those of `auto`."""
    for name in GRAPHS:
        for percent in PERCENTS:
            yield Case(f"{name}, {percent} %", partial(row_of, name, percent, seconds))


def row_of(name: str, percent: int, seconds: float) -> list[Row]:
    """Return the row of a graph and a memory; times in ns, sizes in bytes, None where nothing was found."""
    spec = f"catalogue:{GRAPHS[name]}-train"
    graph = lt.load(spec)
    least, most = lt.Recompute(graph).start_bytes, sequential_memory(graph).reference_peak
    problem = lt.Recompute(graph, memory=least + (most - least) * percent // 100)
    began, used = time.perf_counter(), time.process_time()
    best = lt.solve(problem, time_limit=seconds, threads=1)
    took, used = time.perf_counter() - began, time.process_time() - used
    row: Row = {
        "graph": name,
        "spec": spec,
        "ops": len(graph.ops),
        "least": least,
        "most": most,
        "percent": percent,
        "memory": problem.memory,
        "least_time": problem.least_time,
        "status": str(best.status),
        "objective": best.objective,
        "bound": best.bound,
        "seconds": round(took),
        "cpu_seconds": round(used),
        "limit": round(seconds),
    }
    for method in METHODS:
        row[method] = lt.solve(problem, method, time_limit=seconds / 4, threads=1).objective
    return [row]


TABLE = TableSpec(
    (
        *(Column("graph"), Column("ops", kind="d"), Column("memory, MB", lambda r: r["memory"] / 1e6, ".0f")),
        *(Column("%", "percent", "d"), *multiples(("auto", "objective"), ("bound", "bound"))),
        *(Column("gap, %", gap, RIGHT), Column("s", "seconds", "d"), Column("CPU s", "cpu_seconds", "d")),
        *multiples(("segments", "segments"), ("Chen, greedy", "chen-greedy")),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the rows, times as multiples of the time of each op once."""
    gaps = [0.0 if row["objective"] is None else 1 - row["bound"] / row["objective"] for row in table]
    closed = [row["objective"] is not None or row["status"] == "infeasible" for row in table]
    found = [gap for gap, answered in zip(gaps, closed, strict=True) if answered]
    return {
        "limit": table[0]["limit"],
        "quarter": table[0]["limit"] // 4,
        "one": sum(gap <= 0.01 for gap in found),
        "five": sum(gap <= 0.05 for gap in found),
        "none": sum(row["status"] == "infeasible" for row in table),
        "table": TABLE.of(table),
    }


def draw() -> None:
    """Draw the time beyond that of each op once, by graph and memory, and the bound on it."""
    from ... import plot

    rows = read_rows("recompute_transformers")
    figure = plot.new_figure((10.0, 3.6))
    bars = (("segments", "segments", "#c9c9c9"), ("chen-greedy", "Chen, greedy", "#99c2d1"))
    for ax, percent in zip(figure.subplots(1, len(PERCENTS), sharey=True), PERCENTS, strict=True):
        some = [row for row in rows if row["percent"] == percent]
        for k, (key, label, colour) in enumerate((*bars, ("objective", "auto", "#1f6f8b"))):
            for x, row in enumerate(some):
                if row[key] is not None:
                    more = 100 * (row[key] / row["least_time"] - 1)
                    ax.bar(x + 0.27 * (k - 1), more, 0.25, color=colour, label=label if not x else None)
        for x, row in enumerate(some):
            if row["status"] == "infeasible":
                ax.text(x, 1, "no schedule", rotation=90, ha="center", va="bottom", fontsize=7)
            else:
                bound = 100 * (row["bound"] / row["least_time"] - 1)
                ax.plot([x - 0.42, x + 0.42], [bound] * 2, color="black", linewidth=1)
        ax.set_xlim(-0.6, len(some) - 0.4)
        ax.set_xticks(range(len(some)), [row["graph"] for row in some], rotation=60, ha="right", fontsize=8)
        ax.set_title(f"{percent} % of the memory", fontsize=10)
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="#dddddd", linewidth=0.6)
        if percent == PERCENTS[0]:
            ax.set_ylabel("more time than each op once, %\n(line: proved bound)", fontsize=8)
            ax.legend(fontsize=8, loc="upper left")
            first = ax
    plot.save(first, HERE / "recompute_transformers" / "more.svg")
