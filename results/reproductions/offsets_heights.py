"""Carry out ``results/plans/offsets.toml`` and make the README's table from its records.

    python results/reproductions/offsets_heights.py [--out DIR]

Solves `peak` for the fifteen networks first, and adds the residencies under the orders found. Writes
``offsets_heights.csv`` and ``offsets_heights.md`` beside this script, and the README's copy of the table.
With ``--out`` the folder is kept, and an interrupted experiment is gone on with.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

from lowtide.instances import load_buffers
from lowtide.instances.catalogue import entries
from lowtide.models.units import format_gap
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import HERE, ROOT, from_here, lowtide, records_of, write_table

PLAN = ROOT / "results/plans/offsets.toml"
PLANS = HERE / "offsets_plans"
"""Orders of least peak, which rows of the table are about; those that are there are not made again."""

COLUMNS = ("buffers of", "count", "max load", "height", "bound", "gap", "status", "first", "seconds", "rss")


def optimal_plans(folder: Path) -> list[Path]:
    """Solve `peak` for the real networks of the catalogue; return the plans."""
    found = []
    for name in sorted(name for name in entries() if name.startswith(("aten/", "g10/"))):
        plan = folder / f"{name.replace('/', '-', 1)}.json.gz"
        if not plan.exists():
            lowtide("solve", "peak", f"catalogue:{name}", "--threads", "1", "--quiet", "--plan", plan)
        found.append(plan)
    return found


def experiment(plans: list[Path], folder: Path) -> Path:
    """Return the committed experiment with the plans as further instances.

    A plan whose residencies are those of the reference order is no further question. The last of several
    names of one question stands, so the plans come first.
    """
    lines = "".join(f'    "{plan.resolve()}",\n' for plan in plans)
    text = PLAN.read_text().replace("instances = [\n", f"instances = [\n{lines}")
    path = folder / "offsets.toml"
    path.write_text(text)
    return path


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table's rows: challenging sets, then networks."""
    found = []
    for record in records:
        if not record["verified"]:
            raise SystemExit(f"{record['instance']}: {record['status']}, {record['detail']}")
        title, group = _title(record["spec"])
        buffers = load_buffers(record["spec"])
        first = next(point[0] for point in record["trace"] if point[1] is not None)
        found.append(
            {
                "instance": from_here(record["spec"]),
                "group": group,
                "buffers of": title,
                "count": len(buffers.buffers),
                "max load": max_load(buffers),
                "height": record["objective"],
                "bound": record["bound"],
                "gap": record["gap"],
                "status": record["status"],
                "first": round(first, 2),
                "seconds": round(record["seconds"]["solve"] + record["seconds"]["verify"], 2),
                "rss": record["peak_rss"],
            }
        )
    return sorted(found, key=lambda row: (row["group"], row["count"], row["buffers of"]))


def max_load(buffers: Any) -> int:
    """Return the most bytes alive at one time, from the definition."""
    change: dict[int, int] = {}
    for b in buffers.buffers:
        for begin, end, low, high in b.rectangles:
            change[begin] = change.get(begin, 0) + high - low
            change[end] = change.get(end, 0) - (high - low)
    most = now = 0
    for time in sorted(change):
        now += change[time]
        most = max(most, now)
    return most


def _title(spec: str) -> tuple[str, int]:
    """Return what the table calls an instance, and the number of its group."""
    if match := re.fullmatch(r"catalogue:minimalloc/(\w)", spec):
        return f"MiniMalloc's {match[1]}", 0
    if match := re.fullmatch(r"catalogue:(\w+)/([^?]*)(\?iterations=(\d+))?", spec):
        times = f", {match[4]} iterations" if match[4] else ""
        return f"{match[1]}/{match[2]}{times}", 3 if times else 1
    name = Path(spec).name.removesuffix(".json.gz").replace("-", "/", 1)
    return f"{name}, optimal order", 2


def draw() -> None:
    """Draw the README's picture: addresses for a training iteration, in its order of least peak."""
    with tempfile.TemporaryDirectory() as scratch:
        plan, placed = f"{scratch}/plan.json", f"{scratch}/placed.json"
        lowtide("solve", "peak", "onnx:squeezenet?train=1", "--plan", plan, "--quiet")
        lowtide("solve", "offsets", plan, "--plan", placed, "--quiet")
        out = HERE / "squeezenet_allocation.svg"
        lowtide("plot", placed, "--kind", "allocation", "-o", out)


def hard(table: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of sets that are large or take a while, and words that say so."""
    some = [row for row in table if row["status"] != "optimal" or row["seconds"] >= 1 or row["count"] >= 1000]
    return some, (
        f"Of {len(table)} sets, those {len(some)} that have 1,000 buffers or were not closed within a second "
        "([all](results/reproductions/offsets_heights.md))."
    )


def markdown(table: list[dict[str, Any]], which: str) -> str:
    """Return the rows as a Markdown table, bytes exact; `which` says which sets they are."""
    lines = [
        "Bytes; `auto` with a limit of 60 s and one thread, every allocation verified; `first`: seconds to "
        f"the first allocation, `rss`: most resident memory of the process. {which} "
        "Made by `make bench-offsets`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" + "|---:" * 5 + "|---" + "|---:" * 3 + "|",
    ]
    for row in table:
        cells = [row["buffers of"]]
        cells += [f"{row[key]:,}" for key in ("count", "max load", "height", "bound")]
        cells += [format_gap(row["gap"]), row["status"], f"{row['first']:.2f}", f"{row['seconds']:.2f}"]
        cells.append(f"{row['rss'] / 2**20:,.0f} MiB")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Carry out the experiment, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="keep the experiment's folder there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.out or scratch)
        PLANS.mkdir(exist_ok=True)
        plans = optimal_plans(PLANS)
        table = rows(records_of(experiment(plans, folder), str(folder / "runs")))
    asked = {row["instance"] for row in table}
    for path in plans:
        if f"{PLANS.name}/{path.name}" not in asked:
            path.unlink()
    write_table("offsets_heights", COLUMNS, table, markdown(table, f"All {len(table)} sets."))
    into_readme("offsets_heights", markdown(*hard(table)))
    draw()


if __name__ == "__main__":
    main()
