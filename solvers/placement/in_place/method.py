"""`in-place`: a bound of all plans and plans, where ops use a second tier in place.

Prices of memory and channels come from linear programs over paths of tensors, round by round; after rounds 1,
2, 4, 8, … and the last one, tensors get paths beside all others near the program's solution.
"""

from __future__ import annotations

import math

import numpy as np

from ....formulations.placement.in_place.data import in_place_data
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from .master import PathMaster
from .plans import PathPlanner
from .prices import InPlaceDual, PricePoint

MEAN = 0.5
"""Part of the mean of all dual values so far in the next mean."""

CLOSE = 1e-7
"""Of the value of the linear program: how much may be missing."""


def solve_in_place(problem: Placement, context: Context) -> Outcome:
    """Raise the bound until prices ask for no new path, and offer plans.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=6,seed=1,node=optane,machine=optane-node,device=20B")
    >>> lt.solve(problem, "in-place", threads=1).verification.valid
    True
    """
    data = in_place_data(problem)
    dual = InPlaceDual(data)
    if not dual.possible:
        return Outcome(
            infeasible=True, detail="an op has no mode with room for what it needs in the first tier"
        )
    context.careful = True
    context.raise_bound(dual.ideal, kind="configurations of single ops")
    planner = PathPlanner(problem, data)
    _search(dual, planner, context)
    return Outcome(reason="time" if context.expired and not context.closed else None)


def _search(dual: InPlaceDual, planner: PathPlanner, context: Context) -> None:
    master, mean = PathMaster(dual, context), dual.point()
    full = np.full(dual.data.n, 1.0)
    for begin in (mean.begin, full):  # what costs least, and what is in the first tier least
        if dual.evaluate(PricePoint(begin, begin, mean.run, mean.stall, mean.link)) is not None:
            master.add()
    rounds, done = 0, False
    while not (done or context.closed or context.expired) and (found := master.solve()) is not None:
        value, point = found
        share = master.shares()
        mean = point.toward(mean, MEAN) if rounds else point
        rounds += 1
        fresh, best = 0, 0
        for at in (mean, point) if rounds > 1 else (point,):
            bound = dual.evaluate(at)
            if bound is not None:
                best = max(best, math.ceil(bound))
                context.raise_bound(math.ceil(bound), kind="prices of memory in place")
                fresh += master.add()
        context.progress(f"round {rounds}: {best} ns proved, at most {value:.0f} by prices")
        done = not fresh or value - best <= CLOSE * value
        if done or rounds & (rounds - 1) == 0:
            planner.plan(mean, planner.shares(dual.data, share), context)
