"""How far the best post-order of a tree is from the least peak, harpoons, and seconds on large graphs.

    python results/reproductions/trees.py [--trees FOLDER] [--table]

Writes ``trees.csv`` (a row per tree) and ``trees.md`` beside this script; with ``--table`` the table is made
again from the committed rows. With ``--trees`` the ``dump.*.tree.nf`` files of a folder, of at most 47,000
nodes, are two more sets. The committed rows have those of a public repository without a licence for them, so
they are not bundled; this gets them:

    git clone https://github.com/kulagins/tree-scheduler-refactored
    python results/reproductions/trees.py --trees tree-scheduler-refactored/data/trees

Without ``--trees`` the two sets are left out, and the table says so. All orders of `liu` and `postorder` are
verified; `minmem` must agree with `liu` on every tree.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lowtide import Graph, Peak, load, solve
from lowtide.instances.drawn_sizes import with_drawn_sizes
from lowtide.results.reproductions.table_files import write_rows
from lowtide.solvers.context import Context
from lowtide.solvers.registry import find_method

HERE = Path(__file__).parent
GRIDS = ("30x30", "60x60", "30x120", "9x9x9", "13x13x13", "6x12x24")
ASSEMBLY = tuple(
    f"gen:assembly?grid={grid}&leaf={leaf}&stencil={stencil}"
    for grid in GRIDS
    for leaf in (1, 8)
    for stencil in ("star", "box")
)
RANDOM = tuple(
    f"gen:intree?n={n}&arity={arity}&largest={largest}&seed={seed}"
    for n in (100, 300, 1000)
    for arity in (2, 8)
    for largest in (20, 1000)
    for seed in range(5)
)
DRAWS = 3
REPOSITORY = "kulagins/tree-scheduler-refactored"
LARGEST_FILE = 47_000
"""Nodes of files up to which a tree takes under 5 s of CPU with all orders verified."""

HARPOONS = tuple((levels, branches) for levels in (1, 2, 3, 4) for branches in (2, 3, 5))
HARPOON_BYTES, HARPOON_EPS = 900, 1
LARGE_TREES = (
    "gen:intree?n=100000",
    "gen:outtree?n=100000&data=edge",
    "gen:harpoon?levels=9&branches=3&memory=900000",
    "gen:assembly?grid=400x400&leaf=1",
)
LARGE_SP = ("gen:sp?n=10000&data=edge", "gen:sp?n=10000&data=edge&branches=20", "gen:sp?n=100000&data=edge")
PUBLISHED = {"assembly trees": (4.2, 18, 1), "random trees": (61, 22, 12)}
"""Share that is not optimal, largest and mean increase, in percent: Jacquelin et al. 2011, as quoted."""

COLUMNS = (
    "set",
    "instance",
    "nodes",
    "postorder",
    "least",
    "closed postorder",
    "closed least",
    "liu s",
    "minmem s",
    "postorder s",
    "series-parallel s",
)
Row = dict[str, str]


def rows(folder: Path | None) -> Iterator[Row]:
    """Yield a row for each tree."""
    for spec in ASSEMBLY:
        graph = load(spec)
        yield compared("assembly", spec, graph)
        for draw in range(DRAWS):
            drawn = f"{spec}&draw={draw}"
            yield compared("assembly, random weights", drawn, load(drawn))
    for path in sorted(folder.glob("dump.*.tree.nf")) if folder else ():
        graph = load(path)
        if len(graph.ops) > LARGEST_FILE:
            print(f"{path.name}: left out, {len(graph.ops):,} nodes", file=sys.stderr, flush=True)
            continue
        yield compared("files", path.name, graph)
        yield compared("files, random weights", f"{path.name} draw 0", with_drawn_sizes(graph, 0))
    for spec in RANDOM:
        yield compared("random", spec, load(spec))
    for levels, branches in HARPOONS:
        memory, eps = HARPOON_BYTES, HARPOON_EPS
        spec = f"gen:harpoon?levels={levels}&branches={branches}&memory={memory}&eps={eps}"
        closed = {
            "closed postorder": str(memory + eps + levels * (branches - 1) * memory // branches),
            "closed least": str(memory + eps + levels * (branches - 1) * eps),
        }
        yield compared("harpoon", spec, load(spec)) | closed
    for spec in LARGE_TREES:
        yield timed("large trees", spec, ("liu", "minmem", "postorder", "series-parallel"))
    for spec in LARGE_SP:
        yield timed("large series-parallel", spec, ("series-parallel",))


def compared(name: str, instance: str, graph: Graph) -> Row:
    """Return the row of a tree: the peaks of best post-order and best order."""
    peaks = {}
    for method in ("liu", "postorder"):
        result = solve(Peak(graph), method)
        assert result.objective is not None
        peaks[method] = result.objective
    context = Context(problem=Peak(graph))
    find_method("peak", "minmem").load()(context.problem, context)
    assert context.incumbent == peaks["liu"], instance
    return {
        "set": name,
        "instance": instance,
        "nodes": str(len(graph.ops)),
        "postorder": str(peaks["postorder"]),
        "least": str(peaks["liu"]),
    }


def timed(name: str, spec: str, methods: tuple[str, ...]) -> Row:
    """Return the row of a large graph with the CPU seconds of each method."""
    loaded = load(spec)
    row = {"set": name, "instance": spec, "nodes": str(len(loaded.ops))}
    for method in methods:
        graph = replace(loaded)  # what methods derive from a graph is kept with it
        context = Context(problem=Peak(graph))
        begin = time.process_time()
        find_method("peak", method).load()(context.problem, context)
        row[f"{method} s"] = f"{time.process_time() - begin:.2f}"
        peak = str(context.incumbent)
        if method == "postorder":
            row["postorder"] = peak
        else:
            assert row.setdefault("least", peak) == peak, (spec, method)
    assert str(solve(Peak(loaded), "series-parallel").objective) == row["least"], spec  # verified
    return row


def increases(table: list[Row], name: str) -> list[float]:
    """Return by how many percent the best post-order of each tree of a set is above the least peak."""
    return [100 * (int(r["postorder"]) / int(r["least"]) - 1) for r in table if r["set"] == name]


SETS = (
    ("assembly", "assembly trees, this project's"),
    ("files", "assembly trees, public files"),
    ("assembly, random weights", "the first shapes, random weights"),
    ("files, random weights", "the second shapes, random weights"),
    ("random", "random trees, this project's"),
)


def markdown(table: list[Row]) -> str:
    """Return the three tables."""
    harpoons = [row for row in table if row["set"] == "harpoon"]
    lines = [
        "Best post-order and least peak of trees with a datum for each edge. All orders of `liu` and "
        "`postorder` verified; `minmem` = `liu` on every tree. Made by "
        f"`python results/reproductions/trees.py{' --trees FOLDER' if _has_files(table) else ''}`.",
        "",
        "| trees | how many | nodes | not optimal | largest increase | mean increase | where not optimal |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, words in SETS:
        found = increases(table, name)
        if not found:
            continue
        nodes = [int(row["nodes"]) for row in table if row["set"] == name]
        worse = [x for x in found if x > 0]
        cells = [
            f"{100 * len(worse) / len(found):.1f} %",
            f"{max(found):.1f} %",
            f"{sum(found) / len(found):.1f} %",
        ]
        cells.append(f"{sum(worse) / len(worse):.1f} %" if worse else "-")
        lines.append(f"| {words} | {len(found)} | {min(nodes):,} to {max(nodes):,} | {' | '.join(cells)} |")
    for words, (share, largest, mean) in PUBLISHED.items():
        lines.append(f"| {words}, as published | - | - | {share} % | {largest} % | {mean} % | - |")
    lines += [
        "",
        "Set-up: assembly trees of 2D and 3D grids under nested dissection (`gen:assembly`: "
        f"{', '.join(GRIDS)}; leaves of 1 and 8 points; both stencils); {_files(table)}; "
        "random weights: outputs of 1 to N, "
        "workspaces of 1 to N/500 bytes, N nodes, uniform; random trees: `gen:intree`, at most 2 or 8 "
        "children, outputs of 1 to 20 or 1 to 1,000 bytes. Published: M. Jacquelin, L. Marchal, Y. Robert, "
        "B. Uçar, IPDPS 2011, as a course quotes it: assembly trees of the Florida collection under METIS "
        "and AMD, and their shapes with random weights, drawn as above as far as is known here. That paper "
        "was not at hand, and its trees are others: the shares do not compare one by one.",
        "",
        f"Harpoons with {HARPOON_BYTES} bytes and eps {HARPOON_EPS}; the closed forms hold on "
        f"{sum(map(_holds, harpoons))} of {len(harpoons)}.",
        "",
        "| levels, branches | nodes | best post-order | least peak | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for (levels, branches), row in zip(HARPOONS, harpoons, strict=True):
        ratio = int(row["postorder"]) / int(row["least"])
        lines.append(
            f"| {levels}, {branches} | {int(row['nodes']):,} | {int(row['postorder']):,} | "
            f"{int(row['least']):,} | {ratio:.3f} |"
        )
    lines += [
        "",
        "CPU seconds of each method, without loading and verifying, on one core of a shared machine.",
        "",
        "| instance | nodes | liu | minmem | postorder | series-parallel | best post-order | least peak |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in table:
        if row["set"].startswith("large"):
            cells = [row[f"{m} s"] or "-" for m in ("liu", "minmem", "postorder", "series-parallel")]
            cells += [f"{int(row[key]):,}" if row[key] else "-" for key in ("postorder", "least")]
            lines.append(f"| `{row['instance']}` | {int(row['nodes']):,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _files(table: list[Row]) -> str:
    """Return what there is to say of public files."""
    if _has_files(table):
        return f"public files of the repository {REPOSITORY} with up to {LARGEST_FILE:,} nodes"
    return f"no public files in this run (`--trees`, with `data/trees` of the repository {REPOSITORY})"


def _has_files(table: list[Row]) -> bool:
    return any(row["set"] == "files" for row in table)


def _holds(row: Row) -> bool:
    return row["postorder"] == row["closed postorder"] and row["least"] == row["closed least"]


def main() -> None:
    """Carry out the experiment, or read its rows, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trees", type=Path, help=f"a folder of dump.*.tree.nf files, as in {REPOSITORY}")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    args = parser.parse_args()
    path = HERE / "trees.csv"
    if args.trees is not None and not any(args.trees.glob("dump.*.tree.nf")):
        parser.error(f"--trees {args.trees}: found no dump.*.tree.nf file, expected some")
    if not args.table:
        if args.trees is None:
            print(f"no --trees: public files are left out ({REPOSITORY}, data/trees)", file=sys.stderr)
        table: list[Row] = []
        for row in rows(args.trees):
            table.append(row)
            print(f"{len(table)} rows: {row['instance']}", file=sys.stderr, flush=True)
        write_rows(path, COLUMNS, table)
    with path.open(newline="") as file:
        (HERE / "trees.md").write_text(markdown(list(csv.DictReader(file))))


if __name__ == "__main__":
    main()
