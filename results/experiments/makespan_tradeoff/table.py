"""Memory against time of three graphs: their trade-off curves, and a schedule from one of them.

``NAME.svg`` is the curve of a graph, ``gantt.svg`` the schedule of the tree within the memory in the middle
of its curve. Durations are those of the roofline model of the importers (networks) and of the factorization's
arithmetic (tree); memory is that of tensors and fronts, without weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

import lowtide as lt
from lowtide import plot

from ....models.units import format_bytes, format_duration
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case, read_rows

FOLDER = HERE / "makespan_tradeoff"
POINTS = 12
"""Memories of each curve, from the least to where more is of no use."""


class Subject(NamedTuple):
    """A graph and the processors that it runs on."""

    spec: str
    processors: int
    title: str


SUBJECTS = {
    "inception": Subject("onnx:inception_v1?train=1", 4, "Inception v1, training step of one image"),
    "nasnet": Subject("gen:nasnet?cells=12&channels=44&image=224", 4, "NASNet-A of mobile size, inference"),
    "assembly": Subject("gen:assembly?grid=60x60", 4, "Assembly tree of a 60 x 60 grid, multifrontal LU"),
}


def cases(*, seconds: float = 240.0) -> Iterator[Case]:
    """Yield a case for each graph; seconds are those of its curve."""
    for name in SUBJECTS:
        yield Case(name, partial(rows_of, name, seconds))


def rows_of(name: str, seconds: float) -> Iterator[Row]:
    """Yield a row for each memory, one thread; draw the schedule in the middle of the tree's curve."""
    spec, processors, title = SUBJECTS[name]
    graph = lt.load(spec)
    curve = lt.sweep_memory(lt.Makespan(graph, processors), POINTS, time_limit=seconds, threads=1)
    if name == "assembly":
        middle = curve.points[len(curve.points) // 2]
        assert middle.plan is not None
        figure = plot.new_figure(plot.gantt_inches(middle.plan))
        words = f"{title}, in {format_bytes(middle.memory)}"
        plot.save(plot.gantt(middle.plan, graph, figure, title=words)[0], FOLDER / "gantt.svg")
    for point in curve.points:
        yield {
            "graph": name,
            "title": title,
            "ops": len(graph.ops),
            "machine": curve.machine,
            "least_memory": curve.least_memory,
            "any_bound": curve.bound,
            "memory": point.memory,
            "peak": point.peak,
            "makespan": point.makespan,
            "bound": point.bound,
            "proof": point.proof,
            "instance": f"{spec}&processors={processors}&memory={point.memory}",
        }


def curve_of(rows: list[Row]) -> lt.TradeOff:
    """Return the curve that rows hold."""
    kept = ("memory", "peak", "makespan", "bound", "proof")
    return lt.TradeOff(
        instance=rows[0]["title"],
        machine=rows[0]["machine"],
        least_memory=rows[0]["least_memory"],
        bound=rows[0]["any_bound"],
        points=tuple(lt.TradeOffPoint(**{key: row[key] for key in kept}) for row in rows),
    )


def draw() -> None:
    """Draw the curves."""
    for name, rows in groupby(read_rows(FOLDER.name), key=lambda row: str(row["graph"])):
        plot.save(plot.trade_off(curve_of(list(rows)), plot.new_axes()), FOLDER / f"{name}.svg")


def _line(rows: list[Row]) -> Row:
    """Return what a graph pays for its memory."""
    curve = curve_of(rows)
    (least, slowest), (most, fastest) = curve.front[0], curve.front[-1]
    near = next(peak for peak, makespan in curve.front if makespan <= 1.05 * fastest)
    proved = sum(curve.bound_within(peak) == makespan for peak, makespan in curve.front)
    return {
        "graph": f"{curve.instance}, {curve.machine}",
        "ops": rows[0]["ops"],
        "least memory": format_bytes(least) + ("" if least == curve.least_memory else " (least known)"),
        "makespan there": _between(curve.points[0].bound, slowest),
        "fastest": _between(curve.bound, fastest),
        "its memory": f"{format_bytes(most)} (+{most / least - 1:.1%})",
        "within 5 % from": f"{format_bytes(near)} (+{near / least - 1:.1%})",
        "proved": f"{proved} of {len(curve.front)}",
    }


def _between(bound: int | None, makespan: int) -> str:
    """Return a makespan, and by how much its bound is less."""
    if bound == makespan:
        return f"{format_duration(makespan)}, proved"
    return format_duration(makespan) + ("" if bound is None else f" (gap {1 - bound / makespan:.1%})")


HEADINGS = ("least memory", "makespan there", "fastest", "its memory", "within 5 % from", "proved")
TABLE = TableSpec(
    (Column("graph"), Column("ops", kind=","), *(Column(heading, kind=RIGHT) for heading in HEADINGS))
)


def text(table: list[Row]) -> Fields:
    """Return a line for each graph."""
    return {
        "table": TABLE.of(_line(list(rows)) for _, rows in groupby(table, key=lambda row: str(row["graph"]))),
    }
