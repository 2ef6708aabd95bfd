r"""The memory/time trade-off of `makespan`: one solve for each of a few memories, each helped by the others.

1. `peak` gives a sequential order of little memory: the smallest memory of the sweep. Its bound says below
   which memory there is no schedule (`_least_memory`).
2. The fastest schedule without a limit gives the largest: its peak. No more memory is of use to it, and its
   bound holds for every memory.
3. The next memory halves the widest open step: of neighbours :math:`M < M'` with schedules of makespans C
   and C', the latter of peak :math:`q' \le M'`, it is :math:`(M + q') / 2` where :math:`(q' - M)(C - C')` is
   largest, the area of the step; where all are equally fast, :math:`(q' - M)(C - L')`, the area that the
   bound L' of the larger one leaves open. All that can be live together is a multiple of one unit of bytes
   (`lowtide.formulations.makespan.data`), so only its multiples matter. The sweep ends early where no area is
   left: then the whole curve is known.

Each solve starts from the fastest schedule that is known within its memory, and ends as soon as it meets the
bound of the next larger memory. Afterwards every schedule and every bound counts wherever it holds
(`lowtide.models.problems.trade_off`). The time is shared out evenly over the solves that are left; what one
of them does not need, the others have.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

from ...models.errors import UsageError
from ...models.problems.makespan import Makespan
from ...models.problems.peak import Peak
from ...models.problems.problem import Judgement
from ...models.problems.trade_off import KnownBound, KnownSchedule, TradeOff, TradeOffPoint, closed
from ...models.result import Result, Status
from ...models.units import format_bytes
from ...models.verifier.verdict import Verification
from ..solve import solve


@dataclass(frozen=True)
class _WithTarget(Makespan):
    """The same question, answered by any schedule as fast as the target in ns.

    Methods make other questions from it, of a part of the graph say: the target is none of theirs.
    """

    target: int | None = None
    asked: Makespan | None = None

    def satisfied(self, objective: int) -> bool:
        if self.target is None or self.asked is None:
            return False
        same = self.graph is self.asked.graph and self.memory == self.asked.memory
        return same and self.processors == self.asked.processors and objective <= self.target


def sweep(
    problem: Makespan,
    points: int,
    *,
    method: str,
    time_limit: float | None,
    progress: Callable[[str], None] | None,
    options: Mapping[str, str] | None,
    **setting: Any,
) -> TradeOff:
    """Return the trade-off between the memory and the makespan of a graph, as `lowtide.sweep_memory` does."""
    if problem.memory is not None:
        raise UsageError(f"sweep of memory: found memory {problem.memory}, expected a problem without one")
    own = _Sweep(
        problem=problem,
        points=points,
        ends=math.inf if time_limit is None else time.perf_counter() + time_limit,
        say=progress or (lambda line: None),
        setting=setting,
        method=method,
        options=dict(options or {}),
    )
    began = time.perf_counter()
    try:
        own.run()
    except KeyboardInterrupt:
        own.reason = "interrupted"
    return TradeOff(
        instance=problem.graph.name,
        machine=problem.machine.name,
        least_memory=own.least_memory,
        points=tuple(own.judged(point) for point in own.curve()),
        bound=max((b.value for b in own.bounds if b.memory is None), default=None),
        method=method,
        reason=own.reason,
        seconds=time.perf_counter() - began,
        durations=problem.graph.durations,
        runs=tuple(own.runs),
    )


@dataclass(kw_only=True)
class _Sweep:
    """What is known so far."""

    problem: Makespan
    points: int
    ends: float
    say: Callable[[str], None]
    setting: Mapping[str, Any]
    method: str
    options: Mapping[str, str]
    reason: str | None = None
    least_memory: int = 0
    unit: int = 1
    memories: list[int] = field(default_factory=list)
    schedules: list[KnownSchedule] = field(default_factory=list)
    bounds: list[KnownBound] = field(default_factory=list)
    runs: list[Result] = field(default_factory=list)

    def run(self) -> None:
        """Carry out the steps of the page above, until the time is up."""
        from ...formulations.makespan.data import makespan_data
        from .lists.method import in_sequence

        self.unit = makespan_data(self.problem).bytes.unit
        least = self._solve(Peak(self.problem.relaxed), "auto", self.points + 1, "least sequential peak")  # 1
        if least is None:
            return
        if least.bound is not None:
            self.least_memory = _least_memory(self.problem, least.bound)
        if least.plan is None:
            return
        self._take(self.problem.judge(in_sequence(self.problem, least.plan.order)))
        smallest = self.schedules[0].peak
        self.memories.append(smallest)
        if self.reason is not None:
            return
        goes_on = self._solve_within(None, "fastest without limit")  # 2
        largest = min(self.schedules, key=lambda s: (s.makespan, s.peak)).peak
        self.memories = sorted({min(smallest, largest), largest})
        memory = self.memories[0] if goes_on else None
        while memory is not None:
            self.memories = sorted({*self.memories, memory})
            number = f"memory {len(self.memories)} of {self.points}"
            point = self._at(memory)
            if not point.optimal and not self._solve_within(memory, f"{number} ({format_bytes(memory)})"):
                return
            memory = _next_memory(self.curve(), self.unit) if len(self.memories) < self.points else None  # 3

    def _solve_within(self, memory: int | None, title: str) -> bool:
        """Look for the fastest schedule within a memory; return whether the sweep goes on."""
        known = None if memory is None else self._at(memory)
        asked = replace(self.problem, memory=memory)
        given = {f.name: getattr(asked, f.name) for f in fields(asked)}
        question = _WithTarget(**given, target=None if known is None else known.bound, asked=asked)
        hint = self.schedules[0].plan if known is None else known.plan
        left = self.points if memory is None else self.points - len(self.memories) + 1
        result = self._solve(question, self.method, left, title, hint=hint, options=self.options)
        if result is None:
            return False
        if result.status is Status.FAILED:
            self.reason = "crash"
            return False
        if result.plan is not None:
            self._take(self.problem.judge(self.problem.read(result.plan)))
        if result.bound is not None:
            self.bounds.append(KnownBound(value=result.bound, memory=memory, proof=result.proof))
        return self.reason is None

    def _solve(
        self, question: Makespan | Peak, method: str, left: int, title: str, **given: Any
    ) -> Result | None:
        """Return the result of a solve, for its share of the time; None if there is none left."""
        remaining = self.ends - time.perf_counter()
        if remaining <= 0:
            self.reason = "time"
            return None
        result = solve(
            question,
            method,
            time_limit=None if math.isinf(remaining) else remaining / left,
            progress=lambda line: self.say(f"{title}: {line}"),
            **self.setting,
            **given,
        )
        self.runs.append(result)
        if result.reason == "interrupted":
            self.reason = "interrupted"
        return result

    def _take(self, judgement: Judgement) -> None:
        """Remember a schedule with its verified peak and makespan."""
        verdict = judgement.verification
        assert judgement.objective is not None
        assert isinstance(verdict, Verification)
        peak = max(verdict.peaks.values())
        self.schedules.append(KnownSchedule(peak=peak, makespan=judgement.objective, plan=judgement.plan))

    def curve(self) -> list[TradeOffPoint]:
        """Return what is known at each memory."""
        return closed(self.memories, self.schedules, self.bounds)

    def _at(self, memory: int) -> TradeOffPoint:
        """Return what is known at one memory."""
        (point,) = closed([memory], self.schedules, self.bounds)
        return point

    def judged(self, point: TradeOffPoint) -> TradeOffPoint:
        """Return the point with its plan verified on the machine of its memory."""
        within = replace(self.problem, memory=point.memory)
        verdict = within.judge(within.read(point.plan))
        assert verdict.objective == point.makespan
        return replace(point, plan=verdict.plan)


def _next_memory(curve: list[TradeOffPoint], unit: int) -> int | None:
    """Return the middle, in units, of the open step with the largest area; None if no step is open."""
    best, memory = (0, 0), None
    for low, high in pairwise(curve):
        width = high.peak // unit - low.memory // unit
        area = width * (low.makespan - high.makespan), width * (low.makespan - (high.bound or 0))
        if width >= 2 and area > best:
            best, memory = area, (low.memory // unit + width // 2) * unit
    return memory


def _least_memory(problem: Makespan, peak_bound: int) -> int:
    """Return bytes below which there is no schedule, given a bound of every sequential peak.

    See `lowtide.solvers.makespan.bounds.bounds`, *Infeasible*: no schedule within one byte less than
    the bound, hence within any less, where that page lets the sequential peak count; always, what is live
    around one op in every schedule.
    """
    from ...formulations.makespan.data import makespan_data
    from ...formulations.peak.data import forced_bound
    from .bounds.bounds import sequential_peak_counts

    size = makespan_data(problem).bytes
    forced = forced_bound(size) * size.unit
    if peak_bound <= forced:
        return forced
    counts = sequential_peak_counts(makespan_data(replace(problem, memory=peak_bound - 1)))
    return peak_bound if counts else forced
