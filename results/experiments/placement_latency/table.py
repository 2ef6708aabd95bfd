"""The planner and published systems on G10's workloads, 45 us per transfer.

A ratio is the sum of the durations over the period. The column without latency is that of `placement_g10`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_policies import table as policies
from ..placement_policies.table import OTHERS, PAIRS, best, carried_out, cell, published, short


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each workload and method."""
    return policies.rows(records)


def text(table: list[Row]) -> Fields:
    """Return the rows by workload."""
    columns = (
        *(Column("workload"), Column("G10, published", published(-1), RIGHT)),
        Column("lowtide `planner`", partial(cell, "planner"), RIGHT),
        Column("`auto` without latency", best("ratio", short), RIGHT),
        *carried_out((*PAIRS, *OTHERS)),
    )
    return {
        "table": TableSpec(columns, groups=("workload",)).of(table),
    }
