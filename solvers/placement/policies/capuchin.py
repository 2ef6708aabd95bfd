"""`capuchin`: swap while it is hidden, then whatever costs less, tensor by tensor: a swap or runs again.

Source: Peng et al., Capuchin, ASPLOS 2020. Its text was not at hand: the model is that of published summaries
of it, and the updates of step 4 are those of public programs for the appendix of mu-TWO (Purandare et al.,
MLSys 2023), which restates the search.

Steps.

1. *Trace.* One iteration gives each tensor's accesses and their times. A candidate is a tensor that is read
   again later, beside an op at which not all fits, in its longest absence: between its *evicted access* and
   its *back access*. Candidates are chosen until, op by op, what is left fits.
2. *Free time* of a swap: FT = start of the swap-in - end of the swap-out, if the one ends with the back
   access and the other begins behind the evicted access. A direction of the link serves one copy at a time.
3. *Swap while hidden.* Candidates of FT >= 0 on the link as it is booked are swapped, the largest FT first.
   The *in-trigger* is the op in which the swap-in must start.
4. *Then both.* Recomputation saves MSPS = bytes / time (memory saving per second). The time of a candidate t
   is that of the runs from its *sources* on: what is there at its back access; candidates are, until they are
   chosen. When t is chosen:

   a. what was chosen before and has t as source has the sources of t instead, and the time of t on top;
   b. so has each candidate that has t as source; and its time counts again for each chosen one whose source
      it is itself;
   c. a source of t counts its time as often as t now runs: once, and once for each chosen one of (a).

   In each step the candidate of largest FT, with the time by which its copies are not hidden, is held against
   the one of largest MSPS, with its time: the smaller overhead is taken.
5. Recomputation runs on demand, right before the back access; what is made on the way and was chosen stays
   there for its own back access (*collective* recomputation); if that does not fit, it is made once more.
6. *Feedback*: while tensors come late, in-triggers move earlier.

Abstracted: times are those of the graph, nothing is measured. Inferred: overheads are compared per byte,
since the two tensors have different sizes; the feedback is a choice among triggers one, two and four copies
ahead. If with what was chosen the plan does not fit after all, since runs need room too, more is chosen by
step 4: 1, 2, 4, ... further candidates; and where runs read a swapped tensor in between, it leaves for the
longest part of its absence, or for all. The passive mode, which evicts where an allocation fails, are the
simulator's emergency evictions. Weights stay; what may not start on the device comes as early as is safe.
Where no op may run again, steps 1 to 3 and the swaps of 4 are left; where nothing can be copied, its runs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ....formulations.recompute.data import RecomputeData
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..rerunning.dropping import Droppable, droppable, is_dead, may_run_again, with_dropped
from ..simulator.problem import NEVER, SimulatedProblem
from ..world.channels import channel_back, channel_out
from .follow import Candidates
from .follow_again import NOWHERE, Laid, RerunTrial, absences_within, away_ns, follow_in_turn
from .loads import add_load, early_returns, forced_away, swap

AHEAD = (1, 2, 4)
"""Times of a copy that an in-trigger is ahead of the latest start of the swap-in, and one."""


def solve_capuchin(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow_in_turn(problem, context, _trials)


@dataclass
class Remade:
    """A candidate as recomputation sees it.

    Attributes
    ----------
    sources, ns
        What is there and is read, and the time of the runs.
    more_ns
        The time that it adds to that of chosen ones.
    """

    drop: Droppable
    size: int
    sources: set[int]
    ns: int
    more_ns: int = 0

    @property
    def overhead(self) -> float:
        """The ns per byte: the reciprocal of the MSPS."""
        return (self.ns + self.more_ns) / self.size


class SwapLink:
    """Both directions of the way to the nearest outer tier, as swaps are booked on them."""

    def __init__(self, case: SimulatedProblem) -> None:
        self.case, self.tier = case, case.outer[0]
        self.busy: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])

    def times(self, absence: int) -> tuple[int, int]:
        """Return when the swap-out ends at the earliest, and the swap-in starts at the latest (step 2)."""
        case, size = self.case, int(self.case.absence_size[absence])
        out, back = (case.transfer_ns(size, self.tier + side) for side in (-1, 1))
        end = int(case.clock[case.absence_first[absence] + 1]) + out
        for low, high in self.busy[0]:
            if end - out < high and low < end:
                end = high + out
        start = int(case.clock[case.absence_next[absence]]) - back
        for low, high in reversed(self.busy[1]):
            if start < high and low < start + back:
                start = low - back
        return end, start

    def book(self, absence: int) -> int:
        """Take the link for an absence's copies; return when the swap-in starts at the latest."""
        case, size = self.case, int(self.case.absence_size[absence])
        end, start = self.times(absence)
        insort(self.busy[0], (end - case.transfer_ns(size, channel_out(self.tier)), end))
        insort(self.busy[1], (start, start + case.transfer_ns(size, channel_back(self.tier))))
        return start


def free_ns(case: SimulatedProblem, absence: int) -> int:
    """Return the free time of an absence on an idle link."""
    end, start = SwapLink(case).times(absence)
    return start - end


@dataclass(frozen=True)
class EvictionChoice:
    """What is chosen, in order; so many of it are enough by the count of bytes."""

    swapped: list[int | None]
    remade: list[Droppable | None]
    enough: int


def choose(case: SimulatedProblem, data: RecomputeData | None) -> EvictionChoice:
    """Return the choices of steps 1 to 4, and by step 4 all that could be chosen beyond them."""
    over = case.live > case.memory
    pool = _candidates(case, over)
    remade = _remade(case, data, pool) if data is not None else {}
    may_copy = case.machine.tiers[case.outer[0]].name != NOWHERE
    load, link, again = case.live.copy(), SwapLink(case), list[Remade]()
    free = {g: free_ns(case, g) for g in pool}
    choice = EvictionChoice([], [], 0)
    enough = None

    def take(g: int, drop: Droppable | None) -> None:
        if drop is None:
            link.book(g)
        choice.swapped.append(g if drop is None else None)
        choice.remade.append(drop)
        add_load(case, load, g, int(case.absence_next[g]), -1)
        pool.remove(g)

    for g in sorted(pool, key=lambda g: (-free[g], g)) if may_copy else ():
        case.tick()
        if not _helpful(case, load > case.memory, [g]):
            continue
        end, start = link.times(g)
        if end <= start:
            take(g, None)
    while pool:
        case.tick()
        over = load > case.memory
        if enough is None and not over.any():
            enough = len(choice.swapped)
        some = _helpful(case, over, pool) or pool
        cheap = min((g for g in some if g in remade), key=lambda g: (remade[g].overhead, g), default=None)
        best = min(some, key=lambda g: (-free[g], g)) if may_copy else None
        if best is not None and cheap is not None:
            end, start = link.times(best)
            if max(end - start, 0) / int(case.absence_size[best]) <= remade[cheap].overhead:
                cheap = None
        if cheap is not None:
            chosen = remade.pop(cheap)
            take(cheap, chosen.drop)
            update(chosen, again, list(remade.values()))
        elif best is not None:
            remade.pop(best, None)
            take(best, None)
        else:
            break
    return EvictionChoice(choice.swapped, choice.remade, len(choice.swapped) if enough is None else enough)


def _candidates(case: SimulatedProblem, over: NDArray[np.bool_]) -> list[int]:
    """Return the longest absence of each tensor, if it lasts beside an op at which not all fits (step 1)."""
    longest: dict[int, int] = {}
    plain = ~case.persistent[case.absence_tensor] & (case.absence_first >= 0) & (case.absence_next < NEVER)
    for g in np.flatnonzero(plain).tolist():
        i = int(case.absence_tensor[g])
        if i not in longest or away_ns(case, g) > away_ns(case, longest[i]):
            longest[i] = g
    return _helpful(case, over, sorted(longest.values()))


def _helpful(case: SimulatedProblem, over: NDArray[np.bool_], named: Sequence[int]) -> list[int]:
    """Return those of some absences that last beside one of the ops at which not all fits."""
    first, after = (ends[np.array(named, np.int64)] for ends in (case.absence_first + 1, case.absence_next))
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(over, dtype=np.int64)))  # such ops, by op
    low, high = np.minimum(first, case.ops), np.minimum(after, case.ops)
    beside = before[high] - before[low] + before[np.maximum(after - case.ops, 0)]
    return [g for g, k in zip(named, beside.tolist(), strict=True) if k > 0]


def trigger(case: SimulatedProblem, absence: int, start: int, ahead: int = 0) -> int:
    """Return the op in which a swap-in starts, `ahead` copies before `start`; behind the evicted access."""
    first = int(case.absence_first[absence]) + 1
    early = ahead * case.transfer_ns(int(case.absence_size[absence]), case.outer[0] + 1)
    op = int(np.searchsorted(case.clock, start - early, side="right")) - 1
    return min(max(op, first), int(case.absence_next[absence]))


def _remade(case: SimulatedProblem, data: RecomputeData, pool: Sequence[int]) -> dict[int, Remade]:
    """Return by absence what recomputation knows of its tensor at first, if its writer may run again."""
    of = {(data.tensors[data.values[d.value].tensor][0], d.before, d.behind): d for d in droppable(data)}
    keys = {g: (_tensor(case, g), *_ends(case, g)) for g in pool}
    remade = {}
    for g, key in keys.items():
        if key in of:
            sources, runs = _sources(data, of[key])
            ns = sum(data.ns(data.duration[w]) for w in runs)
            remade[g] = Remade(of[key], int(case.absence_size[g]), sources, ns)
    return remade


def _tensor(case: SimulatedProblem, absence: int) -> int:
    return int(case.tensor[case.absence_tensor[absence]])


def _ends(case: SimulatedProblem, absence: int) -> tuple[int, int]:
    return int(case.absence_first[absence]), int(case.absence_next[absence])


def _sources(data: RecomputeData, drop: Droppable) -> tuple[set[int], set[int]]:
    """Return what is there and is read to make a value again, and the ops that run for it."""
    sources, runs, todo = set[int](), set[int](), [drop.value]
    while todo:
        w = data.values[todo.pop()].writer
        if w is None or w in runs:
            continue
        runs.add(w)
        for x in data.reads[w]:
            maker = data.values[x].writer
            dead = maker is not None and is_dead(data, x, drop.behind)
            if dead and maker is not None and may_run_again(data, maker, drop.behind):
                todo.append(x)
            else:
                sources.add(x)
    return sources, runs


def update(t: Remade, chosen: list[Remade], candidates: Sequence[Remade]) -> None:
    """Choose t: change sources and times (step 4)."""
    u, times = t.drop.value, 1
    for other in chosen:
        if u in other.sources:
            other.sources = (other.sources - {u}) | t.sources
            other.ns += t.ns
            times += 1
    chosen.append(t)
    for x in candidates:
        if u in x.sources:
            x.sources = (x.sources - {u}) | t.sources
            x.ns += t.ns
            x.more_ns = x.ns * sum(x.drop.value in other.sources for other in chosen)
        if x.drop.value in t.sources:
            x.more_ns = x.ns * times


def _trials(first: SimulatedProblem, data: RecomputeData | None) -> Iterator[RerunTrial]:
    """Yield sequences of what is enough by the count of bytes, then of more and more."""
    choice = choose(first, data)
    most, count, step = len(choice.swapped), choice.enough, 1
    while True:
        swapped = [g for g in choice.swapped[:count] if g is not None]
        dropped = [d for d in choice.remade[:count] if d is not None]
        decide = partial(_decide, spans=[(_tensor(first, g), *_ends(first, g)) for g in swapped])
        name = f"{len(swapped)} swapped, {len(dropped)} made again" if data is not None else ""
        tried = set[tuple[int, ...]]()
        for kept, how in (({d.value for d in dropped}, ""), (set[int](), ", for each op anew")):
            runs = tuple(range(first.ops))
            if data is not None and dropped:
                runs = tuple(with_dropped(data, dropped, again=range(data.n), kept=kept))
            if runs not in tried:
                tried.add(runs)
                yield RerunTrial(name=name + how, runs=runs, decide=decide)
        if count == most:
            return
        count, step = min(most, count + step), 2 * step


def _decide(laid: Laid, spans: Sequence[tuple[int, int, int]]) -> Candidates:
    """Yield the decisions by which tensors are swapped between their accesses (steps 3 and 6)."""
    case, forced = laid.case, forced_away(laid.case)
    parts = [absences_within(laid, spans), absences_within(laid, spans, every=True)]
    for part in parts[: 1 + (parts[0] != parts[1])]:
        chosen, link = np.array(part, dtype=np.int64), SwapLink(case)
        starts = [link.book(g) for g in part]
        away = np.unique(np.concatenate((forced, chosen)))
        least = case.absence_first + 1
        for ahead in AHEAD if part else AHEAD[:1]:
            least[chosen] = [trigger(case, g, x, ahead - 1) for g, x in zip(part, starts, strict=True)]
            op = early_returns(case, away, least)
            back = 2 * op
            back[chosen] = np.minimum(2 * op + 1, 2 * case.absence_next)[chosen]
            yield f"triggers {ahead} ahead" if ahead > 1 else "", swap(case, chosen, back)
