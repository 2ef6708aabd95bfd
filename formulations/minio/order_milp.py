r"""Least I/O of a given order: a covering program over steps, linear for divisible files.

Data: see `data`, in units. With :math:`W_v` the gaps that are open while op v runs in the order, op v
*demands* :math:`D_v = \sum_{g \in W_v} f_{k(g)} + c_v - M`. A gap *costs* one for each unit that is read at
its end, if reads count, and one for each unit that is written, which gaps of a file share. Gaps that cost
nothing, of clean files if reads do not count, are not among these: their files are evicted.

Variables. :math:`a_g \in [0, f_{k(g)}]`: units that are out of the memory in gap g; for whole files
:math:`a_g = f z_g` with :math:`z_g \in \{0, 1\}`. If reads do not count, the gaps of a file have one
variable: what is written once is out of all. Else :math:`w_k`, alike: units of a file with several gaps that
are written.

Objective. Minimize the costs, :math:`\sum_g a_g` in trees, subject to

1. :math:`\sum_{g \in W_v} a_g \ge D_v` for each op v with :math:`D_v > 0`;
2. :math:`w_k \ge a_g` for each gap g of a file k with several gaps that is not clean, if reads count.

Where each file that must be written has one gap, the columns of (1) have consecutive ones: for divisible
files the matrix is totally unimodular and vertices are integral. Where it has several, the linear program may
have fractions of a byte, and :math:`w` is an integer. For whole files (1) are knapsacks, and the problem is
NP-hard.

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
from .data import FileGap, GraphData, evicted_at_once, gaps_of

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True, kw_only=True)
class Demand:
    """An op with a demand: the gaps that are open there, by number, and D in bytes."""

    gaps: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class OrderModel:
    """The Pyomo model of an order's demands, and by number the variable of each gap that one mentions."""

    model: Any
    data: GraphData
    order: Sequence[int]
    gaps: Sequence[FileGap]
    demands: Sequence[Demand]
    variables: dict[int, Any]


def demands(data: GraphData, order: Sequence[int]) -> list[Demand]:
    """Return the demands above 0 of an order, in its sequence.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 6, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> demands(data, (0, 1, 2))
    [Demand(gaps=(0,), nbytes=2)]
    """
    begins: list[list[int]] = [[] for _ in range(data.n + 1)]
    ends: list[list[int]] = [[] for _ in range(data.n + 1)]
    gaps = gaps_of(data, order)
    for g, gap in enumerate(gaps):
        if gap.end > gap.begin and not _free(data, gap):
            begins[gap.begin].append(g)
            ends[gap.end].append(g)
    waiting: dict[int, None] = {}
    held, listed = 0, []
    for step, v in enumerate(order):
        for g in ends[step]:
            del waiting[g]
            held -= data.size[gaps[g].file]
        for g in begins[step]:
            waiting[g] = None
            held += data.size[gaps[g].file]
        if (nbytes := held + data.need[v] - data.memory) > 0:
            listed.append(Demand(gaps=tuple(waiting), nbytes=nbytes))
    return listed


def _free(data: GraphData, gap: FileGap) -> bool:
    """Return whether a gap costs nothing."""
    return data.clean[gap.file] and not (data.traffic and gap.read)


def size(rows: Sequence[Demand]) -> ModelSize:
    """Return the counts of the model of a tree; in other graphs gaps of a file may share variables."""
    gaps = {g for demand in rows for g in demand.gaps}
    terms = sum(len(demand.gaps) for demand in rows)
    return ModelSize(variables=len(gaps), constraints=len(rows), terms=terms + len(gaps))


def build(data: GraphData, order: Sequence[int]) -> OrderModel:
    """Return the model of an order; its objective is in units, `GraphData.fixed` left out."""
    import pyomo.environ as pyo

    rows, gaps = demands(data, order), gaps_of(data, order)
    used = sorted({g for demand in rows for g in demand.gaps})
    of_file = _gaps_of_files(gaps, used)
    shared = {k for k, some in of_file.items() if len(some) > 1 and not data.clean[k]}
    first = {g: g if data.traffic or gaps[g].file not in shared else of_file[gaps[g].file][0] for g in used}
    own = sorted(set(first.values()))
    weight = {g: data.size[gaps[g].file] // data.unit if data.whole else 1 for g in used}
    with silent_pyomo():
        model = pyo.ConcreteModel()
        model.z = _variables(data, own, gaps, set() if data.traffic else shared)
        model.rows = pyo.ConstraintList()
        for demand in rows:
            some = list(dict.fromkeys(first[g] for g in demand.gaps))
            body = linear([model.z[g] for g in some], [weight[g] for g in some])
            model.rows.add((-(-demand.nbytes // data.unit), body, None))  # (1)
        terms = [(model.z[g], _cost(data, gaps[g], shared) * weight[g]) for g in own]
        if data.traffic:
            model.w = _variables(data, [of_file[k][0] for k in sorted(shared)], gaps, shared)
            for k in sorted(shared):
                w = model.w[of_file[k][0]]
                for g in of_file[k]:
                    model.rows.add(w >= model.z[g])  # (2)
                terms.append((w, weight[of_file[k][0]]))
        model.objective = pyo.Objective(expr=linear([x for x, _ in terms], [cost for _, cost in terms]))
    variables = {g: model.z[first[g]] for g in used}
    return OrderModel(model=model, data=data, order=order, gaps=gaps, demands=rows, variables=variables)


def _gaps_of_files(gaps: Sequence[FileGap], used: Sequence[int]) -> dict[int, list[int]]:
    of_file: dict[int, list[int]] = {}
    for g in used:
        of_file.setdefault(gaps[g].file, []).append(g)
    return of_file


def _variables(data: GraphData, numbers: Sequence[int], gaps: Sequence[FileGap], integers: set[int]) -> Any:
    """Return a variable for each gap in units, or binary; those of some files are integers."""
    import pyomo.environ as pyo

    if data.whole:
        return pyo.Var(numbers, domain=pyo.Binary)
    return pyo.Var(
        numbers,
        domain=lambda _, g: pyo.Integers if gaps[g].file in integers else pyo.Reals,
        bounds=lambda _, g: (0, data.size[gaps[g].file] // data.unit),
    )


def _cost(data: GraphData, gap: FileGap, shared: set[int]) -> int:
    """Return what a unit of the variable of a gap costs."""
    writes = not data.clean[gap.file] and not (data.traffic and gap.file in shared)
    return writes + (data.traffic and gap.read)


def decode(built: OrderModel, value: Callable[[Any], float]) -> Traversal | None:
    """Return the traversal of a solution; None if it meets a demand within a solver's tolerances only."""
    data, gaps = built.data, built.gaps
    away = [data.size[gap.file] if _free(data, gap) else 0 for gap in gaps]
    for g, variable in built.variables.items():
        factor = data.size[gaps[g].file] if data.whole else data.unit
        away[g] = round(value(variable)) * factor
    if any(sum(away[g] for g in demand.gaps) < demand.nbytes for demand in built.demands):
        return None
    return evicted_at_once(data, built.order, gaps, away)
