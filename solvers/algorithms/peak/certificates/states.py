"""Certificates from exhaustive search over executed sets: every state within the limit, and its free op.

The same reductions as in `lowtide.solvers.algorithms.peak.beam`: equal sets are one state, and of the ops
that are cheap enough and do not increase the memory, the one that frees most is followed alone. What the
proof says is in `lowtide.models.proofs.states`.
"""

from __future__ import annotations

from collections.abc import Callable

from .....models.certificate import Level, StatesProof
from ..executed_sets import mask_of, members
from ..state_space import StateSpace

State = tuple[int, int, int]
"""Mask of the ops stepped over, memory, mask of the ops that may be next."""


def prove_by_states(
    space: StateSpace, bound: int, width: int, most: int, expired: Callable[[], bool]
) -> StatesProof | None:
    """Return the states that walks below a bound can reach; None if there are too many, or a whole walk.

    Parameters
    ----------
    space
        The states of a graph in one direction.
    bound
        Bytes.
    width
        Give up where a level has more states.
    most
        Give up after so many states.
    expired
        Asked now and then; give up when it holds.
    """
    steps = _Steps(space, bound)
    states: list[State] = [(0, space.start, mask_of([v for v, some in enumerate(space.before) if not some]))]
    parents, ops, levels, count = list[int](), list[int](), list[Level](), 0
    while states:
        count += len(states)
        if len(levels) == space.n or count > most:
            return None
        free, seen = list[int | None](), set[int]()
        following, next_parents, next_ops = list[State](), list[int](), list[int]()
        for index, state in enumerate(states):
            if index % 1024 == 0 and expired():
                return None
            only, followed = steps.choose(state)
            free.append(only)
            for v, memory in followed:
                mask = state[0] | 1 << v
                if mask not in seen:
                    seen.add(mask)
                    next_parents.append(index)
                    next_ops.append(v)
                    following.append((mask, memory, steps.ready_after(state, v)))
            if len(following) > width:
                return None
        levels.append(Level(parents=tuple(parents), ops=tuple(ops), free=tuple(free)))
        states, parents, ops = following, next_parents, next_ops
    return StatesProof(backward=space.backward, levels=tuple(levels))


class _Steps:
    """The steps of walks below a bound."""

    def __init__(self, space: StateSpace, bound: int) -> None:
        self.space, self.bound = space, bound
        self.before, self.after = [mask_of(some) for some in space.before], space.after
        masks = [mask_of(some) for some in space.groups]
        self.groups_of = [
            [(masks[g] ^ 1 << v, space.group_bytes[g]) for g in some]
            for v, some in enumerate(space.groups_of)
        ]

    def increase(self, v: int, gone: int) -> int:
        """Return the change of memory by the step over v, after those over `gone`."""
        change = self.space.increase[v]
        if self.space.backward:  # the first op of a group brings its bytes back
            for others, nbytes in self.groups_of[v]:
                if others & gone:
                    change -= nbytes
        else:
            for others, nbytes in self.groups_of[v]:
                if not others & ~gone:
                    change -= nbytes
        return change

    def choose(self, state: State) -> tuple[int | None, list[tuple[int, int]]]:
        """Return the free op, if there is one, and the ops followed, each with the memory after it."""
        mask, memory, ready = state
        extra, before = self.space.extra, self.space.extra_before
        least, only, followed = 1, None, list[tuple[int, int]]()
        for v in members(ready):
            increase = self.increase(v, mask)
            if memory + extra[v] + (0 if before else increase) >= self.bound:
                continue
            followed.append((v, memory + increase))
            if increase < least:
                least, only = increase, v
        return (None, followed) if only is None else (only, [(only, memory + least)])

    def ready_after(self, state: State, v: int) -> int:
        """Return the ops that may be next after the step over v."""
        mask, _, ready = state
        after = mask | 1 << v
        ready ^= 1 << v
        for w in self.after[v]:
            if not self.before[w] & ~after:
                ready |= 1 << w
        return ready
