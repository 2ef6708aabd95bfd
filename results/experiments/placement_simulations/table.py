"""How fast the simulator of decisions is, and what the local search that stands on it gains.

Training chains with skip connections in a single run at half of their peak, everything on the device at
the start, whole tensors and chunks; then the steady states of G10's workloads on its machine. One thread.
Simulations per second are those of the whole search: moves, simulations, plans of new bests, and the policies
at its start, by the seconds of the processor; *alone* is one simulation again and again, of the decisions of
`belady`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ....models.units import MIB
from ....solvers.placement.policies import belady
from ....solvers.placement.policies.local_search import CHUNKS, FINEST
from ....solvers.placement.simulator.problem import simulated_problem
from ....solvers.placement.simulator.simulator import simulate
from ...tables.spec import Column, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import Case

CHAINS = (50, 200)
"""Lengths of the drawn chains, in ops."""
POLICIES = ("belady", "autoswap", "g10")
SECONDS = 60
"""Time limit of each solve of the table, in seconds."""


def cases() -> Iterator[Case]:
    """Yield a case for each question."""
    for ops in CHAINS:
        spec = f"gen:skipchain?n={ops}&seed=1"
        graph = lt.load(spec)
        device = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) // 2
        spec += f"&machine=v100-16g-pcie3&start=gpu&device={device}B"
        for name, more in (("whole tensors", "&whole=1"), ("chunks", "")):
            name = f"chain of {ops} ops, {name}"
            yield Case(name, partial(searched, name, spec + more))
    for name in PUBLISHED:
        spec = f"catalogue:g10/{name}?machine=a100-40g-pcie3&periodic=1&start.input=anywhere"
        yield Case(name, partial(searched, name, spec))


def searched(name: str, spec: str) -> list[Row]:
    """Return the row of one instance."""
    problem = load_problem(lt.Placement, spec)
    policies = [lt.solve(problem, method, threads=1).objective for method in POLICIES]
    began = time.process_time()
    result = lt.solve(problem, "local-search", time_limit=SECONDS, threads=1, seed=1)
    seconds = time.process_time() - began
    assert result.plan is not None, result.detail
    return [
        {
            "instance": name,
            "ops": len(problem.graph.ops),
            "copies": len(result.plan.copies),
            "ideal": sum(op.all_modes[0].duration_ns for op in problem.graph.ops),
            "policy": min(value for value in policies if value is not None),
            "best": result.objective,
            "simulations": result.facts["simulations"],
            "seconds": round(seconds, 1),
            "alone": round(alone(problem)),
            "question": spec,
        }
    ]


def alone(problem: lt.Placement) -> float:
    """Return how many simulations of the same decisions there are per second, in chunks as searched."""
    device = problem.machine.tiers[0].capacity or 0
    case = simulated_problem(problem, max(FINEST, device // CHUNKS // MIB) * MIB)
    ((_, decisions),) = belady.decide(case)
    decisions = decisions.with_emergencies()
    count, began = 0, time.process_time()
    while time.process_time() - began < 2:
        assert simulate(case, decisions).time is not None
        count += 1
    return count / (time.process_time() - began)


def _per_second(row: Row) -> float | None:
    return row["simulations"] / row["seconds"] if row["simulations"] else None


TABLE = TableSpec(
    (
        *(Column("instance"), Column("ops", kind=","), Column("copies", kind=",")),
        Column("stall of the best policy", lambda row: 100 * (row["policy"] / row["ideal"] - 1), ".2f"),
        Column("of the search", lambda row: 100 * (row["best"] / row["ideal"] - 1), ".2f"),
        *(Column("simulations", kind=","), Column("CPU s", "seconds", ".0f")),
        *(Column("per second", _per_second, ",.0f"), Column("alone", kind=",")),
    )
)
