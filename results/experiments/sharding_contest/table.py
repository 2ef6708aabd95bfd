"""Nine instances of the contest on intra-operator parallelism at its time limits, and the best team's costs.

Two are bundled; the others are read from a folder of the contest's files (``--folder``), without which
their rows are not made again. One thread; the contest's limits, which the teams had with eight cores. The
best costs are the least ones of the contest's ``final_results.csv``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import lowtide as lt

from ...tables.spec import Column, Row, TableSpec
from ..running import Case

BUNDLED = ("B", "G")
"""Instances in the catalogue."""

CONTEST = {
    "A": (34_932, 60, 6_548_641_531),
    "B": (816, 60, 532_843),
    "D": (40_958, 60, 313_613_524_736),
    "G": (816, 120, 217_039),
    "K": (34_932, 180, 2_274_276_676),
    "M": (32_894, 180, 49_928_460_991),
    "P": (65_335, 240, 662_197_407_330),
    "S": (28_526, 240, 1_534_613_444),
    "V": (816, 300, 1_632_051),
}
"""By instance: ops, the contest's time limit in seconds, the least cost of all teams."""


def cases(*, folder: str = "") -> Iterator[Case]:
    """Yield a case for each instance that is bundled, or in the folder."""
    for name in CONTEST:
        if name in BUNDLED or folder:
            yield Case(name, partial(rows_of, name, folder))


def rows_of(name: str, folder: str) -> Iterator[Row]:
    """Yield the row of an instance; reading the file counts for nothing, as in the contest."""
    file = f"asplos-2025-iopddl-{name}.json.gz"
    bundled = name in BUNDLED
    network = lt.load_network(f"catalogue:iopddl/{name}" if bundled else f"iopddl:{Path(folder) / file}")
    ops, limit, best = CONTEST[name]
    assert len(network.costs) == ops
    cpu, wall = time.process_time(), time.perf_counter()
    result = lt.solve(lt.Sharding(network), threads=1, time_limit=limit)
    assert result.status is not lt.Status.FAILED, result.detail
    yield {
        "instance": f"catalogue:iopddl/{name}" if bundled else f"iopddl:{file}",
        "set": "bundled" if bundled else "files",
        "network": name,
        "ops": ops,
        "limit": limit,
        "best_team": best,
        "status": str(result.status),
        "cost": result.objective,
        "bound": result.bound,
        "wall": round(time.perf_counter() - wall, 1),
        "seconds": round(time.process_time() - cpu, 1),
    }


def over(row: Row) -> float | None:
    """Return by how much of the best team's cost the cost is above it."""
    return None if row["cost"] is None else row["cost"] / row["best_team"] - 1


def gap(row: Row) -> float | None:
    """Return what cost and bound differ by, in parts of the cost."""
    return None if row["cost"] is None else (row["cost"] - row["bound"]) / row["cost"]


TABLE = TableSpec(
    (
        Column("instance", "network"),
        Column("ops", kind=",d"),
        Column("limit, s", "limit", kind="d"),
        Column("best team's cost", "best_team", kind=",d"),
        Column("cost", kind=",d"),
        Column("over the team's", over, "+.2%"),
        Column("bound", kind=",d"),
        Column("gap", gap, ".2%"),
        Column("status"),
        Column("wall s", "wall", ".0f"),
        Column("CPU s", "seconds", ".0f"),
    )
)
