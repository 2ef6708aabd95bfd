r"""Least I/O of a given order: a covering program over steps, linear for divisible files.

Data: see `data`, in units. With :math:`W_v` the files that wait while node v runs in the order, node v
*demands* :math:`D_v = \sum_{k \in W_v} f_k + c_v - M`.

Variables. :math:`w_k \in [0, f_k]`: units of file k that are written. For whole files :math:`w_k = f_k z_k`
with :math:`z_k \in \{0, 1\}`.

Objective. Minimize :math:`\sum_k w_k` subject to

1. :math:`\sum_{k \in W_v} w_k \ge D_v` for each node v with :math:`D_v > 0`.

Each file waits for an interval of steps: the columns of (1) have consecutive ones, so that for divisible
files the matrix is totally unimodular and vertices are integral. For whole files (1) are knapsacks, and the
problem is NP-hard.

Source: ours, for the model of M. Jacquelin, L. Marchal, Y. Robert, B. Uçar, "On optimal tree traversals for
sparse matrix factorization", IPDPS 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...models.problems.minio import Traversal
from ..model import MILP_BYTES, ModelSize
from ..pyomo_terms import linear, silent_pyomo
from .data import MinIOData, written_at_once

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A node with a demand: the files that wait there, and D in bytes."""

    files: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class OrderModel:
    """The Pyomo model of an order's demands, and w or z of each file that one mentions."""

    model: Any
    data: MinIOData
    order: Sequence[int]
    demands: Sequence[Demand]
    variables: dict[int, Any]


def demands(data: MinIOData, order: Sequence[int]) -> list[Demand]:
    """Return the demands above 0 of an order, in its sequence.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 6, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> demands(data, (0, 1, 2))
    [Demand(files=(0,), nbytes=2)]
    """
    waiting: dict[int, None] = {}
    held, listed = 0, []
    for v in order:
        for child in data.children[v]:
            for k in data.files_of[child]:
                del waiting[k]
                held -= data.size[k]
        if (nbytes := held + data.need[v] - data.memory) > 0:
            listed.append(Demand(files=tuple(waiting), nbytes=nbytes))
        for k in data.files_of[v]:
            waiting[k] = None
            held += data.size[k]
    return listed


def size(rows: Sequence[Demand]) -> ModelSize:
    """Return the counts of the model."""
    files = {k for demand in rows for k in demand.files}
    terms = sum(len(demand.files) for demand in rows)
    return ModelSize(variables=len(files), constraints=len(rows), terms=terms + len(files))


def build(data: MinIOData, order: Sequence[int]) -> OrderModel:
    """Return the model of an order; its objective is in units."""
    import pyomo.environ as pyo

    unit, rows = data.unit, demands(data, order)
    files = sorted({k for demand in rows for k in demand.files})
    with silent_pyomo():
        model = pyo.ConcreteModel()
        if data.whole:
            model.z = pyo.Var(files, domain=pyo.Binary)
        else:
            model.z = pyo.Var(files, bounds=lambda _, k: (0, data.size[k] // unit))
        weight = {k: data.size[k] // unit if data.whole else 1 for k in files}
        model.rows = pyo.ConstraintList()
        for demand in rows:
            body = linear([model.z[k] for k in demand.files], [weight[k] for k in demand.files])
            model.rows.add((-(-demand.nbytes // unit), body, None))  # (1)
        model.objective = pyo.Objective(expr=linear([model.z[k] for k in files], [weight[k] for k in files]))
    return OrderModel(
        model=model, data=data, order=order, demands=rows, variables={k: model.z[k] for k in files}
    )


def decode(built: OrderModel, value: Callable[[Any], float]) -> Traversal | None:
    """Return the traversal of a solution; None if it meets a demand within a solver's tolerances only."""
    data, written = built.data, [0] * len(built.data.size)
    for k, variable in built.variables.items():
        factor = data.size[k] if data.whole else data.unit
        written[k] = round(value(variable)) * factor
    if any(sum(written[k] for k in demand.files) < demand.nbytes for demand in built.demands):
        return None
    return written_at_once(data, built.order, written)
