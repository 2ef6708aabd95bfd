"""What an item may do at a point of AutoTM's model: its steps, from the tiers with a copy to others.

Where an item has valid copies between two points is a *state*, a set of tiers (as bits: 1 the first tier, 2
the second, 4 the third). A *step* goes from the state in front of a point to the one behind it:

1. before the op, copies *inward*, to a tier nearer to the processor, one after another; they keep what they
   read. Then copies in limited tiers may be dropped.
2. the op, which uses the innermost copy in a tier that it accesses. If it writes the item, that copy is the
   only valid one from the op's start, and the others are freed there.
3. behind the op, copies *outward*, each of which leaves the tier that it reads; then copies may be dropped,
   in limited tiers, but not the last one.

Beside an op that leaves the item alone there is one copy at most, inward or outward, and drops behind it.

A tier is *limited* if dropping a copy there can be of use: the first one, and those of which the capacity is
below the bytes of all tensors. With two tiers, the second one unlimited, the states are AutoTM's: 1 is its A
(in the fast memory only), 3 its B (with a valid copy), 2 its P (in the slow memory only).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache

Hop = tuple[int, int]
"""Tiers from and to which a copy goes."""


class Role(IntEnum):
    """What happens to an item at a point; at the last three ones an op leaves it alone beside its copies.

    DROPPED: what was there at time 0, and nobody needs, leaves as the first op starts.
    """

    START = 0
    MADE = 1
    USED = 2
    UPDATED = 3
    END = 4
    DROPPED = 5
    PASSED = 6
    PASSED_INWARD = 7
    PASSED_OUTWARD = 8

    @property
    def accessed(self) -> bool:
        """Whether the op of the point accesses the item."""
        return self in (Role.MADE, Role.USED, Role.UPDATED)

    @property
    def passed(self) -> bool:
        """Whether the op of the point leaves the item alone."""
        return self >= Role.PASSED


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A way through a point.

    Attributes
    ----------
    src, dst
        States in front of the point and behind it; 0: the item is not there yet, or no longer needed.
    use
        The tier from which the op takes it; -1 if the op leaves it alone.
    before, beside, behind
        Copies, in their order.
    rooms
        Tiers where it has room while copies come before the op, while it runs, while copies go behind it.
    """

    src: int
    dst: int
    use: int = -1
    before: tuple[Hop, ...] = ()
    beside: tuple[Hop, ...] = ()
    behind: tuple[Hop, ...] = ()
    rooms: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class TransitionData:
    """What steps depend on.

    Attributes
    ----------
    tiers
        Number of tiers.
    hops
        The copies that channels make.
    access
        Tiers that ops access, the first one among them.
    limited
        Tiers where dropping a copy can be of use, as bits.
    moving
        Whether there are copies at all.
    replace
        Whether what an op only reads makes room for what it writes at its start.
    """

    tiers: int
    hops: frozenset[Hop]
    access: tuple[int, ...]
    limited: int
    moving: bool
    replace: bool

    @cache  # noqa: B019, a few small values per process
    def steps(self, role: Role, *, last: bool = False, pinned: bool = False) -> tuple[Transition, ...]:
        """Return the steps at a point: the last one of all, or of an item pinned to the first tier.

        Examples
        --------
        >>> two = frozenset({(0, 1), (1, 0)})
        >>> ways = TransitionData(tiers=2, hops=two, access=(0,), limited=1, moving=True, replace=False)
        >>> [(step.src, step.dst) for step in ways.steps(Role.USED)]
        [(1, 1), (1, 2), (2, 2), (2, 3), (3, 2), (3, 3)]
        """
        if pinned:
            return replace(self, tiers=1, hops=frozenset(), access=(0,), moving=False).steps(role, last=last)
        states = range(1, 1 << self.tiers)
        if role is Role.START:
            transitions = [Transition(src=0, dst=1 << tier) for tier in range(self.tiers)]
        elif role is Role.END:
            transitions = [Transition(src=state, dst=0) for state in states]
        elif role is Role.MADE:
            olds = [0, *(1 << tier for tier in range(self.tiers))]  # of a content that it replaces
            new = [
                Transition(src=old, dst=0, use=use, rooms=(old, 0, 0)) for old in olds for use in self.access
            ]
            transitions = [s for step in new for s in self._behind(step, 1 << step.use, last)]
        elif role is Role.DROPPED:
            transitions = [Transition(src=state, dst=0, rooms=(state, 0, 0)) for state in states]
        elif role.passed:
            transitions = [step for state in states for step in self._passing(role, state)]
        else:
            transitions = [step for state in states for step in self._accessing(role, state, last)]
        return tuple(_best(transitions))

    def _accessing(self, role: Role, state: int, last: bool) -> Iterator[Transition]:
        for hops, held, room in self._inward(state):
            use = next((tier for tier in self.access if held >> tier & 1), None)
            if use is not None:
                during = held if role is Role.USED else 1 << use
                step = Transition(src=state, dst=0, use=use, before=hops, rooms=(room, 0, 0))
                yield from self._behind(step, during, last, reads=role is Role.USED)

    def _inward(self, state: int) -> Iterator[tuple[tuple[Hop, ...], int, int]]:
        """Yield what may come before an op: copies, the state after them, and where there was room."""
        yield (), state, state
        waiting: list[tuple[tuple[Hop, ...], int]] = [((), state)] if self.moving else []
        while waiting:
            hops, held = waiting.pop()
            for i, j in sorted(self.hops):
                if j < i and held >> i & 1 and not held >> j & 1:
                    more, reached = (*hops, (i, j)), held | 1 << j
                    waiting.append((more, reached))
                    yield from ((more, kept, reached) for kept in self._drops(reached) if kept >> j & 1)

    def _behind(
        self, step: Transition, during: int, last: bool, *, reads: bool = False
    ) -> Iterator[Transition]:
        """Yield the step with what may come behind the op."""
        first, early = step.rooms[0], self.replace and reads  # makes room at the start of the op
        if last:
            yield replace(step, rooms=(first, 0 if early else during, 0))
            return
        if not self.moving:
            yield replace(step, dst=during, rooms=(first, during, during))
            return
        for dst in self._drops(during):
            yield replace(step, dst=dst, rooms=(first, dst if early else during, dst))
        waiting: list[tuple[tuple[Hop, ...], int, int]] = [((), during, during)]
        while waiting:
            hops, held, room = waiting.pop()
            for i, j in sorted(self.hops):
                if j > i and held >> i & 1 and not held >> j & 1:
                    more, after = (*hops, (i, j)), held & ~(1 << i) | 1 << j
                    waiting.append((more, after, room | after))
                    for dst in self._drops(after):
                        yield replace(step, dst=dst, behind=more, rooms=(first, during, room | after))

    def _passing(self, role: Role, state: int) -> Iterator[Transition]:
        """Yield the steps beside an op that leaves the item alone."""
        if not self.moving:
            yield Transition(src=state, dst=state, rooms=(state, state, state))
            return
        for dst in self._drops(state):
            yield Transition(src=state, dst=dst, rooms=(state, state, dst))
        for i, j in sorted(self.hops):
            other = Role.PASSED_OUTWARD if j < i else Role.PASSED_INWARD
            if role is other or not state >> i & 1 or state >> j & 1:
                continue
            after = (state if j < i else state & ~(1 << i)) | 1 << j
            for dst in self._drops(after):
                if dst >> j & 1:
                    yield Transition(src=state, dst=dst, beside=((i, j),), rooms=(state, state | 1 << j, dst))

    def _drops(self, state: int) -> list[int]:
        """Return the states that dropping copies in limited tiers makes of one, itself the first."""
        some = state & self.limited
        parts = [part for part in range(some + 1) if part & ~some == 0 and part != state]
        return [state & ~part for part in parts]


def _order(step: Transition) -> tuple[object, ...]:
    return step.src, step.dst, step.use, step.before, step.beside, step.behind, step.rooms


def _best(steps: list[Transition]) -> Iterator[Transition]:
    """Yield the steps that no other one with the same ends and use beats."""
    some = sorted(set(steps), key=_order)
    for step in some:
        rivals = [r for r in some if _order(r)[:3] == _order(step)[:3] and r != step and _beats(r, step)]
        if not any(not _beats(step, rival) or _order(rival) < _order(step) for rival in rivals):
            yield step


def _beats(one: Transition, other: Transition) -> bool:
    """Return whether a step makes no copies and takes no rooms that another one does not."""
    copies = all(
        not Counter(mine) - Counter(its)
        for mine, its in ((one.before, other.before), (one.beside, other.beside), (one.behind, other.behind))
    )
    return copies and all(not mine & ~its for mine, its in zip(one.rooms, other.rooms, strict=True))
