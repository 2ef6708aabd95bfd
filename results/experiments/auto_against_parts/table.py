"""`auto` beside every other method of its problem: whether it is ever worse than one of its parts.

Each row is a question and a limit of T seconds: `auto` with T, each other method that serves the question
with T / 3, and the best of these with T, one after another, in a process of its own, one solver thread,
kernels loaded before, each on a question of its own. Instances are of all sizes, from 10 to 20,000 ops, real
ones and generated. Bounds on the memory are midway between the op that needs most and the reference order's
peak, or that peak where less may be too little.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case, apart, say

LIMITS = (3, 10, 30)
"""Time limits of the questions of the table, in seconds."""

FULL = 2
"""Of so many of the methods that were best with a third of the time, all of it is tried."""

TOLERANCE, MOST, SHARE = 0.001, 0.01, 0.95
"""What counts as equal; by how much `auto` may be worse than the best method with all of the time, at most;
and in what part of the rows it is not."""

REAL = ("catalogue:randwire-40-0", "catalogue:nasnet-3", "catalogue:unet-4-train", "catalogue:swin-t-train")
"""Graphs of the catalogue that each problem but `minio` has."""

GENERATED = (
    *("gen:layered?layers=10&width=12&seed=1", "gen:randwire?n=80&seed=1", "gen:sp?n=150&seed=1"),
    *("gen:layered?layers=30&width=20&seed=2", "gen:randwire?n=1000&seed=2", "gen:sp?n=1500&seed=2"),
    *("gen:layered?layers=100&width=50&seed=3", "gen:randwire?n=5000&seed=3", "gen:sp?n=10000&seed=3"),
)

LARGE = ("catalogue:gpt2-small-train", "catalogue:densenet121-train")
TREES = tuple(
    f"gen:intree?n={n}&seed={s}" for n in (15, 60, 150, 400, 1000, 1800, 2500, 6000, 15_000) for s in (1, 2)
)

OPTIONS = {
    "peak": "",
    "offsets": "",
    "arena": "",
    "placement": "machine=a100-40g-pcie3&device={memory}B",
    "makespan": "processors=4&memory={reference}",
    "distributed": "machine=v100x4-16g-nvlink",
    "parallel-memory": "",
    "memory-edges": "bound={reference}",
    "recompute": "memory={memory}B",
    "streams": "contention=half-serial",
    "partition": "processors=4",
    "hybrid": "processors=8&micro=8",
    "pipeline": "",
    "minio": "memory={memory}",
}
"""What the question adds to a graph."""

STAGES = tuple(
    f"gen:stages?p={p}&m={m}&memory={max(1, p // 2)}{rest}"
    for p, m in ((2, 4), (4, 8), (4, 32), (8, 16), (8, 64), (12, 96), (16, 128), (32, 200))
    for rest in ("", "&w=0")
)
"""Those that are made, for `pipeline`, with room for half of what 1F1B holds."""


class Asked(NamedTuple):
    """A question: a problem, a graph, a limit."""

    problem: str
    spec: str
    limit: int


def questions() -> Iterator[Asked]:
    """Yield every question."""
    for problem in OPTIONS:
        specs = {"minio": TREES, "pipeline": STAGES}.get(problem, (*REAL, *GENERATED, *LARGE))
        yield from (Asked(problem, spec, limit) for limit in LIMITS for spec in specs)


def row(problem: str, spec: str, limit: str) -> list[Row]:
    """Solve one question by all methods in this process; return what was found."""
    import lowtide as lt

    from ....models.errors import LowtideError
    from ....solvers.registry import methods

    served = [method for method in methods() if method.problem == problem and not method.package]
    _load_kernels({module for method in served for module in method.kernels})
    question = _question(problem, spec)
    sign = -1 if question.maximize else 1

    def solve(method: str, seconds: float) -> Any:  # a new question: what one derives is not there for others
        return lt.solve(_question(problem, spec), method, time_limit=seconds, threads=1)

    auto = solve("auto", float(limit))
    found: dict[str, Any] = {}
    for name in (method.name for method in served if method.name != "auto"):
        with suppress(LowtideError):  # it does not serve the question
            found[name] = solve(name, int(limit) / 3)

    def best(results: dict[str, Any], value: str) -> tuple[str, int | None]:
        known = [
            (s * getattr(r, value), name) for name, r in results.items() if getattr(r, value) is not None
        ]
        least = min(known, default=(None, ""))
        return least[1], None if least[0] is None else s * least[0]

    s = sign
    third, objective = best(found, "objective")
    ranked = sorted((s * r.objective, name) for name, r in found.items() if r.objective is not None)
    full = {name: solve(name, float(limit)) for _, name in ranked[:FULL]}
    whole, with_all = best(full, "objective")
    s = -sign
    bounding, bound = best(found, "bound")
    return [
        {
            "ops": len(question.graph.ops) if problem != "offsets" else len(question.buffers.buffers),
            "status": str(auto.status),
            "auto": auto.objective,
            "auto bound": auto.bound,
            "methods": len(found),
            "best third": third,
            "third": objective,
            "best whole": whole,
            "whole": with_all,
            "best bound": bounding,
            "bound": bound,
            "behind third": behind(auto.objective, objective, sign),
            "behind whole": behind(auto.objective, with_all, sign),
            "behind bound": behind(auto.bound, bound, -sign),
        }
    ]


def _load_kernels(modules: set[str]) -> None:
    """Load compiled kernels, which the first method that calls them would do."""
    from ....solvers.engines.kernels import compile_kernel, kernels_of

    for module in sorted(modules):
        for compiled in kernels_of(module):
            compile_kernel(compiled)


def needs(graph: Any) -> tuple[int, int]:
    """Return the bytes of the op that needs most, and the peak of the reference order."""
    from ....models.derived.memory import sequential_memory

    most = sequential_memory(graph).reference_peak
    least = max(sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) for op in graph.ops)
    return min(least, most), most


def behind(found: int | None, other: int | None, sign: int) -> float:
    """Return by what part an objective is worse than another one; 1 if it is missing."""
    if other is None:
        return 0.0
    if found is None:
        return 1.0
    return round(max(0.0, sign * (found - other) / max(1, abs(other))), 6)


def _question(problem: str, spec: str) -> Any:
    """Return the question about a graph."""
    import lowtide as lt

    from ....instances import load_problem
    from ....models.lowering.buffers import buffers_from_plan
    from ....models.plan import Plan

    more = OPTIONS[problem]
    if problem == "pipeline":
        return load_problem(problem, spec)
    graph = lt.load(spec)
    if problem == "offsets":
        return lt.Offsets(buffers_from_plan(graph, Plan.from_order(graph, range(len(graph.ops)))))
    least, most = needs(graph)
    more = more.format(memory=(least + most) // 2, reference=most)
    return load_problem(problem, spec + (("&" if "?" in spec else "?") + more if more else ""))


def cases(problem: str = "", limit: int = 0, most_ops: int = 0) -> Iterator[Case]:
    """Yield a case for each question.

    Parameters
    ----------
    problem, limit
        Of this problem alone; with this limit alone.
    most_ops
        Of generated graphs.
    """
    for asked in questions():
        if problem in ("", asked.problem) and limit in (0, asked.limit):
            if most_ops and _stated(asked.spec) > most_ops:
                continue
            yield Case(f"{asked.problem} {asked.spec} {asked.limit}", partial(_measured, asked))


def _stated(spec: str) -> int:
    """Return the number of ops that the text of a generated graph states; 0 if it does not."""
    given = dict(pair.split("=") for pair in spec.partition("?")[2].split("&") if pair)
    return int(given.get("n", 0)) or math.prod(int(given.get(key, 0)) for key in ("layers", "width"))


def _measured(asked: Asked) -> list[Row]:
    """Return a row, from a process of its own."""
    try:
        (found,) = apart("auto_against_parts", *map(str, asked))
    except subprocess.CalledProcessError as error:
        say(error.stderr.strip().rpartition("\n")[2])
        return []
    return [{"problem": asked.problem, "spec": asked.spec, "limit": asked.limit, **found}]


def _worst(key: str) -> Any:
    return lambda group: max(row[key] for row in group)


def _count(key: str, most: float) -> Any:
    return lambda group: sum(row[key] > most for row in group)


TABLE = TableSpec(
    (
        *(Column("problem"), Column("limit", kind=","), Column("questions", len, ",")),
        Column("behind a third", _count("behind third", TOLERANCE), ","),
        Column("at most", _worst("behind third"), ".2%"),
        Column("behind the best", _count("behind whole", TOLERANCE), ","),
        Column("at most by", _worst("behind whole"), ".2%"),
        Column("bounds behind", _count("behind bound", TOLERANCE), ","),
        Column("bounds at most", _worst("behind bound"), ".2%"),
    ),
    groups=("problem", "limit"),
)


WORSE = TableSpec(
    (
        *(Column("problem"), Column("question", lambda row: f"`{row['spec']}`"), Column("limit", kind=",")),
        Column("auto", kind=",d"),
        Column("a third", "third", ",d"),
        Column("by", lambda row: f"`{row['best third']}`"),
        Column("all", "whole", ",d"),
        Column("of", lambda row: f"`{row['best whole']}`"),
        Column("bound", "auto bound", ",d"),
        Column("best bound", "bound", ",d"),
        Column("its method", lambda row: f"`{row['best bound']}`"),
    )
)


def _is_worse(row: Row) -> bool:
    return bool(row["behind third"] > TOLERANCE or max(row["behind whole"], row["behind bound"]) > MOST)


def text(table: list[Row]) -> Fields:
    """Return by problem and limit how often `auto` is behind, by how much at most, and those rows."""
    return {
        "table": TABLE.of(table),
        "worse": WORSE.of([row for row in table if _is_worse(row)]),
        "thirds": sum(row["behind third"] <= TOLERANCE for row in table),
        "wholes": sum(row["behind whole"] <= TOLERANCE for row in table),
        "limits": ", ".join(str(limit) for limit in sorted({row["limit"] for row in table})),
        "planned": len(list(questions())),
        "missing": len(list(questions())) - len(table),
        "problems": len({row["problem"] for row in table}),
    }
