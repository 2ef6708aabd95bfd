r"""The arena as OLLA's whole program, in Pyomo: create and preserve by step, and addresses.

Source: Steiner et al., "OLLA: optimizing the lifetime and location of arrays to reduce the memory usage of
neural networks", arXiv 2210.12924, 2022, sections 3 and 4; there both parts are solved one after the other
for speed, here together. As in `lowtide.formulations.peak.olla_milp` one create variable for each op replaces
those of its tensors, and exactly one op runs in a step.

Data: see `data` (ops :math:`i \in I`; pieces p with :math:`s_p`, born :math:`F_p`, ends :math:`E_p`, starts
:math:`B_p`, final; pairs (a, b, i)). Bytes are in units; A is the alignment in units; :math:`U` a height that
is known to suffice.

Variables, for steps s = 0..n-1. :math:`C_{is} \in \{0, 1\}`: op i runs at step s.
:math:`P_{ps} \in [0, 1]`, s = 0..n: p exists between steps s - 1 and s; 1 for s = 0 if it is initial, else 0;
1 for s = n if it is final. :math:`L_{ps} \in [0, 1]`: p is there during step s.
:math:`v_p \in [0, 1]`: p is there at all; 1 if it is initial. :math:`k_p` integer: the address is
:math:`A k_p`. :math:`y_{pq} \in \{0, 1\}`: p lies below q. :math:`x_{abi} \in \{0, 1\}`: the pair shares an
address.
:math:`h_g`: the height of pool g; their sum is between the known bounds.

Objective. Minimize :math:`\sum_g h_g` subject to

1. :math:`\sum_s C_{is} = 1` and :math:`\sum_i C_{is} = 1`;
2. :math:`\sum_s s C_{js} + 1 \le \sum_s s C_{is}` for each direct predecessor j of i;
3. :math:`P_{ps} \le P_{p,s-1} + C_{F_p,s-1}`;
4. :math:`C_{is} \le P_{ps}` for :math:`i \in E_p \cup B_p \setminus \{F_p\}`;
5. :math:`L_{ps} \ge C_{is}` for :math:`i \in E_p`; :math:`L_{ps} \ge P_{ps}` in ``coexist``,
   :math:`L_{ps} \ge P_{p,s+1}` in ``replace``; :math:`v_p \ge L_{ps}`;
6. :math:`y_{pq} + y_{qp} + x_{pq} \ge L_{ps} + L_{qs} - 1`, x only for pairs; :math:`y_{pq} + y_{qp} \ge 1`
   if both are initial: they meet before the first op;
7. :math:`A k_p + s_p \le A k_q + (U + s_p) (1 - y_{pq})`;
8. :math:`A k_a \le A k_b + U (1 - x)`, :math:`A k_b \le A k_a + U (1 - x)`, and
   :math:`x + C_{is} + P_{a,s+1} \le 2`: a dies with i;
9. :math:`A k_p + s_p \le h_{g_p} + (U + s_p) (1 - v_p)`.

A pair that shares is only there together at i, by 8. Pieces of which one comes after all that hold the other
in every order never meet, and have no y; nor have pieces of different pools.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from ...models.derived.precedence import precedence
from ...models.graph import Accounting
from ...models.problems.arena import Addressed
from ..model import MILP_BYTES, ModelSize, Tick, ticker
from ..pyomo_terms import silent_pyomo
from .data import ArenaData, PlacedPiece

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True)
class OllaArena:
    """The Pyomo model, whose variables are called as on the page, and what it is of; `most` is U."""

    model: Any
    data: ArenaData
    most: int

    def sizes(self) -> list[int]:
        """Return the units of each piece."""
        return [p.size // self.data.unit for p in self.data.pieces]


def size(data: ArenaData) -> ModelSize:
    """Return about the counts of the model."""
    n, m = data.n, len(data.pieces)
    return ModelSize(n * n + 2 * n * m + m * m, 4 * n * m + n * m * m // 2, 8 * n * m + 4 * n * m * m // 2)


def build(
    data: ArenaData,
    *,
    lower: int = 0,
    upper: int | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> OllaArena:
    """Return the model; its objective is the height in units.

    Parameters
    ----------
    lower, upper
        Bounds that are known, in units; a solution of `upper` exists.
    """
    import pyomo.environ as pyo

    n, m = data.n, len(data.pieces)
    most = data.stacked if upper is None else upper
    model = pyo.ConcreteModel(name=f"height_in_units_of_{data.unit}_bytes")
    steps = range(n)
    model.C = pyo.Var(range(n), steps, domain=pyo.Binary)
    model.P = pyo.Var(range(m), range(n + 1), bounds=(0, 1))
    model.L = pyo.Var(range(m), steps, bounds=(0, 1))
    model.v = pyo.Var(range(m), bounds=(0, 1))
    model.k = pyo.Var(range(m), domain=pyo.NonNegativeIntegers, bounds=(0, most // data.step))
    meeting = [(p, q) for p, q in permutations(range(m), 2) if _meet(data, p, q)]
    model.y = pyo.Var(meeting, domain=pyo.Binary)
    model.x = pyo.Var(range(len(data.pairs)), domain=pyo.Binary)
    alone = lower if data.pools == 1 else 0
    model.h = pyo.Var(range(data.pools), domain=pyo.NonNegativeIntegers, bounds=(alone, max(alone, most)))
    total = sum(model.h[g] for g in range(data.pools))
    model.objective = pyo.Objective(expr=total)
    if data.pools > 1:
        model.known = pyo.Constraint(expr=total >= lower)
    built = OllaArena(model, data, most)
    tick = ticker(expired)
    with silent_pyomo():
        for add in CONSTRAINTS:
            rows = pyo.ConstraintList()
            model.add_component(add.__name__, rows)
            add(built, rows.add, tick)
    return built


def _meet(data: ArenaData, p: int, q: int) -> bool:
    """Return whether two pieces of one pool may be there at one time."""
    before = precedence(data.graph).ancestors

    def gone(a: PlacedPiece, b: PlacedPiece) -> bool:
        if a.final or b.born is None:
            return False
        past = before[b.born]
        return all(past >> i & 1 for i in a.ends) and all((past | 1 << b.born) >> i & 1 for i in a.starts)

    one, other = data.pieces[p], data.pieces[q]
    return one.pool == other.pool and not gone(one, other) and not gone(other, one)


Add = Callable[[Any], Any]


def one_each(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 1."""
    C, n = built.model.C, built.data.n
    for k in range(n):
        tick()
        add(sum(C[k, s] for s in range(n)) == 1)
        add(sum(C[i, k] for i in range(n)) == 1)


def precedes(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 2."""
    C, n = built.model.C, built.data.n
    for i, before in enumerate(precedence(built.data.graph).predecessors):
        for j in before:
            tick()
            add(sum(s * (C[i, s] - C[j, s]) for s in range(n)) >= 1)


def preserved(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 3, and where P is fixed."""
    P, C, n = built.model.P, built.model.C, built.data.n
    for k, p in enumerate(built.data.pieces):
        tick()
        P[k, 0].fix(int(p.born is None))
        if p.final:
            P[k, n].fix(1)
        for s in range(1, n + 1):
            add(P[k, s] <= P[k, s - 1] + (0 if p.born is None else C[p.born, s - 1]))


def found(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 4."""
    for k, p in enumerate(built.data.pieces):
        for i in (*p.ends, *p.starts):
            for s in range(built.data.n if i != p.born else 0):
                tick()
                add(built.model.C[i, s] <= built.model.P[k, s])


def there(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 5, and where v is fixed."""
    model, later = built.model, built.data.graph.accounting is Accounting.REPLACE
    for k, p in enumerate(built.data.pieces):
        if p.born is None:
            model.v[k].fix(1)
        for s in range(built.data.n):
            tick()
            add(model.v[k] >= model.L[k, s])
            add(model.L[k, s] >= model.P[k, s + later])
            for i in p.ends:
                add(model.L[k, s] >= model.C[i, s])


def ordered(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 6."""
    model = built.model
    shares = {frozenset((a, b)): model.x[q] for q, (a, b, _) in enumerate(built.data.pairs)}
    initial = {k for k, p in enumerate(built.data.pieces) if p.born is None}
    for p, q in model.y:
        if p < q and {p, q} <= initial:
            add(model.y[p, q] + model.y[q, p] >= 1)
            continue
        for s in range(built.data.n if p < q else 0):
            tick()
            shared = shares.get(frozenset((p, q)), 0)
            add(model.y[p, q] + model.y[q, p] + shared >= model.L[p, s] + model.L[q, s] - 1)


def below(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 7."""
    model, sizes = built.model, built.sizes()
    for p, q in model.y:
        tick()
        add(
            built.data.step * (model.k[p] - model.k[q]) + sizes[p]
            <= (built.most + sizes[p]) * (1 - model.y[p, q])
        )


def shared(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 8."""
    model = built.model
    for q, (a, b, i) in enumerate(built.data.pairs):
        tick()
        for one, other in ((a, b), (b, a)):
            add(built.data.step * (model.k[one] - model.k[other]) <= built.most * (1 - model.x[q]))
        for s in range(built.data.n):
            add(model.x[q] + model.C[i, s] + model.P[a, s + 1] <= 2)


def heights(built: OllaArena, add: Add, tick: Tick) -> None:
    """Constraint 9."""
    model = built.model
    for p, units in enumerate(built.sizes()):
        tick()
        slack = (built.most + units) * (1 - model.v[p])
        add(built.data.step * model.k[p] + units <= model.h[built.data.pieces[p].pool] + slack)


CONSTRAINTS = (one_each, precedes, preserved, found, there, ordered, below, shared, heights)
"""The numbered constraints, in order."""


def decode(built: OllaArena, value: Callable[[Any], float]) -> Addressed:
    """Return the answer of a solution."""
    n = built.data.n
    at = [sum(s * value(built.model.C[i, s]) for s in range(n)) for i in range(n)]
    order = sorted(range(n), key=at.__getitem__)
    offsets = {
        str(k): round(value(built.model.k[k])) * built.data.step * built.data.unit
        for k in range(len(built.data.pieces))
    }
    return built.data.answer(order, offsets)
