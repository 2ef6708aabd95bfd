"""`in-place`: plans, and a bound of all plans, where ops use a second tier in place.

Each round solves a linear program over known paths of live ranges (`master`); its dual values are prices that
prove a bound (`prices`), and their cheapest paths are known in the next round. After rounds 1, 2, 4, 8, … and
the last one, live ranges get paths near the program's solution (`plans`).
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
"""Weight of the earlier mean of the dual values in the next one."""

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
    if not context.expired:
        _search(PathMaster(dual, context), PathPlanner(problem, data), context)
    return Outcome(reason="time" if context.expired and not context.closed else None)


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
            planner.improve(mean, master, context)
