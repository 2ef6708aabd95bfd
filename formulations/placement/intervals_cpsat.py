r"""Tensor placement in a single run with whole tensors, as intervals in CP-SAT: exact for tiny graphs.

Two tiers, the outer one without limit. A tensor is copied as a whole, and each direction carries one copy at
a time, at a rate that no joint cap forbids beside one in the other direction (`whole.apart`). (A
plan may also let copies share a channel at lower rates, which can be faster: the optimum of this model bounds
no such plan.)

Data: see `data` (ops k, durations :math:`d_k`, lives l of :math:`z_l` bytes, M bytes of fast
memory); :math:`c^o_l, c^i_l`: times of a copy out and in. All times are rounded up to ticks. The *uses* of
a life are its birth, its accesses and, if it is kept, the end; its *absences* lie between consecutive uses. A
life of an initial tensor is born at time 0; *clean* is one that may start in the outer tier.

Variables, in ticks. :math:`S_k`: start of op k. For each absence g, :math:`b_g \in \{0, 1\}`: the life is
away; :math:`r_g \le q_g`: when it is released and when it is allocated again. For each life that is not
clean, :math:`w_l \in \{0, 1\}`: it is copied out, from :math:`p_l` on.

Objective. Minimize :math:`C = S_{n-1} + d_{n-1}` subject to

1. :math:`S_k + d_k \le S_{k+1}`;
2. :math:`r_g \ge` the end of the use before the absence, :math:`q_g \le` the start of the one behind it;
   both are that start if :math:`b_g = 0`; and if the life is away, :math:`q_g + c^i_l \le` that start, unless
   it is the end;
3. :math:`b_g \le w_l \le \sum_g b_g`, :math:`p_l \ge` the birth, and a life leaves as soon as it can: if
   :math:`b_g = 1`, :math:`r_g` is the later of the end of the use before and :math:`p_l + c^o_l`;
4. the copies out that are made do not overlap, nor do those in;
5. the fast memory: between absences a life occupies :math:`z_l` bytes, from the start of its writer (from its
   end, if the writer also reads the tensor: then the version before is there) or from :math:`q_g`, to
   :math:`r_g`, to the end of the op of its last access or, if it is kept, of the iteration; op k occupies its
   workspace and what it writes for nobody; together at most M;
6. a life that cannot start in the fast memory is away in its first absence.

One trip per absence is enough: nothing uses the life in between. One copy out is enough: it stays valid for
the whole life.

Sources: optional intervals are those of P. Laborie and J. Rogerie, "Reasoning with conditional
time-intervals", FLAIRS 2008; the model is this suite's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Any

from ...models.plan import Plan
from ...models.problems.placement import Placement
from .data import Lifetime, Link, PlacementData
from .whole import Absence, Timing, check, copy_time, is_clean, plan

ENGINE = "cpsat"
BYTES_PER_TERM = 600

Value = Callable[[Any], int]

WHAT = "interval model of placement"


@dataclass
class _Absence:
    """An absence, b, r and q."""

    of: Absence
    away: Any
    release: Any
    allocate: Any


@dataclass
class IntervalModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: PlacementData
    tick: int
    """ns of a unit of time."""
    start: list[Any] = field(default_factory=list)
    absences: list[_Absence] = field(default_factory=list)
    copied: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """w and p of the lives that are not clean."""

    def duration(self, k: int) -> int:
        """Return the ticks of an op, rounded up."""
        return -(-self.data.duration[k] // self.tick)

    def copying(self, nbytes: int, link: Link) -> int:
        """Return the ticks of a copy, rounded up."""
        return -(-copy_time(nbytes, link) // self.tick)


def common_tick(data: PlacementData) -> int:
    """Return the greatest common divisor of all durations and copy times, in ns."""
    links = [link for tier in data.outer for link in (tier.out, tier.into)]
    return gcd(*data.duration, *(copy_time(life.nbytes, link) for life in data.lives for link in links))


def build(data: PlacementData, problem: Placement, horizon: int, tick: int) -> IntervalModel:
    """Return the model; its objective is the makespan in ticks.

    Parameters
    ----------
    data, problem
        See `data`.
    horizon
        No plan of interest takes longer, in ns.
    tick
        Everything starts at multiples of so many ns; `common_tick` loses nothing.
    """
    from ortools.sat.python import cp_model

    check(data, WHAT)
    model = cp_model.CpModel()
    built = IntervalModel(model, data, tick)
    horizon = -(-horizon // tick) + data.n
    built.start = [model.new_int_var(0, horizon, f"start {k}") for k in range(data.n)]
    for k in range(data.n - 1):
        model.add(built.start[k] + built.duration(k) <= built.start[k + 1])  # (1)
    memory = _Memory()
    _ops(built, problem, memory)
    outs, ins = list[Any](), list[Any]()
    for number, life in enumerate(data.lives):
        _life(built, problem, number, life, horizon, memory, outs, ins)
    model.add_no_overlap(outs)  # (4)
    model.add_no_overlap(ins)  # (4)
    model.add_cumulative(memory.intervals, memory.demands, data.memory)  # (5)
    model.minimize(_end(built, data.n - 1))
    times = [*built.start, *(at for _, at in built.copied.values())]
    times += [time for absence in built.absences for time in (absence.release, absence.allocate)]
    model.add_decision_strategy(times, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
    return built


@dataclass
class _Memory:
    """What occupies the fast memory."""

    intervals: list[Any] = field(default_factory=list)
    demands: list[int] = field(default_factory=list)


def _end(built: IntervalModel, k: int) -> Any:
    """Return when op k ends (time 0 for -1)."""
    return built.start[k] + built.duration(k) if k >= 0 else 0


def _start(built: IntervalModel, k: int) -> Any:
    """Return when op k starts (n: the end)."""
    return built.start[k] if k < built.data.n else _end(built, built.data.n - 1)


def _ops(built: IntervalModel, problem: Placement, memory: _Memory) -> None:
    """(5) Workspace, and what an op writes for nobody."""
    graph, model = problem.graph, built.model
    born = {(life.tensor, life.born) for life in built.data.lives}
    for k, op in enumerate(graph.ops):
        alone = sum(graph.tensors[t].nbytes for t in op.writes if (t, k) not in born and t not in op.reads)
        demand = op.all_modes[0].workspace + alone
        if demand:
            duration = built.duration(k)
            memory.intervals.append(model.new_fixed_size_interval_var(built.start[k], duration, f"op {k}"))
            memory.demands.append(demand)


def _life(
    built: IntervalModel,
    problem: Placement,
    number: int,
    life: Lifetime,
    horizon: int,
    memory: _Memory,
    outs: list[Any],
    ins: list[Any],
) -> None:
    """(2, 3, 5, 6) One life."""
    model, data = built.model, built.data
    host = data.outer[0]
    clean = is_clean(life)
    uses = [life.born, *life.accesses, *([data.n] if life.kept else [])]
    renews = life.born >= 0 and life.tensor in problem.graph.ops[life.born].reads
    begin = _end(built, life.born) if life.born < 0 or renews else built.start[life.born]
    if not clean:
        made, at = model.new_bool_var(f"out {number}"), model.new_int_var(0, horizon, f"out {number} at")
        built.copied[number] = made, at
        time = built.copying(life.nbytes, host.out)
        outs.append(model.new_optional_fixed_size_interval_var(at, time, made, f"out {number}"))
        model.add(at >= _end(built, life.born))  # (3)
        model.add(at == _end(built, life.born)).only_enforce_if(~made)  # (3)
    for before, behind in pairwise(uses):
        away = model.new_bool_var(f"away {number} {behind}")
        release, allocate = (model.new_int_var(0, horizon, f"{w} {number} {behind}") for w in ("r", "q"))
        built.absences.append(_Absence(Absence(number, before, behind), away, release, allocate))
        model.add(release >= _end(built, before))  # (2)
        model.add(release <= allocate)  # (2)
        stays = _start(built, behind)
        model.add(release == stays).only_enforce_if(~away)  # (2)
        model.add(allocate == stays).only_enforce_if(~away)  # (2)
        if behind < data.n:
            model.add(allocate <= built.start[behind])  # (2)
            time = built.copying(life.nbytes, host.into)
            model.add(allocate + time <= built.start[behind]).only_enforce_if(away)  # (2)
            ins.append(model.new_optional_fixed_size_interval_var(allocate, time, away, f"in {number}"))
        else:
            model.add(allocate == stays)  # (2)
        if not clean:
            earliest = model.new_int_var(0, 2 * horizon, f"e {number} {behind}")
            model.add_max_equality(
                earliest, [_end(built, before), at + built.copying(life.nbytes, host.out)]
            )  # (3)
            model.add(release == earliest).only_enforce_if(away)  # (3)
            model.add_implication(away, made)  # (3)
        else:
            model.add(release == _end(built, before)).only_enforce_if(away)  # (3)
        if before < 0 and not life.device:
            model.add(away == 1)  # (6)
        _occupy(built, begin, release, life, memory, horizon)
        begin = allocate
    if not clean:
        model.add_bool_or(
            [~made, *(absence.away for absence in built.absences if absence.of.life == number)]
        )  # (3)
    if not life.kept:
        _occupy(built, begin, _end(built, life.accesses[-1]), life, memory, horizon)


def _occupy(
    built: IntervalModel, begin: Any, end: Any, life: Lifetime, memory: _Memory, horizon: int
) -> None:
    """(5) A life is in the fast memory from `begin` to `end`."""
    size = built.model.new_int_var(0, horizon, "")
    memory.intervals.append(built.model.new_interval_var(begin, size, end, f"life of {life.tensor}"))
    memory.demands.append(life.nbytes)


def decode(built: IntervalModel, value: Value, problem: Placement) -> Plan:
    """Return the plan of a solution."""
    tick = built.tick
    away = [bool(value(absence.away)) for absence in built.absences]
    times = Timing(
        start=[value(s) * tick for s in built.start],
        out={number: value(at) * tick for number, (made, at) in built.copied.items() if value(made)},
        release=[
            value(absence.release) * tick if b else None
            for absence, b in zip(built.absences, away, strict=True)
        ],
        back=[
            value(absence.allocate) * tick if b and absence.of.behind < built.data.n else None
            for absence, b in zip(built.absences, away, strict=True)
        ],
    )
    return plan(built.data, problem, [absence.of for absence in built.absences], times)
