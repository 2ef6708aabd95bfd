"""Carry out ``results/plans/peak_optimal.toml`` and make the README's table and picture from its records.

    python results/reproductions/peak_networks.py [--out DIR] [--jobs 2]

Writes ``peak_networks.csv``, ``peak_networks.md`` and ``inception_v1_training.svg`` beside this script, and
the README's copy of the table. With ``--out`` the experiment's folder is kept, and an interrupted one is
gone on with.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import HERE, lowtide, records_of, write_table

PLAN = "results/plans/peak_optimal.toml"
COLUMNS = ("graph", "ops", "reference", "greedy", "peak", "bound", "gap", "status", "seconds")


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table's rows: one per instance, inference before training, small batches first."""
    from lowtide.instances import load

    by_instance: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        assert record["verified"], record
        by_instance.setdefault(record["spec"], {})[record["method"]] = record
    found = []
    for spec, of in by_instance.items():
        best = of["auto"]
        name, group = title(spec)
        found.append(
            {
                "group": group,
                "instance": spec,
                "graph": name,
                "ops": len(load(spec).ops),
                "reference": of["reference"]["objective"],
                "greedy": of["greedy"]["objective"],
                "peak": best["objective"],
                "bound": best["bound"],
                "gap": best["gap"],
                "status": best["status"],
                "seconds": round(best["seconds"]["solve"] + best["seconds"]["verify"], 2),
            }
        )
    return sorted(found, key=lambda row: (row["group"], row["ops"], row["graph"]))


def title(spec: str) -> tuple[str, tuple[int, int]]:
    """Return what a table calls an instance, and the group that it stands in."""
    if match := re.fullmatch(r"onnx:(\w+)\?batch=(\d+)(&train=1)?", spec):
        kind = "training" if match[3] else "inference"
        return f"{match[1]}, {kind}, batch {match[2]}", (kind == "training", int(match[2]))
    name = spec.removeprefix("catalogue:")
    return name, (2, name.startswith("g10/"))


def markdown(table: list[dict[str, Any]], which: str) -> str:
    """Return the rows as a Markdown table, bytes exact; `which` says which graphs they are."""
    lines = [
        f"Peak memory in bytes; `auto` with a limit of 60 s and one thread, every plan verified. {which} "
        "Made by `make bench`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" + "|---:" * 6 + "|---|---:|",
    ]
    for row in table:
        cells = [row["graph"], f"{row['ops']}"]
        cells += [f"{row[key]:,}" for key in ("reference", "greedy", "peak", "bound")]
        cells += [f"{100 * row['gap']:.2f}%", row["status"], f"{row['seconds']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def changed(table: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of graphs whose reference order is not proven the best, and words that say so."""
    some = [row for row in table if row["status"] != "optimal" or row["peak"] != row["reference"]]
    proved = sum(row["status"] == "optimal" for row in table)
    return some, (
        f"Proven for {proved} of {len(table)} graphs; shown are the {len(some)} where that is not the peak "
        "of the reference order ([all](results/reproductions/peak_networks.md))."
    )


def draw() -> None:
    """Draw the README's picture: the optimal order's profile beside the reference order's."""
    plan = HERE / "inception_v1_training.json"
    lowtide("solve", "peak", "onnx:inception_v1?train=1", "--plan", plan, "--quiet")
    lowtide("plot", plan, "-o", HERE / "inception_v1_training.svg")
    plan.unlink()


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="keep the experiment's folder there")
    parser.add_argument("--jobs", default="2")
    arguments = parser.parse_args()
    table = rows(records_of(PLAN, arguments.out, jobs=arguments.jobs))
    write_table("peak_networks", COLUMNS, table, markdown(table, f"All {len(table)} graphs."))
    into_readme("peak_networks", markdown(*changed(table)))
    draw()


if __name__ == "__main__":
    main()
