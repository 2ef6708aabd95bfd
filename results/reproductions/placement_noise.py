"""Measure what whole tensors cost, and durations that are not those that were planned with.

    python results/reproductions/placement_noise.py [--out DIR | --table] [--seeds 5] [--time-limit 600]

Writes ``placement_noise.csv`` and ``placement_noise.md`` beside this script. On G10's reference machine, in
steady state, every plan verified. Each cell, a workload with a size of chunks or a noise, runs in a process
of its own; with ``--out``, an interrupted run goes on where it was. ``--table`` makes the table again from
the committed rows.

*Granularity*: the best plan of the planner's settings for chunks of some size and for whole tensors.

*Noise*: every duration is drawn uniformly from (1 - a, 1 + a) times the profiled one, as in the artifact of
G10 (MICRO 2023, ``kernel_time_std_dev``), rounded to ns, and the same in every iteration. The setting is the
best for the profiled durations. *On line*, the planner's policy still forecasts by these while ops last as
drawn; *known*, it has the drawn ones. Stalls are relative to the sum of the drawn durations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lowtide as lt
from lowtide.instances.load_placement import load_placement
from lowtide.models.plan import Plan
from lowtide.results.reproductions.placement_g10 import PUBLISHED
from lowtide.results.reproductions.table_files import read_table, write_table
from lowtide.solvers.placement.planner.planner import MIB, Setting, planned, portfolio

CHUNKS = (16, 64)
"""MiB."""
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
COLUMNS = ("workload", "chunk", "noise", "seed", "setting", "ideal", "known", "online", "seconds")

Row = dict[str, Any]


def specification(workload: str, *, whole: bool = False) -> str:
    """Return the specification of the steady state of a workload on the reference machine."""
    options = "machine=a100-40g-pcie3&periodic=1&start.input=anywhere"
    return f"catalogue:g10/{workload}?{options}" + ("&whole=1" if whole else "")


def question(workload: str, *, whole: bool = False) -> lt.Placement:
    """Return the steady state of a workload on the reference machine."""
    return load_placement(specification(workload, whole=whole))


def period(problem: lt.Placement, setting: Setting, believed: list[int] | None = None) -> int | None:
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
            "instance": specification(workload, whole=chunk is None),
            "workload": workload,
            "chunk": "whole" if chunk is None else chunk,
            "setting": None if best is None else best[1],
            "ideal": ideal,
            "known": None if best is None else best[0],
            "seconds": round(time.process_time() - began, 1),
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
        row |= {"seed": seed, "ideal": sum(drawn)}
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


def markdown(table: list[Row]) -> str:
    """Return both tables."""
    sizes = [str(chunk) for chunk in CHUNKS]
    lines = [
        "Ideal time over period of the planner's best plan, by the size of its chunks, on G10's reference "
        "machine; chunks of 16 or 64 MiB, or every copy a whole tensor:",
        "",
        "| workload | " + " | ".join(f"{size} MiB" for size in sizes) + " | whole tensors |",
        "|---|" + "---:|" * (len(sizes) + 1),
    ]
    for workload in PUBLISHED:
        some = {str(r["chunk"]): r for r in table if r["workload"] == workload and r.get("noise") is None}
        cells = [workload, *(_ratio(some.get(size)) for size in (*sizes, "whole"))]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "The policy on line: every op lasts up to 10% or 25% more or less than the duration that the policy "
        "forecasts with (uniform, as in G10's artifact; the same in every iteration). Stalls in percent of "
        "the sum of the true durations: without noise; with it, mean and worst over the seeds; and the mean "
        "if the policy knew the true ones, with the same setting. It forecasts bytes by op, into which "
        "durations enter only by the lead, the horizon and the tail cap. Beside it, ideal time over time "
        "(mean) and that of G10 as published. Made by `make bench-placement`.",
        "",
        "| workload | noise | seeds | stall without | mean | worst | mean if known | ratio "
        "| G10, published |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for workload, published in G10_NOISE.items():
        mine = [r for r in table if r["workload"] == workload and str(r["chunk"]) == "16"]
        calm = [_stall(r, "known") for r in mine if r.get("noise") is None and r["known"]]
        for noise, said in zip(NOISES, published, strict=True):
            drawn = [r for r in mine if r.get("noise") == noise]
            found = [r for r in drawn if r.get("online")]
            if not found:
                continue
            online = [_stall(r, "online") for r in found]
            known = [_stall(r, "known") for r in found if r.get("known")]
            cells = [workload, f"{noise}%", f"{len(found)} of {len(drawn)}"]
            cells += [f"{calm[0]:.2f}" if calm else "-"]
            cells += [f"{statistics.mean(online):.2f}", f"{max(online):.2f}"]
            cells += [f"{statistics.mean(known):.2f}" if known else "-"]
            cells += [f"{statistics.mean(r['ideal'] / r['online'] for r in found):.4f}", f"{said:.4f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _stall(row: Row, what: str) -> float:
    """Return the stall in percent of the ideal time."""
    return float(100 * (row[what] / row["ideal"] - 1))


def _ratio(row: Row | None) -> str:
    if row is None:
        return "-"
    return "no plan" if row["known"] is None else f"{int(10_000 * row['ideal'] / row['known']) / 10_000:.4f}"


def main() -> None:
    """Fill the cells that are missing, each in a process of its own, then write the table's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the rows there, and go on with those that are there")
    parser.add_argument("--table", action="store_true", help="make the table again from the committed rows")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=600, help="seconds of a cell")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--setting", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        workload, what = arguments.cell
        kind, _, value = what.partition("=")
        found = (
            noisy(workload, int(value), arguments.seeds, arguments.setting)
            if kind == "noise"
            else granular(workload, None if value == "whole" else int(value))
        )
        print(json.dumps(found))
        return
    if arguments.table:
        table = read_table("placement_noise")
    else:
        with tempfile.TemporaryDirectory() as scratch:
            table = _filled(arguments.out or Path(scratch), arguments.seeds, arguments.time_limit)
    write_table("placement_noise", COLUMNS, table, markdown(table))


def _filled(folder: Path, seeds: int, time_limit: float) -> list[Row]:
    """Return the rows of all cells, a file each in a folder; a cell that runs out of time has none."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = [*(f"chunk={c}" for c in CHUNKS), "chunk=whole", *(f"noise={a}" for a in NOISES)]
    table: list[Row] = []
    for workload in PUBLISHED:
        setting = 0
        for kind in kinds:
            path = folder / f"{workload}.{kind}.json"
            if not path.exists():
                command = [sys.executable, __file__, "--cell", workload, kind]
                command += ["--seeds", str(seeds), "--setting", str(setting)]
                try:
                    done = subprocess.run(command, timeout=time_limit, stdout=subprocess.PIPE, check=True)
                except subprocess.TimeoutExpired:
                    print(f"{workload} {kind}: no result within {time_limit:g} s", file=sys.stderr)
                    continue
                path.write_bytes(done.stdout)
            rows = json.loads(path.read_text())
            if kind == f"chunk={CHUNKS[0]}":
                setting = rows[0]["setting"] or 0
            table += rows
            print(f"{workload} {kind}: {rows}", flush=True)
    return table


if __name__ == "__main__":
    main()
