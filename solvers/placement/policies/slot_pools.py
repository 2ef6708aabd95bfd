"""SwapAdvisor's memory: pools of slots of one size each, and its swap planner on them.

A *memory plan* maps every distinct size of tensors to its own or a larger one, the class, whose pool the
tensors go to, and gives each class a number of slots. The planner runs through the ops without times. A
tensor that an op misses takes a free slot of its pool; if there is none, that of the tensor there, not the
op's, whose next access is furthest, cyclically. In a period it does so twice: from an empty device, and from
the weights that are there at the end. A victim leaves right behind its last access; what takes its slot may
come from then on, since nobody uses the slot in between. The dead leave slots free. Zero bytes need no slot;
workspace has a region of its own, of the most that an op needs. Of very many distinct sizes (`MOST_SIZES`)
some stand for others, which are rounded up to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....formulations.model import Tick
from ....models.arrays import Integers
from ..simulator.problem import NEVER, SimulatedProblem
from .belady import absence_at

Genome = tuple[tuple[int, ...], tuple[int, ...]]
"""By size, its class, and by class, its slots; both number the distinct sizes, ascending."""

MOST_SIZES, MOST_COUNTS = 256, 2 * 10**7
"""Distinct sizes that are told apart at most; and so many that they, op by op, are no more counts."""


class Sizes:
    """The distinct sizes of a problem, and how many tensors of each there are, op by op.

    Parameters
    ----------
    case
        Of the policy.
    most
        Sizes that are told apart.

    Attributes
    ----------
    sizes
        Bytes, ascending, without 0.
    of
        Per tensor, the number of its size; -1 without bytes.
    room
        Bytes for slots.
    needed, live
        Per size and op: tensors that the op accesses; tensors that exist.
    """

    def __init__(self, case: SimulatedProblem, most: int = MOST_SIZES) -> None:
        n = case.ops
        distinct = np.unique(case.size[case.size > 0])
        step = -(-len(distinct) // max(1, min(most, MOST_COUNTS // n))) or 1
        self.sizes: Integers = distinct[::-1][::step][::-1]
        self.of = np.where(case.size > 0, np.searchsorted(self.sizes, case.size), -1)
        self.room = case.memory - int(case.workspace.max(initial=0))
        self.needed, self.live = np.zeros((2, len(self.sizes), n), dtype=np.int64)
        for i, uses in enumerate(case.accesses):
            if self.of[i] < 0:
                continue
            self.needed[self.of[i], [k for k, _ in uses]] += 1
            low = 0 if case.starts[i] & 1 else uses[0][0]
            high = n if case.graph.tensors[int(case.tensor[i])].final else uses[-1][0] + 1
            self.live[self.of[i], low:high] += 1

    def tightest(self, tick: Tick) -> list[int]:
        """Return the classes that need the fewest bytes, of all by which sizes in a row share the largest.

        By dynamic programming: the cheapest classes of the sizes up to one, over where its own class begins.
        """
        cheapest, begins = [0], [0]
        for last, nbytes in enumerate(self.sizes.tolist()):
            tick()
            together = np.zeros(self.needed.shape[1], dtype=np.int64)
            options = []
            for first in range(last, -1, -1):
                together += self.needed[first]
                options.append((cheapest[first] + nbytes * int(together.max(initial=0)), first))
            least, begin = min(options)
            cheapest.append(least)
            begins.append(begin)
        classes: list[int] = []
        while len(classes) < len(self.sizes):
            last = len(self.sizes) - len(classes)
            classes += [last - 1] * (last - begins[last])
        return classes[::-1]

    def repaired(self, classes: Sequence[int], slots: Sequence[int]) -> Genome | None:
        """Return the nearest memory plan that fits and serves every op; None if these classes have none.

        A class has at least the slots that some op needs, at most what ever exists at once. Slots that do not
        fit go where they are most bytes; room that is left goes to where slots lack most bytes.
        """
        into = np.zeros((len(self.sizes), len(self.sizes)), dtype=np.int64)
        into[np.asarray(classes, dtype=np.int64), np.arange(len(self.sizes))] = 1
        least, most = (into @ self.needed).max(axis=1), (into @ self.live).max(axis=1)
        most = np.maximum(least, most)
        count = np.clip(np.asarray(slots), least, most)
        for c in np.argsort(-(count - least) * self.sizes, kind="stable"):
            excess = int(count @ self.sizes) - self.room
            if excess > 0:
                count[c] -= min(int(count[c] - least[c]), -(-excess // int(self.sizes[c])))
        left = self.room - int(count @ self.sizes)
        if left < 0:
            return None
        for c in np.argsort(-(most - count) * self.sizes, kind="stable"):
            more = min(int(most[c] - count[c]), left // int(self.sizes[c]))
            count[c] += more
            left -= more * int(self.sizes[c])
        return tuple(map(int, classes)), tuple(count.tolist())


@dataclass(eq=False)
class Slot:
    """A slot: the tensor in it, -1 if there is none, and the op from which on nobody else uses it."""

    owner: int = -1
    since: int = 0


class Planner:
    """The swap planner on one memory plan.

    Attributes
    ----------
    victims
        By absence in which a tensor is away, the op for which it makes room.
    returns
        By absence, the op from which on its tensor may return.
    """

    def __init__(self, case: SimulatedProblem, sizes: Sizes, genome: Genome) -> None:
        classes, slots = genome
        self.case = case
        self.pool_of = [classes[x] if x >= 0 else -1 for x in sizes.of.tolist()]
        self.slots = slots
        self.by_tensor: dict[int, list[int]] = {}
        self.ending: dict[tuple[int, int], int] = {}
        for g, (i, after) in enumerate(
            zip(case.absence_tensor.tolist(), case.absence_next.tolist(), strict=True)
        ):
            self.by_tensor.setdefault(i, []).append(g)
            if after < NEVER:
                self.ending[i, after % case.ops] = g
        self.uses = [[k for k, _ in some] for some in case.accesses]
        self.accessed: list[list[int]] = [[] for _ in range(case.ops)]
        for i, some in enumerate(self.uses):
            for k in some:
                if self.pool_of[i] >= 0:
                    self.accessed[k].append(i)
        there = [i for i in np.flatnonzero(case.starts & 1).tolist() if self.pool_of[i] >= 0]
        there.sort(key=lambda i: (self.uses[i][0], i))
        end = self.run(there)
        if case.problem.periodic:
            kept = [i for i in there if i in end or not case.persistent[i]]
            self.run(kept)
            for i in {*there} - {*kept}:
                for g in self.by_tensor[i]:
                    if case.ops <= case.absence_next[g] < NEVER:
                        self.victims.setdefault(g, int(case.absence_first[g]) + 1)

    def run(self, there: Sequence[int]) -> set[int]:
        """Run through the ops, some tensors at first on the device; return who is there at the end."""
        case, n = self.case, self.case.ops
        self.victims: dict[int, int] = {}
        self.returns: dict[int, int] = {}
        self.pools = [[Slot() for _ in range(count)] for count in self.slots]
        self.where: dict[int, Slot] = {}
        self.place = [0] * len(self.uses)
        for i in there:
            free = next((slot for slot in self.pools[self.pool_of[i]] if slot.owner < 0), None)
            if free is not None:
                self.where[i], free.owner = free, i
            elif (g := absence_at(case, self.by_tensor.get(i, []), 0)) is not None:
                self.victims[g[0]] = g[1]
        for k in range(n):
            case.tick()
            for i in self.accessed[k]:
                if i not in self.where:
                    self.admit(i, k)
            for i in self.accessed[k]:
                if self.uses[i][-1] == k and not case.graph.tensors[int(case.tensor[i])].final:
                    slot = self.where.pop(i)
                    slot.owner, slot.since = -1, k + 1
        return set(self.where)

    def admit(self, i: int, k: int) -> None:
        """Give a tensor that op k misses a slot."""
        case = self.case
        pool = self.pools[self.pool_of[i]]
        slot = min((slot for slot in pool if slot.owner < 0), key=lambda slot: slot.since, default=None)
        if slot is None:
            others = [x for x in pool if k not in self.uses[x.owner]]
            slot = max(others, key=lambda x: (self.next_use(x.owner, k), -x.owner))
            victim = slot.owner
            del self.where[victim]
            if (absence := absence_at(case, self.by_tensor.get(victim, []), k)) is not None:
                g, op = absence
                self.victims[g] = max(op, self.victims.get(g, 0))
            slot.since = max((u for u in self.uses[victim] if u < k), default=-1) + 1
        if (i, k) in self.ending:
            g = self.ending[i, k]
            begin = slot.since + case.ops * (case.ops <= case.absence_next[g])
            self.returns[g] = max(int(case.absence_first[g]) + 1, int(begin))
        slot.owner, self.where[i] = i, slot

    def next_use(self, i: int, k: int) -> int:
        """Return a tensor's next use behind op k, counted on over iterations."""
        uses = self.uses[i]
        while self.place[i] < len(uses) and uses[self.place[i]] < k:
            self.place[i] += 1
        if self.place[i] < len(uses):
            return uses[self.place[i]]
        periodic = self.case.problem.periodic and self.case.persistent[i]
        return uses[0] + self.case.ops if periodic else NEVER
