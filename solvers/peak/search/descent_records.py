"""What a search by descents remembers and hands on (`lowtide.solvers.peak.search.descents`)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

UNREACHED = 2**200
"""Above every height: what a search returns as least cost if it cut nothing off."""

Call = Generator[Any, Any, Any]
"""A search that yields those it needs; `carried_out` returns their results to it: no recursion limit."""

Key: TypeAlias = tuple[bool, bool, int, int]
"""Of a component: backward, whole, the part of its frame that matters in that direction, mask."""

WayKey: TypeAlias = tuple[int, int]
"""Of an interval to be crossed: its ops and those beyond it that share a group with them, as masks."""


class Stuck(NamedTuple):
    """Descents taken after a step over `op`, and the components that have none there."""

    op: int
    paths: tuple[tuple[int, ...], ...]
    parts: tuple[Key, ...]


class StuckAtWaist(NamedTuple):
    """No component before the waist has a descent; and the way to it, its step, or what is beyond fails."""

    waist: int
    parts: tuple[Key, ...]
    way: WayKey | None = None
    beyond: Stuck | None = None


class StuckBetween(NamedTuple):
    """Descents taken from both ends of an interval, and the components between that have none."""

    back: bool
    head: tuple[tuple[int, ...], ...]
    tail: tuple[tuple[int, ...], ...]
    parts: tuple[Key, ...]


@dataclass(slots=True)
class Hill:
    """What is known of a component: no descent within a height below `low`; `path` is one within `high`.

    `why` is the reason for `low`, if reasons are recorded: of a component one `Stuck` for each first step
    below it, or the waist; of an interval what is between its ends.
    """

    low: int = -UNREACHED
    high: int = UNREACHED
    path: tuple[int, ...] = ()
    change: int = 0
    why: tuple[Stuck, ...] | StuckAtWaist | StuckBetween | None = None


class Frame(NamedTuple):
    """The interval that a search is in: what tells apart equal components of different intervals (7).

    Attributes
    ----------
    beyond, below
        Ops outside the interval, behind and before it, that share a group with some inside. Forward, a
        group completes unless it has ops beyond; backward, the last set holds those below.
    whole
        Whether everything is one component, to be done to the end (9).
    """

    beyond: int
    below: int
    whole: bool = False


class Spot(NamedTuple):
    """Where a search stands: interval, direction, executed set, and M there."""

    frame: Frame
    back: bool
    done: int
    memory: int


class Descended(NamedTuple):
    """Where descents within some ops have led.

    Attributes
    ----------
    ops, paths
        Stepped over, in one and by descent.
    memory
        M then.
    least
        The least height above it at which there are more descents.
    parts
        The components that are left.
    """

    ops: list[int]
    paths: list[tuple[int, ...]]
    memory: int
    least: int
    parts: list[int]


def carried_out(search: Call) -> Any:
    """Return the result of a search, running the searches that it yields."""
    stack, result = [search], None
    while stack:
        try:
            needed = stack[-1].send(result)
        except StopIteration as end:
            stack.pop()
            result = end.value
        else:
            stack.append(needed)
            result = None
    return result
