"""`label-setting` for `makespan`: exact by labels on the sets of started ops, in passes that widen.

Of up to 62 ops that share identical processors, in the accounting ``coexist``; `auto` cuts larger graphs into
parts of this size where it can. The mathematics: `lowtide.solvers.makespan.labels.search`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ....formulations.makespan.data import MakespanData
from ....models.errors import UsageError
from ....models.graph import Accounting
from ....models.problems.makespan import Makespan
from ...context import Context, Outcome
from ...engines.supervise import run_passes
from ..lists.method import begin
from ..lists.priorities import PRIORITIES
from .ideals import KnownIdeals, known_exactly
from .meeting import Others, others_of
from .shape import MOST_OPS, Shape, reversed_shape, shape_of
from .together import PriceVectors, uniform_prices

if TYPE_CHECKING:
    from ....models.arrays import Integers
    from .search import Form

    Way = Literal["forwards", "backwards"]

MOST_IDEALS = 4_000_000
"""Sets of started ops that prices are found for; with more, the load's are taken."""

ENUMERATED = 0.15
"""Part of the time for these, beside the size that was begun."""

IDEAL_BYTES = 200
"""Memory for one of them, with the steps from it."""

FIRST: tuple[tuple[Way, Form, int], ...] = (
    ("forwards", "beam", 1000),
    ("backwards", "beam", 1000),
    ("forwards", "cone", 10_000),
    ("forwards", "beam", 10_000),
    ("backwards", "beam", 10_000),
)
"""What is tried first, with its width."""

ROUND: tuple[tuple[Way, Form, int], ...] = (
    ("backwards", "relaxed", 1),
    ("forwards", "relaxed", 1),
    ("backwards", "beam", 2),
    ("backwards", "relaxed", 1),
    ("forwards", "beam", 2),
    ("forwards", "cone", 3),
)
"""What is tried in each round then, with its width as a multiple of those of `WIDTHS`."""

WIDTHS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000)
"""Widths in labels, one for each round; they grow by a factor of two to three and a half."""

SAMPLE = 20_000
"""Width of the samples between them."""

NEAR = 0.005
"""Samples are drawn for schedules that meet the bound if the incumbent is at most so much above it."""

NEAREST, SAMPLED = 0.003, 4
"""If it is at most so much above it, samples have so many times the time of the passes, else as much."""

LABEL_BYTES = 1200
"""Memory per label of the width, with those that it leads to."""

KEPT_BYTES = 200
"""Memory per label of the width and op in relaxed passes, whose labels are kept for both directions."""


LABELLED_PER_SECOND = 800_000
"""Triples of ops of a graph with which the first passes end in a second."""


def solve_labels(problem: Makespan, context: Context) -> Outcome:
    """Solve by labels alone."""
    started = begin(problem, context, PRIORITIES)
    if isinstance(started, Outcome) or context.closed:
        return started if isinstance(started, Outcome) else Outcome()
    if words := no_labels(problem):
        raise UsageError(f"method label-setting: {words} (method auto takes others)")
    return set_labels(started.data, problem, context)


def seconds_of_labels(problem: Makespan) -> float:
    """Return the seconds in which the first passes end, about."""
    return min(len(problem.graph.ops), MOST_OPS) ** 3 / LABELLED_PER_SECOND


def no_labels(problem: Makespan) -> str:
    """Return why labels are not for this problem; empty if they are."""
    n, accounting = len(problem.graph.ops), problem.graph.accounting
    if n <= MOST_OPS and accounting is Accounting.COEXIST and problem.identical:
        return ""
    return (
        f"found {n} ops, accounting {accounting.value!r}, {len(problem.kinds)} kinds of processors; "
        f"expected at most {MOST_OPS} ops, 'coexist', identical processors"
    )


def set_labels(data: MakespanData, problem: Makespan, context: Context) -> Outcome:
    """Search from the incumbent; offer what is found, raise the bound."""
    shape = shape_of(data)
    assert shape is not None
    assert context.incumbent is not None
    stop = np.zeros(1, dtype=np.int64)
    back = reversed_shape(data)
    run = _LabelSearch(
        data=data,
        context=context,
        stop=stop,
        forth=Direction(shape, KnownIdeals(), uniform_prices(shape)),
        back=Direction(back, KnownIdeals(), uniform_prices(back)),
    )
    reason = run_passes(context, stop, run.go)
    if context.closed:
        return Outcome()
    return Outcome(reason=reason or ("time" if context.expired else None), detail=run.detail)


@dataclass
class Direction:
    """One direction of time: the problem, its sets of started ops, prices, and labels from the other one."""

    shape: Shape
    known: KnownIdeals
    prices: PriceVectors
    others: Others | None = None


@dataclass(kw_only=True)
class _LabelSearch:
    """One search.

    Attributes
    ----------
    data, context
        The problem; where the incumbent and the bound are.
    stop
        A number that ends the kernels.
    forth, back
        The two directions of time.
    merges
        Whether relaxed passes make sense: they have a label for each ideal at least.
    draws
        Samples.
    detail
        Why it ended without a proof.
    expired
        Whether it is to end; asked between sizes.
    """

    data: MakespanData
    context: Context
    stop: Integers
    forth: Direction
    back: Direction
    merges: bool = False
    draws: int = 0
    detail: str = ""
    expired: Callable[[], bool] = lambda: False

    def go(self, expired: Callable[[], bool]) -> None:
        """Ideals, prices, passes."""
        context, self.expired = self.context, expired
        start = context.elapsed()
        self.find_prices()
        for name, form, width in (*FIRST, *((n, f, k * w) for w in WIDTHS for n, f, k in ROUND)):
            began = context.elapsed()
            if context.closed or self.expired():
                return
            if not self.affords(form, width):
                self.detail = "wider passes take too much memory"
                break
            if form == "relaxed" and not self.merges:
                continue
            context.progress(f"{form} {name}, {width} of each size")
            if self.one_pass(form, width, self.back if name == "backwards" else self.forth):
                return
            times = SAMPLED if self.is_near(NEAREST) else 1
            self.sample(context.elapsed() + times * (context.elapsed() - began))
        spent = context.elapsed() - start
        self.sample(math.inf if context.time_limit is not None else start + (1 + SAMPLED) * spent)
        self.detail = "" if context.closed or self.expired() else self.detail or "no wider pass"

    def sample(self, until: float) -> None:
        """Draw samples for some time, as long as the incumbent is near the bound."""
        context = self.context
        while self.is_near() and context.elapsed() < until and not (context.closed or self.expired()):
            context.progress("samples that would meet the bound")
            self.draws += 1
            self.one_pass("sample", SAMPLE)

    def affords(self, form: Form, width: int) -> bool:
        """Return whether a pass of this width is within the limit of memory."""
        limit = self.context.memory_limit
        kept = self.data.n * KEPT_BYTES if form == "relaxed" else 0
        return limit is None or width * (LABEL_BYTES + kept) <= limit

    def is_near(self, part: float = NEAR) -> bool:
        """Return whether the incumbent is at most such a part of the bound above it."""
        bound = self.context.bound or 0
        assert self.context.incumbent is not None
        return self.context.incumbent - bound <= part * bound

    def find_prices(self) -> None:
        """Find vectors of prices; leave their bound. If there are too many ideals, those of the load stay."""
        from .ideals import find_ideals
        from .together import find_prices, find_sets, price_bound

        self.context.progress("sets of started ops")
        most = MOST_IDEALS
        if self.context.memory_limit is not None:
            most = min(most, self.context.memory_limit // IDEAL_BYTES)
        enough = self.context.elapsed() + ENUMERATED * self.context.remaining()
        shape = self.forth.shape
        ideals = find_ideals(
            shape,
            most,
            lambda: self.expired() or self.context.elapsed() >= enough,
            self.forth.known,
            stop=self.stop,
        )
        if ideals is None:
            return
        self.context.progress(f"{len(ideals.sets)} sets of started ops")
        self.merges = True
        self.forth.known = known_exactly(ideals.sets)
        self.back.known = known_exactly(((1 << self.data.n) - 1) ^ ideals.sets)
        sets = find_sets(shape, ideals, self.expired)
        if sets is None:
            return
        self.context.progress(f"{len(sets.sets)} sets of ops that can run together")
        seconds = max(0.1, 0.2 * self.context.remaining())
        prices = find_prices(shape, sets, self.context, seconds, self.expired)
        self.forth.prices, self.back.prices = prices, prices.always
        bound = price_bound(shape, prices) * self.data.tick
        self.context.raise_bound(bound, kind="ops that can run together")

    def one_pass(self, form: Form, width: int, way: Direction | None = None) -> bool:
        """Return whether nothing is faster than the incumbent now; forwards, or in another direction."""
        from .search import search

        context, tick = self.context, self.data.tick
        way = way or self.forth
        assert context.incumbent is not None
        enough = -(-(context.bound or 0) // tick)
        below = enough + 1 if form == "sample" else -(-context.incumbent // tick)
        kept: list[tuple[Any, ...]] | None = [] if form == "relaxed" else None
        beam = search(
            way.shape,
            way.known,
            way.prices,
            below=below,
            enough=enough,
            width=width,
            form=form,
            stop=self.stop,
            expired=self.expired,
            threads=context.threads,
            seed=1000 * context.seed + self.draws,
            others=way.others,
            kept=kept,
        )
        if beam is None:
            return False
        if beam.starts is not None:
            ends = [s + d for s, d in zip(beam.starts, self.data.duration, strict=True)]
            starts = beam.starts if way is self.forth else [max(ends) - e for e in ends]
            context.offer([s * tick for s in starts])
        known = min(context.incumbent, below * tick)
        context.raise_bound(known if beam.least is None else min(known, beam.least * tick), kind="labels")
        if kept and not context.closed:
            other = self.back if way is self.forth else self.forth
            other.others = others_of(kept)
        return context.closed
