r"""Method `beam` of `sharding`: answers by beams over all groups, and over some while the others stay.

Prices and messages of `prices` say what a partial answer will come to. The groups are numbered so that few of
them have neighbours both before and after (`lowtide.formulations.sharding.reduction`): a beam of moderate
width over all is close to a dynamic program. It keeps what is used in those sections that have a price, or
that an earlier answer exceeded. Usage is charged at parts of the prices in turn: the lower, the more is used,
until the limit, not the price, holds it back. Then windows and neighbourhoods of groups are decided anew, at
parts of the prices; what is cheaper is kept, and what is cheaper with usage at its price, if it costs little.
"""

from __future__ import annotations

import numpy as np

from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from .ascent import Ascent
from .beam_kernel import GRAINS, BeamGuide, add_usage, ball, beam, part_cost, reach, seed_kernels, tops
from .bounds import hopeless, prepared, raise_bound
from .message_kernel import Floats, Integers, cost_of, priced_costs, usage_of

KERNELS = (".sharding.message_kernel", ".sharding.beam_kernel")

AT_FIRST, AGAIN = 300, 100
"""Steps of prices before the first beam, and between two rounds of beams; chosen by hand."""

PARTS_OF_PRICES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.3)
"""At which usage is charged in turn, in beams over all groups."""

PARTS_IN_MOVES = (0.0, 0.0, 0.3, 0.6, 0.9, 1.1)
"""At which usage is charged in moves, one of them drawn for each; chosen by hand."""

NARROW, WIDE = 10, 10_000
"""Partial answers of a beam over all groups: at first, and at most (some seconds on two hundred groups)."""

WIDTHS = (20, 100, 400)
"""Partial answers of a beam in a move, drawn."""

SECTIONS, FEW = 400, 32
"""Sections in which usage is kept, in beams over all groups and in moves: more take longer than they gain."""

GROUPS = 60
"""Groups of a move at most: a beam over them takes some milliseconds."""

DEARER = 1.01
"""Times the best cost, what an answer costs at most that a move goes on from; chosen by hand."""

FAILED = 3
"""Moves for each group without a better answer, until beams over all are tried again."""


def solve_beams(problem: Sharding, context: Context, ascent: Ascent | None = None) -> Outcome:
    """Offer each better answer until the time is over.

    `ascent` has prices of another method's steps; while there are too few, or no answer, more are made here.
    """
    data = prepared(problem, context)
    if data is None:
        return Outcome(reason="time")
    if (ended := hopeless(data)) is not None:
        return ended
    raise_bound(problem, context)
    own = ascent is None
    ascent = ascent or Ascent(data, context.seed)
    ascent.run(context, AT_FIRST - ascent.steps, share=0.3)
    search = _ShardBeams(ascent, context)
    rounds = 0
    while len(data.costs) and not (context.expired or context.closed):
        search.over_all()
        search.move()
        rounds += 1
        if (own or np.isinf(search.cost)) and not (context.expired or context.closed):
            ascent.run(context, AGAIN, share=0.3)
        if rounds == int(context.options.get("rounds", rounds + 1)):
            break
    return Outcome(reason="time" if context.expired else None)


class _ShardBeams:
    """The best labels, and how wide beams are.

    Attributes
    ----------
    best, cost
        Labels, and what they cost; infinite while there are none.
    sections
        Those that beams over all groups look at.
    """

    def __init__(self, ascent: Ascent, context: Context) -> None:
        self.ascent, self.data, self.net, self.context = ascent, ascent.data, ascent.net, context
        self.random = np.random.default_rng(context.seed)
        self.keys = self.random.integers(0, 2**62, len(self.net.costs) + GRAINS + 1)
        self.width, self.seconds = NARROW, 0.0
        self.sections: set[int] = set()
        self.best: Integers = np.zeros(len(self.data.costs), np.int64)
        self.cost = np.inf
        seed_kernels(context.seed)

    def over_all(self) -> None:
        """Run a beam over all groups at each part of the prices; the next time they are wider."""
        groups = np.arange(len(self.data.costs))
        self.sections.update(np.flatnonzero(self.ascent.prices > 0).tolist())
        for part in PARTS_OF_PRICES:
            if self.context.expired or self.context.closed or 4 * self.seconds > self.context.remaining():
                return
            prices = self.ascent.prices
            sections = np.array(sorted(self.sections), np.int64)
            if len(sections) > SECTIONS:
                sections = np.sort(sections[np.argsort(-prices[sections], kind="stable")[:SECTIONS]])
            labels, began = np.zeros(len(groups), np.int64), self.context.elapsed()
            guide = BeamGuide(priced_costs(self.net, prices * part), self.ascent.sent, self.keys)
            value = beam(self.net, guide, groups, labels, sections, self.net.room[sections], self.width)
            self.seconds = self.context.elapsed() - began
            if np.isinf(value):
                continue
            over = usage_of(self.net, labels) - self.net.room
            self.sections.update(tops(over, SECTIONS).tolist())
            if (over <= 0).all():
                self._keep(labels)
        if self.width < WIDE and 20 * self.seconds < self.context.remaining():
            self.width, self.seconds = 3 * self.width, 3 * self.seconds

    def move(self) -> None:
        """Decide some groups anew, again and again, until that gains nothing for a while."""
        self._adopt()
        if np.isinf(self.cost):
            return
        net, n = self.net, len(self.data.costs)
        costs = [priced_costs(net, self.ascent.prices * part) for part in PARTS_IN_MOVES]
        labels, cost, failed = self.best.copy(), self.cost, 0
        over = usage_of(net, labels) - net.room
        tried = 0
        try:
            while failed < FAILED * n and not (self.context.expired or self.context.closed):
                failed, tried = failed + 1, tried + 1
                moved = self._moved(labels, over, costs[self.random.integers(len(costs))], cost)
                if moved is not None:
                    labels, over, cost = moved
                    if cost < self.cost - 0.5:
                        self.best, self.cost, failed = labels, cost, 0
                if tried % n == 0:
                    self._offer()
        finally:  # also where the turn does not come back
            self._offer()

    def _moved(
        self, labels: Integers, over: Integers, costs: Floats, cost: float
    ) -> tuple[Integers, Integers, float] | None:
        """Return labels of which some are new, what they use above the room, and their cost, if kept."""
        net, n = self.net, len(labels)
        size, root = int(self.random.integers(2, GROUPS)), int(self.random.integers(n))
        if self.random.random() < 0.5:
            groups = np.arange(max(0, root - size // 2), min(n, root + size // 2 + 1))
        else:
            groups = ball(net, root, size)
        rest = over.copy()
        add_usage(net, groups, labels, -1, rest)
        sections = tops(reach(net, groups, rest), FEW)
        new, width = labels.copy(), int(self.random.choice(WIDTHS))
        guide = BeamGuide(costs, self.ascent.sent, self.keys)
        if np.isinf(beam(net, guide, groups, new, sections, -rest[sections], width)):
            return None
        add_usage(net, groups, new, 1, rest)
        if (new == labels).all() or (rest > 0).any():
            return None
        before, after = (part_cost(net, net.costs, groups, one) for one in (labels, new))
        total = cost + after - before
        better = part_cost(net, costs, groups, new) <= part_cost(net, costs, groups, labels)
        return (new, rest, total) if total <= cost or (better and total <= DEARER * self.cost) else None

    def _adopt(self) -> None:
        """Take the best answer that is known, if it is better."""
        if self.context.answer is None or (self.context.incumbent or 0) >= self.cost:
            return
        labels = self.data.labels(self.context.answer)
        if labels is not None:
            self.best = np.array(labels, np.int64)
            self.cost = self.data.fixed + cost_of(self.net, self.best)

    def _keep(self, labels: Integers) -> None:
        cost = self.data.fixed + cost_of(self.net, labels)
        if cost < self.cost:
            self.best, self.cost = labels.copy(), cost
            self._offer()

    def _offer(self) -> None:
        """Offer the best labels, if they are better than what is known: that takes as long as many moves."""
        if self.cost < (np.inf if self.context.incumbent is None else self.context.incumbent):
            self.context.offer(self.data.choice(self.best.tolist()))
