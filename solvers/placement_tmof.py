"""`tmof`: TMOF's MILP for one GPU, as inferred, through Pyomo and HiGHS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..formulations.placement_data import placement_data
from ..formulations.placement_slots import window_bound
from ..formulations.placement_slots_plan import emit
from ..formulations.placement_tmof import build, check, decode
from ..models.errors import UsageError
from ..models.placement import Placement
from .context import Context, Outcome
from .engines.highs import check_options, solve_highs


def solve_tmof(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan of TMOF's form; the bound is that of all plans.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances.load_placement import load_placement
    >>> problem = load_placement("gen:skipchain?n=8,seed=1,machine=v100-16g-pcie3,device=450MB,start=gpu")
    >>> lt.solve(problem, "tmof", threads=1).verification.valid
    True
    """
    check_options(context.options)
    if problem.whole:
        raise UsageError("TMOF: found a problem of whole copies, expected one whose copies may be cut")
    data = placement_data(problem)
    check(data)
    context.raise_bound(data.ideal, kind="sum of durations")
    context.raise_bound(window_bound(data), kind="single ops")
    built = build(data)
    known = context.bound or data.ideal

    def plan(value: Callable[[Any], float]) -> Any:
        found = emit(data, decode(built, value), problem)
        if found is None:
            raise RuntimeError("a solution of TMOF's model does not fit into the memory")
        return found

    outcome = solve_highs(
        built.model, context, decode=plan, to_objective=lambda units: min(math.floor(units), known)
    )
    return replace(outcome, infeasible=False, detail=f"{outcome.detail}, among plans of TMOF's form")
