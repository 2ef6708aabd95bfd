"""The passes of `beam` in plain Python: no compiled library to load, so the first to try.

The sets of a step are in the order of their discovery: of the set they come from, then of the op. A set
that is met again with a lower peak takes the place of that step where places decide (among equals).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .passes import MEMORY, BeamPass, gives_up
from .state_space import StateSpace

Ready = dict[int, int]
"""The ops that may be next, each with its increase."""

State = tuple[int, int, int, bytearray, list[int], Ready]
"""Memory now, peak so far, set as a mask, set as flags, ops left per group, what may be next."""

Record = Callable[[Any, Any, Any], None]
"""Takes, as sequences, the sets of a level that was followed: of each its parent in the level before and the
op stepped over (of the first level neither), and the only op that was followed from it, -1 if all were."""

Step = tuple[int, int, int, int, int]
"""Memory after, peak, index of the state, op, set as a mask: sorts as the docstring of `beam` says."""


def _follow_all(
    space: StateSpace, states: Sequence[State], limit: int, cut_off: list[int]
) -> tuple[list[Step], list[int]]:
    """Return the best step to each next set, and by state the op that runs at once."""
    best: dict[int, Step] = {}
    free = list[int]()
    for index, state in enumerate(states):
        only, steps = _follow(space, state, index, limit, cut_off)
        free.append(only)
        for step in steps:
            if step[4] not in best or step[1] < best[step[4]][1]:
                best[step[4]] = step
    return list(best.values()), free


def plain_pass(
    space: StateSpace,
    limit: int,
    width: int,
    expired: Callable[[], bool],
    *,
    exhaustive: bool,
    most: int | None,
    nbytes: int = MEMORY,
    record: Record | None = None,
) -> BeamPass:
    """Return what `beam_pass` describes; the space must have ops. `record` is called level by level."""
    ready = {v: space.increase[v] for v, some in enumerate(space.before) if not some}
    first: State = (space.start, 0, 0, bytearray(space.n), [len(ops) for ops in space.groups], ready)
    states, trail = [first], list[list[tuple[int, int]]]()
    cut_off: list[int] = []
    dropped, looked_at = False, 0
    for step in range(1, space.n + 1):
        looked_at += sum(len(state[5]) for state in states)
        if expired() or gives_up(looked_at, step, space.n, most):
            return BeamPass(gave_up=step)
        steps, free = _follow_all(space, states, limit, cut_off)
        if record is not None:
            before = trail[-1] if trail else []
            record([index for index, _ in before], [v for _, v in before], free)
        if len(cut_off) > 1:
            cut_off = [min(cut_off)]
        if len(steps) > width:
            if exhaustive:
                return BeamPass(gave_up=step)
            dropped = True
            steps = sorted(steps)[:width]
        if not steps:
            return BeamPass(bound=None if dropped else cut_off[0])
        if len(steps) * 2 * space.n > nbytes:
            return BeamPass(gave_up=step, out_of_memory=True)
        # the next step looks at no fewer: on wide graphs its sets are too large to be made in vain
        coming = sum(len(states[way[2]][5]) - 1 for way in steps)
        if most is not None and step < space.n and looked_at + coming > most:
            return BeamPass(gave_up=step + 1)
        states = [_after(space, states[way[2]], way) for way in steps]
        trail.append([(way[2], way[3]) for way in steps])
    walk, index = list[int](), 0
    for records in reversed(trail):
        index, v = records[index]
        walk.append(v)
    return BeamPass(order=space.order(walk[::-1]))


def _follow(
    space: StateSpace, state: State, index: int, limit: int, cut_off: list[int]
) -> tuple[int, list[Step]]:
    """Return the op that frees most with its step, or -1 with all steps within the limit."""
    now, peak, mask, _, _, ready = state
    extra, before = space.extra, space.extra_before
    free: Step | None = None
    least = None
    steps: list[Step] = []
    for v in sorted(ready):
        after = now + ready[v]
        cost = extra[v] + (now if before else after)
        if cost <= limit:
            step = (after, cost if cost > peak else peak, index, v, mask | 1 << v)
            steps.append(step)
            if after <= now and (free is None or after < free[0]):
                free = step
        elif least is None or cost < least:
            least = cost
    if free is not None:
        return free[3], [free]
    if least is not None:
        cut_off.append(least)
    return -1, steps


def _after(space: StateSpace, state: State, step: Step) -> State:
    """Return the state after a step."""
    memory, peak, _, v, mask = step
    _, _, _, flags, left, ready = state
    flags, ready = bytearray(flags), ready.copy()
    flags[v] = 1
    del ready[v]
    if space.groups_of[v]:
        left = left.copy()
        for g in space.groups_of[v]:
            left[g] -= 1
            if left[g] == (len(space.groups[g]) - 1 if space.backward else 1):
                for u in space.groups[g]:
                    if u in ready:
                        ready[u] -= space.group_bytes[g]
    for w in space.after[v]:
        if all(flags[u] for u in space.before[w]):
            ready[w] = space.increase[w] - sum(
                space.group_bytes[g]
                for g in space.groups_of[w]
                if (left[g] < len(space.groups[g]) if space.backward else left[g] == 1)
            )
    return memory, peak, mask, flags, left, ready
