"""What the joint model of `minio` is stated of, where it is written for other solvers."""

from __future__ import annotations

from typing import Any

from ...models.problems.minio import MinIO
from .bounds import subtree_bounds
from .rules import tree_data


def stated(problem: MinIO) -> dict[str, Any]:
    """Return the data, and what every traversal writes within each subtree at least."""
    data = tree_data(problem, "cpsat")
    return {"data": data, "bounds": subtree_bounds(problem.graph, data)}
