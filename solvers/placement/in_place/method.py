"""`in-place`: plans, and a bound of all plans, where ops use a second tier in place.

1. Where the linear program below is large, prices ascend instead (`ascent`), in half of the time at most.
   After the first phase and at the end they prove a bound, and live ranges get paths near those that were
   cheapest (`plans`).
2. Where it is not, each round solves a linear program over known paths of live ranges (`master`);
   its dual values are prices that prove a bound (`prices`); their cheapest paths are known in the next round.
   After rounds 1, 2, 4, 8, … and the last one, live ranges get paths near the program's solution.
3. The best plan is changed by moves of paths as long as that gains.
"""

from __future__ import annotations

import math

import numpy as np

from ....formulations.placement.in_place.data import in_place_data
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from .ascent import PriceAscent
from .master import PathMaster
from .plans import PathPlanner
from .prices import InPlaceDual, PricePoint

MEAN = 0.5
"""Weight of the earlier mean of the dual values in the next one."""

FEW_ROWS = 1500
"""Rows of the linear program up to which it is solved. Chosen by hand: VGG19 has 1,029, and takes 3 s."""

CLOSE = 1e-7
"""Largest gap of a bound, over the value of the linear program, with which the rounds end."""


def solve_in_place(problem: Placement, context: Context) -> Outcome:
    """Raise the bound until all cheapest paths are known, and offer plans.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=6,seed=1,node=optane,machine=optane-node,device=20B")
    >>> lt.solve(problem, "in-place", threads=1).verification.valid
    True
    """
    data = in_place_data(problem)
    dual = InPlaceDual(data, context)
    if not dual.possible:
        return Outcome(
            infeasible=True, detail="an op has no mode with room for what it needs in the first tier"
        )
    context.careful = True
    context.raise_bound(dual.ideal, kind="configurations of single ops")
    planner = PathPlanner(problem, data)
    if dual.chosen > FEW_ROWS:
        _ascend(PriceAscent(dual), planner, context)
    else:
        _search(PathMaster(dual, context), planner, context)
    planner.finish(context)
    return Outcome(reason="time" if context.expired and not context.closed else None)


def _ascend(ascent: PriceAscent, planner: PathPlanner, context: Context) -> None:
    """Raise the prices in half of the time at most; plan after the first phase, and at the end."""
    while context.elapsed() < context.remaining() and not context.closed and ascent.climb(context):
        if ascent.phase == ascent.rounds == 0:
            _plan(ascent, planner, context)
    _plan(ascent, planner, context)


def _plan(ascent: PriceAscent, planner: PathPlanner, context: Context) -> None:
    """Prove the bound of the best prices, and give live ranges paths near those that were cheapest."""
    bound = ascent.dual.evaluate(ascent.point(), context)
    if bound is not None:
        context.raise_bound(math.ceil(bound), kind="prices of memory in place")
        planner.improve(ascent.point(), ascent.dual, ascent.share, context)


def _search(master: PathMaster, planner: PathPlanner, context: Context) -> None:
    mean, full = master.dual.point(), np.full(master.n, 1.0)
    for begin in (mean.begin, full):  # the fastest paths, and those least in the first tier
        master.ask(PricePoint(begin, begin, mean.run, mean.stall, mean.link))
    rounds, done = 0, False
    while not (done or context.closed or context.expired) and (optimum := master.solve()) is not None:
        value, point = optimum
        mean = point.toward(mean, MEAN) if rounds else point
        rounds += 1
        fresh, best = 0, 0
        for at in (mean, point) if rounds > 1 else (point,):
            bound, new = master.ask(at)
            if bound is not None:
                best = max(best, math.ceil(bound))
                context.raise_bound(math.ceil(bound), kind="prices of memory in place")
                fresh += new
        context.progress(f"round {rounds}: {best} ns proved, at most {value:.0f} by prices")
        done = not fresh or value - best <= CLOSE * value
        if done or rounds & (rounds - 1) == 0:
            planner.improve(mean, master.dual, master.shares(), context)
