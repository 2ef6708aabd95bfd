r"""Minimum peak memory, time-indexed, as a MILP in Pyomo: which ops are done before which step.

The model of `steps_cpsat` with the same numbers, for solvers that work on the linear relaxation.
Stated by the sets of ops done before each step it is sparse, and its relaxation is at least as strong as
that of OLLA's model (`olla_milp`): put :math:`C_{is} = y_{i,s+1} - y_{is}` and
:math:`P_{ls} = y_{F_l s} - z_{ls}` with z at its largest value, the least :math:`y_{is}, i \in A_l`. Then
z does not decrease in s, which is OLLA's 3, and :math:`P_{ls} \ge y_{F_l s} - y_{is} \ge C_{is}` by
precedence, which is OLLA's 4.

Data: see `data` (ops :math:`i \in I`, positions 0..n-1, lifetimes l with :math:`F_l`, :math:`A_l`,
:math:`b_l`, workspace :math:`w_i`, constant `base`, all in units).

Sets. Steps :math:`s = 0, \dots, n`: step s stands between positions s - 1 and s. Shared deaths
:math:`k \in K`: the different sets :math:`A_k = A_l` of two or more ops, with :math:`d_k` the sum of their
:math:`b_l`. :math:`f_i, r_i, e_i, m_0` are ``first``, ``alone``, ``extra``, ``start`` of
`data.OpBytes`.

Variables. :math:`y_{is} \in \{0,1\}`: op i is one of the first s ops; 0 for :math:`s \le` earliest(i), 1
for :math:`s >` latest(i). :math:`z_{ks} \in \{0,1\}`: death k has happened before step s; 0 while fewer
ops have run than :math:`A_k` and its ancestors are, 1 once all :math:`y_{is}, i \in A_k` are fixed to 1.
:math:`p`: the peak, integer, between the known bounds.

Objective. Minimize p subject to

1. :math:`\sum_i y_{is} = s` for s = 1..n-1: one op per step;
2. :math:`y_{is} \le y_{i,s+1}`: what is done stays done;
3. :math:`y_{i,s+1} \le y_{js}` for each direct predecessor j of i: precedence;
4. :math:`z_{ks} \le y_{is}` for :math:`i \in A_k`: a death needs all its ops;
5. with :math:`M_s = m_0 + \sum_i (f_i - r_i) y_{is} - \sum_k d_k z_{ks}`, for each position s
   :math:`p \ge M_s + \sum_i e_i (y_{i,s+1} - y_{is})` in ``coexist``,
   :math:`p \ge M_{s+1} + \sum_i e_i (y_{i,s+1} - y_{is})` in ``replace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import MILP_BYTES, Tick, ticker
from ..pyomo_terms import Rows, add_constraint
from . import steps_cpsat
from .data import (
    PeakData,
    death_window,
    forced_bound,
    op_bytes,
    order_of,
    order_peak,
    positions,
    shared_deaths,
)
from .pyomo_parts import add_sums, cover_memory, new_model, state

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True)
class MilpStepsModel:
    """The Pyomo model and what its indices mean: ``done[i, s]`` is y, ``dead[k, s]`` is z."""

    model: Any
    data: PeakData
    deaths: tuple[tuple[tuple[int, ...], int], ...]
    """Per k: A_k and d_k."""
    windows: tuple[tuple[int, int], ...]
    """Per k: the first step with a variable, and the first that is fixed to 1."""


def build(
    data: PeakData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> MilpStepsModel:
    """Return the model, whose only objective is ``peak``; parameters as in `steps_cpsat.build`."""
    tick = ticker(expired)
    deaths = tuple(shared_deaths(data).items())
    windows = tuple(death_window(data, ops) for ops, _ in deaths)
    slack = zip(data.earliest, data.latest, strict=True)
    model = new_model(
        data,
        tick,
        done=((i, s) for i, (early, late) in enumerate(slack) for s in range(early + 1, late + 1)),
        dead=((k, s) for k, window in enumerate(windows) for s in range(*window)),
    )
    steps = MilpStepsModel(model, data, deaths, windows)
    state(steps, CONSTRAINTS, lower, upper, tick)
    if hint is not None:
        _hint(steps, hint)
    return steps


def one_op_per_step(steps: MilpStepsModel, tick: Tick) -> None:
    """Constraint 1 (where a variable is free; the fixed values fit)."""
    rows = Rows(steps.data.n)
    for (_, s), variable in steps.model.done.items():
        rows.variable(s, variable, 1)
    for late in steps.data.latest:
        rows.constant(late + 1, steps.data.n - 1, 1)
    add_sums(steps.model, "one_op_per_step", rows, tick, lambda done, s: done == s, empty=False)


def done_stays_done(steps: MilpStepsModel, tick: Tick) -> None:
    """Constraint 2 (where both variables are free)."""

    def rule(model: Any, i: int, s: int) -> Any:
        return model.done[i, s] <= model.done[i, s + 1]

    tick()
    rows = [(i, s) for i, s in steps.model.done if s < steps.data.latest[i]]
    add_constraint(steps.model, "done_stays_done", rows, rule)


def precedence_holds(steps: MilpStepsModel, tick: Tick) -> None:
    """Constraint 3 (where both variables are free; else a fixed value implies it)."""
    data = steps.data

    def rows() -> Iterator[tuple[int, int, int]]:
        for i, before in enumerate(data.predecessors):
            tick()
            for j in before:
                for s in range(data.earliest[i], data.latest[j] + 1):
                    yield i, j, s

    def rule(model: Any, i: int, j: int, s: int) -> Any:
        return model.done[i, s + 1] <= model.done[j, s]

    add_constraint(steps.model, "precedence_holds", rows(), rule)


def death_needs_all(steps: MilpStepsModel, tick: Tick) -> None:
    """Constraint 4 (where the right side is free)."""

    def rows() -> Iterator[tuple[int, int, int]]:
        for k, ((ops, _), window) in enumerate(zip(steps.deaths, steps.windows, strict=True)):
            tick()
            for i in ops:
                for s in range(window[0], min(window[1], steps.data.latest[i] + 1)):
                    yield k, i, s

    def rule(model: Any, k: int, i: int, s: int) -> Any:
        return model.dead[k, s] <= model.done[i, s]

    add_constraint(steps.model, "death_needs_all", rows(), rule)


def peak_covers_memory(steps: MilpStepsModel, tick: Tick) -> None:
    """Constraint 5."""
    data, own = steps.data, op_bytes(steps.data)
    now = int(data.replace)  # the row of position s has M of step s + now, and both steps' extra
    change = [a - b for a, b in zip(own.first, own.alone, strict=True)]
    before = [(0 if now else c) - e for c, e in zip(change, own.extra, strict=True)]
    after = [(c if now else 0) + e for c, e in zip(change, own.extra, strict=True)]
    rows = Rows(data.n)
    rows.constant(0, data.n - 1, own.start)
    for (i, s), variable in steps.model.done.items():
        rows.variable(s, variable, before[i])
        rows.variable(s - 1, variable, after[i])
    for i, late in enumerate(data.latest):
        rows.constant(late + 1, data.n - 1, before[i])
        rows.constant(late, data.n - 1, after[i])
    for (k, s), variable in steps.model.dead.items():
        rows.variable(s - now, variable, -steps.deaths[k][1])
    for (_, nbytes), (_, stop) in zip(steps.deaths, steps.windows, strict=True):
        rows.constant(stop - now, data.n - 1, -nbytes)
    cover_memory(steps.model, rows, tick)


CONSTRAINTS = (one_op_per_step, done_stays_done, precedence_holds, death_needs_all, peak_covers_memory)
"""The numbered constraints, in order."""

size = steps_cpsat.size
bound = forced_bound


def decode(steps: MilpStepsModel, value: Callable[[Any], float]) -> tuple[int, ...]:
    """Return the order of a solution: op i stands where its row of y turns to 1."""
    position = list(steps.data.latest)
    for (i, _), variable in steps.model.done.items():
        if value(variable) > 0.5:
            position[i] -= 1
    return order_of(position)


def _hint(steps: MilpStepsModel, order: Sequence[int]) -> None:
    position = positions(order)
    for (i, s), variable in steps.model.done.items():
        variable.value = int(s > position[i])
    turns = [1 + max(position[i] for i in ops) for ops, _ in steps.deaths]
    for (k, s), variable in steps.model.dead.items():
        variable.value = int(s >= turns[k])
    steps.model.peak.value = order_peak(steps.data, order)
