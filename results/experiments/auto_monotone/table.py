"""`auto` with more memory, more devices, one more tier, more time: whether the answer is ever worse.

A *chain* is a row of questions, each of which allows all that the one before allows. So the optimum never
gets worse along it, and an answer that is worse than one before could have been replaced by that. One solver
thread; each chain in a process of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from ...tables.spec import Column, Fields, Row, TableSpec
from ..auto_against_parts.table import behind, needs
from ..running import Case, apart, say

LIMIT = 3
"""Time limit in seconds of questions that have no other."""

STEPS = 8
"""Of memory, evenly from the least to the most."""

TOLERANCE = 0.0
"""By what part an answer may be worse than one before."""

GRAPHS = (
    *("catalogue:randwire-40-0", "catalogue:unet-4-train", "gen:layered?layers=10&width=12&seed=1"),
    *("gen:layered?layers=30&width=20&seed=2", "gen:sp?n=1500&seed=2", "catalogue:densenet121-train"),
)
TREES = ("gen:intree?n=60&seed=1", "gen:intree?n=400&seed=1", "gen:intree?n=2500&seed=1")
STAGES = ("gen:stages?p=4&m=8", "gen:stages?p=8&m=16", "gen:stages?p=8&m=64&w=0")

TIMES = (1, 2, 4, 8)
"""Time limits in seconds that are compared: more must not be worse."""

COUNTS = (1, 2, 4, 8)
"""Devices or streams; of ``v100x4`` four at most."""

MEMORY = {
    "recompute": (GRAPHS, "memory={memory}"),
    "minio": (TREES, "memory={memory}"),
    "makespan": (GRAPHS, "processors=4&memory={fits}"),
    "memory-edges": (GRAPHS, "bound={fits}"),
    "streams": (GRAPHS, "contention=half-serial&memory={fits}"),
    "placement": (GRAPHS, "machine=a100-40g-pcie3&device={memory}B"),
    "distributed": (GRAPHS, "machine=v100x4-16g-nvlink&processors=2&memory={fits}"),
    "pipeline": (STAGES, "memory={micro}"),
}
"""Graphs and options of the questions with more and more memory.

``memory`` goes from the op that needs most to the peak of the reference order, ``fits`` from that to twice as
much; ``micro`` counts micro-batches.
"""

DEVICES = {
    "makespan": (GRAPHS, "processors={count}"),
    "distributed": (GRAPHS, "machine=v100x4-16g-nvlink&processors={count}"),
    "partition": (GRAPHS, "processors={count}"),
    "hybrid": (GRAPHS, "processors={count}&micro=8"),
    "streams": (GRAPHS, "contention=proportional&streams={count}"),
}
"""Questions with more and more devices, or streams."""

TIERS = {
    "placement": (
        GRAPHS,
        ("machine=v100-32g-cpu&start=device", "machine=v100-32g-cpu-nvme&start=device"),
    )
}
"""Questions with one more tier; everything starts on the device."""

TIME = {
    "peak": (GRAPHS, ""),
    "arena": (GRAPHS, ""),
    "makespan": (GRAPHS, "processors=4&memory={middle}"),
    "recompute": (GRAPHS, "memory={middle}"),
    "placement": (GRAPHS, "machine=a100-40g-pcie3&device={middle}B"),
    "pipeline": (STAGES, "memory=4"),
}
"""Questions with more and more time, within a memory in the middle of the steps."""


class Asked(NamedTuple):
    """A question, and the seconds for it."""

    spec: str
    seconds: float


class Chain(NamedTuple):
    """Questions about a graph, each with more of something."""

    problem: str
    spec: str
    more: str


def chains() -> Iterator[Chain]:
    """Yield every chain."""
    for more, asked in (("memory", MEMORY), ("devices", DEVICES), ("tiers", TIERS), ("time", TIME)):
        for problem, (specs, _) in asked.items():
            yield from (Chain(problem, spec, more) for spec in specs)


def links(chain: Chain) -> list[Asked]:
    """Return the questions of a chain."""
    import lowtide as lt

    def asked(options: str, seconds: float = LIMIT) -> Asked:
        return Asked(chain.spec + (("&" if "?" in chain.spec else "?") + options if options else ""), seconds)

    if chain.more == "tiers":
        return [asked(options) for options in TIERS[chain.problem][1]]
    if chain.more == "devices":
        most = 4 if chain.problem == "distributed" else max(COUNTS)
        return [asked(DEVICES[chain.problem][1].format(count=count)) for count in COUNTS if count <= most]
    least, most = needs(lt.load(chain.spec))
    if chain.more == "time":
        options = TIME[chain.problem][1]
        middle = most * 3 // 2 if chain.problem == "makespan" else (least + most) // 2
        return [asked(options.format(middle=middle), seconds) for seconds in TIMES]
    steps = [k / (STEPS - 1) for k in range(STEPS)]
    return [
        asked(
            MEMORY[chain.problem][1].format(
                memory=least + round(step * (most - least)), fits=most + round(step * most), micro=k + 1
            )
        )
        for k, step in enumerate(steps)
    ]


def row(problem: str, spec: str, more: str) -> list[Row]:
    """Solve the questions of a chain, one after another; return what was found."""
    import lowtide as lt

    from ....instances import load_problem

    rows: list[Row] = []
    best: int | None = None
    for step, asked in enumerate(links(Chain(problem, spec, more))):
        question = load_problem(problem, asked.spec)
        sign = -1 if question.maximize else 1
        found = lt.solve(question, "auto", time_limit=asked.seconds, threads=1)
        rows.append(
            {
                "step": step,
                "question": asked.spec,
                "seconds": asked.seconds,
                "status": str(found.status),
                "objective": found.objective,
                "bound": found.bound,
                "before": best,
                "worse": behind(found.objective, best, sign),
            }
        )
        if found.objective is not None and (best is None or sign * (found.objective - best) < 0):
            best = found.objective
    return rows


def cases(problem: str = "", more: str = "") -> Iterator[Case]:
    """Yield a case for each chain.

    Parameters
    ----------
    problem, more
        Of this problem alone; with more of this alone: memory, devices, tiers or time.
    """
    for chain in chains():
        if problem in ("", chain.problem) and more in ("", chain.more):
            yield Case(" ".join(chain), partial(_measured, chain))


def _measured(chain: Chain) -> list[Row]:
    """Return the rows of a chain, from a process of its own."""
    try:
        found = apart("auto_monotone", *chain)
    except subprocess.CalledProcessError as error:
        say(error.stderr.strip().rpartition("\n")[2])
        return []
    return [{**chain._asdict(), **row} for row in found]


def _count(most: float) -> Any:
    return lambda group: sum(row["worse"] > most for row in group)


TABLE = TableSpec(
    (
        *(Column("problem"), Column("more"), Column("questions", len, ",")),
        Column("worse", _count(TOLERANCE), ","),
        Column("by over .5 %", _count(0.005), ","),
        Column("at most", lambda group: max(row["worse"] for row in group), ".2%"),
    ),
    groups=("problem", "more"),
)


def text(table: list[Row]) -> Fields:
    """Return by problem how often more of something gave a worse answer, and by how much at most."""
    return {
        "table": TABLE.of(table),
        "worse": sum(row["worse"] > TOLERANCE for row in table),
        "much": sum(row["worse"] > 0.005 for row in table),
        "chains": len({(row["problem"], row["spec"], row["more"]) for row in table}),
        "planned": len(list(chains())),
    }
