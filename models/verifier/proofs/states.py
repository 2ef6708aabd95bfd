"""Checks proofs by states: a set of executed sets that no walk below the bound can leave.

A walk steps forward from nothing, or backward from everything; its states are counted in levels, by the
number of steps. *Claim:* no walk whose steps all cost less than the bound gets to the end. The proof
lists, level by level, states (a parent in the level before, and the op stepped over) such that

1. the first level is where walks begin;
2. of each listed state, either every op that may be next costs at least the bound or leads to a listed
   state of the next level; or one op that may be next, its *free op*, does not increase the memory and leads
   to a listed state;
3. no level lists the last state.

*Why it suffices.* By (2), if a walk below the bound leads from a listed state to the end, then one leads from
a listed state of the next level. That is plain for an op that is followed. For a free op v of X, let X, X_1,
X_2, … be the states of the walk: the states X + v, X_1 + v, X_2 + v, … are a walk too (v steps that v
precedes remain possible; where the walk itself steps over v nothing happens). Each has at most the
memory of its twin, as the increase of v only falls while others are stepped over (M is submodular); a
step costs a constant of its op plus the memory before or after it, hence at most as much as its twin.
Levels grow with each step, and (3) says that the last one is never reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...graph import Graph
from ...written import Written
from .executed import Executed, executed_sets, masks, members
from .refused import Refused, op_and_name, require_op


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLevel(Written):
    """The states after the same number of steps.

    Attributes
    ----------
    parents, ops
        Per state: the state of the level before (by its place there) and the op stepped over. Both are
        empty for the first level, which has the one state where walks begin.
    free
        Per state: the op that is the only one followed, or None if all within the limit are.
    """

    parents: tuple[int, ...]
    ops: tuple[int, ...]
    free: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesProof(Written):
    """Executed sets, level by level, that no walk within the limit leaves."""

    kind: ClassVar[str] = "states"
    backward: bool
    levels: tuple[SetLevel, ...]


State = tuple[int, int, int]
"""Mask of the ops stepped over, memory, mask of the ops that may be next."""


def check_states(graph: Graph, bound: int, proof: StatesProof) -> int:
    """Return the number of states, if they prove that no order stays below `bound` bytes.

    Raises
    ------
    Refused
        With the state and the step that leads out of the list, or that the list may not have.
    """
    sets, levels = executed_sets(graph), proof.levels
    walk = _StateWalk(graph, sets, backward=proof.backward, bound=bound)
    if not sets.n or not levels or levels[0].parents or levels[0].ops or len(levels[0].free) != 1:
        raise Refused("level 0: expected one state, where walks of a graph with ops begin, and no step to it")
    states, count = [walk.first()], 0
    for number, level in enumerate(levels):
        following = levels[number + 1] if number + 1 < len(levels) else SetLevel(parents=(), ops=(), free=())
        successors = walk.listed(number + 1, states, following)
        if number + 1 >= sets.n and successors:
            raise Refused(f"level {number + 1}, state 0: found the end of the walk, expected it nowhere")
        walk.check_closed(number, states, level.free, {mask for mask, _, _ in successors})
        count += len(states)
        states = successors
    return count


class _StateWalk:
    """Steps in one direction, below a bound."""

    def __init__(self, graph: Graph, sets: Executed, *, backward: bool, bound: int) -> None:
        self.graph, self.sets, self.backward, self.bound = graph, sets, backward, bound
        masked = masks(sets)
        self.needs, self.needed = (masked.after, sets.before) if backward else (masked.before, sets.after)
        self.extra_before = sets.adds_extra_before(backward)
        self.change = [-x for x in sets.gain] if backward else list(sets.gain)
        self.groups_of = [
            tuple((masked.groups[g] & ~(1 << v), sets.group_bytes[g]) for g in numbers)
            for v, numbers in enumerate(masked.groups_of)
        ]

    def first(self) -> State:
        """(1)."""
        memory = self.sets.memory(set(range(self.sets.n))) if self.backward else self.sets.start
        return 0, memory, sum(1 << v for v, some in enumerate(self.needs) if not some)

    def increase(self, v: int, gone: int) -> int:
        """Return the change of memory by the step over v, after those over `gone`."""
        change = self.change[v]
        if self.backward:
            for others, nbytes in self.groups_of[v]:
                if not others & gone:
                    change += nbytes
        else:
            for others, nbytes in self.groups_of[v]:
                if not others & ~gone:
                    change -= nbytes
        return change

    def listed(self, number: int, states: list[State], level: SetLevel) -> list[State]:
        """Return the states of a level, made from those of the level before."""
        if not len(level.parents) == len(level.ops) == len(level.free):
            raise Refused(f"level {number}: expected as many parents as ops and free ops")
        listed: list[State] = []
        needs, needed, n = self.needs, self.needed, self.sets.n
        for parent, v in zip(level.parents, level.ops, strict=True):
            if not 0 <= parent < len(states):
                raise Refused(
                    f"level {number}, state {len(listed)}: found parent {parent}, "
                    f"expected an index in [0, {len(states)})"
                )
            mask, memory, ready = states[parent]
            if not 0 <= v < n or not ready >> v & 1:
                where = f"level {number}, state {len(listed)}"
                op = op_and_name(self.graph, require_op(self.graph, v, where))
                raise Refused(f"{where}: found a step over {op}, expected one that may be next")
            step = 1 << v
            after = mask | step
            ready ^= step
            for w in needed[v]:
                if not needs[w] & ~after:
                    ready |= 1 << w
            listed.append((after, memory + self.increase(v, mask), ready))
        return listed

    def check_closed(
        self, number: int, states: list[State], free: tuple[int | None, ...], successors: set[int]
    ) -> None:
        """(2)."""
        extra, before, bound = self.sets.extra, self.extra_before, self.bound
        for index, ((mask, memory, ready), v) in enumerate(zip(states, free, strict=True)):
            if v is not None:
                self._check_free(number, index, states[index], v, successors)
                continue
            for w in members(ready):
                if mask | 1 << w in successors:
                    continue
                cost = memory + extra[w] + (0 if before else self.increase(w, mask))
                if cost < bound:
                    raise Refused(
                        f"level {number}, state {index}: found a step over {op_and_name(self.graph, w)} that "
                        f"costs {cost} bytes to a state that is not listed, expected at least {bound}"
                    )

    def _check_free(self, number: int, index: int, state: State, v: int, successors: set[int]) -> None:
        mask = state[0]
        where = f"level {number}, state {index}"
        op = op_and_name(self.graph, require_op(self.graph, v, where))
        if mask | 1 << v not in successors:  # only sets closed under precedence are listed
            raise Refused(f"{where}: found the free {op}, expected one that leads to a listed state")
        if (increase := self.increase(v, mask)) > 0:
            raise Refused(f"{where}: found the free {op} with increase {increase}, expected at most 0")
