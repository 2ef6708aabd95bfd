"""Run the ops in the reference order; where memory is short evict values, and compute them again when needed.

An op that does not find what it reads waits until the writers of that have run again, and these likewise.
When a run does not fit, values are evicted that no waiting op reads: first the one with the least

    cost^a / (bytes^b * gap^c),

cost: the time of the ops that would have to run to have the value again, gap: the time of the ops in the
reference order until its next reader. a = b = c = 1 is the rule of dynamic tensor rematerialization (DTR),
with the time to the next use, which is known here, in place of that since the last one; a = 0 with
c > 0 evicts like Belady's rule.

`pruned` leaves out what need not run again after all. `search` multiplies the scores by a factor for each
value, and changes factors as long as the pruned schedule does not get longer.

Source: Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021), section 3; exponents, the time ahead,
the pruning and the search are ours.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from ....formulations.recompute.data import RecomputeData, fits, time_of

RULES = ((1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 0, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))
"""Exponents a, b, c of the rules that the first runs take in turn; later ones draw from them."""


class _EvictionPass:
    """One pass through the ops."""

    def __init__(
        self,
        data: RecomputeData,
        rule: Sequence[float],
        factors: Sequence[float],
        stop: Callable[[], bool],
    ) -> None:
        self.data, self.rule, self.factors, self.stop = data, rule, factors, stop
        values = data.values
        self.there = {u for u, x in enumerate(values) if x.at_start}
        self.level = sum(values[u].nbytes for u in self.there)
        self.clock = [0, *accumulate(data.duration)]
        self.now = 0
        """The op in the reference order that is wanted."""
        self.runs: list[int] = []

    def all(self) -> list[int] | None:
        """Return the ops as they run, None where nothing could be evicted."""
        data = self.data
        for self.now in range(data.n):
            if not self._have(self.now):
                return None
        self.now = data.n
        for u, x in enumerate(data.values):
            if x.final and u not in self.there and (x.writer is None or not self._have(x.writer)):
                return None
        return self.runs

    def _have(self, wanted: int) -> bool:
        """Run an op after all that it waits for."""
        data, values = self.data, self.data.values
        stack = [wanted]
        while stack:
            if self.stop():
                return False
            i = stack[-1]
            missing = next((u for u in data.reads[i] if u not in self.there), None)
            if missing is None:
                pinned = {u for j in stack[:-1] for u in data.reads[j] if u in self.there}
                if self.now == data.n:
                    pinned |= {u for u in self.there if values[u].final}
                if not self._run(i, pinned):
                    return False
                stack.pop()
                continue
            writer = values[missing].writer
            if writer is None or writer in stack or len(self.runs) > 20 * data.n:
                return False
            stack.append(writer)
        return True

    def _run(self, i: int, pinned: set[int]) -> bool:
        """Run an op that finds what it reads, after evictions; False if they do not suffice."""
        data, values = self.data, self.data.values
        reads, writes = set(data.reads[i]), set(data.writes[i])
        rivals = set(data.destroys[i])
        if rivals & pinned:
            return False
        if not data.in_place:
            pinned = pinned | reads
        clean = False
        while True:
            present = {values[u].tensor for u in self.there if u in writes or u in rivals}
            new = sum(values[u].nbytes for u in writes if values[u].tensor not in present)
            excess = self.level + new + data.workspace[i] - data.memory
            if excess <= 0:
                break
            if not clean:
                self._forget(pinned | writes | rivals)
                clean = True
                continue
            victim = self._victim(self.there - pinned - writes - rivals)
            if victim is None or self.stop():
                return False
            self.there.discard(victim)
            self.level -= values[victim].nbytes
        for u in rivals & self.there:
            self.there.discard(u)
            self.level -= values[u].nbytes
        for u in writes - self.there:
            self.there.add(u)
            self.level += values[u].nbytes
        self.runs.append(i)
        return True

    def _forget(self, pinned: set[int]) -> None:
        """Discard what no op can need any more, neither one to come nor one that can run again."""
        data = self.data
        recoverable = set(self.there)
        again = []
        for j in range(min(self.now + 1, data.n)):
            again.append(recoverable.issuperset(data.reads[j]))
            if again[j]:
                recoverable.update(data.writes[j])
        needed = {u for u, x in enumerate(data.values) if x.final}
        for j in range(data.n - 1, -1, -1):
            if j >= self.now or (again[j] and not needed.isdisjoint(data.writes[j])):
                needed.update(data.reads[j])
        for u in self.there - needed - pinned:
            self.level -= data.values[u].nbytes
        self.there &= needed | pinned

    def _victim(self, loose: set[int]) -> int | None:
        """Return the value that is evicted next."""
        best: tuple[float, int] | None = None
        a, b, c = self.rule
        for u in sorted(loose):
            nbytes = self.data.values[u].nbytes
            if not nbytes:
                continue
            cost = self._cost(u)
            if cost is None:
                continue
            score = a * math.log(cost) - b * math.log(nbytes) - c * math.log(self._gap(u))
            score += self.factors[u]
            if best is None or score < best[0]:
                best = score, u
        return None if best is None else best[1]

    def _gap(self, u: int) -> int:
        """Return the ticks until the next reader in the reference order."""
        x = self.data.values[u]
        k = bisect_left(x.readers, self.now) if self.now < self.data.n else len(x.readers)
        after = x.readers[k] if k < len(x.readers) else (self.data.n if x.final else 2 * self.data.n)
        if after >= len(self.clock):
            return 2 * self.clock[-1] + 1
        return self.clock[after] - self.clock[min(self.now, self.data.n)] + 1

    def _cost(self, u: int) -> int | None:
        """Return the ticks to have a value again, None if that cannot be."""
        data = self.data
        seen, stack, total = {u}, [u], 0
        again = set[int]()
        while stack:
            writer = data.values[stack.pop()].writer
            if writer is None:
                return None
            if writer not in again:
                again.add(writer)
                total += data.duration[writer]
                for v in data.reads[writer]:
                    if v not in self.there and v not in seen:
                        seen.add(v)
                        stack.append(v)
        return total


def evicting(
    data: RecomputeData,
    rule: Sequence[float],
    factors: Sequence[float] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[int] | None:
    """Return the ops as they run, or None if the rule finds no way, or `stop` holds before it has.

    Parameters
    ----------
    rule
        Exponents a, b, c.
    factors
        By value, the logarithm of a factor on its scores; None for none.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5))
    >>> evicting(data, (1, 1, 1))
    [0, 1, 2, 3, 4, 5, 6, 2, 7, 8, 0, 9, 10]
    """
    return _EvictionPass(data, rule, [0.0] * len(data.values) if factors is None else factors, stop).all()


def search(
    data: RecomputeData,
    *,
    seed: int,
    moves: int,
    offer: Callable[[list[int]], object],
    stop: Callable[[], bool],
) -> None:
    """Offer schedules of ever better factors until `stop`, or so many moves without a better one.

    A move changes the factors of one to four values, or the rule; it stays unless the pruned schedule takes
    longer.

    Parameters
    ----------
    seed
        Of the moves.
    moves
        Without a better schedule, after which it ends.
    offer
        Called with each schedule that is better than all before.
    """
    rng = random.Random(seed)
    movable = [u for u, x in enumerate(data.values) if x.nbytes and x.writer is not None]
    now: tuple[int, tuple[int, int, int], list[float]] | None = None
    best, stale, k = math.inf, 0, 0
    while movable and stale < moves and not stop():
        if k < len(RULES):
            rule, factors = RULES[k], [0.0] * len(data.values)
        elif now is None:
            rule, factors = rng.choice(RULES), [rng.gauss(0.0, 1.0) for _ in data.values]
        else:
            _, rule, last = now
            factors = list(last)
            if rng.random() < RULE_CHANGES:
                rule = rng.choice(RULES)
            for u in rng.sample(movable, min(rng.randint(1, 4), len(movable))):
                factors[u] = rng.gauss(0.0, 3.0)
        k += 1
        stale += 1
        runs = evicting(data, rule, factors, stop)
        if runs is None or not fits(data, runs):
            continue
        runs = pruned(data, runs, stop)
        time = time_of(data, runs)
        if now is None or time <= now[0]:
            now = time, rule, factors
        if time < best:
            best, stale = time, 0
            offer(runs)


RULE_CHANGES = 0.05
"""Share of the moves that change the rule."""


def pruned(data: RecomputeData, runs: Sequence[int], stop: Callable[[], bool] = lambda: False) -> list[int]:
    """Return the runs without those that can be left out, one by one, the longest first, until `stop`.

    The runs must fit.
    """
    kept, many = list(runs), [0] * data.n
    for i in kept:
        many[i] += 1
    shorter = True
    while shorter:
        shorter = False
        repeated = [k for k, i in enumerate(kept) if many[i] > 1]
        gone = set[int]()
        for k in sorted(repeated, key=lambda k: (-data.duration[kept[k]], k)):
            if stop():
                break
            rest = [i for j, i in enumerate(kept) if j != k and j not in gone]
            if many[kept[k]] > 1 and fits(data, rest):
                gone.add(k)
                many[kept[k]] -= 1
        shorter = bool(gone) and not stop()
        kept = [i for j, i in enumerate(kept) if j not in gone]
    return kept
