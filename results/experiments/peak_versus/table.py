"""Seconds of auto, CP-SAT and HiGHS to a proven least peak.

Seconds are end to end as the records count them: loading, building (with the import of the solver), solving,
verifying; at least `FLOOR`, and the limit where there is no proof. The table has every instance that needs
search: one is left out if CP-SAT, which takes the first steps of `auto` first, was done before it had a
model. Any contradiction among the methods (two optima, or a bound above another method's peak) ends the
experiment without a table.
"""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any

from ....models.errors import UsageError
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Runs, by_instance, experiment_of, seconds_of

JOBS = 2
"""Runs that are carried out at the same time, by default."""
FLOOR = 0.1
"""Seconds that any run counts at least."""

RIVALS = ("cpsat", "milp")


def needs_search(runs: Runs) -> bool:
    """Return whether the first steps leave a gap."""
    rival = runs["cpsat"]
    return rival["status"] != "optimal" or rival["seconds"].get("build") is not None


def counted(record: dict[str, Any]) -> float:
    """Return the seconds that a run counts."""
    if record["status"] != "optimal":
        return float(record["limits"]["seconds"])
    return max(FLOOR, seconds_of(record))


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


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each instance that needs search."""
    of = by_instance(records)
    wrong = [f"{spec}: {words}" for spec, runs in of.items() for words in contradictions(runs)]
    if wrong:
        raise UsageError("; ".join(wrong))
    found = [row(spec, runs) for spec, runs in sorted(of.items()) if needs_search(runs)]
    return sorted(found, key=lambda row: (row["ops"], row["instance"]))


def row(spec: str, runs: Runs) -> Row:
    """Return the table's row of an instance."""
    from ....instances import load

    found: Row = {
        "instance": spec,
        "ops": len(load(spec).ops),
        "peak": min(r["objective"] for r in runs.values() if r["objective"] is not None),
        "proven": " ".join(m for m, r in runs.items() if r["status"] == "optimal"),
        "auto": round(counted(runs["auto"]), 2),
    }
    for rival in RIVALS:
        found[rival] = round(counted(runs[rival]), 2)
        found[f"{rival} ratio"] = round(counted(runs[rival]) / counted(runs["auto"]), 2)
    return found


def text(table: list[Row]) -> Fields:
    """Return the rows, with the geometric means of the ratios."""
    limit = experiment_of("peak_versus")["limits"]["seconds"]

    def seconds(heading: str, method: str) -> Column:
        def shown(row: Row) -> str:
            return f"{row[method]:.2f}" if method in row["proven"].split() else f">{limit:g}"

        return Column(heading, shown, RIGHT)

    spec = TableSpec(
        (
            *(Column("instance"), Column("ops", kind="d"), Column("peak", kind=","), seconds("auto", "auto")),
            *(seconds("CP-SAT", "cpsat"), Column("ratio", "cpsat ratio", ".1f")),
            *(seconds("HiGHS", "milp"), Column("ratio", "milp ratio", ".1f")),
        )
    )
    means = [f"**{geometric_mean([row[f'{rival} ratio'] for row in table]):.1f}**" for rival in RIVALS]
    return {
        "limit": limit,
        "table": spec.of(
            table, [[f"geometric mean of {len(table)}", "", "", "", "", means[0], "", means[1]]]
        ),
    }
