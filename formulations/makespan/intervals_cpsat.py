r"""Makespan under a memory bound as intervals in CP-SAT, in two forms of the memory.

Data: see `data`.

Variables, in ticks. :math:`S_i \in [head_i, H - tail_i - d_i]`: start of op i, H the makespan of a known
schedule or a horizon. :math:`E_i`: its end. :math:`z_{ia} \in \{0, 1\}`: op i takes alternative a; of an op
without a choice it is no variable, and :math:`E_i` stands for :math:`S_i + d_i`. C: the makespan. For a
lifetime l with several ops in :math:`A_l`, :math:`D_l`: its end, not before it really ends (an earlier one
is never worse).

Objective. Minimize C subject to

1. :math:`\sum_a z_{ia} = 1` and :math:`E_i = S_i + \sum_a d_{ia} z_{ia}` for each op with a choice;
2. :math:`E_i \le S_j` for each direct edge of the precedence; :math:`E_i \le C` for each op without a
   successor;
3. at any time at most :math:`p_k` ops run in alternatives on kind k, so at most p in all, which helps while
   kinds are undecided;
4. :math:`D_l \ge E_i` (``held``) or :math:`D_l \ge S_i` (else) for :math:`i \in A_l`; where :math:`A_l` has
   one op, this is the end itself; a lifetime that is kept ends with C;
5. at any time the lifetimes and workspaces that are live have at most M - base bytes: either *cumulative*,
   with an interval for each, or *reservoir*, with a change of the level at each begin and end. Changes at
   one time are added up before the level counts. The least workspace of an op is live while it runs, in
   whichever alternative; what an alternative has beyond that, only with it.

The cumulative form propagates energy and time tables; the reservoir form is slower to find schedules and
sometimes refutes a memory that the other one does not.

Source: this suite; an instance of the multi-mode resource-constrained project scheduling problem with
resources whose use outlasts the activity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.errors import UsageError
from ..model import CPSAT_BYTES, ModelSize, ticker
from ..peak.data import Lifetime
from .data import MakespanData, model_name

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

CUMULATIVE, RESERVOIR = "cumulative", "reservoir"

LARGEST_AREA = 2**61
"""Bytes times ticks, in units: CP-SAT adds up the areas of intervals in 64 bits."""


@dataclass(kw_only=True)
class MakespanModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: MakespanData
    horizon: int
    form: str
    start: list[Any] = field(default_factory=list)
    end: list[Any] = field(default_factory=list)
    """By op: a variable, or of an op without a choice an expression."""
    takes: list[list[Any]] = field(default_factory=list)
    """By op: z of its alternatives; none of an op without a choice."""
    makespan: Any = None
    died: list[tuple[Lifetime, Any]] = field(default_factory=list)
    """The lifetimes with a variable of their own for their end."""


def size(data: MakespanData, horizon: int) -> ModelSize:
    """Return about the counts of the model; they do not depend on the horizon."""
    ways = sum(len(some) for some in data.alternatives)
    edges, lives = sum(map(len, data.bytes.predecessors)), data.bytes.lifetimes
    ends = sum(len(x.last) for x in lives)
    return ModelSize(
        variables=2 * ways + data.n + 2 * len(lives),
        constraints=2 * ways + edges + ends + len(lives),
        terms=6 * ways + 2 * edges + 2 * ends + 5 * len(lives),
    )


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
    expired: Callable[[], bool] = lambda: False,
) -> MakespanModel:
    """Return the model; its objective is the makespan in ticks.

    Parameters
    ----------
    horizon
        No schedule of interest takes longer, in ticks.
    lower
        A bound that is known, in ticks.
    form
        Of the memory: `CUMULATIVE` or `RESERVOIR`.
    hint
        Starts in ticks, of a schedule within the horizon; where ops have a choice, then their alternatives.
    """
    from ortools.sat.python import cp_model

    check(data, horizon)
    tick = ticker(expired)
    model = cp_model.CpModel()
    model.name = model_name(data)
    built = MakespanModel(model=model, data=data, horizon=horizon, form=form)
    for i, choices in enumerate(data.alternatives):
        tick()
        latest = max(horizon - data.tail[i] - data.duration[i], data.head[i])
        built.start.append(model.new_int_var(data.head[i], latest, f"S{i}"))
        if len(choices) == 1:
            built.takes.append([])
            built.end.append(built.start[i] + data.duration[i])
        else:
            built.takes.append([model.new_bool_var(f"z{i}_{k}") for k in range(len(choices))])
            built.end.append(model.new_int_var(0, max(horizon - data.tail[i], latest), f"E{i}"))
    built.makespan = model.new_int_var(lower, max(horizon, lower), "C")
    for x in data.bytes.lifetimes:
        if len(x.last) > 1:
            built.died.append((x, model.new_int_var(0, horizon, f"D{len(built.died)}")))
    for constrain in CONSTRAINTS:
        tick()
        constrain(built)
    model.minimize(built.makespan)
    if hint is not None:
        _hint(built, hint)
    return built


def _one_alternative(built: MakespanModel) -> None:
    """Constraint 1: each op takes one alternative, and its time."""
    for i, takes in enumerate(built.takes):
        if takes:
            built.model.add_exactly_one(takes)
            times = [a.duration for a in built.data.alternatives[i]]
            taken = sum(time * z for time, z in zip(times, takes, strict=True))
            built.model.add(built.end[i] == built.start[i] + taken)


def _precedence(built: MakespanModel) -> None:
    """Constraint 2: what precedes an op has ended before it starts; C is not before the last end."""
    inner = {j for before in built.data.bytes.predecessors for j in before}
    for i, before in enumerate(built.data.bytes.predecessors):
        for j in before:
            built.model.add(built.end[j] <= built.start[i])
        if i not in inner:
            built.model.add(built.end[i] <= built.makespan)


def _processors(built: MakespanModel) -> None:
    """Constraint 3: at any time at most p_k ops run on kind k, and p in all."""
    model = built.model
    if len(built.data.counts) > 1 and built.data.processors < built.data.n:
        runs = []
        for i, choices in enumerate(built.data.alternatives):
            size = model.new_int_var(built.data.duration[i], max(a.duration for a in choices), f"W{i}")
            runs.append(model.new_interval_var(built.start[i], size, built.end[i], f"run {i}"))
        model.add_cumulative(runs, [1] * len(runs), built.data.processors)
    for kind, count in enumerate(built.data.counts):
        runs = []
        for i, choices in enumerate(built.data.alternatives):
            for k, a in enumerate(choices):
                if a.kind == kind and built.takes[i]:
                    name = f"run {i} as {k}"
                    runs.append(
                        model.new_optional_fixed_size_interval_var(
                            built.start[i], a.duration, built.takes[i][k], name
                        )
                    )
                elif a.kind == kind:
                    runs.append(model.new_fixed_size_interval_var(built.start[i], a.duration, f"run {i}"))
        if count < len(runs):
            model.add_cumulative(runs, [1] * len(runs), count)


def _deaths(built: MakespanModel) -> None:
    """Constraint 4: a lifetime ends with the last of its ops."""
    for x, died in built.died:
        for i in x.last:
            built.model.add(died >= (built.end[i] if x.held else built.start[i]))


def _memory(built: MakespanModel) -> None:
    """Constraint 5: what is live fits into the memory."""
    lives = _lives(built)
    room = built.data.memory - built.data.bytes.base
    if room < 0:
        built.model.add_bool_or([])  # false; a reservoir takes no negative level
    elif lives:
        (_reservoir if built.form == RESERVOIR else _cumulative)(built, lives, room)


CONSTRAINTS: tuple[Callable[[MakespanModel], None], ...] = (
    _one_alternative,
    _precedence,
    _processors,
    _deaths,
    _memory,
)
"""As numbered on the page of mathematics."""


@dataclass(frozen=True)
class _LiveInterval:
    """Bytes that are live from `begin` to `end`; if `present` is a literal, only if it holds."""

    begin: Any
    end: Any
    nbytes: int
    present: Any = None


def _lives(built: MakespanModel) -> list[_LiveInterval]:
    """Return lifetimes and workspaces."""
    lives, died = [], iter(built.died)
    for x in built.data.bytes.lifetimes:
        if not x.last:
            end = built.makespan
        elif len(x.last) == 1:
            end = (built.end if x.held else built.start)[x.last[0]]
        else:
            _, end = next(died)
        lives.append(_LiveInterval(0 if x.born is None else built.start[x.born], end, x.nbytes))
    for i, choices in enumerate(built.data.alternatives):
        least = min(a.workspace for a in choices)
        if least:
            lives.append(_LiveInterval(built.start[i], built.end[i], least))
        for k, a in enumerate(choices):
            if a.workspace > least:
                end = built.start[i] + a.duration
                lives.append(_LiveInterval(built.start[i], end, a.workspace - least, built.takes[i][k]))
    return lives


def _cumulative(built: MakespanModel, lives: Sequence[_LiveInterval], room: int) -> None:
    """State the memory with an interval for each life."""
    model = built.model
    intervals = []
    for k, x in enumerate(lives):
        size = model.new_int_var(0, built.horizon, f"L{k}")
        if x.present is None:
            model.add(size == x.end - x.begin)
            intervals.append(model.new_interval_var(x.begin, size, x.end, f"life {k}"))
        else:
            intervals.append(model.new_optional_interval_var(x.begin, size, x.end, x.present, f"life {k}"))
    model.add_cumulative(intervals, [x.nbytes for x in lives], room)


def _reservoir(built: MakespanModel, lives: Sequence[_LiveInterval], room: int) -> None:
    """State the memory as changes of a level."""
    times = [*(x.begin for x in lives), *(x.end for x in lives)]
    changes = [*(x.nbytes for x in lives), *(-x.nbytes for x in lives)]
    present = [True if x.present is None else x.present for x in lives] * 2
    built.model.add_reservoir_constraint_with_active(times, changes, present, 0, room)


def _hint(built: MakespanModel, hint: Sequence[int]) -> None:
    """Hint the variables that the answer determines; presolve derives the lengths."""
    data, model = built.data, built.model
    chosen = [0] * data.n if len(hint) == data.n else hint[data.n :]
    end = []
    for i, (start, k) in enumerate(zip(hint[: data.n], chosen, strict=True)):
        end.append(start + data.alternatives[i][k].duration)
        model.add_hint(built.start[i], start)
        for number, z in enumerate(built.takes[i]):
            model.add_hint(z, number == k)
        if built.takes[i]:
            model.add_hint(built.end[i], end[i])
    model.add_hint(built.makespan, max(end))
    for x, died in built.died:
        model.add_hint(died, max(end[i] if x.held else hint[i] for i in x.last))


def decode(built: MakespanModel, value: Callable[[Any], int]) -> tuple[int, ...]:
    """Return the start of each op of a solution, in ns; where ops have a choice, then their alternatives."""
    starts = tuple(value(s) * built.data.tick for s in built.start)
    if not any(built.takes):
        return starts
    chosen = (max(range(len(z)), key=lambda k: value(z[k]), default=0) for z in built.takes)
    return (*starts, *chosen)
