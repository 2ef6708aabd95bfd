"""The slot model in whole bytes and ns, near a solution of its linear program, in CP-SAT.

Data, variables, objective and what it is good for: see `rounded`. Minimize the cost of the changes,
subject to

1. the rows of the program in changes;
2. the cost of the changes is at least what is known of it.
"""

from __future__ import annotations

from typing import Any

from .rounded import Near, NearModel, Value, decode

ENGINE = "cpsat"

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
    >>> len(build(near(builder.done(), [4.2], distance=3)).change)
    1
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    change = {j: model.new_int_var(low, high, f"change {j}") for j, (low, high) in near.change.items()}

    def total(some: list[int], factors: list[int]) -> Any:
        return cp_model.LinearExpr.weighted_sum([change[j] for j in some], factors)

    for some, factors, low in near.rows:
        model.add(total(some, factors) >= low)  # (1)
    cost = total(*near.cost())
    model.add(cost >= near.least)  # (2)
    model.minimize(cost)
    return NearModel(near, model, change)
