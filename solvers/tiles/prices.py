r"""A bound on every answer of `tiles`: prices of ops and tensors, by a linear program over first runs.

Every answer is a solution of the program below, so prices that are feasible for its dual bound all of them.

Data. First runs f of `lowtide.solvers.tiles.first_runs`, the joined pieces of what a group runs first: ops
:math:`P_f` and least ticks :math:`c_f`. Where a group may have several pieces, that is their compute, their
traffic or half of both; the best of the three programs counts. f *gives* an output of :math:`P_f`, if written
where no op reads it; it *reads* what is neither made in the group nor made again.

Variables, 0 or 1 in an answer. :math:`x_f`; for each op i that makes t, whether it runs again in a group
with no first run, :math:`a_i`, and whether t is an output of a group with first runs where i runs again,
:math:`b_t`.

.. math::

    \min \sum_f c_f x_f + \sum_i g_i a_i + \sum_t h_t b_t \text{ where}

1. :math:`\sum_{f: i \in P_f} x_f \ge 1` for each op i: each has a first run.
2. :math:`\sum_{f \text{ gives } t} x_f + a_i + b_t \ge \sum_{f: j \in P_f,\ f \text{ reads } t} x_f` for each
   tensor t that op i makes and reader j: what a group reads was an output before. The end reads what no op
   reads: the right-hand side is 1 then.
3. The same left-hand side is at least :math:`a_j` for each reader j of t: what a group without first runs
   reads and does not make was an output before.
4. :math:`\sum_{f \in F_t} x_f \ge b_t`. :math:`F_t` are the f that make inputs again, have outputs of t's
   shape, and neither make nor read t, if i is not behind :math:`P_f`. No op of :math:`P_f` is joined to i but
   through an op that feeds one, and that makes an input again. On the path from i to there the last of the
   ops that feed i feeds another op: if none does, :math:`F_t` is empty.

*Costs.* In a group without first runs compute adds up: :math:`g_i` is the least compute of i. An op beside
first runs adds its compute and what it writes to steps. A Pointwise that is charged at the last step of a
tile, and must write what it makes, adds there at least the smaller of both, which adds up over such ops:
:math:`h_t`. For others :math:`h_t = 0`.

HiGHS finds prices; they are rounded, and lowered in integers until no column is dearer than its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...models.problems.tiles import Tiles
from ...models.tile_rules import POINTWISE
from ..context import Context, Outcome
from .bounds import least_costs, raise_bound
from .first_runs import FirstRun, Links, convex_sets, first_runs, in_pieces, links_of
from .groups import GroupCosts

END = -1
"""Stands for an op that reads what no op reads."""

Column = tuple[int, dict[int, int]]
"""Cost in ticks, and coefficients by row."""


class Again(NamedTuple):
    """By op: ticks that running it again adds at least beside first runs, and in a group without any."""

    beside: tuple[int, ...]
    alone: tuple[int, ...]


def solve_prices(problem: Tiles, context: Context) -> Outcome:
    """Raise the bound by prices."""
    raise_bound(problem, context)
    most, links = context.options["most"], links_of(problem.shapes)
    again, costs = running_again(problem), GroupCosts(problem)
    extra = [sum(again.alone[j] for j in {i, *before}) for i, before in enumerate(links.before)]
    runs: list[FirstRun] = []
    for number, ops in enumerate(convex_sets(costs, links)):
        if context.expired:
            return Outcome(reason="time")
        if number == most:
            return Outcome(detail=f"found more than {most:,} convex sets of ops, expected at most that")
        runs += first_runs(costs, links, ops, extra)
    if missing := [i for i in range(len(problem.shapes.outputs)) if not any(i in f.ops for f in runs)]:
        return Outcome(infeasible=True, detail=f"op {missing[0]} fits in no group")
    pieces = [in_pieces(costs, links, run) for run in runs]
    for kind in range(3):
        changed = [run._replace(ticks=piece[kind]) for run, piece in zip(runs, pieces, strict=True)]
        bound = dual_bound(*program(problem, links, changed, again), context)
        if bound is None:
            return Outcome(reason="time" if context.expired else None)
        context.raise_bound(bound, kind="prices of first runs")
        if all(run.ticks == min(piece) for run, piece in zip(runs, pieces, strict=True)):
            break
    return Outcome()


def running_again(problem: Tiles) -> Again:
    """Return what running an op again takes (statement 2)."""
    given, scale = problem.shapes, problem.scale
    beside = []
    for i, t in enumerate(given.outputs):
        written = given.area(t) >= given.capacity or t in given.finals
        adds = given.op_types[i] == POINTWISE and problem.pointwise == "last" and written
        compute = given.base_costs[i] * given.area(t) * scale // (given.native[0] * given.native[1])
        beside.append(min(compute, given.area(t) * (scale // given.bandwidth)) if adds else 0)
    return Again(tuple(beside), tuple(cost * scale for cost in least_costs(given)))


def program(
    problem: Tiles, links: Links, runs: list[FirstRun], again: Again
) -> tuple[list[int], list[Column]]:
    """Return the right-hand sides and the columns.

    Rows: 1 by op; 2 by tensor and reader; 3 in the same order, empty for the end; 4 by tensor.
    """
    rows = _Rows(problem, links)
    columns = [(run.ticks, rows.of_first_run(run)) for run in runs]
    for t, i in links.maker.items():
        given_rows = dict.fromkeys(rows.first[t] + rows.again[t], 1)
        columns.append((again.beside[i], {**given_rows, rows.beside[t]: -1}))
        reads = {r: -1 for u in problem.shapes.inputs[i] if u in rows.again for r in rows.reads(u, i)}
        columns.append((again.alone[i], {**given_rows, **reads}))
    return rows.low, columns


class _Rows:
    """The numbers of the rows by tensor; `first` and `again` are rows 2 and 3, `low` the right-hand sides."""

    def __init__(self, problem: Tiles, links: Links) -> None:
        self.given, self.links = problem.shapes, links
        given, self.low = problem.shapes, [1] * len(problem.shapes.outputs)
        self.first: dict[int, list[int]] = {}
        self.again: dict[int, list[int]] = {}
        self.beside: dict[int, int] = {}
        self.reader: dict[int, int] = {}
        for t in sorted(links.maker):
            readers = sorted(links.readers[t])
            ends = [END] if t in given.finals and given.area(t) < given.capacity else []
            self.first[t] = [self._row(j, int(j == END)) for j in readers + ends]
            self.again[t] = [self._row(j, 0) for j in readers]
            self.beside[t] = self._row(END, 0)
        self.joins = {
            i
            for i, before in enumerate(links.before)
            if any(links.readers[given.outputs[a]] - before - {i} for a in before)
        }

    def _row(self, reader: int, least: int) -> int:
        self.low.append(least)
        self.reader[len(self.low) - 1] = reader
        return len(self.low) - 1

    def reads(self, t: int, j: int) -> list[int]:
        """Return rows 3 of a tensor and a reader."""
        return [r for r in self.again[t] if self.reader[r] == j]

    def of_first_run(self, run: FirstRun) -> dict[int, int]:
        """Return the coefficients of a first run."""
        given = self.given
        row = dict.fromkeys(sorted(run.ops), 1)
        read = {t for i in run.ops for t in given.inputs[i]}
        made = {given.outputs[i] for i in run.ops}
        for t in made - read - run.unwritten:
            row |= dict.fromkeys(self.first[t] + self.again[t], 1)
        for t in (read & self.first.keys()) - made - run.again:
            row |= {r: -1 for r in self.first[t] if self.reader[r] in run.ops}
        if run.again:
            shape = given.shape(min(made - read))
            behind = frozenset().union(*(self.links.behind[i] for i in run.ops))
            for i in self.joins - behind:
                t = given.outputs[i]
                if t not in made | read and given.shape(t) == shape:
                    row[self.beside[t]] = 1
        return row


def dual_bound(low: list[int], columns: list[Column], context: Context) -> int | None:
    """Return the bound of integer prices near those that HiGHS finds; None if it finds none in time."""
    from ..engines.highs_columns import ColumnProgram

    unit = max(cost for cost, _ in columns)
    linear = ColumnProgram(np.array(low, float), np.full(len(low), np.inf), context)
    linear.add([(cost / unit, [*row], [*row.values()]) for cost, row in columns])
    solution = linear.solve()
    if solution is None:
        return None
    prices = [round(max(0.0, float(y)) * unit) for y in solution[1]]
    lower_prices(prices, columns, lambda: context.expired)
    return sum(price * least for price, least in zip(prices, low, strict=True))


def lower_prices(
    prices: list[int], columns: list[Column], expired: Callable[[], bool] = lambda: False
) -> None:
    """Lower prices until no column is dearer than its cost."""
    lowered = True
    while lowered:
        lowered = False
        for cost, row in columns:
            over = sum(value * prices[r] for r, value in row.items()) - cost
            for r, value in row.items():
                if over > 0 and value > 0:
                    less = min(over, prices[r])
                    prices[r] -= less
                    over -= less
                    lowered = True
