"""Carry out ``results/plans/peak_compilers.toml`` and make the tables of how far each order is from optimal.

    python results/reproductions/peak_compilers.py [--out DIR] [--jobs 2]

Writes ``peak_compilers.csv`` (bytes) and ``peak_compilers.md`` (excess) beside this script, and the README's
copy of the summary. With ``--out`` the experiment's folder is kept, and an interrupted one is gone on with.

The *excess* of an order over the least peak known is peak / least - 1. Means are geometric, of peak / least.
"""

from __future__ import annotations

import argparse
from statistics import geometric_mean
from typing import Any

from lowtide.results.reproductions.peak_networks import title
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import from_here, records_of, write_table

PLAN = "results/plans/peak_compilers.toml"
METHODS = (
    "reference",
    "inductor-bfs",
    "inductor-dfs",
    "inductor-lpmf",
    "inductor",
    "xla-bfs",
    "xla-dfs",
    "xla-list",
    "xla-post-order",
    "xla",
    "greedy",
    "serenity",
    "local-search",
)
"""The columns, in the order of the tables."""

GROUPS = ("inference", "training", "irregular")
"""Irregular: from architecture search, randomly wired, and the parallel paths."""

REAL = ("onnx:", "catalogue:aten/", "catalogue:g10/")
"""Where instances come from that are neither generated nor of the irregular kind."""

Row = dict[str, Any]


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return one row per instance: group, graph, ops, least peak, whether it is proven, peak by method."""
    from lowtide.instances import load

    by_instance: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        assert record["verified"], record
        by_instance.setdefault(record["spec"], {})[record["method"]] = record
    found = []
    for spec, of in by_instance.items():
        name, place = _name(spec)
        graph = load(spec)
        least = min(record["objective"] for record in of.values())
        found.append(
            {
                "group": _group(spec, name),
                "place": (place, len(graph.ops), name),
                "instance": from_here(spec),
                "graph": name,
                "ops": len(graph.ops),
                "least": least,
                "proven": max(record["bound"] or 0 for record in of.values()) == least,
                **{method: of[method]["objective"] for method in METHODS},
            }
        )
    return sorted(found, key=lambda row: (row["group"], row["place"]))


def _name(spec: str) -> tuple[str, tuple[int, int]]:
    """Return what the tables call an instance, and where it stands among others."""
    if spec.startswith("catalogue:") and not spec.startswith(REAL):
        return spec.removeprefix("catalogue:"), (3, 0)
    if spec.endswith("parallel_paths.json"):
        return "parallel paths (NVIDIA/Fuser 3290)", (4, 0)
    return title(spec)


def _group(spec: str, name: str) -> int:
    if not spec.startswith(REAL):
        return 2
    return 0 if "inference" in name or name.endswith("_in") else 1


def excess(row: Row, method: str) -> float:
    """Return by how much a method's peak exceeds the least."""
    return float(row[method] / row["least"] - 1)


def percent(share: float) -> str:
    """Return a share for people: 0 only if it is."""
    if not share:
        return "0"
    return f"{share:.2%}" if share >= 0.00005 else "< 0.01%"


def summary(table: list[Row]) -> str:
    """Return one line per method: how often it is optimal, and its mean and largest excess by group."""
    counts = [sum(row["group"] == g for row in table) for g in range(len(GROUPS))]
    proven = sum(row["proven"] for row in table)
    lines = [
        "Excess of each order's peak over the least peak: geometric mean / largest. "
        f"{len(table)} graphs, {proven} of them with a proven least peak. Made by `make bench-compilers`.",
        "",
        "| order | least on | "
        + " | ".join(f"{g} ({n})" for g, n in zip(GROUPS, counts, strict=True))
        + " |",
        "|---|---:" + "|---:" * len(GROUPS) + "|",
    ]
    for method in METHODS:
        cells = [method, str(sum(row[method] == row["least"] for row in table))]
        for g in range(len(GROUPS)):
            some = [excess(row, method) for row in table if row["group"] == g]
            mean = geometric_mean(1 + x for x in some) - 1 if any(some) else 0.0
            cells.append(f"{percent(mean)} / {percent(max(some))}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def details(table: list[Row]) -> str:
    """Return one line per graph: the least peak in bytes and each method's excess, empty if none."""
    lines = [
        "| graph | ops | least peak | " + " | ".join(METHODS) + " |",
        "|---|" + "---:|" * (2 + len(METHODS)),
    ]
    for row in table:
        least = f"{row['least']:,}" + ("" if row["proven"] else " (not proven)")
        over = [percent(excess(row, m)) if row[m] > row["least"] else "" for m in METHODS]
        lines.append("| " + " | ".join([row["graph"], str(row["ops"]), least, *over]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, then write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="keep the experiment's folder there")
    parser.add_argument("--jobs", default="2")
    arguments = parser.parse_args()
    table = rows(records_of(PLAN, arguments.out, jobs=arguments.jobs))
    text = summary(table)
    columns = ("graph", "ops", "least", "proven", *METHODS)
    write_table("peak_compilers", columns, table, text + "\n" + details(table))
    into_readme("peak_compilers", text)


if __name__ == "__main__":
    main()
