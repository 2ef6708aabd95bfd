"""What whole tensors cost, and durations that are not those that were planned with.

On G10's reference machine, in steady state, every plan verified. Each cell, a workload with a size of chunks
or a noise, runs in a process of its own; one that runs out of time has no rows.

*Granularity*: the best plan of the planner's settings for chunks of some size and for whole tensors.

*Noise*: every duration is drawn uniformly from (1 - a, 1 + a) times the profiled one, as in the artifact of
G10 (MICRO 2023, ``kernel_time_std_dev``), rounded to ns, and the same in every iteration. The setting is the
best for the profiled durations. *On line*, the planner's policy still forecasts by these while ops last as
drawn; *known*, it has the drawn ones. Stalls are relative to the sum of the drawn durations.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import mean

import numpy as np

import lowtide as lt

from ....instances import load_problem
from ....models.plan import Plan
from ....models.units import MIB
from ....solvers.placement.planner.method import planned, portfolio
from ....solvers.placement.planner.setting import PlannerSetting
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import Case, apart, say

CHUNKS = (16, 64)
"""MiB of the chunks in which copies are made, beside whole tensors."""
NOISES = (10, 25)
"""Percent, the half width of the range."""
G10_NOISE = {
    "bert_base-256": (0.9965, 0.9964),
    "vit-1280": (0.6691, 0.6666),
    "inceptionv3-1536": (0.9766, 0.9758),
    "resnet152-1280": (0.9835, 0.9829),
    "senet154-1024": (0.9306, 0.9319),
}
"""G10 as published with the noise of `NOISES` (artifact, ``sensitivity_variation``)."""
PATIENCE = 600
"""Seconds after which a workload is given up."""


def cases(*, seeds: int = 5) -> Iterator[Case]:
    """Yield a case for each workload."""
    for workload in PUBLISHED:
        yield Case(workload, partial(cells, workload, seeds))


def cells(workload: str, seeds: int) -> list[Row]:
    """Return the rows of all cells of a workload; noises are met with the best setting for small chunks."""
    table: list[Row] = []
    setting = 0
    for kind in (*(f"chunk={c}" for c in CHUNKS), "chunk=whole", *(f"noise={a}" for a in NOISES)):
        try:
            found = apart("placement_noise", workload, kind, str(seeds), str(setting), seconds=PATIENCE)
        except subprocess.TimeoutExpired:
            say(f"{workload} {kind}: no result within {PATIENCE} s")
            continue
        table += found
        if kind == f"chunk={CHUNKS[0]}":
            setting = found[0]["setting"] or 0
    return table


def row(workload: str, kind: str, seeds: str, setting: str) -> list[Row]:
    """Return the rows of a cell."""
    what, _, value = kind.partition("=")
    if what == "noise":
        return noisy(workload, int(value), int(seeds), int(setting))
    return granular(workload, None if value == "whole" else int(value))


def specification(workload: str, *, whole: bool = False) -> str:
    """Return the specification of the steady state of a workload on the reference machine."""
    options = "machine=a100-40g-pcie3&periodic=1&start.input=anywhere"
    return f"catalogue:g10/{workload}?{options}" + ("&whole=1" if whole else "")


def question(workload: str, *, whole: bool = False) -> lt.Placement:
    """Return the steady state of a workload on the reference machine."""
    return load_problem(lt.Placement, specification(workload, whole=whole))


def period(problem: lt.Placement, setting: PlannerSetting, believed: list[int] | None = None) -> int | None:
    """Return the period of a verified plan, None if the setting has none."""
    plan = planned(problem, setting, believed=believed)
    if not isinstance(plan, Plan):
        return None
    judged = problem.judge(plan)
    assert judged.objective is not None, judged.verification
    return judged.objective


def granular(workload: str, chunk: int | None) -> list[Row]:
    """Return the row of a size of chunks in MiB, None for whole tensors."""
    began = time.process_time()
    problem = question(workload, whole=chunk is None)
    settings = portfolio(problem)
    if chunk is not None:
        settings = [replace(setting, chunk=chunk * MIB) for setting in settings]
    ideal = sum(durations(problem))
    best: tuple[int, int] | None = None
    for number, setting in enumerate(settings):
        found = period(problem, setting)
        if found is not None and (best is None or (found, number) < best):
            best = found, number
        if found == ideal:
            break
    return [
        {
            "workload": workload,
            "chunk": "whole" if chunk is None else chunk,
            "noise": None,
            "seed": None,
            "setting": None if best is None else best[1],
            "ideal": ideal,
            "known": None if best is None else best[0],
            "online": None,
            "seconds": round(time.process_time() - began, 1),
            "instance": specification(workload, whole=chunk is None),
        }
    ]


def noisy(workload: str, noise: int, seeds: int, best: int) -> list[Row]:
    """Return a row for each seed of a noise in percent, by the best setting for the profiled durations.

    Where its state does not repeat, by the first one whose state does.
    """
    problem = question(workload)
    nominal = durations(problem)
    settings = portfolio(problem)
    order = sorted(range(len(settings)), key=lambda number: (number != best, number))
    rows = []
    for seed in range(1, seeds + 1):
        began = time.process_time()
        factors = np.random.default_rng(seed).uniform(-noise / 100, noise / 100, len(nominal))
        drawn = [max(1, round(d * (1 + f))) for d, f in zip(nominal, factors.tolist(), strict=True)]
        ops = tuple(replace(op, duration_ns=d) for op, d in zip(problem.graph.ops, drawn, strict=True))
        truth = replace(problem, graph=replace(problem.graph, ops=ops), source=None)
        row: Row = {"workload": workload, "chunk": settings[best].chunk // MIB, "noise": noise}
        row |= {"seed": seed, "setting": None, "ideal": sum(drawn), "known": None}
        for number in order:
            row |= {"setting": number, "online": period(truth, settings[number], nominal)}
            if row["online"] is not None:
                row["known"] = period(truth, settings[number])
                break
        rows.append(row | {"seconds": round(time.process_time() - began, 1)})
    return rows


def durations(problem: lt.Placement) -> list[int]:
    """Return the ns of every op."""
    return [op.all_modes[0].duration_ns for op in problem.graph.ops]


def text(table: list[Row]) -> Fields:
    """Return both tables."""
    sizes = TableSpec(
        (
            Column("workload"),
            *(Column(f"{chunk} MiB", partial(_ratio, chunk), RIGHT) for chunk in CHUNKS),
            Column("whole tensors", partial(_ratio, "whole"), RIGHT),
        ),
        groups=("workload",),
    )
    noises = TableSpec(
        (
            *(Column("workload"), Column("noise", lambda group: f"{group[0]['noise']}%", RIGHT)),
            Column("seeds", lambda group: f"{sum(map(_met, group))} of {len(group)}", RIGHT),
            Column("stall without", partial(_calm, table), ".2f"),
            Column("mean", lambda group: mean(_stalls(group, "online")), ".2f"),
            Column("worst", lambda group: max(_stalls(group, "online")), ".2f"),
            Column("mean if known", _mean_if_known, ".2f"),
            Column("ratio", lambda group: mean(r["ideal"] / r["online"] for r in group if _met(r)), ".4f"),
            Column("G10, published", _published, ".4f"),
        ),
        groups=("workload", "noise"),
    )
    met = {(row["workload"], row["noise"]) for row in table if row["noise"] is not None and _met(row)}
    return {
        "table": sizes.of(table),
        "noises": noises.of(
            row for row in table if (row["workload"], row["noise"]) in met and row["chunk"] == CHUNKS[0]
        ),
    }


def _met(row: Row) -> bool:
    """Return whether the policy has a plan for the drawn durations."""
    return bool(row["online"])


def _stalls(rows: list[Row], what: str) -> list[float]:
    """Return the stalls in percent of the ideal time, of rows that have a plan for the durations."""
    return [100 * (row[what] / row["ideal"] - 1) for row in rows if row["online"] and row[what]]


def _mean_if_known(rows: list[Row]) -> float | None:
    known = _stalls(rows, "known")
    return mean(known) if known else None


def _calm(table: list[Row], group: list[Row]) -> float | None:
    """Return the stall without noise, in percent."""
    key = (group[0]["workload"], CHUNKS[0], None)
    some = (row for row in table if (row["workload"], row["chunk"], row["noise"]) == key)
    return next((100 * (row["known"] / row["ideal"] - 1) for row in some if row["known"]), None)


def _published(group: list[Row]) -> float:
    return G10_NOISE[group[0]["workload"]][NOISES.index(group[0]["noise"])]


def _ratio(chunk: int | str, group: list[Row]) -> str | None:
    row = next((row for row in group if row["chunk"] == chunk and row["noise"] is None), None)
    if row is None:
        return None
    return "no plan" if row["known"] is None else f"{int(10_000 * row['ideal'] / row['known']) / 10_000:.4f}"
