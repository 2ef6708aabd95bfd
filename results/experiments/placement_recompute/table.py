"""Training steps in 70 and 50 % of their memory: copies alone, second runs alone, both; published systems.

Everything starts on the device, a V100 on PCIe 3, whose memory is a part of the peak of the reference order.
One thread; the seconds are time limits of the clock. ``both.svg`` is a plan that copies and runs again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt
from lowtide import plot

from ....instances import load_problem
from ....instances.spec import resolved_spec
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import HERE, Case

FOLDER = HERE / "placement_recompute"
GRAPHS = ("unet-4-train", "original-unet-train")
PARTS = (70, 50)
"""Memories of the device in percent of the peak in the reference order."""
DRAWN = "catalogue:unet-4-train", 50
ALONE, BOTH = 8, 24
"""Seconds for copies and for second runs, and for both together."""
SYSTEMS = "capuchin", "superneurons"
"""Published systems that copy and run again; they end within a second."""


def cases() -> Iterator[Case]:
    """Yield a case for each network and memory."""
    for name in GRAPHS:
        for part in PARTS:
            yield Case(f"{name} {part}%", partial(solved, f"catalogue:{name}", part))


def solved(graph: str, part: int) -> list[Row]:
    """Return the row of a network in a part of its peak."""
    loaded = lt.load(graph)
    device = lt.Peak(loaded).evaluate(tuple(range(len(loaded.ops)))) * part // 100
    spec = f"{graph}?machine=v100-16g-pcie3&start=gpu&device={device}B"

    def result(
        problem: type[lt.Placement | lt.Recompute], spec: str, seconds: int, method: str = "auto"
    ) -> lt.Result:
        asked = load_problem(problem, resolved_spec(spec, str(FOLDER)))
        found = lt.solve(asked, method, time_limit=seconds, threads=1)
        assert found.status is not lt.Status.FAILED, found.detail
        return found

    copies = result(lt.Placement, spec, ALONE)
    runs = result(lt.Recompute, f"{graph}?memory={device}B", ALONE)
    both = result(lt.Placement, f"{spec}&recompute=1", BOTH)
    systems = {name: result(lt.Placement, f"{spec}&recompute=1", ALONE, name) for name in SYSTEMS}
    assert both.plan is not None
    if (graph, part) == DRAWN:
        figure = plot.new_figure(plot.timeline_inches(both.plan))
        title = f"U-Net in {part} % of its memory: copies and second runs"
        plot.save(plot.timeline(both.plan, loaded, figure, title=title)[0], FOLDER / "both.svg")
    alone = [x.objective for x in (copies, runs) if x.objective is not None]
    assert both.objective is not None
    assert not alone or both.objective <= min(alone)
    return [
        {
            "graph": graph,
            "ops": len(loaded.ops),
            "budget": f"{part}%",
            "device": device,
            "ideal": loaded.summary()["duration_ns"],
            "copies": copies.objective,
            "copies bound": copies.bound,
            "runs": runs.objective,
            "runs bound": runs.bound,
            "both": both.objective,
            "bound": both.bound,
            "again": len(both.plan.runs) - len(loaded.ops),
            "copied": sum(_bytes(loaded, copy) for copy in both.plan.copies),
            **{name: found.objective for name, found in systems.items()},
            **{f"{name} evictions": found.facts.get("emergencies", 0) for name, found in systems.items()},
        }
    ]


def _bytes(graph: lt.Graph, copy: lt.Copy) -> int:
    low, high = copy.bytes or (0, graph.tensors[copy.tensor].nbytes)
    return high - low


def _times(column: str, row: Row) -> float | None:
    """Return a time over that of each op once, without waiting."""
    return None if row[column] is None else row[column] / row["ideal"]


def _of_system(name: str, row: Row) -> str | None:
    """Return the time of a system, with a star if it needed emergency evictions."""
    time = _times(name, row)
    return None if time is None else f"{time:.4f}{'*' if row[f'{name} evictions'] else ''}"


TABLE = TableSpec(
    (
        Column("network", lambda row: row["graph"].removeprefix("catalogue:")),
        *(Column("ops", kind="d"), Column("memory", "budget", ">")),
        Column("copies alone", partial(_times, "copies"), ".4f"),
        Column("runs alone", partial(_times, "runs"), ".4f"),
        Column("both", partial(_times, "both"), ".4f"),
        Column("bound", partial(_times, "bound"), ".4f"),
        Column("runs again", "again", "d"),
        Column("GB copied", lambda row: row["copied"] / 1e9, ".2f"),
        *(Column(name, partial(_of_system, name), ">") for name in SYSTEMS),
    )
)


def text(table: list[Row]) -> Fields:
    """Return a line for each network and memory."""
    return {"table": TABLE.of(table)}
