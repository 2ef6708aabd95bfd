"""Carry out ``results/plans/placement_machines.toml``: plans and bounds with less memory than G10 had.

    python results/reproductions/placement_machines.py [--out DIR]

Writes ``placement_machines.csv`` and ``placement_machines.md`` beside this script. A stall is the period less
the sum of the durations; the gap is that of the periods.
"""

from __future__ import annotations

import argparse
from typing import Any

from lowtide.instances.load_placement import load_placement
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import records_of, write_table

PLAN = "results/plans/placement_machines.toml"
COLUMNS = (
    "workload", "device", "host", "ideal", "period", "stall", "bound", "bound_stall", "gap", "bound_kind",
    "bound_seconds", "seconds",
)  # fmt: skip
GIB = 2**30


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each machine."""
    found = []
    for record in records:
        assert record["verified"], record["detail"]
        problem = load_placement(record["spec"])
        ideal = sum(op.duration_ns for op in problem.graph.ops)
        device, host = (tier.capacity for tier in problem.machine.tiers[:2])
        found.append(
            {
                "workload": problem.graph.name,
                "device": device,
                "host": host,
                "ideal": ideal,
                "period": record["objective"],
                "stall": record["objective"] - ideal,
                "bound": record["bound"],
                "bound_stall": record["bound"] - ideal,
                "gap": record["gap"],
                "bound_kind": record["bound_kind"],
                "bound_seconds": bound_seconds(record),
                "seconds": round(record["seconds"]["solve"], 1),
            }
        )
    return sorted(found, key=lambda row: (row["workload"], -row["host"], -row["device"]))


def bound_seconds(record: dict[str, Any]) -> float:
    """Return the seconds after which the bound was within a millionth of the last one."""
    last = record["trace"][-1][2]
    reached = (t for t, _, bound, *_ in record["trace"] if (last - bound) * 10**6 <= last)
    return round(float(next(reached)), 1)


def markdown(table: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "Less memory than G10's reference machine has: stall of the verified periodic plan of `auto` and the "
        "certified least one, two threads, at most 120 s and 4 GiB. Made by `make bench-placement`.",
        "",
        "| workload | device, GiB | host, GiB | ideal, s | stall, s | at least, s | gap of the periods "
        "| bound by | bound after, s | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for row in table:
        cells = [row["workload"], f"{row['device'] // GIB}", f"{row['host'] // GIB}"]
        cells += [f"{row[key] / 1e9:.3f}" for key in ("ideal", "stall", "bound_stall")]
        cells += [f"{100 * row['gap']:.3f}%", row["bound_kind"]]
        cells += [f"{row['bound_seconds']:.1f}", f"{row['seconds']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="keep the experiment's folder there")
    arguments = parser.parse_args()
    table = rows(records_of(PLAN, arguments.out))
    text = markdown(table)
    write_table("placement_machines", COLUMNS, table, text)
    into_readme("placement_machines", text)


if __name__ == "__main__":
    main()
