"""Helpers of the tests of peak formulations: solve one model as it is, without incumbent or cutoff.

Imported as ``from tests.problems.peak import ...``.
"""

from __future__ import annotations

from random import Random
from types import ModuleType

from lowtide.formulations.peak import (
    olla_milp as peak_milp_olla,
)
from lowtide.formulations.peak import (
    olla_tensors_milp as peak_milp_olla_tensors,
)
from lowtide.formulations.peak import (
    positions_cpsat as peak_cpsat_positions,
)
from lowtide.formulations.peak import (
    steps_cpsat as peak_cpsat_steps,
)
from lowtide.formulations.peak import (
    steps_milp as peak_milp_steps,
)
from lowtide.formulations.peak.data import peak_data
from lowtide.models.graph import Graph
from lowtide.models.problems.peak import Peak
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.peak.methods import ROOM
from tests.oracles.brute_force import brute_force_peak
from tests.strategies import random_graph

FORMULATIONS = {
    "cpsat": peak_cpsat_steps,
    "cpsat-positions": peak_cpsat_positions,
    "milp": peak_milp_olla,
    "milp-tensors": peak_milp_olla_tensors,
    "milp-steps": peak_milp_steps,
}
"""The formulation of each exact method."""

DEFAULTS = {option.name: option.default for method in ROOM.methods for option in method.options}
"""Every option of the problem's methods, for a `Context` without `solve`."""


def solve_model(formulation: ModuleType, graph: Graph, **build_options: object) -> tuple[Context, Outcome]:
    """Build and solve the model of a graph; the context has what the solver alone found."""
    problem = Peak(graph)
    context = Context(problem=problem, threads=1, time_limit=None)
    data = peak_data(problem)
    built = formulation.build(data, **build_options)
    run = solve_cpsat if formulation.ENGINE == "cpsat" else solve_highs
    outcome = run(
        built.model,
        context,
        decode=lambda value: formulation.decode(built, value),
        to_objective=lambda units: units * data.unit,
    )
    return context, outcome


def battery(count: int = 60) -> list[tuple[Graph, int]]:
    """Return small random graphs of every structure, each with its least peak."""
    found = []
    for seed in range(count):
        graph = random_graph(Random(seed), min_ops=3, max_ops=6)
        found.append((graph, brute_force_peak(graph)[0]))
    return found
