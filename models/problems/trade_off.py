r"""The memory/time trade-off of a graph: what is known of its fastest schedule within each memory.

Let :math:`f(M)` be the least makespan within M bytes, infinite if there is no schedule. A schedule within M
bytes is one within any more bytes, so f never increases, and what is known of one memory says something of
all others:

(1) a schedule of peak q and makespan C: :math:`f(M) \le C` for every :math:`M \ge q`;
(2) a bound :math:`L \le f(M)`: :math:`L \le f(M')` for every :math:`M' \le M`;
(3) no schedule within less than :math:`\underline M` bytes: f is infinite there.

`closed` draws these conclusions. Between two neighbouring memories of a sweep f lies under the schedules of
the smaller one and above the bound of the larger one: two staircases with the curve between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..plan import Plan
from ..result import Result


@dataclass(frozen=True, kw_only=True)
class KnownSchedule:
    """A verified schedule: its peak in bytes, its makespan in ns, its plan."""

    peak: int
    makespan: int
    plan: Plan | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class KnownBound:
    """No schedule within `memory` bytes (None: at all) is faster than `value` ns; `proof` as in a result."""

    value: int
    memory: int | None = None
    proof: str | None = None


@dataclass(frozen=True, kw_only=True)
class TradeOffPoint:
    """What is known of the fastest schedule within a memory.

    Attributes
    ----------
    memory
        The limit, in bytes.
    makespan, peak
        Of the fastest schedule that is known, in ns and bytes; the peak may be less than the memory.
    bound, proof
        No schedule within the memory is faster, in ns, and "exact" or "floating"; None if nothing is proved.
    plan
        The schedule, on a machine with that memory.
    """

    memory: int
    makespan: int
    peak: int
    bound: int | None = None
    proof: str | None = None
    plan: Plan | None = field(default=None, repr=False, compare=False)

    @property
    def optimal(self) -> bool:
        """Whether the schedule is proved to be a fastest one."""
        return self.makespan == self.bound

    @property
    def gap(self) -> float | None:
        """(makespan - bound) / makespan; None without a bound."""
        return None if self.bound is None else (self.makespan - self.bound) / self.makespan


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """The trade-off curve of a graph between two staircases.

    Attributes
    ----------
    instance, machine
        Names of the graph and of the processors.
    method
        What looked for schedules and bounds.
    least_memory
        Proved: there is no schedule within fewer bytes.
    points
        By memory, ascending.
    bound
        No schedule is faster than so many ns, whatever the memory; None if nothing is proved.
    reason
        Why the sweep stopped before all its points: "time", "interrupted", "crash", or None.
    seconds
        That the sweep took.
    runs
        The result of each solve, in the order of solving.
    problem
        CLI name of the problem.
    durations
        Where the durations of the graph come from, in words (`Graph.durations`); None: not recorded.

    Examples
    --------
    >>> a, b = (TradeOffPoint(memory=m, makespan=c, peak=m) for m, c in ((4, 9), (6, 5)))
    >>> TradeOff(instance="g", machine="2 processors", least_memory=4, points=(a, b)).front
    ((4, 9), (6, 5))
    """

    instance: str
    machine: str
    least_memory: int
    points: tuple[TradeOffPoint, ...]
    bound: int | None = None
    method: str = "auto"
    reason: str | None = None
    seconds: float = 0.0
    runs: tuple[Result, ...] = field(default=(), repr=False, compare=False)
    problem: str = "makespan"
    durations: str | None = None

    def __repr__(self) -> str:
        counts = f"{len(self.points)} memories, {len(self.front)} schedules"
        return f"TradeOff({self.problem} of {self.instance!r} on {self.machine}: {counts})"

    @property
    def front(self) -> tuple[tuple[int, int], ...]:
        """Peak and makespan of the schedules that no other one beats in both: the Pareto front."""
        front: list[tuple[int, int]] = []
        for peak, makespan in sorted({(p.peak, p.makespan) for p in self.points}):
            if not front or makespan < front[-1][1]:
                front.append((peak, makespan))
        return tuple(front)

    def bound_within(self, memory: int) -> int | None:
        """Return the best bound within a memory, in ns: that of any point with more, by (2)."""
        found = [p.bound for p in self.points if p.memory >= memory and p.bound is not None]
        return max([*found, *([] if self.bound is None else [self.bound])], default=None)

    def record(self, plans: Sequence[str | None] = ()) -> dict[str, Any]:
        """Return JSON values; `plans` are the paths to which the plans of the points were saved."""
        paths = [*plans, *[None] * (len(self.points) - len(plans))]
        return {
            "format": "lowtide/trade-off",
            "version": 1,
            "instance": self.instance,
            "problem": self.problem,
            "machine": self.machine,
            **({} if self.durations is None else {"durations": self.durations}),
            "method": self.method,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "least_memory": self.least_memory,
            "bound": self.bound,
            "points": [
                {
                    "memory": point.memory,
                    "makespan": point.makespan,
                    "peak": point.peak,
                    "bound": point.bound,
                    "proof": point.proof,
                    "gap": point.gap,
                    "status": "optimal" if point.optimal else "feasible",
                    "plan": path,
                }
                for point, path in zip(self.points, paths, strict=True)
            ],
            "runs": [result.record() for result in self.runs],
        }


def closed(
    memories: Iterable[int], schedules: Sequence[KnownSchedule], bounds: Sequence[KnownBound]
) -> list[TradeOffPoint]:
    """Return what the schedules and bounds together say of each memory, by (1) and (2).

    Of equally fast schedules the one with the least peak stands. A memory within which no schedule is
    known is left out.

    Examples
    --------
    >>> slow, fast = KnownSchedule(peak=4, makespan=9), KnownSchedule(peak=5, makespan=6)
    >>> known = KnownBound(value=6, memory=8), KnownBound(value=3)
    >>> [(p.memory, p.makespan, p.bound) for p in closed([4, 8, 9], [slow, fast], known)]
    [(4, 9, 6), (8, 6, 6), (9, 6, 3)]
    """
    points = []
    for memory in sorted({*memories}):
        fitting = [s for s in schedules if s.peak <= memory]
        if not fitting:
            continue
        best = min(fitting, key=lambda s: (s.makespan, s.peak))
        holding = [b for b in bounds if b.memory is None or b.memory >= memory]
        bound = max(holding, key=lambda b: b.value, default=None)
        points.append(
            TradeOffPoint(
                memory=memory,
                makespan=best.makespan,
                peak=best.peak,
                bound=None if bound is None else bound.value,
                proof=None if bound is None else bound.proof,
                plan=best.plan,
            )
        )
    return points
