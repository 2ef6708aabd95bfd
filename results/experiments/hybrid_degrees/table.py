"""The least time of a sample of Piper's BERT-32, proved, and what restrictions cost.

Each question is solved as it is, without data parallelism, without tensor parallelism, and without layers
that run again; beside it stand the published choice of modes and stages of equal degrees. Links have 25
GiB/s.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import process_time
from typing import Any

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case

QUESTIONS = [(8, 8), (32, 2), (32, 8), (128, 2), (128, 8), (512, 8), (2048, 8)]
"""Devices and GiB of each, of those in the paper's figures."""

STATED = {(8, 8): 165.85575, (32, 8): 41.5154504417, (128, 8): 10.1208803239}
"""ms by the published program, run on the same numbers."""

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "optimum": ("auto", {}),
    "one replica": ("auto", {"replicate": 1}),
    "no groups": ("auto", {"tensor": 1}),
    "none again": ("auto", {"recompute": "none"}),
    "piper": ("piper", {}),
    "equal": ("equal", {}),
    "equal, no groups": ("equal", {"tensor": 1}),
}
"""Method and what is asked besides, by column."""


def cases() -> Iterator[Case]:
    """Yield a case for each question."""
    for devices, gib in QUESTIONS:
        yield Case(f"{devices} devices of {gib} GiB", partial(rows_of, devices, gib))


def rows_of(devices: int, gib: int) -> Iterator[Row]:
    """Yield a row for each way."""
    for way, (method, asked) in WAYS.items():
        spec = f"catalogue:layers/piper-bert32?processors={devices}&memory={gib * 2**30}&link=25GiB"
        problem = load_problem(lt.Hybrid, spec, **asked)
        began = process_time()
        result = lt.solve(problem, method, threads=1, time_limit=None)
        seconds = process_time() - began
        split = None if result.plan is None else problem.read(result.plan)
        yield {
            "instance": problem.source,
            "devices": devices,
            "gib": gib,
            "way": way,
            "method": method,
            "ideals": result.facts.get("ideals"),
            "status": str(result.status),
            "time": result.objective,
            "bound": result.bound,
            "stages": None if split is None else len(split.kinds),
            "degrees": None if split is None else _degrees(split),
            "seconds": round(seconds, 1),
        }


def _degrees(split: lt.Split) -> str:
    """Return replicas and groups of the stages, equal ones in a row together."""
    found: list[list[Any]] = []
    for d, kind in zip(split.replicas, split.kinds, strict=True):
        word = f"{d}x{kind[1:]}"
        if found and found[-1][0] == word:
            found[-1][1] += 1
        else:
            found.append([word, 1])
    return " ".join(word if count == 1 else f"{count}({word})" for word, count in found)


def _slower(way: str) -> Column:
    def share(row: Row) -> str | float | None:
        if way not in row:
            return None
        return row[way] / row["optimum"] - 1 if row[way] else "none"

    return Column(way, share, "+.1%")


TABLE = TableSpec(
    (
        Column("devices", kind="d"),
        Column("GiB", "gib", kind="d"),
        Column("ideals", kind=",d"),
        Column("ms", lambda row: row["optimum"] / 1e6, ",.4f"),
        Column("published ms", "stated", ",.4f"),
        Column("stages", kind="d"),
        Column("replicas x group", "degrees"),
        Column("CPU s", "seconds", ".1f"),
        *(_slower(way) for way in WAYS if way != "optimum"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the line of each question."""
    lines: dict[tuple[Any, ...], Row] = {}
    for row in table:
        key = (row["devices"], row["gib"])
        if row["way"] == "optimum":
            if row["status"] != "optimal":
                raise ValueError(f"{key}: found {row['status']}, expected a proved optimum")
            lines[key] = {**row, "stated": STATED.get(key)}
        lines[key][row["way"]] = row["time"]
    return {"table": TABLE.of(lines.values())}
