"""The published figures of G10's artifact, reproduced on its own run time (`run_time`), and its sweeps.

The periods of base UVM (LRU), DeepUM and G10 are *simulated with that run time's semantics*: pages, batches,
ops that run as pages arrive. They are no plans of this suite and no bounds: `placement_policies` has the same
systems on the suite's machine, verified. FlashNeuron does not run on pages there; its two-ended pool is that
of the method `flashneuron`, with the artifact's link (a GB is 2**30 bytes), one iteration.

Published are cycles of the artifact's result files (``example_results``): ``published.json`` (workload,
system, GiB of host memory, GB/s of SSD and link, cycles, none where it fails). Durations of ops whose inputs
or operands are all faulted are its profiles of an A100: ``faults.json.gz`` (by workload, us). Other batches
are the catalogue's workloads with the sizes, durations and profiles that the artifact has for them
(``batches.json.gz``, facts from it, Apache License 2.0). Where other batches have other workspaces (ResNet152
at 256, SENet154) there are none.

`LINES`: the artifact moves the lines up to which systems plan for three of its own figures (src/ast.cc,
src/analysis.cc).
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
from ....solvers.placement.simulator.problem import simulated_problem
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import HERE, Case, read_rows
from .run_time import GB, GIB, Faulted, RunTime, Setting, System

FOLDER = HERE / "g10_run_time"
PICTURE = "published_and_reproduced.svg"
SYSTEMS = {"lru": "base UVM", "flashneuron": "FlashNeuron", "deepum": "DeepUM", "g10": "G10"}
HOST, SLOW, LINK = 128, 3.2, 15.754
"""GiB and GB/s of the artifact's reference machine."""
SWEPT = ("bert_base-256", "bert_base-512", "vit-1024", "vit-1280")
"""Workloads on other machines; the others take minutes for a figure."""
WHOLE = (*PUBLISHED, "bert_base-128", "vit-256", "vit-512", "vit-768", "vit-1024")
"""Workloads of which all systems are shown; of the others the quick ones."""
MEASURED = ("bert_base-256", "vit-1280")
LINES = {
    ("vit-1280", "g10", 6.4): 1.1,
    ("bert_base-512", "g10", 3.2): 1.394,
    ("vit-1024", "flashneuron", 3.2): 0.993,
}
"""Factors of the line, by workload, system and SSD."""
CLOCK = Setting().clock


def cases() -> Iterator[Case]:
    """Yield a case for each published figure, and for durations with faults as they were measured."""
    for one in json.loads((FOLDER / "published.json").read_text()):
        workload, system, *machine = one[:5]
        quick = system in ("g10", "flashneuron")
        if machine != [HOST, SLOW, LINK]:
            shown = quick and workload in SWEPT
        else:
            shown = quick or workload in WHOLE
            if workload in MEASURED and system != "flashneuron":
                yield Case(f"{workload} {system} measured", partial(figure, workload, system, measured=True))
        if shown:
            yield Case(" ".join(map(str, one[:5])), partial(figure, *one))


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
    graph, factor = graph_of(workload), LINES.get((workload, system, slow), 1.0)
    found: Row
    if system == "flashneuron":
        found = flashneuron(graph, slow, factor)
    else:
        line = Setting.line * factor
        setting = Setting(host=host * GIB, line=line, slow_rate=slow * GB, rate=link * GB, measured=measured)
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


def flashneuron(graph: lt.Graph, slow: float, factor: float = 1.0) -> Row:
    """Return the row of FlashNeuron: its period in cycles, none if its allocator finds no hole."""
    machine = lt.load_machine("a100-40g-pcie3")
    rate = int(slow * GIB)
    channels = tuple(replace(c, bytes_per_s=rate) if "ssd" in (c.src, c.dst) else c for c in machine.channels)
    groups = tuple(replace(g, bytes_per_s=max(g.bytes_per_s, rate)) for g in machine.groups)
    machine = replace(machine, channels=channels, groups=groups)
    case = simulated_problem(lt.Placement(graph, machine, periodic=True))
    ends, fault = allocated(case, factor)
    cycles = [round(int(ns) * CLOCK / GB) for ns in (case.duration.sum(), ends.now)]
    return {"ideal": cycles[0], "period": None if fault else cycles[1]}


@cache
def packed(name: str) -> dict[str, Any]:
    """Return the content of a file of this folder, by workload."""
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return found


@cache
def graph_of(workload: str) -> lt.Graph:
    """Return the catalogue's workload, or one with its sizes and durations at another batch."""
    if workload in PUBLISHED:
        return lt.load(f"catalogue:g10/{workload}")
    batch = packed("batches")[workload]
    graph = lt.load(f"catalogue:g10/{batch['of']}")
    sizes = zip(graph.tensors, batch["nbytes"], strict=True)
    durations = zip(graph.ops, batch["duration_ns"], strict=True)
    return replace(
        graph,
        name=workload,
        tensors=tuple(replace(t, nbytes=nbytes) for t, nbytes in sizes),
        ops=tuple(replace(op, duration_ns=ns) for op, ns in durations),
    )


def faulted(workload: str) -> Faulted:
    """Return a workload's durations with faults."""
    if workload in PUBLISHED:
        return Faulted(*(np.array(some, dtype=np.int64) for some in packed("faults")[workload]))
    batch = packed("batches")[workload]
    return Faulted(*(np.array(batch[key], dtype=np.int64) for key in ("reads_us", "everything_us")))


def ratio(row: Row, key: str) -> str:
    """Return the ideal time over a period."""
    return "fails" if row[key] is None else f"{row['ideal'] / row[key]:.4f}".removeprefix("0")


def of(key: str, system: str, group: list[Row]) -> str:
    """Return the ratio of a system in a group of rows."""
    return next((ratio(row, key) for row in group if row["system"] == system), "-")


def is_reference(row: Row) -> bool:
    """Return whether a row is of the reference machine and the batches of the main figure."""
    return on_reference(row) and row["workload"] in PUBLISHED


def on_reference(row: Row) -> bool:
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
    ops = {name: len(graph_of(name).ops) for name in {row["workload"] for row in rows}}
    return [
        f"{SYSTEMS[row['system']]} on {row['workload']}"
        for row in rows
        if row["published"] and abs(row["published"] - row["period"]) > ops[row["workload"]]
    ]


def text(rows: list[Row]) -> Fields:
    """Return the tables, and how far they are from what is published."""
    plain = [row for row in rows if not row["measured"]]
    main = [row for row in plain if is_reference(row)]
    batches = [row for row in plain if on_reference(row) and row["workload"] not in PUBLISHED]
    host = [row for row in plain if row["host_gib"] != HOST]
    slow = [row for row in plain if row["link_gb_s"] != LINK]
    paged, of_batches, swept = (
        [row for row in some if row["system"] != "flashneuron"] for some in (main, batches, host + slow)
    )
    every = tuple(SYSTEMS)
    return {
        "table": by(("workload",), (), every).of(main),
        "far": f"{furthest(main):.4f}",
        "far_pages": f"{furthest(paged):.4f}",
        "paged": len(paged),
        "exact": len(paged) - len(others(paged)),
        "others": ", ".join(others(paged)),
        "batches": by(("workload",), (), every).of(batches),
        "of_batches": len(of_batches),
        "exact_batches": len(of_batches) - len(others(of_batches)),
        "others_batches": ", ".join(others(of_batches)) or "none",
        "far_batches": f"{furthest(of_batches):.4f}",
        "swept": len(swept),
        "exact_swept": len(swept) - len(others(swept)),
        "host": by(("workload", "host_gib"), (Column("host, GiB", "host_gib", "d"),), ("g10",)).of(host),
        "slow": by(
            ("workload", "ssd_gb_s"), (Column("SSD, GB/s", "ssd_gb_s", ".1f"),), ("flashneuron", "g10")
        ).of(slow),
        "measured": TableSpec(
            (
                Column("workload"),
                *(Column(SYSTEMS[x], partial(of, "period", x), RIGHT) for x in every if x != "flashneuron"),
            ),
            groups=("workload",),
        ).of(row for row in rows if row["measured"]),
    }


def by(groups: tuple[str, ...], more: tuple[Column, ...], systems: tuple[str, ...]) -> TableSpec:
    """Return a table of what is published and what is reproduced."""
    return TableSpec((Column("workload"), *more, *pairs(systems)), groups=groups)


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
