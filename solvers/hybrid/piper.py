r"""Stages by a dynamic program over ideals of the layers, from the last to the first; exact.

(Tarnawski, Narayanan and Phanishayee, Piper, NeurIPS 2021.) An ideal J is a set of layers that has with
each those before it. Stages in order are the differences of a chain of ideals, and each chain gives stages.
The published table has for each ideal, number of devices k and sum s of replicas the least time of a
sample. Here, for a time T in ns, :math:`F_T(J)` are the pairs (s, k) such that all layers outside J are in
stages that take at most T, with s replicas on k devices in all: (0, 0) where J has all layers, and

.. math:: (s + d, k + t d) \in F_T(J) \quad\text{if}\quad (s, k) \in F_T(I),\ I \supset J,\
          W^{td}_y(I \setminus J) \le T d,\ y = \lceil (s + d) / d \rceil,

where :math:`W^{td}_y(S)` is the least work on d groups of t devices with y micro-batches under way: a
knapsack over the modes of S (`knapsack`). Of F only pairs count that no other beats in both: with fewer
replicas behind them stages hold no more, and with fewer devices more are left. T is possible if F of the
empty ideal has a pair within the devices and the micro-batches. The least T is bisected: a possible one
gives stages, the answer; one that is not proves that all answers take T + 1 at least.

A pair is dropped that leaves fewer devices than :math:`\sum_{i \in J} \min_{t, m} t p_m / T`: a stage on d t
devices does work of at most T d, so the layers of J need so many.

`solve_piper` chooses modes as the published program does, by price up to the first choice that fits, which
proves no bound. With more than ``most`` ideals only the beginnings of the reference order are looked at: no
bound, either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...formulations.hybrid.data import Degree, HybridData, LayerMode, hybrid_data
from ...models.problems.hybrid import Hybrid
from ...models.split import Split
from ..context import Context, Outcome
from .bounds import least_work, raise_bound
from .knapsack import Ints, ModeChoice, Swaps, exact

EXACT = 2**52
"""Sums of times and of bytes are below it, so that doubles have them exactly."""


LARGEST, LINE, BLOCK = 2**27, 2**25, 2**22
"""Ideals times layers and arcs, chosen by hand: of all ideals, at most (a program has a byte for each ideal
and layer); of the beginnings of the reference order that are looked at, which are some at equal distances
where there are more; and of what is summed between two looks at the clock."""


class _Expired(Exception):
    """The time is up."""


@dataclass(frozen=True, slots=True)
class _PiperState:
    """Stages of all layers outside an ideal: its first stage, and the state behind it."""

    replicas: int
    devices: int
    ideal: int
    d: int = 0
    t: int = 0
    choice: ModeChoice | None = None
    behind: _PiperState | None = None


def solve_ideals(problem: Hybrid, context: Context) -> Outcome:
    """Offer the best stages, with a proof if there are not too many ideals."""
    return _solve(problem, context, proves=True)


def solve_piper(problem: Hybrid, context: Context) -> Outcome:
    """Offer the best stages whose modes are chosen by price."""
    return _solve(problem, context, proves=False)


def _solve(problem: Hybrid, context: Context, *, proves: bool) -> Outcome:
    data = hybrid_data(problem)
    if words := _too_large(problem, data):
        return Outcome(detail=words)
    if least_work(data) is None:
        return Outcome(infeasible=True, detail="a layer has no mode on groups of so few devices")
    raise_bound(problem, context)
    size = data.n + len(data.arcs)
    most = min(context.options["most"], LARGEST // size)
    try:
        cuts = min(data.n, 1 + LINE // size)
        line = [(1 << k * data.n // cuts) - 1 for k in range(cuts + 1)]
        _search(_Program(problem, data, line, context, exact=proves), proves=False)
        ideals = ideals_of(data.before, most, context)
        facts = {"ideals": len(ideals or line)}
        if ideals is None:
            words = f"more than {most} ideals; these are stages along the reference order"
            return Outcome(detail=words if context.answer else words.split(";")[0])
        if not _search(_Program(problem, data, ideals, context, exact=proves), proves=proves):
            words = "no stages on these devices are valid"
            return Outcome(infeasible=proves, detail=words if proves else "no modes were found", facts=facts)
    except _Expired:
        return Outcome(reason="time")
    return Outcome(facts=facts)


def ideals_of(before: Sequence[int], most: int, context: Context) -> list[int] | None:
    """Return all ideals as bit masks, smaller ones first; None if there are more than `most`.

    Examples
    --------
    >>> from lowtide.solvers.context import Context
    >>> from lowtide.solvers.hybrid.piper import ideals_of
    >>> ideals_of([0, 0, 1], 9, Context(problem=None))
    [0, 1, 2, 3, 5, 7]
    """
    ideals, level = [0], [0]
    while level:
        larger: set[int] = set()
        for mask in level:
            if context.expired:
                raise _Expired
            larger.update(
                mask | 1 << i for i, need in enumerate(before) if not mask >> i & 1 and not need & ~mask
            )
            if len(ideals) + len(larger) > most:
                return None
        level = sorted(larger)
        ideals += level
    return ideals


def _search(program: _Program, *, proves: bool) -> bool:
    """Bisect the time, offering each better answer; return whether there is any."""
    context = program.context
    low = context.bound or 1
    high = context.incumbent
    step = low
    while high is None:
        found = program.stages(low + step)
        if found is not None:
            high = context.offer(found)
        elif low + step >= program.longest:
            return False
        else:
            low = low + step + 1
            step *= 2
            if proves:
                context.raise_bound(low, kind="ideals")
    while low < high:
        middle = (low + high - 1) // 2
        found = program.stages(middle)
        if found is not None:
            high = context.offer(found)
        else:
            low = middle + 1
            if proves:
                context.raise_bound(low, kind="ideals")
    if proves:
        context.raise_bound(high, kind="ideals")
    return True


def _too_large(problem: Hybrid, data: HybridData) -> str:
    """Return why the numbers are too large, if they are."""
    most = min(problem.micro, problem.processors)
    work = held = 0
    for degree in data.degrees.values():
        rows = [x for row in degree.modes for x in row]
        work += sum(x.time for x in rows) + sum(degree.made + degree.read)
        work += sum(degree.exchanged[max(degree.exchanged)])
        held += sum(most * x.each + x.once for x in rows)
    if max(work, held) >= EXACT:
        return "times or bytes of all modes add up to 2**52 or more"
    # times are multiplied by replicas and by devices; the bisection looks at less than four times the longest
    if work * problem.processors >= 2**60:
        return "times of all modes, multiplied by the devices, are 2**60 or more"
    return ""


@dataclass(frozen=True, slots=True)
class _Degree:
    """Sums over ideals for groups of one size.

    Attributes
    ----------
    lacking, fastest, exchanged
        By ideal: layers without a mode, ns of all fastest modes; by number of replicas of the exchange.
    made, read
        By ideal: ns of the arcs that leave it, for their makers and for their readers.
    both
        By arc: ns for its maker and its reader.
    """

    lacking: Ints
    fastest: Ints
    exchanged: dict[int, Ints]
    made: Ints
    read: Ints
    both: Ints


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Swaps of all layers for one y, and by ideal the bytes of its layers' smallest modes."""

    swaps: Swaps
    least: Ints


class _Program:
    """The program on some ideals, smaller ones first, that the last one contains.

    Attributes
    ----------
    nested
        Whether each ideal contains the one before.
    longest
        No stage takes longer in any modes.
    """

    def __init__(
        self, problem: Hybrid, data: HybridData, ideals: Sequence[int], context: Context, *, exact: bool
    ) -> None:
        self.problem, self.data, self.context, self.exact = problem, data, context, exact
        self.room = EXACT if problem.memory is None else problem.memory
        self.tails = np.array([u for u, _ in data.arcs], dtype=np.int64)
        self.heads = np.array([v for _, v in data.arcs], dtype=np.int64)
        self.inside = np.empty((len(ideals), data.n), dtype=bool)
        for rows in self._blocks():
            packed = b"".join(mask.to_bytes(data.n // 8 + 1, "little") for mask in ideals[rows])
            bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), bitorder="little")
            self.inside[rows] = bits.reshape(-1, data.n // 8 * 8 + 8)[:, : data.n]
        self.nested = all(
            bool((self.inside[rows][:-1] <= self.inside[rows][1:]).all()) for rows in self._blocks(1)
        )
        self.work = self._sums(least_work(data) or ())
        self.degrees = {t: self._degree(degree) for t, degree in data.degrees.items()}
        self.sizes: dict[tuple[int, int], _Sizes] = {}
        self.chosen: dict[tuple[int, int, int, int], ModeChoice | None] = {}
        slowest = [
            -(-(sum(max((x.time for x in row), default=0) for row in degree.modes) + sum(some)) // d)
            + -(-sum(degree.made + degree.read) // d)
            for degree in data.degrees.values()
            for d, some in degree.exchanged.items()
        ]
        self.longest = max(slowest)

    def _degree(self, degree: Degree) -> _Degree:
        """Return the sums over all ideals for groups of one size."""
        made, read = (np.array(some, dtype=np.int64) for some in (degree.made, degree.read))
        cut = np.empty((len(self.inside), 2), dtype=np.int64)
        for rows in self._blocks():
            here = self.inside[rows]
            cut[rows] = (here[:, self.tails] & ~here[:, self.heads]) @ np.stack([made, read], axis=1)
        return _Degree(
            lacking=self._sums([not row for row in degree.modes]),
            fastest=self._sums([min((x.time for x in row), default=0) for row in degree.modes]),
            exchanged={d: self._sums(some) for d, some in degree.exchanged.items()},
            made=cut[:, 0],
            read=cut[:, 1],
            both=made + read,
        )

    def _blocks(self, more: int = 0) -> Iterator[slice]:
        """Yield the ideals in blocks, each with the first ones of the next, while there is time."""
        each = 1 + BLOCK // (self.data.n + len(self.data.arcs))
        for first in range(0, len(self.inside), each):
            if self.context.expired:
                raise _Expired
            yield slice(first, first + each + more)

    def _sums(self, weights: Sequence[int] | Ints) -> Ints:
        """Return by ideal the sum of its layers' weights."""
        some = np.array(weights, dtype=np.int64)
        return np.concatenate([self.inside[rows] @ some for rows in self._blocks()])

    def stages(self, most: int) -> Split | None:
        """Return stages that take at most so many ns; None if there are none."""
        count = len(self.inside)
        fronts: list[list[_PiperState]] = [[] for _ in range(count)]
        fronts[-1] = [_PiperState(0, 0, count - 1)]
        fewest = np.full(count, -1, dtype=np.int64)  # replicas behind an ideal; -1: there are no stages
        fewest[-1] = 0
        left = self.problem.processors - -(-self.work // most)
        for j in range(count - 2, -1, -1):
            if self.context.expired:
                raise _Expired
            larger = np.flatnonzero(fewest[j + 1 :] >= 0) + j + 1
            if not self.nested:
                own = np.flatnonzero(self.inside[j])
                larger = larger[self.inside[larger[:, None], own].all(axis=1)]
            for t, degree in self.degrees.items():
                inner = larger[degree.lacking[larger] == degree.lacking[j]]
                crossing = self._crossing(degree, j, inner)
                fastest = degree.fastest[inner] - degree.fastest[j]
                for d, exchanged in degree.exchanged.items():
                    budget = most * d - crossing - (exchanged[inner] - exchanged[j])
                    near = np.flatnonzero(fastest <= budget)
                    under_way = -(-(fewest[inner[near]] + d) // d)
                    near = near[self._fit(j, inner[near], t, under_way)]
                    for i, within in zip(inner[near].tolist(), budget[near].tolist(), strict=True):
                        self._extend(fronts, (j, i, t), d, within, int(left[j]))
            fewest[j] = min((x.replicas for x in fronts[j]), default=-1)
        if not fronts[0]:
            return None
        return self._split(min(fronts[0], key=lambda state: (state.devices, state.replicas)))

    def _crossing(self, degree: _Degree, j: int, inner: Ints) -> Ints:
        r"""Return the ns of arcs that cross the ends of stages from ideal j to each of some larger ideals I.

        Arcs from J to the stage take their reader's time, those from it beyond I their maker's. The first
        are those that leave J less those from J beyond I, the second those that leave I less the same.
        """
        leaving = np.flatnonzero(self.inside[j][self.tails] & ~self.inside[j][self.heads])
        beyond = ~self.inside[inner[:, None], self.heads[leaving]] @ degree.both[leaving]
        return np.asarray(degree.read[j] + degree.made[inner] - beyond)

    def _fit(self, j: int, inner: Ints, t: int, under_way: Ints) -> NDArray[np.bool_]:
        """Return whether stages to larger ideals fit in their smallest modes with so many micro-batches."""
        held = np.zeros(len(inner), dtype=np.int64)
        for y in np.unique(under_way).tolist():
            least, here = self._sizes(t, y).least, under_way == y
            held[here] = least[inner[here]] - least[j]
        return np.asarray(held <= self.room)

    def _extend(
        self, fronts: list[list[_PiperState]], stage: tuple[int, int, int], d: int, budget: int, left: int
    ) -> None:
        """Add to an ideal the states with a stage of d groups, whose modes take at most the budget."""
        j, i, t = stage
        for state in fronts[i]:
            s, k = state.replicas + d, state.devices + t * d
            if k > left or s > self.problem.micro:
                continue
            if any(x.replicas <= s and x.devices <= k for x in fronts[j]):
                continue
            choice = self._choice(stage, -(-s // d), budget)
            if choice is not None:
                front = [x for x in fronts[j] if x.replicas < s or x.devices < k]
                fronts[j] = [*front, _PiperState(s, k, j, d, t, choice, state)]

    def _choice(self, stage: tuple[int, int, int], y: int, budget: int) -> ModeChoice | None:
        """Return modes of a stage with y micro-batches under way that take at most the budget."""
        j, i, t = stage
        sizes = self._sizes(t, y)
        if sizes.least[i] - sizes.least[j] > self.room:
            return None
        key = (*stage, y)
        if key not in self.chosen:
            self.chosen[key] = sizes.swaps.greedy(self.inside[i] > self.inside[j], self.room)
        found = self.chosen[key]
        if self.exact and found is not None and found.bound <= budget < found.time:
            found = self.chosen[key] = self._exact(stage, y, found)
        return found if found is not None and found.time <= budget else None

    def _exact(self, stage: tuple[int, int, int], y: int, known: ModeChoice) -> ModeChoice:
        """Return the best modes of a stage."""
        j, i, t = stage
        here = np.flatnonzero(self.inside[i] > self.inside[j])
        layers = [_items(self.data.degrees[t].modes[x], y) for x in here]
        found = exact(
            layers, self.room, replace(known, modes=known.modes[here]), lambda: self.context.expired
        )
        if found is None:
            raise _Expired
        modes = known.modes.copy()
        modes[here] = found.modes
        return replace(found, modes=modes)

    def _sizes(self, t: int, y: int) -> _Sizes:
        """Return what the knapsacks of all stages on groups of t with y micro-batches under way share."""
        if (t, y) not in self.sizes:
            swaps = Swaps([_items(row, y) or [(0, 0)] for row in self.data.degrees[t].modes])
            self.sizes[t, y] = _Sizes(swaps, self._sums(swaps.least))
        return self.sizes[t, y]

    def _split(self, state: _PiperState) -> Split:
        """Return the stages of a state of the empty ideal."""
        n = self.data.n
        stage, modes = [0] * n, [0] * n
        kinds: list[str] = []
        replicas: list[int] = []
        while state.behind is not None and state.choice is not None:
            for i in np.flatnonzero(self.inside[state.behind.ideal] > self.inside[state.ideal]).tolist():
                stage[i] = len(kinds)
                modes[i] = self.data.degrees[state.t].modes[i][state.choice.modes[i]].number
            kinds.append(f"t{state.t}")
            replicas.append(state.d)
            state = state.behind
        return Split(stage=tuple(stage), kinds=tuple(kinds), replicas=tuple(replicas), modes=tuple(modes))


def _items(modes: Sequence[LayerMode], y: int) -> list[tuple[int, int]]:
    """Return times and bytes with y micro-batches under way."""
    return [(x.time, y * x.each + x.once) for x in modes]
