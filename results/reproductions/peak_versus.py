"""Carry out ``results/plans/peak_versus.toml``: seconds of auto, CP-SAT and HiGHS to a proven least peak.

    python results/reproductions/peak_versus.py [--plan FILE] [--out DIR] [--jobs 2]

Writes ``peak_versus.csv`` and ``peak_versus.md`` beside this script (with another plan, into DIR). Seconds
are end to end as the records count them: loading, building (with the import of the solver), solving,
verifying; at least `FLOOR`, and the limit where there is no proof. The table has every instance that needs
search: one is left out if CP-SAT, which takes the first steps of `auto` first, was done before it had a
model. Any contradiction among the methods (two optima, or a bound above another method's peak) ends the
script with exit status 1, after the tables.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from lowtide.results.reproductions.table_files import HERE, lowtide, records_of, write_table

PLAN = Path("results/plans/peak_versus.toml")
FLOOR = 0.1
"""Seconds that any run counts at least."""

RIVALS = ("cpsat", "milp")
COLUMNS = ("instance", "ops", "peak", "proven", "auto", "cpsat", "cpsat ratio", "milp", "milp ratio")

Runs = dict[str, dict[str, Any]]
"""The records of one instance by method."""


def by_instance(records: list[dict[str, Any]]) -> dict[str, Runs]:
    """Return the records by instance and method."""
    found: dict[str, Runs] = {}
    for record in records:
        found.setdefault(record["spec"], {})[record["method"]] = record
    return dict(sorted(found.items()))


def needs_search(runs: Runs) -> bool:
    """Return whether the first steps leave a gap."""
    rival = runs["cpsat"]
    return rival["status"] != "optimal" or rival["seconds"].get("build") is not None


def counted(record: dict[str, Any]) -> float:
    """Return the seconds that a run counts."""
    if record["status"] != "optimal":
        return float(record["limits"]["seconds"])
    parts = (record["seconds"].get(part) or 0.0 for part in ("load", "build", "solve", "verify"))
    return max(FLOOR, sum(parts))


def contradictions(runs: Runs) -> list[str]:
    """Return in words what cannot all be true."""
    found = [f"{m}: {r['status']}: {r['detail']}" for m, r in runs.items() if r["status"] == "failed"]
    found += [
        f"{m}: not verified" for m, r in runs.items() if r["objective"] is not None and not r["verified"]
    ]
    for m, one in runs.items():
        for k, other in runs.items():
            if None not in (one["bound"], other["objective"]) and one["bound"] > other["objective"]:
                found.append(f"bound {one['bound']} of {m}, peak {other['objective']} of {k}")
    return found


def row(spec: str, runs: Runs) -> dict[str, Any]:
    """Return the table's row of an instance."""
    from lowtide.instances import load

    peaks = [r["objective"] for r in runs.values() if r["objective"] is not None]
    found: dict[str, Any] = {
        "instance": spec,
        "ops": len(load(spec).ops),
        "peak": min(peaks),
        "proven": " ".join(m for m, r in runs.items() if r["status"] == "optimal"),
        "auto": round(counted(runs["auto"]), 2),
    }
    for rival in RIVALS:
        found[rival] = round(counted(runs[rival]), 2)
        found[f"{rival} ratio"] = round(counted(runs[rival]) / counted(runs["auto"]), 2)
    return found


def markdown(rows: list[dict[str, Any]], closed: int, limit: float) -> str:
    """Return the table, with the geometric means of the ratios."""
    lines = [
        f"Seconds to a proven least peak, one thread, at least {FLOOR:g}, `>{limit:g}` without a proof "
        f"(counted as {limit:g}). CP-SAT (time-indexed) and HiGHS (OLLA's MILP) start with the first steps "
        f"of `auto` as hint and bound. {closed} more instances of these families need no search. "
        "Made by `python results/reproductions/peak_versus.py`.",
        "",
        "| instance | ops | peak | auto | CP-SAT | ratio | HiGHS | ratio |",
        "|---" + "|---:" * 7 + "|",
    ]
    for row in rows:
        cells = [row["instance"], str(row["ops"]), f"{row['peak']:,}"]
        for method in ("auto", *RIVALS):
            solved = method in row["proven"].split()
            cells.append(f"{row[method]:.2f}" if solved else f">{limit:g}")
            cells += [f"{row[f'{method} ratio']:.1f}"] if method in RIVALS else []
        lines.append("| " + " | ".join(cells) + " |")
    means = [geometric_mean([row[f"{rival} ratio"] for row in rows]) for rival in RIVALS]
    lines.append(
        f"| geometric mean of {len(rows)} |  |  |  |  | **{means[0]:.1f}** |  | **{means[1]:.1f}** |"
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, write the table, report contradictions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plan", type=Path, default=PLAN, help="another plan with the same three methods")
    parser.add_argument("--out", help="keep the experiment's folder there")
    parser.add_argument("--jobs", default="2")
    arguments = parser.parse_args()
    # a user's first answer does not wait for compiled kernels to be compiled again, nor do these runs
    lowtide("solve", "peak", "catalogue:randwire-40-1", "--threads", "1", "--quiet")
    runs = by_instance(records_of(arguments.plan, arguments.out, jobs=arguments.jobs))
    searched = {spec: of for spec, of in runs.items() if needs_search(of)}
    rows = sorted((row(spec, of) for spec, of in searched.items()), key=lambda x: (x["ops"], x["instance"]))
    limit = max(record["limits"]["seconds"] for of in runs.values() for record in of.values())
    folder = HERE if arguments.plan == PLAN else Path(arguments.out or ".")
    text = markdown(rows, len(runs) - len(searched), limit)
    write_table("peak_versus", COLUMNS, rows, text, folder=folder)
    print(text)
    wrong = [f"{spec}: {words}" for spec, of in runs.items() for words in contradictions(of)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
