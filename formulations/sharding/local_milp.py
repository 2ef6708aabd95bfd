r"""Strategies as a MILP over the local polytope: one binary of each strategy, a share of each pair.

Data: see `lowtide.formulations.sharding.data` (nodes v with strategies s of cost :math:`c_{vs}` and usage
:math:`w_{vs}`, pairs e = (u, v) of finite costs :math:`q_{est}`, sections r of time with the nodes
:math:`A_r` that are alive, limit L).

Variables. :math:`x_{vs} \in \{0, 1\}`: v has strategy s. :math:`y_{est} \in \{0, 1\}`, only of finite costs:
u has s and v has t (whole anyway, where x is; a solver that knows it rounds bounds off less). Costs that no
answer as good as a known one has are left out, too (`lowtide.formulations.sharding.data.without_dear`).

Objective. Minimize :math:`\sum c_{vs} x_{vs} + \sum q_{est} y_{est}` subject to

1. :math:`\sum_s x_{vs} = 1`;
2. :math:`\sum_t y_{est} = x_{us}` and :math:`\sum_s y_{est} = x_{vt}`;
3. :math:`\sum_{v \in A_r} (w_{vs} - w_v) x_{vs} \le L - \sum_{v \in A_r} w_v`, :math:`w_v` the least usage
   of v; in units of the greatest common divisor of the factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ...models.problems.sharding import Sharding
from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import at_most, linear
from .data import ShardingData, alive_at, sharding_data, without_dear

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES
"""Bytes per term, measured for all MILPs of the suite."""


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """The Pyomo model, and what its variables are about.

    Attributes
    ----------
    choice
        By node, the variables of its strategies that are left, by their place in the data.
    """

    model: Any
    data: ShardingData
    choice: list[dict[int, Any]]
    expired: Callable[[], bool]


def size(problem: Sharding) -> ModelSize:
    """Return about the counts of the model without building it."""
    data = sharding_data(problem)
    nodes = sum(map(len, data.left))
    pairs = sum(own.size for own in data.matrices.values())
    rows = sum(sum(own.shape) for own in data.matrices.values())
    held = sum((end - first) * len(data.left[v]) for v, (first, end) in enumerate(data.alive))
    return ModelSize(nodes + pairs, len(data.left) + rows + data.sections, nodes + 2 * pairs + rows + held)


def build(
    problem: Sharding,
    *,
    most: int | None = None,
    relaxed: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> LocalModel:
    """Return the model.

    Parameters
    ----------
    most
        Answers that cost more may be left out; None: none.
    relaxed
        Whether shares of strategies will do, as in a linear program.
    """
    import pyomo.environ as pyo

    data = sharding_data(problem)
    model = pyo.ConcreteModel(name="sharding")
    top = sum(int(row.max()) for row in (*data.costs, *data.matrices.values())) if most is None else most
    nodes, pairs = without_dear(data, top)
    keys = [(v, int(s)) for v, row in enumerate(nodes) for s in np.flatnonzero(row)]
    domain = pyo.UnitInterval if relaxed else pyo.Binary
    model.choice = pyo.Var(keys, domain=domain)
    choice: list[dict[int, Any]] = [{} for _ in nodes]
    for v, s in keys:
        choice[v][s] = model.choice[v, s]
    both = [
        (u, v, int(s), int(t))
        for (u, v), allowed in pairs.items()
        for s, t in zip(*np.nonzero(allowed), strict=True)
        if int(s) in choice[u] and int(t) in choice[v]
    ]
    model.pair = pyo.Var(both, domain=domain)
    model.rows = pyo.ConstraintList()
    built = LocalModel(model=model, data=data, choice=choice, expired=expired)
    for add in CONSTRAINTS:
        add(built)
    weights = [float(data.costs[v][s]) for v, s in keys]
    weights += [float(data.matrices[u, v][s, t]) for u, v, s, t in both]
    variables = [*model.choice.values(), *model.pair.values()]
    model.objective = pyo.Objective(expr=linear(variables, weights))
    return built


def one_each(built: LocalModel) -> None:
    """Constraint 1."""
    for row in built.choice:
        built.model.rows.add(linear([*row.values()], [1.0] * len(row)) == 1)


def marginals(built: LocalModel) -> None:
    """Constraint 2."""
    tick = ticker(built.expired)
    shares: dict[tuple[int, int, int, int], list[Any]] = {
        (*key, end, s): [] for key in built.data.matrices for end in (0, 1) for s in built.choice[key[end]]
    }
    for (u, v, s, t), share in built.model.pair.items():
        shares[u, v, 0, s].append(share)
        shares[u, v, 1, t].append(share)
    for (u, v, end, s), terms in shares.items():
        tick()
        chosen = built.choice[(u, v)[end]][s]
        built.model.rows.add(linear([*terms, chosen], [*[1.0] * len(terms), -1.0]) == 0)


def within_limit(built: LocalModel) -> None:
    """Constraint 3."""
    data, tick = built.data, ticker(built.expired)
    least = [int(row.min()) for row in data.usages]
    over = [row - low for row, low in zip(data.usages, least, strict=True)]
    for nodes in alive_at(data):
        tick()
        terms = [(int(over[v][s]), x) for v in nodes for s, x in built.choice[v].items() if over[v][s]]
        room = data.limit - sum(least[v] for v in nodes)
        if sum(int(over[v].max()) for v in nodes) <= room:
            continue
        unit = gcd(*(weight for weight, _ in terms)) or 1
        at_most(built.model.rows, [(float(weight // unit), x) for weight, x in terms], room // unit)


CONSTRAINTS = (one_each, marginals, within_limit)


def decode(built: LocalModel, value: Callable[[Any], float]) -> tuple[int, ...] | None:
    """Return the strategies of a solution; None if some node has only shares of some."""
    chosen = []
    for v, row in enumerate(built.choice):
        s = max(row, key=lambda k: value(row[k]))
        if value(row[s]) < 0.5:
            return None
        chosen.append(int(built.data.left[v][s]))
    return tuple(chosen)
