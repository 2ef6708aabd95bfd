"""`two-way-labels` for `makespan` of trees: labels on reduced trees that grow, forwards and backwards.

Of in-trees of up to 62 ops within a memory, on identical processors. The mathematics:
`lowtide.solvers.makespan.trees.projection` and `two_way`. The first reduced tree has few nodes; each pass
guides the next one, the other way, over the same nodes or more. The bounds of all hold for the whole tree.
Between them beams over the whole tree look for schedules. A pass over the whole tree proves the fastest one.
Larger trees are bounded by reduced ones of up to 62 ops (in `auto`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....models.errors import UsageError
from ....models.problems.makespan import Makespan
from ...context import Context, Outcome
from ...engines.supervise import run_passes
from ...trees.task_tree import TaskTree, identical_processors, task_tree
from ..labels.shape import MOST_OPS
from ..lists.method import begin, no_tree, relaxed_tree
from ..lists.priorities import PRIORITIES

if TYPE_CHECKING:
    from ....models.arrays import Integers
    from .two_way import Guide, PassResult

FIRST = 12
"""Nodes of the first reduced tree."""

STEPS = 2, 6
"""Further nodes of each forward and backward pass: backwards there are fewer sets."""

WIDTH = 200_000
"""Labels of each size that a pass keeps at most, unless its width was doubled."""

WIDEST = 3_200_000
"""Labels of each size that a pass keeps at most, however often its width was doubled. It is doubled after a
pass that gave up, and after two passes in a row that had to merge labels, since their bounds are weaker."""

BEAM = 2000
"""Labels of each size that a beam between two passes keeps: it only has to find a schedule."""

LABEL_BYTES = 2400
"""Memory per label of the width, with those that it leads to."""


def solve_two_way(problem: Makespan, context: Context) -> Outcome:
    """Solve by two-way labels alone."""
    identical_processors(problem, "two-way-labels")
    tree = task_tree(problem, "two-way-labels")
    if tree.n > MOST_OPS:
        raise UsageError(f"method two-way-labels: found {tree.n} ops, expected at most {MOST_OPS}")
    started = begin(problem, context, PRIORITIES)
    if isinstance(started, Outcome):
        return started
    return Outcome() if context.closed else two_way(problem, context)


def no_two_way(problem: Makespan) -> str:
    """Return why two-way labels are not for this problem; empty if they are."""
    return "found no memory limit, expected one" if problem.memory is None else no_tree(problem)


def two_way(problem: Makespan, context: Context) -> Outcome:
    """Search from the incumbent; offer what is found, raise the bound."""
    stop = np.zeros(1, dtype=np.int64)
    tree = relaxed_tree(problem)
    run = _PassSearch(
        tree=tree,
        processors=problem.count,
        memory=sum(tree.needed) if problem.memory is None else problem.memory,
        tick=math.gcd(*tree.duration),
        context=context,
        stop=stop,
    )
    reason = run_passes(context, stop, run.go)
    if context.closed:
        return Outcome()
    late = "time" if context.expired else None
    return Outcome(reason=reason or late, detail="" if late else "wider passes take too much memory")


@dataclass(kw_only=True)
class _PassSearch:
    """One search; `width` is that of its passes now."""

    tree: TaskTree
    processors: int
    memory: int
    tick: int
    context: Context
    stop: Integers
    width: int = WIDTH
    expired: Callable[[], bool] = lambda: False

    def go(self, expired: Callable[[], bool]) -> None:
        """Pass over more and more nodes, then over all with more and more labels."""
        from .projection import lightest_first

        self.expired = expired
        order = lightest_first(self.tree)
        n, whole = min(self.tree.n, MOST_OPS), self.tree.n <= MOST_OPS
        count, turn, guide = min(FIRST, n), 0, None
        limit = self.context.memory_limit
        most = WIDEST if limit is None else min(WIDEST, limit // LABEL_BYTES)
        self.width = min(self.width, most)
        merged = False
        while most and not (self.context.closed or self.expired()):
            result = self.one_pass(order[: self.tree.n - count], turn, guide, self.width)
            if result is None or self.context.closed or (count == n and result.guide and not result.merged):
                return
            merged, again = result.merged, result.merged and (merged or count == n)
            if result.guide is None or again:
                if 2 * self.width > most:
                    return
                self.width *= 2
            if result.guide is not None:
                guide, turn = result.guide, 1 - turn
                if whole and count < n:
                    self.one_pass([], turn, guide, BEAM, beam=True)
                if not result.merged:
                    count = min(n, count + STEPS[turn])

    def one_pass(
        self, away: Sequence[int], turn: int, guide: Guide | None, width: int, *, beam: bool = False
    ) -> PassResult | None:
        """Make a pass or a beam, forwards or backwards; leave what it found with the context."""
        from .projection import both_shapes, reduced
        from .two_way import guided_pass

        context, tree = self.context, self.tree
        assert context.incumbent is not None
        some = reduced(tree, away)
        way = ("forwards", "backwards")[turn]
        context.progress(f"{way}, {len(some.kept)} of {tree.n} ops{', beam' * beam}")
        below = -(-context.incumbent // self.tick)
        shape = both_shapes(tree, some, self.processors, self.memory, self.tick)[turn]
        result = guided_pass(
            some.kept,
            shape,
            guide,
            below=below,
            width=width,
            beam=beam,
            stop=self.stop,
            expired=self.expired,
            threads=context.threads,
        )
        if result is None:
            return None
        if result.starts is not None and not away:
            context.offer(self.answer(result.starts, turn))
        context.raise_bound(min(context.incumbent, result.bound * self.tick), kind="two-way labels")
        return result

    def answer(self, starts: Sequence[int], turn: int) -> list[int]:
        """Return the starts of a schedule of the whole tree in ns, forwards."""
        begins = [s * self.tick for s in starts]
        if turn == 0:
            return begins
        ends = [s + d for s, d in zip(begins, self.tree.duration, strict=True)]
        return [max(ends) - e for e in ends]
