"""Layers of a training graph, for policies that count in them: a graph has ops, which name no layers.

A layer of the forward pass ends with an op that is the last to use an activation before the backward pass
uses it again; one of the backward pass begins with an op that is the first to use one again. So each layer
has the activations that leave behind it, and a backward layer those that must be back before it. Where every
op keeps an activation, every op is a layer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ..simulator.problem import SimulatedProblem
from .loads import crossing_absences, turn_of

HEAVY = ("conv", "matmul", "gemm", "linear")
"""What the kinds of compute-heavy ops contain, the first that there is."""


def layers(case: SimulatedProblem) -> Integers:
    """Return the number of each op's layer, from 0 on."""
    turn = turn_of(case)
    crossing = crossing_absences(case, turn)
    begins = np.zeros(case.ops + 1, dtype=np.int64)
    begins[turn] = 1
    begins[case.absence_first[crossing] + 1] = 1
    begins[case.absence_next[crossing]] = 1
    begins[0] = 0
    numbers: Integers = np.cumsum(begins[: case.ops])
    return numbers


def first_ops(numbers: Integers) -> Integers:
    """Return the first op of each layer."""
    return np.searchsorted(numbers, np.arange(numbers[-1] + 1)).astype(np.int64)


def of_kind(case: SimulatedProblem, word: str) -> NDArray[np.bool_]:
    """Return which ops have a word in their kinds."""
    return np.array([word in op.kind.lower() for op in case.graph.ops], dtype=np.bool_)


def heavy_ops(case: SimulatedProblem) -> Integers:
    """Return the convolutions; without any, matrix products; without those, ops of at least mean duration."""
    for word in HEAVY:
        if (found := of_kind(case, word)).any():
            return np.flatnonzero(found)
    return np.flatnonzero(case.duration * case.ops >= case.duration.sum())
