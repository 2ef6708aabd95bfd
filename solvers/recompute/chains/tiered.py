r"""Chains of any sizes and times with any number of slower tiers: checkpoints in each, by dynamic programs.

*Statement.* A chain as in `hetero`, in M bytes of memory; tier k = 1 .. K takes inputs of stages as
checkpoints, up to :math:`c_k` bytes of them at a time. Input s is written to it in :math:`w_{ks}` ns and read
back in :math:`r_{ks}`, while nothing runs.

*Programs*, H-Revolve's (`h_revolve`) for any sizes and times. With the input of stage s in work,
:math:`O_k(s, t, m)` is the least time to reverse stages s .. t with m bytes free in tier k, and all of those
below; :math:`O'_k(s, t, m)` if tier k has that input besides. :math:`O_0(s, t) = C(s, t, M - in_s)` is that
of `hetero`.

.. math::

    O'_k(s, t, m) = \min\bigl(O_{k-1}(s, t, c_{k-1}),\ \min_{s < j \le t} \textstyle\sum_{s \le i < j} f_i
    + O_k(j, t, m) + r_{ks} + O'_k(s, j - 1, m)\bigr)

    O_k(s, t, m) = \min\bigl(O_{k-1}(s, t, c_{k-1}),\ w_{ks} + O'_k(s, t, m - in_s)\bigr)

where a sweep may be taken if each of its forwards fits beside the gradient behind stage t, and x_s beside the
first one: :math:`M \ge top_t + in_s + need_s` and :math:`M \ge top_t + need_i` for the others. The answer
is :math:`O_K(0, l, c_K)`.

*What is best.* The best schedule of H-Revolve's form: nothing but inputs of stages is copied, outwards right
after it was made or read back; when one is, to or from tier k, the memory has nothing else but the last
gradient, and tiers 1 .. k - 1 have nothing; what was copied is not made again; and what happens in the memory
between is persistent. Schedules of other forms may be faster, so that each op once is the only bound that is
proved. On uniform chains it is never above H-Revolve's, whose slots do not use the cell of the gradient that
never exists.

*Rounding*, of memory and of each tier's room, as in `hetero`: every schedule found fits. A tier without limit
has room for everything and counts nothing. :math:`O(L^3 \sum_k c_k)` time in slots.

Source: Herrmann and Pallez, ACM TOMS 46, 2020, for uniform chains; Beaumont et al. 2019 for C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....models.arrays import Integers
from .hetero import CELLS, NEVER, SLOTS, Costs, HeteroProgram, program, schedule, slots_of, sweep, unit_of

Step = int | tuple[int, int, bool]
"""A code of `hetero`; or tier k, stage s, and whether its input is written to that tier, not read from it."""


@dataclass(frozen=True, kw_only=True)
class SlowTier:
    """Bytes of room (None: no limit), and by stage the ns to write and to read its input."""

    capacity: int | None
    write: tuple[int, ...]
    read: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _Level:
    """O, O' and O_{k-1} by first stage, last stage and slots; what an input takes in slots."""

    free: Integers
    kept: Integers
    below: Integers
    size: Integers


def tiered_chain(
    stages: Costs,
    memory: int,
    tiers: Sequence[SlowTier],
    slots: int = SLOTS,
    goes_on: Callable[[int], bool] = lambda length: True,
) -> tuple[int, list[Step], int] | None:
    """Return the least time in ns, a schedule that takes it and the unit in bytes; None if nothing fits.

    Parameters
    ----------
    memory
        M in bytes.
    tiers
        1 .. K, those that keep for longer last.
    slots, goes_on
        As in `hetero.program`; slots of each tier, too.
    """
    solved = program(stages, memory, slots, goes_on)
    if solved is None:
        return None
    count = len(stages.forward)
    below = np.full((count, count), NEVER)
    for s in range(count):
        if solved.room(s) >= 0:
            below[s, s:] = [solved.time(s, t, solved.room(s)) for t in range(s, count)]
    ends = _ends_of_sweeps(stages, memory)
    clock = np.concatenate(([0], np.cumsum(stages.forward)))
    levels: list[_Level] = []
    for tier in tiers:
        level = _level(stages, tier, below, ends, clock, slots, goes_on)
        if level is None:
            return None
        levels.append(level)
        below = level.free[:, :, -1]
    cost = int(below[0, count - 1])
    return None if cost >= NEVER else (cost, _steps(solved, tiers, levels, ends, clock), solved.unit)


def _ends_of_sweeps(stages: Costs, memory: int) -> Integers:
    """Return by s and t the last j for which the forwards of stages s to j - 1 fit."""
    count = len(stages.forward)
    ends = np.zeros((count, count), np.int64)
    for s in range(count):
        for t in range(s, count):
            room, j = memory - stages.top[t], s
            while j < t and room >= (
                stages.inputs[s] + stages.need_first[s] if j == s else stages.need_next[j]
            ):
                j += 1
            ends[s, t] = j
    return ends


def _level(
    stages: Costs,
    tier: SlowTier,
    below: Integers,
    ends: Integers,
    clock: Integers,
    slots: int,
    goes_on: Callable[[int], bool],
) -> _Level | None:
    """Return the tables of one tier, None if the program was ended."""
    count = len(stages.forward)
    if tier.capacity is None:
        room, size = 0, np.zeros(count, np.int64)
    else:
        slots = min(slots, max(1, CELLS // (4 * count * count)))
        unit = unit_of(stages.inputs, tier.capacity, slots)
        size = slots_of(stages.inputs, unit)
        room = min(tier.capacity // unit, int(size.sum()))
    free, kept = (np.full((count, count, room + 1), NEVER) for _ in range(2))
    for length in range(count):
        if not goes_on(length + 1):
            return None
        for s in range(count - length):
            t = s + length
            best, end = np.full(room + 1, below[s, t]), int(ends[s, t])
            if end > s:
                again = clock[s + 1 : end + 1, None] - clock[s] + tier.read[s]
                best = np.minimum(best, (again + free[s + 1 : end + 1, t] + kept[s, s:end]).min(axis=0))
            kept[s, t], free[s, t] = best, below[s, t]
            if size[s] <= room:
                stored = tier.write[s] + best[: room + 1 - size[s]]
                free[s, t, size[s] :] = np.minimum(below[s, t], stored)
    return _Level(free=free, kept=kept, below=below, size=size)


def _steps(
    solved: HeteroProgram,
    tiers: Sequence[SlowTier],
    levels: Sequence[_Level],
    ends: Integers,
    clock: Integers,
) -> list[Step]:
    """Return a schedule that takes the time in the tables: the first choice that does, each time."""
    steps: list[Step] = []
    top = len(levels)
    # Whether the tier has the input, the tier, first and last stage, slots; or a step.
    todo: list[tuple[bool, int, int, int, int] | Step] = []

    def enter(k: int, s: int, t: int) -> None:
        todo.append((False, k, s, t, levels[k - 1].free.shape[2] - 1 if k else 0))

    enter(top, 0, len(solved.stages.forward) - 1)
    while todo:
        item = todo.pop()
        if isinstance(item, int) or len(item) == 3:
            steps.append(item)
            continue
        stored, k, s, t, m = item
        if not k:
            steps += schedule(solved, s, t, solved.room(s))
            continue
        level, tier = levels[k - 1], tiers[k - 1]
        best = (level.kept if stored else level.free)[s, t, m]
        if best == level.below[s, t]:
            enter(k - 1, s, t)
            continue
        if not stored:
            steps.append((k, s, True))
            todo.append((True, k, s, t, m - int(level.size[s])))
            continue
        for j in range(s + 1, int(ends[s, t]) + 1):
            again = clock[j] - clock[s] + tier.read[s]
            if best == again + level.free[j, t, m] + level.kept[s, j - 1, m]:
                steps += sweep(solved.stages, s, j)
                todo += [(True, k, s, j - 1, m), (k, s, False), (False, k, j, t, m)]
                break
    return steps
