r"""The largest batch, or other number that a graph is made with, that has a plan, and why no larger one.

*Statement.* Of problems :math:`P(1), P(2), \dots` and a target r (or none) P(b) *fits* if it has an answer,
of at most r times its ideal time (`Room.ideal`). It is *refuted* if it has none: it has too few bytes at a
first look (`Problem.impossible`), the method proves it, or a proved bound exceeds r times the ideal time. The
result is a b that fits, with its verified plan, such that b + 1 does not as far as is known, and the least
number known that is refuted. If that is b + 1 the result is *certified*; else what lies between is open.

Where no tensor and no workspace shrinks from b to b + 1, the actions of a plan of P(b + 1) serve P(b), at
some times. So without a target what refutes one number refutes all larger ones, and a machine with more
memory has no smaller certified answer. The same holds for the number of layers in a row that are all alike:
without one of them, whose input takes the place of its output, a plan or a split still fits.

*Search.* Doubling and bisection for the least number that is impossible, or that the graph cannot be made
with. The one before it is tried; if it does not fit, bisection for one that does, and, with a target, for the
least one above that is refuted. Bisection takes for granted that numbers fit up to one and are refuted from
one on; the answer does not: it says what was found at b, and of the number that is refuted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from ..models.checks import check_integer
from ..models.errors import InstanceError, UsageError
from ..models.problems.problem import Problem
from ..models.result import Result, Status
from ..models.units import exact_value
from .method import load
from .registry import ROOMS
from .solve import solve

MOST = 2**20
"""Numbers that are looked at by default."""


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest number that fits.

    Attributes
    ----------
    number
        It fits; 0: none is known.
    result
        Of `number`, with its plan; None if that is 0.
    refuted
        The least number known that is refuted; None if none is.
    reason, next
        Why that is refuted; why `number` + 1 does not fit, as far as is known.
    """

    number: int
    result: Result | None
    refuted: int | None
    reason: str
    next: str

    @property
    def certified(self) -> bool:
        """Whether it is proved that the next number does not fit."""
        return self.refuted == self.number + 1


def largest(
    problem_of: Callable[[int], Problem],
    *,
    target: Fraction | None = None,
    most: int = MOST,
    **options: Any,
) -> Largest:
    """Return the largest number whose problem has a plan; the module says how, and what is proved.

    Parameters
    ----------
    problem_of
        The problem of a number, from 1 on.
    target
        Times the ideal time that a plan may take; None: any time. Only where the problem's room has one.
    most
        The greatest number that is looked at.
    options
        Of each `solve`, such as `method` and `time_limit`. An interrupt (Ctrl-C) ends the search.

    Raises
    ------
    UsageError
        If the target is below 1, or the problem has no ideal time.
    InstanceError
        If there is no problem of the number 1.

    Examples
    --------
    >>> import lowtide as lt
    >>> def problem_of(batch):
    ...     tensors = [lt.Tensor(name="a", nbytes=3 * batch), lt.Tensor(name="b", nbytes=batch)]
    ...     ops = [lt.Op(name="f", writes=(0,), duration_ns=9), lt.Op(name="g", reads=(0,), writes=(1,))]
    ...     graph = lt.Graph(name="two", tensors=tuple(tensors), ops=tuple(ops))
    ...     return lt.Placement(graph, lt.load_machine("a100-40g-pcie3"))
    >>> most = largest(problem_of, method="planner", most=2**40)
    >>> most.number * 4 <= 40 * 2**30 < (most.number + 1) * 4, most.certified
    (True, True)
    """
    check_integer(most, 1, "largest, most")
    if target is not None and target < 1:
        raise UsageError(f"largest, target: found {float(target):g}, expected at least 1, the ideal time")
    if target is not None and not ROOMS[problem_of(1).name].ideal:
        raise UsageError(f"largest: found a target, expected none, as {problem_of(1).name} has no ideal time")
    tried: dict[int, _Tried] = {}

    def made(number: int) -> Problem | str:
        try:
            return problem_of(number)
        except InstanceError as error:
            if number == 1:
                raise
            return str(error)

    def impossible(number: int) -> bool:
        asked = made(number)
        return isinstance(asked, str) or asked.impossible() is not None

    def attempt(number: int) -> _Tried:
        if number not in tried:
            tried[number] = _attempt(made(number), target, options)
            result = tried[number].result
            if result is not None and result.reason == "interrupted":
                raise KeyboardInterrupt
        return tried[number]

    with suppress(KeyboardInterrupt):
        top = 1
        while top <= most and not impossible(top):
            top *= 2
        top = bisect_left(range(top // 2 + 1, min(top, most + 1)), True, key=impossible) + top // 2 + 1
        if top <= most:
            attempt(top)
        if top > 1 and not attempt(top - 1).fits:
            bisect_left(range(1, top - 1), True, key=lambda number: not attempt(number).fits)
        number = max((k for k, one in tried.items() if one.fits), default=0)
        above = min((k for k, one in tried.items() if one.refuted and k > number), default=top)
        if target is not None:  # else what is above is refuted by its bytes, or not at all
            bisect_left(range(number + 1, above), True, key=lambda number: attempt(number).refuted)
        elif number < most:
            attempt(number + 1)
    number = max((k for k, one in tried.items() if one.fits), default=0)
    refuted = min((k for k, one in tried.items() if one.refuted and k > number), default=None)
    return Largest(
        number=number,
        result=tried[number].result if number else None,
        refuted=refuted,
        reason="" if refuted is None else tried[refuted].why,
        next=tried[number + 1].why if number + 1 in tried else "",
    )


class _Tried(NamedTuple):
    """What is known of a number; `why` it does not fit, or is refuted."""

    result: Result | None
    fits: bool
    refuted: bool
    why: str


def ideal_time(problem: Problem) -> int:
    """Return the time in ns that no answer goes below, as the problem's room has it (`Room.ideal`)."""
    found: int = load(ROOMS[problem.name].ideal)(problem)
    return found


def _attempt(asked: Problem | str, target: Fraction | None, options: dict[str, Any]) -> _Tried:
    """Solve a problem, unless it is impossible or there is none, and say what that shows."""
    if isinstance(asked, str):
        return _Tried(None, False, False, asked)
    if (why := asked.impossible()) is not None:
        return _Tried(None, False, True, why)
    result = solve(asked, **options)
    if result.status is Status.INFEASIBLE:
        return _Tried(result, False, True, result.detail or f"{result.method} proved that there is no plan")
    if target is None:
        return _Tried(result, result.objective is not None, False, result.detail)
    most = int(target * ideal_time(asked))
    allowed = f"{exact_value(most, 'ns')}, {float(target):g} times the ideal"
    if result.bound is not None and result.bound > most:
        kind = f" by {result.bound_kind}" if result.bound_kind else ""
        return _Tried(
            result,
            False,
            True,
            f"no plan takes less than {exact_value(result.bound, 'ns')}{kind}; allowed are {allowed}",
        )
    if result.objective is None:
        return _Tried(result, False, False, result.detail)
    why = f"its plan takes {exact_value(result.objective, 'ns')}; allowed are {allowed}"
    return _Tried(result, result.objective <= most, False, why)
