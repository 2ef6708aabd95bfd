r"""Bounds from probing pairs: what every order below a limit must obey, by minimum cuts.

Let P be a limit, and << pairs of ops that every order of peak at most P obeys; at first the precedence.
Suppose that in one of these orders w runs before u, for u and w that << leaves open.

(a) When w runs, the executed set D holds all that precedes w in <<, and neither w nor u. So the cost then is
    at least ``c_w + min M(D)`` over such D (``replace``: D holds w too, and nothing that follows it).
(b) When u runs, D holds all that precedes u, and w, and not u. So the cost then is at least
    ``c_u + min M(D)`` over such D (``replace``: D holds u too, and nothing that follows it).

If one of the two is above P, then u << w. The executed sets of all these orders are downsets of <<, so the
minima are over these: still maximum closures, `lowtide.solvers.peak.bounds.least_memory`, with more arcs.
So the minima rise with every new pair, and the probing starts again until nothing is new. If a cut
(`lowtide.solvers.peak.bounds.cut_bound`) under << is above P, or << has a cycle, there is no order of
peak at most P. Each step of this argument compares a cost with P; it holds for every other limit below the
least of the costs that were found too large, and that one is the bound.

*Few flows.* A downset D of << that a minimum was attained at, with ``M(D) + c_w <= P``, answers at once for
every w that may run next in D (``replace``: that may have run last): (a) for no u outside D, (b) for no
op in D is above P.

*Limits.* Pairs that hold for a limit hold for every lower one. First the limit is one byte below the
incumbent: if there is no order, that one is optimal. Else the limits are bisected.

One pass of (a) alone costs a flow a pair and forces few orders; repeated until nothing is new, and with both
(a) and (b), it forces far more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....models.graph import Graph
from ..search.executed_sets import members as members_of
from ..search.state_space import StateSpace, state_space
from .least_memory import Flags, LeastMemory, topological_order

FINEST = 2000
"""Bisection ends when the interval is below this fraction of the incumbent."""


@dataclass(frozen=True, kw_only=True)
class Forced:
    """What holds for every order of peak at most a limit.

    Attributes
    ----------
    limit
        Bytes.
    bound
        If there is no such order: a lower bound on every peak, above the limit. Else None.
    space
        If `bound` is None: the forward state space with the forced pairs among `before` and `after`.
    """

    limit: int
    bound: int | None
    space: StateSpace


@dataclass(frozen=True, kw_only=True)
class Probing:
    """What probing found.

    Attributes
    ----------
    bound
        A lower bound on the peak of every order, bytes.
    forced
        The pairs for the largest limit that was probed to the end without a contradiction; None if
        there is none.
    complete
        Whether no limit is left to probe (but for the last `FINEST` of the incumbent).
    """

    bound: int
    forced: Forced | None
    complete: bool


class ProbeExpired(Exception):
    """Raised within a probe."""


def probing_bound(
    graph: Graph,
    *,
    at_least: int,
    below: int,
    expired: Callable[[], bool] = lambda: False,
    improved: Callable[[int], None] = lambda value: None,
    compiled: bool | None = None,
) -> Probing:
    """Return the best bound by probing pairs, or the best so far when the time is up.

    Parameters
    ----------
    at_least
        A bound that is known, bytes.
    below
        The peak of a known order; no bound above it is looked for.
    expired
        Asked now and then.
    improved
        Called with each better bound as soon as it is proved.
    compiled
        As for `LeastMemory`.

    Examples
    --------
    >>> from lowtide import load
    >>> from lowtide.solvers.peak.bounds.cut_bound import cut_bound
    >>> graph = load("gen:intree?n=60&seed=1")
    >>> cut_bound(graph).value, probing_bound(graph, at_least=0, below=80).bound
    (65, 69)
    """
    space, bound, high, first = state_space(graph), at_least, below, None
    if not space.n or not LeastMemory.fits(space):
        return Probing(bound=bound, forced=None, complete=False)
    limit = below - 1
    while bound < high and (first is None or (high - bound) * FINEST >= below):
        try:
            forced = force(space, limit, expired=expired, compiled=compiled)
        except ProbeExpired:
            return Probing(bound=bound, forced=first, complete=False)
        if forced.bound is not None:
            bound = max(bound, min(forced.bound, below))
            improved(bound)
        else:
            first, high, space = first or forced, limit, forced.space
        limit = max(bound, (bound + high - 1) // 2)
    return Probing(bound=bound, forced=first, complete=True)


def force(
    space: StateSpace,
    limit: int,
    *,
    expired: Callable[[], bool] = lambda: False,
    compiled: bool | None = None,
) -> Forced:
    """Return what holds for every order of peak at most `limit` bytes.

    Parameters
    ----------
    space
        Forward; its neighbours `before` may include pairs that were forced for this limit or a larger one.

    Raises
    ------
    TimeIsUp
        If the time is up before nothing is new.
    """
    least: int | None = None
    while True:
        probe = _Probe(space, limit, expired, compiled)
        pairs = probe.pairs()
        compiled = probe.minima.compiled or compiled
        least = min((cost for cost in (least, probe.least) if cost is not None), default=None)
        if probe.refuted:
            return Forced(limit=limit, bound=least, space=space)
        if not pairs:
            return Forced(limit=limit, bound=None, space=space)
        extended = with_pairs(space, pairs)
        if extended is None:
            return Forced(limit=limit, bound=least, space=space)
        space = extended


def with_pairs(space: StateSpace, pairs: Sequence[tuple[int, int]]) -> StateSpace | None:
    """Return the space in which also the first of each pair is before the second; None if that is a cycle.

    Neighbours that others imply are left out.
    """
    before = [set(some) for some in space.before]
    for u, w in pairs:
        before[w].add(u)
    loose = _with_neighbours(space, before)
    order = topological_order(loose)
    if len(order) < space.n:
        return None
    masks = _masks(loose, order)
    for v, some in enumerate(before):
        implied = 0
        for u in some:
            implied |= masks[u]
        before[v] = {u for u in some if not implied >> u & 1}
    return _with_neighbours(space, before)


def _with_neighbours(space: StateSpace, before: Sequence[set[int]]) -> StateSpace:
    after: list[list[int]] = [[] for _ in before]
    for v, some in enumerate(before):
        for u in some:
            after[u].append(v)
    return replace(
        space,
        before=tuple(tuple(sorted(some)) for some in before),
        after=tuple(tuple(some) for some in after),
    )


def _masks(space: StateSpace, order: Sequence[int]) -> list[int]:
    """Return all that is before each op as a mask, given a topological order."""
    masks = [0] * space.n
    for v in order:
        for u in space.before[v]:
            masks[v] |= masks[u] | 1 << u
    return masks


class _Probe:
    """One round: every pair that the order so far leaves open.

    Attributes
    ----------
    refuted
        Whether a cut is above the limit.
    least
        The least cost above the limit that a conclusion came from; None if there is none.
    """

    def __init__(
        self, space: StateSpace, limit: int, expired: Callable[[], bool], compiled: bool | None
    ) -> None:
        self.space, self.limit, self.expired = space, limit, expired
        self.minima = LeastMemory(space, compiled=compiled)
        self.refuted = False
        self.least: int | None = None
        sides = space.before if space.extra_before else space.after
        self.neighbours = [sum(1 << u for u in some) for some in sides]
        order = topological_order(space)
        ancestors = _masks(space, order)
        everything = (1 << space.n) - 1
        open_with = [everything & ~mask & ~(1 << v) for v, mask in enumerate(ancestors)]
        for v, mask in enumerate(ancestors):
            for u in members_of(mask):
                open_with[u] &= ~(1 << v)
        self.open_outside, self.open_inside = open_with, list(open_with)  # (a) and (b): what is not answered

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs that are forced; stop at a contradiction."""
        found: list[tuple[int, int]] = []
        for w in range(self.space.n):
            if self._excluded(w, None, None):
                self.refuted = True
                return found
        for w in range(self.space.n):
            while self.open_outside[w]:
                u = self.open_outside[w].bit_length() - 1
                self.open_outside[w] ^= 1 << u
                if self._excluded(w, None, u):
                    found.append((u, w))
            while self.open_inside[w]:
                u = self.open_inside[w].bit_length() - 1
                self.open_inside[w] ^= 1 << u
                if self._excluded(w, u, None):
                    found.append((w, u))
        return sorted(set(found))

    def _excluded(self, w: int, inside: int | None, outside: int | None) -> bool:
        """Return whether w costs more than the limit with those ops run before it and not before it."""
        space = self.space
        if space.extra_before:
            within, without = [*space.before[w]], [w]
        else:
            within, without = [w], [*space.after[w]]
        within += [] if inside is None else [inside]
        without += [] if outside is None else [outside]
        memory, members = self.minima.minimum(within, without, expired=self.expired)
        if members is None:
            raise ProbeExpired
        cost = memory + space.extra[w]
        if cost > self.limit:
            self.least = cost if self.least is None else min(self.least, cost)
            return True
        self._answer(memory, members)
        return False

    def _answer(self, memory: int, members: Flags) -> None:
        """Strike out what a downset answers."""
        done = int.from_bytes(np.packbits(members, bitorder="little").tobytes(), "little")
        if self.space.extra_before:
            beside, missing = np.flatnonzero(~members).tolist(), ~done
        else:
            beside, missing = np.flatnonzero(members).tolist(), done
        for v in beside:
            if memory + self.space.extra[v] <= self.limit and not self.neighbours[v] & missing:
                self.open_outside[v] &= done
                self.open_inside[v] &= ~done
