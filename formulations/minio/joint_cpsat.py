r"""Least I/O over all orders as intervals in CP-SAT: order and evictions together.

Data: see `data`, in units. :math:`B_v`: a bound on the units that are written of the files between
nodes of the subtree of v (`lowtide.solvers.minio.bounds`).

Variables. :math:`x_v`: the place of node v in the order, from the number of nodes below it to n - 1 less
that of the nodes above it. :math:`w_k \in [0, f_k]`: units of file k that are written; for whole files
:math:`w_k = f_k z_k` with :math:`z_k \in \{0, 1\}`.

Objective. Minimize :math:`\sum_k w_k` subject to

1. no two nodes have the same place;
2. :math:`x_u + 1 \le x_p` for each node u with parent p;
3. at any place the nodes there, :math:`[x_v, x_v + 1)` with :math:`c_v`, and the files that wait,
   :math:`[x_{u_k} + 1, x_{p_k})` with :math:`f_k - w_k`, have at most M units; a whole file that is written
   is absent;
4. (redundant) :math:`\sum w_k \ge B_v` over the files between nodes of the subtree of v, where it is above
   that of its children together.

1 changes no optimum: nodes at one place may run one after another, since :math:`c_v` counts all files that v
reads and writes.

Source: ours; a cumulative resource with consumptions that the solver chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.problems.minio import Traversal
from ..model import CPSAT_BYTES, ModelSize
from .data import MinIOData, written_at_once

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(kw_only=True)
class MinIOModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: MinIOData
    place: list[Any] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)
    """By file: w, or z of whole files."""


def size(data: MinIOData) -> ModelSize:
    """Return about the counts of the model, without (4)."""
    n, files = data.n, len(data.size)
    return ModelSize(variables=n + 3 * files, constraints=n + 3 * files, terms=4 * n + 9 * files)


def build(data: MinIOData, bounds: Sequence[int], hint: Traversal | None = None) -> MinIOModel:
    """Return the model; its objective is in units.

    Parameters
    ----------
    data
        No node alone exceeds the memory.
    bounds
        B of each node in bytes.
    hint
        A traversal whose values are given to the places and to what is written.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    model.name = "minio"
    built = MinIOModel(model=model, data=data)
    below, above = [0] * data.n, [0] * data.n
    for v, parent in enumerate(data.parent[:-1]):
        below[parent] += below[v] + 1
    for v in range(data.n - 2, -1, -1):
        above[v] = above[data.parent[v]] + 1
    for v in range(data.n):
        built.place.append(model.new_int_var(below[v], data.n - 1 - above[v], f"x{v}"))
    for k, size in enumerate(data.size):
        most = 1 if data.whole else size // data.unit
        built.written.append(model.new_int_var(0, most, f"w{k}"))
    for constrain in (_places, _precedence, _memory):
        constrain(built)
    _subtrees(built, bounds)
    model.minimize(sum(_units(built, k) * w for k, w in enumerate(built.written)))
    if hint is not None:
        _hint(built, hint)
    return built


def _units(built: MinIOModel, k: int) -> int:
    """Return how many units one of the variable of file k stands for."""
    return built.data.size[k] // built.data.unit if built.data.whole else 1


def _places(built: MinIOModel) -> None:
    """Constraint 1."""
    built.model.add_all_different(built.place)


def _precedence(built: MinIOModel) -> None:
    """Constraint 2."""
    for v, parent in enumerate(built.data.parent[:-1]):
        built.model.add(built.place[v] + 1 <= built.place[parent])


def _memory(built: MinIOModel) -> None:
    """Constraint 3."""
    data, model = built.data, built.model
    intervals, demands = [], []
    for v, need in enumerate(data.need):
        intervals.append(model.new_fixed_size_interval_var(built.place[v], 1, f"run {v}"))
        demands.append(need // data.unit)
    for k, size in enumerate(data.size):
        begin, end = built.place[data.maker[k]] + 1, built.place[data.user[k]]
        length = model.new_int_var(0, data.n, f"l{k}")
        model.add(length == end - begin)
        if data.whole:
            kept = model.new_bool_var(f"kept{k}")
            model.add(kept + built.written[k] == 1)
            intervals.append(model.new_optional_interval_var(begin, length, end, kept, f"file {k}"))
            demands.append(size // data.unit)
        else:
            intervals.append(model.new_interval_var(begin, length, end, f"file {k}"))
            demands.append(size // data.unit - built.written[k])
    model.add_cumulative(intervals, demands, data.memory // data.unit)


def _subtrees(built: MinIOModel, bounds: Sequence[int]) -> None:
    """Constraint 4."""
    data = built.data
    inner: list[list[int]] = []
    for v, children in enumerate(data.children):
        inner.append([k for c in children for k in (*inner[c], *data.files_of[c])])
        if bounds[v] > sum(bounds[c] for c in children):
            written = sum(_units(built, k) * built.written[k] for k in inner[v])
            built.model.add(written >= -(-bounds[v] // data.unit))


def _hint(built: MinIOModel, traversal: Traversal) -> None:
    data, file = built.data, {t: k for k, t in enumerate(built.data.tensor)}
    for step, v in enumerate(traversal.order):
        built.model.add_hint(built.place[v], step)
    written = [0] * len(data.size)
    for eviction in traversal.evictions:
        written[file[eviction.tensor]] += eviction.nbytes
    for k, nbytes in enumerate(written):
        built.model.add_hint(built.written[k], nbytes // data.unit // _units(built, k))


def decode(built: MinIOModel, value: Callable[[Any], int]) -> Traversal:
    """Return the traversal of a solution."""
    data = built.data
    order = sorted(range(data.n), key=lambda v: value(built.place[v]))
    written = [value(w) * _units(built, k) * data.unit for k, w in enumerate(built.written)]
    return written_at_once(data, order, written)
