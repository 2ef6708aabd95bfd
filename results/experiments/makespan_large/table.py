"""Makespan of graphs of 1,000 to 5,000 ops with little memory: `auto` against published heuristics.

Four processors; memories at 0, 10 and 25 % of the way from the least sequential peak to the peak of the list
schedule by longest chains without a bound. Durations: the roofline model of the generators for networks and
`torch` graphs, operations over speed for assembly trees, lognormal for tasks. One solver thread. A heuristic
whose schedule does not fit leaves no plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from statistics import geometric_mean

import lowtide as lt

from ....models.errors import UsageError
from ....models.verifier.verdict import Verification
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

SECONDS = 60
"""For `auto`, and at most for the others."""

GRAPHS = (
    "gen:tasks?shape=tree&n=2000&cores=50",
    "gen:assembly?grid=60x60&leaf=1",
    "gen:tasks?shape=layered&n=2000&cores=4",
    "gen:tasks?shape=inception&n=2000&cores=4",
    "gen:randwire?n=500&train=1",
    "catalogue:llama-1b-train",
    "gen:assembly?grid=100x100&leaf=1",
)
PERCENTS = (0, 10, 25)
"""Memories in percent of the way from the least to what the fastest list schedule needs."""
PROCESSORS = 4
"""Number of processors of every question of the table."""
LISTS = ("critical", "fallback", "successors", "longest", "bytes")
SINGLE: tuple[tuple[str, str, dict[str, str]], ...] = (
    *((f"list, {name}", "list", {"priority": name}) for name in LISTS),
    ("mem-booking", "mem-booking", {}),
    ("memory-aware-mapping", "memory-aware-mapping", {}),
    ("proportional-mapping", "proportional-mapping", {}),
    ("par-subtrees", "par-subtrees", {}),
    ("par-inner-first", "par-inner-first", {}),
    ("par-inner-first, limited", "par-inner-first", {"leaves": "limited"}),
    ("par-deepest-first", "par-deepest-first", {}),
    ("par-deepest-first, limited", "par-deepest-first", {"leaves": "limited"}),
)
"""The published heuristics: label, method, options."""


def cases() -> Iterator[Case]:
    """Yield a case for each graph."""
    for spec in GRAPHS:
        yield Case(spec, partial(rows_of, spec))


def rows_of(spec: str) -> Iterator[Row]:
    """Yield a row for each memory and method; makespans in ns, None where there is no plan."""
    graph = lt.load(spec)
    least = lt.solve(lt.Peak(graph), time_limit=SECONDS, threads=1).objective
    free = lt.solve(lt.Makespan(graph, PROCESSORS), "list", options={"priority": "critical"}, threads=1)
    assert least is not None
    assert isinstance(free.verification, Verification)
    most = free.verification.peaks["memory"]
    for percent in PERCENTS:
        problem = lt.Makespan(graph, PROCESSORS, least + (most - least) * percent // 100)
        for label, method, options in (*SINGLE, ("auto", "auto", {})):
            try:
                result = lt.solve(problem, method, options=options, time_limit=SECONDS, threads=1)
            except UsageError:  # no tree
                continue
            if result.status is lt.Status.FAILED:
                raise UsageError(f"{spec}, {percent} %, {label}: {result.detail}")
            yield {
                "graph": spec,
                "ops": len(graph.ops),
                "percent": percent,
                "memory": problem.memory,
                "method": label,
                "status": str(result.status),
                "makespan": result.objective,
                "bound": result.bound,
                "bound_kind": result.bound_kind,
                "seconds": round(sum(result.seconds.values()), 1),
            }


def text(table: list[Row]) -> Fields:
    """Return makespans over the best bound, by graph and memory, and geometric means over `auto`."""
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in table:
        found.setdefault((row["graph"], row["percent"]), {})[row["method"]] = row
    over = {label: _over_auto(label, found) for label, _, _ in SINGLE}
    cases = sum(of["auto"]["makespan"] is not None for of in found.values())
    whole = [label for label in over if len(over[label]) == cases]
    best = min(whole, key=lambda label: geometric_mean(over[label].values()))
    ratios = TableSpec(
        (
            *(Column("graph"), Column("ops", kind="d"), Column("memory", kind=RIGHT)),
            *(Column(best, kind=".3f"), Column("best heuristic"), Column("auto", kind=".3f")),
            *(Column("gap", kind=".1%"), Column("bound", missing="")),
        )
    )
    means = TableSpec(
        (
            *(Column("heuristic"), Column("plans", kind=RIGHT), Column("all", kind=".3f")),
            *(Column(f"{percent} %", kind=".3f") for percent in PERCENTS),
        )
    )
    return {
        "table": ratios.of(_over_bound(of, best) for of in found.values()),
        "means": means.of(
            _means(label, over[label], cases)
            for label in sorted(over, key=lambda label: (-len(over[label]), _mean(over[label].values()) or 0))
        ),
    }


def _over_auto(label: str, found: dict[tuple[str, int], dict[str, Row]]) -> dict[tuple[str, int], float]:
    """Return a heuristic's makespans over those of `auto`, where both have a plan."""
    return {
        case: of[label]["makespan"] / of["auto"]["makespan"]
        for case, of in found.items()
        if label in of and of[label]["makespan"] and of["auto"]["makespan"]
    }


def _over_bound(of: dict[str, Row], best: str) -> Row:
    """Return the line of a graph and memory."""
    auto = of["auto"]
    line = {"graph": f"`{auto['graph']}`", "ops": auto["ops"], "memory": f"{auto['percent']} %"}
    if auto["makespan"] is None:
        return {**line, "auto": "no order found"}
    over = {label: row["makespan"] / auto["bound"] for label, row in of.items() if row["makespan"]}
    top = min((label for label in over if label != "auto"), key=lambda label: over[label])
    line |= {best: over[best], "best heuristic": f"{over[top]:.3f} {top}", "auto": over["auto"]}
    return {**line, "gap": f"{100 * (1 - 1 / over['auto']):.1f} %", "bound": auto["bound_kind"]}


def _means(label: str, over: dict[tuple[str, int], float], cases: int) -> Row:
    """Return the line of a heuristic."""
    line: Row = {"heuristic": label, "plans": f"{len(over)} of {cases}", "all": _mean(over.values())}
    parts = {p: _mean(ratio for (_, percent), ratio in over.items() if percent == p) for p in PERCENTS}
    return {**line, **{f"{p} %": mean for p, mean in parts.items()}}


def _mean(ratios: Iterable[float]) -> float | None:
    found = list(ratios)
    return geometric_mean(found) if found else None
