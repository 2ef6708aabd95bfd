r"""Recomputation in stages, as a MILP in Pyomo: Checkmate's statement, with frontier-advancing stages or not.

Data: see `data` (ops :math:`i`, values :math:`u`, :math:`d_i, w_i, m_u, M`).

Sets. Stages :math:`t = 0, 1, \dots`; stage t goes through its ops once, in the reference order, and runs
some of them. **Partitioned** (the paper's form): n stages; stage t ends with the first run of op t, which it
runs; before it, it may run any op i < t again that is of use to an op from t on. **Free**: a given number of
stages, each of which may run any ops.

Variables. :math:`R_{ti} \in \{0, 1\}`: stage t runs op i. :math:`N_{tiu} \in [0, 1]`: value u is kept after
the place of op i in stage t, for each u that op i finds, leaves or destroys; between two such places nothing
changes, so that :math:`P_{tiu}`, what is there before the place, is the N of the last one (1 at the very
start for initial values, else 0). :math:`Q_{tib}`: bundle b has its bytes while op i runs, which writes it.
:math:`L_{ti} \in [0, M]`: units held after the place of op i in stage t. Where R is integral, the least N
are, so that N needs no integrality.

Objective. Minimize :math:`\sum_{ti} d_i R_{ti}` subject to

1. :math:`R_{tt} = 1` (partitioned), or :math:`\sum_t R_{ti} \ge 1` and, for a in after(i),
   :math:`R_{ti} \le \sum_{s < t} R_{sa} + R_{ta}` (free);
2. :math:`R_{ti} \le P_{tiu}` for :math:`u \in In_i`: a run finds what it reads;
3. :math:`N_{tiu} \le P_{tiu} + R_{ti}` if i leaves u, :math:`N_{tiu} \le P_{tiu}` if not,
   :math:`N_{tiu} \le 1 - R_{ti}` if i destroys u; N = 1 at the end for final values;
4. :math:`Q_{tib} \ge \sum_{u \in b} P_{tiu}`, :math:`Q_{tib} \ge R_{ti}` for each b that i writes;
5. :math:`L_{ti} \ge L_{t,i-1} + \sum_u m_u (N_{tiu} - P_{tiu})`;
6. ``coexist``: :math:`L_{t,i-1} + \sum_b m_b (Q_{tib} - \sum_{u \in b} P_{tiu}) + w_i R_{ti} \le M`;
   ``replace``: :math:`L_{ti} + \sum_b m_b (Q_{tib} - \sum_{u \in b} N_{tiu}) + w_i R_{ti} \le M`, where what
   is only read may go at the start of the run;
7. a run that is none of (1) leaves something: :math:`R_{ti} \le \sum_{u \in Out_i} N_{tiu}`.

*Paging* (slower tiers; optional): see `stages_paging`, rows 8 to 10. :math:`F_{tiu}`: value u comes
back from a slower tier just before op i runs, which reads it; P + F takes the place of P in (2), (3), (4) and
of what (6) finds there when the run starts. What a run leaves and only slower tiers keep counts in (7). Final
values end in the fast memory, and bundles move together.

*What is optimal relative to what.* A partitioned schedule runs ops for the first time in the reference
order, and between two first runs each op at most once, in the reference order. The problem demands neither:
its optimum may be lower (``tests/solvers/recompute/test_graphs.py`` has graphs where it is), and a bound on
this model is none on the problem. With free stages the model states the problem if there are as many stages
as the fastest schedule has runs: put each run in a stage of its own. `enough_stages` returns such a number.

Sources: Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization" (MLSys
2020), eqs. 1 to 8; their FREE and hazard variables, a product of binaries made linear, are here the values
that are kept from place to place, which says the same with one kind of variable; versions, several results
of one op, workspaces and ``replace`` are ours. Sizes in units of their greatest common divisor as in its
public code (repository parasj/checkmate). Paging: Patil et al., "POET: Training Neural Networks on Tiny
Devices with Integrated Rematerialization and Paging" (ICML 2022), whose objective is energy and whose
transfers go with stages; here they block the runs, as in the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.lowering.actions import Compute, Transfer
from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import at_most, linear, silent_pyomo
from .data import RecomputeData, model_name
from .stages_paging import CONSTRAINTS as PAGING
from .stages_paging import Move, Paging, SlowerTiers, transfers

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES

EXACT_UNITS = 2**20
"""Units of memory up to which it is stated in units; larger ones are scaled, against rounding errors."""

SCALED_MEMORY = 1024.0
"""What a scaled memory is in the model: its coefficients stay within a few powers of ten of 1."""


CONSTRAINTS = (
    "runs_once",
    "runs_after",
    "finds_what_it_reads",
    "kept_if_there",
    "destroyed_by_rivals",
    "final_stays",
    "has_room",
    "level_follows",
    "memory_suffices",
    "leaves_something",
    *PAGING,
)
"""The names of the rows: two of (1), one of (2), three of (3), one of each of (4) to (10), (6) after (5)."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """Op `op` in stage `stage`: the variable (or 1) that says whether it runs, and the level after it."""

    stage: int
    op: int
    run: Any
    level: Any
    kept: tuple[tuple[int, Any], ...]
    """Values with N."""
    held: tuple[tuple[int, Any], ...]
    """Bundles with Q."""
    before: tuple[Move, ...] = ()
    behind: tuple[Move, ...] = ()
    """Copies from tier to tier before the run and behind it, one after another."""


@dataclass
class StagesModel:
    """The Pyomo model and its places, one after another."""

    model: Any
    data: RecomputeData
    partitioned: bool
    scale: float
    paging: Paging | None = None
    places: list[StageRun] = field(default_factory=list)
    first: list[Move] = field(default_factory=list)
    """Copies from tier to tier before the first place."""


def size(data: RecomputeData, stages: int | None = None, *, tiers: int = 2) -> ModelSize:
    """Return counts that those of the model do not exceed by much; `stages` None means partitioned."""
    accesses = sum(len(data.touches[i]) + 2 for i in range(data.n))
    places = accesses * (data.n + 1) // 2 if stages is None else accesses * stages
    return ModelSize(variables=tiers * places, constraints=(2 * tiers - 1) * places, terms=4 * tiers * places)


def enough_stages(data: RecomputeData, best: int) -> int:
    """Return a number of free stages in which there is a fastest schedule, if one takes `best` ticks.

    Every op runs at least once, and what time is left after that lets the shortest op run again so often.
    """
    return data.n + max(0, best - sum(data.duration)) // min(data.duration)


def build(
    data: RecomputeData,
    *,
    stages: int | None = None,
    memory: int | None = None,
    relaxed: bool = False,
    paging: Paging | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> StagesModel:
    """Return the model.

    Parameters
    ----------
    stages
        Number of free stages; None for the partitioned form.
    memory
        In units, instead of that of the data.
    relaxed
        R need not be integral.
    paging
        Costs of slower tiers; None for no use of them.
    """
    import pyomo.environ as pyo

    tick = ticker(expired)
    limit = data.memory if memory is None else memory
    scale = 1.0 if limit <= EXACT_UNITS else SCALED_MEMORY / limit
    with silent_pyomo():
        model = pyo.ConcreteModel(name=model_name(data))
        model.R = pyo.VarList(domain=pyo.UnitInterval if relaxed else pyo.Binary)
        model.N = pyo.VarList(domain=pyo.UnitInterval)
        model.Q = pyo.VarList(domain=pyo.UnitInterval)
        model.L = pyo.VarList(bounds=(0, limit * scale))
        model.X = pyo.VarList(domain=pyo.Binary)
        model.G = pyo.VarList(domain=pyo.UnitInterval)
        for family in CONSTRAINTS:
            model.add_component(family, pyo.ConstraintList())
        built = StagesModel(model, data, stages is None, scale, paging)
        sequence = _sequence(data, stages)
        state = _StageState(built, limit * scale, sequence, paging)
        for k, (t, i) in enumerate(sequence):
            if k % 100 == 0:
                tick()
            state.place(k, t, i)
        state.finish()
        terms = [(data.duration[p.op], p.run) for p in built.places] + state.slower.fares
        sure = sum(weight * item for weight, item in terms if isinstance(item, int))
        free = [(weight, item) for weight, item in terms if not isinstance(item, int)]
        model.objective = pyo.Objective(expr=linear([x for _, x in free], [w for w, _ in free], sure))
    return built


def _sequence(data: RecomputeData, stages: int | None) -> list[tuple[int, int]]:
    """Return stage and op of all places."""
    if stages is not None:
        return [(t, i) for t in range(stages) for i in range(data.n)]
    return [(t, i) for t in range(data.n) for i in range(t + 1) if i == t or data.useful[i] >= t]


@dataclass(frozen=True, slots=True)
class _At:
    """A place: its number, op, variable, whether that is 1; P before it and what is fetched, by value."""

    k: int
    op: int
    run: Any
    forced: bool
    before: dict[int, Any]
    fetched: dict[int, list[Any]]


class _StageState:
    """What is there while the model is built from place to place."""

    def __init__(
        self, built: StagesModel, limit: float, sequence: list[tuple[int, int]], paging: Paging | None
    ) -> None:
        self.built, self.model, self.data, self.limit = built, built.model, built.data, limit
        self.slower = SlowerTiers(self.model, self.data, paging, self.row)
        self.pages = paging is not None
        """Whether values may go to slower tiers."""
        self.pages_late = paging is not None and paging.limited
        """Whether they may do so at a place that only reads them."""
        self.there: list[Any] = [int(x.at_start) for x in self.data.values]
        """P by value."""
        begin = sum(x.nbytes for x in self.data.values if x.at_start)
        self.level: Any = begin * built.scale
        self.ran: list[list[Any]] = [[] for _ in range(self.data.n)]
        self.last_read = [-1] * len(self.data.values)
        for k, (_, i) in enumerate(sequence):
            for u in self.data.reads[i]:
                self.last_read[u] = k
        initial = {u: (1,) for u, x in enumerate(self.data.values) if self.pages and x.at_start and x.readers}
        built.first += self.slower.outward(initial)

    def row(self, family: str, terms: Sequence[tuple[float, Any]], most: float) -> None:
        """State that the weighted sum of variables and numbers is at most `most`."""
        at_most(self.model.component(family), terms, most)

    def place(self, k: int, t: int, i: int) -> None:
        """Add op i in stage t, place k."""
        data, forced = self.data, self.built.partitioned and t == i
        run: Any = 1 if forced else self.model.R.add()
        if not self.built.partitioned:
            for a in data.after[i]:  # (1)
                self.row("runs_after", [(1, run), *((-1, r) for r in self.ran[a])], 0)
        self.ran[i].append(run)
        lasting = [u for u in data.reads[i] if self.pages_late and k < self.last_read[u]]
        moves = self.slower.outward({u: (self.there[u], run) for u in lasting})
        moves += self.slower.inward(data.reads[i] if self.pages else (), run)
        fetched: dict[int, list[Any]] = {u: [] for u in data.touches[i]}
        for u, _, target, made in moves:
            if target == 0:
                fetched[u].append(made)
        at = _At(k, i, run, forced, {u: self.there[u] for u in data.touches[i]}, fetched)
        for u in data.reads[i]:  # (2)
            sources = [(-1, x) for x in (self.there[u], *fetched[u])]
            self.row("finds_what_it_reads", [(1, run), *sources], 0)
        kept = self._keep(at)
        held, extra = self._make_room(at)
        self._follow_level(at, extra)
        kept_on = {u: (run,) for u in data.writes[i] if self.pages and k < self.last_read[u]}
        stale = (*data.writes[i], *data.destroys[i]) if self.pages else ()
        stored = self.slower.outward(kept_on, stale=stale, run=run)
        if not forced and self.built.partitioned:  # (7)
            left = [self.there[u] for u in data.writes[i]] + [x for _, j, _, x in stored if j == 0]
            self.row("leaves_something", [(1, run), *((-1, x) for x in left)], 0)
        record = (tuple(kept), tuple(held), tuple(moves), tuple(stored))
        self.built.places.append(StageRun(t, i, run, self.level, *record))

    def _keep(self, at: _At) -> list[tuple[int, Any]]:
        """(3) Set what is there behind a run; return the values that may be, with N."""
        data, values, kept = self.data, self.data.values, []
        for u, was in at.before.items():
            source = [(-1, x) for x in (was, at.run if u in data.writes[at.op] else 0, *at.fetched[u])]
            absent = all(isinstance(item, int) and not item for _, item in source)
            wanted = values[u].final or at.k < self.last_read[u]
            destroyed = u in data.destroys[at.op]
            if not wanted or (destroyed and at.forced) or absent:
                self.there[u] = 0
                continue
            new = self.there[u] = self.model.N.add()
            kept.append((u, new))
            self.row("kept_if_there", [(1, new), *source], 0)
            if destroyed:
                self.row("destroyed_by_rivals", [(1, new), (1, at.run)], 1)
        return kept

    def _make_room(self, at: _At) -> tuple[list[tuple[int, Any]], list[tuple[float, Any]]]:
        """(4) Return the bundles with Q, and what is there during the run only, besides the workspace."""
        data, values = self.data, self.data.values
        held: list[tuple[int, Any]] = []
        extra: list[tuple[float, Any]] = []
        for u in data.writes[at.op]:
            family = (u, *values[u].rivals)
            weight = values[u].nbytes * self.built.scale
            if not weight:
                continue
            room: Any = 1
            arrived = [x for v in family for x in at.fetched[v]]
            if not at.forced:
                room = self.model.Q.add()
                held.append((u, room))
                sources = [(1, x) for x in (*(at.before[v] for v in family), *arrived)]
                self.row("has_room", [*sources, (-1, room)], 0)
                self.row("has_room", [(1, at.run), (-1, room)], 0)
            extra.append((weight, room))
            side = self.there if data.in_place else at.before
            extra += [(-weight, side[v]) for v in family]
            if not data.in_place:
                extra += [(-weight, x) for x in arrived]
        return held, extra

    def _follow_level(self, at: _At, extra: Sequence[tuple[float, Any]]) -> None:
        """(5), (6) Set the level behind a run; what is there before it, during it and behind it fits."""
        data, scale, level = self.data, self.built.scale, self.model.L.add()
        weight = {u: data.values[u].nbytes * scale for u in at.before}
        change = [
            (weight[u] * sign, item)
            for u, was in at.before.items()
            for sign, item in ((1, self.there[u]), (-1, was))
        ]
        self.row("level_follows", [(1, self.level), (-1, level), *change], 0)
        arriving = [(1, self.level), *((weight[u], x) for u in at.fetched for x in at.fetched[u])]
        if data.in_place and len(arriving) > 1:
            self.row("memory_suffices", arriving, self.limit)
        base = [(1, level)] if data.in_place else arriving
        self.row("memory_suffices", [*base, *extra, (data.workspace[at.op] * scale, at.run)], self.limit)
        self.level = level

    def finish(self) -> None:
        """State what holds at the end."""
        for u, x in enumerate(self.data.values):
            if x.final:  # (3)
                self.row("final_stays", [(-1, self.there[u])], -1)
        if not self.built.partitioned:
            for runs in self.ran:  # (1)
                self.row("runs_once", [(-1, r) for r in runs], -1)


def decode(built: StagesModel, value: Callable[[Any], float]) -> list[int]:
    """Return the ops of a solution as they run."""
    return [p.op for p in built.places if isinstance(p.run, int) or value(p.run) > 0.5]


def decode_paged(built: StagesModel, value: Callable[[Any], float]) -> list[Compute | Transfer]:
    """Return the runs and transfers of a solution with paging."""
    assert built.paging is not None

    def moved(moves: Iterable[Move]) -> list[Transfer]:
        assert built.paging is not None
        return transfers(built.data, built.paging, moves, value)

    steps: list[Compute | Transfer] = [*moved(built.first)]
    for place in built.places:
        if isinstance(place.run, int) or value(place.run) > 0.5:
            steps += [*moved(place.before), Compute(place.op), *moved(place.behind)]
    return steps


def objective(built: StagesModel, value: Callable[[Any], float]) -> float:
    """Return the ticks of a solution, integral or not."""
    weights = built.data.duration
    return sum(weights[p.op] * (p.run if isinstance(p.run, int) else value(p.run)) for p in built.places)


def kept_shares(built: StagesModel, value: Callable[[Any], float]) -> list[list[float]]:
    """Return by stage (partitioned) and value what is kept until the stage begins."""
    now = [float(x.at_start) for x in built.data.values]
    shares: list[list[float]] = []
    for place in built.places:
        if place.stage == len(shares):
            shares.append(list(now))
        kept = dict(place.kept)
        for u in built.data.touches[place.op]:
            now[u] = value(kept[u]) if u in kept else 0.0
    return shares
