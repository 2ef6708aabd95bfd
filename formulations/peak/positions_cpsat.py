r"""Minimum peak memory by positions, in CP-SAT: a permutation of the ops, and lifetimes as intervals.

Data: see `data` (ops :math:`i \in I` at positions 0..n-1 with windows [earliest, latest], lifetimes
l with :math:`F_l`, :math:`A_l`, :math:`b_l`, held, workspace :math:`w_i`, constant `base`, in units).

Sets. Shared deaths :math:`k \in K`: the different sets :math:`A_k = A_l` of two or more ops.

Variables. :math:`p_i \in` [earliest(i), latest(i)]: the position of op i.
:math:`q_k`: the position of the last op of :math:`A_k`, at least the number of these ops and their ancestors
less 1, at most the largest latest(i).
:math:`g_l \ge 0`: how many positions l is live.
:math:`P`: the peak, integer, between the bounds that are known.

A lifetime is the interval of positions [start, start + :math:`g_l`): start is :math:`p_{F_l}`, or 0 if it
is initial; its end is n if it is final, else the position of its last access (:math:`p_i` if
:math:`A_l = \{i\}`, else :math:`q_k`), plus 1 if it is held.

Objective. Minimize P subject to

1. all :math:`p_i` are different: the positions are a permutation;
2. :math:`p_i \ge p_j + 1` for each direct predecessor j of i: precedence;
3. :math:`q_k = \max_{i \in A_k} p_i`: a shared death comes with the last of its ops;
4. at every position the :math:`b_l` of the intervals that cover it and the workspace of the op there
   sum to at most P - `base` (cumulative; workspace is an interval of length 1 at :math:`p_i`).

A hint gives every variable its value, :math:`q` and :math:`g` included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model import CPSAT_BYTES, ModelSize, Tick, ticker
from .data import (
    Lifetime,
    PeakData,
    death_window,
    forced_bound,
    model_name,
    occupied,
    order_of,
    order_peak,
    peak_range,
    shared_deaths,
)
from .data import positions as positions_of

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar, LinearExprT

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(frozen=True)
class PositionsModel:
    """The CP-SAT model and its variables: ``position[i]`` is p, ``death[A_k]`` is q, ``length[l]`` is g."""

    model: CpModel
    data: PeakData
    peak: IntVar
    position: tuple[IntVar, ...]
    death: dict[tuple[int, ...], IntVar]
    length: tuple[IntVar, ...]

    def end(self, x: Lifetime) -> LinearExprT:
        """Return the position where a lifetime ends, exclusive."""
        if not x.last:
            return self.data.n
        last = self.position[x.last[0]] if len(x.last) == 1 else self.death[x.last]
        return last + 1 if x.held else last


def size(data: PeakData) -> ModelSize:
    """Return the counts of the model as CP-SAT expands it: one Boolean per op and position."""
    slack = sum(late - early + 1 for early, late in zip(data.earliest, data.latest, strict=True))
    edges = sum(map(len, data.predecessors))
    return ModelSize(
        variables=slack + len(data.lifetimes),
        constraints=3 * data.n + edges + 2 * len(data.lifetimes),
        terms=2 * slack + 2 * edges + 3 * len(data.lifetimes),
    )


def build(
    data: PeakData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Sequence[int] | None = None,
    names: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> PositionsModel:
    """Return the model; parameters as in `steps_cpsat.build`."""
    from ortools.sat.python.cp_model import CpModel

    tick = ticker(expired)
    tick()
    model = CpModel()
    model.name = model_name(data)

    def variable(low: int, high: int, name: str) -> IntVar:
        return model.new_int_var(low, high, name if names else "")

    def death(ops: tuple[int, ...]) -> IntVar:
        first, last = death_window(data, ops)
        return variable(first - 1, last - 1, f"q{list(ops)}")

    positions = PositionsModel(
        model,
        data,
        variable(*peak_range(data, lower, upper), "peak"),
        tuple(variable(data.earliest[i], data.latest[i], f"p[{i}]") for i in range(data.n)),
        {ops: death(ops) for ops in shared_deaths(data)},
        tuple(variable(0, data.n, f"g[{k}]") for k in range(len(data.lifetimes))),
    )
    model.minimize(positions.peak)
    for constrain in CONSTRAINTS:
        constrain(positions, tick)
    if hint is not None:
        _hint(positions, hint)
    return positions


def all_different(positions: PositionsModel, tick: Tick) -> None:
    """Constraint 1."""
    tick()
    positions.model.add_all_different(positions.position)


def precedence_holds(positions: PositionsModel, tick: Tick) -> None:
    """Constraint 2."""
    for i, before in enumerate(positions.data.predecessors):
        tick()
        for j in before:
            positions.model.add(positions.position[i] >= positions.position[j] + 1)


def death_is_last(positions: PositionsModel, tick: Tick) -> None:
    """Constraint 3."""
    for ops, death in positions.death.items():
        tick()
        positions.model.add_max_equality(death, [positions.position[i] for i in ops])


def peak_covers_memory(positions: PositionsModel, tick: Tick) -> None:
    """Constraint 4."""
    model, data = positions.model, positions.data
    intervals, demands = [], []
    for x, length in zip(data.lifetimes, positions.length, strict=True):
        tick()
        start = 0 if x.born is None else positions.position[x.born]
        intervals.append(model.new_interval_var(start, length, positions.end(x), ""))
        demands.append(x.nbytes)
    for position, nbytes in zip(positions.position, data.workspace, strict=True):
        if nbytes:
            intervals.append(model.new_fixed_size_interval_var(position, 1, ""))
            demands.append(nbytes)
    model.add_cumulative(intervals, demands, positions.peak - data.base)


CONSTRAINTS = (all_different, precedence_holds, death_is_last, peak_covers_memory)
"""The numbered constraints, in order."""

bound = forced_bound


def decode(positions: PositionsModel, value: Callable[[Any], int]) -> tuple[int, ...]:
    """Return the order of a solution: the ops by their positions."""
    return order_of([value(p) for p in positions.position])


def _hint(positions: PositionsModel, order: Sequence[int]) -> None:
    data, model = positions.data, positions.model
    place = positions_of(order)
    for i in order:
        model.add_hint(positions.position[i], place[i])
    for ops, death in positions.death.items():
        model.add_hint(death, max(place[i] for i in ops))
    alive = occupied(data.lifetimes, order)
    for x, length, (start, end) in zip(data.lifetimes, positions.length, alive, strict=True):
        model.add_hint(length, end + (x.held and bool(x.last)) - max(start, 0))
    model.add_hint(positions.peak, order_peak(data, order))
