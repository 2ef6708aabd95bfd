r"""What no answer of `sharding` is below, proved in no time; and what shows that there is none.

Each node and each pair of nodes costs at least the least number in its row or matrix of what is left
(`lowtide.formulations.sharding.data`): the sum of these is at most the cost of every answer. If a node has
no strategy left, or the least usages of the nodes that are alive at a section exceed the limit, there is no
answer.
"""

from __future__ import annotations

from ...formulations.sharding.data import ShardingData, alive_at, sharding_data
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome


def raise_bound(problem: Sharding, context: Context) -> None:
    """Raise the bound to the sum of the least costs."""
    data = sharding_data(problem)
    if data.empty is None:
        rows = (*data.costs, *data.matrices.values())
        context.raise_bound(sum(int(row.min()) for row in rows), kind="least costs")


def hopeless(data: ShardingData) -> Outcome | None:
    """Return that there is no answer, if that shows; else None."""
    if data.empty is not None:
        return Outcome(
            infeasible=True, detail=f"node {data.empty} has no strategy of finite cost with others'"
        )
    least = [int(row.min()) for row in data.usages]
    for nodes in alive_at(data):
        if (used := sum(least[v] for v in nodes)) > data.limit:
            words = f"{len(nodes)} nodes use at least {used:,} at one time, of {data.limit:,}"
            return Outcome(infeasible=True, detail=words)
    return None
