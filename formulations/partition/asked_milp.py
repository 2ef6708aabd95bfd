"""The MILP of the objective that is asked: `latency_milp` for the latency, else `stages_milp`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ...models.problems.partition import Partition
from ...models.split import Split
from ..model import ModelSize
from . import latency_milp, stages_milp
from .stages_milp import BYTES_PER_TERM, ENGINE, LoadModel

__all__ = ["BYTES_PER_TERM", "ENGINE", "build", "decode", "size"]


def _of(problem: Partition) -> ModuleType:
    return latency_milp if problem.objective == "latency" else stages_milp


def size(problem: Partition) -> ModelSize:
    """Return about what the model will have."""
    found: ModelSize = _of(problem).size(problem)
    return found


def build(
    problem: Partition, *, hint: Split | None = None, expired: Callable[[], bool] = lambda: False
) -> LoadModel:
    """Return the model; a known split is its start."""
    built: LoadModel = _of(problem).build(problem, hint=hint, expired=expired)
    return built


def decode(at: LoadModel, value: Callable[[Any], int]) -> Split | None:
    """Return the split of a solution."""
    split: Split | None = _of(at.problem).decode(at, value)
    return split
