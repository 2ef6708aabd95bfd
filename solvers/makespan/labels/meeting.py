r"""Labels of the reversed problem, as bounds for labels that come from the beginning.

Let a label have started the ops S by the time t, and let Q be those of them that run on after t. In a
schedule that continues it the ops :math:`R = Q \cup (V \setminus S)` end last: after t, when the others have
ended. With time running backwards R is what has started first, so a relaxed pass over the reversed problem
that dropped nothing, for the same limit or a higher one, and whose labels do not wait, has a label r of the
set R (one that dominates what the schedule is then) with, in that schedule of makespan C,

* :math:`C \ge bound_r`;
* :math:`t_r \le C - m` for the least end m of the ops of R: their last start backwards;
* each op i that runs in r until :math:`e^r_i` starts at :math:`s_i \le C - e^r_i`, or has ended (backwards)
  by the time C - m, so :math:`C \ge e^r_i + \min(s_i, m)`.

Of the label :math:`s_i` is known for Q, and is at least t for the others; m is at least t, and at least the
lesser of the least end in Q and t plus the least duration of the others. So the least over the labels r of R
of

.. math::  \max \{bound_r,\ t_r + m,\ e^r_i + s_i\ (i \in Q),\ e^r_i + t\ (i \notin S)\}

bounds every schedule that continues the label. It holds of labels that are schedules, not of merged ones: in
what these stand for, other ops may run. A label that dominates merged ones stands for them too; if no
schedule below the limit continues it, none continues these. If there is no label of R below the limit of the
reversed pass, no schedule below it continues the label.

Source: bounded bidirectional dynamic programming (Righini and Salani, Discrete Optimization 3, 2006) joins
labels of both directions; here one direction is relaxed and bounds the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....models.arrays import Integers
from ...engines.arrays import Rows, Rows8


class Others(NamedTuple):
    """Labels of the other direction by set.

    Attributes
    ----------
    table, row
        A hash table of sets, and by place the number of the set.
    at
        By number: where its labels begin, and one number more.
    time, ops, ends, bound
        Of the labels.
    """

    table: Integers
    row: Integers
    at: Integers
    time: Integers
    ops: Rows8
    ends: Rows
    bound: Integers


def no_others(processors: int) -> Others:
    """Return that there are none."""
    none = np.empty(0, dtype=np.int64)
    return Others(
        none, none, none, none, np.empty((0, processors), np.int8), np.empty((0, processors), np.int64), none
    )


def others_of(levels: list[tuple[Any, ...]]) -> Others:
    """Return the labels of a pass, given level by level as ``set, time, ops, ends, bound``."""
    from .ideals_kernel import numbered

    sets, time, ops, ends, bound = (np.concatenate(x) for x in zip(*levels, strict=True))
    order = np.lexsort((bound, sets))
    keys, first = np.unique(sets[order], return_index=True)
    table, row = numbered(keys)
    at = np.concatenate([first, [len(order)]]).astype(np.int64)
    return Others(table, row, at, time[order], ops[order], ends[order], bound[order])
