"""HiGHS: solve a large linear program approximately, for its dual values."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import Context
from .supervise import Supervisor

if TYPE_CHECKING:
    from ...formulations.placement_samples import LinearProgram

_one_at_a_time = threading.Lock()


def dual_values(program: LinearProgram, context: Context, seconds: float) -> list[float] | None:
    """Return a value of at least 0 per row, near those of an optimal dual solution; None if there is none.

    Interior point without crossover, on the program scaled as it says; in units of cost per unit of the row's
    own right-hand side. Nothing is promised about them: `dual_bound` makes a bound of any.

    Parameters
    ----------
    program
        A minimization.
    context
        Its threads, seed and memory limit count.
    seconds
        Time limit.
    """
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    unit, scale = np.array(program.unit, dtype=float), np.array(program.scale, dtype=float)
    first, column = np.array(program.first), np.array(program.column, dtype=np.int32)
    rows = np.repeat(np.arange(len(scale)), np.diff(first))
    cost_unit = float(max(np.array(program.cost, dtype=float) * unit, default=1.0)) or 1.0
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(unit), len(scale)
    lp.col_cost_ = np.array(program.cost, dtype=float) * unit / cost_unit
    lp.col_lower_ = np.zeros(len(unit))
    lp.col_upper_ = np.array(program.upper, dtype=float) / unit
    lp.row_lower_ = np.array(program.low, dtype=float) / scale
    lp.row_upper_ = np.full(len(scale), highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = first.astype(np.int32)
    lp.a_matrix_.index_ = column
    lp.a_matrix_.value_ = np.array(program.value, dtype=float) * unit[column] / scale[rows]
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refuses the linear program")
    highs.setOptionValue("solver", "ipm")
    highs.setOptionValue("run_crossover", "off")
    highs.setOptionValue("threads", 1)
    if math.isfinite(seconds):
        highs.setOptionValue("time_limit", max(0.01, seconds))

    def work() -> None:
        with _one_at_a_time:
            highs.run()

    supervisor = Supervisor(context)
    supervisor.run(work, highs.cancelSolve)
    if supervisor.abandoned:
        return None
    values: Sequence[Any] = highs.getSolution().row_dual
    if len(values) != len(scale):
        return None
    found = np.maximum(0.0, np.nan_to_num(np.array(values))) * cost_unit / scale
    return [float(y) for y in found]
