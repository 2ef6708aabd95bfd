"""Formulations of the same questions side by side: how large they are, and what their models alone prove.

A model has no hint, no bounds but its own and nothing that heuristics know; one thread. Bounds are in the
units of the model (bytes, ticks or ns over their greatest common divisor): of `slot-milp` the stall alone, of
`moments` a relaxation, of parallel-memory the negative of what is maximized.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....instances import load_problem
from ....models.errors import UsageError
from ....solvers.bare import solve_bare
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

PEAK = ("cpsat", "cpsat-positions", "milp", "milp-tensors", "milp-steps")
QUESTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "peak": (
        ("catalogue:harpoon", "catalogue:layered-6x4", "catalogue:randwire-20-0", "gen:randwire?n=40&seed=2"),
        PEAK,
    ),
    "offsets": (
        ("catalogue:minimalloc/example", "gen:randwire?n=16&seed=3", "gen:randwire?n=24&seed=4"),
        ("cpsat", "cpsat-sections", "milp"),
    ),
    "makespan": (
        (
            "catalogue:layered-6x4?processors=3&memory=100",
            "catalogue:randwire-20-0?processors=2&memory=140",
            "gen:randwire?n=12&seed=3&processors=3&memory=220",
        ),
        ("cpsat", "cpsat-reservoir", "milp"),
    ),
    "recompute": (
        ("catalogue:pyramid?memory=5", "gen:backprop-chain?l=5&memory=4", "gen:backprop-chain?l=8&memory=5"),
        ("checkmate", "moccasin", "moments"),
    ),
    "parallel-memory": (
        ("catalogue:layered-6x4?processors=3", "catalogue:unet-4-train?processors=2"),
        ("milp",),
    ),
    "memory-edges": (("catalogue:diamond?bound=8", "catalogue:layered-6x4?bound=100"), ("milp",)),
    "minio": (
        ("catalogue:harpoon?memory=13", "catalogue:harpoon?memory=13&whole=1"),
        ("cpsat",),
    ),
    "placement": (
        (
            "gen:skipchain?n=10,machine=v100-16g-pcie3,device=350MB,start=gpu,whole=1",
            "onnx:squeezenet?train=1,batch=64,blocks=12,machine=v100-16g-pcie3,device=1000MiB,start=device,whole=1",
        ),
        ("cpsat", "slot-milp"),
    ),
}


def cases(*, seconds: float = 4) -> Iterator[Case]:
    """Yield a case for each question; seconds are those of each model."""
    for problem, (specs, methods) in QUESTIONS.items():
        for spec in specs:
            yield Case(f"{problem} {spec}", partial(rows_of, problem, spec, methods, seconds))


def rows_of(problem: str, spec: str, methods: tuple[str, ...], seconds: float) -> Iterator[Row]:
    """Yield a row for each method; empty where it refuses the question."""
    question = load_problem(problem, spec)
    for method in methods:
        row: Row = {"problem": problem, "question": spec, "method": method, "limit": seconds}
        try:
            found = solve_bare(question, method, time_limit=seconds)
        except UsageError:
            yield {
                **row,
                **dict.fromkeys(("variables", "rows", "first", "bound", "optimal", "build", "solve")),
            }
        else:
            yield {**row, **found._asdict()}


def _seconds(row: Row) -> str | None:
    if row["solve"] is None:
        return None
    return f"{row['build'] + row['solve']:.2f}" if row["optimal"] else f"> {row['limit']:g}"


def _last(row: Row) -> str | None:
    if row["bound"] is None:
        return "no solution" if row["optimal"] else None
    return f"{row['bound']:,}"


TABLE = TableSpec(
    (
        Column("problem"),
        Column("question", lambda row: f"`{row['question']}`"),
        Column("method", lambda row: f"`{row['method']}`"),
        Column("variables", kind=",d"),
        Column("rows", kind=",d"),
        Column("first bound", "first", ",d"),
        Column("last bound", _last, RIGHT),
        Column("seconds to the optimum", _seconds, RIGHT),
    )
)


def text(rows: list[Row]) -> Fields:
    """Return the table, and how many models were solved."""
    return {
        "table": TABLE.of(rows),
        "optimal": sum(bool(row["optimal"]) for row in rows),
        "limit": " or ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows})),
    }
