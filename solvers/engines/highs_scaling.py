"""Scaling of models with large numbers, by powers of two, before HiGHS sees them.

HiGHS 1.12 prunes optima, and calls feasible models infeasible, where bytes or nanoseconds in the rows reach
billions that no common divisor makes smaller: its presolve and cuts compare with fixed tolerances. Such a
model is solved in other units. Of column j, :math:`x_j = s_j x'_j`, so that a bounded one is at most
`LARGEST_VALUE`; each row is divided by :math:`r_i`, so that its largest factor is below 2, and the objective
by :math:`c`, so that its largest factor is at most twice `LARGEST_COST`. All are powers of two: no digit is
lost. A column of integers in a large range is relaxed, as its integrality means nothing to tolerances; the
bound holds all the same.

Models whose numbers stay below `LARGE` are passed on as they are.

Optima of scaled models may still be missed by some millionths, whatever the tolerances. So bounds of theirs
count less one part in `FLOATING`; and so do those of models with lengths in ns as variables, of which reduced
costs that are off by HiGHS's tolerance may explain a unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

LARGE = 2.0**24
"""From here on a number needs scaling."""

LARGEST_VALUE = 2.0**10
"""Upper bound of a scaled column, about: HiGHS's tolerances are absolute."""

SPREAD = 20
"""Powers of two that the factors of a row may be apart and all survive: HiGHS drops factors below 10^-9."""

TOLERANCE = 1e-9
"""Of rows and integers in a scaled model; HiGHS's own is 10^-6, a thousand units of a number of 10^9."""

LARGEST_COST = 2.0**16
"""Of a scaled column, about: HiGHS prunes what is within 10^-6 of an incumbent."""

SLACK = 2e-6
"""Of the scaled objective, what bounds are lowered by for that."""

FLOATING = 10**5
"""Bounds of rough models count less one part in so many: one was seen 4 parts in a million above a plan."""

REDUCED_COST = 1e-7
"""By how much HiGHS lets a reduced cost be of the wrong sign."""


@dataclass(frozen=True, kw_only=True)
class Scales:
    """How a model was scaled.

    Attributes
    ----------
    columns, objective
        s by column, and c.
    integer
        Whether each column keeps its integers.
    scaled
        Whether anything was scaled.
    rough
        Whether bounds count less one part in `FLOATING`.
    """

    columns: Numbers
    objective: float
    integer: npt.NDArray[np.bool_]
    scaled: bool
    rough: bool

    def bound(self, value: float) -> float:
        """Return the bound in units of the model, of one that HiGHS reports."""
        found = (value - SLACK) * self.objective if self.scaled else value
        return lowered(found) if self.rough else found


@dataclass(kw_only=True)
class ScaledProgram:
    """A linear program in rows: columns' costs and bounds, rows' bounds, and factors row by row."""

    costs: Numbers
    offset: float
    lower: Numbers
    upper: Numbers
    integer: npt.NDArray[np.bool_]
    row_lower: Numbers
    row_upper: Numbers
    starts: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    factors: Numbers


def scale(program: ScaledProgram) -> Scales:
    """Scale a program in place, if its numbers are large; return by what."""
    reach, rough = _reach(program), is_rough(program)
    if not _is_large(program):
        ones = np.ones(len(reach))
        return Scales(columns=ones, objective=1.0, integer=program.integer, scaled=False, rough=rough)
    integer = program.integer & (reach < LARGE)
    columns = np.where(integer | (reach <= LARGEST_VALUE), 1.0, _power(reach / LARGEST_VALUE))
    program.factors = program.factors * columns[program.indices]
    program.lower, program.upper = program.lower / columns, program.upper / columns
    costs = program.costs * columns
    objective = max(1.0, float(_power(np.abs(costs)).max(initial=1.0)) / LARGEST_COST)
    program.costs, program.offset = costs / objective, program.offset / objective
    for i in range(len(program.row_lower)):
        part = slice(program.starts[i], program.starts[i + 1])
        some = np.abs(program.factors[part])
        some = some[some > 0]
        if not len(some):
            continue
        most, least = float(_power(some).max()), float(_power(some).min())
        by = min(most, least * 2.0**SPREAD)
        if by > 1:
            program.factors[part] /= by
            program.row_lower[i] /= by
            program.row_upper[i] /= by
    return Scales(columns=columns, objective=objective, integer=integer, scaled=True, rough=rough)


def lowered(bound: float) -> float:
    """Return what a bound of a rough model counts as."""
    return bound - abs(bound) / FLOATING


def is_rough(program: ScaledProgram) -> bool:
    """Return whether numbers are large, or reduced costs of what is continuous may explain a unit."""
    free = ~program.integer & (program.costs != 0)
    span = np.abs(program.costs[free]) * (program.upper - program.lower)[free]
    return _is_large(program) or REDUCED_COST * float(span.sum()) > 0.25


def _is_large(program: ScaledProgram) -> bool:
    sizes = (np.abs(program.factors), np.abs(program.costs), _reach(program))
    return max(float(some.max(initial=0.0)) for some in sizes) >= LARGE


def _reach(program: ScaledProgram) -> Numbers:
    """Return the largest size of a finite bound of each column; 0 if it has none."""
    sides = [np.where(np.isfinite(side), np.abs(side), 0.0) for side in (program.lower, program.upper)]
    return np.maximum(sides[0], sides[1])


def _power(values: Numbers) -> Numbers:
    """Return the largest powers of two that are at most the values; 1 for 0."""
    return np.exp2(np.floor(np.log2(np.where(values > 0, values, 1.0))))
