r"""Least I/O of any graph over all orders, time-indexed, in CP-SAT: order and memory at each step together.

Data: see `data`, in units: n ops with :math:`c_v`, files with :math:`f_k`, makers :math:`u_k` and users. Op v
*runs* at step t, :math:`q_{vt} = e_{v,t+1} - e_{vt}`.

Variables. :math:`e_{vt} \in \{0, 1\}`, t = 0, ..., n: whether v is among the first t ops; 0 up to the number
of ops that must run before it, 1 from n less that of those after it. :math:`r_{kt} \in [0, f_k]`: units of
file k in the memory while step t runs. :math:`w_k \in [0, f_k]`: units of file k that are written, if it is
not clean. :math:`l_{kt} \in [0, f_k]`: units that are read for step t, if reads count. Of whole files all
three are 0 or f.

Objective. Minimize :math:`\sum_k w_k + \sum_{k,t} l_{kt}` subject to

1. :math:`e_{vt} \le e_{v,t+1}` and :math:`\sum_v e_{vt} = t`;
2. :math:`e_{v,t+1} \le e_{ut}` for each u before v;
3. :math:`r_{kt} \ge f_k q_{vt}` for the maker and each user v of file k;
4. :math:`\sum_k r_{kt} + \sum_v q_{vt} (c_v - \sum_{k \text{ of } v} f_k) \le M` at each step;
5. :math:`w_k \ge f_k (e_{u_k t} - e_{v,t+1}) - r_{kt}` for each user v of a file that is not clean, and
   without the term of v if it is kept; :math:`e_{u_k t} = 1` for initial ones;
6. :math:`l_{kt} \ge r_{kt} - r_{k,t-1} - f_k q_{u_k t}`; before the first step r is f of an initial file, 0
   if it is clean.

5 and 6 speak of numbers of bytes only: bytes leave the memory from the beginning of a file on, so that those
out of it at one step are among those out of it at another, or the other way round (`data`).

Source: ours; the steps are those of the integer programs of red-blue pebbling and of Checkmate (Jain et al.,
MLSys 2020), for divisible files and with c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.problems.minio import Traversal
from ..model import CPSAT_BYTES, ModelSize
from .data import GraphData, evicted_at_once, gaps_of

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(kw_only=True)
class MinIOSteps:
    """The CP-SAT model and what its variables mean; of whole files r, w and l are binary."""

    model: Any
    data: GraphData
    executed: list[list[Any]] = field(default_factory=list)
    inside: list[list[Any]] = field(default_factory=list)
    written: dict[int, Any] = field(default_factory=dict)
    read: list[list[Any]] = field(default_factory=list)

    def run(self, v: int, t: int) -> Any:
        """Return q."""
        return self.executed[v][t + 1] - self.executed[v][t]

    def units(self, k: int) -> int:
        """Return f in units."""
        return self.data.size[k] // self.data.unit

    def most(self, k: int) -> int:
        """Return the largest value of r, w and l."""
        return 1 if self.data.whole else self.units(k)


def size(data: GraphData) -> ModelSize:
    """Return about the counts of the model."""
    n, files, uses = data.n, len(data.size), sum(map(len, data.users))
    edges = sum(map(len, data.before))
    return ModelSize(
        variables=n * n + 2 * n * files, constraints=n * (n + edges + 3 * uses), terms=n * (3 * n + 8 * uses)
    )


def build(data: GraphData, bound: int = 0, order: Sequence[int] | None = None) -> MinIOSteps:
    """Return the model; its objective is in units, what is fixed but first reads left out.

    Parameters
    ----------
    data
        No op alone exceeds the memory.
    bound
        A lower bound on the bytes that count.
    order
        Given to the variables e as a hint; None: none is.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    model.name = "minio steps"
    built = MinIOSteps(model=model, data=data)
    _variables(built)
    for constrain in (_orders, _precedence, _operands, _memory, _written, _read):
        constrain(built)
    objective = sum(built.units(k) // built.most(k) * w for k, w in built.written.items())
    objective += sum(built.units(k) // built.most(k) * x for k, row in enumerate(built.read) for x in row)
    if (least := bound - data.fixed + data.first_reads) > 0:
        model.add(objective >= -(-least // data.unit))
    model.minimize(objective)
    for t, v in enumerate(order or ()):
        for step, e in enumerate(built.executed[v]):
            model.add_hint(e, step > t)
    return built


def _variables(built: MinIOSteps) -> None:
    model, data, n = built.model, built.data, built.data.n
    before = [set[int]() for _ in range(n)]
    after = [0] * n
    for v in range(n):
        before[v].update(data.before[v], *(before[u] for u in data.before[v]))
        for u in before[v]:
            after[u] += 1
    for v in range(n):
        row = [model.new_int_var(t >= n - after[v], t > len(before[v]), f"e{v}_{t}") for t in range(n + 1)]
        built.executed.append(row)
    for k, clean in enumerate(data.clean):
        built.inside.append([model.new_int_var(0, built.most(k), f"r{k}_{t}") for t in range(n)])
        if not clean:
            built.written[k] = model.new_int_var(0, built.most(k), f"w{k}")
        if data.traffic:
            built.read.append([model.new_int_var(0, built.most(k), f"l{k}_{t}") for t in range(n)])


def _orders(built: MinIOSteps) -> None:
    """Constraint 1."""
    for row in built.executed:
        for t in range(built.data.n):
            built.model.add(row[t] <= row[t + 1])
    for t in range(built.data.n + 1):
        built.model.add(sum(row[t] for row in built.executed) == t)


def _precedence(built: MinIOSteps) -> None:
    """Constraint 2."""
    for v, some in enumerate(built.data.before):
        for u in some:
            for t in range(built.data.n):
                built.model.add(built.executed[v][t + 1] <= built.executed[u][t])


def _operands(built: MinIOSteps) -> None:
    """Constraint 3."""
    data = built.data
    for v in range(data.n):
        for k in (*data.inputs[v], *data.files_of[v]):
            for t in range(data.n):
                built.model.add(built.inside[k][t] >= built.most(k) * built.run(v, t))


def _memory(built: MinIOSteps) -> None:
    """Constraint 4."""
    data = built.data
    own = [
        data.need[v] // data.unit - sum(built.units(k) for k in (*data.inputs[v], *data.files_of[v]))
        for v in range(data.n)
    ]
    for t in range(data.n):
        files = sum(built.units(k) // built.most(k) * row[t] for k, row in enumerate(built.inside))
        ops = sum(nbytes * built.run(v, t) for v, nbytes in enumerate(own) if nbytes)
        built.model.add(files + ops <= data.memory // data.unit)


def _written(built: MinIOSteps) -> None:
    """Constraint 5."""
    data = built.data
    for k, w in built.written.items():
        u, most = data.maker[k], built.most(k)
        for t in range(data.n):
            made = built.executed[u][t] if u >= 0 else 1
            for used in (*(built.executed[v][t + 1] for v in data.users[k]), *([0] if data.kept[k] else [])):
                built.model.add(w >= most * (made - used) - built.inside[k][t])


def _read(built: MinIOSteps) -> None:
    """Constraint 6."""
    data = built.data
    for k, row in enumerate(built.read):
        u, most = data.maker[k], built.most(k)
        for t in range(data.n):
            made = built.run(u, t) if u >= 0 else 0
            before = built.inside[k][t - 1] if t else most * (u < 0 and not data.clean[k])
            built.model.add(row[t] >= built.inside[k][t] - before - most * made)


def decode(built: MinIOSteps, value: Callable[[Any], int]) -> Traversal:
    """Return the traversal of a solution: of each gap the most units that are out of the memory."""
    data = built.data
    order = sorted(range(data.n), key=lambda v: -sum(value(e) for e in built.executed[v]))
    gaps = gaps_of(data, order)
    away = []
    for gap in gaps:
        least = min((value(built.inside[gap.file][t]) for t in range(gap.begin, gap.end)), default=None)
        units = 0 if least is None else built.most(gap.file) - least
        away.append(units * (data.size[gap.file] // built.most(gap.file)))
    return evicted_at_once(data, order, gaps, away)
