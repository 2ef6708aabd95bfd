"""How far the orders of compilers and heuristics are from the least peak known.

The *excess* of an order over the least peak known is peak / least - 1. Means are geometric, of peak / least.
"""

from __future__ import annotations

from functools import partial
from statistics import geometric_mean
from typing import Any

from ...tables.spec import RIGHT, Cells, Column, Fields, Row, TableSpec
from ..peak_networks.table import title
from ..running import HERE, by_instance, from_folder

JOBS = 2
"""Runs that are carried out at the same time, by default."""
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


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return one row per instance: graph, ops, least peak, whether it is proven, peak by method."""
    from ....instances import load

    found = []
    for spec, of in by_instance(records).items():
        least = min(record["objective"] for record in of.values())
        found.append(
            {
                "graph": _name(spec)[0],
                "ops": len(load(spec).ops),
                "least": least,
                "proven": max(record["bound"] or 0 for record in of.values()) == least,
                **{method: of[method]["objective"] for method in METHODS},
                "instance": from_folder(spec, HERE / "peak_compilers"),
            }
        )
    places = {row["instance"]: _name(row["instance"])[1] for row in found}
    return sorted(found, key=lambda row: (group(row), places[row["instance"]], row["ops"], row["graph"]))


def _name(spec: str) -> tuple[str, tuple[int, int]]:
    """Return what the tables call an instance, and where it stands among others."""
    if spec.startswith("catalogue:") and not spec.startswith(REAL):
        return spec.removeprefix("catalogue:"), (3, 0)
    if spec.endswith("parallel_paths.json"):
        return "parallel paths (NVIDIA/Fuser 3290)", (4, 0)
    return title(spec)


def group(row: Row) -> int:
    """Return the number of a row's group."""
    if not row["instance"].startswith(REAL):
        return 2
    return 0 if "inference" in row["graph"] or row["graph"].endswith("_in") else 1


def excess(row: Row, method: str) -> float:
    """Return by how much a method's peak exceeds the least."""
    return float(row[method] / row["least"] - 1)


def percent(share: float) -> str:
    """Return a share for people: 0 only if it is."""
    if not share:
        return "0"
    return f"{share:.2%}" if share >= 0.00005 else "< 0.01%"


def excerpt(table: list[Row]) -> Fields:
    """Return one line per method: how often it is optimal, and its mean and largest excess by group."""
    groups = [[row for row in table if group(row) == g] for g in range(len(GROUPS))]

    def over(some: list[Row], row: Row) -> str:
        found = [excess(one, row["order"]) for one in some]
        mean = geometric_mean(1 + x for x in found) - 1 if any(found) else 0.0
        return f"{percent(mean)} / {percent(max(found))}"

    spec = TableSpec(
        (
            *(Column("order"), Column("least on", kind="d")),
            *(
                Column(f"{name} ({len(some)})", partial(over, some), RIGHT)
                for name, some in zip(GROUPS, groups, strict=True)
            ),
        )
    )
    lines = [{"order": m, "least on": sum(row[m] == row["least"] for row in table)} for m in METHODS]
    proven = sum(row["proven"] for row in table)
    return {"proven": proven, "table": spec.of(lines), "details": ""}


def details(table: list[Row]) -> Cells:
    """Return one line per graph: the least peak in bytes and each method's excess, empty if none."""

    def least(row: Row) -> str:
        return f"{row['least']:,}" + ("" if row["proven"] else " (not proven)")

    def over(method: str, row: Row) -> str:
        return percent(excess(row, method)) if row[method] > row["least"] else ""

    columns = (Column("graph"), Column("ops", kind="d"), Column("least peak", least, RIGHT))
    return TableSpec((*columns, *(Column(m, partial(over, m), RIGHT) for m in METHODS))).of(table)


def text(table: list[Row]) -> Fields:
    """Return both tables."""
    return {**excerpt(table), "details": details(table)}
