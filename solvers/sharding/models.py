"""Methods of `sharding` that solve a model: `milp` and `lp-bound`, over the local polytope.

Both begin with some steps of `prices`: labels that alone cost more than its answer are left out of the model,
and of the sections those are in it that have a price. Sections that an answer of the model exceeds are added,
and the model is solved again; without some of its rows its optimum is a bound all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...formulations.sharding import local_lp, local_milp
from ...formulations.sharding.data import ShardingData
from ...formulations.sharding.local_milp import Kept, LocalModel
from ...formulations.sharding.prices import plain, without_dear
from ...models.cost_network import FORBIDDEN
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from ..engines.model import solve_model
from .ascent import Ascent
from .bounds import hopeless, prepared, raise_bound

BEFORE = 300
"""Steps of prices before a model: a second on a thousand nodes, and most of the way on more."""

SHARE = 0.25
"""Of the time that is left, for these steps at most: the model needs most of it."""


def solve_milp(problem: Sharding, context: Context, ascent: Ascent | None = None) -> Outcome:
    """Solve the model with binaries, after steps of prices, unless `ascent` has made its own."""
    return _solve(problem, context, local_milp, ascent)


def solve_lp_bound(problem: Sharding, context: Context) -> Outcome:
    """Solve the linear program."""
    return _solve(problem, context, local_lp)


def _solve(problem: Sharding, context: Context, formulation: Any, ascent: Ascent | None = None) -> Outcome:
    data = prepared(problem, context)
    if data is None:
        return Outcome(reason="time")
    if (ended := hopeless(data)) is not None:
        return ended
    raise_bound(problem, context)
    if ascent is None:
        ascent = Ascent(data, context.seed)
        ascent.run(context, BEFORE, SHARE)
    if context.closed:
        return Outcome()
    context.careful = True  # rows hold within a solver's tolerances, and not all are in the model
    sections = {int(r) for r in np.flatnonzero(ascent.prices > 0)}
    while True:
        before, known = context.incumbent, len(sections)
        most = FORBIDDEN if before is None else before
        kept = _kept(ascent, most)
        if not all(row.any() for row in kept[0]):  # by rounding of no label: none is better
            return Outcome()
        given = {"data": data, "sections": sorted(sections), "kept": kept}
        outcome = solve_model(
            context,
            formulation,
            partial(formulation.build, problem, **given, expired=lambda: context.expired),
            what=f"the model of the local polytope with {known} sections",
            size=formulation.size(problem, **given),
            to_objective=int,
            decode=_reader(data, formulation, sections),
        )
        better = context.incumbent is not None and (before is None or context.incumbent < before)
        stop = outcome.reason or outcome.infeasible or outcome.refused or context.closed or context.expired
        if stop or not (better or len(sections) > known):
            return outcome


def _kept(ascent: Ascent, most: int) -> Kept:
    """Return the labels and pairs that cost at most so much, as prices shift the costs and as they are."""
    labels, pairs = without_dear(ascent.shift, most)
    own, both = without_dear(plain(ascent.data), most)
    return [a & b for a, b in zip(labels, own, strict=True)], {key: pairs[key] & both[key] for key in pairs}


def _reader(
    data: ShardingData, formulation: Any, sections: set[int]
) -> Callable[[LocalModel, Callable[[Any], float]], Any]:
    """Return how a solution is read; sections that it exceeds most, one of each stretch, are added."""

    def read(built: LocalModel, value: Callable[[Any], float]) -> Any:
        used = np.zeros(len(data.room) + 1)
        for pieces, row in zip(data.pieces, built.choice, strict=True):
            for first, end, weights in pieces:
                amount = sum(float(weights[s]) * value(x) for s, x in row.items())
                used[first] += amount
                used[end] -= amount
        over = np.cumsum(used)[:-1] - data.room
        sections.update(peaks(over / max(1, int(data.room.max(initial=1)))))
        return formulation.decode(built, value)

    return read


def peaks(over: Any) -> list[int]:
    """Return the place of the most in each stretch that is above zero, but for rounding."""
    where = np.flatnonzero(over > 1e-7)
    stretches = np.split(where, np.flatnonzero(np.diff(where) > 1) + 1) if len(where) else []
    return [int(part[over[part].argmax()]) for part in stretches]
