"""How far the best post-order of a tree is from the least peak, harpoons, and seconds on large graphs.

With ``--trees`` the ``dump.*.tree.nf`` files of a folder, of at most 47,000 nodes, are two more sets. The
committed rows have those of a public repository without a licence for them, so they are not bundled; this
gets them::

    git clone https://github.com/kulagins/tree-scheduler-refactored
    python -m lowtide.results.experiments trees --trees tree-scheduler-refactored/data/trees

Without ``--trees`` the two sets are left out, and the table says so. All orders of `liu` and `postorder` are
verified; `minmem` must agree with `liu` on every tree.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import lowtide as lt

from ....instances.drawn_sizes import with_drawn_sizes
from ....models.errors import UsageError
from ....solvers.context import Context
from ....solvers.registry import find_method
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case, say

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
"""Trees that are drawn of each size and shape."""
REPOSITORY = "kulagins/tree-scheduler-refactored"
LARGEST_FILE = 47_000
"""Nodes of files up to which a tree takes under 5 s of CPU with all orders verified."""

HARPOONS = tuple((levels, branches) for levels in (1, 2, 3, 4) for branches in (2, 3, 5))
HARPOON_BYTES, HARPOON_EPS = 900, 1
"""Bytes of a harpoon's memory, and those (eps) of its small files."""
LARGE_TREES = (
    "gen:intree?n=100000",
    "gen:outtree?n=100000&data=edge",
    "gen:harpoon?levels=9&branches=3&memory=900000",
    "gen:assembly?grid=400x400&leaf=1",
)
LARGE_SP = ("gen:sp?n=10000&data=edge", "gen:sp?n=10000&data=edge&branches=20", "gen:sp?n=100000&data=edge")
METHODS = ("liu", "minmem", "postorder", "series-parallel")
PUBLISHED = {"assembly trees": (4.2, 18, 1), "random trees": (61, 22, 12)}
"""Share that is not optimal, largest and mean increase, in percent: Jacquelin et al. 2011, as quoted."""


def cases(*, trees: Path | None = None) -> Iterator[Case]:
    """Yield a case for each tree; `trees` is a folder of dump.*.tree.nf files."""
    files = [] if trees is None else sorted(trees.glob("dump.*.tree.nf"))
    if trees is None:
        say(f"no --trees: public files are left out ({REPOSITORY}, data/trees)")
    elif not files:
        raise UsageError(f"--trees {trees}: found no dump.*.tree.nf file, expected some")
    for spec in ASSEMBLY:
        yield Case(spec, partial(compared, "assembly", spec))
        for draw in range(DRAWS):
            drawn = f"{spec}&draw={draw}"
            yield Case(drawn, partial(compared, "assembly, random weights", drawn))
    for path in files:
        yield Case(path.name, partial(of_file, path))
    for spec in RANDOM:
        yield Case(spec, partial(compared, "random", spec))
    for levels, branches in HARPOONS:
        spec = f"gen:harpoon?levels={levels}&branches={branches}&memory={HARPOON_BYTES}&eps={HARPOON_EPS}"
        yield Case(spec, partial(harpoon, spec, levels, branches))
    for spec in LARGE_TREES:
        yield Case(spec, partial(timed, "large trees", spec, METHODS))
    for spec in LARGE_SP:
        yield Case(spec, partial(timed, "large series-parallel", spec, METHODS[-1:]))


def of_file(path: Path) -> list[Row]:
    """Return the rows of a public file, unless it is too large."""
    graph = lt.load(path)
    if len(graph.ops) > LARGEST_FILE:
        say(f"{path.name}: left out, {len(graph.ops):,} nodes")
        return []
    drawn = with_drawn_sizes(graph, 0)
    return [
        *compared("files", path.name, graph),
        *compared("files, random weights", f"{path.name} draw 0", drawn),
    ]


def harpoon(spec: str, levels: int, branches: int) -> list[Row]:
    """Return the row of a harpoon, with the closed forms."""
    nbytes, eps = HARPOON_BYTES, HARPOON_EPS
    (row,) = compared("harpoon", spec)
    row["closed postorder"] = nbytes + eps + levels * (branches - 1) * nbytes // branches
    row["closed least"] = nbytes + eps + levels * (branches - 1) * eps
    return [row]


def compared(name: str, instance: str, graph: lt.Graph | None = None) -> list[Row]:
    """Return the row of a tree: the peaks of best post-order and best order."""
    graph = lt.load(instance) if graph is None else graph
    peaks = {method: lt.solve(lt.Peak(graph), method).objective for method in ("liu", "postorder")}
    context = Context(problem=lt.Peak(graph))
    find_method("peak", "minmem").load()(context.problem, context)
    assert None not in peaks.values()
    assert context.incumbent == peaks["liu"], instance
    return [
        {
            "set": name,
            "instance": instance,
            "nodes": len(graph.ops),
            "postorder": peaks["postorder"],
            "least": peaks["liu"],
        }
    ]


def timed(name: str, spec: str, methods: tuple[str, ...]) -> list[Row]:
    """Return the row of a large graph with the CPU seconds of each method."""
    loaded = lt.load(spec)
    row: Row = {"set": name, "instance": spec, "nodes": len(loaded.ops)}
    for method in methods:
        graph = replace(loaded)  # what methods derive from a graph is kept with it
        context = Context(problem=lt.Peak(graph))
        begin = time.process_time()
        find_method("peak", method).load()(context.problem, context)
        row[f"{method} s"] = round(time.process_time() - begin, 2)
        if method == "postorder":
            row["postorder"] = context.incumbent
        else:
            assert row.setdefault("least", context.incumbent) == context.incumbent, (spec, method)
    assert lt.solve(lt.Peak(loaded), "series-parallel").objective == row["least"], spec  # verified
    return [row]


SETS = {
    "assembly": "assembly trees, this project's",
    "files": "assembly trees, public files",
    "assembly, random weights": "the first shapes, random weights",
    "files, random weights": "the second shapes, random weights",
    "random": "random trees, this project's",
}


def increases(rows: list[Row]) -> list[float]:
    """Return by how many percent the best post-order of each tree is above the least peak."""
    return [100 * (row["postorder"] / row["least"] - 1) for row in rows]


def _worse(group: list[Row]) -> list[float]:
    return [x for x in increases(group) if x > 0]


def _percent(values: list[float]) -> str | None:
    return f"{sum(values) / len(values):.1f} %" if values else None


INCREASES = TableSpec(
    (
        Column("trees", lambda group: SETS[group[0]["set"]]),
        *(Column("how many", len, "d"), Column("nodes", lambda group: _nodes(group), RIGHT)),
        Column("not optimal", lambda group: f"{100 * len(_worse(group)) / len(group):.1f} %", RIGHT),
        Column("largest increase", lambda group: f"{max(increases(group)):.1f} %", RIGHT),
        Column("mean increase", lambda group: _percent(increases(group)), RIGHT),
        Column("where not optimal", lambda group: _percent(_worse(group)), RIGHT),
    ),
    groups=("set",),
)
HARPOON = TableSpec(
    (
        Column("levels, branches", lambda row: _shape(row["instance"])),
        *(
            Column("nodes", kind=","),
            Column("best post-order", "postorder", ","),
            Column("least peak", "least", ","),
        ),
        Column("ratio", lambda row: row["postorder"] / row["least"], ".3f"),
    )
)
LARGE = TableSpec(
    (
        *(Column("instance", lambda row: f"`{row['instance']}`"), Column("nodes", kind=",")),
        *(Column(method, f"{method} s", ".2f") for method in METHODS),
        *(Column("best post-order", "postorder", ","), Column("least peak", "least", ",")),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the three tables."""
    harpoons = [row for row in table if row["set"] == "harpoon"]
    ordered = [row for name in SETS for row in table if row["set"] == name]
    published = [
        [f"{words}, as published", "-", "-", f"{share} %", f"{largest} %", f"{mean} %", "-"]
        for words, (share, largest, mean) in PUBLISHED.items()
    ]
    return {
        "option": " --trees FOLDER" if _has_files(table) else "",
        "table": INCREASES.of(ordered, published),
        "grids": ", ".join(GRIDS),
        "files": _files(table),
        "holding": sum(map(_holds, harpoons)),
        "harpoons": len(harpoons),
        "harpoon_table": HARPOON.of(harpoons),
        "large": LARGE.of(row for row in table if row["set"].startswith("large")),
    }


def _nodes(group: list[Row]) -> str:
    nodes = [row["nodes"] for row in group]
    return f"{min(nodes):,} to {max(nodes):,}"


def _shape(spec: str) -> str:
    return ", ".join(re.findall(r"(?:levels|branches)=(\d+)", spec))


def _files(table: list[Row]) -> str:
    """Return what there is to say of public files."""
    if _has_files(table):
        return f"public files of the repository {REPOSITORY} with up to {LARGEST_FILE:,} nodes"
    return f"no public files in this run (`--trees`, with `data/trees` of the repository {REPOSITORY})"


def _has_files(table: list[Row]) -> bool:
    return any(row["set"] == "files" for row in table)


def _holds(row: Row) -> bool:
    return (row["postorder"], row["least"]) == (row["closed postorder"], row["closed least"])
