"""HiGHS: solve a large linear program, for dual values or for those of its variables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import Context
from .highs_scheduler import run_in_turn
from .supervise import Supervisor
from .tried import quiet_highs

if TYPE_CHECKING:
    from ...formulations.linear_program import LinearProgram


def dual_values(program: LinearProgram, context: Context, seconds: float) -> list[float] | None:
    """Return a value of at least 0 per row, near those of an optimal dual solution; None if there is none.

    Interior point without crossover, on the program scaled as it says; in units of cost per unit of the row's
    own right-hand side. Nothing is promised about them: `dual_bound` makes a bound of any.

    Parameters
    ----------
    context
        Its threads, seed and memory limit count.
    """
    scaled = _Scaled(program)
    highs = _solved(scaled, context, seconds, crossover="off")
    if highs is None:
        return None
    values: Sequence[Any] = highs.getSolution().row_dual
    if len(values) != len(scaled.scale):
        return None
    found = np.maximum(0.0, np.nan_to_num(np.array(values))) * scaled.cost_unit / scaled.scale
    return [float(y) for y in found]


def primal_values(
    program: LinearProgram, context: Context, seconds: float, *, vertex: bool
) -> list[float] | None:
    """Return the values of the variables in an optimum; None if none was found in time.

    Parameters
    ----------
    program, context, seconds
        As for `dual_values`.
    vertex
        Interior point with crossover: few variables of a vertex lie strictly between their bounds. Without,
        large programs take a fraction of the time.
    """
    from highspy import HighsModelStatus

    scaled = _Scaled(program)
    highs = _solved(scaled, context, seconds, crossover="on" if vertex else "off")
    if highs is None or highs.getModelStatus() != HighsModelStatus.kOptimal:
        return None
    values: Sequence[Any] = highs.getSolution().col_value
    return [float(x) for x in np.array(values) * scaled.unit]


def vertex_values(
    program: LinearProgram, context: Context, seconds: float
) -> tuple[list[float], list[float]] | None:
    """Return the values of variables and rows in an optimal vertex; None if none was found in time.

    Interior point with crossover; units as for `primal_values` and `dual_values`.

    Parameters
    ----------
    program, context, seconds
        As for `dual_values`.
    """
    from highspy import HighsModelStatus

    scaled = _Scaled(program)
    highs = _solved(scaled, context, seconds, crossover="on")
    if highs is None or highs.getModelStatus() != HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    primal = np.array(solution.col_value) * scaled.unit
    dual = np.array(solution.row_dual) * scaled.cost_unit / scaled.scale
    return [float(x) for x in primal], [float(y) for y in dual]


class _Scaled:
    """A program in its units: variables, rows and costs of moderate size."""

    def __init__(self, program: LinearProgram) -> None:
        import highspy

        self.unit = unit = np.array(program.unit, dtype=float)
        self.scale = scale = np.array(program.scale, dtype=float)
        cost = np.array(program.cost, dtype=float) * unit
        self.cost_unit = cost_unit = float(max(cost, default=1.0)) or 1.0
        first, column = np.array(program.first), np.array(program.column, dtype=np.int32)
        rows = np.repeat(np.arange(len(scale)), np.diff(first))
        self.lp = lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(unit), len(scale)
        lp.col_cost_ = cost / cost_unit
        lp.col_lower_ = np.zeros(len(unit))
        lp.col_upper_ = np.array(program.upper, dtype=float) / unit
        lp.row_lower_ = np.array(program.low, dtype=float) / scale
        lp.row_upper_ = np.full(len(scale), highspy.kHighsInf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = first.astype(np.int32)
        lp.a_matrix_.index_ = column
        lp.a_matrix_.value_ = np.array(program.value, dtype=float) * unit[column] / scale[rows]


def _solved(scaled: _Scaled, context: Context, seconds: float, *, crossover: str) -> Any | None:
    """Return HiGHS after it has run; None if its turn did not come in time, or it was abandoned."""
    import highspy

    highs = quiet_highs()
    if highs.passModel(scaled.lp) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refuses the linear program")
    highs.setOptionValue("solver", "ipm")
    highs.setOptionValue("run_crossover", crossover)
    highs.setOptionValue("threads", 1)
    context.models.append((highs.getNumCol(), highs.getNumRow()))
    end = time.perf_counter() + min(seconds, context.remaining())
    ran = False

    def work() -> None:
        nonlocal ran
        ran = run_in_turn(highs, lambda: end - time.perf_counter())

    supervisor = Supervisor(context)
    supervisor.run(work, highs.cancelSolve)
    return highs if ran and not supervisor.abandoned else None
