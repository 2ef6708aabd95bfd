"""List scheduling for minimum peak memory: one op after another, by what it does to the memory now.

At each step the rule picks one of the ops that may be next, forward from nothing or backward from
everything (un-running ops from the end is the same problem, `lowtide.solvers.peak.search.state_space`).
An op's *increase* is the change of memory across it, its *rise* what the peak must be above the memory
now for it to run, its *follow-up* the least increase among the ops that it alone still holds back, if
negative.

* ``least``: least increase; ties by follow-up.
* ``ahead``: least increase with follow-up; ties by increase.
* ``peak``: among the ops that fit under the peak so far, as ``least``; if none does, the least rise.
* ``depth``: an op that does not increase the memory if there is one, as ``least``; else, of the ops that
  became ready last, the one that is least by ``ahead``.
* ``post-order``: ops whose results wait least for each other: depth-first from the sinks, operands in
  the order of Liu's best post-order of a tree (peak of the operand's own part less what remains of it,
  largest first), with shared parts counted once per use. On in-trees it is the best post-order.

Ties that remain are broken by the reference order. Each rule keeps its candidates in heaps whose entries
are corrected when a key falls (increases only fall while a walk goes on), so a walk costs
O((ops + edges + accesses) log ops).

Sources: Liu, "On the storage requirement in the out-of-core multifrontal method", 1986 (best
post-order); the other rules are folklore of list scheduling.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from heapq import heappop, heappush
from operator import xor

from ....models.derived.memory import sequential_memory
from ....models.graph import Graph
from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ..search.state_space import StateSpace, state_space

RULES = ("depth", "ahead", "post-order", "least", "peak")
"""The rules, those first that are most often best in large graphs; each runs in both directions."""

_TRIES = 32
"""How many of the least ops ``peak`` looks at for one that fits."""


def solve_greedy(problem: Peak, context: Context) -> Outcome:
    """Offer the order of every rule in both directions until the time is up."""
    for order in greedy_orders(problem.graph):
        context.offer(order)
        if context.closed:
            break
        if context.expired:
            return Outcome(reason="time")
    return Outcome()


def greedy_order(graph: Graph, rule: str | None = None, *, backward: bool = False) -> tuple[int, ...]:
    """Return the order of one rule, or the best of all rules in both directions.

    Parameters
    ----------
    rule
        One of `RULES`; None for the best order of all (`backward` is then ignored).
    backward
        Whether the rule works from the end.
    """
    if rule is not None:
        known: dict[tuple[str, bool], tuple[int, ...]] = graph.__dict__.setdefault("_greedy_orders", {})
        if (rule, backward) not in known:
            space = state_space(graph, backward=backward)
            walk = _post_order(space) if rule == "post-order" else _walk(space, rule)
            known[rule, backward] = space.order(walk)
        return known[rule, backward]
    return min(greedy_orders(graph), key=sequential_memory(graph).peak)


def greedy_orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Yield the order of every rule in both directions."""
    for rule in RULES:
        for backward in (False, True):
            yield greedy_order(graph, rule, backward=backward)


def known_orders(graph: Graph) -> list[tuple[int, ...]]:
    """Return the orders that have been made of this graph so far."""
    return list(graph.__dict__.get("_greedy_orders", {}).values())


def _walk(space: StateSpace, rule: str) -> list[int]:
    """Return the walk of a rule that picks by keys."""
    walk: list[int] = []
    front = _Front(space, rule)
    for v in _sources(space):
        front.admit(v, 0)
    for step in range(1, space.n + 1):
        v = front.pick()
        walk.append(v)
        front.run(v, step)
    return walk


def _sources(space: StateSpace) -> list[int]:
    """Return the ops that may be first."""
    return [v for v, some in enumerate(space.before) if not some]


class _Front:
    """The ops that may be next, by the key of a rule and by rise.

    Of the ops that another one waits for, and of those of a group, `awaited` and `pending` hold the
    exclusive or of those still to run: when one is left, it is that one.
    """

    def __init__(self, space: StateSpace, rule: str) -> None:
        self.space, self.rule = space, rule
        self.now = self.peak = space.start
        self.increase = list(space.increase)
        self.ahead = [0] * space.n
        self.turn = [0] * space.n
        self.ready = [False] * space.n
        self.done = [False] * space.n
        self.waits = [len(some) for some in space.before]
        self.awaited = [reduce(xor, some, 0) for some in space.before]
        self.left = [len(some) for some in space.groups]
        self.pending = [reduce(xor, some, 0) for some in space.groups]
        self.by_key: list[tuple[int, ...]] = []
        self.by_rise: list[tuple[int, int, int]] = []

    def key(self, v: int) -> tuple[int, ...]:
        """Return what the rule minimises, and v."""
        increase, ahead = self.increase[v], self.ahead[v]
        if self.rule == "ahead":
            return (increase + ahead, increase, v)
        if self.rule == "depth":
            if increase > 0:
                return (1, -self.turn[v], increase + ahead, increase, v)
            return (0, increase, ahead, v)
        return (increase, ahead, v)

    def rise(self, v: int) -> tuple[int, int, int]:
        """Return what the peak must be above the memory now for v to run, its increase, and v."""
        increase, extra = self.increase[v], self.space.extra[v]
        return (extra if self.space.extra_before else extra + increase, increase, v)

    def admit(self, v: int, turn: int) -> None:
        """Make v a candidate."""
        self.ready[v], self.turn[v] = True, turn
        for w in self.space.after[v]:
            if self.waits[w] == 1 and self.increase[w] < self.ahead[v]:
                self.ahead[v] = self.increase[w]
        self._push(v)

    def pick(self) -> int:
        """Return the op that the rule picks."""
        if self.rule != "peak":
            return self._pop_key()
        passed = list[tuple[int, ...]]()
        chosen, room = -1, self.peak - self.now
        while len(passed) < _TRIES and chosen < 0 and self._tidy():
            entry = heappop(self.by_key)
            v = entry[-1]
            if self.space.extra[v] + (0 if self.space.extra_before else self.increase[v]) <= room:
                chosen = v
            else:
                passed.append(entry)
        for entry in passed:
            heappush(self.by_key, entry)
        return chosen if chosen >= 0 else self._pop_rise()

    def run(self, v: int, turn: int) -> None:
        """Walk over v and correct what changes."""
        space = self.space
        if self.rule == "peak":
            self.peak = max(self.peak, self.now + self.rise(v)[0])
        self.now += self.increase[v]
        self.done[v] = True
        for g in space.groups_of[v]:
            self.left[g] -= 1
            self.pending[g] ^= v
            if not space.backward:
                if self.left[g] == 1:
                    self._lower(self.pending[g], space.group_bytes[g])
            elif self.left[g] == len(space.groups[g]) - 1:
                for u in space.groups[g]:
                    if u != v:
                        self._lower(u, space.group_bytes[g])
        waits, awaited = self.waits, self.awaited
        for w in space.after[v]:
            waits[w] -= 1
            awaited[w] ^= v
            if waits[w] == 0:
                self.admit(w, turn)
            elif waits[w] == 1:
                self._look_ahead(w)

    def _lower(self, v: int, nbytes: int) -> None:
        self.increase[v] -= nbytes
        if self.ready[v]:
            self._push(v)
        elif self.waits[v] == 1:
            self._look_ahead(v)

    def _look_ahead(self, w: int) -> None:
        """Tell the one op that still holds w back what w would do."""
        v = self.awaited[w]
        if self.increase[w] < self.ahead[v]:
            self.ahead[v] = self.increase[w]
            if self.ready[v]:
                self._push(v)

    def _push(self, v: int) -> None:
        heappush(self.by_key, self.key(v))
        if self.rule == "peak":
            heappush(self.by_rise, self.rise(v))

    def _tidy(self) -> bool:
        """Drop entries of ops that have run or whose key fell since; say whether one is left."""
        heap = self.by_key
        while heap and (self.done[heap[0][-1]] or heap[0] != self.key(heap[0][-1])):
            heappop(heap)
        return bool(heap)

    def _pop_key(self) -> int:
        self._tidy()
        return heappop(self.by_key)[-1]

    def _pop_rise(self) -> int:
        heap = self.by_rise
        while self.done[heap[0][-1]] or heap[0] != self.rise(heap[0][-1]):
            heappop(heap)
        return heappop(heap)[-1]


def _post_order(space: StateSpace) -> list[int]:
    """Return the depth-first walk from the sinks, operands with the largest peak less rest first."""
    share = list(space.increase)
    for ops, nbytes in zip(space.groups, space.group_bytes, strict=True):
        if not space.backward:
            for v in ops:
                share[v] -= nbytes // len(ops)
    need, rest = [0] * space.n, [0] * space.n
    operands: list[list[int]] = [[] for _ in range(space.n)]
    sources = range(space.n - 1, -1, -1) if space.backward else range(space.n)
    for v in sources:
        operands[v] = sorted(space.before[v], key=lambda u: (rest[u] - need[u], u))
        held = peak = 0
        for u in operands[v]:
            peak = max(peak, held + need[u])
            held += rest[u]
        after = max(0, held + share[v])
        need[v] = max(peak, space.extra[v] + (held if space.extra_before else after))
        rest[v] = after
    walk: list[int] = []
    seen = [False] * space.n
    sinks = [v for v in range(space.n) if not space.after[v]]
    stack = sorted(sinks, key=lambda u: (need[u] - rest[u], -u))
    while stack:
        v = stack.pop()
        if v < 0:
            walk.append(~v)
        elif not seen[v]:
            seen[v] = True
            stack.append(~v)
            stack.extend(reversed(operands[v]))
    return walk
