"""Forms of placement on the same questions: bounds and plans of each within a limit, beside `auto`.

Questions of whole tensors and in bytes, from tiny to 2,300 ops, on two and three tiers, single runs and
periods; one thread. A form that refuses a question has no row. Its size is that of the largest model that a
solver was given.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ....models.errors import UsageError
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case, with_best_bounds

FORMS = ("auto", "slot-lp", "slot-milp", "cpsat", "tmof", "autotm-sync", "autotm-async")
TWO, THREE = "machine=v100-16g-pcie3", "machine=a100-40g-pcie3"
NETWORK = "onnx:squeezenet?train=1&batch=64"
QUESTIONS = (
    f"gen:skipchain?n=6&{TWO}&device=450MB&start=gpu&whole=1",
    f"{NETWORK}&blocks=12&{TWO}&device=1000MiB&start=device&whole=1",
    f"{NETWORK}&blocks=12&{THREE}&device=1000MiB&start=device&whole=1",
    f"{NETWORK}&blocks=12&{THREE}&device=1000MiB&host=200MiB&start=device&whole=1",
    f"{NETWORK}&blocks=12&{TWO}&device=1000MiB&periodic=1&whole=1",
    f"{NETWORK}&blocks=12&{TWO}&device=1000MiB&start=device",
    f"{NETWORK}&blocks=50&{TWO}&device=1000MiB&start=device&whole=1",
    f"{NETWORK}&blocks=50&{TWO}&device=1000MiB&start=device",
    f"{NETWORK}&blocks=50&{THREE}&device=1000MiB&start=device",
    f"{NETWORK}&blocks=50&{THREE}&device=1000MiB&periodic=1",
    f"catalogue:g10/senet154-1024?{THREE}&periodic=1&start.input=anywhere&whole=1",
    f"catalogue:g10/senet154-1024?{THREE}&periodic=1&start.input=anywhere",
)


def cases(*, seconds: float = 10) -> Iterator[Case]:
    """Yield a case for each question; seconds are those of each form."""
    for question in QUESTIONS:
        yield Case(question, partial(rows_of, question, seconds))


def rows_of(question: str, seconds: float) -> Iterator[Row]:
    """Yield a row for each form that takes a question."""
    problem = load_problem(lt.Placement, question)
    for form in FORMS:
        began = time.process_time()
        try:
            result = lt.solve(problem, form, time_limit=seconds, threads=1)
        except UsageError:
            continue
        bounds = [point.bound for point in result.trace if point.bound is not None]
        yield {
            "instance": question,
            "ops": len(problem.graph.ops),
            "form": form,
            "status": str(result.status),
            "objective": result.objective,
            "first": bounds[0] if bounds else None,
            "bound": result.bound,
            "by": result.bound_kind,
            "variables": result.facts.get("variables"),
            "constraints": result.facts.get("constraints"),
            "seconds": round(time.process_time() - began, 2),
            "limit": seconds,
        }


def _gap(row: Row) -> str | None:
    """Return the gap to the best bound of any form."""
    if row["objective"] is None:
        return None
    return f"{row['objective'] / row['best'] - 1:.1e}"


TABLE = TableSpec(
    (
        Column("question", lambda row: f"`{row['instance']}`"),
        Column("ops", kind=",d"),
        Column("form", lambda row: f"`{row['form']}`"),
        Column("variables", kind=",d"),
        Column("constraints", kind=",d"),
        Column("first bound", "first", ",d"),
        Column("last bound", "bound", ",d"),
        Column("by", "by"),
        Column("plan, ns", "objective", ",d"),
        Column("gap to the best bound", _gap, ">"),
        Column("CPU s", "seconds", ".1f"),
    )
)


def text(rows: list[Row]) -> Fields:
    """Return the table, each row with the best bound of its question."""
    return {
        "table": TABLE.of(with_best_bounds(rows)),
        "limit": " or ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows})),
    }
