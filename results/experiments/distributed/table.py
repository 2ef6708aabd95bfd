"""Real graphs on two and four devices with a memory each: lists, CP-SAT, and what is proved.

The devices are V100 with NVLink, 50 GB/s each way between any two. A device has twice the bytes that one
alone needs at least, or three quarters of them: then no device can run the graph alone. ``NAME.svg`` is a
plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import lowtide as lt
from lowtide import plot

from ....instances import load_problem
from ....models.plan import Plan
from ....models.units import format_bytes
from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, Case

FOLDER = HERE / "distributed"
MACHINE = "v100x4-16g-nvlink"
GRAPHS = tuple(
    f"catalogue:{name}"
    for name in (
        "ios/inception_v3",
        "ios/randwire_large",
        "original-unet-train",
        "llama-block-train",
        "moe-train",
        "nasnet-3-train",
    )
)
DEVICES = (2, 4)
"""Numbers of devices of the questions of the table."""
PERCENT = (200, 75)
"""Memories of a device in percent of the least sequential peak."""
METHODS = ("heft", "cpsat", "auto")
SECONDS = 10.0
"""Time limit of each solve of the table, in seconds."""
SEEDS = (0, 1, 2)
"""Of `auto`; the first one's plan is the row's, the others show what luck decides."""
PICTURES = {("catalogue:moe-train", 2, 75): "moe"}


def cases() -> Iterator[Case]:
    """Yield a case for each graph, number of devices and memory."""
    for spec in GRAPHS:
        for devices in DEVICES:
            for percent in PERCENT:
                yield Case(f"{spec} {devices} {percent}", partial(rows_of, spec, devices, percent))


def rows_of(spec: str, devices: int, percent: int) -> Iterator[Row]:
    """Yield a row for each method, one thread; draw the plan of `auto` if there is to be a picture."""
    graph = lt.load(spec)
    least = lt.solve(lt.Peak(graph), threads=1, time_limit=SECONDS).objective
    assert least is not None
    asked = f"{spec}?machine={MACHINE}&processors={devices}&memory={least * percent // 100}"
    problem = load_problem(lt.Distributed, asked)
    fewer = _fewer(spec, devices, problem)
    for method in METHODS:
        hint = fewer if method == "auto" else None
        result = lt.solve(problem, method, time_limit=SECONDS, threads=1, hint=hint, seed=SEEDS[0])
        times = [result.objective]
        if method == "auto" and result.status is lt.Status.FEASIBLE:
            for seed in SEEDS[1:]:
                other = lt.solve(problem, method, time_limit=SECONDS, threads=1, hint=hint, seed=seed)
                times.append(other.objective)
        verdict = result.verification
        seen = verdict if result.plan is not None and isinstance(verdict, Verification) else None
        yield {
            "instance": asked,
            "graph": spec,
            "devices": devices,
            "percent": percent,
            "memory": least * percent // 100,
            "method": method,
            "status": str(result.status),
            "time": result.objective,
            "bound": result.bound,
            "peak": None if seen is None else max(seen.peaks.values()),
            "sent": None if seen is None else sum(seen.traffic.values()),
            "seeds": " ".join(map(str, times)) if len(times) > 1 else None,
        }
        if method == "auto" and (spec, devices, percent) in PICTURES:
            assert result.plan is not None
            _draw(graph, result.plan, PICTURES[spec, devices, percent], problem.memories, problem.capacities)


def _fewer(spec: str, devices: int, problem: lt.Distributed) -> Plan | None:
    """Return what `auto` finds for the next fewer devices of the same memory: a plan for more, too."""
    smaller = [count for count in DEVICES if count < devices]
    if not smaller:
        return None
    asked = f"{spec}?machine={MACHINE}&processors={max(smaller)}&memory={problem.capacities[0]}"
    plan = lt.solve(load_problem(lt.Distributed, asked), time_limit=SECONDS, threads=1).plan
    return None if plan is None else replace(plan, machine=problem.machine)


def _draw(
    graph: lt.Graph, plan: Plan, name: str, memories: tuple[str, ...], capacities: tuple[int | None, ...]
) -> None:
    figure = plot.new_figure(plot.timeline_inches(plan))
    title = f"{graph.name} on {len(memories)} devices of {format_bytes(capacities[0] or 0)}"
    plot.save(plot.timeline(plan, graph, figure, title=title)[0], FOLDER / f"{name}.svg")


def _ms(key: str) -> Column:
    return Column(
        f"{key} ms", lambda row: row[key] if isinstance(row[key], str) else f"{row[key] / 1e6:,.3f}", RIGHT
    )


def _mb(key: str) -> Column:
    return Column(f"{key} MB", lambda row: "-" if row[key] is None else f"{row[key] / 1e6:,.1f}", RIGHT)


TABLE = TableSpec(
    (
        Column("graph", lambda row: row["graph"].partition(":")[2]),
        Column("devices", kind="d"),
        Column("of one device", lambda row: row["percent"] / 100, ".0%"),
        _mb("memory"),
        *map(_ms, (*METHODS, "bound")),
        Column("gap", kind=".1%"),
        _mb("peak"),
        _mb("sent"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return a line for each graph, number of devices and memory: the best bound, and what `auto` needs."""
    lines: dict[str, Row] = {}
    for row in table:
        line = lines.setdefault(row["instance"], {**row, "bound": 0})
        line[row["method"]] = row["time"] or ("none" if row["status"] == "infeasible" else "?")
        line |= {"bound": max(line["bound"], row["bound"] or 0), "peak": row["peak"], "sent": row["sent"]}
    for line in lines.values():
        found = line["auto"]
        line["gap"] = None if isinstance(found, str) else (found - line["bound"]) / found
        line["bound"] = line["bound"] or "none"
    drawn = [[int(time) for time in row["seeds"].split()] for row in table if row["seeds"]]
    spreads = [max(times) / min(times) - 1 for times in drawn]
    return {
        "table": TABLE.of(lines.values()),
        "differ": sum(spread > 0 for spread in spreads),
        "drawn": len(spreads),
        "spread": f"{max(spreads):.1%}",
    }
