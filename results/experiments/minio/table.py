"""How many bytes heuristics write on trees, over the best bound, in memories between two extremes.

All traversals are verified. `benders` has the given seconds for each row; where it is not done by then, its
bound depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean

import lowtide as lt

from ....solvers.minio.bounds import packed_cuts, subtree_bounds
from ....solvers.minio.rules import tree_data
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case
from ..trees.table import GRIDS

ASSEMBLY = tuple(
    f"gen:assembly?grid={grid}&leaf=8&stencil={stencil}" for grid in GRIDS for stencil in ("star", "box")
)
RANDOM = tuple(
    f"gen:intree?n={n}&arity=2&largest=100&seed={seed}"
    for n, seeds in ((100, 5), (300, 5), (1000, 5), (3000, 2))
    for seed in range(1, seeds + 1)
)
LEVELS: dict[str, Callable[[int, int], int]] = {
    "least": lambda least, peak: least,
    "middle": lambda least, peak: (least + peak - 1) // 2,
    "most": lambda least, peak: peak - 1,
}
"""The memory, from what the largest node needs and the least peak of all orders."""

HEURISTICS = ("postorder", "opt-min-mem", "rec-expand", "full-rec-expand")
EXACT = "benders"
METHODS = (*HEURISTICS, EXACT)
SETS = {
    "assembly": "assembly trees",
    "assembly, random weights": "their shapes, random weights",
    "random": "random binary trees",
}


def cases(*, seconds: float = 5) -> Iterator[Case]:
    """Yield a case for each tree; seconds are those of `benders` for each row."""
    trees = [("assembly", spec) for spec in ASSEMBLY]
    trees += [("assembly, random weights", f"{spec}&draw=0") for spec in ASSEMBLY]
    trees += [("random", spec) for spec in RANDOM]
    for name, spec in trees:
        yield Case(spec, partial(rows_of, name, spec, seconds))


def rows_of(name: str, spec: str, seconds: float) -> Iterator[Row]:
    """Yield a row for each memory; none for trees that the largest node decides."""
    graph = lt.load(spec)
    peak = lt.solve(lt.Peak(graph), "liu").objective
    assert peak is not None
    least = max(tree_data(lt.MinIO(graph, memory=peak), "table").need)
    for level, memory_of in LEVELS.items() if least < peak else ():
        problem = lt.MinIO(graph, memory=memory_of(least, peak))
        data = tree_data(problem, "table")
        result = lt.solve(problem, EXACT, threads=1, time_limit=seconds)
        yield {
            "set": name,
            "instance": spec,
            "nodes": data.n,
            "level": level,
            "memory": problem.memory,
            "subtrees": subtree_bounds(graph, data)[-1],
            "packed": packed_cuts(data)[0][-1],
            "bound": result.bound,
            **{method: lt.solve(problem, method).objective for method in HEURISTICS},
            EXACT: result.objective,
            "seconds": seconds,
        }


def mean_ratio(method: str, table: list[Row]) -> float:
    """Return the mean of a method's bytes over the best bound."""
    return fmean(row[method] / row["bound"] for row in table)


def share_optimal(method: str, table: list[Row]) -> float:
    """Return the percentage of rows in which a method's bytes are the best bound."""
    return 100 * fmean(row[method] == row["bound"] for row in table)


def _ratio(method: str, group: list[Row]) -> str:
    return f"{mean_ratio(method, group):.3f} ({share_optimal(method, group):.0f} %)"


def _below(bound: str, group: list[Row]) -> float:
    return fmean(row[bound] / row[EXACT] for row in group)


def _loads(group: list[Row]) -> str:
    return ", ".join(f"{fmean(1 + row[m] / row['memory'] for row in group):.3f}" for m in METHODS)


def _nodes(group: list[Row]) -> str:
    nodes = [row["nodes"] for row in group]
    return f"{min(nodes):,} to {max(nodes):,}"


HEAD = (Column("trees", lambda group: SETS[group[0]["set"]]), Column("memory", "level"))
RATIOS = TableSpec(
    (
        *(*HEAD, Column("rows", len, "d"), Column("nodes", _nodes, RIGHT)),
        *(Column(f"`{method}`", partial(_ratio, method), RIGHT) for method in METHODS),
    ),
    groups=("set", "level"),
)
BOUNDS = TableSpec(
    (
        *(*HEAD, Column("excess of the subtrees", partial(_below, "subtrees"), ".3f")),
        *(
            Column("packed cuts", partial(_below, "packed"), ".3f"),
            Column("`benders`", partial(_below, "bound"), ".3f"),
        ),
        Column("mean of (M + bytes) / M: " + ", ".join(f"`{m}`" for m in METHODS), _loads),
    ),
    groups=("set", "level"),
)


def text(table: list[Row]) -> Fields:
    """Return the tables."""
    seconds = sorted({row["seconds"] for row in table})
    return {
        "seconds": " or ".join(f"{s:g}" for s in seconds),
        "table": RATIOS.of(table),
        "bounds": BOUNDS.of(table),
    }


def excerpt(table: list[Row]) -> Fields:
    """Return what a sentence says of the memory in the middle."""
    some = [row for row in table if row["level"] == "middle"]
    return {
        "rows": len(some),
        "proven": share_optimal(EXACT, some),
        "ours": mean_ratio("full-rec-expand", some),
        "beside": mean_ratio("postorder", some),
    }
