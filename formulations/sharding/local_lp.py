r"""The linear program of `lowtide.formulations.sharding.local_milp`: strategies of which nodes have shares.

Variables and rows are the same but for :math:`x_{vs} \in [0, 1]`. Every answer is a solution, so its optimum,
rounded up, is at most the cost of every answer.
"""

from __future__ import annotations

from collections.abc import Callable

from ...models.problems.sharding import Sharding
from .local_milp import BYTES_PER_TERM, ENGINE, LocalModel, decode, size
from .local_milp import build as build_milp

__all__ = ["BYTES_PER_TERM", "ENGINE", "build", "decode", "size"]


def build(
    problem: Sharding, *, most: int | None = None, expired: Callable[[], bool] = lambda: False
) -> LocalModel:
    """Return the model; answers that cost more than `most` may be left out."""
    return build_milp(problem, most=most, relaxed=True, expired=expired)
