r"""A bound on every answer of `tiles`: prices of ops and tensors, by a linear program over first runs.

Every answer is a solution of the program below, so a feasible solution of its dual bounds all of them. Columns
are the first runs f of `lowtide.solvers.tiles.first_runs`, with ops :math:`P_f` and least cost :math:`c_f`,
and for each tensor t that an op makes, :math:`e_t`: how often its op writes or keeps it where it runs again.

.. math::

    \min \sum_f c_f x_f + \sum_t d_t e_t \text{ where} \quad
    \sum_{f: i \in P_f} x_f \ge 1 \ \forall i, \qquad
    \sum_{f \text{ gives } t} x_f + e_t \ge \sum_{f: j \in P_f,\ f \text{ reads } t} x_f
    \ \forall t, j \text{ that reads } t.

1. Each op is in one first run of an answer. f gives t if t is an output of :math:`P_f`; it reads t if t is not
   made in its group. Then another group had t as an output: in the first run of the op that makes it, or where
   that op runs again. A tensor that no op reads is read by the end: the right-hand side is 1 then.
2. *An op that runs again* without feeding first runs of its group adds its compute and what it writes to the
   steps. A Pointwise that is charged at the last step of a tile, and must write what it makes, adds there at
   least the smaller of both, :math:`d_t`, which adds up over such ops. Others may cost nothing beside first runs; such
   a group makes inputs of these again, since what joins the op to them feeds them: so an f that makes inputs
   again gives every t of its outputs' shape, unless it is made behind :math:`P_f` or in the group. In a group
   without first runs compute adds up: :math:`d_t` is the least of it.
3. Prices that HiGHS returns are rounded, and lowered in integers until no column is dearer than its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...models.problems.tiles import Tiles
from ...models.tile_rules import POINTWISE
from ..context import Context, Outcome
from .bounds import least_costs, raise_bound
from .first_runs import FirstRun, Links, convex_sets, first_runs, links_of
from .groups import GroupCosts

END = -1
"""Stands for an op that reads what no op reads."""

Column = tuple[int, dict[int, int]]
"""Cost in ticks, and coefficients by row."""


class Again(NamedTuple):
    """By op: ticks that running it again adds at least, and whether that may cost nothing beside first runs."""

    ticks: tuple[int, ...]
    hides: tuple[bool, ...]


def solve_prices(problem: Tiles, context: Context) -> Outcome:
    """Raise the bound by prices."""
    raise_bound(problem, context)
    most, links = context.options["most"], links_of(problem.shapes)
    again, costs = running_again(problem), GroupCosts(problem)
    runs: list[FirstRun] = []
    for number, ops in enumerate(convex_sets(costs, links)):
        if context.expired:
            return Outcome(reason="time")
        if number == most:
            return Outcome(detail=f"found more than {most:,} convex sets of ops, expected at most that")
        runs += first_runs(costs, links, ops, again.ticks)
    low, columns = program(problem, links, runs, again)
    if missing := [i for i in range(len(problem.shapes.outputs)) if not any(i in f.ops for f in runs)]:
        return Outcome(infeasible=True, detail=f"op {missing[0]} fits in no group")
    bound = dual_bound(low, columns, context)
    if bound is None:
        return Outcome(reason="time" if context.expired else None)
    context.raise_bound(bound, kind="prices of first runs")
    return Outcome()


def running_again(problem: Tiles) -> Again:
    """Return what running an op again takes (statement 2)."""
    given, scale = problem.shapes, problem.scale
    ticks, hides = [], []
    for i, t in enumerate(given.outputs):
        written = given.area(t) >= given.capacity or t in given.finals
        adds = given.op_types[i] == POINTWISE and problem.pointwise == "last" and written
        least, native = least_costs(given)[i] * scale, given.native[0] * given.native[1]
        if adds:
            compute = given.base_costs[i] * given.area(t) * scale // native
            least = min(least, compute, given.area(t) * (scale // given.bandwidth))
        ticks.append(least)
        hides.append(not adds)
    return Again(tuple(ticks), tuple(hides))


def program(
    problem: Tiles, links: Links, runs: list[FirstRun], again: Again
) -> tuple[list[int], list[Column]]:
    """Return the right-hand sides, by op and then by tensor and reader, and the columns."""
    given = problem.shapes
    n = len(given.outputs)
    small = [t for t in sorted(given.finals) if given.area(t) < given.capacity]
    pairs = [(t, j) for t in sorted(links.maker) for j in sorted(links.readers[t])] + [(t, END) for t in small]
    rows: dict[int, list[tuple[int, int]]] = {}
    for r, (t, j) in enumerate(pairs):
        rows.setdefault(t, []).append((n + r, j))
    columns: list[Column] = []
    for run in runs:
        row = dict.fromkeys(sorted(run.ops), 1)
        read = {t for i in run.ops for t in given.inputs[i]}
        made = {given.outputs[i] for i in run.ops}
        shape = given.shape(min(made - read))
        behind = frozenset().union(*(links.behind[i] for i in run.ops))
        for t, uses in rows.items():
            maker = links.maker[t]
            gives = t in made - read - run.unwritten
            if run.again and again.hides[maker] and t not in made | read and maker not in behind:
                gives = gives or given.shape(t) == shape
            for r, j in uses:
                value = gives - (j in run.ops and t not in made and t not in run.again)
                if value:
                    row[r] = int(value)
        columns.append((run.ticks, row))
    for t, uses in rows.items():
        columns.append((again.ticks[links.maker[t]], {r: 1 for r, _ in uses}))
    return [1] * n + [int(j == END) for _, j in pairs], columns


def dual_bound(low: list[int], columns: list[Column], context: Context) -> int | None:
    """Return the bound of integer prices near those that HiGHS finds; None if it finds none in time."""
    from ..engines.highs_columns import ColumnProgram

    unit = max(cost for cost, _ in columns)
    linear = ColumnProgram(np.array(low, float), np.full(len(low), np.inf), context)
    linear.add([(cost / unit, [*row], [*row.values()]) for cost, row in columns])
    found = linear.solve()
    if found is None:
        return None
    prices = [round(max(0.0, y) * unit) for y in found[1]]
    lower_prices(prices, columns, lambda: context.expired)
    return sum(price * least for price, least in zip(prices, low, strict=True))


def lower_prices(prices: list[int], columns: list[Column], expired: Callable[[], bool] = lambda: False) -> None:
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
