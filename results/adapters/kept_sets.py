r"""What to keep between two lives: a temporal knapsack, solved by CP-SAT.

Data. Instants :math:`e`, at each of which :math:`b_e` bytes are held if nothing is kept. Items
:math:`i \in I` with value :math:`v_i \ge 0`, and :math:`d_{ie}`: the bytes by which :math:`b_e` changes if i
is kept. Memory :math:`M`. Variables :math:`x_i \in \{0, 1\}`: i is kept.

Objective. Minimize :math:`\sum_i v_i (1 - x_i)` subject to :math:`b_e + \sum_i d_{ie} x_i \le M` for each e.
Of instants with equal :math:`d_{\cdot e}` only the one with the largest :math:`b_e` is needed.

Source: M. Bartlett, A. Frisch, Y. Hamadi, I. Miguel, A. Tarim, C. Unsworth, The temporal knapsack problem and
its solution, CPAIOR 2005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...solvers.engines.cpsat import NARROW


@dataclass(frozen=True)
class KnapsackItem:
    """What can be kept.

    Parameters
    ----------
    value
        What it costs if it is not kept.
    change
        By instant, the bytes by which more is held if it is kept.
    """

    value: int
    change: Mapping[int, int]


@dataclass(frozen=True)
class Kept:
    """Items that are kept, by number, and a proved lower bound on the value of the others.

    The status is ``optimal`` or ``feasible``; ``infeasible``: nothing is within the memory; ``unknown``: the
    time ended before a choice was met, and nothing is kept.
    """

    items: tuple[int, ...]
    bound: int
    status: str


def kept_sets(
    base: Sequence[int], items: Sequence[KnapsackItem], memory: int, time_limit: float, seed: int
) -> Kept:
    """Return the items to keep.

    Parameters
    ----------
    base
        Bytes that are held at each instant if nothing is kept.
    memory
        Bytes.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    keep = [model.new_bool_var("") for _ in items]
    changes: list[list[tuple[int, int]]] = [[] for _ in base]
    for i, item in enumerate(items):
        for e, nbytes in item.change.items():
            changes[e].append((i, nbytes))
    rows: dict[tuple[tuple[int, int], ...], int] = {}
    for e, nbytes in enumerate(base):
        key = tuple(changes[e])
        rows[key] = max(rows.get(key, 0), nbytes)
    for row, nbytes in rows.items():
        if row:
            model.add(sum(x * keep[i] for i, x in row) <= memory - nbytes)
        elif nbytes > memory:
            return Kept((), 0, "infeasible")
    total = sum(item.value for item in items)
    model.maximize(sum(item.value * x for item, x in zip(items, keep, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.random_seed, solver.parameters.num_workers = seed, 1
    solver.parameters.presolve_inclusion_work_limit = int(NARROW["presolve_inclusion_work_limit"])
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Kept((), 0, "infeasible")
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Kept((), 0, "unknown")
    chosen = tuple(i for i, x in enumerate(keep) if solver.boolean_value(x))
    bound = max(0, total - int(solver.best_objective_bound))
    return Kept(chosen, bound, "optimal" if status == cp_model.OPTIMAL else "feasible")
