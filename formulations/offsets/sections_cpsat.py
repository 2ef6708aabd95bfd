r"""Offset allocation in CP-SAT, section by section: windows of addresses that do not overlap.

The model of `rectangles_cpsat` with another constraint 3. It lists the windows that are alive in each
section, so it grows with the sections that buffers live through; CP-SAT orders the windows of a section as it
orders tasks on one machine.

Data, sets, variables and objective: see `rectangles_cpsat`. For a group g and a section t let :math:`R_{gt}`
be the rectangles of its buffers with :math:`f_r \le t < l_r`; those within another
one, or of less than two, are left out.

Minimize H, or nothing, subject to

1. :math:`o_i = A_i k_i`, if :math:`A_i > 1`;
2. :math:`o_i + s_i \le H`: all ends are below the height;
3. for each group g and section t the windows :math:`[o_i + a_r, o_i + b_r), r \in R_{gt}` do not overlap;
4. :math:`o_j - o_i \notin F_{ij}`, or = 0 if i and j are an in-place pair, for the pairs of P;
5. :math:`o_i + w_{ij} \le o_j` for the twins: without loss, since exchanging twins changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...models.arrays import Integers
from ..model import CPSAT_BYTES, ModelSize
from . import rectangles_cpsat
from .data import OffsetsData
from .rectangles_cpsat import (
    Constraint,
    OffsetsModel,
    bound,
    decode,
    differences_allowed,
    ends_below_height,
    offsets_aligned,
    twins_in_order,
)

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

__all__ = ["BYTES_PER_TERM", "CONSTRAINTS", "ENGINE", "bound", "build", "decode", "size"]


def size(data: OffsetsData) -> ModelSize:
    """Return the counts of the model without its pairs, each window of a section as a term."""
    variables = data.count + len(data.rect_first)
    incidences = int((data.rect_last - data.rect_first).sum())
    return ModelSize(variables, data.count + data.sections, 2 * data.count + incidences)


def build(data: OffsetsData, *, expired: Callable[[], bool] = lambda: False, **given: Any) -> OffsetsModel:
    """Return the model; parameters as in `rectangles_cpsat.build`."""
    return rectangles_cpsat.build(data, expired=expired, constraints=CONSTRAINTS, **given)


def windows_apart(built: OffsetsModel, tick: Callable[[], None]) -> None:
    """Constraint 3."""
    for group in built.groups:
        for alive in _alive_together(built.data, np.array(built.members(group), dtype=np.int64)):
            tick()
            built.model.add_no_overlap([built.windows[r] for r in alive])


def _alive_together(data: OffsetsData, chosen: Integers) -> Iterator[list[int]]:
    """Yield the maximal sets of two or more rectangles that are alive together.

    They are those alive when one ends and another has begun since the last end.
    """
    begins = set(data.rect_first[chosen].tolist())
    ends = set(data.rect_last[chosen].tolist())
    begun = False
    for t in range(data.sections + 1):
        if t in ends and begun:
            alive = chosen[(data.rect_first[chosen] < t) & (t <= data.rect_last[chosen])]
            if len(alive) > 1:
                yield alive.tolist()
            begun = False
        begun = begun or t in begins


CONSTRAINTS: tuple[Constraint, ...] = (
    offsets_aligned,
    ends_below_height,
    windows_apart,
    differences_allowed,
    twins_in_order,
)
"""The numbered constraints, in order."""
