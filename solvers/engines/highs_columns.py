"""HiGHS: a linear program to which columns are added, and whole numbers of some of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..context import Context
from .highs_scheduler import run_in_turn
from .supervise import Supervisor
from .tried import quiet_highs

Floats = NDArray[np.float64]
Column = tuple[float, Any, Any]
"""Its cost, the numbers of its rows, its values there."""

NODES = 200
"""Of the search for whole numbers: most of its gain is at the root, and it ends without a clock."""

GAP = 1e-5
"""Of that search: what is found is a plan, not a proof."""


class ColumnProgram:
    """Minimize cost x subject to low <= A x <= high, x >= 0; the simplex method goes on from its last basis.

    Parameters
    ----------
    low, high
        By row; infinite where there is no limit.
    context
        Its limits and its seed count.
    """

    def __init__(self, low: Floats, high: Floats, context: Context) -> None:
        import highspy

        self.context, self.rows, self.columns = context, len(low), 0
        self.reason: str | None = None  # why the last run was asked to stop
        self.highs = highs = quiet_highs()
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("random_seed", context.seed % 2**31)
        highs.setOptionValue("solver", "simplex")
        lp = highspy.HighsLp()
        lp.num_row_, lp.row_lower_, lp.row_upper_ = self.rows, low, high
        lp.a_matrix_.start_ = np.zeros(1, np.int32)
        if highs.passModel(lp) == highspy.HighsStatus.kError:
            raise RuntimeError("HiGHS refuses the rows of a linear program")

    def add(self, columns: Sequence[Column]) -> None:
        """Add columns."""
        if not columns:
            return
        count = len(columns)
        lengths = [len(rows) for _, rows, _ in columns]
        start = np.cumsum([0, *lengths[:-1]]).astype(np.int32)
        index = np.concatenate([rows for _, rows, _ in columns]).astype(np.int32)
        value = np.concatenate([values for _, _, values in columns]).astype(float)
        cost = np.array([cost for cost, _, _ in columns], float)
        self.highs.addCols(
            count, cost, np.zeros(count), np.full(count, np.inf), len(index), start, index, value
        )
        self.columns += count

    def solve(self) -> tuple[float, Floats] | None:
        """Return the optimum and a dual value by row; None if there is none, or not in time."""
        from highspy import HighsModelStatus

        if not self._run() or self.highs.getModelStatus() != HighsModelStatus.kOptimal:
            return None
        return self.highs.getInfo().objective_function_value, np.array(self.highs.getSolution().row_dual)

    def values(self) -> Floats:
        """Return the values of the columns after `solve`."""
        return np.array(self.highs.getSolution().col_value)

    def choose(self, whole: range, seconds: float) -> Floats | None:
        """Return the best values that were found of the columns, some of them whole; no `solve` afterwards.

        Parameters
        ----------
        whole
            The numbers of those that are.
        seconds
            At most; may be infinite.
        """
        import highspy

        self.context.models.append((self.columns, self.rows))
        numbers = np.array(whole, np.int32)
        kinds = np.full(len(numbers), highspy.HighsVarType.kInteger)
        self.highs.changeColsIntegrality(len(numbers), numbers, kinds)
        for name, setting in (("mip_rel_gap", GAP), ("mip_max_nodes", NODES), ("solver", "choose")):
            self.highs.setOptionValue(name, setting)
        ran = self._run(seconds)
        feasible = highspy.SolutionStatus.kSolutionStatusFeasible
        if not ran or self.highs.getInfo().primal_solution_status != feasible:
            return None
        return np.array(self.highs.getSolution().col_value)

    def _run(self, seconds: float = math.inf) -> bool:
        """Run HiGHS for so many seconds at most; return whether it has run."""
        before, ran = self.highs.getRunTime(), False  # its time limit counts all of its runs

        def left() -> float:
            return min(seconds, self.context.remaining()) + (0.0 if self.context.expired else before)

        def work() -> None:
            nonlocal ran
            ran = run_in_turn(self.highs, left)

        supervisor = Supervisor(self.context)
        supervisor.run(work, self.highs.cancelSolve)
        self.reason = supervisor.reason
        return ran and not supervisor.abandoned
