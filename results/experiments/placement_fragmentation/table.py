"""What fragmentation costs: every swapping system on G10's workloads, with addresses, and in whole pages.

Questions of `swap_systems` on the first machine, as they are there, with ``addresses`` and with ``page``.
Systems have no limit of time, so that addresses come from greedy allocations alone; `auto` has one.
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
"""Time limit of `auto` for each question, in seconds; the policies need none."""

PAGE = 2**21
"""Bytes of a page: the large pages of NVIDIA's unified memory."""

PAGED = tuple(name for name in PUBLISHED if name != "senet154-1024")
"""Workloads in pages: the rounds of the one left out take as long as those of all others."""


def cases() -> Iterator[Case]:
    """Yield a case for each workload, method and demand."""
    for page, workloads in ((None, PUBLISHED), (PAGE, PAGED)):
        for workload in workloads:
            for method in (AUTO, *SYSTEMS):
                name = f"{workload} {method}" + (" in pages" if page else "")
                yield Case(name, partial(rows_of, workload, method, page))


def rows_of(workload: str, method: str, page: int | None) -> list[Row]:
    """Return the row of one solve; its plan and its addresses, or its pages, were verified."""
    bare, _, _ = asked(Question(MACHINES[0], workload, None))
    spec = f"{bare}&page={page}B" if page else f"{bare}&addresses=1"
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
            "page": page,
            "device": tier.capacity,
            "method": method,
            "status": str(result.status),
            "first_period": result.facts["first_objective"],
            "first_excess": result.facts["first_excess"],
            "rounds": result.facts["rounds"],
            "period": result.objective,
            "bound": result.bound,
            "height": verdict.heights.get(tier.name) if isinstance(verdict, Verification) else None,
            "seconds": round(time.process_time() - began, 1),
            "instance": spec,
        }
    ]


def text(table: list[Row]) -> Fields:
    """Return by method and workload by how much the first plan is too high, and what its place costs."""
    found: Fields = {"mebibytes": PAGE >> 20}
    for name, page, workloads in (("addresses", None, PUBLISHED), ("pages", PAGE, PAGED)):
        some = [row for row in table if row["page"] == page]
        spec = TableSpec(
            (
                Column("method", lambda group: f"`{group[0]['method']}`"),
                *(Column(workload, partial(_cell, workload), RIGHT) for workload in workloads),
            ),
            groups=("method",),
        )
        have = [row for row in some if row["period"] is not None]
        ours = [row for row in have if row["method"] == AUTO]
        least = {
            workload: min(row["period"] for row in have if row["workload"] == workload)
            for workload in workloads
        }
        found |= {
            name: spec.of(some),
            f"{name}_plans": len(some),
            f"{name}_workloads": len(workloads),
            f"{name}_first": sum(row["first_excess"] == 0 for row in some),
            f"{name}_placed": len(have),
            f"{name}_ours": len(ours),
            f"{name}_best": sum(row["period"] == least[row["workload"]] for row in ours),
        }
    return found


def _cell(workload: str, group: list[Row]) -> str:
    """Say how far a first plan ends above the device, and how much slower the one that fits is."""
    row = next((row for row in group if row["workload"] == workload), None)
    if row is None:
        return "no plan"
    high = f"{row['first_excess'] / row['device']:.1%}"
    if row["period"] is None:
        return f"{high}, none"
    if not row["first_excess"]:
        return "fits"
    return f"{high}, {row['period'] / row['first_period'] - 1:+.1%}"
