r"""Offset allocation as a MILP in Pyomo: for each pair of buffers, which one lies below.

A reference for small cases, and a file for other solvers; its relaxation is weak, as that of every model
with an order per pair.

Data: one part, see `data`: buffers :math:`i \in I` with size :math:`s_i`, alignment :math:`A_i`,
perhaps a fixed offset. For each pair :math:`i < j` that meets in a section, from its forbidden differences
and its permission to share an address (`differences`): the **positions**
:math:`m \in M_{ij}`, the ranges :math:`[p_m, q_m]` of integers that :math:`o_j - o_i` may lie in. Without
gaps these are "j below i", "j at i" for in-place pairs, and "j above i"; with windows each further range is
an order of its own in each section. A buffer lies in :math:`[0, U - s_i]`, with U the upper bound on the
height, which bounds the first :math:`p_m` and the last :math:`q_m`; ranges outside are left out. Of two
neighbours among twins only the positions of the second above the first are left, which loses nothing.

Variables. :math:`o_i`: the offset, integer, one value if it is fixed, else in :math:`[0, U - s_i]`.
:math:`k_i`: the multiple of the alignment, for :math:`A_i > 1`. :math:`z_{ijm} \in \{0,1\}`: the position of
a pair. :math:`H`: the height, between the bounds that are known.

Objective. Minimize H subject to

1. :math:`o_i = A_i k_i`, if :math:`A_i > 1`;
2. :math:`o_i + s_i \le H`: all ends are below the height;
3. :math:`\sum_m z_{ijm} = 1`: each pair has a position;
4. :math:`o_j - o_i \ge \sum_m p_m z_{ijm}`;
5. :math:`o_j - o_i \le \sum_m q_m z_{ijm}`.

For one pair, 3 to 5 are the convex hull of its positions: no big-M is tighter. A pair without a position
makes the model infeasible: its row 3 is :math:`H \le -1`.

A solver's binaries are 0 or 1 but for a tolerance, and multiplied with sizes that tolerance may be many
bytes. `decode` therefore reads only the positions, and lays the buffers as low as these allow, in integers:
the differences that they ask for have a least solution, since the lower of two solutions in each buffer is
one again, multiples of alignments included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...models.arrays import Integers
from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import linear, silent_pyomo
from .data import OffsetsData
from .differences import (
    Pair,
    Range,
    allowed_differences,
    forbidden_differences,
    simple_bound,
    stacked_height,
    twin_step,
    twins,
)

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True)
class OffsetsMilp:
    """The Pyomo model and what its indices mean: ``offset[i]``, ``multiple[i]``, ``place[i, j, m]`` is z."""

    model: Any
    data: OffsetsData
    upper: int
    positions: dict[Pair, list[Range]]
    """Per pair: p and q of each m."""


def size(data: OffsetsData) -> ModelSize:
    """Return the counts of the model if each two buffers that are alive together have two positions."""
    change = np.zeros(data.sections + 1, dtype=np.int64)
    np.add.at(change, data.first, 1)
    np.subtract.at(change, data.last, 1)
    alive = np.cumsum(change)[:-1]
    # Each buffer meets those alive when it begins; and those that begin later meet it in turn.
    begins = np.bincount(data.first, minlength=data.sections)
    pairs = int((begins * alive - begins * (begins + 1) // 2).sum())
    return ModelSize(data.count + 2 * pairs, data.count + 3 * pairs, 2 * data.count + 10 * pairs)


def bound(data: OffsetsData) -> int:
    """Return a lower bound on the height, in units."""
    return simple_bound(data)


def build(
    data: OffsetsData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Sequence[int] | Integers | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> OffsetsMilp:
    """Return the model; its only objective is ``height``.

    Parameters
    ----------
    data
        A part, from `data`.
    lower, upper
        Heights below `lower` are of no interest, heights above `upper` are not allowed; in units. `upper`
        is at most the capacity.
    hint
        Offsets; every variable gets the value that it has with them.

    Examples
    --------
    >>> from lowtide.formulations.offsets.data import offsets_data
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x, y = Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=6)
    >>> (data,) = offsets_data(Buffers(buffers=(x, y)))
    >>> build(data).positions
    {(0, 1): [(-3, -3), (2, 2)]}
    """
    import pyomo.environ as pyo

    tick = ticker(expired)
    tick()
    most = stacked_height(data)
    upper = most if upper is None else min(upper, most)
    lower = min(max(lower, bound(data)), upper)
    model = pyo.ConcreteModel(name=f"height_in_units_of_{data.unit}_bytes")
    ranges = [_range(data, i, upper) for i in range(data.count)]
    aligned = np.flatnonzero(data.alignment > 1).tolist()
    positions = _positions(data, ranges, tick)
    places = [(i, j, m) for (i, j), found in positions.items() for m in range(len(found))]
    model.offset = pyo.Var(range(data.count), domain=pyo.NonNegativeIntegers, bounds=lambda _, i: ranges[i])
    model.multiple = pyo.Var(
        aligned,
        domain=pyo.NonNegativeIntegers,
        bounds=lambda _, i: (0, ranges[i][1] // int(data.alignment[i])),
    )
    model.place = pyo.Var(places, domain=pyo.Binary)
    model.height = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(lower, upper))
    model.objective = pyo.Objective(expr=model.height)
    built = OffsetsMilp(model, data, upper, positions)
    with silent_pyomo():
        for constrain in CONSTRAINTS:
            constrain(built, tick)
    if hint is not None:
        _hint(built, hint)
    return built


def _range(data: OffsetsData, i: int, upper: int) -> tuple[int, int]:
    """Return the least and greatest offset; never empty: a buffer that is too high breaks constraint 2."""
    fixed = int(data.fixed[i])
    return (0, max(0, upper - int(data.size[i]))) if fixed < 0 else (fixed, fixed)


def _positions(
    data: OffsetsData, ranges: list[tuple[int, int]], tick: Callable[[], None]
) -> dict[Pair, list[Range]]:
    inplace = {(min(a, b), max(a, b)) for a, b in data.inplace.tolist()}
    above = {pair: twin_step(data, alike[0]) for alike in twins(data) for pair in pairwise(alike)}
    position = {}
    for (i, j), forbidden in forbidden_differences(data).items():
        tick()
        low, high = ranges[j][0] - ranges[i][1], ranges[j][1] - ranges[i][0]
        low = max(low, above.get((i, j), low))
        position[i, j] = allowed_differences(forbidden, low, high, inplace=(i, j) in inplace)
    return position


def offsets_aligned(built: OffsetsMilp, tick: Callable[[], None]) -> None:
    """Constraint 1."""
    import pyomo.environ as pyo

    def rule(model: Any, i: int) -> Any:
        return model.offset[i] == int(built.data.alignment[i]) * model.multiple[i]

    tick()
    built.model.offsets_aligned = pyo.Constraint(list(built.model.multiple), rule=rule)


def ends_below_height(built: OffsetsMilp, tick: Callable[[], None]) -> None:
    """Constraint 2."""
    import pyomo.environ as pyo

    def rule(model: Any, i: int) -> Any:
        return model.offset[i] + int(built.data.size[i]) <= model.height

    tick()
    built.model.ends_below_height = pyo.Constraint(range(built.data.count), rule=rule)


def one_position(built: OffsetsMilp, tick: Callable[[], None]) -> None:
    """Constraint 3."""
    import pyomo.environ as pyo

    def rule(model: Any, i: int, j: int) -> Any:
        tick()
        count = len(built.positions[i, j])
        if not count:
            return model.height <= -1
        return linear([model.place[i, j, m] for m in range(count)], [1] * count) == 1

    built.model.one_position = pyo.Constraint(list(built.positions), rule=rule)


def above_position(built: OffsetsMilp, tick: Callable[[], None]) -> None:
    """Constraint 4."""
    import pyomo.environ as pyo

    def rule(model: Any, i: int, j: int) -> Any:
        tick()
        return _difference(built, i, j, 0) >= 0

    built.model.above_position = pyo.Constraint(list(built.positions), rule=rule)


def below_position(built: OffsetsMilp, tick: Callable[[], None]) -> None:
    """Constraint 5."""
    import pyomo.environ as pyo

    def rule(model: Any, i: int, j: int) -> Any:
        tick()
        return _difference(built, i, j, 1) <= 0

    built.model.below_position = pyo.Constraint(list(built.positions), rule=rule)


def _difference(built: OffsetsMilp, i: int, j: int, side: int) -> Any:
    """Return o_j - o_i less the first (side 0) or last (side 1) difference of the position."""
    model, found = built.model, built.positions[i, j]
    variables = [model.offset[j], model.offset[i], *(model.place[i, j, m] for m in range(len(found)))]
    return linear(variables, [1, -1, *(-position[side] for position in found)])


CONSTRAINTS = (offsets_aligned, ends_below_height, one_position, above_position, below_position)
"""The numbered constraints, in order."""


def decode(built: OffsetsMilp, value: Callable[[Any], float]) -> tuple[int, ...]:
    """Return the lowest offsets with the positions of a solution, in units.

    If the positions contradict each other within the solver's tolerance, return its offsets, rounded.
    """
    model, data = built.model, built.data
    above: list[tuple[int, int, int]] = []  # i, j, d: o_j >= o_i + d
    for (i, j), found in built.positions.items():
        chosen = max(range(len(found)), key=lambda m: value(model.place[i, j, m]))
        first, last = found[chosen]
        above += [(i, j, first), (j, i, -last)]
    offsets = [max(0, fixed) for fixed in data.fixed.tolist()]
    alignment, sizes, fixed = data.alignment.tolist(), data.size.tolist(), data.fixed.tolist()
    rising = True
    while rising:
        rising = False
        for i, j, difference in above:
            if offsets[j] < offsets[i] + difference:
                offsets[j] = -(-(offsets[i] + difference) // alignment[j]) * alignment[j]
                rising = True
                if offsets[j] + sizes[j] > built.upper or fixed[j] >= 0:
                    return tuple(round(value(model.offset[i])) for i in range(data.count))
    return tuple(offsets)


def _hint(built: OffsetsMilp, offsets: Sequence[int] | Integers) -> None:
    model, data = built.model, built.data
    values = np.array(offsets, dtype=np.int64)
    for alike in twins(data):
        values[alike] = np.sort(values[alike])
    known = values.tolist()
    for i, value in enumerate(known):
        model.offset[i].value = value
    for i in model.multiple:
        model.multiple[i].value = known[i] // int(data.alignment[i])
    for (i, j), found in built.positions.items():
        for m, (first, last) in enumerate(found):
            model.place[i, j, m].value = int(first <= known[j] - known[i] <= last)
    model.height.value = data.height(values)
