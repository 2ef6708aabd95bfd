"""What models of `recompute` are stated of, where they are written for other solvers."""

from __future__ import annotations

from typing import Any

from ...formulations.recompute import moccasin_cpsat, stages_milp
from ...formulations.recompute.data import RecomputeData, fits, in_ns, recompute_data
from ...formulations.recompute.moments_milp import longest_path
from ...models.errors import UsageError
from ...models.lowering.discards import without_idle_copies
from ...models.problems.recompute import Recompute
from ..method import Stated, Value
from .models.moccasin import COPIES
from .models.moments import relaxed_data
from .models.paging import paging


def stages(problem: Recompute) -> RecomputeData:
    """Return the data of schedules in partitioned stages."""
    if (why := problem.impossible()) is not None:
        raise UsageError(
            f"export: found a problem without schedules ({why}), expected one that may have some"
        )
    return recompute_data(problem)


def paged_stages(problem: Recompute) -> dict[str, Any]:
    """Return the same in ns, with what paging costs."""
    data = stages(problem)
    return {"data": in_ns(data), "paging": paging(problem, data)}


def retentions(problem: Recompute, copies: int = COPIES) -> dict[str, Any]:
    """Return the data, and the most runs of each op."""
    return {"data": stages(problem), "copies": copies}


def moments(problem: Recompute) -> dict[str, Any]:
    """Return the data of a relaxation, and the moments of a longest path."""
    stages(problem)
    relaxed = relaxed_data(problem)
    if relaxed is None:
        raise UsageError(
            f"export: found machine {problem.machine.name!r}, whose processor accesses slower tiers, "
            "expected one that accesses the fast memory only: method moments has no model of others"
        )
    data, slower = relaxed
    return {"data": data, "moments": longest_path(data), "slower": slower}


def runs(problem: Recompute, stated: Stated, built: Any, value: Value) -> list[int] | None:
    """Return the runs of a solution; None if they are within the memory only by a solver's tolerances."""
    decode = moccasin_cpsat.decode if isinstance(built, moccasin_cpsat.MoccasinModel) else stages_milp.decode
    found = decode(built, value)
    return found if fits(stated["data"], found) else None


def paged(problem: Recompute, stated: Stated, built: Any, value: Value) -> Any:
    """Return the runs and transfers of a solution; None if they are none but for a solver's tolerances."""
    steps = stages_milp.decode_paged(built, value)
    found = problem.with_discards(without_idle_copies(problem.graph, steps, problem.fast))
    return None if problem.judge(found).violations else found
