r"""Stages with data and tensor parallel degrees as a MILP: which layers, in which modes, on what.

Data: see `data` (layers i with modes m of :math:`p_m` ns, :math:`a_m` and :math:`b_m` bytes for groups of t
devices, arcs e between layers with :math:`x^t_{ie}` ns, exchange :math:`g^{td}_i`, N micro-batches, K
devices, M bytes of each).

Sets. Stages s = 0..S-1, S the lesser of layers, devices and micro-batches. *Settings* c = (t, d, y): d groups
of t devices, and y micro-batches under way, :math:`y \le \lceil N / d \rceil`.

Variables. :math:`z_{sc} \in \{0, 1\}`: stage s has setting c; without any it is not there.
:math:`u_{iscm} \in \{0, 1\}`: layer i is in stage s, of setting c, in mode m. :math:`q_{esc}, r_{esc} \in [0,
1]`: arc e leaves stage s, enters it. :math:`T \ge 0`, whole: ns of a sample.

Objective. Minimize T subject to

1. :math:`\sum_{s,c,m} u_{iscm} = 1`;
2. :math:`\sum_c z_{sc} \le 1`, :math:`\sum_c z_{s+1,c} \le \sum_c z_{sc}`;
3. :math:`\sum_m u_{iscm} \le z_{sc}`;
4. :math:`\sum_{s' \le s, c, m} u_{js'cm} \le \sum_{s' \le s, c, m} u_{is'cm}` if i comes before j;
5. :math:`\sum t d\, z_{sc} \le K`, :math:`\sum d\, z_{sc} \le N`;
6. :math:`\sum_c y d\, z_{sc} \ge \sum_{s' \ge s, c} d\, z_{s'c}`, so that y is enough: without stage s there
   is no later one;
7. :math:`\sum_{i,m} (y a_m + b_m) u_{iscm} \le M z_{sc}`;
8. for e = (i, j): :math:`q_{esc} \ge \sum_m u_{iscm} - \sum_{c',m} u_{jsc'm}` and :math:`r_{esc} \ge \sum_m
   u_{jscm} - \sum_{c',m} u_{isc'm}`;
9. :math:`T \ge \sum_c \frac1d \left( \sum_{i,m} (p_m + g^{td}_i) u_{iscm} + \sum_{e=(i,j)} (x^t_{ie} q_{esc}
   + x^t_{je} r_{esc}) \right)`; T is whole, so rounding up is in it.

Source: the question is Piper's (Tarnawski, Narayanan and Phanishayee, NeurIPS 2021); the model is this
suite's, an independent judge of the program over ideals for few layers and devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from math import gcd, lcm
from typing import Any, NamedTuple

from ...models.derived.precedence import bits
from ...models.problems.hybrid import Hybrid
from ...models.split import Split
from ..model import ModelSize, Tick, ticker
from ..pyomo_terms import linear
from .data import HybridData, hybrid_data

ENGINE = "milp"
BYTES_PER_TERM = 1500
"""Bytes of memory for each coefficient of the model while it is built and solved, about."""

Terms = list[tuple[int, Any]]
"""Weights and variables."""


class StageChoice(NamedTuple):
    """Degrees t and d, and y micro-batches under way."""

    tensor: int
    replicas: int
    under_way: int


@dataclass(frozen=True, kw_only=True)
class HybridModel:
    """The Pyomo model in ns, and what its variables are about."""

    model: Any
    problem: Hybrid
    data: HybridData
    settings: tuple[StageChoice, ...]
    stages: range

    def of(self, i: int, s: int, some: range | None = None) -> Terms:
        """Return the variables u of a layer in a stage, of all settings or some."""
        chosen = range(len(self.settings)) if some is None else some
        return [
            (1, self.model.layer[i, s, c, mode.number])
            for c in chosen
            for mode in self.data.degrees[self.settings[c].tensor].modes[i]
        ]


def settings_of(problem: Hybrid, data: HybridData) -> tuple[StageChoice, ...]:
    """Return the settings that a stage may have."""
    return tuple(
        StageChoice(t, d, y)
        for t, degree in data.degrees.items()
        for d in degree.exchanged
        for y in range(1, -(-min(problem.micro, problem.processors) // d) + 1)
    )


def size(problem: Hybrid) -> ModelSize:
    """Return about the counts of the model without building it."""
    data = hybrid_data(problem)
    some = settings_of(problem, data)
    stages = min(data.n, problem.processors, problem.micro)
    layers = stages * sum(len(modes) for c in some for modes in data.degrees[c.tensor].modes)
    arcs = 2 * stages * len(data.arcs) * len(some)
    return ModelSize(variables=layers + arcs, constraints=layers + arcs, terms=8 * layers + 6 * arcs)


def build(problem: Hybrid, *, expired: Callable[[], bool] = lambda: False) -> HybridModel:
    """Return the model."""
    import pyomo.environ as pyo

    data, model, tick = hybrid_data(problem), pyo.ConcreteModel(name="hybrid"), ticker(expired)
    built = HybridModel(
        model=model,
        problem=problem,
        data=data,
        settings=settings_of(problem, data),
        stages=range(min(data.n, problem.processors, problem.micro)),
    )
    some = [*enumerate(built.settings)]
    model.setting = pyo.Var([(s, c) for s in built.stages for c, _ in some], domain=pyo.Binary)
    layers = [
        (i, s, c, mode.number)
        for i in range(data.n)
        for s in built.stages
        for c, x in some
        for mode in data.degrees[x.tensor].modes[i]
    ]
    model.layer = pyo.Var(layers, domain=pyo.Binary)
    arcs = [
        (e, s, c)
        for e in range(len(data.arcs))
        for s in built.stages
        for c, x in some
        if data.degrees[x.tensor].made[e] or data.degrees[x.tensor].read[e]
    ]
    model.leaves = pyo.Var(arcs, bounds=(0, 1))
    model.enters = pyo.Var(arcs, bounds=(0, 1))
    model.time = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, _most(data)))
    model.rows = pyo.ConstraintList()
    for rows in (_layers(built), _stages(built), _memory(built), _arcs(built), _times(built)):
        for terms, most in rows:
            _add(built, terms, most, tick)
    model.objective = pyo.Objective(expr=model.time)
    return built


def _most(data: HybridData) -> int:
    """Return ns that no stage takes for a sample."""
    degrees = [*data.degrees.values()]
    layers = sum(max((m.time for x in degrees for m in x.modes[i]), default=0) for i in range(data.n))
    arcs = sum(max(x.made[e] + x.read[e] for x in degrees) for e in range(len(data.arcs)) if degrees)
    exchanged = [max((g[i] for x in degrees for g in x.exchanged.values()), default=0) for i in range(data.n)]
    return layers + arcs + sum(exchanged)


def _add(built: HybridModel, terms: Terms, most: int, tick: Tick) -> None:
    """Add that weighted variables are at most a number."""
    tick()
    if terms:
        built.model.rows.add(linear([x for _, x in terms], [weight for weight, _ in terms]) <= most)
    elif most < 0:
        built.model.rows.add(built.model.time <= -1)


def _layers(built: HybridModel) -> Iterator[tuple[Terms, int]]:
    """(1), (3), (4)."""
    data = built.data
    for i in range(data.n):
        every = [term for s in built.stages for term in built.of(i, s)]
        yield every, 1  # (1)
        yield [(-1, x) for _, x in every], -1  # (1)
        for s in built.stages:
            for c in range(len(built.settings)):
                if here := built.of(i, s, range(c, c + 1)):
                    yield [*here, (-1, built.model.setting[s, c])], 0  # (3)
        for j in bits(data.before[i]):
            for s in built.stages[:-1]:
                until = range(s + 1)
                later = [term for x in until for term in built.of(i, x)]
                yield [*later, *((-1, u) for x in until for _, u in built.of(j, x))], 0  # (4)


def _stages(built: HybridModel) -> Iterator[tuple[Terms, int]]:
    """(2), (5), (6)."""
    chosen, some = built.model.setting, [*enumerate(built.settings)]
    for s in built.stages:
        own = [(1, chosen[s, c]) for c, _ in some]
        yield own, 1  # (2)
        if s:
            yield [*own, *((-1, chosen[s - 1, c]) for c, _ in some)], 0  # (2)
        later = [(x.replicas, chosen[k, c]) for k in built.stages[s + 1 :] for c, x in some]
        yield [*later, *((x.replicas * (1 - x.under_way), chosen[s, c]) for c, x in some)], 0  # (6)
    every = [(x, chosen[s, c]) for s in built.stages for c, x in some]
    yield [(x.tensor * x.replicas, z) for x, z in every], built.problem.processors  # (5)
    yield [(x.replicas, z) for x, z in every], built.problem.micro  # (5)


def _memory(built: HybridModel) -> Iterator[tuple[Terms, int]]:
    """(7) In units of the greatest common divisor of what layers hold."""
    if built.problem.memory is None:
        return
    kinds = [m for degree in built.data.degrees.values() for modes in degree.modes for m in modes]
    unit = reduce(gcd, (nbytes for m in kinds for nbytes in (m.each, m.once)), 0) or 1
    for s in built.stages:
        for c, x in enumerate(built.settings):
            held = [
                ((x.under_way * m.each + m.once) // unit, built.model.layer[i, s, c, m.number])
                for i, modes in enumerate(built.data.degrees[x.tensor].modes)
                for m in modes
            ]
            yield [*held, (-(built.problem.memory // unit), built.model.setting[s, c])], 0


def _arcs(built: HybridModel) -> Iterator[tuple[Terms, int]]:
    """(8)."""
    for e, s, c in built.model.leaves:
        own = range(c, c + 1)
        for table, (i, j) in (
            (built.model.leaves, built.data.arcs[e]),
            (built.model.enters, built.data.arcs[e][::-1]),
        ):
            yield [*built.of(i, s, own), *((-1, u) for _, u in built.of(j, s)), (-1, table[e, s, c])], 0


def _times(built: HybridModel) -> Iterator[tuple[Terms, int]]:
    """(9) Times the least common multiple of all d."""
    model, data = built.model, built.data
    every = reduce(lcm, (x.replicas for x in built.settings), 1)
    for s in built.stages:
        terms: Terms = [(-every, model.time)]
        for c, (t, d, _) in enumerate(built.settings):
            degree, share = data.degrees[t], every // d
            terms += [
                (share * (m.time + degree.exchanged[d][i]), model.layer[i, s, c, m.number])
                for i, modes in enumerate(degree.modes)
                for m in modes
            ]
            for e in range(len(data.arcs)):
                if (e, s, c) in model.leaves:
                    terms.append((share * degree.made[e], model.leaves[e, s, c]))
                    terms.append((share * degree.read[e], model.enters[e, s, c]))
        yield terms, 0


def decode(built: HybridModel, value: Callable[[Any], float]) -> Split:
    """Return the split of a solution."""
    stage, modes = [0] * built.data.n, [0] * built.data.n
    chosen = {s: built.settings[c] for s, c in built.model.setting if value(built.model.setting[s, c]) > 0.5}
    for i, s, _, m in (key for key in built.model.layer if value(built.model.layer[key]) > 0.5):
        stage[i], modes[i] = s, m
    used = sorted(set(stage))
    return Split(
        stage=tuple(used.index(s) for s in stage),
        kinds=tuple(f"t{chosen[s].tensor}" for s in used),
        replicas=tuple(chosen[s].replicas for s in used),
        modes=tuple(modes),
    )
