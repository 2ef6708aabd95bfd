r"""A lower bound on recomputation from what must be in memory at a few moments, as a MILP in Pyomo.

Unlike the models in stages this one is a relaxation of the problem itself: it assumes nothing about the
order of runs, nor how often an op runs between two moments.

Data: see `data` (ops :math:`i`, values :math:`u`, :math:`d_i, w_i, m_u, M`); :math:`f_i` the units
that a run of op i takes; :math:`T_i` the bundles that it accesses.

Sets. **Moments** :math:`k = 1, \dots, K`: ops :math:`p_1, \dots, p_K`, each an ancestor of the next one;
moment k is the start of the first run of :math:`p_k`. An op cannot run before all of its ancestors have, so
moments follow each other in every schedule. Interval k is the time from moment k (0: the beginning) to
moment k + 1 (K + 1: the end), its first run that of :math:`p_k`.

Variables, read off any schedule. :math:`R_{ki} \in \{0, 1\}`: op i starts in interval k, once or more.
:math:`S_{ku}`: value u is there at moment k. :math:`H_{ku}`: it is there all through interval k.
:math:`L_k \in [0, M]`: the units of all that is there all through interval k.

Objective. Minimize :math:`\sum_{ki} d_i R_{ki}`, at most the time of the schedule, subject to

1. :math:`\sum_k R_{ki} \ge 1`; :math:`R_{k p_k} = 1`; :math:`R_{ji} = 0` for :math:`j < k` if i is
   :math:`p_k` or has it as an ancestor; :math:`\sum_{j < k} R_{ji} \ge 1` for each other ancestor i of
   :math:`p_k`;
2. :math:`S_{0u} = 1` for initial values, else 0; :math:`S_{k+1,u} \le S_{ku} + R_{k W_u}` (initial:
   :math:`\le S_{ku}`): what is there was there before or was left meanwhile; final values are there at K + 1;
3. :math:`R_{ki} \le S_{ku} + R_{k W_u}` for :math:`u \in In_i`: likewise for what a run finds; and
   :math:`S_{ku} = 1` for :math:`u \in In_{p_k}`, since that run is the first one of the interval;
4. :math:`H_{ku} \ge S_{ku} + S_{k+1,u} - 1 - R_{k W_u}`: between two moments at which a value is there it is
   discarded only to be left again by its writer;
5. :math:`\sum_u m_u S_{ku} \le M`, and :math:`\sum m_u S_{ku} + f_{p_k} \le M` over the u whose bundle is
   not in :math:`T_{p_k}`;
6. for each k: :math:`\sum_u m_u H_{ku} \le L_k`, and for each k and i:
   :math:`L_k - \sum m_u H_{ku} + f_i R_{ki} \le M` over the u whose bundle is in :math:`T_i`: what stays all
   through the interval is there while i runs. Stated by what i accesses, the rows have as many terms as the
   graph has accesses, not ops times values.

(1) to (6) hold for what is read off a schedule of action after action, so the optimum is a bound on the
problem. Bundles change nothing (see `data`). In (2) and (3) the rivals of versions are left out,
which only relaxes.

*One memory only* (no slower tiers), where initial contents that are overwritten never come back. *Resident*
bundles (`Recompute.resident`) are there all the time in some version: in (5) and (6) they are not among
the u, and M is less by the units of those not in :math:`T_{p_k}` or :math:`T_i` (of all in the first row).

8. for each op w that finds an initial value u and destroys it: :math:`\sum_k R_{kw} \le 1`, and for each k
   and each other i that finds u: :math:`R_{ki} + \sum_{j < k} R_{jw} \le 1`. The first run of w leaves no u,
   so that w runs once, and no run of i follows it. (An update of a weight; batch norm with running means.)

*Slower tiers*, from which a value can also come back; runs find what they read in the fast memory.
:math:`C_{ku} \in \{0, 1\}`: value u comes back in interval k, once or more, which takes :math:`r_u` at least
(from the tier from which it is fastest); :math:`V_u \in \{0, 1\}`: it is written to a slower tier, once or
more, which takes :math:`w_u` at least. The objective has :math:`\sum_{ku} r_u C_{ku} + \sum_u w_u V_u` as
well, S + R + C takes the place of S + R in (2) and (3), :math:`- C_{ku}` goes to the right of (4), and

7. :math:`C_{ku} \le V_u`: what comes back was written before, since all that is initial begins in the fast
   memory; at the end final values are in some tier: :math:`S_{K+1,u} + V_u \ge 1`.

All this holds for what is read off a schedule in which runs and transfers block each other, as they do in the
problem; a final value without readers counts as there until it is discarded for the first time since it was
left (it has no C, and V = 1 if it comes back). Tensors come back one by one, and also what no op accesses
may be written to make room, so these data are without bundles (``bundled=False``).

With K = 1 the model says: what the descendants of an op need of what precedes it is kept while the op runs,
or computed again. More moments see what is computed again repeatedly.

S and H are integral where R is, at their least; only R is integer. Source: ours; for chains (1) to (5) with
all moments are Checkmate's (2020) rows for what is stored between stages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import at_most, linear, silent_pyomo
from .data import RecomputeData, model_name
from .stages_milp import EXACT_UNITS, SCALED_MEMORY

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES

CONSTRAINTS = (
    "runs_once",
    "runs_before_its_descendants",
    "there_if_there_before",
    "finds_what_it_reads",
    "there_all_through",
    "memory_suffices_at_moments",
    "level_through",
    "memory_suffices_within",
    "comes_back_if_written",
    "in_some_tier_at_the_end",
    "not_after_what_destroys",
)
"""The names of the rows: two of (1), one of each of (2) to (6), one of (5) and (6), two of (7), (8)."""


@dataclass
class MomentsModel:
    """The Pyomo model.

    Attributes
    ----------
    model
        The MILP.
    data, moments
        What it was built from.
    runs, there, through
        ``runs[k][i]`` is R, ``there[k][u]`` S (k to K + 1), ``through[k][u]`` H, or the numbers they are.
    levels, weights
        ``levels[k]`` is L, and by value the bytes that it has there, both scaled.
    back, written
        ``back[k][u]`` is C, ``written[u]`` V, or 0.
    """

    model: Any
    data: RecomputeData
    moments: tuple[int, ...]
    runs: list[list[Any]]
    there: list[list[Any]]
    through: list[list[Any]]
    levels: list[Any]
    weights: list[float]
    back: list[list[Any]]
    written: list[Any]


@dataclass(frozen=True)
class Slower:
    """By value the least ticks in which it comes back from a slower tier (None: never), is written to one."""

    back: tuple[int | None, ...]
    written: tuple[int, ...]


def longest_path(data: RecomputeData) -> list[int]:
    """Return ops, each an ancestor of the next one, as many as can be.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> longest_path(recompute_data(lt.Recompute(lt.load("catalogue:diamond"))))
    [0, 1, 3]
    """
    length, back = [1] * data.n, [-1] * data.n
    for i in range(data.n):
        for j in (*data.inputs[i], *data.after[i]):
            if length[j] + 1 > length[i]:
                length[i], back[i] = length[j] + 1, j
    i = max(range(data.n), key=lambda j: length[j])
    path = []
    while i >= 0:
        path.append(i)
        i = back[i]
    return path[::-1]


def by_need(data: RecomputeData) -> list[int]:
    """Return the ops of a longest path at whose first run not all that is needed later fits, the worst first.

    Needed later is what the op accesses, and each value that is initial or left by its ancestors, and that
    one of its descendants finds or the end: at that moment some of it was discarded to be computed again.
    """
    path = longest_path(data)
    needed = _needed_later(data, path)
    worst = sorted(range(len(path)), key=lambda k: (-needed[k], path[k]))
    return [path[k] for k in worst if needed[k] > data.memory]


def _reached(data: RecomputeData, path: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return by op the first place of a path that it comes before, and the last one that it comes after."""
    end, place = len(path), {p: k for k, p in enumerate(path)}
    first = [place.get(i, end) for i in range(data.n)]
    last = [place.get(i, -1) for i in range(data.n)]
    before = [(*data.inputs[i], *data.after[i]) for i in range(data.n)]
    for i in reversed(range(data.n)):
        for j in before[i]:
            first[j] = min(first[j], first[i])
    for i in range(data.n):
        last[i] = max(last[i], max((last[j] for j in before[i]), default=-1))
    return first, last


def _needed_later(data: RecomputeData, path: Sequence[int]) -> list[int]:
    """Return by op of a path the units of `by_need`, in time that grows as the graph does.

    Ancestors grow along a path and descendants shrink, so a value counts at the places of an interval: from
    the first one that its writer is an ancestor of to the last one that a reader descends from.
    """
    end = len(path)
    first, last = _reached(data, path)
    places: dict[int, list[int]] = {}
    always = {x.tensor: x.nbytes for x in data.values if x.tensor in data.resident}
    kept, more, needed = sum(always.values()), [0] * (end + 1), [0] * end
    for k, p in enumerate(path):
        own = {data.values[u].tensor for u in (*data.reads[p], *data.writes[p])}
        needed[k] = data.footprint[p] + kept - sum(always.get(b, 0) for b in own)
        for b in own:
            places.setdefault(b, []).append(k)
    less: dict[int, list[int]] = {b: [0] * (len(some) + 1) for b, some in places.items()}
    for x in data.values:
        begin = 0 if x.writer is None else first[x.writer]
        stop = end if x.final else 1 + max((last[j] for j in x.readers), default=-1)
        if x.tensor in always or begin >= stop:
            continue
        more[begin] += x.nbytes
        more[stop] -= x.nbytes
        if x.tensor in places:  # at places that access the tensor it is in their footprint
            less[x.tensor][bisect_left(places[x.tensor], begin)] += x.nbytes
            less[x.tensor][bisect_left(places[x.tensor], stop)] -= x.nbytes
    needed = [a + b for a, b in zip(needed, accumulate(more), strict=False)]
    for b, some in places.items():
        for k, nbytes in zip(some, accumulate(less[b]), strict=False):
            needed[k] -= nbytes
    return needed


def size(data: RecomputeData, moments: int) -> ModelSize:
    """Return counts that those of the model do not exceed by much."""
    edges = sum(len(reads) for reads in data.reads)
    values, intervals = len(data.values), moments + 1
    return ModelSize(
        variables=intervals * (data.n + 2 * values + 1),
        constraints=intervals * (3 * data.n + 2 * values + edges),
        terms=intervals * (4 * data.n + 5 * edges + 10 * values),
    )


def build(
    data: RecomputeData,
    moments: Sequence[int],
    *,
    slower: Slower | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> MomentsModel:
    """Return the model.

    Parameters
    ----------
    moments
        Ops, each an ancestor of the next one.
    slower
        Costs of slower tiers; None for none.
    """
    import pyomo.environ as pyo

    tick = ticker(expired)
    last, values = len(moments), data.values
    versions: dict[int, list[int]] = {}
    for u, x in enumerate(values):
        versions.setdefault(x.tensor, []).append(u)
    scale = 1.0 if data.memory <= EXACT_UNITS else SCALED_MEMORY / data.memory
    limit = data.memory * scale
    always = {x.tensor: x.nbytes * scale for x in values if slower is None and x.tensor in data.resident}
    weights = [0.0 if x.tensor in always else x.nbytes * scale for x in values]
    room = limit - sum(always.values())
    with silent_pyomo():
        model = pyo.ConcreteModel(name=model_name(data))
        model.R = pyo.VarList(domain=pyo.Binary)
        model.S = pyo.VarList(domain=pyo.UnitInterval)
        model.H = pyo.VarList(domain=pyo.UnitInterval)
        model.L = pyo.VarList(bounds=(0, limit))
        model.C = pyo.VarList(domain=pyo.Binary)
        model.V = pyo.VarList(domain=pyo.Binary)
        for family in CONSTRAINTS:
            model.add_component(family, pyo.ConstraintList())
        runs = _runs(model, data, moments)
        there = _there(model, data, moments)
        back, written = _back(model, data, there, slower, last + 1)
        all_through, levels = [], []
        for k in range(last + 1):
            tick()
            _finds(model, data, runs[k], there[k], there[k + 1], back[k])
            at_most(model.memory_suffices_at_moments, list(zip(weights, there[k + 1], strict=True)), room)
            through = _through(model, data, runs[k], there[k], there[k + 1], back[k])
            all_through.append(through)
            level = model.L.add()
            levels.append(level)
            stays = list(zip(weights, through, strict=True))
            at_most(model.level_through, [*stays, (-1, level)], 0)
            for i in range(data.n):  # (5), (6)
                if isinstance(runs[k][i], int) and not runs[k][i]:
                    continue
                own = {values[u].tensor for u in (*data.reads[i], *data.writes[i])}
                if k > 0 and i == moments[k - 1]:
                    terms = [
                        (m, s)
                        for x, m, s in zip(values, weights, there[k], strict=True)
                        if x.tensor not in own
                    ]
                else:
                    held = (stays[u] for b in sorted(own) for u in versions[b])
                    terms = [(1.0, level), *((-m, h) for m, h in held)]
                terms.append((data.footprint[i] * scale, runs[k][i]))
                at_most(model.memory_suffices_within, terms, room + sum(always.get(b, 0) for b in own))
        for i in range(data.n):  # (1)
            at_most(model.runs_once, [(-1, runs[k][i]) for k in range(last + 1)], -1)
            for k in range(1, last + 1):
                if i != moments[k - 1] and data.ancestors[moments[k - 1]] >> i & 1:
                    before = [(-1, runs[j][i]) for j in range(k)]
                    at_most(model.runs_before_its_descendants, before, -1)
        if slower is None:
            _destroyed(model, data, runs)
        weighted = [(data.duration[i], row[i]) for row in runs for i in range(data.n)]
        if slower is not None:
            weighted += zip(slower.written, written, strict=True)
            weighted += [(c or 0, item) for row in back for c, item in zip(slower.back, row, strict=True)]
        sure = sum(weight * item for weight, item in weighted if isinstance(item, int))
        free = [(weight, item) for weight, item in weighted if not isinstance(item, int)]
        model.objective = pyo.Objective(expr=linear([x for _, x in free], [w for w, _ in free], sure))
    return MomentsModel(model, data, tuple(moments), runs, there, all_through, levels, weights, back, written)


def _runs(model: Any, data: RecomputeData, moments: Sequence[int]) -> list[list[Any]]:
    """Return R by interval and op, a number where (1) fixes it."""
    rows: list[list[Any]] = []
    for k in range(len(moments) + 1):
        row: list[Any] = []
        for i in range(data.n):
            early = k < len(moments) and data.ancestors[i] >> moments[k] & 1
            first = k > 0 and i == moments[k - 1]
            row.append(0 if early else 1 if first else model.R.add())
        rows.append(row)
    return rows


def _there(model: Any, data: RecomputeData, moments: Sequence[int]) -> list[list[Any]]:
    """Return S by moment (from 0 to K + 1) and value, a number where (1) to (3) fix it."""
    rows: list[list[Any]] = [[int(x.writer is None) for x in data.values]]
    for p in moments:
        row: list[Any] = []
        for u, x in enumerate(data.values):
            never = x.writer is not None and data.ancestors[x.writer] >> p & 1
            row.append(0 if never else 1 if u in data.reads[p] else model.S.add())
        rows.append(row)
    rows.append([int(x.final) for x in data.values])
    return rows


def _back(
    model: Any, data: RecomputeData, there: list[list[Any]], slower: Slower | None, intervals: int
) -> tuple[list[list[Any]], list[Any]]:
    """(7) Return C by interval and value, V by value, 0 where there is none; S at the end becomes free."""
    back: list[list[Any]] = [[0] * len(data.values) for _ in range(intervals)]
    written: list[Any] = [0] * len(data.values)
    for u, x in enumerate(data.values if slower is not None else ()):
        returns = slower is not None and slower.back[u] is not None and bool(x.readers)
        if not returns and not x.final:
            continue
        written[u] = model.V.add()
        if x.final:
            there[-1][u] = model.S.add()
            at_most(model.in_some_tier_at_the_end, [(-1, there[-1][u]), (-1, written[u])], -1)
        for row in back if returns else ():
            row[u] = model.C.add()
            at_most(model.comes_back_if_written, [(1, row[u]), (-1, written[u])], 0)
    return back, written


def _finds(
    model: Any, data: RecomputeData, runs: list[Any], there: list[Any], later: list[Any], back: list[Any]
) -> None:
    """(2), (3) for one interval."""
    for u, x in enumerate(data.values):
        source = [(-1, there[u]), (-1, back[u])]
        if x.writer is not None:
            source.append((-1, runs[x.writer]))
        at_most(model.there_if_there_before, [(1, later[u]), *source], 0)
        for i in x.readers:
            at_most(model.finds_what_it_reads, [(1, runs[i]), *source], 0)


def _destroyed(model: Any, data: RecomputeData, runs: list[list[Any]]) -> None:
    """(8) What overwrites an initial value that it finds runs once, and no other reader of it runs later."""
    for w in range(data.n):
        lost = [u for u in data.reads[w] if data.values[u].writer is None and u in data.destroys[w]]
        if not lost:
            continue
        at_most(model.not_after_what_destroys, [(1, row[w]) for row in runs], 1)
        for i in sorted({i for u in lost for i in data.values[u].readers} - {w}):
            for k in range(1, len(runs)):
                before = [(1, row[w]) for row in runs[:k]]
                if not isinstance(runs[k][i], int) and any(not isinstance(x, int) or x for _, x in before):
                    at_most(model.not_after_what_destroys, [(1, runs[k][i]), *before], 1)


def _through(
    model: Any, data: RecomputeData, runs: list[Any], there: list[Any], later: list[Any], back: list[Any]
) -> list[Any]:
    """(4) for one interval: return H by value, 0 where the value cannot be there all through."""
    kept: list[Any] = []
    for u, x in enumerate(data.values):
        ends = (there[u], later[u])
        if not x.nbytes or any(isinstance(s, int) and not s for s in ends):
            kept.append(0)
            continue
        through = model.H.add()
        again = [(-1, back[u])] if x.writer is None else [(-1, back[u]), (-1, runs[x.writer])]
        at_most(model.there_all_through, [(1, there[u]), (1, later[u]), *again, (-1, through)], 1)
        kept.append(through)
    return kept


def values_there(built: MomentsModel, value: Callable[[Any], float]) -> list[set[int]]:
    """Return by moment the values that a solution has there."""
    return [
        {u for u, s in enumerate(row) if (s if isinstance(s, int) else value(s)) > 0.5}
        for row in built.there[1:-1]
    ]
