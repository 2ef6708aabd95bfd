"""The slot model in whole bytes and ns, near a solution of its linear program, as a MILP.

Data, variables, objective and what it is good for: see `rounded`. Minimize the cost of the changes,
subject to

1. the rows of the program in changes;
2. the cost of the changes is at least what is known of it.

A solver of MILPs lets rows be broken by a little: `decode` tries them all in integers.
"""

from __future__ import annotations

from typing import Any

from ...pyomo_terms import linear
from .rounded import Near, NearModel, Value, decode

ENGINE = "milp"

__all__ = ["ENGINE", "Value", "build", "decode"]


def build(near: Near) -> NearModel:
    """Return the model; its objective is the cost of the changes in ns.

    Examples
    --------
    >>> from lowtide.formulations.linear_program import ProgramBuilder
    >>> from lowtide.formulations.placement.slots.rounded import near
    >>> builder = ProgramBuilder(1, 1)
    >>> stall = builder.variable(10, 1, cost=1)
    >>> builder.row([(stall, 12)], 50, 1)
    >>> len(build(near(builder.done(), [4.2], distance=3)).model.rows)
    2
    """
    import pyomo.environ as pyo

    model = pyo.ConcreteModel(name="slots near")
    model.change = pyo.Var(list(near.change), domain=pyo.Integers, bounds=lambda _, j: near.change[j])
    model.rows = pyo.ConstraintList()

    def total(some: list[int], factors: list[int]) -> Any:
        return linear([model.change[j] for j in some], factors)

    for some, factors, low in near.rows:
        model.rows.add((low, total(some, factors), None))  # (1)
    cost = total(*near.cost())
    model.rows.add((near.least, cost, None))  # (2)
    model.objective = pyo.Objective(expr=cost)
    return NearModel(near, model, model.change)
