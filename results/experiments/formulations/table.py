"""Formulations of the same questions side by side: how large they are, and what their models alone prove.

Every method that has a model is asked, by each solver that takes it. A model has no hint, no bounds but its
own and nothing that heuristics know; one thread. Bounds are in the units of the model (bytes, ticks or ns
over their greatest common divisor): of `slot-milp` the stall alone, of `moments` a relaxation, of
parallel-memory the negative of what is maximized.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....instances import load_problem
from ....models.errors import UsageError
from ....solvers.bare import solve_bare
from ....solvers.registry import ROOMS
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

QUESTIONS: dict[str, tuple[str, ...]] = {
    "peak": (
        "catalogue:harpoon",
        "catalogue:layered-6x4",
        "catalogue:randwire-20-0",
        "gen:randwire?n=40&seed=2",
    ),
    "offsets": ("catalogue:minimalloc/example", "gen:randwire?n=16&seed=3", "gen:randwire?n=24&seed=4"),
    "arena": ("catalogue:diamond", "gen:randwire?n=10&seed=3"),
    "makespan": (
        "catalogue:layered-6x4?processors=3&memory=100",
        "catalogue:randwire-20-0?processors=2&memory=140",
        "gen:randwire?n=12&seed=3&processors=3&memory=220",
    ),
    "distributed": ("catalogue:layered-6x4?machine=v100x4-16g-nvlink&processors=2",),
    "recompute": (
        "catalogue:pyramid?memory=5",
        "gen:backprop-chain?l=5&memory=4",
        "gen:backprop-chain?l=8&memory=5",
    ),
    "parallel-memory": ("catalogue:layered-6x4?processors=3", "catalogue:unet-4-train?processors=2"),
    "memory-edges": ("catalogue:diamond?bound=8", "catalogue:layered-6x4?bound=100"),
    "minio": ("catalogue:harpoon?memory=13", "catalogue:harpoon?memory=13&whole=1"),
    "streams": (
        "catalogue:layered-6x4?contention=half-serial&parts=2",
        "catalogue:diamond?contention=proportional&devices=2",
        "catalogue:diamond?contention=none&devices=2&sync_ns=0",
    ),
    "pipeline": ("gen:stages?p=3&m=4&memory=2",),
    "partition": ("catalogue:nasnet-3?processors=2", "catalogue:unet-4-train?processors=4"),
    "hybrid": ("catalogue:layered-6x4?processors=4&micro=4",),
    "placement": (
        "gen:skipchain?n=10,machine=v100-16g-pcie3,device=350MB,start=gpu",
        "gen:skipchain?n=10,machine=v100-16g-pcie3,device=350MB,start=gpu,whole=1",
        "onnx:squeezenet?train=1,blocks=6,machine=a100-40g-pcie3,device=60MiB",
        "onnx:squeezenet?train=1,batch=64,blocks=12,machine=v100-16g-pcie3,device=1000MiB,start=device,whole=1",
    ),
}

SOLVERS = "highs,scip_direct,cbc"
"""Solvers of models in Pyomo: SCIP by its Python package (``pip install pyscipopt``), CBC by its command."""


def cases(*, seconds: float = 4, solvers: str = SOLVERS) -> Iterator[Case]:
    """Yield a case for each question.

    Parameters
    ----------
    seconds
        Those of each model.
    solvers
        Of models in Pyomo, with commas between them.
    """
    for problem, specs in QUESTIONS.items():
        for spec in specs:
            yield Case(f"{problem} {spec}", partial(rows_of, problem, spec, solvers.split(","), seconds))


def rows_of(problem: str, spec: str, solvers: list[str], seconds: float) -> Iterator[Row]:
    """Yield a row for each method that has a model of the question, and each solver."""
    question = load_problem(problem, spec)
    for method in ROOMS[problem].methods:
        if method.model is None:
            continue
        for solver in solvers if method.model.engine == "milp" else ("cp-sat",):
            try:
                found = solve_bare(question, method.name, time_limit=seconds, solver=solver)
            except UsageError:
                break  # the model does not state it
            yield {
                "problem": problem,
                "question": spec,
                "method": method.name,
                "solver": solver.removesuffix("_direct"),
                "limit": seconds,
                **found._asdict(),
            }


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
        Column("solver"),
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
