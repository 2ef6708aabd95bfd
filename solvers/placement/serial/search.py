"""Depth-first search for any plan of a placement: whole tensors, one op or copy after the other.

A state says which op is next and which tiers hold the current version of each tensor; content that nobody
needs any more is released at once. What is *wanted* next is that the operands of the next op are where its
processor may read them or, at the end of a period, that what outlives it is where it was at time 0. From a
state lead, in the order in which they are tried:

1. the run of the next op, if it fits, by the shortest of its modes first; under ``replace`` what it only
   reads is released at its start where nobody needs it any more and, if that is not enough, where there is
   another copy: of what is used furthest ahead or, with few operands, by any choice;
2. copies that bring what is wanted closer, by the way with the fewest hops;
3. releases of spare copies, then copies to other tiers, of what is used furthest ahead, from tiers that have
   no room for what is wanted there (Belady's choice, 1966);
4. every other copy and every other release of a spare copy.

No state is entered twice, and all that can be done one by one is tried in the end, so a small problem is
searched through. Where tensors start, if they may choose, is chosen first: by first use in the innermost or
the outermost tier with room, then in every combination, if there are few.

Any machine will do: several processors (one at a time), modes, operands read in place, any channels, joint
caps (a copy alone takes the least of its channel's rate and its groups'). Times add up: such a plan is a way
out where nothing faster was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations, product
from math import prod

from ....formulations.placement.bounds.releases import ideal_time
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from .emission import serial_emission
from .tables import NEVER, Execution, SerialMove, SerialTables, State, Where

MOST_STATES = 100_000
"""States that the depth-first search visits in all before it gives up without a plan."""
PER_START = 20_000
"""States that it visits from one choice of start tiers: at least five starts have their turn."""
MOST_STARTS = 5_000
"""Combinations that are tried where there are no more."""
SLICE = 64
"""States between two looks at the clock."""
FEW = 6
"""Copies to choose from of which every choice is tried."""


def solve_serial(problem: Placement, context: Context) -> Outcome:
    """Offer a plan, if one is found."""
    context.raise_bound(ideal_time(problem), kind="sum of durations")
    context.progress("one op or copy after the other")
    plan = serial_plan(problem, lambda: context.expired)
    if plan is None:
        why = "time" if context.expired else None
        return Outcome(reason=why, detail="serial: no plan of whole tensors, one op or copy after the other")
    context.offer(plan)
    return Outcome()


def serial_plan(problem: Placement, expired: Callable[[], bool] = lambda: False) -> Plan | None:
    """Return a plan; None if none was found among so many states, or in time.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Placement(lt.load("gen:chain?n=5&seed=1"), lt.load_machine("a100-40g-pcie3"))
    >>> problem.judge(serial_plan(problem)).violations
    ()
    """
    search = _SerialSearch(problem, expired)
    left = MOST_STATES
    for start in search.starts():
        if left <= 0 or expired():
            break
        path, count = search.explore(start, min(left, PER_START))
        left -= count
        if path is not None:
            return serial_emission(search, start, path)
    return None


class _SerialSearch(SerialTables):
    """The search."""

    def __init__(self, problem: Placement, expired: Callable[[], bool]) -> None:
        super().__init__(problem)
        self.expired = expired

    # -- starts --------------------------------------------------------------------------------

    def starts(self) -> Iterator[Where]:
        """Yield where tensors are at time 0, the most promising first, none that does not fit."""
        seen = set()
        choices = [self._choices(t) for t in range(len(self.size))]
        everything = product(*choices) if prod(map(len, choices)) <= MOST_STARTS else ()
        for start in (*self._greedy(choices), *everything):
            if start is not None and start not in seen and self._fits(self._used(start)):
                seen.add(start)
                yield start

    def _choices(self, t: int) -> list[int]:
        """Return the sets of tiers where a tensor may be at time 0, as bits, single ones first."""
        tensor = self.graph.tensors[t]
        if not tensor.initial or not (self.lasting[t] or self.needed(t, 0)):
            return [0]
        allowed = [self.names.index(x) for x in self.problem.may_start(str(tensor.kind))]
        bits = sum(1 << x for x in allowed)
        some = [x for x in range(1, bits + 1) if x & ~bits == 0]
        return sorted(some, key=lambda x: (x.bit_count(), x))

    def _greedy(self, choices: Sequence[Sequence[int]]) -> Iterator[Where | None]:
        first = [some[0][0] if some else NEVER for some in self.accesses]
        order = sorted((t for t, some in enumerate(choices) if some[0]), key=lambda t: (first[t], t))
        least = max(self._alone(k) for k in range(len(self.graph.ops)))
        for outwards in (False, True):
            for reserve in (self._alone(0, new=True), least):
                where, room = [0] * len(self.size), list(self.capacity)
                room[0] -= reserve
                for t in order:
                    single = [x.bit_length() - 1 for x in choices[t] if x.bit_count() == 1]
                    single = single[::-1] if outwards else single
                    tier = next((x for x in single if self.size[t] <= room[x]), single[0])
                    where[t] = 1 << tier
                    room[tier] -= self.size[t]
                yield tuple(where)

    def _alone(self, k: int, new: bool = False) -> int:
        """Return the bytes that op k needs by itself; without its reads, if only what is new counts."""
        op = self.graph.ops[k]
        some = {*op.writes} - {*op.reads} if new else {*op.reads, *op.writes}
        return op.least_workspace + sum(self.size[t] for t in some)

    # -- states --------------------------------------------------------------------------------

    def _used(self, where: Sequence[int]) -> tuple[int, ...]:
        used = [0] * len(self.names)
        for nbytes, bits in zip(self.size, where, strict=True):
            for x in range(len(used)):
                if bits >> x & 1:
                    used[x] += nbytes
        return tuple(used)

    def _fits(self, used: Sequence[int]) -> bool:
        return all(u <= c for u, c in zip(used, self.capacity, strict=True))

    def _cleared(self, k: int, where: Where, some: Sequence[int]) -> Where:
        """Return where everything is without content among some tensors that nobody needs."""
        gone = [t for t in some if where[t] and not self.needed(t, k)]
        if not gone:
            return where
        left = list(where)
        for t in gone:
            left[t] = 0
        return tuple(left)

    def _with(self, state: State, t: int, bits: int) -> State:
        """Return a state with other tiers for a tensor."""
        change, used = bits ^ state.where[t], list(state.used)
        for x in range(len(used)):
            if change >> x & 1:
                used[x] += self.size[t] if bits >> x & 1 else -self.size[t]
        return State(state.k, (*state.where[:t], bits, *state.where[t + 1 :]), tuple(used))

    # -- the search ----------------------------------------------------------------------------

    def explore(self, start: Where, most: int) -> tuple[list[SerialMove] | None, int]:
        """Search from a start; return the steps to the end, or None, and how many states were seen."""
        where = self._cleared(0, start, range(len(start)))
        first = State(0, where, self._used(where))
        seen = {(0, where)}
        path: list[SerialMove] = []
        stack = [self._steps(first, start)]
        if self._is_end(first, start):
            return path, 1
        while stack:
            if len(seen) % SLICE == 0 and self.expired():
                break
            step, state = next(stack[-1], (None, None))
            if step is None or state is None:
                stack.pop()
                if path:
                    path.pop()
                continue
            if (state.k, state.where) in seen:
                continue
            seen.add((state.k, state.where))
            path.append(step)
            if self._is_end(state, start):
                return path, len(seen)
            if len(seen) >= most:
                break
            stack.append(self._steps(state, start))
        return None, len(seen)

    def _is_end(self, state: State, start: Where) -> bool:
        if state.k < len(self.graph.ops):
            return False
        pairs = zip(state.where, start, self.lasting, strict=True)
        return all(bits & home == home for bits, home, kept in pairs if kept)

    def _steps(self, state: State, start: Where) -> Iterator[tuple[SerialMove, State]]:
        """Yield what may be done, the most promising first."""
        k = state.k
        at_end = k == len(self.graph.ops)
        ways = [] if at_end else self.ways[k]
        for way in ways:
            yield from self._run(state, way)
        if at_end:
            some = [t for t, kept in enumerate(self.lasting) if kept and start[t] & ~state.where[t]]
            wanted = [(t, 1 << x) for t in some for x in range(len(self.names)) if start[t] >> x & 1]
            here = dict[int, int](enumerate(start))
            beside = [0] * len(self.names)
        elif ways:
            wanted, here = list(ways[0].reads), dict(ways[0].reads)
            op = self.graph.ops[k]
            beside = [0] * len(self.names)
            beside[ways[0].home] += op.all_modes[ways[0].mode].workspace
            for t, x in ways[0].writes:
                beside[x] += 0 if state.where[t] >> x & 1 else self.size[t]
        else:
            return
        missing = [(t, mask) for t, mask in wanted if not state.where[t] & mask]
        for t, mask in missing:
            yield from self._fetch(state, t, mask)
        for t, mask in missing:
            tier = (mask & -mask).bit_length() - 1
            beside[tier] += self.size[t]
        for tier in range(len(self.names)):
            if state.used[tier] + beside[tier] > self.capacity[tier]:
                yield from self._evict(state, tier, here)
        yield from self._all(state)

    def _run(self, state: State, run: Execution) -> Iterator[tuple[SerialMove, State]]:
        """Yield the run of the next op, if it may run now; under ``replace`` with what is released then."""
        if any(not state.where[t] & mask for t, mask in run.reads):
            return
        op, k = self.graph.ops[state.k], state.k + 1
        read = [t for t in op.reads if t not in op.writes] if self.replace else []
        before = self._cleared(k, state.where, read)
        where, used = list(before), list(self._used(before) if before is not state.where else state.used)
        for t, x in run.writes:
            for y in range(len(used)):
                used[y] -= self.size[t] * (where[t] >> y & 1)
            where[t] = 1 << x
            used[x] += self.size[t]
        used[run.home] += op.all_modes[run.mode].workspace
        for dropped in self._drops(k, where, used, read):
            left = list(where)
            for t, x in dropped:
                left[t] &= ~(1 << x)
            after = self._cleared(k, tuple(left), [*op.reads, *op.writes])
            yield SerialMove(run=run, dropped=dropped), State(k, after, self._used(after))

    def _drops(
        self, k: int, where: Sequence[int], used: Sequence[int], read: Sequence[int]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield spare copies of what was read whose release makes all fit: none if that is enough."""
        if self._fits(used):
            yield ()
            return
        over = [x for x in range(len(used)) if used[x] > self.capacity[x]]
        spare = [(t, x) for t in read for x in over if where[t] >> x & 1 and self.size[t]]
        spare.sort(key=lambda some: (-self.next_use(some[0], k), some))
        few = range(1, len(spare) + 1) if len(spare) <= FEW else ()
        prefixes = (tuple(spare[:many]) for many in range(1, len(spare) + 1))
        for dropped in chain(prefixes, *(combinations(spare, many) for many in few)):
            less = list(used)
            for t, x in dropped:
                less[x] -= self.size[t]
            gone = [(t, sum(1 << y for s, y in dropped if s == t)) for t, _ in dropped]
            if self._fits(less) and all(where[t] & ~bits for t, bits in gone):
                yield dropped

    def _fetch(self, state: State, t: int, mask: int) -> Iterator[tuple[SerialMove, State]]:
        """Yield copies that bring a tensor closer to one of the tiers of a mask."""
        copies = []
        for src, dst in self.links:
            if self._may_copy(state, t, src, dst):
                hops = min(self.hops[dst][x] for x in range(len(self.names)) if mask >> x & 1)
                copies.append((hops, src, dst))
        for hops, src, dst in sorted(copies):
            if hops < NEVER:
                yield SerialMove(copied=(t, src, dst)), self._with(state, t, state.where[t] | 1 << dst)

    def _evict(self, state: State, tier: int, here: dict[int, int]) -> Iterator[tuple[SerialMove, State]]:
        """Yield ways to empty a tier of what need not be there now."""
        victims = [
            t
            for t, bits in enumerate(state.where)
            if bits >> tier & 1 and self.size[t] and not here.get(t, 0) >> tier & 1
        ]
        victims.sort(key=lambda t: (-self.next_use(t, state.k), t))
        for t in victims:
            if state.where[t] & ~(1 << tier):
                yield SerialMove(released=(t, tier)), self._with(state, t, state.where[t] & ~(1 << tier))
        read = [t for t in here if self.replace and state.k < len(self.graph.ops)]  # that go at its start
        for t in victims + sorted(read, key=lambda t: (-self.next_use(t, state.k + 1), t)):
            for src, dst in self.links:
                if src == tier and self._may_copy(state, t, src, dst):
                    yield SerialMove(copied=(t, src, dst)), self._with(state, t, state.where[t] | 1 << dst)

    def _all(self, state: State) -> Iterator[tuple[SerialMove, State]]:
        """Yield every copy, and every release of a spare copy."""
        for t, bits in enumerate(state.where):
            if not bits:
                continue
            for tier in range(len(self.names)):
                if bits >> tier & 1 and bits & ~(1 << tier):
                    yield SerialMove(released=(t, tier)), self._with(state, t, bits & ~(1 << tier))
            for src, dst in self.links:
                if self._may_copy(state, t, src, dst):
                    yield SerialMove(copied=(t, src, dst)), self._with(state, t, bits | 1 << dst)

    def _may_copy(self, state: State, t: int, src: int, dst: int) -> bool:
        """Return whether a tensor can be copied to a tier where it is not, and there is room for it."""
        bits = state.where[t]
        if not bits >> src & 1 or bits >> dst & 1:
            return False
        return state.used[dst] + self.size[t] <= self.capacity[dst]
