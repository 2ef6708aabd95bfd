r"""The linear program of `lowtide.formulations.sharding.local_milp`: strategies of which nodes have shares.

Variables and rows are the same but for :math:`x_{vs} \in [0, 1]`. Every answer is a solution, so its optimum,
rounded up, is at most the cost of every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...models.problems.sharding import Sharding
from .data import ShardingData
from .local_milp import BYTES_PER_TERM, ENGINE, Kept, LocalModel, decode, size
from .local_milp import build as build_milp

__all__ = ["BYTES_PER_TERM", "ENGINE", "build", "decode", "size"]


def build(
    problem: Sharding,
    *,
    data: ShardingData | None = None,
    sections: Collection[int] | None = None,
    kept: Kept | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> LocalModel:
    """Return the model of some sections, labels and pairs; None: of all."""
    return build_milp(problem, data=data, sections=sections, kept=kept, relaxed=True, expired=expired)
