"""A chain in little memory: second runs alone, with each slower tier alone, and with both together.

The times are those of the ops run and of copies, which block. ``together.svg`` is a plan with both tiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt
from lowtide import plot

from ....instances import load_problem
from ....instances.spec import resolved_spec
from ...tables.spec import Column, Row, TableSpec
from ..running import HERE, Case

FOLDER = HERE / "recompute_tiers"
CHAIN = "gen:taped-chain?l=60&seed=1"
MEMORIES = (135, 150)
"""Bytes; the chain keeps some 20 a stage."""
WAYS = {"runs": "", "ssd": "ssd", "host": "host", "together": "host-ssd"}
"""The machine of each, in `machines`: what is behind the memory; without one nothing is."""
DRAWN = 135
"""The memory in bytes of the plan that is drawn."""


def cases() -> Iterator[Case]:
    """Yield a case for each memory."""
    for memory in MEMORIES:
        yield Case(f"{memory} bytes", partial(rows_of, memory))


def rows_of(memory: int) -> list[Row]:
    """Return a row for each set of tiers; all plans were verified."""
    rows = []
    for way, machine in WAYS.items():
        spec = f"{CHAIN}&memory={memory}B" + (f"&machine=machines/{machine}.toml" if machine else "")
        problem = load_problem(lt.Recompute, resolved_spec(spec, str(FOLDER)))
        method = "tiered-chain" if machine else "hetero-chain"
        result = lt.solve(problem, method, threads=1)
        assert result.plan is not None, result.detail
        if (way, memory) == ("together", DRAWN):
            figure = plot.new_figure(plot.timeline_inches(result.plan))
            title = f"A chain in {memory} bytes: second runs and two slower tiers"
            drawn = plot.timeline(result.plan, problem.graph, figure, title=title)[0]
            plot.save(drawn, FOLDER / "together.svg")
        rows.append(
            {
                "memory": memory,
                "way": way,
                "method": method,
                "ideal": sum(min(m.duration_ns for m in op.all_modes) for op in problem.graph.ops),
                "time": result.objective,
                "again": len(result.plan.runs) - len(problem.graph.ops),
                "copies": len(result.plan.copies),
                "instance": spec,
            }
        )
    return rows


def _of(way: str, what: str, group: list[Row]) -> int:
    return next(int(row[what]) for row in group if row["way"] == way)


def _time(way: str, group: list[Row]) -> float:
    """Return a time over that of each op once."""
    return _of(way, "time", group) / _of(way, "ideal", group)


TABLE = TableSpec(
    (
        Column("bytes", lambda group: group[0]["memory"], "d"),
        Column("runs alone", partial(_time, "runs"), ".3f"),
        Column("and the SSD", partial(_time, "ssd"), ".3f"),
        Column("and the host", partial(_time, "host"), ".3f"),
        Column("all together", partial(_time, "together"), ".3f"),
        Column("runs again, alone", partial(_of, "runs", "again"), "d"),
        Column("together", partial(_of, "together", "again"), "d"),
        Column("copies", partial(_of, "together", "copies"), "d"),
    ),
    groups=("memory",),
)
