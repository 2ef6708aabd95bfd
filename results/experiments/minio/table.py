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
from ...tables.spec import RIGHT, Column, Part, Row, TableSpec
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


def text(table: list[Row]) -> list[Part]:
    """Return the tables."""
    seconds = sorted({row["seconds"] for row in table})
    return [
        "Bytes that traversals of trees write, files divisible, over the best proved bound. Each memory is "
        "between what the largest node needs (least) and a byte less than the least peak of orders "
        "(most); middle is half-way. All traversals verified. Made by "
        "`python -m lowtide.results.experiments minio`; "
        f"`benders` with {' or '.join(f'{s:g}' for s in seconds)} s for each row, one thread.",
        RATIOS.of(table),
        "Mean of bytes over bound; in brackets the share of rows where both are equal, so proved least.",
        BOUNDS.of(table),
        "Left: mean of each lower bound over the bytes of `benders` (1: proved least). Right: the measure of "
        "the paper below, memory and bytes over memory.",
        "Set-up: `postorder` is PostOrderMinIO (Agullo et al. 2010); `opt-min-mem`, `rec-expand` and "
        "`full-rec-expand` are those of L. Marchal, S. McCauley, B. Simon, F. Vivien, *Minimizing I/Os in "
        "out-of-core task tree scheduling*, 2017, rebuilt: the paper was not at hand. As far as is known "
        "here it has binary trees of 3,000 nodes drawn uniformly with weights of 1 to 100, assembly trees of "
        "the Florida collection, and the three memories above. Here trees are `gen:intree` with at most 2 "
        "children and outputs of 1 to 100 bytes, and assembly trees of grids (`gen:assembly`, leaves of 8 "
        "points, both stencils), with their own weights and with random ones as in "
        "[`trees`](../trees/table.md). There a node needs the larger of inputs and output, here both and its "
        "workspace. So figures do not compare one by one. Trees whose largest node needs the least peak "
        "have no row.",
    ]


def excerpt(table: list[Row]) -> str:
    """Return a sentence."""
    some = [row for row in table if row["level"] == "middle"]
    ours, beside = mean_ratio("full-rec-expand", some), mean_ratio("postorder", some)
    return (
        f"On {len(some)} assembly and random trees in a memory half-way between the largest op and the "
        f"least peak, `benders` proves the least I/O of {share_optimal(EXACT, some):.0f} %; "
        f"`full-rec-expand` writes {ours:.2f} and `postorder` {beside:.2f} times the best bound in the mean: "
        "[`minio`](results/experiments/minio/table.md).\n"
    )
