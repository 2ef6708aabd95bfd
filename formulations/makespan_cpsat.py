r"""Makespan under a memory bound as intervals in CP-SAT, in two forms of the memory.

Data: see `makespan_data`.

Variables, in ticks. :math:`S_i \in [head_i, H - tail_i - d_i]`: start of op i, H the makespan of a known
schedule or a horizon. C: the makespan. For a lifetime l with several ops in :math:`A_l`, :math:`D_l`: its
end, not before it really ends (an earlier one is never worse).

Objective. Minimize C subject to

1. :math:`S_i + d_i \le S_j` for each direct edge of the precedence; :math:`S_i + d_i + tail_i \le C`;
2. at any time at most p ops run;
3. :math:`D_l \ge S_i + d_i` (``held``) or :math:`D_l \ge S_i` (else) for :math:`i \in A_l`; where
   :math:`A_l` has one op, this is the end itself; a lifetime that is kept ends with C;
4. at any time the lifetimes and workspaces that are live have at most M - base bytes: either *cumulative*,
   with an interval for each, or *reservoir*, with a change of the level at each begin and end. Changes at
   one time are added up before the level counts.

The cumulative form propagates energy and time tables; the reservoir form is slower to find schedules and
sometimes refutes a memory that the other one does not.

Source: the interval model of this project's handbook; an instance of the resource-constrained project
scheduling problem with resources whose use outlasts the activity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..models.errors import UsageError
from .makespan_data import MakespanData
from .peak_data import Lifetime

CUMULATIVE, RESERVOIR = "cumulative", "reservoir"

LARGEST_AREA = 2**61
"""Bytes times ticks, in units: CP-SAT adds up the areas of intervals in 64 bits."""


@dataclass
class MakespanModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: MakespanData
    start: list[Any] = field(default_factory=list)
    makespan: Any = None
    died: list[tuple[Lifetime, Any]] = field(default_factory=list)
    """The lifetimes with a variable of their own for their end."""


def check(data: MakespanData, horizon: int) -> None:
    """Raise `UsageError` if bytes times time are too large for 64 bits."""
    area = (data.memory + 1) * (horizon + 1)
    if area >= LARGEST_AREA:
        raise UsageError(
            f"CP-SAT model of makespan: found {data.memory} units of {data.bytes.unit} bytes times {horizon} "
            f"ticks of {data.tick} ns, expected less than 2^61 of them (coarser durations or sizes)"
        )


def build(
    data: MakespanData,
    *,
    horizon: int,
    lower: int = 0,
    form: str = CUMULATIVE,
    hint: Sequence[int] | None = None,
) -> MakespanModel:
    """Return the model; its objective is the makespan in ticks.

    Parameters
    ----------
    data
        See `makespan_data`.
    horizon
        No schedule of interest takes longer, in ticks.
    lower
        A bound that is known, in ticks.
    form
        Of the memory: `CUMULATIVE` or `RESERVOIR`.
    hint
        Starts in ticks, of a schedule within the horizon.
    """
    from ortools.sat.python import cp_model

    check(data, horizon)
    built = MakespanModel(cp_model.CpModel(), data)
    model, n = built.model, data.n
    slack = [horizon - data.tail[i] - data.duration[i] for i in range(n)]
    built.start = [model.new_int_var(data.head[i], max(slack[i], data.head[i]), f"S{i}") for i in range(n)]
    built.makespan = model.new_int_var(lower, max(horizon, lower), "C")
    inner = {j for before in data.bytes.predecessors for j in before}
    for i in range(n):  # (1)
        for j in data.bytes.predecessors[i]:
            model.add(built.start[j] + data.duration[j] <= built.start[i])
        if i not in inner:
            model.add(built.start[i] + data.duration[i] <= built.makespan)
    if data.processors < n:
        _processors(built)
    begins, ends, demands = _lives(built, horizon)
    if form == RESERVOIR:
        _reservoir(built, begins, ends, demands)
    else:
        _cumulative(built, begins, ends, demands, horizon)
    model.minimize(built.makespan)
    if hint is not None:
        _hint(built, hint)
    return built


def _processors(built: MakespanModel) -> None:
    """(2) At any time at most p ops run."""
    model, data = built.model, built.data
    runs = [
        model.new_fixed_size_interval_var(built.start[i], data.duration[i], f"run {i}") for i in range(data.n)
    ]
    model.add_cumulative(runs, [1] * data.n, data.processors)


def _lives(built: MakespanModel, horizon: int) -> tuple[list[Any], list[Any], list[int]]:
    """(3) Begins, ends and bytes of lifetimes and workspaces."""
    model, data = built.model, built.data
    begins, ends, demands = list[Any](), list[Any](), list[int]()
    for x in data.bytes.lifetimes:
        last = [built.start[i] + (data.duration[i] if x.held else 0) for i in x.last]
        if not last:
            end = built.makespan
        elif len(last) == 1:
            end = last[0]
        else:
            end = model.new_int_var(0, horizon, f"D{len(built.died)}")
            for one in last:
                model.add(end >= one)
            built.died.append((x, end))
        begins.append(0 if x.born is None else built.start[x.born])
        ends.append(end)
        demands.append(x.nbytes)
    for i, nbytes in enumerate(data.bytes.workspace):
        if nbytes:
            begins.append(built.start[i])
            ends.append(built.start[i] + data.duration[i])
            demands.append(nbytes)
    return begins, ends, demands


def _cumulative(
    built: MakespanModel, begins: list[Any], ends: list[Any], demands: list[int], horizon: int
) -> None:
    """(4) As intervals."""
    model = built.model
    intervals = []
    for k, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        size = model.new_int_var(0, horizon, f"L{k}")
        model.add(size == end - begin)
        intervals.append(model.new_interval_var(begin, size, end, f"life {k}"))
    model.add_cumulative(intervals, demands, built.data.memory - built.data.bytes.base)


def _reservoir(built: MakespanModel, begins: list[Any], ends: list[Any], demands: list[int]) -> None:
    """(4) As changes of a level."""
    times = [*begins, *ends]
    changes = [*demands, *(-nbytes for nbytes in demands)]
    built.model.add_reservoir_constraint(times, changes, 0, built.data.memory - built.data.bytes.base)


def _hint(built: MakespanModel, starts: Sequence[int]) -> None:
    """Hint the variables that the starts determine; presolve derives the lengths."""
    data = built.data
    for i, start in enumerate(starts):
        built.model.add_hint(built.start[i], start)
    built.model.add_hint(built.makespan, max(s + d for s, d in zip(starts, data.duration, strict=True)))
    for x, end in built.died:
        built.model.add_hint(end, max(starts[i] + (data.duration[i] if x.held else 0) for i in x.last))


def decode(built: MakespanModel, value: Callable[[Any], int]) -> tuple[int, ...]:
    """Return the start of each op of a solution, in ns."""
    return tuple(value(s) * built.data.tick for s in built.start)
