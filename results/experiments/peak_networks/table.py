"""Least peaks of real networks beside the orders that are used today, with proof or gap."""

from __future__ import annotations

import re
from typing import Any

from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import HERE, by_instance, lowtide, seconds_of

JOBS = 2
"""Runs that are carried out at the same time, by default."""
SHOWN = 8
"""Graphs in the short table, those that gain most."""
TABLE = TableSpec(
    (
        Column("graph"),
        *(Column("ops", kind="d"), Column("reference", kind=","), Column("greedy", kind=",")),
        *(Column("peak", kind=","), Column("bound", kind=","), Column("gap", kind=".2%")),
        *(Column("status"), Column("seconds", kind=".2f")),
    )
)


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return the table's rows: one per instance, inference before training, small batches first."""
    from ....instances import load

    found = []
    for spec, of in by_instance(records).items():
        best = of["auto"]
        found.append(
            {
                "graph": title(spec)[0],
                "ops": len(load(spec).ops),
                "reference": of["reference"]["objective"],
                "greedy": of["greedy"]["objective"],
                "peak": best["objective"],
                "bound": best["bound"],
                "gap": best["gap"],
                "status": best["status"],
                "seconds": round(seconds_of(best, "solve", "verify"), 2),
                "instance": spec,
            }
        )
    return sorted(found, key=lambda row: (title(row["instance"])[1], row["ops"], row["graph"]))


def title(spec: str) -> tuple[str, tuple[int, int]]:
    """Return what a table calls an instance, and the group that it stands in."""
    if match := re.fullmatch(r"onnx:(\w+)\?batch=(\d+)(&train=1)?", spec):
        kind = "training" if match[3] else "inference"
        return f"{match[1]}, {kind}, batch {match[2]}", (kind == "training", int(match[2]))
    name = spec.removeprefix("catalogue:")
    return name, (2, name.startswith("g10/"))


def text(table: list[Row]) -> Fields:
    """Return all rows."""
    return {"which": f"All {len(table)} graphs.", "table": TABLE.of(table)}


def excerpt(table: list[Row]) -> Fields:
    """Return the rows whose reference order is farthest above the least peak, and words that say so."""
    some = sorted(table, key=lambda row: row["peak"] / row["reference"])[:SHOWN]
    proved = sum(row["status"] == "optimal" for row in table)
    which = f"Proven for {proved} of {len(table)} graphs; shown are the {SHOWN} that gain most."
    return {"which": which, "table": TABLE.of(some)}


def draw() -> None:
    """Draw the optimal order's profile beside the reference order's."""
    folder = HERE / "peak_networks"
    plan = folder / "inception_v1_training.json"
    lowtide("solve", "peak", "onnx:inception_v1?train=1", "--plan", plan, "--quiet")
    lowtide("plot", plan, "-o", folder / "inception_v1_training.svg")
    plan.unlink()
