"""What a family of graphs is, and the parameters that many have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ....models.graph import Accounting, Graph
from ....models.work import DTYPES
from ...options import Parameter


@dataclass(frozen=True, slots=True)
class Family:
    """A family of graphs: what makes one, what it is, and its parameters with their defaults."""

    function: Callable[..., Graph]
    description: str
    parameters: Mapping[str, Parameter]


MOST = 10**6
"""Largest number that a parameter takes: larger graphs do not fit into memory."""

N = Parameter(32, "number of ops", least=1, most=MOST)
BATCH = Parameter(1, "size of the batch", least=1, most=MOST)
WEIGHTS = Parameter(False, "keep the bytes of the weights")
DTYPE = Parameter("fp32", "data type of values and arithmetic", choices=tuple(DTYPES))
ACCOUNTING = {"accounting": Parameter("coexist", "how memory counts", choices=tuple(map(str, Accounting)))}
TRAIN = {"train": Parameter(False, "forward and backward")}


def family(function: Callable[..., Graph], description: str, **parameters: Parameter) -> Family:
    """Return a family whose graphs can be trained."""
    return Family(function, description, {**parameters, **ACCOUNTING, **TRAIN})


def task_family(function: Callable[..., Graph], description: str, **parameters: Parameter) -> Family:
    """Return a family whose ops are no network's, so that there is nothing to train."""
    return Family(function, description, {**parameters, **ACCOUNTING})
