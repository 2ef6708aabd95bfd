r"""Strategies as a MILP over the local polytope: one binary of each label, a share of each pair.

Data: see `lowtide.formulations.sharding.data` (groups v with labels s of cost :math:`c_{vs}`, pairs
e = (u, v) of finite costs :math:`q_{est}`, sections r of time with usages :math:`w_{vsr}` above the least
and room :math:`R_r`, costs C of what is settled).

Variables. :math:`x_{vs} \in \{0, 1\}`: v has label s. :math:`y_{est} \in \{0, 1\}`, only of finite costs:
u has s and v has t (whole anyway, where x is; a solver that knows it rounds bounds off less). Labels and
pairs that no answer as good as a known one has are left out, too (`lowtide.formulations.sharding.prices`).
Where a room is negative there is no answer, and no model is built.

Objective. Minimize :math:`C + \sum c_{vs} x_{vs} + \sum q_{est} y_{est}` subject to

1. :math:`\sum_s x_{vs} = 1`;
2. :math:`\sum_t y_{est} = x_{us}` and :math:`\sum_s y_{est} = x_{vt}`;
3. :math:`\sum_v \sum_s w_{vsr} x_{vs} \le R_r`; of all sections, or of those that are asked for: what is
   left out lowers the optimum at most. In units k of the greatest common divisor of the factors; where they
   are larger than `LARGEST_FACTOR` then, in larger units: :math:`\sum \lfloor w / k \rfloor x \le \lfloor
   R / k \rfloor` holds for every answer, whose left side is an integer of at most R / k.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ...models.problems.sharding import Sharding
from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import at_most, linear
from .data import INFINITE, ShardingData, merged_data
from .prices import Masks, plain, without_dear

ENGINE = "milp"
Kept = tuple[list[Masks], dict[tuple[int, int], Masks]]
LARGEST_FACTOR = 2**22
"""Of constraint 3: engines take larger numbers for rough ones, and lower bounds by a part of them."""

BYTES_PER_TERM = MILP_BYTES
"""Bytes per term, measured for all MILPs of the suite."""


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """The Pyomo model, and what its variables are about.

    Attributes
    ----------
    choice
        By group, the variables of its labels that are left.
    sections
        Those that constraint 3 is about.
    """

    model: Any
    data: ShardingData
    choice: list[dict[int, Any]]
    sections: Collection[int]
    expired: Callable[[], bool]


def size(
    problem: Sharding,
    *,
    data: ShardingData | None = None,
    sections: Collection[int] | None = None,
    kept: Kept | None = None,
) -> ModelSize:
    """Return about the counts of the model without building it; arguments as for `build`."""
    data = data or merged_data(problem.network)
    labels, pairs = kept or without_dear(plain(data), INFINITE)
    nodes, shares = sum(int(row.sum()) for row in labels), sum(int(own.sum()) for own in pairs.values())
    rows = sum(sum(own.shape) for own in pairs.values())
    alive = np.zeros(len(data.room) + 1, np.int64)
    for pieces in data.pieces:
        for first, end, row in pieces:
            alive[first] += np.count_nonzero(row)
            alive[end] -= np.count_nonzero(row)
    held = np.cumsum(alive)[:-1]
    asked = [*(range(len(data.room)) if sections is None else sections)]
    terms = nodes + 2 * shares + rows + int(held[asked].sum())
    return ModelSize(nodes + shares, len(labels) + rows + len(asked), terms)


def build(
    problem: Sharding,
    *,
    data: ShardingData | None = None,
    sections: Collection[int] | None = None,
    kept: Kept | None = None,
    relaxed: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> LocalModel:
    """Return the model.

    Parameters
    ----------
    data
        Groups and labels; None: all that any answer may have, so that constraints can be added to the model.
    sections
        Those of constraint 3; None: all.
    kept
        By group the labels, and by pair the pairs of labels that answers may have; None: all of finite cost.
    relaxed
        Whether shares of strategies will do, as in a linear program.
    """
    import pyomo.environ as pyo

    data = data or merged_data(problem.network, expired)
    model = pyo.ConcreteModel(name="sharding")
    labels, pairs = kept or without_dear(plain(data), INFINITE)
    keys = [(v, int(s)) for v, row in enumerate(labels) for s in np.flatnonzero(row)]
    domain = pyo.UnitInterval if relaxed else pyo.Binary
    model.choice = pyo.Var(keys, domain=domain)
    choice: list[dict[int, Any]] = [{} for _ in labels]
    for v, s in keys:
        choice[v][s] = model.choice[v, s]
    both = [
        (u, v, int(s), int(t))
        for (u, v), allowed in pairs.items()
        for s, t in zip(*np.nonzero(allowed & labels[u][:, None] & labels[v][None, :]), strict=True)
    ]
    model.pair = pyo.Var(both, domain=domain)
    model.rows = pyo.ConstraintList()
    asked = range(len(data.room)) if sections is None else sections
    built = LocalModel(model=model, data=data, choice=choice, sections=asked, expired=expired)
    for add in CONSTRAINTS:
        add(built)
    weights = [float(data.costs[v][s]) for v, s in keys]
    weights += [float(data.matrices[u, v][s, t]) for u, v, s, t in both]
    variables = [*model.choice.values(), *model.pair.values()]
    model.objective = pyo.Objective(expr=linear(variables, weights, data.fixed))
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
    asked = np.array(sorted(built.sections), np.int64)
    rows: list[list[tuple[int, Any]]] = [[] for _ in asked]
    for pieces, labels in zip(data.pieces, built.choice, strict=True):
        tick()
        for first, end, used in pieces:
            terms = [(int(used[s]), x) for s, x in labels.items() if used[s]]
            for k in range(*np.searchsorted(asked, (first, end)).tolist()):
                rows[k] += terms
    for r, terms in zip(asked.tolist(), rows, strict=True):
        tick()
        room, unit = int(data.room[r]), gcd(*(weight for weight, _ in terms)) or 1
        most = max((weight for weight, _ in terms), default=0)
        unit = max(unit, -(-most // LARGEST_FACTOR))
        if terms:
            at_most(built.model.rows, [(float(weight // unit), x) for weight, x in terms], room // unit)


CONSTRAINTS = (one_each, marginals, within_limit)


def decode(built: LocalModel, value: Callable[[Any], float]) -> list[int] | None:
    """Return the strategies of a solution; None if a group has only shares of some."""
    chosen = []
    for row in built.choice:
        s = max(row, key=lambda k: value(row[k]))
        if value(row[s]) < 0.5:
            return None
        chosen.append(s)
    return built.data.choice(chosen)
