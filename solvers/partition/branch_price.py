r"""`branch-price`: stages in any order as columns, priced in integers; exact.

Is there a split whose loads are at most T? Let :math:`S_k` be the sets of classes that one device of kind k
can run with load at most T within its memory, the empty one among them, and :math:`\lambda_S \ge 0` how much
of such a stage is taken. A split is a choice in {0, 1} with

1. :math:`\sum_{S \ni c} \lambda_S = 1` for each class c, of dual value :math:`y_c`;
2. :math:`\sum_{S \in S_k} \lambda_S \le n_k` for each kind k.

The least violation of rows 1 in a linear program over the stages known so far has dual values
:math:`-1 \le y_c \le 1`. They are rounded to integers :math:`Y_c` in parts of a unit, and CP-SAT finds for
each kind :math:`Z_k = \max_{S \in S_k} \sum_{c \in S} Y_c \ge 0`, on rows 4 to 7 of `stages_milp` for one
stage; what it meets on the way become new columns (Gilmore and Gomory 1961).

*Proposition.* If :math:`\sum_c Y_c > \sum_k n_k Z_k` there is no split with loads of at most T.
*Proof.* Each class is on one stage of a split, so :math:`\sum_c Y_c = \sum_{S} \sum_{c \in S} Y_c`, over its
stages; each is in some :math:`S_k` and adds at most :math:`Z_k`, and at most :math:`n_k` are of kind k. As
:math:`Z_k \ge 0`, fewer do not add more. :math:`\square` An upper bound of :math:`Z_k` serves as well. All of
it is in integers: the linear program need not be believed.

A few large classes decide where such proofs are short: 24 layers of which five no longer fit on a device have
each the price of a quarter, and one more than half as large has that price, too.

If the linear program has a solution without violation that is not whole, two classes are on one stage in part
of it, or a class on a kind: either holds or does not, rows of all stages (Ryan and Foster 1981). Depth first;
each better split lowers T. When nothing is left the incumbent is optimal. Where the root is not refuted for
the incumbent, the bound is first raised by halving the range of T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...formulations.model import BuildTimeout, ModelSize
from ...formulations.partition import stages_cpsat
from ...formulations.partition.data import PartitionData, partition_data
from ...models.problems.partition import Partition
from ...models.split import HOST, Split
from ..context import Context, Outcome
from ..engines.cpsat import solve_cpsat
from ..engines.highs_columns import ColumnProgram
from ..engines.logs import check_log, logged
from ..engines.master import Master
from ..engines.memory import refuse_if_too_large
from .bounds import raise_bound
from .program import offer_cuts

UNIT = 10**6
"""Parts of 1 in which prices are integers."""

WHOLE = 1e-6
"""What is nearer to a whole number counts as one."""

FINE = 1000
"""The range of the bound is halved down to this part of it."""

ROUNDS = 500
"""Of prices in `auto`, where there is no time limit."""

EFFORT = 0.1
"""Of CP-SAT's deterministic time, about seconds, for a stage; doubled where that finds and proves nothing."""

KIND = "prices of stages"


class StageColumn(NamedTuple):
    """A stage: number of its kind, its classes, its load in ns."""

    kind: int
    classes: frozenset[int]
    load: int


class Rule(NamedTuple):
    """Whether classes a and b are on one stage; or, `b` being None, whether a is on kind `kind`."""

    a: int
    b: int | None
    kind: int
    holds: bool

    def allows(self, column: StageColumn) -> bool:
        """Return whether a stage keeps the rule."""
        if self.b is not None:
            both = (self.a in column.classes) + (self.b in column.classes)
            return both != 1 if self.holds else both < 2
        return self.a not in column.classes or (column.kind == self.kind) == self.holds


@dataclass(frozen=True)
class Price(Master):
    """The stage of the highest price, its negative being minimized; an answer is the set of its classes."""

    prices: tuple[int, ...]
    name: ClassVar[str] = "a stage by price"
    unit: ClassVar[str] = "parts"

    def evaluate(self, answer: frozenset[int]) -> int:
        """Return the negative of the price."""
        return -sum(self.prices[c] for c in answer)


@dataclass(kw_only=True)
class ColumnSearch:
    """What is asked, the stages known, and the work done; `most` rounds at most."""

    problem: Partition
    data: PartitionData
    context: Context
    columns: dict[StageColumn, None] = field(default_factory=dict)
    most: int | None = None
    rounds: int = 0
    nodes: int = 0
    reason: str | None = None
    effort: float = EFFORT

    def load(self, k: int, classes: frozenset[int]) -> int:
        """Return the load of a stage in ns."""
        data = self.data
        work = sum(data.times[c][k] or 0 for c in classes)
        if data.kinds[k][0] == HOST:
            return work
        crossing = (v for v in data.passed if not {v.writer, *v.readers}.isdisjoint(classes))
        return work + sum(v.time for v in crossing if not classes.issuperset((v.writer, *v.readers)))

    def keep_incumbent(self) -> None:
        """Keep the stages of the incumbent."""
        split: Split | None = self.context.answer
        if split is None:
            return
        kinds = [kind for kind, _ in self.data.kinds]
        on = [split.stage[some[0]] for some in self.data.members]
        for s, kind in enumerate(split.kinds):
            k, classes = kinds.index(kind), frozenset(c for c, at in enumerate(on) if at == s)
            self.columns[StageColumn(k, classes, self.load(k, classes))] = None


def refused_by_prices(problem: Partition) -> str:
    """Return why it does not serve a problem; empty if it does."""
    plain = problem.schedule == problem.recompute == "none" and problem.replicate == 1
    if problem.contiguous or problem.objective != "load" or not plain:
        return "branch-price is for the largest load of stages in any order, one device each"
    return ""


def solve_branch_price(problem: Partition, context: Context, *, rounds: int | None = None) -> Outcome:
    """Offer the best cuts of the reference order, then search until the optimum is proved.

    Parameters
    ----------
    rounds
        Of prices at most; None: no limit.
    """
    if words := refused_by_prices(problem):
        return Outcome(detail=words)
    if context.log is not None:
        check_log(context.log)
    data = partition_data(problem)
    raise_bound(problem, context)
    offer_cuts(problem, data, context)
    search = ColumnSearch(problem=problem, data=data, context=context, most=rounds)
    pairs = sum(len(v.readers) for v in data.passed)
    size = ModelSize(data.n + 2 * len(data.passed), 2 * pairs, 6 * pairs + 2 * data.n)
    if refused := refuse_if_too_large(
        size, bytes_per_term=stages_cpsat.BYTES_PER_TERM, context=context, what="the model of a stage"
    ):
        return refused
    try:
        done = _search(search)
    except BuildTimeout:
        done = False
    facts = {"columns": len(search.columns), "rounds": search.rounds, "nodes": search.nodes}
    if not done:
        return Outcome(reason=search.reason or ("time" if context.expired else None), facts=facts)
    if context.incumbent is None:
        return Outcome(infeasible=True, facts=facts)
    context.raise_bound(context.incumbent, kind=KIND)
    return Outcome(facts=facts)


def _search(search: ColumnSearch) -> bool:
    """Return whether no split is better than the incumbent."""
    context = search.context
    search.keep_incumbent()
    if context.incumbent is not None:
        _halve(search)
    open_: list[tuple[Rule, ...]] = [()]
    while open_ and not context.closed:
        rules = open_.pop()
        search.nodes += 1
        node = _solve_node(search, rules, _threshold(search))
        if node is None:
            return False
        if not node:
            continue
        branch = _branch(search.data, node)
        if branch is not None:
            open_ += [(*rules, branch._replace(holds=holds)) for holds in (False, True)]
            continue
        before = context.incumbent
        _offer(search, list(node))
        if context.incumbent is None or context.incumbent == before:
            raise RuntimeError("stages below the threshold are no better split: their model is wrong")
        search.keep_incumbent()
        open_.append(rules)
    return True


def _offer(search: ColumnSearch, stages: list[StageColumn]) -> None:
    """Offer the split into such stages."""
    on = [0] * search.data.n
    for s, column in enumerate(stages):
        for c in column.classes:
            on[c] = s
    search.context.offer(search.data.split(on, [search.data.kinds[x.kind][0] for x in stages]))


def _threshold(search: ColumnSearch) -> int:
    """Return the load below which a split is better than the incumbent."""
    if search.context.incumbent is not None:
        return search.context.incumbent - 1
    work = sum(max(t or 0 for t in row) for row in search.data.times)
    return work + sum(v.time * (len(v.readers) + 1) for v in search.data.passed)


def _halve(search: ColumnSearch) -> None:
    """Raise the bound by thresholds that the root refutes."""
    low, high = (search.context.bound or 0) - 1, _threshold(search)
    while high - low > max(1, high // FINE):
        middle = (low + high) // 2
        node = _solve_node(search, (), middle)
        if node is None:
            return
        if node:
            high = middle
        else:
            low = middle
            search.context.raise_bound(middle + 1, kind=KIND)


def _solve_node(search: ColumnSearch, rules: tuple[Rule, ...], most: int) -> dict[StageColumn, float] | None:
    """Return stages with their parts that keep the rules; none if there are no such; None if undecided."""
    data, context = search.data, search.context
    kinds = range(len(data.kinds))
    rows = np.array([1.0] * data.n + [0.0] * len(kinds))
    top = np.array([1.0] * data.n + [float(count) for _, count in data.kinds])
    rows[data.n :] = -np.inf
    program = ColumnProgram(rows, top, context)
    program.add([(1.0, [c], [sign]) for c in range(data.n) for sign in (1.0, -1.0)])
    used: list[StageColumn] = []

    def add(some: Iterable[StageColumn]) -> None:
        fresh = [x for x in some if x.load <= most and all(rule.allows(x) for rule in rules)]
        used.extend(fresh)
        cells = [[*sorted(x.classes), data.n + x.kind] for x in fresh]
        program.add([(0.0, cell, [1.0] * len(cell)) for cell in cells])

    add(search.columns)
    models = [Pricing(search, k, rules, most) for k in kinds]
    while True:
        solved = program.solve()
        if solved is None:
            search.reason = program.reason
            return None
        violation, dual = solved
        if violation < WHOLE:
            parts = program.values()[2 * data.n :]
            return {x: float(part) for x, part in zip(used, parts, strict=True) if part > WHOLE}
        if search.rounds == search.most:
            return None
        search.rounds += 1
        prices = tuple(round(float(y) * UNIT) for y in dual[: data.n])
        known = len(search.columns)
        found = [model.highest(prices, search.effort) for model in models]
        highest = [x for x in found if x is not None]
        if len(highest) < len(found):
            return None
        if sum(prices) > sum(data.kinds[k][1] * price for k, (price, _) in enumerate(highest)):
            return {}
        new = list(search.columns)[known:]
        if not new:
            if all(exact for _, exact in highest):
                return None  # the violation is less than rounding prices adds
            search.effort *= 2
        add(new)


class Pricing:
    """The model of one stage of a kind, with the rules."""

    def __init__(self, search: ColumnSearch, k: int, rules: tuple[Rule, ...], most: int) -> None:
        self.search, self.k = search, k
        self.at = at = stages_cpsat.build_stage(
            search.problem, search.data, k, most, expired=lambda: search.context.expired
        )
        for rule in rules:
            a = at.variables["x", rule.a, 0]
            if rule.b is None:
                if (rule.kind == k) != rule.holds:
                    at.model.add(a == 0)
            elif rule.holds:
                at.model.add(a == at.variables["x", rule.b, 0])
            else:
                at.model.add(a + at.variables["x", rule.b, 0] <= 1)

    def highest(self, prices: tuple[int, ...], effort: float) -> tuple[int, bool] | None:
        """Return what no stage's price exceeds, and whether one has it; what is met is kept.

        None if that was not found in time.
        """
        search, at = self.search, self.at
        inner = search.context.inner(Price(search.problem.graph, prices), math.inf, "")
        inner.progress = lambda _: None
        stages_cpsat.minimize(at, ((("x", c, 0), -price) for c, price in enumerate(prices)))

        def stage(value: Callable[[Any], int]) -> frozenset[int]:
            classes = frozenset(c for c in range(search.data.n) if value(at.variables["x", c, 0]))
            if classes:
                search.columns[StageColumn(self.k, classes, search.load(self.k, classes))] = None
            return classes

        limit = {"max_deterministic_time": f"{effort:.3f}"}
        outcome = logged(
            inner,
            lambda: solve_cpsat(at.model, inner, decode=stage, to_objective=int, defaults=limit),
        )
        if inner.bound is None or outcome.reason in ("interrupted", "crash"):
            search.reason = outcome.reason
            return None
        return max(0, -inner.bound), inner.closed


def _branch(data: PartitionData, parts: dict[StageColumn, float]) -> Rule | None:
    """Return the rule that the parts keep least clearly, of large classes; None if they are whole."""
    together: dict[tuple[int, int | None, int], float] = {}
    for column, part in parts.items():
        for a in column.classes:
            together[a, None, column.kind] = together.get((a, None, column.kind), 0.0) + part
        for a, b in combinations(sorted(column.classes), 2):
            together[a, b, 0] = together.get((a, b, 0), 0.0) + part
    open_ = {key: min(part, 1 - part) for key, part in together.items() if WHOLE < part < 1 - WHOLE}
    if not open_:
        return None

    def weight(key: tuple[int, int | None, int]) -> tuple[float, int]:
        a, b, _ = key
        size = sum(min(t for t in data.times[c] if t is not None) for c in (a, b) if c is not None)
        return open_[key] * size, -a

    return Rule(*max(open_, key=weight), True)
