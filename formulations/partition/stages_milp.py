r"""Stages of a pipeline as a MILP in Pyomo, contiguous or any; CP-SAT takes the same rows (`stages_cpsat`).

Data: `data`: classes :math:`c \in C`, order O, kinds k with :math:`n_k` devices, of which those of the host
transfer for nothing and have no limit of memory, times :math:`t_{ck}`, values v made by :math:`w_v` and read
by :math:`R_v`, which take :math:`\tau_v` ns; initial tensors :math:`t \in T` of :math:`s_t` bytes; memory M.
:math:`U_k` is the time of all classes on kind k, and of all transfers.

Variables. :math:`x_{cd} \in \{0, 1\}`: class c is on stage d of :math:`\sum_k n_k`.
:math:`g_{dk} \in \{0, 1\}`: stage d is of kind k; given where stages may stand in any order or of one kind.
:math:`i_{vd}, o_{vd} \in [0, 1]`: v comes to d, v leaves d. :math:`h_{td} \in [0, 1]`: d holds t.
:math:`L_d`: the load of d; :math:`B`: the largest.

Objective. Minimize B, or for the time of a batch of m :math:`\sum_d L_d + (m - 1) B`, subject to

1. :math:`\sum_d x_{cd} = 1`;
2. :math:`\sum_{e \le d} x_{ce} \ge \sum_{e \le d} x_{c'e}` for :math:`(c, c') \in O`, if contiguous;
3. :math:`\sum_k g_{dk} \le 1`, :math:`\sum_d g_{dk} \le n_k`, and :math:`x_{cd} \le \sum g_{dk}` over the
   kinds that can run c;
4. :math:`o_{vd} \ge x_{w_v d} - x_{rd}` and :math:`i_{vd} \ge x_{rd} - x_{w_v d}` for :math:`r \in R_v`;
5. :math:`L_d \ge \sum_c t_{ck} x_{cd} + \sum_v \tau_v (i_{vd} + o_{vd}) - U_k (1 - g_{dk})`, transfers not
   on the host;
6. :math:`\sum_t s_t h_{td} \le M + (\sum_t s_t) (1 - g_{dk})` but on the host, in units that divide all
   :math:`s_t`, M rounded down;
7. :math:`h_{td} \ge x_{cd}` if c accesses t;
8. :math:`B \ge L_d`.

Devices of a kind are alike where stages stand in any order; solvers find and use that symmetry themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from ...models.problems.partition import Partition
from ...models.split import HOST, Split
from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import linear, silent_pyomo
from .data import PartitionData, partition_data

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES

CONTINUOUS = "BLSF"
"""First letters of variables in ns, which the MILP has as real ones."""

Name = tuple[str, int, int]
Row = tuple[list[tuple[Name, int]], int]
"""Terms, and what their sum is at least."""


@dataclass(kw_only=True)
class LoadModel:
    """The model of an engine, and what its names mean.

    Attributes
    ----------
    given
        By stage, the number of its kind; None where it is a variable.
    most
        A latency that need not be exceeded; None if none is known.
    variables
        Those of the engine, by name.
    """

    problem: Partition
    data: PartitionData
    given: list[int | None]
    most: int | None = None
    model: Any = None
    variables: dict[Name, Any] = field(default_factory=dict)

    @property
    def stages(self) -> range:
        """The stages."""
        return range(len(self.given))

    @property
    def tensors(self) -> list[int]:
        """The initial tensors that count."""
        limited = self.problem.memory is not None
        return sorted(set().union(*self.data.held)) if limited else []

    def is_host(self, k: int) -> bool:
        """Return whether kind k belongs to the host."""
        return self.data.kinds[k][0] == HOST

    def gate(self, d: int, k: int, weight: int) -> tuple[list[tuple[Name, int]], int]:
        """Return the terms and the constant of ``weight (1 - g)``, none if the kind is given."""
        return ([], 0) if self.given[d] is not None else ([(("g", d, k), -weight)], weight)

    def kinds_of(self, d: int) -> list[int]:
        """Return the kinds that a stage may be of."""
        given = self.given[d]
        return [*range(len(self.data.kinds))] if given is None else [given]

    def total(self, k: int) -> int:
        """Return the time of all classes on a kind, and of all transfers."""
        return sum(row[k] or 0 for row in self.data.times) + sum(v.time for v in self.data.passed)

    def names(self) -> Iterator[tuple[Name, int, bool]]:
        """Yield each variable with the most that it is, and whether it is an integer."""
        top = max(map(self.total, range(len(self.data.kinds))))
        yield ("B", 0, 0), top, True
        for d in self.stages:
            yield ("L", d, 0), top, True
            yield from ((("g", d, k), 1, True) for k in self.kinds_of(d) if self.given[d] is None)
            for c in range(self.data.n):
                able = any(self.data.times[c][k] is not None for k in self.kinds_of(d))
                yield ("x", c, d), int(able), True
            for v in range(len(self.data.passed)):
                yield ("i", v, d), 1, False
                yield ("o", v, d), 1, False
            yield from ((("h", t, d), 1, False) for t in self.tensors)


def empty(problem: Partition) -> LoadModel:
    """Return the stages of a problem without a model."""
    kinds = problem.kinds
    apart = not problem.contiguous or len(kinds) == 1
    given: list[int | None] = [
        k if apart else None for k, (_, count) in enumerate(kinds) for _ in range(count)
    ]
    return LoadModel(problem=problem, data=partition_data(problem), given=given)


def one_stage(at: LoadModel) -> Iterator[Row]:
    """Constraint 1."""
    for c in range(at.data.n):
        for sign in (1, -1):
            yield [(("x", c, d), sign) for d in at.stages], sign


def in_order(at: LoadModel) -> Iterator[Row]:
    """Constraint 2."""
    for c, before in enumerate(at.data.before):
        for b in sorted(before):
            for d in at.stages[:-1]:
                earlier = [(("x", b, e), 1) for e in range(d + 1)]
                yield earlier + [(("x", c, e), -1) for e in range(d + 1)], 0


def one_kind(at: LoadModel) -> Iterator[Row]:
    """Constraint 3."""
    free = [d for d in at.stages if at.given[d] is None]
    for d in free:
        yield [(("g", d, k), -1) for k in at.kinds_of(d)], -1
        for c, times in enumerate(at.data.times):
            able = [(("g", d, k), 1) for k in at.kinds_of(d) if times[k] is not None]
            yield [*able, (("x", c, d), -1)], 0
    for k, (_, count) in enumerate(at.data.kinds):
        if free:
            yield [(("g", d, k), -1) for d in free], -count


def crossings(at: LoadModel) -> Iterator[Row]:
    """Constraint 4."""
    for n, v in enumerate(at.data.passed):
        for d in at.stages:
            for r in v.readers:
                yield [(("o", n, d), 1), (("x", v.writer, d), -1), (("x", r, d), 1)], 0
                yield [(("i", n, d), 1), (("x", v.writer, d), 1), (("x", r, d), -1)], 0


def loads(at: LoadModel) -> Iterator[Row]:
    """Constraint 5."""
    for d in at.stages:
        for k in at.kinds_of(d):
            gate, constant = at.gate(d, k, at.total(k))
            terms: list[tuple[Name, int]] = [(("L", d, 0), 1), *gate]
            terms += [(("x", c, d), -(times[k] or 0)) for c, times in enumerate(at.data.times)]
            if not at.is_host(k):
                for n, v in enumerate(at.data.passed):
                    terms += [(("i", n, d), -v.time), (("o", n, d), -v.time)]
            yield terms, -constant


def memories(at: LoadModel) -> Iterator[Row]:
    """Constraint 6."""
    unit = gcd(*(at.data.sizes[t] for t in at.tensors)) or 1  # of bytes, of which stages hold whole ones
    sizes = {t: at.data.sizes[t] // unit for t in at.tensors}
    for d in at.stages if at.tensors else ():
        for k in at.kinds_of(d):
            if not at.is_host(k):
                gate, constant = at.gate(d, k, sum(sizes.values()))
                held: list[tuple[Name, int]] = [(("h", t, d), -size) for t, size in sizes.items()]
                yield [*gate, *held], -((at.problem.memory or 0) // unit) - constant


def holdings(at: LoadModel) -> Iterator[Row]:
    """Constraint 7."""
    for c, held in enumerate(at.data.held if at.tensors else ()):
        for t in sorted(held):
            for d in at.stages:
                yield [(("h", t, d), 1), (("x", c, d), -1)], 0


def largest(at: LoadModel) -> Iterator[Row]:
    """Constraint 8."""
    for d in at.stages:
        yield [(("B", 0, 0), 1), (("L", d, 0), -1)], 0


CONSTRAINTS = (one_stage, in_order, one_kind, crossings, loads, memories, holdings, largest)


def objective(at: LoadModel) -> list[tuple[Name, int]]:
    """Return the terms that are minimized."""
    if at.problem.objective == "load":
        return [(("B", 0, 0), 1)]
    return [(("B", 0, 0), at.problem.micro - 1), *((("L", d, 0), 1) for d in at.stages)]


def values_of(at: LoadModel, split: Split) -> dict[Name, int]:
    """Return what the variables are in a split."""
    slot: dict[int, int] = {}
    first = {s: split.stage.index(s) for s in range(len(split.kinds))}
    stages = sorted(first, key=first.__getitem__) if not at.problem.contiguous else sorted(first)
    kinds = [kind for kind, _ in at.data.kinds]
    for s in stages:
        k = kinds.index(split.kinds[s])
        slot[s] = next(d for d in at.stages if d not in slot.values() and at.given[d] in (None, k))
    values: dict[Name, int] = {}
    for s, d in slot.items():
        values["g", d, kinds.index(split.kinds[s])] = 1
    on = [slot[split.stage[some[0]]] for some in at.data.members]
    for c, d in enumerate(on):
        values["x", c, d] = 1
        values.update({("h", t, d): 1 for t in at.data.held[c]})
    for n, v in enumerate(at.data.passed):
        away = {on[r] for r in v.readers} - {on[v.writer]}
        values.update({("i", n, d): 1 for d in away} | ({("o", n, on[v.writer]): 1} if away else {}))
    found = at.problem.verdict(split).loads
    values.update({("L", slot[s], 0): load for s, load in enumerate(found)})
    values["B", 0, 0] = max(found)
    return values


def size(problem: Partition) -> ModelSize:
    """Return about what the model will have."""
    at = empty(problem)
    cells = len(at.given)
    pairs = sum(len(v.readers) for v in at.data.passed)
    links = sum(map(len, at.data.before)) * (cells if problem.contiguous else 0)
    rows = cells * (2 * pairs + links + at.data.n)
    terms = cells * (6 * pairs + 4 * at.data.n + 2 * len(at.data.passed)) + links * cells
    return ModelSize(cells * (at.data.n + 2 * len(at.data.passed)), rows, terms)


def build(
    problem: Partition, *, hint: Split | None = None, expired: Callable[[], bool] = lambda: False
) -> LoadModel:
    """Return the model; a known split is its start."""
    at = empty(problem)
    known = {} if hint is None else values_of(at, hint)
    state(at, CONSTRAINTS, at.names(), objective(at), known, expired)
    return at


def state(
    at: LoadModel,
    constraints: Iterable[Callable[[LoadModel], Iterable[Row]]],
    names: Iterable[tuple[Name, int, bool]],
    goal: Sequence[tuple[Name, int]],
    known: Mapping[Name, int],
    expired: Callable[[], bool],
) -> None:
    """Make the model of rows and variables; if values are known it starts from these, others 0."""
    import pyomo.environ as pyo

    tick = ticker(expired)
    at.model = model = pyo.ConcreteModel(name="stages")
    with silent_pyomo():
        bounds = {name: (most, whole) for name, most, whole in names}
        model.v = pyo.Var(
            list(bounds),
            bounds=lambda _, *name: (0, bounds[name][0]),
            domain=lambda _, *name: (
                pyo.NonNegativeReals if name[0] in CONTINUOUS or not bounds[name][1] else pyo.Binary
            ),
        )
        at.variables = {name: model.v[name] for name in bounds}
        if known:
            for name, variable in at.variables.items():
                variable.set_value(known.get(name, 0), skip_validation=True)
        model.rows = pyo.ConstraintList()
        for constrain in constraints:
            for terms, least in constrain(at):
                tick()
                weighted = linear([at.variables[x] for x, _ in terms], [w for _, w in terms])
                model.rows.add((least, weighted, None))
        model.objective = pyo.Objective(expr=linear([at.variables[x] for x, _ in goal], [w for _, w in goal]))


def decode(at: LoadModel, value: Callable[[Any], int]) -> Split | None:
    """Return the split of a solution."""
    on = []
    for c in range(at.data.n):
        there = [d for d in at.stages if value(at.variables["x", c, d]) > 0.5]
        if len(there) != 1:
            return None
        on.append(there[0])
    kinds = []
    for d in at.stages:
        some = [k for k in at.kinds_of(d) if at.given[d] is not None or value(at.variables["g", d, k]) > 0.5]
        kinds.append(at.data.kinds[some[0] if some else 0][0])
    return at.data.split(on, kinds)
