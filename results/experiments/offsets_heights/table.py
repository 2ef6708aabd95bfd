"""Heights of challenging sets of buffers and of real networks, with proof or gap.

Solves `peak` for the fifteen networks first, and adds the residencies under the orders found, which are in
``plans``; in ``best`` are two allocations that no method reaches within a minute: found by guided ejection
(`squeeze_dense`, targets one unit below the best, weights kept), D in 14 minutes, J in 7 and, from there with
another seed, 2.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from ....instances import load_buffers
from ....instances.catalogue import entries
from ....models.units import format_gap
from ...tables.spec import RIGHT, Column, Row, TableSpec
from ..running import HERE, by_instance, from_folder, lowtide, read_rows, seconds_of

FOLDER = HERE / "offsets_heights"
PLANS = FOLDER / "plans"
"""Orders of least peak, which rows of the table are about; those that are there are not made again."""

TABLE = TableSpec(
    (
        *(Column("buffers of"), Column("count", kind=","), Column("max load", kind=",")),
        *(Column("height", kind=","), Column("bound", kind=",")),
        *(Column("gap", lambda row: format_gap(row["gap"]), RIGHT), Column("status")),
        *(Column("first", kind=".2f"), Column("seconds", kind=".2f")),
        Column("rss", lambda row: f"{row['rss'] / 2**20:,.0f} MiB", RIGHT),
    )
)


def optimal_plans() -> list[Path]:
    """Solve `peak` for the real networks of the catalogue; return the plans."""
    PLANS.mkdir(exist_ok=True)
    found = []
    for name in sorted(name for name in entries() if name.startswith(("aten/", "g10/"))):
        plan = PLANS / f"{name.replace('/', '-', 1)}.json.gz"
        if not plan.exists():
            lowtide("solve", "peak", f"catalogue:{name}", "--threads", "1", "--quiet", "--plan", plan)
        found.append(plan)
    return found


def experiment(folder: Path) -> Path:
    """Return the committed experiment with the plans as further instances, in a folder.

    A plan whose residencies are those of the reference order is no further question. The last of several
    names of one question stands, so the plans come first.
    """
    lines = "".join(f'    "{plan.resolve()}",\n' for plan in optimal_plans())
    text = (FOLDER / "experiment.toml").read_text().replace("instances = [\n", f"instances = [\n{lines}")
    path = folder / "offsets.toml"
    path.write_text(text)
    return path


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return the table's rows: challenging sets, then networks."""
    found = []
    for spec, of in by_instance(records).items():
        record, buffers = of["auto"], load_buffers(spec)
        first = next(point[0] for point in record["trace"] if point[1] is not None)
        found.append(
            {
                "buffers of": _title(spec)[0],
                "count": len(buffers.buffers),
                "max load": max_load(buffers),
                "height": record["objective"],
                "bound": record["bound"],
                "gap": record["gap"],
                "status": record["status"],
                "first": round(first, 2),
                "seconds": round(seconds_of(record, "solve", "verify"), 2),
                "rss": record["peak_rss"],
                "instance": from_folder(spec, FOLDER),
            }
        )
    return sorted(found, key=lambda row: (_title(row["instance"])[1], row["count"], row["buffers of"]))


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
    """Draw addresses for a training iteration, in its order of least peak; drop plans of no row."""
    with tempfile.TemporaryDirectory() as scratch:
        plan, placed = f"{scratch}/plan.json", f"{scratch}/placed.json"
        lowtide("solve", "peak", "onnx:squeezenet?train=1", "--plan", plan, "--quiet")
        lowtide("solve", "offsets", plan, "--plan", placed, "--quiet")
        lowtide("plot", placed, "--kind", "allocation", "-o", FOLDER / "squeezenet_allocation.svg")
    asked = {row["instance"] for row in read_rows(FOLDER.name)}
    for path in PLANS.iterdir():
        if f"{PLANS.name}/{path.name}" not in asked:
            path.unlink()
