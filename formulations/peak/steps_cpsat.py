r"""Minimum peak memory, time-indexed, in CP-SAT: which ops are done before which step.

Data: see `data` (ops :math:`i \in I`, positions 0..n-1, lifetimes l with :math:`F_l`, :math:`A_l`,
:math:`b_l`, workspace :math:`w_i`, constant `base`, all in units).

Sets. Steps :math:`s = 0, \dots, n`: step s stands between positions s - 1 and s. Shared deaths
:math:`k \in K`: the different sets :math:`A_k = A_l` of two or more ops, with :math:`d_k` the sum of their
:math:`b_l`. Then, per op,

* :math:`f_i` = sum of :math:`b_l` with :math:`F_l = i` (appear with i),
* :math:`r_i` = sum of :math:`b_l` with :math:`A_l = \{i\}` (vanish with i alone),
* :math:`e_i` = :math:`f_i + w_i` in ``coexist``; in ``replace`` :math:`w_i` plus the :math:`b_l` with
  :math:`A_l = \{i\}` and held: what i adds to the memory after it while it runs,

and :math:`m_0` = `base` plus the initial :math:`b_l`.

Variables. :math:`y_{is} \in \{0,1\}`: op i is one of the first s ops.
:math:`z_{ks} \in \{0,1\}`: death k has happened before step s.
:math:`P`: the peak, integer, between the bounds that are known.

Fixed values. i has :math:`|anc(i)|` ops before it and :math:`|desc(i)|` behind it, so :math:`y_{is} = 0` for
:math:`s \le` earliest(i) and 1 for :math:`s >` latest(i). k needs :math:`A_k` and all its ancestors, so
:math:`z_{ks} = 0` for s less than their number; and :math:`z_{ks} = 1`, without loss, once all
:math:`y_{is}, i \in A_k` are fixed to 1.

Objective. Minimize P subject to

1. :math:`\sum_i y_{is} = s` for s = 1..n-1: one op per step;
2. :math:`y_{is} \le y_{i,s+1}`: what is done stays done;
3. :math:`y_{i,s+1} \le y_{js}` for each direct predecessor j of i: precedence;
4. :math:`z_{ks} \le y_{is}` for :math:`i \in A_k`: a death needs all its ops;
5. with :math:`M_s = m_0 + \sum_i (f_i - r_i) y_{is} - \sum_k d_k z_{ks}`, for each position s
   :math:`P \ge M_s + \sum_i e_i (y_{i,s+1} - y_{is})` in ``coexist``,
   :math:`P \ge M_{s+1} + \sum_i e_i (y_{i,s+1} - y_{is})` in ``replace``.

:math:`z` needs no lower bound: a larger z only lowers the right side of 5, so some optimum has every z
at its largest value, where :math:`M_s` is the memory between the ops. The y of an integer solution are a
chain of downsets that grows by one op a step, which is an order.

A hint gives every variable its value, z included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model import CPSAT_BYTES, ModelSize, Tick, ticker
from ..pyomo_terms import Rows
from .data import (
    PeakData,
    death_window,
    forced_bound,
    model_name,
    op_bytes,
    order_of,
    order_peak,
    peak_range,
    positions,
    shared_deaths,
)

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

Literal = Any
"""A Boolean variable, or the integer 0 or 1 where its value is fixed."""


@dataclass(frozen=True)
class StepsModel:
    """The CP-SAT model and its variables: ``done[i](s)`` is y, ``dead[k](s)`` is z."""

    model: CpModel
    data: PeakData
    peak: IntVar
    done: tuple[StepWindow, ...]
    dead: tuple[tuple[tuple[int, ...], int, StepWindow], ...]


@dataclass(frozen=True)
class StepWindow:
    """0 up to a step, then Boolean variables, then 1: a row of y or z over the steps."""

    start: int
    free: tuple[IntVar, ...]

    def at(self, s: int) -> Literal:
        """Return the variable of step s, or its fixed value."""
        if s < self.start:
            return 0
        return self.free[s - self.start] if s < self.start + len(self.free) else 1

    def add_to(self, rows: Rows, weight: int, shift: int = 0) -> None:
        """Add the value of step s, weighted, to row s - shift."""
        for s, variable in enumerate(self.free, self.start):
            rows.variable(s - shift, variable, weight)
        rows.constant(self.start + len(self.free) - shift, len(rows) - 1, weight)


def size(data: PeakData) -> ModelSize:
    """Return the counts of the model without building it."""
    slack = [late - early for early, late in zip(data.earliest, data.latest, strict=True)]
    deaths = [death_window(data, ops) for ops in shared_deaths(data)]
    variables = sum(slack) + sum(stop - start for start, stop in deaths)
    edges = sum(
        max(0, data.latest[j] - data.earliest[i]) for i, js in enumerate(data.predecessors) for j in js
    )
    members = sum(
        (stop - start) * len(ops) for (start, stop), ops in zip(deaths, shared_deaths(data), strict=True)
    )
    rows = sum(slack) + edges + members + 2 * data.n
    return ModelSize(variables, rows, 2 * (rows - 2 * data.n) + 4 * variables)


def build(
    data: PeakData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Sequence[int] | None = None,
    names: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> StepsModel:
    """Return the model.

    Parameters
    ----------
    lower, upper
        The peak is known to be at least and at most this, in units.
    hint
        An order whose values are given to every variable; its peak must not exceed `upper`.
    names
        Whether variables get names (for exported models).
    """
    from ortools.sat.python.cp_model import CpModel

    tick = ticker(expired)
    model = CpModel()
    model.name = model_name(data)

    def row(label: str, start: int, stop: int) -> StepWindow:
        tick()
        free = [model.new_bool_var(f"{label}[{s}]" if names else "") for s in range(start, stop)]
        return StepWindow(start, tuple(free))

    done = tuple(row(f"y[{i}]", data.earliest[i] + 1, data.latest[i] + 1) for i in range(data.n))
    dead = tuple(
        (ops, nbytes, row(f"z{list(ops)}", *death_window(data, ops)))
        for ops, nbytes in shared_deaths(data).items()
    )
    peak = model.new_int_var(*peak_range(data, lower, upper), "peak")
    steps = StepsModel(model, data, peak, done, dead)
    model.minimize(peak)
    for constrain in CONSTRAINTS:
        constrain(steps, tick)
    if hint is not None:
        _hint(steps, hint)
    return steps


def one_op_per_step(steps: StepsModel, tick: Tick) -> None:
    """Constraint 1 (where a variable is free; the fixed values fit)."""
    from ortools.sat.python.cp_model import LinearExpr

    rows = Rows(steps.data.n)
    for window in steps.done:
        window.add_to(rows, 1)
    for s, variables, _, constant in rows:
        tick()
        if variables:
            steps.model.add(LinearExpr.sum(variables) == s - constant)


def done_stays_done(steps: StepsModel, tick: Tick) -> None:
    """Constraint 2."""
    for row in steps.done:
        tick()
        for early, late in zip(row.free, row.free[1:], strict=False):
            steps.model.add_implication(early, late)


def precedence_holds(steps: StepsModel, tick: Tick) -> None:
    """Constraint 3 (where both variables are free; else a fixed value implies it)."""
    for i, before in enumerate(steps.data.predecessors):
        tick()
        row = steps.done[i]
        for j in before:
            other = steps.done[j]
            for s in range(max(row.start - 1, other.start), other.start + len(other.free)):
                steps.model.add_implication(row.at(s + 1), other.at(s))


def death_needs_all(steps: StepsModel, tick: Tick) -> None:
    """Constraint 4."""
    for ops, _, row in steps.dead:
        tick()
        for s, dead in enumerate(row.free, row.start):
            for i in ops:
                if not isinstance(done := steps.done[i].at(s), int):
                    steps.model.add_implication(dead, done)


def peak_covers_memory(steps: StepsModel, tick: Tick) -> None:
    """Constraint 5."""
    from ortools.sat.python.cp_model import LinearExpr

    data, own = steps.data, op_bytes(steps.data)
    # The row of position s has M of step s (coexist) or s + 1 (replace), and both steps' extra.
    rows = Rows(data.n)
    rows.constant(0, data.n - 1, own.start)
    for i, window in enumerate(steps.done):
        tick()
        before, after = -own.extra[i], own.extra[i]
        if data.replace:
            after += own.first[i] - own.alone[i]
        else:
            before += own.first[i] - own.alone[i]
        window.add_to(rows, before)
        window.add_to(rows, after, shift=1)
    for _, nbytes, window in steps.dead:
        window.add_to(rows, -nbytes, shift=int(data.replace))
    for _, variables, weights, constant in rows:
        tick()
        steps.model.add(steps.peak >= LinearExpr.weighted_sum(variables, weights) + constant)


CONSTRAINTS = (one_op_per_step, done_stays_done, precedence_holds, death_needs_all, peak_covers_memory)
"""The numbered constraints, in order."""

bound = forced_bound


def decode(steps: StepsModel, value: Callable[[Any], int]) -> tuple[int, ...]:
    """Return the order of a solution: op i stands where its row of y turns to 1."""

    def position(i: int) -> int:
        row = steps.done[i]
        low, high = 0, len(row.free)
        while low < high:
            middle = (low + high) // 2
            if value(row.free[middle]):
                high = middle
            else:
                low = middle + 1
        return row.start + low - 1

    return order_of([position(i) for i in range(steps.data.n)])


def _hint(steps: StepsModel, order: Sequence[int]) -> None:
    position = positions(order)
    rows = [(row, position[i] + 1) for i, row in enumerate(steps.done)]
    rows += [(row, 1 + max(position[i] for i in ops)) for ops, _, row in steps.dead]
    for row, turn in rows:
        for s, variable in enumerate(row.free, row.start):
            steps.model.add_hint(variable, s >= turn)
    steps.model.add_hint(steps.peak, order_peak(steps.data, order))
