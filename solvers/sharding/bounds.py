r"""What no answer of `sharding` is below, proved in no time; and what shows that there is none.

The bound is that of `lowtide.formulations.sharding.prices` without prices: the sum of the least costs. If a
node has no strategy left, or the least usages of all nodes at a section exceed the limit, there is no answer.
"""

from __future__ import annotations

from ...formulations.model import BuildTimeout
from ...formulations.sharding.data import ShardingData
from ...formulations.sharding.prices import plain
from ...formulations.sharding.reduction import sharding_data
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome


def prepared(problem: Sharding, context: Context) -> ShardingData | None:
    """Return the data of a problem; None if the time was over before they were made."""
    try:
        return sharding_data(problem, lambda: context.expired)
    except BuildTimeout:
        return None


def raise_bound(problem: Sharding, context: Context) -> None:
    """Raise the bound to the sum of the least costs."""
    data = prepared(problem, context)
    if data is not None and data.empty is None:
        context.raise_bound(plain(data).bound, kind="least costs")


def hopeless(data: ShardingData) -> Outcome | None:
    """Return that there is no answer, if that shows; else None."""
    if data.empty is not None:
        return Outcome(
            infeasible=True, detail=f"node {data.empty} has no strategy of finite cost with others'"
        )
    if (more := -int(data.room.min(initial=0))) > 0:
        return Outcome(infeasible=True, detail=f"the nodes use at least {more:,} above the limit at one time")
    return None
