"""Carry out ``results/plans/peak_scale.toml``: hard and large generated graphs, proven or with which gap.

    python results/reproductions/peak_scale.py [--plan FILE] [--out DIR] [--jobs 1]

Writes ``peak_scale.csv`` and ``peak_scale.md`` beside this script (with another plan, into DIR). Seconds are
end to end: loading, building, solving, verifying; memory is the highest resident of the run's process.
Below the table each aim of `AIMS` stands with what was found.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowtide.results.reproductions.table_files import HERE, lowtide, records_of, write_table

PLAN = Path("results/plans/peak_scale.toml")
COLUMNS = (
    "instance",
    "ops",
    "reference",
    "greedy",
    "peak",
    "bound",
    "gap",
    "status",
    "seconds",
    "greedy seconds",
    "megabytes",
)

Row = dict[str, Any]


def proven_within(seconds: float) -> Callable[[Row], bool]:
    """Return the test that a row is proven within so many seconds."""
    return lambda row: row["status"] == "optimal" and row["seconds"] <= seconds


def gap_below(part: float) -> Callable[[Row], bool]:
    """Return the test that a row's gap is known and below that part."""
    return lambda row: row["gap"] is not None and row["gap"] < part


AIMS: tuple[tuple[str, str, int | None, Callable[[Row], bool]], ...] = (
    ("randomly wired, n = 60: proven in 120 s", r"randwire\?n=60&", None, proven_within(120)),
    ("randomly wired, n = 100: proven in 120 s, 6 of 8", r"randwire\?n=100&", 6, proven_within(120)),
    ("in-trees of 1,000 and 5,000 ops: proven in 10 s", r"intree\?", None, proven_within(10)),
    ("series-parallel, 1,000 and 5,000 ops: proven in 10 s", r"gen:sp\?", None, proven_within(10)),
    ("NASNet- and DARTS-like, to 20 cells: proven in 10 s", r"nasnet\?|darts\?", None, proven_within(10)),
    ("layered 500 x 10: gap below 5%", r"layers=500&", None, gap_below(0.05)),
    ("100,000 ops: greedy in 10 s", r"layers=10000&", None, lambda r: r["greedy seconds"] <= 10),
    ("100,000 ops: below 4 GB", r"layers=10000&", None, lambda r: r["megabytes"] < 4000),
)
"""What is aimed at, for which instances, how many of them (None: all), and how a row meets it."""


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return the table's rows, one per instance, in the order of size within each kind."""
    from lowtide.instances import load

    by_instance: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        assert record["verified"] or record["objective"] is None, record
        by_instance.setdefault(record["spec"], {})[record["method"]] = record
    found = []
    for spec, of in by_instance.items():
        best = of["auto"]
        found.append(
            {
                "instance": spec,
                "ops": len(load(spec).ops),
                "reference": of["reference"]["objective"],
                "greedy": of["greedy"]["objective"],
                "peak": best["objective"],
                "bound": best["bound"],
                "gap": best["gap"],
                "status": best["status"],
                "seconds": seconds(best),
                "greedy seconds": seconds(of["greedy"]),
                "megabytes": max(record["peak_rss"] or 0 for record in of.values()) // 10**6,
            }
        )
    return sorted(found, key=lambda row: (row["instance"].partition("?")[0], row["ops"], row["instance"]))


def seconds(record: dict[str, Any]) -> float:
    """Return the end-to-end seconds of a run."""
    parts = (record["seconds"].get(part) or 0.0 for part in ("load", "build", "solve", "verify"))
    return round(sum(parts), 2)


def aims(table: list[Row]) -> list[str]:
    """Return a line for each aim: what was found, and whether it is met."""
    lines = []
    for words, pattern, least, meets in AIMS:
        chosen = [row for row in table if re.search(pattern, row["instance"])]
        count = sum(map(meets, chosen))
        met = bool(chosen) and count >= (len(chosen) if least is None else least)
        lines.append(f"- {words}: {count} of {len(chosen)}, {'met' if met else 'not met'}")
    return lines


def markdown(table: list[Row]) -> str:
    """Return the rows as a Markdown table, and the aims."""
    lines = [
        "Least peak memory of generated graphs by `auto` with one thread, every plan verified. "
        "Made by `python results/reproductions/peak_scale.py`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" + "|---:" * 6 + "|---" + "|---:" * 3 + "|",
    ]
    for row in table:
        cells = [row["instance"]]
        cells += [_number(row[key]) for key in ("ops", "reference", "greedy", "peak", "bound")]
        cells += ["-" if row["gap"] is None else f"{100 * row['gap']:.2f}%", row["status"]]
        cells += [f"{row['seconds']:.2f}", f"{row['greedy seconds']:.2f}", _number(row["megabytes"])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *aims(table)]) + "\n"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plan", type=Path, default=PLAN, help="another plan with the same three methods")
    parser.add_argument("--out", help="keep the experiment's folder there")
    parser.add_argument("--jobs", default="1")
    arguments = parser.parse_args()
    # a user's first answer does not wait for compiled kernels to be compiled again, nor do these runs
    lowtide("solve", "peak", "catalogue:randwire-40-1", "--threads", "1", "--quiet")
    table = rows(records_of(arguments.plan, arguments.out, jobs=arguments.jobs))
    folder = HERE if arguments.plan == PLAN else Path(arguments.out or ".")
    text = markdown(table)
    write_table("peak_scale", COLUMNS, table, text, folder=folder)
    print(text)


if __name__ == "__main__":
    main()
