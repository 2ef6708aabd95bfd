"""Cases of `peak`: one order."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.peak import (
    olla_milp,
    olla_tensors_milp,
    positions_cpsat,
    steps_cpsat,
    steps_milp,
)
from tests.formulations.cases.case import Case, Verdict, proved, verdict_of
from tests.problems import peak as peak_solving


def peak(formulation: ModuleType, graph: lt.Graph) -> Verdict:
    context, outcome = peak_solving.solve_model(formulation, graph)
    context.refused = "infeasible" if outcome.infeasible else ""
    return verdict_of(context)


def peak_battery() -> list[tuple[Any, Verdict | None]]:
    return [(graph, proved(best)) for graph, best in peak_solving.battery()]


CASES = [
    *(
        Case(f"peak {m.__name__.rpartition('.')[2]}", m, peak_battery, peak)
        for m in (steps_cpsat, positions_cpsat, olla_milp, olla_tensors_milp, steps_milp)
    ),
]
