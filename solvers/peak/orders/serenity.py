r"""SERENITY: dynamic programming over signatures, level by level, under a soft budget that adapts itself.

*Dynamic programming* (section 3.1, algorithm 1). After i steps an executed set is known by its signature, the
ops that may run next (its complement is what they and their descendants are). Level i maps each signature
to the path with the least peak that leads to it. Level i + 1 comes from running each op of each
signature. The last level has one signature, and its path is optimal.

*Divide and conquer* (section 3.2). An op that is comparable with all others has one possible executed set
before it and one after it. Every order passes both, so the stretches between such ops are solved on
their own, one after the other.

*Adaptive soft budgeting* (section 3.2, algorithm 2). Steps that cost more than a budget tau are cut off.
If tau is not below the optimum, what is left has an optimal path; a small tau leaves little else. The
first tau is the peak of Kahn's algorithm, the hard budget. If a level has too many signatures, tau is
halved; if no path is left, tau goes half of the way back to the last one.

Source: Ahn, Lee, Lin, Cheng, Hou and Esmaeilzadeh, "Ordering Chaos: Memory-Aware Scheduling of Irregularly
Wired Neural Networks for Edge Devices", MLSys 2020 (arXiv 2003.02369).

Deviations. The paper limits the seconds of each step; here the signatures of a level are limited (option
``signatures``), so that results repeat. A tau without a path and one with too many signatures are
remembered: the next tau lies strictly between, as algorithm 2 means it to, and where nothing is between,
the limit grows fourfold, so the search ends with the optimum, given time. A tau without a path proves
that every peak is above it, and that is reported; the search itself uses no bounds. Costs are those of
`lowtide.models.derived.memory` with every feature of a graph, where the paper has one output per node and no
workspace. The paper's rewriting of graphs (section 3.3) changes the graph and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ..search.executed_sets import ExecutedSets, members
from ..search.state_space import MASK_LIMIT
from .xla import breadth_first

KIND = "dynamic programming"
"""What proves its bounds."""

Path = tuple[int, "Path"] | None
"""The last op and the path before it."""


def solve_serenity(problem: Peak, context: Context) -> Outcome:
    """Solve stretch by stretch; offer Kahn's order where a stretch is not solved."""
    graph = problem.graph
    order = list(breadth_first(graph))
    context.offer(order)
    signatures = context.options["signatures"]
    if len(order) > MASK_LIMIT:
        return Outcome(reason="memory", detail=f"more than {MASK_LIMIT} ops")
    if not order:
        context.raise_bound(context.incumbent or 0, kind=KIND)
        return Outcome()
    sets = ExecutedSets(graph)
    peak, done = sets.space.start, 0
    for stretch in stretches(sets, order):
        context.progress(f"stretch of {len(stretch)} ops after {done.bit_count()}")
        solved = _Stretch(sets, done, stretch).solve(signatures, context)
        if solved is None:
            return Outcome(reason="time")
        best, path = solved
        place = done.bit_count()
        order[place : place + len(stretch)] = path
        peak = max(peak, best)
        context.raise_bound(peak, kind=KIND)
        context.offer(order)
        for v in stretch:
            done |= 1 << v
    return Outcome()


def stretches(sets: ExecutedSets, order: Sequence[int]) -> list[list[int]]:
    """Cut a valid order before and after every op that is comparable with all others.

    Examples
    --------
    >>> from lowtide.instances import load
    >>> stretches(ExecutedSets(load("catalogue:two-branches")), (0, 3, 1, 4, 2, 5))
    [[0], [3, 1, 4, 2], [5]]
    """
    parts: list[list[int]] = [[]]
    for v in order:
        if (sets.ancestors[v] | sets.descendants[v] | 1 << v) == sets.everything:
            parts += [[v], []]
        else:
            parts[-1].append(v)
    return [some for some in parts if some]


class _Stretch:
    """The ops between two executed sets that every order passes."""

    def __init__(self, sets: ExecutedSets, done: int, ops: list[int]) -> None:
        self.sets, self.done, self.ops = sets, done, ops
        self.memory = sets.memory(done)
        self.inside = sum(1 << v for v in ops)

    def solve(self, signatures: int, context: Context) -> tuple[int, list[int]] | None:
        """Return the least peak and its path; None if the time is up (algorithm 2)."""
        height, _ = self.sets.height(False, self.done, self.ops)
        hard = self.memory + height  # of Kahn's algorithm: there is a path
        budget = last = hard
        impossible, too_wide = -1, hard + 1  # the largest without a path, the least with too many signatures
        while True:
            found = self._schedule(budget, signatures, context)
            if found is None:
                return None
            if isinstance(found, tuple):
                return found
            if found:
                too_wide = min(too_wide, budget)
                budget, last = budget // 2, budget
            else:
                impossible = max(impossible, budget)
                context.raise_bound(budget + 1, kind=KIND)
                budget, last = (budget + last) // 2, budget
            if too_wide - impossible < 2:
                signatures *= 4
                budget = last = min(too_wide, hard)
                too_wide = hard + 1
            elif not impossible < budget < too_wide:
                budget, last = (impossible + too_wide) // 2, too_wide

    def _schedule(
        self, budget: int, signatures: int, context: Context
    ) -> tuple[int, list[int]] | bool | None:
        """Return the least peak within the budget and its path (algorithm 1).

        Without one: whether a level has too many signatures. None if the time is up.
        """
        sets = self.sets
        ready = sum(1 << v for v in sets.first(False, self.done, self.done | self.inside))
        level: dict[int, tuple[int, int, int, Path]] = {ready: (0, self.memory, self.done, None)}
        for _ in self.ops:
            following: dict[int, tuple[int, int, int, Path]] = {}
            for signature, (peak, memory, done, path) in level.items():
                if context.expired:
                    return None
                for v in members(signature):
                    increase = sets.increase(False, v, done)
                    cost = max(peak, memory + sets.rise(False, v, increase))
                    if cost > budget:
                        continue
                    after = done | 1 << v
                    reached = signature ^ 1 << v
                    for u in sets.enabled(False, v, after, self.inside):
                        reached |= 1 << u
                    known = following.get(reached)
                    if known is None or cost < known[0]:
                        following[reached] = (cost, memory + increase, after, (v, path))
                if len(following) > signatures:
                    return True
            if not following:
                return False
            level = following
        ((peak, _, _, path),) = level.values()
        order = []
        while path is not None:
            v, path = path
            order.append(v)
        return peak, order[::-1]
