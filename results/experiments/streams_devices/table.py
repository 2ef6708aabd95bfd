"""What lists of several devices take against the proved optimum, and what less memory on each device costs.

The graphs follow a recipe, five seeds each: ops in layers, 0.1 to 4 ms each, and transfers of 0.8 of the time
of the op that reads. Devices run one op at a time. The memory is what one device alone needs at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import fmean

import lowtide as lt

from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

SIZES = ((14, 4, 2), (20, 5, 2), (20, 5, 3))
"""Ops, layers and devices of the random networks."""
SEEDS = range(5)
LISTS = ("heft", "hios-lp", "hios-mr")
NETWORKS = ("squeezenet", "inception_v3", "randwire_large", "nasnet_large")
SECONDS = 60.0
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each graph, and for each network with its contention."""
    for n, layers, devices in SIZES:
        for seed in SEEDS:
            spec = f"gen:hios?n={n}&layers={layers}&seed={seed}"
            yield Case(f"{spec} {devices}", partial(rows_of, spec, devices, "none", 1))
    for name in NETWORKS:
        for contention, streams in (("none", 1), ("proportional", 4)):
            spec = f"catalogue:ios/{name}"
            yield Case(f"{spec} {contention}", partial(rows_of, spec, 2, contention, streams))


def rows_of(spec: str, devices: int, contention: str, streams: int) -> Iterator[Row]:
    """Yield a row for each list and `auto`; of generated graphs for `cpsat`, and `auto` within a memory."""
    graph = lt.load(spec)
    problem = lt.Streams(graph, streams=streams, devices=devices, contention=contention)
    generated = spec.startswith("gen:")
    for method in (*LISTS, "cpsat" if generated else "auto"):
        yield _row(spec, problem, method)
    if generated:
        least = lt.solve(lt.Peak(graph), threads=1, time_limit=SECONDS).objective
        yield _row(spec, lt.Streams(graph, streams=streams, devices=devices, memory=least), "auto")


def _row(spec: str, problem: lt.Streams, method: str) -> Row:
    result = lt.solve(problem, method, time_limit=SECONDS, threads=1)
    asked = f"contention={problem.contention}&devices={problem.devices}&streams={problem.streams}"
    asked += "" if problem.memory is None else f"&memory={problem.memory}"
    judged = result.verification
    seen = judged if result.plan is not None and isinstance(judged, Verification) else None
    return {
        "instance": f"{spec}{'&' if '?' in spec else '?'}{asked}",
        "graph": spec,
        "devices": problem.devices,
        "streams": problem.streams,
        "contention": problem.contention,
        "memory": problem.memory,
        "method": method,
        "status": str(result.status),
        "time": result.objective,
        "bound": result.bound,
        "peak": None if seen is None else max(seen.peaks.values()),
        "transferred": None if seen is None else sum(seen.traffic.values()),
    }


def _ratio(method: str) -> Column:
    return Column(method, lambda row: row[method], ".3f")


GRAPHS = TableSpec(
    (
        Column("ops", kind="d"),
        Column("devices", kind="d"),
        Column("seed", kind="d"),
        Column("optimum ms", lambda row: row["optimum"] / 1e6, ",.3f"),
        *map(_ratio, LISTS),
        Column("peak MB", lambda row: row["peak"] / 1e6, ",.1f"),
        Column("within MB", lambda row: row["memory"] / 1e6, ",.1f"),
        Column("ms", lambda row: row["within"] / 1e6, ",.3f"),
    )
)

MEANS = TableSpec((Column("ops", kind="d"), Column("devices", kind="d"), *map(_ratio, LISTS)))

ON_NETWORKS = TableSpec(
    (
        Column("network", lambda row: row["graph"].partition("/")[2]),
        Column("contention"),
        Column("streams", kind="d"),
        Column("method"),
        Column("ms", lambda row: row["time"] / 1e6, ",.3f"),
        Column("bound ms", lambda row: row["bound"] / 1e6, ",.3f"),
        Column("peak MB", lambda row: row["peak"] / 1e6, ",.1f"),
        Column("transferred MB", lambda row: f"{row['transferred'] / 1e6:,.1f}", RIGHT),
    )
)


def _lines(table: list[Row]) -> list[Row]:
    """Return a line for each generated graph; its optimum is proved, else that is an error."""
    lines: dict[tuple[str, int], Row] = {}
    for row in table:
        if not row["graph"].startswith("gen:"):
            continue
        line = lines.setdefault((row["graph"], row["devices"]), {"devices": row["devices"]})
        said = dict(pair.split("=") for pair in row["graph"].partition("?")[2].split("&"))
        line |= {"ops": int(said["n"]), "seed": int(said["seed"])}
        if row["memory"] is not None:
            line |= {"memory": row["memory"], "within": row["time"]}
        elif row["method"] == "cpsat":
            if row["status"] != "optimal":
                raise ValueError(f"{row['instance']}: found {row['status']}, expected a proved optimum")
            line |= {"optimum": row["time"], "peak": row["peak"]}
        else:
            line[row["method"]] = row["time"]
    for line in lines.values():
        line |= {method: line[method] / line["optimum"] for method in LISTS}
    return list(lines.values())


def text(table: list[Row]) -> Fields:
    """Return the lines of graphs, their means by size, and those of networks."""
    lines = _lines(table)
    means = []
    for n, _, devices in SIZES:
        some = [line for line in lines if (line["ops"], line["devices"]) == (n, devices)]
        ratios = {method: fmean(line[method] for line in some) for method in LISTS}
        means.append({"ops": n, "devices": devices, **ratios})
    return {
        "graphs": GRAPHS.of(lines),
        "means": MEANS.of(means),
        "networks": ON_NETWORKS.of(row for row in table if not row["graph"].startswith("gen:")),
    }
