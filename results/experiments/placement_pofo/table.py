"""POFO's program on taped chains: copies alone, second runs alone, both by it and by `auto`.

Stages of random sizes and times on a V100 with 12 GB/s each way to its host; the device has a part of what
all forwards leave. Everything may start there. One thread; the seconds are time limits of the clock.
``joint.svg`` is a plan of the program's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import lowtide as lt
from lowtide import plot

from ....instances import load_problem
from ....instances.spec import resolved_spec
from ....solvers.placement.rerunning.search import always_saving
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import HERE, Case

FOLDER = HERE / "placement_pofo"
STAGES = (18, 35)
"""As many as blocks of ResNet-50 and ResNet-101 with their stem and head."""
NS = (100_000, 300_000)
"""Shortest forward: a copy of the largest tape takes up to 10 and 3 times as long as such a stage."""
PARTS = (50, 25)
"""Percent of the bytes of all inputs and tapes."""
DRAWN = 18, 100_000, 25
"""The row that is drawn: its stages, ns of the shortest forward, and percent of memory."""
COPIES, AUTO = 4, 10
"""Seconds for copies alone, and for `auto`."""


def cases() -> Iterator[Case]:
    """Yield a case for each chain and memory."""
    for stages in STAGES:
        for ns in NS:
            for part in PARTS:
                yield Case(f"{stages} stages of {ns} ns, {part}%", partial(solved, stages, ns, part))


def solved(stages: int, ns: int, part: int) -> list[Row]:
    """Return the row of a chain in a part of its memory."""
    sizes = "largest=4000000&saved=12000000&spread=3&seed=1"
    spec = f"gen:taped-chain?l={stages}&forward={ns}&backward={2 * ns}&{sizes}"
    graph = lt.load(spec)
    device = sum(x.nbytes for x in graph.tensors if x.name[0] in "as") * part // 100
    question = f"{spec}&machine=v100-16g-pcie3&start=gpu&device={device}B&recompute=1"
    both = load_problem(lt.Placement, resolved_spec(question, str(FOLDER)))
    program = lt.solve(both, "pofo", time_limit=None, threads=1)
    auto = lt.solve(both, "auto", time_limit=AUTO, threads=1)
    once = replace(always_saving(both), recompute=False)
    copies = lt.solve(once, "auto", time_limit=COPIES, threads=1)
    alone = lt.solve(lt.Recompute(graph, memory=device), "hetero-chain", time_limit=None, threads=1)
    assert program.plan is not None, program.detail
    if (stages, ns, part) == DRAWN:
        figure = plot.new_figure(plot.timeline_inches(program.plan))
        title = f"{stages} stages in {part} % of their memory: POFO"
        plot.save(plot.timeline(program.plan, graph, figure, title=title)[0], FOLDER / "joint.svg")
    return [
        {
            "instance": spec,
            "stages": stages,
            "ns": ns,
            "part": part,
            "device": device,
            "ideal": sum(op.all_modes[0].duration_ns for op in graph.ops),
            "copies": copies.objective,
            "runs": alone.objective,
            "pofo": program.objective,
            "auto": auto.objective,
            "bound": auto.bound,
            "again": len(program.plan.runs) - len(graph.ops),
        }
    ]


def _times(column: str, row: Row) -> float | None:
    """Return a time over that of each op once, without waiting."""
    return None if row[column] is None else row[column] / row["ideal"]


TABLE = TableSpec(
    (
        Column("stages", kind="d"),
        Column("shortest ms", lambda row: row["ns"] / 1e6, ".1f"),
        Column("memory", lambda row: f"{row['part']}%", ">"),
        Column("copies alone", partial(_times, "copies"), ".4f"),
        Column("runs alone", partial(_times, "runs"), ".4f"),
        Column("POFO", partial(_times, "pofo"), ".4f"),
        Column("auto", partial(_times, "auto"), ".4f"),
        Column("bound", partial(_times, "bound"), ".4f"),
        Column("runs again", "again", "d"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return a line for each chain and memory."""
    return {"table": TABLE.of(table)}
