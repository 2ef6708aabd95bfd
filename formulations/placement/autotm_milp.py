r"""Tensor placement by AutoTM's MILP: every tensor takes a path through tiers, from op to op.

Source: Hildebrand, Khan, Trika, Lowe-Power and Akella, "AutoTM: automatic tensor movement in heterogeneous
memory systems using integer linear programming", ASPLOS 2020, and the optimizer of its artifact
(github.com/darchr/AutoTM, ``src/optimizer/ilp``). Three forms: *static* (a tensor stays where it is made),
*synchronous* (it moves before or behind ops that use it, while nothing runs) and *asynchronous* (also beside
ops that leave it alone, each move within one of these).

Data: see `autotm_data` (ops k, modes m with :math:`d_{km}` ns and :math:`w_{km}` bytes, items t of
:math:`z_t` bytes with points i of decision, fast memory of M bytes). :math:`s_t`: ns by which t in the slow
memory lengthens an op; :math:`r_t, w_t`: ns of a copy to the fast memory and back, :math:`r'_t, w'_t` of a
copy beside an op.

The path of item t visits at each point i one of :math:`P_i` (in the slow memory only), :math:`A_i` (in the
fast memory only), :math:`B_i` (in the fast memory, with a valid copy in the slow one).

Variables, all binary but the last. Edges of the path: *made* in A or P at its first point; *stay* from
:math:`A_i` to :math:`A_{i+1}`, from :math:`B_i` to :math:`B_{i+1}`, from :math:`P_i` to :math:`P_{i+1}`;
*write* from :math:`A_i` to :math:`P_{i+1}`; *drop* from :math:`B_i` to :math:`P_{i+1}`; *read* from
:math:`P_i` to :math:`B_i`. An item that is there at time 0 starts in P, or is *pinned*: in the fast memory
until its last point. Where an op updates the item in the fast memory, the copy behind it is stale: all that
would lead to :math:`B_i` leads to :math:`A_i`. :math:`q_{km}`: op k runs in mode m. :math:`\sigma_k \ge 0`:
ns of the slot of op k. (In 4, a variable for each op holds the first sum.)

Objective. Minimize :math:`\sum_k \sigma_k` + the ns of all reads before and writes behind ops, subject to

1. one unit of flow from the first point of each item to its last one;
2. :math:`\pi_{tk} = 1` if pinned or in A or B during op k: the flow into :math:`A_i` and :math:`B_i` if k is
   point i, else the flow that stays in A or B from the point before to the one behind, if there is one;
3. :math:`\sum_m q_{km} = 1`; modes that want t in the fast memory together at most :math:`\pi_{tk}`, those
   that want it in the slow one at most :math:`1 - \pi_{tk}`;
4. :math:`\sum_{t \text{ alive at } k} z_t \pi_{tk} + \sum_m w_{km} q_{km} \le M`;
5. :math:`\sigma_k \ge \sum_m d_{km} q_{km} + \sum_{t \in k} s_t (1 - \pi_{tk})`;
6. :math:`\sigma_k \ge` the ns of all reads and writes beside op k, which come one after another.

A plan follows op by op: reads before it, the op and what moves beside it, writes behind it; nothing overlaps
the border of a slot. A solution is such a plan, and each such plan a solution, so the optimum is that of
AutoTM's rules; other plans may be faster. :math:`s_t` is not rounded while slots end at whole ns: the
makespan of a solution's plan exceeds its objective by less than 1 ns for each op that uses the slow memory.

Where this differs from the artifact: modes instead of one configuration for each set of tiers of all
operands (3 is the same for modes that name every operand); the variables "in fast memory" and "written" are
left out, being sums of flows; items may be updated in place; what is kept may move to the slow memory behind
the op that made it (nGraph has a result node there), and in the steady state ends where it started; integer
ns, at least one for each copy; the reference order instead of one that is adjusted first; no repair of
fragmentation; one limit M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..model import ticker
from ..pyomo_terms import linear
from .autotm_data import AutotmData, Lifetime, Role, copy_time, granule

ENGINE = "milp"
BYTES_PER_TERM = 1500

MADE_FAST, MADE_SLOW, PINNED = "made-fast", "made-slow", "pinned"
STAY_A, STAY_B, STAY_P, WRITE, DROP, READ = "stay-a", "stay-b", "stay-p", "write", "drop", "read"

Edge = tuple[str, int]
"""Kind of an edge, and the number of the point where it begins."""


@dataclass(frozen=True)
class AutotmModel:
    """The Pyomo model in ns; edges by item, kind and point, modes by op and number."""

    model: Any
    data: AutotmData
    edges: frozenset[tuple[int, str, int]]


@dataclass
class Sum:
    """A linear expression under construction."""

    variables: list[Any] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    constant: Fraction = Fraction(0)

    def add(self, variables: list[Any], weight: Fraction | int = 1) -> Sum:
        """Add variables with one weight; return the sum."""
        self.variables += variables
        self.weights += [float(weight)] * len(variables)
        return self

    def expression(self) -> Any:
        """Return it for Pyomo."""
        return linear(self.variables, self.weights, float(self.constant))


def build(data: AutotmData, expired: Callable[[], bool] = lambda: False) -> AutotmModel:
    """Return the model.

    Raises
    ------
    BuildTimeout
        If `expired` held before it was complete.

    Examples
    --------
    >>> from lowtide.formulations.placement.autotm_data import Form, autotm_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=v100-16g-pcie3")
    >>> built = build(autotm_data(problem, Form.SYNC))
    >>> sorted(edge for edge in built.edges if edge[0] == 0)[:4]
    [(0, 'made-fast', 0), (0, 'made-slow', 0), (0, 'read', 1), (0, 'stay-a', 0)]
    """
    import pyomo.environ as pyo

    tick = ticker(expired)
    model = pyo.ConcreteModel(name="autotm")
    free = [number for number, item in enumerate(data.items) if not is_fixed(data, item)]
    edges = [(t, kind, i) for t in free for kind, i in path_edges(data.items[t])]
    choices = [(k, mode.number) for k in range(data.n) for mode in data.modes[k] if len(data.modes[k]) > 1]
    model.edge = pyo.Var(edges, domain=pyo.Binary)
    model.mode = pyo.Var(choices, domain=pyo.Binary)
    model.rows = pyo.ConstraintList()
    built = AutotmModel(model, data, frozenset(edges))
    presence = _Presence(built)
    for add in (_paths, _modes, _memory):
        add(built, presence, expired)
        tick()
    cost = _slots(built, presence)
    _moves(built, cost)
    model.objective = pyo.Objective(expr=cost.expression())
    return built


def is_fixed(data: AutotmData, item: Lifetime) -> bool:
    """Return whether an item is simply in the fast memory, without variables: it has no bytes."""
    named = any(mode.fast.get(item.tensor) is False for k in item.users for mode in data.modes[k])
    return not item.nbytes and not named and (item.fast or not item.initial)


def path_edges(item: Lifetime) -> Iterator[Edge]:
    """Yield the edges that an item's path may take.

    Examples
    --------
    >>> from lowtide.formulations.placement.autotm_data import Point
    >>> points = (Point(op=-1, role=Role.START), Point(op=3, role=Role.USED))
    >>> item = Lifetime(
    ...     tensor=0, nbytes=8, points=points, users=(3,), last=3, fast=True, slow=True, returns=False
    ... )
    >>> list(path_edges(item))
    [('pinned', 0), ('made-slow', 0), ('stay-p', 0), ('read', 1)]
    """
    if not item.initial:
        yield MADE_FAST, 0
        yield MADE_SLOW, 0
    else:
        if item.fast:
            yield PINNED, 0
        if item.slow:
            yield MADE_SLOW, 0
    last = len(item.points) - 1
    a, b = not item.initial, False  # whether A and B can be reached
    for i, point in enumerate(item.points):
        if i and point.role is not Role.END:
            yield READ, i
        if point.role is Role.UPDATED:
            a, b = True, False
        elif i and point.role is not Role.END:
            b = True
        if i == last:
            return
        # What must return to the slow memory has a valid copy there at the end.
        if a and not (item.returns and i + 1 == last):
            yield STAY_A, i
        if a:
            yield WRITE, i
        if b:
            yield STAY_B, i
            yield DROP, i
        yield STAY_P, i


class _Presence:
    """Constraint (2): where an item is during an op, as edges whose flows add up to it."""

    def __init__(self, built: AutotmModel) -> None:
        self.built = built
        self.known: dict[tuple[int, int, bool], list[Any]] = {}

    def edge(self, t: int, *edges: Edge) -> list[Any]:
        """Return the variables of those edges that exist."""
        return [self.built.model.edge[t, *e] for e in edges if (t, *e) in self.built.edges]

    def at(self, t: int, k: int) -> list[Any]:
        """Return the edges that put an item into the fast memory during an op that uses it."""
        points = self.built.data.items[t].points
        i = self.built.data.items[t].point(k)
        return self.part(t, i, points[i].op < k and i + 1 < len(points))

    def part(self, t: int, i: int, behind: bool) -> list[Any]:
        """Return the edges that put an item into the fast memory at a point, or from there to the next."""
        if (t, i, behind) not in self.known:
            here = ((STAY_A, i - 1), (STAY_B, i - 1), (READ, i), *_made(i))
            edges = ((STAY_A, i), (STAY_B, i)) if behind else here
            self.known[t, i, behind] = self.edge(t, (PINNED, 0), *edges)
        return self.known[t, i, behind]


def _made(i: int) -> list[Edge]:
    return [(MADE_FAST, 0)] if i == 0 else []


def _paths(built: AutotmModel, presence: _Presence, expired: Callable[[], bool]) -> None:
    """(1) One unit of flow; A, B and P of each point pass on what they get."""
    model, data, edge = built.model, built.data, presence.edge
    for t in sorted({t for t, _, _ in built.edges}):
        if expired():
            return
        item = data.items[t]
        made = Sum().add(edge(t, (MADE_FAST, 0), (MADE_SLOW, 0), (PINNED, 0)))
        model.rows.add(made.expression() == 1)
        last = len(item.points) - 1
        for i, point in enumerate(item.points):
            updated = point.role is Role.UPDATED
            into_a = edge(t, (STAY_A, i - 1), *_made(i))
            into_b = edge(t, (STAY_B, i - 1), (READ, i))
            into_p = edge(t, (STAY_P, i - 1), (WRITE, i - 1), (DROP, i - 1))
            if i == 0:
                into_p = edge(t, (MADE_SLOW, 0))
            if updated:
                into_a, into_b = into_a + into_b, []
            out_a, out_b = edge(t, (STAY_A, i), (WRITE, i)), edge(t, (STAY_B, i), (DROP, i))
            read, stay = edge(t, (READ, i)), edge(t, (STAY_P, i))
            if i < last:
                for into, out in ((into_a, out_a), (into_b, out_b), (into_p, read + stay)):
                    if into or out:
                        model.rows.add(Sum().add(into).add(out, -1).expression() == 0)
            elif read:
                model.rows.add(Sum().add(into_p).add(read, -1).expression() >= 0)


def _modes(built: AutotmModel, presence: _Presence, expired: Callable[[], bool]) -> None:
    """(3) Each op runs in one mode, which finds its operands where it wants them."""
    model, data = built.model, built.data
    for k, modes in enumerate(data.modes):
        if expired():
            return
        several = len(modes) > 1
        if several:
            chosen = Sum().add([model.mode[k, mode.number] for mode in modes])
            model.rows.add(chosen.expression() == 1)
        for operand in data.operands[k]:
            t = data.at[k, operand]
            wanted = [mode.fast.get(operand) for mode in modes]
            if is_fixed(data, data.items[t]) or not any(w is not None for w in wanted):
                continue
            inside = presence.at(t, k)
            if not several:
                model.rows.add(Sum().add(inside).expression() == (1 if wanted[0] else 0))
                continue
            fast, slow = (
                [model.mode[k, m.number] for m, w in zip(modes, wanted, strict=True) if w is side]
                for side in (True, False)
            )
            if None not in wanted:
                model.rows.add(Sum().add(fast).add(inside, -1).expression() == 0)
            else:
                model.rows.add(Sum().add(fast).add(inside, -1).expression() <= 0)
                model.rows.add(Sum().add(slow).add(inside).expression() <= 1)


def _memory(built: AutotmModel, presence: _Presence, expired: Callable[[], bool]) -> None:
    """(4) What is in the fast memory fits, in units of `granule` bytes, sizes rounded up.

    The bytes held during an op are those during the op before, more or less what has changed: rows as long as
    the changes, not as the lives.
    """
    import pyomo.environ as pyo

    model, data = built.model, built.data
    if data.memory is None:
        return
    unit = granule(data)
    room = data.memory // unit
    changes: list[dict[int, tuple[Any, int]]] = [{} for _ in range(data.n + 1)]
    for t, item in enumerate(data.items):
        if expired():
            return
        size = -(-item.nbytes // unit)
        for begin, end, i, behind in item.spans(data.n):
            for k, signed in ((begin, size), (end, -size)):
                for x in presence.part(t, i, behind):
                    changes[k][id(x)] = (x, changes[k].get(id(x), (x, 0))[1] + signed)
    model.held = pyo.Var(range(data.n), bounds=(0, room))
    for k, modes in enumerate(data.modes):
        held = Sum().add([model.held[k]])
        work = [-(-mode.workspace // unit) for mode in modes]
        if len(modes) > 1:
            for mode, w in zip(modes, work, strict=True):
                held.add([model.mode[k, mode.number]] if w else [], w)
        else:
            held.constant += sum(work)
        if any(work):
            model.rows.add(held.expression() <= room)
        balance = Sum().add([model.held[k]]).add([model.held[k - 1]] if k else [], -1)
        for x, signed in changes[k].values():
            balance.add([x] if signed else [], -signed)
        model.rows.add(balance.expression() == 0)


def _slots(built: AutotmModel, presence: _Presence) -> Sum:
    """(5, 6) Return the ns of all slots; those with copies beside their op are variables."""
    import pyomo.environ as pyo

    model, data = built.model, built.data
    beside: dict[int, Sum] = {}
    for t, kind, i in sorted(built.edges):
        point = data.items[t].points[i]
        if kind in (READ, WRITE) and point.role is Role.PASSED:
            link = data.into_beside if kind == READ else data.out_beside
            move = copy_time(data.items[t].nbytes, link)
            beside.setdefault(point.op, Sum()).add([model.edge[t, kind, i]], move)
    model.slot = pyo.Var(sorted(beside), domain=pyo.NonNegativeReals)
    cost = Sum()
    for k, modes in enumerate(data.modes):
        time = Sum() if k in beside else cost
        if len(modes) > 1:
            for mode in modes:
                time.add([model.mode[k, mode.number]], mode.duration)
        else:
            time.constant += sum(mode.duration for mode in modes)
        for operand in data.operands[k]:
            t = data.at[k, operand]
            longer = data.slow_time(data.items[t].nbytes)
            if longer and not is_fixed(data, data.items[t]):
                time.constant += longer
                time.add(presence.at(t, k), -longer)
        if k in beside:
            model.rows.add(model.slot[k] >= time.expression())  # (5)
            model.rows.add(model.slot[k] >= beside[k].expression())  # (6)
            cost.add([model.slot[k]], 1)
    return cost


def _moves(built: AutotmModel, cost: Sum) -> None:
    """Add the ns of reads before ops and of writes behind them."""
    data = built.data
    for t, kind, i in sorted(built.edges):
        item = data.items[t]
        if kind in (READ, WRITE) and item.points[i].role is not Role.PASSED:
            link = data.into if kind == READ else data.out
            cost.add([built.model.edge[t, kind, i]], copy_time(item.nbytes, link))
