"""Carry out ``results/plans/placement_g10.toml``: verified plans and certified bounds on G10's workloads.

    python results/reproductions/placement_g10.py [--out DIR]

Writes ``placement_g10.csv`` and ``placement_g10.md`` beside this script. A ratio is the sum of the durations
over the period. The published columns are those of the artifact's own result file (``example_results``,
overall performance), ideal time over each system's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lowtide.instances.load import load
from lowtide.results.reproductions.placement_machines import bound_seconds
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import records_of, write_table

PLAN = "results/plans/placement_g10.toml"
COLUMNS = (
    "workload", "ops", "ideal", "period", "ratio", "bound", "bound_ratio", "gap", "status", "bound_kind",
    "bound_seconds", "seconds",
)  # fmt: skip

PUBLISHED = {
    "bert_base-256": (".371", ".713", ".795", ".997"),
    "vit-1280": (".151", "fails", ".492", ".671"),
    "inceptionv3-1536": (".212", "fails", ".673", ".977"),
    "resnet152-1280": (".240", ".642", ".853", ".984"),
    "senet154-1024": (".182", ".533", ".688", ".934"),
}
"""LRU, FlashNeuron, DeepUM and G10 as published (G10, MICRO 2023, artifact)."""


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each workload."""
    found = []
    for record in records:
        assert record["verified"], record["detail"]
        path = record["spec"].partition("?")[0]
        graph = load(path)
        ideal = sum(op.duration_ns for op in graph.ops)
        found.append(
            {
                "workload": Path(path).name,
                "ops": len(graph.ops),
                "ideal": ideal,
                "period": record["objective"],
                "ratio": ideal / record["objective"],
                "bound": record["bound"],
                "bound_ratio": ideal / record["bound"],
                "gap": record["gap"],
                "status": record["status"],
                "bound_kind": record["bound_kind"],
                "bound_seconds": bound_seconds(record),
                "seconds": round(record["seconds"]["solve"], 1),
            }
        )
    return sorted(found, key=lambda row: list(PUBLISHED).index(row["workload"]))


def markdown(table: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "Ideal time over period (1 is no stall) on the reference machine of G10: plans of `auto`, verified, "
        "against certified bounds, two threads, at most 300 s and 4 GiB. Published: LRU, FlashNeuron, DeepUM "
        "and G10 in the simulator of that work, which charges 45 us for each transfer, page batches and "
        "allocation; these plans pay for bytes and durations only, in chunks of megabytes. Made by "
        "`make bench-placement`.",
        "",
        "| workload | ops | ideal, s | LRU | FlashNeuron | DeepUM | G10 "
        "| lowtide | bound | gap | status | bound after, s | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for row in table:
        cells = [row["workload"], f"{row['ops']:,}", f"{row['ideal'] / 1e9:.2f}", *PUBLISHED[row["workload"]]]
        cells += [f"{row['ratio']:.4f}", f"{row['bound_ratio']:.4f}", f"{100 * row['gap']:.3f}%"]
        cells += [row["status"], f"{row['bound_seconds']:.1f}", f"{row['seconds']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="keep the experiment's folder there")
    arguments = parser.parse_args()
    table = rows(records_of(PLAN, arguments.out))
    text = markdown(table)
    write_table("placement_g10", COLUMNS, table, text)
    into_readme("placement_g10", text)


if __name__ == "__main__":
    main()
