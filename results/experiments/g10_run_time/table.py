"""The published figures of G10's artifact, reproduced on its own run time (`run_time`), and its sweeps.

The periods of base UVM (LRU), DeepUM and G10 are *simulated with that run time's semantics*: pages, batches,
ops that run as pages arrive. They are no plans of this suite and no bounds: `placement_policies` has the same
systems on the suite's machine, verified. FlashNeuron does not run on pages there; its two-ended pool is that
of the method `flashneuron`, with the artifact's link (a GB is 2**30 bytes), one iteration.

Published are cycles of the artifact's result files (``example_results``): ``published.json`` (workload,
system, GiB of host memory, GB/s of SSD and link, cycles, none where it fails). Durations of ops whose inputs
or operands are all faulted are its profiles of an A100: ``faults.json.gz`` (by workload, us).
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

import lowtide as lt

from ....solvers.placement.policies.flashneuron import allocated
from ....solvers.placement.simulator.simulator_case import make_case
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import HERE, Case, read_rows
from .run_time import GB, GIB, Faulted, RunTime, Setting, System

FOLDER = HERE / "g10_run_time"
PICTURE = "published_and_reproduced.svg"
SYSTEMS = {"lru": "base UVM", "flashneuron": "FlashNeuron", "deepum": "DeepUM", "g10": "G10"}
HOST, SLOW, LINK = 128, 3.2, 15.754
"""GiB and GB/s of the artifact's reference machine."""
SWEPT = ("bert_base-256", "vit-1280")
"""Workloads on other machines, and with durations as measured; the others take minutes for a figure."""
CLOCK = Setting().clock


def cases() -> Iterator[Case]:
    """Yield a case for each published figure, and for durations with faults as they were measured."""
    every = json.loads((FOLDER / "published.json").read_text())
    chosen = [one for one in every if one[2:5] == [HOST, SLOW, LINK]]
    swept = [
        one for one in every if one not in chosen and one[0] in SWEPT and one[1] in ("g10", "flashneuron")
    ]
    for one in chosen + swept:
        yield Case(" ".join(map(str, one[:5])), partial(figure, *one))
    for workload, system, *_ in chosen:
        if workload in SWEPT and system != "flashneuron":
            yield Case(f"{workload} {system} measured", partial(figure, workload, system, measured=True))


def figure(
    workload: str,
    system: str,
    host: int = HOST,
    slow: float = SLOW,
    link: float = LINK,
    published: int | None = None,
    measured: bool = False,
) -> list[Row]:
    """Return the row of a figure."""
    began = time.process_time()
    graph = lt.load(f"catalogue:g10/{workload}")
    found: Row
    if system == "flashneuron":
        found = flashneuron(graph, slow)
    else:
        setting = Setting(host=host * GIB, slow_rate=slow * GB, rate=link * GB, measured=measured)
        course = RunTime(graph, System(system), faulted(workload), setting).carry_out()
        period = min(course.periods)
        moved = course.moved[course.periods.index(period)].tolist()
        names = ("pages_new", "pages_from_ssd", "pages_from_host", "pages_to_ssd", "pages_to_host")
        found = {"ideal": course.ideal, "period": period, **dict(zip(names, moved, strict=False))}
    return [
        {
            "workload": workload,
            "system": system,
            "host_gib": host,
            "ssd_gb_s": slow,
            "link_gb_s": link,
            "measured": measured,
            "published": published,
            **found,
            "seconds": round(time.process_time() - began, 1),
        }
    ]


def flashneuron(graph: lt.Graph, slow: float) -> Row:
    """Return the row of FlashNeuron: its period in cycles, none if its allocator finds no hole."""
    machine = lt.load_machine("a100-40g-pcie3")
    rate = int(slow * GIB)
    channels = tuple(replace(c, bytes_per_s=rate) if "ssd" in (c.src, c.dst) else c for c in machine.channels)
    groups = tuple(replace(g, bytes_per_s=max(g.bytes_per_s, rate)) for g in machine.groups)
    machine = replace(machine, channels=channels, groups=groups)
    case = make_case(lt.Placement(graph, machine, periodic=True))
    ends, fault = allocated(case)
    cycles = [round(int(ns) * CLOCK / GB) for ns in (case.duration.sum(), ends.now)]
    return {"ideal": cycles[0], "period": None if fault else cycles[1]}


@cache
def profiles() -> dict[str, Any]:
    """Return durations with faults, by workload."""
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / "faults.json.gz").read_bytes()))
    return found


def faulted(workload: str) -> Faulted:
    """Return a workload's durations with faults."""
    return Faulted(*(np.array(some, dtype=np.int64) for some in profiles()[workload]))


def ratio(row: Row, key: str) -> str:
    """Return the ideal time over a period."""
    return "fails" if row[key] is None else f"{row['ideal'] / row[key]:.4f}".removeprefix("0")


def of(key: str, system: str, group: list[Row]) -> str:
    """Return the ratio of a system in a group of rows."""
    return next((ratio(row, key) for row in group if row["system"] == system), "-")


def is_reference(row: Row) -> bool:
    """Return whether a row is of the reference machine."""
    return [row["host_gib"], row["ssd_gb_s"], row["link_gb_s"]] == [HOST, SLOW, LINK]


def pairs(systems: tuple[str, ...]) -> list[Column]:
    """Return columns of what is published and what is reproduced."""
    found = []
    for system in systems:
        found.append(Column(f"{SYSTEMS[system]}, published", partial(of, "published", system), RIGHT))
        found.append(Column("here", partial(of, "period", system), RIGHT))
    return found


def furthest(rows: list[Row]) -> float:
    """Return the largest difference between a published ratio and ours."""
    both = [row for row in rows if row["published"] and row["period"]]
    return max(abs(float(row["ideal"] / row["published"] - row["ideal"] / row["period"])) for row in both)


def others(rows: list[Row]) -> list[str]:
    """Return whose periods are not those published to a cycle per op, which is what ns do not say."""
    ops = {name: len(lt.load(f"catalogue:g10/{name}").ops) for name in PUBLISHED}
    return [
        f"{SYSTEMS[row['system']]} on {row['workload']}"
        for row in rows
        if row["published"] and abs(row["published"] - row["period"]) > ops[row["workload"]]
    ]


def text(rows: list[Row]) -> Fields:
    """Return the three tables, and how far they are from what is published."""
    plain = [row for row in rows if not row["measured"]]
    main = [row for row in plain if is_reference(row)]
    host = [row for row in plain if row["host_gib"] != HOST]
    slow = [row for row in plain if row["link_gb_s"] != LINK]
    swept = host + slow
    measured = [row for row in rows if row["measured"]]
    paged = [row for row in main if row["system"] != "flashneuron"]
    names = ("lru", "deepum", "g10")
    fields: Fields = {
        "table": TableSpec((Column("workload"), *pairs(tuple(SYSTEMS))), groups=("workload",)).of(main),
        "far": f"{furthest(main):.4f}",
        "far_pages": f"{furthest(paged):.4f}",
        "exact": len(paged) - len(others(paged)),
        "others": ", ".join(others(paged)),
        "paged": len(paged),
        "host": "",
        "slow": "",
        "measured": "",
    }
    if swept:
        moving = [row for row in swept if row["system"] == "g10"]
        fields |= {"swept": len(moving), "exact_swept": len(moving) - len(others(moving))}
        fields["host"] = TableSpec(
            (Column("workload"), Column("host, GiB", "host_gib", "d"), *pairs(("g10",))),
            groups=("workload", "host_gib"),
        ).of(host)
        fields["slow"] = TableSpec(
            (Column("workload"), Column("SSD, GB/s", "ssd_gb_s", ".1f"), *pairs(("flashneuron", "g10"))),
            groups=("workload", "ssd_gb_s"),
        ).of(slow)
    if measured:
        columns = [Column(SYSTEMS[name], partial(of, "period", name), RIGHT) for name in names]
        fields["measured"] = TableSpec((Column("workload"), *columns), groups=("workload",)).of(measured)
    return fields


def draw() -> None:
    """Draw the published ratios beside those reproduced."""
    from ... import plot

    main = [row for row in read_rows(FOLDER.name) if is_reference(row) and not row["measured"]]
    figure = plot.new_figure((10.0, 3.4))
    colours = ("#1f6f8b", "#99c2d1")
    axes = figure.subplots(1, len(SYSTEMS), sharey=True)
    for ax, (system, name) in zip(axes, SYSTEMS.items(), strict=True):
        rows = [row for row in main if row["system"] == system]
        for side, key, label in ((-0.2, "published", "published"), (0.2, "period", "reproduced")):
            heights = [row["ideal"] / row[key] if row[key] else 0.0 for row in rows]
            colour = colours[key == "period"]
            ax.bar([x + side for x in range(len(rows))], heights, 0.38, label=label, color=colour)
            for x, height in enumerate(heights):
                if not height:
                    ax.text(x + side, 0.02, "fails", rotation=90, ha="center", va="bottom", fontsize=8)
        names = [row["workload"].partition("-")[0] for row in rows]
        ax.set_xticks(range(len(rows)), names, rotation=35, ha="right")
        ax.set_title(name, fontsize=10)
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes[0].set_ylabel("ideal time over period")
    axes[0].set_ylim(0, 1.05)
    axes[0].legend(fontsize=8, loc="upper right")
    plot.save(axes[0], FOLDER / PICTURE)
