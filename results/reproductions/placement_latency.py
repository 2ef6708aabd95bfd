"""Carry out ``results/plans/placement_latency.toml``: the planner and published systems, 45 us per transfer.

    python results/reproductions/placement_latency.py [--out DIR | --table]

Writes ``placement_latency.csv`` and ``placement_latency.md`` beside this script. A ratio is the sum of the
durations over the period. The column without latency is that of ``placement_g10.csv``; with ``--table`` the
table is made again from the committed rows of both.
"""

from __future__ import annotations

from lowtide.results.reproductions.placement_g10 import PUBLISHED
from lowtide.results.reproductions.placement_policies import COLUMNS, OTHERS, PAIRS, carry_out, cell, short
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import Row, read_table, write_table


def markdown(table: list[Row], best: dict[str, Row]) -> str:
    """Return the rows as a Markdown table."""
    methods = [*PAIRS, *OTHERS]
    lines = [
        "Ideal time over period on G10's reference machine with 45 us per transfer: the planner (120 s, one "
        "thread) beside the systems of the table above, every plan verified; in brackets emergency "
        "evictions. Copies are whole tensors, or chunks of 16 MiB where a system moves pages; the planner "
        "chooses its chunks. Made by `make bench-placement`.",
        "",
        "| workload | G10, published | lowtide `planner` | `auto` without latency | "
        + " | ".join(name for name, _ in methods)
        + " |",
        "|---|" + "---:|" * (3 + len(methods)),
    ]
    for workload, published in PUBLISHED.items():
        cells = [workload, published[-1], cell(table, workload, "planner")]
        cells += [short(best[workload]["ratio"])]
        cells += [cell(table, workload, method) for _, method in methods]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    table = carry_out("placement_latency", (__doc__ or "").splitlines()[0])
    best = {row["workload"]: row for row in read_table("placement_g10")}
    text = markdown(table, best)
    write_table("placement_latency", COLUMNS, table, text)
    into_readme("placement_latency", text)


if __name__ == "__main__":
    main()
