r"""Tensor placement by AutoTM's MILP: every tensor takes a path through tiers, from op to op.

Source: Hildebrand, Khan, Trika, Lowe-Power and Akella, "AutoTM: automatic tensor movement in heterogeneous
memory systems using integer linear programming", ASPLOS 2020, and the optimizer of its artifact
(github.com/darchr/AutoTM, ``src/optimizer/ilp``). Three forms: *static* (a tensor stays where it is made),
*synchronous* (it moves before or behind ops that use it, while nothing runs) and *asynchronous* (also beside
ops that leave it alone, each move within one of these).

Data: see `data` and `steps`. Ops k with modes m of :math:`d_{km}` ns and :math:`w_{km}` bytes;
items t of :math:`z_t` bytes, each with walks :math:`W_t`; the points i of a walk w and its steps s there,
from state :math:`\mathrm{src}_s` to :math:`\mathrm{dst}_s`; the tiers :math:`R_s` where it has room at the
three moments of an op; rows r: a tier at one of these moments, with room for :math:`M_{rk}` bytes at op k,
its capacity unless plans need addresses (`addresses`). :math:`a_{ts}, b_{ts}`: ns of the copies of a
step before and behind its op, and beside it; :math:`l_{ts}`: ns by which the tier that the op takes t from
lengthens it.

Variables, all binary but the last. :math:`x_{wis}`: walk w takes step s at its point i. :math:`q_{km}`: op k
runs in mode m. :math:`\sigma_k`: ns of the slot of op k, from 0 to the larger of :math:`D_k`, the longest
that the op may take, and all :math:`b_{ts}` beside it together: an optimum has no longer one, by 5 and 6.
(In 4, a variable for each row and op holds the first sum, from 0 to :math:`M_{rk}`.)

Objective. Minimize :math:`\sum_k \sigma_k + \sum a_{ts} x_{wis}`, subject to

1. one step at the first points of the walks of each item together; from each state between two points of a
   walk as many steps as to it;
2. :math:`\pi_{rtk}`: the steps at point i whose :math:`R_s` has the tier of row r if op k is point i, else
   those at the last point before k whose :math:`\mathrm{dst}_s` has it;
3. :math:`\sum_m q_{km} = 1`; modes that want t in a tier together at most the steps that use it there, or
   just these if each mode wants t in some tier;
4. :math:`\sum_t z_t \pi_{rtk} + \sum_m w_{km} q_{km} \le M_{rk}` (workspaces in the first tier while k runs);
5. :math:`\sigma_k \ge \sum_m d_{km} q_{km} + \sum_{t \in k} l_{ts} x_{wis}`;
6. :math:`\sigma_k \ge \sum b_{ts} x_{wis}` at op k: copies beside it come one after another.

A plan follows op by op: copies before it, the op and what moves beside it, copies behind it; nothing overlaps
the border of a slot. A solution is such a plan, and each such plan a solution, so the optimum is that of
AutoTM's rules; other plans may be faster. :math:`l_{ts}` is not rounded while slots end at whole ns: the
makespan of a solution's plan exceeds its objective by less than 1 ns for each op that uses outer tiers.

Modes are AutoTM's configurations and algorithms in one. A table of kernel times is a mode for each set of
tiers of all operands, :math:`d_{km}` its time, on a processor that adds no :math:`l_{ts}` for outer tiers;
with several algorithms, it is one for each of these and each set (AutoTM's product of :math:`y_{kc}` and
:math:`q_{km}`). Where an op has no mode for some tiers, it does not find its operands there. A mode that
names fewer operands stands for all tiers of the others, at :math:`l_{ts}` each.

Where this differs from the artifact: modes instead of configurations (3 is the same for modes that name every
operand); steps from state to state instead of a graph with a vertex for each half of them, and no variables
"in fast memory" and "written", which are sums of steps; any number of tiers, each with its limit, one engine
for all channels; items may be updated in place; what is kept may move behind the op that made it (nGraph has
a result node there), and in the steady state ends where it started; accounting ``replace``; integer ns, at
least one for each copy; the reference order instead of one that is adjusted first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...model import MILP_BYTES, ticker
from ...pyomo_terms import linear
from .data import AutotmData, MemoryRow, ModeData, granule
from .steps import Transition

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES

Steps = Sequence[Sequence[Sequence[Transition]]]
"""By walk and point, the steps among which to choose."""

Path = tuple[int, tuple[Transition, ...]]
"""The walk of an item, and its step at each point."""


@dataclass(frozen=True)
class AutotmModel:
    """The Pyomo model in ns.

    Attributes
    ----------
    model, data
        Variables of steps by walk, point and number in `steps`, of modes by op and number.
    steps
        Those among which to choose.
    held
        By row, what changes from op to op: variables and units; and the row.
    times
        By op with copies beside it, its length and theirs.
    """

    model: Any
    data: AutotmData
    steps: Steps
    held: list[tuple[list[dict[int, tuple[Any, int]]], int]] = field(default_factory=list)
    times: dict[int, tuple[Sum, Sum]] = field(default_factory=dict)


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


def all_steps(data: AutotmData) -> Steps:
    """Return all steps; a fixed walk needs no variables, and has none."""
    return [[] if w.fixed else [data.steps(w, i) for i in range(len(w.points))] for w in data.walks]


def build(
    data: AutotmData,
    steps: Steps | None = None,
    expired: Callable[[], bool] = lambda: False,
    *,
    fits: bool = True,
) -> AutotmModel:
    """Return the model.

    Parameters
    ----------
    data
        What is placed.
    steps
        Those among which to choose, default all; a walk without any is fixed, or not taken.
    fits
        Where sizes are not exact (`granule`): whether they are rounded up, so that all solutions fit, or
        down, and rooms up, so that the optimum is a bound.

    Examples
    --------
    >>> from lowtide.formulations.placement.autotm.data import Form, autotm_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=v100-16g-pcie3")
    >>> built = build(autotm_data(problem, Form.SYNC))
    >>> [len(steps) for steps in built.steps[0]]
    [2, 3]
    """
    import pyomo.environ as pyo

    tick = ticker(expired)
    model = pyo.ConcreteModel(name="autotm")
    chosen = all_steps(data) if steps is None else steps
    keys = [
        (w, i, s) for w, walk in enumerate(chosen) for i, some in enumerate(walk) for s in range(len(some))
    ]
    choices = [(k, mode.number) for k in range(data.n) for mode in data.modes[k] if len(data.modes[k]) > 1]
    model.step = pyo.Var(keys, domain=pyo.Binary)
    model.mode = pyo.Var(choices, domain=pyo.Binary)
    model.rows = pyo.ConstraintList()
    built = AutotmModel(model, data, chosen)
    used = _used(built)
    tick()
    _paths(built, tick)
    _modes(built, used, tick)
    _memory(built, tick, fits)
    cost = _slots(built, used)
    _moves(built, cost)
    model.objective = pyo.Objective(expr=cost.expression())
    return built


def decode(built: AutotmModel, value: Callable[[Any], float]) -> tuple[list[Path], list[ModeData]]:
    """Return the path of each item and the mode of each op."""
    model, data, paths = built.model, built.data, list[Path]()
    for w, walk in enumerate(data.walks):
        steps = built.steps[w]
        taken = [[s for s in range(len(x)) if value(model.step[w, i, s]) > 0.5] for i, x in enumerate(steps)]
        if walk.fixed:
            paths.append((w, tuple(data.steps(walk, i)[0] for i in range(len(walk.points)))))
        elif taken and taken[0]:
            paths.append((w, tuple(x[s[0]] for x, s in zip(steps, taken, strict=True))))
    modes = []
    for k, kinds in enumerate(data.modes):
        on = [m for m in kinds if len(kinds) > 1 and value(model.mode[k, m.number]) > 0.5]
        modes.append((on or list(kinds))[0])
    return paths, modes


def suggest(built: AutotmModel, paths: list[Path], modes: list[ModeData]) -> None:
    """Give the variables the values of a solution."""
    model = built.model
    model.step.set_values(dict.fromkeys(model.step, 0), skip_validation=True)
    for w, path in paths:
        for i, some in enumerate(built.steps[w]):
            model.step[w, i, some.index(path[i])].set_value(1)
    for k, number in model.mode:
        model.mode[k, number].set_value(int(number == modes[k].number))
    for changes, row in built.held:
        held = 0.0
        for k, change in enumerate(changes):
            held += sum(weight for x, weight in change.values() if x.value > 0.5)
            model.held[row, k].set_value(held, skip_validation=True)
    for k, times in built.times.items():
        values = (
            float(time.constant) + sum(c * x.value for x, c in zip(time.variables, time.weights, strict=True))
            for time in times
        )
        model.slot[k].set_value(max(values))


def _used(built: AutotmModel) -> dict[tuple[int, int], dict[int, list[Any]]]:
    """Return by op, operand and tier the steps at which the op takes it from there."""
    model, data = built.model, built.data
    used: dict[tuple[int, int], dict[int, list[Any]]] = {}
    for w, walk in enumerate(data.walks):
        for i, steps in enumerate(built.steps[w]):
            if walk.points[i].role.accessed:
                by_tier = used.setdefault((walk.points[i].op, data.items[walk.item].tensor), {})
                for s, step in enumerate(steps):
                    by_tier.setdefault(step.use, []).append(model.step[w, i, s])
    return used


def _paths(built: AutotmModel, tick: Callable[[], None]) -> None:
    """(1) Each item takes one step at the first points of its walks, and goes on from where that leads."""
    model, data = built.model, built.data
    first: dict[int, list[Any]] = {t: [] for t in range(len(data.items))}
    for w, walk in enumerate(data.walks):
        choices = built.steps[w]
        if walk.fixed:
            del first[walk.item]
        elif choices:
            first[walk.item] += [model.step[w, 0, s] for s in range(len(choices[0]))]
        for i in range(1, len(choices)):
            for state in sorted({step.dst for step in choices[i - 1]} | {step.src for step in choices[i]}):
                into = [model.step[w, i - 1, s] for s, step in enumerate(choices[i - 1]) if step.dst == state]
                out = [model.step[w, i, s] for s, step in enumerate(choices[i]) if step.src == state]
                model.rows.add(Sum().add(into).add(out, -1).expression() == 0)
        tick()
    for steps in first.values():
        model.rows.add(Sum().add(steps).expression() == 1)


def _modes(
    built: AutotmModel, used: dict[tuple[int, int], dict[int, list[Any]]], tick: Callable[[], None]
) -> None:
    """(3) Each op runs in one mode, which finds its operands where it wants them."""
    model, data = built.model, built.data
    for k, modes in enumerate(data.modes):
        tick()
        if len(modes) == 1:
            continue  # there are no other steps
        model.rows.add(Sum().add([model.mode[k, mode.number] for mode in modes]).expression() == 1)
        for operand in data.operands[k]:
            by_tier = used.get((k, operand))
            wanted = [mode.wanted.get(operand, -1) for mode in modes]
            if by_tier is None:
                continue
            for tier in sorted({*wanted, *by_tier} - {-1}):
                there = [model.mode[k, m.number] for m, at in zip(modes, wanted, strict=True) if at == tier]
                row = Sum().add(there).add(by_tier.get(tier, []), -1).expression()
                if there or -1 not in wanted:
                    model.rows.add(row <= 0 if -1 in wanted else row == 0)


def _changes(
    built: AutotmModel, tick: Callable[[], None], row: MemoryRow, unit: int, fits: bool
) -> list[dict[int, tuple[Any, int]]]:
    """Return by op the steps that take or release room of a row, and by how many units."""
    data, step_of = built.data, built.model.step
    changes: list[dict[int, tuple[Any, int]]] = [{} for _ in range(data.n + 1)]

    def hold(begin: int, end: int, steps: list[Any], size: int) -> None:
        for k, signed in ((begin, size), (end, -size)):
            for x in steps:
                changes[k][id(x)] = (x, changes[k].get(id(x), (x, 0))[1] + signed)

    for w, walk in enumerate(data.walks):
        choices = built.steps[w]
        if not choices:
            continue
        tick()
        size = _units(data.items[walk.item].nbytes, unit, fits)
        for i, point in enumerate(walk.points):
            if 0 <= point.op < data.n:
                at = [s for s, step in enumerate(choices[i]) if step.rooms[row.moment] >> row.tier & 1]
                hold(point.op, point.op + 1, [step_of[w, i, s] for s in at], size)
        for begin, end, i in data.spans(walk):
            at = [s for s, step in enumerate(choices[i]) if step.dst >> row.tier & 1]
            hold(begin, end, [step_of[w, i, s] for s in at], size)
    return changes[:-1]


def _memory(built: AutotmModel, tick: Callable[[], None], fits: bool) -> None:
    """(4) What is in a tier fits, in units of `granule` bytes.

    The bytes held during an op are those during the op before, more or less what has changed: rows as long as
    the changes, not as the lives.
    """
    import pyomo.environ as pyo

    model, data = built.model, built.data
    units = [granule(data, row) for row in data.rows]
    rooms = [
        [_units(x, unit, not fits) for x in row.rooms] for row, unit in zip(data.rows, units, strict=True)
    ]
    keys = [(r, k) for r in range(len(data.rows)) for k in range(data.n)]
    model.held = pyo.Var(keys, bounds=lambda _, r, k: (0, rooms[r][k]))
    for r, (row, unit) in enumerate(zip(data.rows, units, strict=True)):
        changes = _changes(built, tick, row, unit, fits)
        built.held.append((changes, r))
        for k, modes in enumerate(data.modes):
            runs = row.tier == 0 and row.moment == 1
            work = [_units(mode.workspace, unit, fits) if runs else 0 for mode in modes]
            held = Sum().add([model.held[r, k]])
            if len(modes) > 1:
                for mode, space in zip(modes, work, strict=True):
                    held.add([model.mode[k, mode.number]] if space else [], space)
            else:
                held.constant += sum(work)
            model.rows.add(held.expression() <= rooms[r][k])
            balance = Sum().add([model.held[r, k]]).add([model.held[r, k - 1]] if k else [], -1)
            for x, signed in changes[k].values():
                balance.add([x] if signed else [], -signed)
            model.rows.add(balance.expression() == 0)


def _units(nbytes: int, unit: int, up: bool) -> int:
    """Return bytes in units, rounded up or down."""
    return -(-nbytes // unit) if up else nbytes // unit


def _slots(built: AutotmModel, used: dict[tuple[int, int], dict[int, list[Any]]]) -> Sum:
    """(5, 6) Return the ns of all slots; those with copies beside their op are variables."""
    import pyomo.environ as pyo

    model, data = built.model, built.data
    beside: dict[int, Sum] = {}
    for w, walk in enumerate(data.walks):
        nbytes = data.items[walk.item].nbytes
        for i, some in enumerate(built.steps[w]):
            for s, step in enumerate(some):
                if step.beside:
                    moves = beside.setdefault(walk.points[i].op, Sum())
                    moves.add([model.step[w, i, s]], data.beside(step, nbytes))
    # HiGHS loses solutions where a variable in ns has no bound: with one it is scaled.
    longest = {k: max(data.longest(k), sum(moves.weights)) for k, moves in beside.items()}
    model.slot = pyo.Var(
        sorted(beside), domain=pyo.NonNegativeReals, bounds=lambda _, k: (0, float(longest[k]))
    )
    cost = Sum()
    for k, modes in enumerate(data.modes):
        time = Sum() if k in beside else cost
        if len(modes) > 1:
            for mode in modes:
                time.add([model.mode[k, mode.number]], mode.duration)
        else:
            time.constant += sum(mode.duration for mode in modes)
        for operand in data.operands[k]:
            nbytes = data.items[data.at[k, operand]].nbytes
            for tier, steps in sorted(used.get((k, operand), {}).items()):
                if longer := data.slow_time(nbytes, tier):
                    time.add(steps, longer)
        if k in beside:
            built.times[k] = (time, beside[k])
            model.rows.add(model.slot[k] >= time.expression())  # (5)
            model.rows.add(model.slot[k] >= beside[k].expression())  # (6)
            cost.add([model.slot[k]], 1)
    return cost


def _moves(built: AutotmModel, cost: Sum) -> None:
    """Add the ns of copies before ops and behind them."""
    data = built.data
    for w, walk in enumerate(data.walks):
        nbytes = data.items[walk.item].nbytes
        for i, some in enumerate(built.steps[w]):
            for s, step in enumerate(some):
                if step.before or step.behind:
                    cost.add([built.model.step[w, i, s]], data.alone(step, nbytes))
