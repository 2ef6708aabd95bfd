"""How many bytes heuristics write on trees, over the best bound, in memories between two extremes.

    python results/reproductions/minio.py [--seconds 5] [--table]

Writes ``minio.csv`` (a row per tree and memory) and ``minio.md`` beside this script, and a line of README;
with ``--table`` the table is made again from the committed rows. All traversals are verified. `benders` has
the given seconds for each row; where it is not done by then, its bound depends on the machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lowtide import Graph, MinIO, Peak, load, solve
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import Row, read_table, write_table
from lowtide.results.reproductions.trees import GRIDS
from lowtide.solvers.minio.bounds import packed_cuts, subtree_bounds
from lowtide.solvers.minio.rules import tree_data

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
BOUNDS = ("subtrees", "packed", "bound")
COLUMNS = ("set", "instance", "nodes", "level", "memory", *BOUNDS, *HEURISTICS, EXACT, "seconds")
SETS = (
    ("assembly", "assembly trees"),
    ("assembly, random weights", "their shapes, random weights"),
    ("random", "random binary trees"),
)


def instances() -> Iterator[tuple[str, str, Graph]]:
    """Yield set, name and tree."""
    for spec in ASSEMBLY:
        yield "assembly", spec, load(spec)
    for spec in ASSEMBLY:
        yield "assembly, random weights", f"{spec}&draw=0", load(f"{spec}&draw=0")
    for spec in RANDOM:
        yield "random", spec, load(spec)


def rows(seconds: float) -> Iterator[Row]:
    """Yield a row for each tree and memory; none for trees that the largest node decides."""
    for name, instance, graph in instances():
        peak = solve(Peak(graph), "liu").objective
        assert peak is not None
        least = max(tree_data(MinIO(graph, memory=peak), "table").need)
        memories = {level: memory(least, peak) for level, memory in LEVELS.items()} if least < peak else {}
        for level, memory in memories.items():
            problem = MinIO(graph, memory=memory)
            data = tree_data(problem, "table")
            row: Row = {"set": name, "instance": instance, "nodes": data.n, "level": level, "memory": memory}
            row["subtrees"] = subtree_bounds(graph, data)[-1]
            row["packed"] = packed_cuts(data)[0][-1]
            for method in HEURISTICS:
                row[method] = solve(problem, method).objective
            result = solve(problem, EXACT, threads=1, time_limit=seconds)
            row |= {"bound": result.bound, EXACT: result.objective, "seconds": seconds}
            yield row


def markdown(table: list[Row]) -> str:
    """Return the tables."""
    seconds = sorted({row["seconds"] for row in table})
    lines = [
        "Bytes that traversals of trees write, files divisible, over the best proved bound. Each memory is "
        "between what the largest node needs (least) and a byte less than the least peak of orders "
        "(most); middle is half-way. All traversals verified. Made by "
        "`python results/reproductions/minio.py`; "
        f"`benders` with {' or '.join(f'{s:g}' for s in seconds)} s for each row, one thread.",
        "",
        "| trees | memory | rows | nodes | " + " | ".join(f"`{m}`" for m in (*HEURISTICS, EXACT)) + " |",
        "|---|---|---:|---:|" + "---:|" * (len(HEURISTICS) + 1),
    ]
    for name, words in SETS:
        for level in LEVELS:
            some = [row for row in table if (row["set"], row["level"]) == (name, level)]
            if some:
                nodes = [row["nodes"] for row in some]
                cells = [f"{mean_ratio(some, m):.3f} ({share_optimal(some, m):.0f} %)" for m in COLUMNS_SHOWN]
                counts = f"{len(some)} | {min(nodes):,} to {max(nodes):,}"
                lines.append(f"| {words} | {level} | {counts} | {' | '.join(cells)} |")
    lines += [
        "",
        "Mean of bytes over bound; in brackets the share of rows where both are equal, so proved least.",
        "",
        "| trees | memory | excess of the subtrees | packed cuts | `benders` | mean of (M + bytes) / M: "
        + ", ".join(f"`{m}`" for m in COLUMNS_SHOWN)
        + " |",
        "|---|---|---:|---:|---:|---|",
    ]
    for name, words in SETS:
        for level in LEVELS:
            some = [row for row in table if (row["set"], row["level"]) == (name, level)]
            if some:
                cells = [f"{mean([row[b] / row[EXACT] for row in some]):.3f}" for b in BOUNDS]
                loads = ", ".join(
                    f"{mean([1 + row[m] / row['memory'] for row in some]):.3f}" for m in COLUMNS_SHOWN
                )
                lines.append(f"| {words} | {level} | {' | '.join(cells)} | {loads} |")
    lines += [
        "",
        "Left: mean of each lower bound over the bytes of `benders` (1: proved least). Right: the measure of "
        "the paper below, memory and bytes over memory.",
        "",
        "Set-up: `postorder` is PostOrderMinIO (Agullo et al. 2010); `opt-min-mem`, `rec-expand` and "
        "`full-rec-expand` are those of L. Marchal, S. McCauley, B. Simon, F. Vivien, *Minimizing I/Os in "
        "out-of-core task tree scheduling*, 2017, rebuilt: the paper was not at hand. As far as is known "
        "here it has binary trees of 3,000 nodes drawn uniformly with weights of 1 to 100, assembly trees of "
        "the Florida collection, and the three memories above. Here trees are `gen:intree` with at most 2 "
        "children and outputs of 1 to 100 bytes, and assembly trees of grids (`gen:assembly`, leaves of 8 "
        "points, both stencils), with their own weights and with random ones as in "
        "[`trees.md`](trees.md). There a node needs the larger of inputs and output, here both and its "
        "workspace. So figures do not compare one by one. Trees whose largest node needs the least peak "
        "have no row.",
    ]
    return "\n".join(lines) + "\n"


COLUMNS_SHOWN = (*HEURISTICS, EXACT)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return sum(values) / len(values)


def mean_ratio(table: list[Row], method: str) -> float:
    """Return the mean of a method's bytes over the best bound."""
    return mean([row[method] / row["bound"] for row in table])


def share_optimal(table: list[Row], method: str) -> float:
    """Return the percentage of rows in which a method's bytes are the best bound."""
    return 100 * mean([row[method] == row["bound"] for row in table])


def sentence(table: list[Row]) -> str:
    """Return the README's line."""
    some = [row for row in table if row["level"] == "middle"]
    ours, beside = mean_ratio(some, "full-rec-expand"), mean_ratio(some, "postorder")
    return (
        f"On {len(some)} assembly and random trees in a memory half-way between the largest op and the "
        f"least peak, `benders` proves the least I/O of {share_optimal(some, EXACT):.0f} %; "
        f"`full-rec-expand` writes {ours:.2f} and `postorder` {beside:.2f} times the best bound in the mean: "
        "[`minio.md`](results/reproductions/minio.md).\n"
    )


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="for `benders`, each row")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    parser.add_argument("--out", type=Path, help="a folder for the table instead of this one")
    args = parser.parse_args()
    if args.table:
        table = read_table("minio")
    else:
        table = []
        for row in rows(args.seconds):
            table.append(row)
            print(f"{len(table)} rows: {row['instance']}, {row['level']}", file=sys.stderr, flush=True)
    folder = {} if args.out is None else {"folder": args.out}
    write_table("minio", COLUMNS, table, markdown(table), **folder)
    if args.out is None:
        into_readme("minio", sentence(table))


if __name__ == "__main__":
    main()
