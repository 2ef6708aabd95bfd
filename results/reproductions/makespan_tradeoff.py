"""Memory against time of three graphs: their trade-off curves, and a schedule from one of them.

    python results/reproductions/makespan_tradeoff.py [--seconds S] [--only NAME] [--table]

Writes ``makespan_tradeoff.csv`` (a row for each memory), ``makespan_tradeoff.md`` and, for each graph,
``makespan_curves/NAME.svg``; beside them ``gantt.svg``, the schedule of the tree within the memory in the
middle of its curve. With ``--table`` table and curves are made again from the committed rows; with ``--only``
the curves of the other graphs are.

Durations are those of the roofline model of the importers (networks) and of the factorization's arithmetic
(tree); memory is that of tensors and fronts, without weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from lowtide import Makespan, TradeOff, TradeOffPoint, load, plot, sweep_memory
from lowtide.models.units import format_bytes, format_duration
from lowtide.results.reproductions.readme import into_readme
from lowtide.results.reproductions.table_files import HERE, Row, read_table, write_table

NAME = "makespan_tradeoff"
FOLDER = "makespan_curves"
POINTS = 12
COLUMNS = (
    "graph",
    "title",
    "ops",
    "machine",
    "least_memory",
    "any_bound",
    "memory",
    "peak",
    "makespan",
    "bound",
    "proof",
)


class Case(NamedTuple):
    """A graph and the processors that it runs on."""

    spec: str
    processors: int
    title: str


CASES = {
    "inception": Case("onnx:inception_v1?train=1", 4, "Inception v1, training step of one image"),
    "nasnet": Case("gen:nasnet?cells=12&channels=44&image=224", 4, "NASNet-A of mobile size, inference"),
    "assembly": Case("gen:assembly?grid=60x60", 4, "Assembly tree of a 60 x 60 grid, multifrontal LU"),
}


def sweep(case: Case, seconds: float) -> TradeOff:
    """Return the curve of a case, one thread."""
    problem = Makespan(load(case.spec), processors=case.processors)
    return sweep_memory(problem, POINTS, time_limit=seconds, threads=1)


def rows_of(name: str, curve: TradeOff, ops: int) -> Iterator[Row]:
    """Yield a row for each memory."""
    for point in curve.points:
        yield {
            "instance": f"{CASES[name].spec}&processors={CASES[name].processors}&memory={point.memory}",
            "graph": name,
            "title": CASES[name].title,
            "ops": ops,
            "machine": curve.machine,
            "least_memory": curve.least_memory,
            "any_bound": curve.bound,
            "memory": point.memory,
            "peak": point.peak,
            "makespan": point.makespan,
            "bound": point.bound,
            "proof": point.proof,
        }


def curve_of(rows: list[Row]) -> TradeOff:
    """Return the curve that rows hold."""
    kept = ("memory", "peak", "makespan", "bound", "proof")
    return TradeOff(
        instance=rows[0]["title"],
        machine=rows[0]["machine"],
        least_memory=rows[0]["least_memory"],
        bound=rows[0]["any_bound"],
        points=tuple(TradeOffPoint(**{key: row[key] for key in kept}) for row in rows),
    )


def markdown(table: list[Row]) -> str:
    """Return what each graph pays for its memory."""
    lines = [
        "| graph | ops | least memory | makespan there | fastest | its memory | within 5 % from | proved |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for _, group in groupby(table, key=lambda row: str(row["graph"])):
        rows = list(group)
        curve = curve_of(rows)
        (least, slowest), (most, fastest) = curve.front[0], curve.front[-1]
        near = next(peak for peak, makespan in curve.front if makespan <= 1.05 * fastest)
        proved = sum(curve.bound_within(peak) == makespan for peak, makespan in curve.front)
        cells = (
            f"{curve.instance}, {curve.machine}",
            f"{rows[0]['ops']:,}",
            format_bytes(least) + ("" if least == curve.least_memory else " (least known)"),
            _between(curve.points[0].bound, slowest),
            _between(curve.bound, fastest),
            f"{format_bytes(most)} (+{most / least - 1:.1%})",
            f"{format_bytes(near)} (+{near / least - 1:.1%})",
            f"{proved} of {len(curve.front)}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _between(bound: int | None, makespan: int) -> str:
    """Return a makespan, and by how much its bound is less."""
    if bound == makespan:
        return f"{format_duration(makespan)}, proved"
    return format_duration(makespan) + ("" if bound is None else f" (gap {1 - bound / makespan:.1%})")


def main() -> None:
    """Sweep, or read the rows, then write table and pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240.0, help="for each curve (default 240)")
    parser.add_argument("--only", choices=CASES, metavar="NAME", help="sweep this graph alone")
    parser.add_argument("--table", action="store_true", help="make table and curves from the committed rows")
    args = parser.parse_args()
    folder = HERE / FOLDER
    folder.mkdir(exist_ok=True)
    table: list[Row] = []
    for name, case in CASES.items():
        if args.table or args.only not in (None, name):
            table += [row for row in read_table(NAME) if row["graph"] == name]
            continue
        curve = sweep(case, args.seconds)
        table += rows_of(name, curve, len(load(case.spec).ops))
        print(f"{name}: {len(curve.points)} memories, {curve.seconds:.0f} s", flush=True)
        if name == "assembly":
            draw_schedule(curve, str(folder / "gantt.svg"))
    text = markdown(table)
    write_table(NAME, COLUMNS, table, text)
    into_readme(NAME, text)
    for name, rows in groupby(table, key=lambda row: str(row["graph"])):
        curve = curve_of(list(rows))
        plot.save(plot.trade_off(curve, plot.new_axes()), folder / f"{name}.svg")


def draw_schedule(curve: TradeOff, path: str) -> None:
    """Draw the schedule in the middle of the tree's curve."""
    case = CASES["assembly"]
    point = curve.points[len(curve.points) // 2]
    assert point.plan is not None
    figure = plot.new_figure(plot.gantt_inches(point.plan))
    title = f"{case.title}, in {format_bytes(point.memory)}"
    plot.save(plot.gantt(point.plan, load(case.spec), figure, title=title)[0], path)


if __name__ == "__main__":
    main()
