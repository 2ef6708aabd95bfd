r"""Recomputation in stages, as a MILP in Pyomo: Checkmate's statement, with frontier-advancing stages or not.

Data: see `recompute_data` (ops :math:`i`, values :math:`u`, :math:`d_i, w_i, m_u, M`).

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
5. :math:`L_{ti} = L_{t,i-1} + \sum_u m_u (N_{tiu} - P_{tiu})`;
6. ``coexist``: :math:`L_{t,i-1} + \sum_b m_b (Q_{tib} - \sum_{u \in b} P_{tiu}) + w_i R_{ti} \le M`;
   ``replace``: :math:`L_{ti} + \sum_b m_b (Q_{tib} - \sum_{u \in b} N_{tiu}) + w_i R_{ti} \le M`, where what
   is only read may go at the start of the run;
7. a run that is none of (1) leaves something: :math:`R_{ti} \le \sum_{u \in Out_i} N_{tiu}`.

*What is optimal relative to what.* A partitioned schedule runs ops for the first time in the reference
order, and between two first runs each op at most once, in the reference order. The problem demands neither:
its optimum may be lower (``tests/solvers/test_recompute_graphs.py`` has graphs where it is), and a bound on
this model is none on the problem. With free stages the model states the problem if there are as many stages
as the fastest schedule has runs: put each run in a stage of its own. `enough_stages` returns such a number.

Sources: Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization" (MLSys
2020), eqs. 1 to 8; their FREE and hazard variables, a product of binaries made linear, are here the values
that are kept from place to place, which says the same with one kind of variable; versions, several results
of one op, workspaces and ``replace`` are ours. Sizes in units of their greatest common divisor as in its
public code (repository parasj/checkmate).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .milp_terms import at_most, linear, silent_pyomo
from .peak_data import ModelSize
from .recompute_data import RecomputeData, fits

EXACT_UNITS = 2**20
"""Memories up to so many units are stated in units; larger ones are scaled, against rounding errors."""

SCALED_MEMORY = 1024.0


@dataclass(frozen=True, slots=True)
class Place:
    """Op `op` in stage `stage`: the variable (or 1) that says whether it runs, and the level after it."""

    stage: int
    op: int
    run: Any
    level: Any
    kept: tuple[tuple[int, Any], ...]
    """Values with N."""
    held: tuple[tuple[int, Any], ...]
    """Bundles with Q."""


@dataclass
class StagesModel:
    """The Pyomo model and its places, one after another."""

    model: Any
    data: RecomputeData
    partitioned: bool
    scale: float
    places: list[Place] = field(default_factory=list)


def size(data: RecomputeData, stages: int | None = None) -> ModelSize:
    """Return counts that those of the model do not exceed by much; `stages` None means partitioned."""
    touched = sum(len(_touched(data, i)) + 2 for i in range(data.n))
    places = touched * (data.n + 1) // 2 if stages is None else touched * stages
    return ModelSize(variables=2 * places, constraints=3 * places, terms=8 * places)


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
    hint: Sequence[int] | None = None,
    relaxed: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> StagesModel | None:
    """Return the model, or None if `expired` held while it was built.

    Parameters
    ----------
    data
        See `recompute_data`.
    stages
        Number of free stages; None for the partitioned form.
    memory
        In units, instead of that of the data.
    hint
        Ops as they run: if they are a schedule of this form, every variable gets the value it has in it.
    relaxed
        R need not be integral.
    """
    import pyomo.environ as pyo

    limit = data.memory if memory is None else memory
    scale = 1.0 if limit <= EXACT_UNITS else SCALED_MEMORY / limit
    with silent_pyomo():
        model = pyo.ConcreteModel()
        model.R = pyo.VarList(domain=pyo.UnitInterval if relaxed else pyo.Binary)
        model.N = pyo.VarList(domain=pyo.UnitInterval)
        model.Q = pyo.VarList(domain=pyo.UnitInterval)
        model.L = pyo.VarList(bounds=(0, limit * scale))
        model.rows = pyo.ConstraintList()
        built = StagesModel(model, data, stages is None, scale)
        sequence = _sequence(data, stages)
        state = _State(built, limit * scale, sequence)
        for k, (t, i) in enumerate(sequence):
            if k % 100 == 0 and expired():
                return None
            state.place(k, t, i)
        state.finish()
        sure = sum(data.duration[p.op] for p in built.places if isinstance(p.run, int))
        free = [p for p in built.places if not isinstance(p.run, int)]
        model.objective = pyo.Objective(
            expr=linear([p.run for p in free], [data.duration[p.op] for p in free], sure)
        )
    if hint is not None:
        _set_values(built, hint)
    return built


def _sequence(data: RecomputeData, stages: int | None) -> list[tuple[int, int]]:
    """Return stage and op of all places."""
    if stages is not None:
        return [(t, i) for t in range(stages) for i in range(data.n)]
    return [(t, i) for t in range(data.n) for i in range(t + 1) if i == t or data.useful[i] >= t]


def _touched(data: RecomputeData, i: int) -> list[int]:
    """Return the values that a run of op i finds, leaves or destroys."""
    return sorted({*data.reads[i], *data.writes[i], *data.destroys[i]})


class _State:
    """What is there while the model is built from place to place."""

    def __init__(self, built: StagesModel, limit: float, sequence: list[tuple[int, int]]) -> None:
        self.built, self.model, self.data, self.limit = built, built.model, built.data, limit
        self.there: list[Any] = [int(x.at_start) for x in self.data.values]
        """P by value."""
        begin = sum(x.nbytes for x in self.data.values if x.at_start)
        self.level: Any = begin * built.scale
        self.ran: list[list[Any]] = [[] for _ in range(self.data.n)]
        self.last_read = [-1] * len(self.data.values)
        for k, (_, i) in enumerate(sequence):
            for u in self.data.reads[i]:
                self.last_read[u] = k

    def row(self, terms: Sequence[tuple[float, Any]], most: float) -> None:
        """State that the weighted sum of variables and numbers is at most `most`."""
        at_most(self.model.rows, terms, most)

    def place(self, k: int, t: int, i: int) -> None:
        """Add op i in stage t, place k."""
        data, model, values, scale = self.data, self.model, self.data.values, self.built.scale
        forced = self.built.partitioned and t == i
        run: Any = 1 if forced else model.R.add()
        if not self.built.partitioned:
            for a in data.after[i]:  # (1)
                self.row([(1, run), *((-1, r) for r in self.ran[a])], 0)
        self.ran[i].append(run)
        for u in data.reads[i]:  # (2)
            self.row([(1, run), (-1, self.there[u])], 0)
        before = {u: self.there[u] for u in _touched(data, i)}
        destroyed = data.destroys[i]
        kept = []
        for u, was in before.items():  # (3)
            writes = u in data.writes[i]
            wanted = values[u].final or k < self.last_read[u]
            if not wanted or (u in destroyed and forced) or (not writes and isinstance(was, int) and not was):
                self.there[u] = 0
                continue
            new = self.there[u] = model.N.add()
            kept.append((u, new))
            self.row([(1, new), (-1, was), *([(-1, run)] if writes else [])], 0)
            if u in destroyed:
                self.row([(1, new), (1, run)], 1)
        held, extra = [], []  # extra: what is there during the run only, besides the workspace
        for u in data.writes[i]:
            family = (u, *values[u].rivals)
            weight = values[u].nbytes * scale
            if not weight:
                continue
            room: Any = 1
            if not forced:
                room = model.Q.add()
                held.append((u, room))
                self.row([*((1, before[v]) for v in family), (-1, room)], 0)  # (4)
                self.row([(1, run), (-1, room)], 0)
            extra.append((weight, room))
            side = self.there if data.in_place else before
            extra += [(-weight, side[v]) for v in family]
        level = model.L.add()
        change = [
            (values[u].nbytes * scale * sign, item)
            for u in before
            for sign, item in ((1, self.there[u]), (-1, before[u]))
        ]
        self.row([(1, self.level), (-1, level), *change], 0)  # (5)
        self.row([(-1, self.level), (1, level), *((-w, item) for w, item in change)], 0)
        base = level if data.in_place else self.level
        self.row([(1, base), *extra, (data.workspace[i] * scale, run)], self.limit)  # (6)
        if not forced and self.built.partitioned:  # (7)
            self.row([(1, run), *((-1, self.there[u]) for u in data.writes[i])], 0)
        self.level = level
        self.built.places.append(Place(t, i, run, level, tuple(kept), tuple(held)))

    def finish(self) -> None:
        """State what holds at the end."""
        for u, x in enumerate(self.data.values):
            if x.final:  # (3)
                self.row([(-1, self.there[u])], -1)
        if not self.built.partitioned:
            for runs in self.ran:  # (1)
                self.row([(-1, r) for r in runs], -1)


def stages_of(data: RecomputeData, runs: Sequence[int]) -> list[list[int]] | None:
    """Return the ops that each stage of the partitioned form runs, or None if it is none of its schedules.

    Within a stage the ops are put in the reference order; a schedule within the memory is what counts.
    """
    found: list[list[int]] = [[]]
    for i in runs:
        t = len(found) - 1
        if i > t or i in found[t]:
            return None
        if i == t or data.useful[i] >= t:
            found[t].append(i)
        if i == t:
            found.append([])
    found.pop()
    return [sorted(stage) for stage in found] if len(found) == data.n else None


def _set_values(built: StagesModel, hint: Sequence[int]) -> None:
    """Give every variable its value in a schedule with early discards; nothing if the runs are none."""
    data = built.data
    stages = stages_of(data, hint) if built.partitioned else _ascending(hint)
    if stages is None or not fits(data, [i for stage in stages for i in stage]):
        return
    if not built.partitioned and len(stages) > built.places[-1].stage + 1:
        return
    chosen = {(t, i) for t, stage in enumerate(stages) for i in stage}
    values = data.values
    needed = [x.final for x in values]
    after: list[list[bool]] = []
    for place in reversed(built.places):
        i = place.op
        after.append(list(needed))
        if (place.stage, i) in chosen:
            for u in data.writes[i]:
                needed[u] = False
            for u in data.reads[i]:
                needed[u] = True
    after.reverse()
    before = [x.at_start for x in values]
    for place, now in zip(built.places, after, strict=True):
        runs = (place.stage, place.op) in chosen
        if not isinstance(place.run, int):
            place.run.set_value(int(runs))
        for u, variable in place.kept:
            variable.set_value(int(now[u]))
        for u, variable in place.held:
            variable.set_value(int(runs or any(before[v] for v in (u, *values[u].rivals))))
        for u in _touched(data, place.op):
            before[u] = now[u]
        level = sum(x.nbytes for x, there in zip(values, before, strict=True) if there)
        place.level.set_value(level * built.scale)


def _ascending(runs: Sequence[int]) -> list[list[int]]:
    """Return the runs cut where an op follows a larger one, or itself."""
    found: list[list[int]] = []
    for i in runs:
        if not found or i <= found[-1][-1]:
            found.append([])
        found[-1].append(i)
    return found


def decode(built: StagesModel, value: Callable[[Any], float]) -> list[int]:
    """Return the ops of a solution as they run."""
    return [p.op for p in built.places if isinstance(p.run, int) or value(p.run) > 0.5]


def objective(built: StagesModel, value: Callable[[Any], float]) -> float:
    """Return the ticks of a solution, integral or not."""
    weights = built.data.duration
    return sum(weights[p.op] * (p.run if isinstance(p.run, int) else value(p.run)) for p in built.places)


def kept_shares(built: StagesModel, value: Callable[[Any], float]) -> list[list[float]]:
    """Return by stage (partitioned) and value what is kept until the stage begins."""
    now = [float(x.at_start) for x in built.data.values]
    found: list[list[float]] = []
    for place in built.places:
        if place.stage == len(found):
            found.append(list(now))
        kept = dict(place.kept)
        for u in _touched(built.data, place.op):
            now[u] = value(kept[u]) if u in kept else 0.0
    return found
