"""Carry out ``results/plans/placement_policies.toml``: published systems on G10's workloads.

    python results/reproductions/placement_policies.py [--out DIR | --table]

Writes ``placement_policies.csv`` and ``placement_policies.md`` beside this script. A ratio is the sum of the
durations over the period. The columns of `auto` and of the bound are those of ``placement_g10.csv``; with
``--table`` the table is made again from the committed rows of both.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lowtide.instances.load import load
from lowtide.results.reproductions.placement_g10 import PUBLISHED
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import Row, read_table, records_of, write_table

COLUMNS = ("workload", "method", "ideal", "period", "ratio", "emergencies", "evictions", "seconds")
PAIRS = (("LRU", "demand-lru"), ("FlashNeuron", "flashneuron"), ("DeepUM", "deepum"), ("G10", "g10"))
"""The systems of `PUBLISHED`, and the methods that follow them."""
OTHERS = (("vDNN", "vdnn"), ("Belady", "belady"), ("AutoSwap", "autoswap"))


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each workload and method."""
    found = []
    for record in records:
        path = record["spec"].partition("?")[0]
        ideal = sum(op.duration_ns for op in load(path).ops)
        period = record["objective"]
        assert period is None or record["verified"], record["detail"]
        found.append(
            {
                "workload": Path(path).name,
                "method": record["method"],
                "ideal": ideal,
                "period": period,
                "ratio": None if period is None else ideal / period,
                "emergencies": record["facts"].get("emergencies", 0),
                "evictions": record["facts"].get("evictions", 0),
                "seconds": round(record["seconds"]["solve"], 1),
            }
        )
    return sorted(found, key=lambda row: (list(PUBLISHED).index(row["workload"]), row["method"]))


def cell(table: list[Row], workload: str, method: str) -> str:
    """Return a ratio, and in brackets how many emergencies it took."""
    (row,) = (r for r in table if (r["workload"], r["method"]) == (workload, method))
    if row["ratio"] is None:
        return "does not fit"
    return short(row["ratio"]) + (f" ({row['emergencies']})" if row["emergencies"] else "")


def short(ratio: float) -> str:
    """Return a ratio in three decimals, rounded down so that 1.000 is no stall at all."""
    return f"{int(1000 * ratio) / 1000:.3f}".removeprefix("0")


def markdown(table: list[Row], best: dict[str, Row]) -> str:
    """Return the rows as a Markdown table."""
    names = [name for name, _ in PAIRS]
    lines = [
        "Ideal time over period (1 is no stall) of published systems on the reference machine of G10, in "
        "steady state: as published (G10, MICRO 2023, artifact), and carried out here, every plan verified. "
        "In brackets: how many emergency evictions an iteration took, because the system's own decisions do "
        "not fit. Published figures charge 45 us for each fault or batch of pages, durations measured with "
        "faults, allocation, and a copy of every page that leaves, clean or not; these plans pay for bytes "
        "and durations. On the other hand an op there runs while its pages come, and here it starts when all "
        "are there; FlashNeuron's link is 7% faster there, its memory fragments, and it runs once. Belady "
        "and AutoSwap choose the same tensors where activations are used in reverse. Made by "
        "`make bench-placement`.",
        "",
        "| workload | " + " | ".join(f"{name}, published | here" for name in names) + " | "
        "" + " | ".join(name for name, _ in OTHERS) + " | lowtide `auto` | bound |",
        "|---|" + "---:|" * (2 * len(PAIRS) + len(OTHERS) + 2),
    ]
    for workload, published in PUBLISHED.items():
        cells = [workload]
        for said, (_, method) in zip(published, PAIRS, strict=True):
            cells += [said, cell(table, workload, method)]
        cells += [cell(table, workload, method) for _, method in OTHERS]
        row = best[workload]
        cells += [f"{row[key]:.4f}".removeprefix("0") for key in ("ratio", "bound_ratio")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def carry_out(name: str, summary: str) -> list[Row]:
    """Run an experiment as the command line says, or go on with one whose folder is there; return rows."""
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--out", help="keep the experiment's folder there")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    arguments = parser.parse_args()
    if arguments.table:
        return read_table(name)
    return rows(records_of(f"results/plans/{name}.toml", arguments.out))


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    table = carry_out("placement_policies", (__doc__ or "").splitlines()[0])
    best = {row["workload"]: row for row in read_table("placement_g10")}
    text = markdown(table, best)
    write_table("placement_policies", COLUMNS, table, text)
    into_readme("placement_policies", text)


if __name__ == "__main__":
    main()
