"""What the Pyomo models of minimum peak memory share: peak and objective, and how rows are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..model import Tick
from ..pyomo_terms import Rows, add_constraint, linear, silent_pyomo
from .data import PeakData, model_name, peak_range

Constraint = Callable[[Any, Tick], None]


def new_model(data: PeakData, tick: Tick, **binaries: Iterable[tuple[int, int]]) -> Any:
    """Return a Pyomo model with binary variables of these names, each with its indices."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel(name=model_name(data))
    for name, indices in binaries.items():
        tick()
        model.add_component(name, pyo.Var(list(indices), domain=pyo.Binary))
    return model


def state(built: Any, constraints: Iterable[Constraint], lower: int, upper: int | None, tick: Tick) -> None:
    """Add to a model the peak, which is to be least, and the constraints."""
    import pyomo.environ as pyo

    model = built.model
    model.peak = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=peak_range(built.data, lower, upper))
    model.objective = pyo.Objective(expr=model.peak)
    with silent_pyomo():
        for constrain in constraints:
            constrain(built, tick)


def add_sums(
    model: Any, name: str, rows: Rows, tick: Tick, compare: Callable[[Any, int], Any], *, empty: bool = True
) -> None:
    """Add a constraint of what `compare` makes of the sum of each row, constant included, and its number.

    Without `empty`, rows without variables are left out.
    """
    tick()
    sums = {
        s: linear(variables, weights, constant)
        for s, variables, weights, constant in rows
        if empty or variables
    }

    def rule(_: Any, s: int) -> Any:
        tick()
        return compare(sums[s], s)

    add_constraint(model, name, sums, rule)


def cover_memory(model: Any, rows: Rows, tick: Tick) -> None:
    """Add that the peak is at least the sum of each row."""
    add_sums(model, "peak_covers_memory", rows, tick, lambda memory, s: model.peak >= memory)
