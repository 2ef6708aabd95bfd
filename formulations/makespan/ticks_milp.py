r"""Makespan under a memory bound, time-indexed, as a MILP in Pyomo: which ops have started by which tick.

An independent judge of the other exact methods on small instances: it shares with them the data and nothing
of the reasoning. Its size grows with ops times ticks.

Data: see `data`; H, a number of ticks that some fastest schedule does not exceed.

Sets. Ticks :math:`\tau = 0, \dots, H - 1`. Deaths h: the different pairs of a set :math:`A_h = A_l` of
two or more ops and ``held``. Alternative a of op i may start from :math:`head_i` to
:math:`late_{ia} = H - tail_i - d_{ia}`.

Variables. :math:`x_{ia\tau} \in \{0, 1\}`: op i has started in alternative a, at tick :math:`\tau` or
before; 0 before :math:`head_i`, from :math:`late_{ia}` on as then. :math:`y_{h\tau} \in [0, 1]`: death h
has happened. :math:`q_\tau \in [0, 1]`: at the beginning of tick :math:`\tau`, all ops have ended. Written
with them:

* :math:`s_{i\tau} = \sum_a x_{ia\tau}`: op i has started; :math:`f_{i\tau} = \sum_a x_{ia,\tau - d_{ia}}`:
  it has ended;
* :math:`r_{ia\tau} = x_{ia\tau} - x_{ia,\tau-d_{ia}}`: it runs in alternative a;
* :math:`g_{l\tau}`: lifetime l is over: :math:`y_{h\tau}`, or of a single op in :math:`A_l` :math:`f_{i\tau}`
  (``held``) or :math:`s_{i\tau}` (else), 0 if it is kept; :math:`s_{F_l \tau}`: it has begun (1 if initial).

Objective. Minimize :math:`H - \sum_\tau q_\tau`, the makespan, subject to

1. :math:`x_{ia\tau} \le x_{ia,\tau+1}`: what has started stays so;
2. :math:`\sum_a x_{ia,late_{ia}} = 1`: each op starts, in one alternative;
3. :math:`s_{j\tau} \le f_{i\tau}` for each direct edge from i to j: precedence;
4. :math:`\sum_{i, a : k_a = k} r_{ia\tau} \le p_k`: processors of kind k;
5. :math:`y_{h\tau} \le f_{i\tau}` (``held``) or :math:`\le s_{i\tau}` (else) for :math:`i \in A_h`;
6. :math:`base + \sum_l b_l (s_{F_l \tau} - g_{l\tau}) + \sum_{i,a} w_{ia} r_{ia\tau} \le M`;
7. :math:`q_\tau \le f_{i\tau}` for each op without a successor.

With x integral, the largest y and q that (5) and (7) allow are integral too, and nothing is lost by taking
them. What is kept to the makespan need not be looked at behind the last end: all that is live then was so
before.

Source: the step formulation of resource-constrained project scheduling (Pritsker and Watters, 1968), with the
disaggregated precedence of Christofides, Alvarez-Valdes and Tamarit (1987); memory and alternatives are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.errors import UsageError
from ..model import MILP_BYTES, ModelSize, Tick, ticker
from ..pyomo_terms import linear, silent_pyomo
from .data import MakespanData, model_name

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES

MOST_VARIABLES = 200_000
"""Binaries of a model that is built at all."""


@dataclass(frozen=True)
class WeightedSum:
    """A weighted sum of variables, and a constant."""

    variables: list[Any] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    constant: int = 0

    def __add__(self, other: WeightedSum) -> WeightedSum:
        return WeightedSum(
            self.variables + other.variables, self.weights + other.weights, self.constant + other.constant
        )

    def times(self, factor: int) -> WeightedSum:
        """Return a multiple."""
        return WeightedSum(self.variables, [factor * w for w in self.weights], factor * self.constant)


Death = tuple[tuple[int, ...], bool]
"""A_h and ``held``."""


@dataclass(frozen=True)
class MakespanMilp:
    """The Pyomo model, and what is said with its variables: ``begun`` is x, ``dead`` y, ``done`` q."""

    model: Any
    data: MakespanData
    horizon: int
    deaths: tuple[Death, ...]
    look: Tick
    """Raises once the time for building is up."""

    def late(self, i: int, a: int) -> int:
        """Return the last tick at which op i may start in alternative a; none if before its head."""
        return latest_start(self.data, self.horizon, i, a)

    def begun(self, i: int, a: int, tick: int) -> WeightedSum:
        """Return x, also where it is no variable."""
        self.look()
        last = self.late(i, a)
        if tick < self.data.head[i] or last < self.data.head[i]:
            return WeightedSum()
        return WeightedSum([self.model.begun[i, a, min(tick, last)]], [1])

    def started(self, i: int, tick: int) -> WeightedSum:
        """Return s; 1 where (2) says so."""
        ways = range(len(self.data.alternatives[i]))
        if all(tick >= self.late(i, a) for a in ways):
            return WeightedSum(constant=1)
        return sum((self.begun(i, a, tick) for a in ways), start=WeightedSum())

    def ended(self, i: int, tick: int) -> WeightedSum:
        """Return f; 1 where (2) says so."""
        choices = self.data.alternatives[i]
        if tick >= self.horizon - self.data.tail[i]:
            return WeightedSum(constant=1)
        return sum((self.begun(i, a, tick - x.duration) for a, x in enumerate(choices)), start=WeightedSum())

    def runs(self, i: int, a: int, tick: int) -> WeightedSum:
        """Return whether op i runs in alternative a during a tick."""
        duration = self.data.alternatives[i][a].duration
        if tick >= self.horizon - self.data.tail[i]:
            return WeightedSum()
        return self.begun(i, a, tick) + self.begun(i, a, tick - duration).times(-1)

    def gone(self, death: Death, tick: int) -> WeightedSum:
        """Return g of the lifetimes that end with a set of ops; none: they are kept."""
        ops, held = death
        if len(ops) > 1:
            return WeightedSum([self.model.dead[self.deaths.index(death), tick]], [1])
        if not ops:
            return WeightedSum()
        return self.ended(ops[0], tick) if held else self.started(ops[0], tick)


def latest_start(data: MakespanData, horizon: int, i: int, a: int) -> int:
    """Return the last tick at which op i may start in alternative a."""
    return horizon - data.tail[i] - data.alternatives[i][a].duration


def size(data: MakespanData, horizon: int) -> ModelSize:
    """Return counts that those of the model do not exceed by much."""
    windows = [
        max(0, latest_start(data, horizon, i, a) - data.head[i] + 1)
        for i, some in enumerate(data.alternatives)
        for a in range(len(some))
    ]
    edges = sum(map(len, data.bytes.predecessors))
    shared = sum(len(x.last) for x in data.bytes.lifetimes if len(x.last) > 1)
    return ModelSize(
        variables=sum(windows) + horizon * (1 + shared),
        constraints=sum(windows) + horizon * (edges + len(data.counts) + shared + data.n + 1),
        terms=10 * sum(windows) + horizon * (4 * edges + 3 * shared),
    )


def check(data: MakespanData, horizon: int) -> None:
    """Raise `UsageError` if ops times ticks are too many."""
    needed = size(data, horizon).variables
    if needed > MOST_VARIABLES:
        raise UsageError(
            f"time-indexed MILP of makespan: found {data.n} ops and {horizon} ticks of {data.tick} ns, "
            f"{needed:,} variables, expected at most {MOST_VARIABLES:,} (fewer ops, or coarser durations)"
        )


def build(
    data: MakespanData,
    *,
    horizon: int,
    lower: int = 0,
    hint: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> MakespanMilp:
    """Return the model; its objective is the makespan in ticks.

    Parameters
    ----------
    horizon
        H: no schedule of interest takes longer, in ticks.
    lower
        A bound that is known, in ticks: q is 0 before.
    hint
        Starts in ticks, of a schedule within the horizon; where ops have a choice, then their alternatives.

    Raises
    ------
    UsageError
        If ops times ticks are too many.
    """
    import pyomo.environ as pyo

    check(data, horizon)
    model = pyo.ConcreteModel(name=model_name(data))
    deaths = tuple(sorted({(x.last, x.held) for x in data.bytes.lifetimes if len(x.last) > 1}))
    built = MakespanMilp(model, data, horizon, deaths, ticker(expired))
    model.begun = pyo.Var(
        [
            (i, a, tick)
            for i, some in enumerate(data.alternatives)
            for a in range(len(some))
            for tick in range(data.head[i], built.late(i, a) + 1)
        ],
        domain=pyo.Binary,
    )
    model.dead = pyo.Var(range(len(deaths)), range(horizon), bounds=(0, 1))
    model.done = pyo.Var(range(horizon), bounds=(0, 1))
    for tick in range(min(lower, horizon)):
        model.done[tick].setub(0)
    with silent_pyomo():
        for constrain in CONSTRAINTS:
            constrain(built)
        ticks = [model.done[tick] for tick in range(horizon)]
        model.objective = pyo.Objective(expr=linear(ticks, [-1] * horizon, horizon))
    if hint is not None:
        _hint(built, hint)
    return built


def started_stays_started(built: MakespanMilp) -> None:
    """Constraint 1."""
    import pyomo.environ as pyo

    def rule(model: Any, i: int, a: int, tick: int) -> Any:
        return model.begun[i, a, tick] <= model.begun[i, a, tick + 1]

    rows = [(i, a, tick) for i, a, tick in built.model.begun if tick < built.late(i, a)]
    built.model.started_stays_started = pyo.Constraint(rows, rule=rule)


def starts_in_one_alternative(built: MakespanMilp) -> None:
    """Constraint 2."""
    import pyomo.environ as pyo

    def rule(_: Any, i: int) -> Any:
        some = [built.begun(i, a, built.late(i, a)) for a in range(len(built.data.alternatives[i]))]
        total = sum(some, start=WeightedSum())
        return (1, linear(total.variables, total.weights), 1)

    built.model.starts_in_one_alternative = pyo.Constraint(range(built.data.n), rule=rule)


def precedence_holds(built: MakespanMilp) -> None:
    """Constraint 3 (where s is not 0 for certain, nor f 1)."""
    import pyomo.environ as pyo

    def rule(_: Any, i: int, j: int, tick: int) -> Any:
        return at_most(built.started(j, tick) + built.ended(i, tick).times(-1), 0)

    rows = [
        (i, j, tick)
        for j, before in enumerate(built.data.bytes.predecessors)
        for i in before
        for tick in range(built.data.head[j], built.horizon - built.data.tail[i])
    ]
    built.model.precedence_holds = pyo.Constraint(rows, rule=rule)


def processors_suffice(built: MakespanMilp) -> None:
    """Constraint 4."""
    import pyomo.environ as pyo

    def rule(_: Any, kind: int, tick: int) -> Any:
        running = [
            built.runs(i, a, tick)
            for i, some in enumerate(built.data.alternatives)
            for a, x in enumerate(some)
            if x.kind == kind
        ]
        return at_most(sum(running, start=WeightedSum()), built.data.counts[kind])

    kinds = range(len(built.data.counts))
    built.model.processors_suffice = pyo.Constraint(kinds, range(built.horizon), rule=rule)


def death_needs_all(built: MakespanMilp) -> None:
    """Constraint 5."""
    import pyomo.environ as pyo

    def rule(model: Any, k: int, i: int, tick: int) -> Any:
        over = built.gone(((i,), built.deaths[k][1]), tick)
        return at_most(WeightedSum([model.dead[k, tick]], [1]) + over.times(-1), 0)

    ticks = range(built.horizon)
    rows = [(k, i, tick) for k, (ops, _) in enumerate(built.deaths) for i in ops for tick in ticks]
    built.model.death_needs_all = pyo.Constraint(rows, rule=rule)


def memory_suffices(built: MakespanMilp) -> None:
    """Constraint 6."""
    import pyomo.environ as pyo

    data = built.data
    begins: dict[int | None, int] = {}
    ends: dict[Death, int] = {}
    for x in data.bytes.lifetimes:
        begins[x.born] = begins.get(x.born, 0) + x.nbytes
        ends[x.last, x.held] = ends.get((x.last, x.held), 0) + x.nbytes

    def rule(_: Any, tick: int) -> Any:
        live = WeightedSum(constant=data.bytes.base + begins.get(None, 0))
        for i, choices in enumerate(data.alternatives):
            if i in begins:
                live += built.started(i, tick).times(begins[i])
            for a, x in enumerate(choices):
                if x.workspace:
                    live += built.runs(i, a, tick).times(x.workspace)
        for death, nbytes in ends.items():
            live += built.gone(death, tick).times(-nbytes)
        return at_most(live, data.memory)

    built.model.memory_suffices = pyo.Constraint(range(built.horizon), rule=rule)


def done_when_all_have_ended(built: MakespanMilp) -> None:
    """Constraint 7."""
    import pyomo.environ as pyo

    inner = {j for before in built.data.bytes.predecessors for j in before}

    def rule(model: Any, i: int, tick: int) -> Any:
        return at_most(WeightedSum([model.done[tick]], [1]) + built.ended(i, tick).times(-1), 0)

    last = [i for i in range(built.data.n) if i not in inner]
    built.model.done_when_all_have_ended = pyo.Constraint(last, range(built.horizon), rule=rule)


CONSTRAINTS: tuple[Callable[[MakespanMilp], None], ...] = (
    started_stays_started,
    starts_in_one_alternative,
    precedence_holds,
    processors_suffice,
    death_needs_all,
    memory_suffices,
    done_when_all_have_ended,
)
"""As numbered on the page of mathematics."""


def at_most(total: WeightedSum, most: int) -> Any:
    """Return the constraint that a sum is at most a number; none if it has no variables and is."""
    import pyomo.environ as pyo

    if not total.variables and total.constant <= most:
        return pyo.Constraint.Skip
    return (None, linear(total.variables, total.weights), most - total.constant)


def _hint(built: MakespanMilp, hint: Sequence[int]) -> None:
    """Give every variable the value that it has in the schedule."""
    data, model = built.data, built.model
    chosen = [0] * data.n if len(hint) == data.n else hint[data.n :]
    ends = [hint[i] + data.alternatives[i][a].duration for i, a in enumerate(chosen)]
    for (i, a, tick), variable in model.begun.items():
        variable.set_value(int(a == chosen[i] and hint[i] <= tick))
    for (k, tick), variable in model.dead.items():
        ops, held = built.deaths[k]
        variable.set_value(int(all((ends[i] if held else hint[i]) <= tick for i in ops)))
    for tick, variable in model.done.items():
        variable.set_value(int(max(ends) <= tick))


def decode(built: MakespanMilp, value: Callable[[Any], float]) -> tuple[int, ...]:
    """Return the start of each op of a solution, in ns; where ops have a choice, then their alternatives."""
    starts, chosen = [0] * built.data.n, [0] * built.data.n
    running = set()
    for (i, a, tick), variable in built.model.begun.items():
        if i not in running and value(variable) > 0.5:
            running.add(i)
            starts[i], chosen[i] = tick * built.data.tick, a
    if all(len(some) == 1 for some in built.data.alternatives):
        return tuple(starts)
    return (*starts, *chosen)
