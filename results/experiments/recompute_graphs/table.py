"""Recomputation in training graphs: best schedules and proved bounds beside Checkmate's relaxation.

Graphs: training steps of U-Net, ResNet-50 and EfficientNet-B0 (inverted bottlenecks, as in MobileNet), traced
by PyTorch, in blocks of consecutive ops of like durations. Two things are put aside first, as frameworks do
that recompute: running statistics of batch norms are not written, and the optimizer's updates come after
everything else. Memories lie between the largest block's and what the reference order needs, each op once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import lowtide as lt

from ....instances import write_graph
from ....instances.transforms.blocks import in_blocks
from ....models.derived.memory import sequential_memory
from ....solvers.context import Context
from ....solvers.recompute.models.stages import relaxed_time
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case

GRAPHS = {
    "U-Net": "catalogue:original-unet-train",
    "ResNet-50": "catalogue:resnet50-train",
    "EfficientNet-B0": "catalogue:efficientnet-b0-train",
}
BLOCKS = 50
"""Blocks into which the ops of each training graph are merged."""
PERCENTS = (15, 30, 45, 60, 80)
"""Memories in percent of the way from the largest need of one op to the peak of the reference order."""
METHODS = ("checkmate-rounding", "local-search", "eviction", "chen-greedy", "chen-sqrt")
GRAPHS_FOLDER = HERE / "recompute_graphs" / "graphs"


def training_graph(spec: str, blocks: int) -> lt.Graph:
    """Return the graph with its updates last and without running statistics, in blocks."""
    graph = lt.load(spec)
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


def graph_file(name: str) -> str:
    """Write the graph of that name; return its file, which the table's questions name."""
    GRAPHS_FOLDER.mkdir(exist_ok=True)
    path = GRAPHS_FOLDER / f"{name}.json.gz"
    write_graph(training_graph(GRAPHS[name], BLOCKS), path)
    return str(path)


def cases(*, seconds: float = 60) -> Iterator[Case]:
    """Yield a case for each graph and memory; seconds are those of `auto`."""
    for name in GRAPHS:
        for percent in PERCENTS:
            yield Case(f"{name}, {percent} %", partial(row_of, name, percent, seconds))


def row_of(name: str, percent: int, seconds: float) -> list[Row]:
    """Return the row of a graph and a memory; times in ns, sizes in bytes, None where nothing was found."""
    file = graph_file(name)
    graph = lt.load(file)
    once = lt.Recompute(graph)
    most, least = sequential_memory(graph).reference_peak, max(map(once.least_bytes, range(len(graph.ops))))
    problem = lt.Recompute(graph, memory=least + (most - least) * percent // 100)
    began = time.perf_counter()
    best = lt.solve(problem, time_limit=seconds, threads=1)
    took = time.perf_counter() - began
    limit = seconds / 4
    row: Row = {
        "graph": name,
        "ops": len(graph.ops),
        "most": most,
        "largest_op": least,
        "percent": percent,
        "memory": problem.memory,
        "least_time": problem.least_time,
        "status": str(best.status),
        "objective": best.objective,
        "bound": best.bound,
        "bound_kind": best.bound_kind,
        "seconds": round(took),
        "limit": round(seconds),
        "relaxation": relaxed_time(problem, Context(problem=problem, time_limit=limit)),
    }
    for method in METHODS:
        options = {"moves": "20"} if method == "eviction" else {}
        row[method] = lt.solve(problem, method, time_limit=limit, threads=1, options=options).objective
    return [row]


def gap(row: Row) -> str | None:
    """Return the gap in percent, in two digits."""
    if row["objective"] is None:
        return "no schedule" if row["status"] == "infeasible" else None
    return "0" if row["status"] == "optimal" else f"{100 * (1 - row['bound'] / row['objective']):.2g}"


def _times(key: str, row: Row) -> float | None:
    return None if row[key] is None or row.get("status") == "infeasible" else row[key] / row["least_time"]


def multiples(*headings: tuple[str, str]) -> Iterator[Column]:
    """Yield columns of times over that of each op once: heading and cell of each."""
    return (Column(heading, partial(_times, key), ".4f") for heading, key in headings)


OTHERS = ("rounding", "local search", "eviction", "Chen, greedy", "Chen, sqrt")
TABLE = TableSpec(
    (
        *(Column("graph"), Column("memory, MB", lambda row: row["memory"] / 1e6, ".0f")),
        *(Column("%", "percent", "d"), *multiples(("best", "objective"), ("bound", "bound"))),
        *(Column("gap, %", gap, RIGHT), Column("s", "seconds", "d")),
        *multiples(("relaxation", "relaxation"), *zip(OTHERS, METHODS, strict=True)),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the rows, times as multiples of the time of each op once."""
    limit = table[0]["limit"]
    return {
        "blocks": table[0]["ops"],
        "limit": limit,
        "quarter": limit // 4,
        "table": TABLE.of(table),
    }


def excerpt(table: list[Row]) -> Fields:
    """Return a row per graph: the time of each op once is 1."""

    def cell(percent: int, group: list[Row]) -> str | None:
        row = next(row for row in group if row["percent"] == percent)
        if row["objective"] is None:
            return None
        proved = "proved" if row["status"] == "optimal" else f"gap {gap(row)} %"
        return f"{row['objective'] / row['least_time']:.3f} ({proved})"

    name = Column("graph", lambda group: f"{group[0]['graph']}, training step in {group[0]['ops']} blocks")
    columns = (Column(f"{percent} %", partial(cell, percent), RIGHT) for percent in PERCENTS)
    return {"table": TableSpec((name, *columns), groups=("graph",)).of(table)}
