r"""Schedules of a pipeline as intervals in CP-SAT.

Data. Ops :math:`X_{sj}` of kinds F, B, W, stages s and micro-batches j = 0, …, m - 1, of
:math:`f_s, b_s, w_s` ns on device :math:`d_s`; latency :math:`c_s` between stages s and s + 1, 0 on one
device; :math:`a_s` bytes from the start of F, :math:`\omega_s` of them until W and the others until B has
ended; memory M of each device, without what is there all the time.

Variables. :math:`S_X` and :math:`E_X`: start and end of each op; T, the objective.

Minimize T subject to

1. :math:`S_X \ge E_Y` for W after its B and B of the last stage after F; :math:`S_{F_{s+1,j}} \ge
   E_{F_{sj}} + c_s`; :math:`S_{B_{sj}} \ge E_{B_{s+1,j}} + c_s`;
2. ops on one device do not overlap;
3. :math:`S_{X_{s,j+1}} \ge E_{X_{sj}}`: micro-batches in order, of each kind and stage;
4. intervals :math:`[S_F, E_B)` of :math:`a_s - \omega_s` bytes and :math:`[S_F, E_W)` of :math:`\omega_s` do
   not exceed M on any device;
5. :math:`S_{F_{s,j+k}} \ge E_{B_{sj}}` with :math:`k = \lfloor M / a_s \rfloor`, and
   :math:`S_{F_{s,j+l}} \ge E_{W_{sj}}` with :math:`l = \lfloor (M - a_s + \omega_s) / \omega_s \rfloor`;
6. makespan: :math:`T \ge E_X`; span: :math:`T \ge E_X - S_Y` for all ops X and first ops Y (F of micro-batch
   0) of stages on one device.

Constraint 3 loses nothing. *Proof.* Take any schedule, and for each kind and stage deal its starts out anew,
in ascending order of micro-batches; ends ascend too, as the ops of a kind and stage take equally long. When a
device is busy stays the same. If each :math:`S_{Y_j} \ge E_{X_j} + c`, the k-th least start of Y has k ops
Y, and so k ops X that ended c before it, so it is not before the k-th least end of X, plus c. What is on a
device is :math:`a_s` times the F begun, less :math:`a_s - \omega_s` times the B and :math:`\omega_s` times
the W ended, over its stages: counts, which stay the same. So do first starts and last ends.

By it constraint 6 knows the first and the last ops. Constraint 5 follows from 3 and 4. *Proof.* When
:math:`F_{s,j+k}` starts, k + 1 forwards have started since :math:`F_{sj}`. If :math:`B_{sj}` has not ended,
neither have the later ones, nor any of their W, and the stage has :math:`(k + 1) a_s > M` bytes. If
:math:`W_{sj}` has not ended as :math:`F_{s,j+l}` starts, :math:`(l + 1) \omega_s` bytes wait for W, and at
least the :math:`a_s - \omega_s` of the last one for B: more than M.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any

from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline
from ..makespan.intervals_cpsat import LARGEST_AREA
from ..model import CPSAT_BYTES, ModelSize, ticker
from ..peak.data import LARGEST_TOTAL

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(kw_only=True)
class PipelineModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    problem: Pipeline
    horizon: int
    start: list[Any]
    end: list[Any]
    objective: Any

    def ops(self, kind: str, s: int) -> list[int]:
        """Return the ops of a kind and stage, micro-batch after micro-batch; W of a stage without is B."""
        line = self.problem.line
        kind = "B" if kind == "W" and not line.stages[s].weight else kind
        return [line.op[kind, s, j] for j in range(line.micro)]


def size(problem: Pipeline) -> ModelSize:
    """Return about the counts of the model."""
    n = len(problem.graph.ops)
    return ModelSize(variables=4 * n + 1, constraints=7 * n, terms=16 * n)


def horizon_of(problem: Pipeline) -> int:
    """Return a time at which some best schedule that begins at 0 has ended.

    *Proof.* With the orders of a best schedule, take the least starts from 0 on that the differences allow, a
    span's among them. Each is the length of a path of differences that meets no op twice, and a difference
    adds at most the duration of the op that it leaves and the latency.
    """
    return sum(problem.line.durations) + problem.latency_ns * len(problem.line.durations)


def build(
    problem: Pipeline,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: tuple[int, ...] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> PipelineModel:
    """Return the model; its objective is in ns.

    Parameters
    ----------
    lower, upper
        Known bounds of the objective; where there is no schedule, the lower one may exceed the horizon.
    hint
        The starts of a schedule.

    Raises
    ------
    UsageError
        If the times are too large for exact bounds, or with all variables or bytes for 64 bits.
    """
    from ortools.sat.python import cp_model

    horizon = horizon_of(problem)
    most = min(LARGEST_TOTAL, LARGEST_AREA // size(problem).variables)
    if horizon >= most:
        raise UsageError(
            f"CP-SAT model of pipeline: found {horizon} ns of durations and latencies, expected less than "
            f"{most} (coarser durations)"
        )
    model = cp_model.CpModel()
    n = len(problem.graph.ops)
    built = PipelineModel(
        model=model,
        problem=problem,
        horizon=horizon,
        start=[model.new_int_var(0, horizon, f"S{i}") for i in range(n)],
        end=[model.new_int_var(0, horizon, f"E{i}") for i in range(n)],
        objective=model.new_int_var(lower, max(horizon if upper is None else upper, lower), "T"),
    )
    tick = ticker(expired)
    for constrain in CONSTRAINTS:
        tick()
        constrain(built)
    model.minimize(built.objective)
    if hint is not None:
        _hint(built, hint)
    return built


def _precedence(built: PipelineModel) -> None:
    """Constraint 1."""
    model, start, end = built.model, built.start, built.end
    stages = built.problem.line.stages
    for s, x in enumerate(stages):
        if x.weight:
            pairs = zip(built.ops("B", s), built.ops("W", s), strict=True)
            for i, j in pairs:
                model.add(start[j] >= end[i])
        if s + 1 == len(stages):
            for i, j in zip(built.ops("F", s), built.ops("B", s), strict=True):
                model.add(start[j] >= end[i])
            continue
        c = built.problem.latency_ns * (x.device != stages[s + 1].device)
        for kind, a, b in (("F", s, s + 1), ("B", s + 1, s)):
            for i, j in zip(built.ops(kind, a), built.ops(kind, b), strict=True):
                model.add(start[j] >= end[i] + c)


def _one_at_a_time(built: PipelineModel) -> None:
    """Constraint 2."""
    line, model = built.problem.line, built.model
    runs = [
        model.new_interval_var(built.start[i], duration, built.end[i], f"run {i}")
        for i, duration in enumerate(line.durations)
    ]
    for device in range(line.devices):
        model.add_no_overlap([run for run, on in zip(runs, line.device, strict=True) if on == device])


def _in_order(built: PipelineModel) -> None:
    """Constraint 3."""
    for s, x in enumerate(built.problem.line.stages):
        for kind in "FBW" if x.weight else "FB":
            for i, j in pairwise(built.ops(kind, s)):
                built.model.add(built.start[j] >= built.end[i])


def _memory(built: PipelineModel) -> None:
    """Constraint 4."""
    problem, model = built.problem, built.model
    stages = problem.line.stages
    for chunk, free in zip(problem.line.chunks, problem.room, strict=True):
        if free is None:
            continue
        parts = [("B", s, stages[s].activation - stages[s].kept) for s in chunk]
        parts += [("W", s, stages[s].kept) for s in chunk]
        parts = [part for part in parts if part[2]]
        intervals, unit = [], gcd(*(nbytes for *_, nbytes in parts))
        for kind, s, _ in parts:
            for i, j in zip(built.ops("F", s), built.ops(kind, s), strict=True):
                length = model.new_int_var(0, built.horizon, f"L{i} {j}")
                intervals.append(
                    model.new_interval_var(built.start[i], length, built.end[j], f"held {i} {j}")
                )
        if parts:
            demands = [nbytes // unit for *_, nbytes in parts for _ in range(problem.line.micro)]
            room = min(max(free, 0) // unit, sum(demands))
            if (area := (room + 1) * (built.horizon + 1)) >= LARGEST_AREA:
                raise UsageError(
                    f"CP-SAT model of pipeline: found {area} units of {unit} bytes of memory times ns, "
                    "expected less than 2^61 of them (coarser durations or sizes)"
                )
            model.add_cumulative(intervals, demands, room)


def _most_in_flight(built: PipelineModel) -> None:
    """Constraint 5."""
    for s, x in enumerate(built.problem.line.stages):
        memory = built.problem.room[x.device]
        if memory is None or not x.activation or x.activation > memory:
            continue
        ahead = [("B", memory // x.activation)]
        if x.kept:
            ahead.append(("W", (memory - x.activation + x.kept) // x.kept))
        for kind, k in ahead:
            for i, j in zip(built.ops(kind, s), built.ops("F", s)[k:], strict=False):
                built.model.add(built.start[j] >= built.end[i])


def _objective(built: PipelineModel) -> None:
    """Constraint 6."""
    line, model = built.problem.line, built.model
    for chunk in line.chunks:
        for s in chunk:
            last = built.end[built.ops("W", s)[-1]]
            if built.problem.objective == "makespan":
                model.add(built.objective >= last)
                continue
            for first in chunk:
                model.add(built.objective >= last - built.start[built.ops("F", first)[0]])


CONSTRAINTS: tuple[Callable[[PipelineModel], None], ...] = (
    _precedence,
    _one_at_a_time,
    _in_order,
    _memory,
    _most_in_flight,
    _objective,
)
"""As numbered on the page of mathematics."""


def _hint(built: PipelineModel, hint: tuple[int, ...]) -> None:
    """Hint a schedule from its first start on, micro-batches in order."""
    line = built.problem.line
    begin = min(hint)
    starts = [0] * len(hint)
    for s in range(len(line.stages)):
        for kind in "FBW" if line.stages[s].weight else "FB":
            mine = built.ops(kind, s)
            for i, start in zip(mine, sorted(hint[i] for i in mine), strict=True):
                starts[i] = start - begin
    for i, start in enumerate(starts):
        built.model.add_hint(built.start[i], start)
        built.model.add_hint(built.end[i], start + line.durations[i])
    built.model.add_hint(built.objective, built.problem.evaluate(starts))


def decode(built: PipelineModel, value: Callable[[Any], int]) -> tuple[int, ...]:
    """Return the starts of a solution."""
    return tuple(value(start) for start in built.start)
