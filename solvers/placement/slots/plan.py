"""The plan that values of the slot model stand for, in whole bytes and ns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ....formulations.placement.lanes import whole_lane
from ....formulations.placement.paths import moves, walk
from ....formulations.placement.slots.bytes_lp import SlotProgram
from ....models.plan import Plan
from ....models.problems.placement import Placement
from .emission import emit
from .rounds import LanePart


@dataclass(frozen=True)
class Rounded:
    """A plan, and the values of a program that it stands for, up to rounding."""

    plan: Plan
    slots: SlotProgram
    values: Sequence[float]


def decode(
    slots: SlotProgram,
    values: Sequence[float],
    problem: Placement,
    expired: Callable[[], bool] = lambda: False,
    *,
    whole: bool = False,
) -> Plan | None:
    """Return the plan that the values of a program with rounds stand for; None if rounding breaks it.

    Parameters
    ----------
    slots, values
        The program, and the values of its columns.
    problem
        Whose plan it is.
    expired
        Whether the time is up: then there is none.
    whole
        Whether the values are whole numbers, with which the program holds exactly.
    """
    data = slots.cut.data
    every = [move for move in moves(data, [False] * len(data.capacity)) if move.way is not None]
    walks = []
    for number, life in enumerate(data.lives):
        amounts, carried = partial(slots.amounts, values, number), partial(slots.carried, values, number)
        path = None if expired() else walk(slots.cut, life, every, amounts, carried, whole=whole)
        if path is None:
            return None
        walks.append(path)
    return emit([LanePart(whole_lane(problem), slots.cut, walks)], problem, expired)
