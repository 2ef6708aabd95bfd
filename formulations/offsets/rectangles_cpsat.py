r"""Offset allocation in CP-SAT: rectangles of time and addresses that do not overlap.

Data: one part, see `data`: buffers :math:`i \in I` with size :math:`s_i`, alignment :math:`A_i`,
perhaps a fixed offset, and rectangles :math:`r \in R_i`: the sections :math:`[f_r, l_r)` times the window
:math:`[a_r, b_r)` of the buffer's bytes. Everything is in units.

Sets. Groups :math:`g \in G` of buffers, and pairs :math:`P` with forbidden differences :math:`F_{ij}`: see
`differences`. Without in-place pairs that matter there is one group, of all buffers, and P is empty.
Twins :math:`T`: pairs of neighbours in the sets of buffers that are alike, with their step :math:`w_{ij}`.

Variables. :math:`o_i`: the offset of i, one value if it is fixed, else from 0 on. :math:`k_i`: the multiple
of the alignment, for :math:`A_i > 1`. :math:`H`: the height, integer, between the bounds that are known; if
no height is to be minimized, it is the upper one.

Objective. Minimize H, or none, subject to

1. :math:`o_i = A_i k_i`, if :math:`A_i > 1`;
2. :math:`o_i + s_i \le H`: all ends are below the height;
3. for each group g the rectangles :math:`[f_r, l_r) \times [o_i + a_r, o_i + b_r)` of its buffers do not
   overlap;
4. :math:`o_j - o_i \notin F_{ij}`, or = 0 if i and j are an in-place pair, for the pairs of P;
5. :math:`o_i + w_{ij} \le o_j` for the twins: without loss, since exchanging twins changes nothing.

3 and 4 together state the definition: each pair of rectangles that meets in a section is in a group, or its
buffers are in P. There is no redundant cumulative constraint over the sections: it made the search slower.

3 is stated over all sections at once; CP-SAT's presolve splits it into the constraints of
`sections_cpsat`, since the times are fixed.

A hint gives every variable its value; the offsets of alike buffers are exchanged so that 5 holds.

An order of the buffers adds a search: place the buffer that can lie lowest, ties by the order, at its least
offset. It builds an allocation from the bottom up, and CP-SAT learns from its conflicts; with
``PARTIAL_FIXED_SEARCH`` it is much faster than CP-SAT's own search on instances with little room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.arrays import Integers
from ..model import CPSAT_BYTES, ModelSize, ticker
from .data import OffsetsData
from .differences import (
    Pair,
    Range,
    allowed_differences,
    groups,
    simple_bound,
    stacked_height,
    twin_step,
    twins,
)

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar, IntVar

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(frozen=True)
class OffsetsModel:
    """The CP-SAT model and its variables: ``offset[i]`` is o, ``multiple[i]`` is k."""

    model: CpModel
    data: OffsetsData
    upper: int
    height: IntVar
    offset: tuple[IntVar, ...]
    multiple: dict[int, IntVar]
    windows: tuple[IntervalVar, ...]
    """Per rectangle: the addresses that it occupies."""
    groups: tuple[Integers, ...]
    pairs: dict[Pair, list[Range]]

    def members(self, group: Integers) -> list[int]:
        """Return the rectangles of the buffers of a group."""
        first, last = self.data.rectangles[group], self.data.rectangles[group + 1]
        return [r for a, b in zip(first.tolist(), last.tolist(), strict=True) for r in range(a, b)]


Constraint = Callable[[OffsetsModel, Callable[[], None]], None]


def size(data: OffsetsData) -> ModelSize:
    """Return the counts of the model without its pairs, each rectangle as a variable."""
    variables = data.count + len(data.rect_first)
    return ModelSize(variables, data.count + 1, 2 * data.count + 4 * len(data.rect_first))


def bound(data: OffsetsData) -> int:
    """Return a lower bound on the height, in units."""
    return simple_bound(data)


def build(
    data: OffsetsData,
    *,
    lower: int = 0,
    upper: int | None = None,
    minimize: bool = True,
    hint: Sequence[int] | Integers | None = None,
    order: Sequence[int] | Integers | None = None,
    names: bool = False,
    expired: Callable[[], bool] = lambda: False,
    constraints: Sequence[Constraint] | None = None,
) -> OffsetsModel:
    """Return the model.

    Parameters
    ----------
    data
        A part, from `data`.
    lower, upper
        Heights below `lower` are of no interest, heights above `upper` are not allowed; in units. `upper`
        is at most the capacity.
    minimize
        Whether the height is minimized; else any offsets below `upper` do.
    hint
        Offsets whose values are given to every variable.
    order
        The buffers, those first that are to be placed first.
    names
        Whether variables get names (for exported models).
    constraints
        Those of another formulation, instead of `CONSTRAINTS`.
    """
    from ortools.sat.python.cp_model import CpModel

    tick = ticker(expired)
    tick()
    model = CpModel()
    model.name = model_name(data)
    most = stacked_height(data)
    upper = most if upper is None else min(upper, most)
    lower = min(max(lower, bound(data)), upper) if minimize else upper

    def variable(low: int, high: int, name: str) -> IntVar:
        tick()
        return model.new_int_var(low, high, name if names else "")

    def offset(i: int) -> IntVar:
        fixed = int(data.fixed[i])
        # Never empty: a buffer that is too high breaks constraint 2.
        low, high = (0, max(0, upper - int(data.size[i]))) if fixed < 0 else (fixed, fixed)
        return variable(low, high, f"o[{i}]")

    height = model.new_int_var(lower, upper, "height")
    offsets = tuple(offset(i) for i in range(data.count))
    aligned = np.flatnonzero(data.alignment > 1).tolist()
    highest = max(upper, int(data.fixed.max(initial=0)))
    multiples = {i: variable(0, highest // int(data.alignment[i]), f"k[{i}]") for i in aligned}
    windows = []
    for i in range(data.count):
        tick()
        for r in range(int(data.rectangles[i]), int(data.rectangles[i + 1])):
            low, high = int(data.rect_low[r]), int(data.rect_high[r])
            name = f"window[{i},{r}]" if names else ""
            windows.append(model.new_fixed_size_interval_var(offsets[i] + low, high - low, name))
    cover, pairs = groups(data)
    built = OffsetsModel(model, data, upper, height, offsets, multiples, tuple(windows), tuple(cover), pairs)
    if minimize:
        model.minimize(height)
    for constrain in CONSTRAINTS if constraints is None else constraints:
        constrain(built, tick)
    if hint is not None:
        _hint(built, hint)
    if order is not None:
        _search(built, order)
    return built


def offsets_aligned(built: OffsetsModel, tick: Callable[[], None]) -> None:
    """Constraint 1."""
    tick()
    for i, multiple in built.multiple.items():
        built.model.add(built.offset[i] == int(built.data.alignment[i]) * multiple)


def ends_below_height(built: OffsetsModel, tick: Callable[[], None]) -> None:
    """Constraint 2."""
    for i in range(built.data.count):
        tick()
        built.model.add(built.offset[i] + int(built.data.size[i]) <= built.height)


def rectangles_apart(built: OffsetsModel, tick: Callable[[], None]) -> None:
    """Constraint 3."""
    data, model = built.data, built.model
    times = [
        model.new_fixed_size_interval_var(first, last - first, "")
        for first, last in zip(data.rect_first.tolist(), data.rect_last.tolist(), strict=True)
    ]
    for group in built.groups:
        tick()
        chosen = built.members(group)
        model.add_no_overlap_2d([times[r] for r in chosen], [built.windows[r] for r in chosen])


def differences_allowed(built: OffsetsModel, tick: Callable[[], None]) -> None:
    """Constraint 4."""
    from ortools.sat.python.cp_model import Domain

    inplace = {(min(a, b), max(a, b)) for a, b in built.data.inplace.tolist()}
    for (i, j), forbidden in built.pairs.items():
        tick()
        allowed = allowed_differences(forbidden, -built.upper, built.upper, inplace=(i, j) in inplace)
        domain = Domain.from_intervals([list(x) for x in allowed])
        built.model.add_linear_expression_in_domain(built.offset[j] - built.offset[i], domain)


def twins_in_order(built: OffsetsModel, tick: Callable[[], None]) -> None:
    """Constraint 5."""
    for alike in twins(built.data):
        tick()
        step = twin_step(built.data, alike[0])
        for i, j in pairwise(alike):
            built.model.add(built.offset[i] + step <= built.offset[j])


CONSTRAINTS: tuple[Constraint, ...] = (
    offsets_aligned,
    ends_below_height,
    rectangles_apart,
    differences_allowed,
    twins_in_order,
)
"""The numbered constraints, in order."""


def decode(built: OffsetsModel, value: Callable[[Any], int]) -> tuple[int, ...]:
    """Return the offsets of a solution, in units."""
    return tuple(value(offset) for offset in built.offset)


def model_name(data: OffsetsData) -> str:
    """Return the name that models carry into exported files; it says what their objective counts."""
    return f"height_in_units_of_{data.unit}_bytes"


def _search(built: OffsetsModel, order: Sequence[int] | Integers) -> None:
    from ortools.sat.python import cp_model

    offsets = [built.offset[int(i)] for i in order]
    built.model.add_decision_strategy(offsets, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)


def _hint(built: OffsetsModel, offsets: Sequence[int] | Integers) -> None:
    data = built.data
    values = np.array(offsets, dtype=np.int64)
    for alike in twins(data):
        values[alike] = np.sort(values[alike])
    for offset, value in zip(built.offset, values.tolist(), strict=True):
        built.model.add_hint(offset, value)
    for i, multiple in built.multiple.items():
        built.model.add_hint(multiple, int(values[i] // data.alignment[i]))
    built.model.add_hint(built.height, min(data.height(values), built.upper))
