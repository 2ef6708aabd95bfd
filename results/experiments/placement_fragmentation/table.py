"""What addresses cost: every swapping system on G10's workloads, with an allocation within the capacities.

Questions of `swap_systems` on the first machine, as they are there and with ``addresses``. Systems have no
limit of time, so that addresses come from greedy allocations alone; `auto` has one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import Case
from ..swap_systems.compared import AUTO
from ..swap_systems.table import MACHINES, SYSTEMS, Question, asked

SECONDS = 60
"""Of `auto`, at most."""


def cases() -> Iterator[Case]:
    """Yield a case for each workload and method."""
    for workload in PUBLISHED:
        for method in (AUTO, *SYSTEMS):
            yield Case(f"{workload} {method}", partial(rows_of, workload, method))


def rows_of(workload: str, method: str) -> list[Row]:
    """Return the row of one solve; its plan and its addresses were verified."""
    bare, _, _ = asked(Question(MACHINES[0], workload, None))
    spec = f"{bare}&addresses=1"
    problem = load_problem(lt.Placement, spec)
    began = time.process_time()
    result = lt.solve(problem, method, threads=1, time_limit=SECONDS if method == AUTO else None)
    assert result.status is not lt.Status.FAILED, result.detail
    if "first_objective" not in result.facts:
        return []
    verdict, tier = result.verification, problem.machine.tiers[0]
    return [
        {
            "workload": workload,
            "device": tier.capacity,
            "method": method,
            "status": str(result.status),
            "first_period": result.facts["first_objective"],
            "first_excess": result.facts["first_excess"],
            "rounds": result.facts["rounds"],
            "period": result.objective,
            "bound": result.bound,
            "height": verdict.heights[tier.name] if isinstance(verdict, Verification) else None,
            "seconds": round(time.process_time() - began, 1),
            "instance": spec,
        }
    ]


def text(table: list[Row]) -> Fields:
    """Return by method and workload by how much the first plan is too high, and what addresses cost."""
    spec = TableSpec(
        (
            Column("method", lambda group: f"`{group[0]['method']}`"),
            *(Column(workload, partial(_cell, workload), RIGHT) for workload in PUBLISHED),
        ),
        groups=("method",),
    )
    have = [row for row in table if row["period"] is not None]
    least: dict[str, int] = {}
    for row in have:
        least[row["workload"]] = min(row["period"], least.get(row["workload"], row["period"]))
    return {
        "table": spec.of(table),
        "rows": len(table),
        "placed": len(have),
        "first": sum(row["first_excess"] == 0 for row in table),
        "ours": sum(row["method"] == AUTO and row["period"] == least[row["workload"]] for row in have),
        "workloads": len(least),
    }


def _cell(workload: str, group: list[Row]) -> str:
    """Say how far a first plan ends above the device, and how much slower the one with addresses is."""
    row = next((row for row in group if row["workload"] == workload), None)
    if row is None:
        return "no plan"
    high = f"{row['first_excess'] / row['device']:.1%}"
    if row["period"] is None:
        return f"{high}, none"
    if not row["first_excess"]:
        return "fits"
    return f"{high}, {row['period'] / row['first_period'] - 1:+.1%}"
