r"""Method `states`: best-first search over what has run, what is out of the memory and what the storage has.

Whole files, see `lowtide.formulations.minio.data`. A state is a set D of executed ops, a set A of files that
exist and are out of the memory, and a set S of files that are not clean and that the storage has. Running a
ready op reads its files in A, and evicts, if there is no room, files that wait: sets of them that are enough,
of which no part is. The search takes the state with the least sum of what it moved and of a bound on the rest
(A*).

*No optimum is lost.* A file that is read before an op needs it might as well be read for the op; one that is
evicted before there is no room, then. Of a set with a part that is enough, the rest might as well be evicted
later. So evictions and reads at runs alone suffice. If only writes count, what is in S, and what is clean,
costs nothing any more, so that it always waits outside.

*Bound on the rest.* Let :math:`P_v` be the least memory of graph G of `peaks` while op v runs, and
:math:`H_v` that of H (one minimum cut each). Some op v that has not run yet will run with :math:`P_v - M`
bytes of files that G counts in the storage, of which the bytes of S were written before: the rest is still to
be written. And it leaves :math:`H_v - M` bytes to read again of files that H counts, at least those that are
in A now and are used again; what A has besides of files that begin in the storage is read, too.

.. math:: h = \max(0, \max_v P_v - M - |S|) + \max(|A_H|, \max_v H_v - M) + |A \setminus A_H|,

the last two terms if reads count. States with the same D, A and S are kept once, with the fewest bytes.

Source: P. E. Hart, N. J. Nilsson, B. Raphael, IEEE Transactions on Systems Science and Cybernetics 4, 1968;
the states are those of Hong and Kung's pebbles (STOC 1981), each op run once.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from ...formulations.minio.data import GraphData
from ...models.errors import UsageError
from ...models.problems.minio import Eviction, MinIO, Traversal
from ..context import Context, Outcome
from ..peak.bounds.least_memory import LeastMemory
from ..peak.search.executed_sets import mask_of, members
from ..peak.search.state_space import state_space
from .models import offer_greedy
from .peaks import counted_graphs, raise_by_cuts
from .rules import values_of

MOST_STATES = 3_000_000
"""Largest number of states that one search keeps; about 400 bytes each."""

SLICE = 256
"""States, or sets of files, between two looks at the clock: about 5 milliseconds."""

KIND = "states"
"""The kind of the bound."""


class PebbleState(NamedTuple):
    """D, A and S, as sets of bits."""

    done: int
    away: int
    saved: int


def refusal(problem: MinIO) -> str:
    """Return why the search does not solve a problem: files are divisible, and larger than their unit."""
    if problem.whole or max((x.nbytes for x in problem.graph.tensors), default=0) <= 1:
        return ""
    return "found divisible tensors, expected whole ones, or none of more than a byte"


def solve_states(problem: MinIO, context: Context) -> Outcome:
    """Search until the first complete state, which is optimal, or the time or memory is up.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:layered?layers=4&width=3&seed=2")
    >>> lt.solve(lt.MinIO(graph, memory=50, whole=True), "states").objective
    12
    """
    if words := refusal(problem):
        raise UsageError(f"method states, graph {problem.graph.name!r}: {words}")
    data = values_of(problem, context)
    offer_greedy(data, context)
    raise_by_cuts(data, context)
    return _Search(data, context).run()


class _Search:
    """The numbers as bit sets, and the states."""

    def __init__(self, data: GraphData, context: Context) -> None:
        self.data, self.context = data, context
        self.all = (1 << data.n) - 1
        self.before = [mask_of(some) for some in data.before]
        self.inputs, self.made = [mask_of(x) for x in data.inputs], [mask_of(x) for x in data.files_of]
        self.users = [mask_of(some) for some in data.users]
        self.clean = mask_of([k for k, clean in enumerate(data.clean) if clean])
        self.kept = mask_of([k for k, kept in enumerate(data.kept) if kept])
        self.away_first = mask_of([k for k, u in enumerate(data.maker) if u < 0 and data.clean[k]])
        self.cuts = [self._cuts_of(number) for number in range(1 + data.traffic)]

    def _cuts_of(self, number: int) -> list[tuple[int, int]]:
        """Return P - M, or H - M, above 0, and the op of each, largest first."""
        space = state_space(counted_graphs(self.data)[number])
        least, cuts = LeastMemory(space), []
        for v in range(space.n):
            if self.context.expired:
                break
            memory, _ = least.minimum(space.before[v], [v], expired=lambda: self.context.expired)
            if (excess := memory + space.extra[v] - self.data.memory) > 0:
                cuts.append((excess, v))
        return sorted(cuts, reverse=True)

    def bytes_of(self, files: int) -> int:
        """Return the bytes of a set of files."""
        total = 0
        while files:
            low = files & -files
            total += self.data.size[low.bit_length() - 1]
            files ^= low
        return total

    def bound(self, state: PebbleState) -> int:
        """Return h."""
        most = [next((x for x, v in cuts if not state.done >> v & 1), 0) for cuts in self.cuts]
        rest = max(0, most[0] - self.bytes_of(state.saved))
        if self.data.traffic:
            again = self._used_again(state.away, state.done)
            rest += max(self.bytes_of(again & ~self.away_first), most[1]) + self.bytes_of(
                again & self.away_first
            )
        return rest

    def _used_again(self, files: int, done: int) -> int:
        again = 0
        for k in members(files):
            again |= (self.users[k] & ~done != 0) << k
        return again

    def run(self) -> Outcome:
        """Search."""
        context, data = self.context, self.data
        fixed = data.fixed - data.first_reads
        start = PebbleState(0, self.away_first, 0)
        moved: dict[PebbleState, int] = {start: fixed}
        origin: dict[PebbleState, tuple[PebbleState, int, int]] = {}
        heap = [(fixed + self.bound(start), 0, 0, start)]
        number = 0
        while heap:
            total, _, _, state = heappop(heap)
            cost = moved[state]
            if number % SLICE == 0:
                if context.closed or context.expired:
                    return Outcome(reason=None if context.closed else "time", detail=f"{len(moved):,} states")
                if len(moved) > MOST_STATES:
                    return Outcome(reason="memory", detail=f"{len(moved):,} states, as many as are kept")
            number += 1
            if total > cost + self.bound(state):
                continue
            context.raise_bound(total, kind=KIND)
            if context.closed:
                return Outcome()
            if state.done == self.all:
                context.offer(self._traversal(state, origin))
                return Outcome(detail=f"{len(moved):,} states")
            for op, evicted, after, step in self._steps(state):
                if cost + step < moved.get(after, cost + step + 1):
                    moved[after], origin[after] = cost + step, (state, op, evicted)
                    f = cost + step + self.bound(after)
                    if context.incumbent is None or f < context.incumbent:
                        heappush(heap, (f, -after.done.bit_count(), len(moved), after))
        if context.incumbent is not None:
            context.raise_bound(context.incumbent, kind=KIND)
        return Outcome(detail=f"{len(moved):,} states")

    def _steps(self, state: PebbleState) -> Iterator[tuple[int, int, PebbleState, int]]:
        """Yield op, files evicted, state and bytes moved of each run."""
        data, done = self.data, state.done
        live = 0
        for k, u in enumerate(data.maker):
            if (u < 0 or done >> u & 1) and (self.users[k] & ~done or self.kept >> k & 1):
                live |= 1 << k
        for op in range(data.n):
            if done >> op & 1 or self.before[op] & ~done:
                continue
            inputs, now = self.inputs[op], done | 1 << op
            read = self.bytes_of(inputs & state.away) if data.traffic else 0
            waiting = live & ~state.away & ~inputs
            d = self.bytes_of(waiting) + data.need[op] - data.memory
            for evicted in self._enough(waiting, d):
                new = evicted & ~state.saved & ~self.clean
                saved, away = state.saved | new, (state.away & ~inputs) | evicted
                gone = 0
                for k in members(inputs):
                    if not self.users[k] & ~now and not self.kept >> k & 1:
                        gone |= 1 << k
                if not data.traffic:
                    away |= (live | self.made[op]) & (saved | self.clean) & ~inputs | inputs & (
                        saved | self.clean
                    )
                away &= ~gone
                yield op, evicted, PebbleState(now, away, saved & ~gone), read + self.bytes_of(new)

    def _enough(self, waiting: int, d: int) -> Iterator[int]:
        """Yield the sets of files that wait of at least d bytes of which no file can be left out."""
        if d <= 0:
            yield 0
            return
        files = sorted(members(waiting), key=lambda k: -self.data.size[k])
        sizes = [self.data.size[k] for k in files]
        below = [0] * (len(files) + 1)
        for j in range(len(files) - 1, -1, -1):
            below[j] = below[j + 1] + sizes[j]
        stack = [(0, 0, d)]
        count = 0
        while stack:
            j, chosen, missing = stack.pop()
            count += 1
            if count % SLICE == 0 and self.context.expired:
                return
            if missing <= 0:
                yield chosen
            elif below[j] >= missing:
                stack.append((j + 1, chosen, missing))
                stack.append((j + 1, chosen | 1 << files[j], missing - sizes[j]))

    def _traversal(
        self, state: PebbleState, origin: dict[PebbleState, tuple[PebbleState, int, int]]
    ) -> Traversal:
        """Return the traversal that leads to a state."""
        runs = []
        while state in origin:
            before, op, evicted = origin[state]
            runs.append((before, op, evicted, state))
            state = before
        runs.reverse()
        evictions = []
        for step, (before, op, evicted, after) in enumerate(runs):
            listed = [(step, evicted)]
            if not self.data.traffic and step + 1 < len(runs):
                listed.append((step + 1, after.away & ~(before.away & ~self.inputs[op] | evicted)))
            for at, files in listed:
                evictions += [Eviction(at, self.data.tensor[k], self.data.size[k]) for k in members(files)]
        return Traversal(tuple(op for _, op, _, _ in runs), tuple(evictions))
