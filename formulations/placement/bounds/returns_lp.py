r"""A bound on placements in which ops may run again: what is away comes back by a copy or by a run.

One processor that reads and writes tier 0 only, of capacity M; accounting, ops and values as in
`lowtide.formulations.recompute.data`, in ns and bytes: op i takes :math:`d_i` and :math:`f_i` bytes,
:math:`T_i` are the bundles that it accesses, value u has :math:`m_u` bytes and the writer :math:`W_u`. The
channels into tier 0 carry :math:`B^+` together, those out of it :math:`B^-`, both together :math:`B`
(bytes/s; each at most what joint caps over all of them leave).

Sets. *Moments* :math:`k = 1, \dots, K`: ops :math:`p_k`, each an ancestor of the next one; moment k is the
start of the first run of :math:`p_k`, interval k the time from there to moment k + 1 (0: from the beginning,
K: to the end). (With the reference order every op is an ancestor of the next one: first runs keep it.)

Variables, read off any plan no longer than U. :math:`0 \le \sigma_k \le U`: length of interval k.
:math:`R_{ki} \in [0, 1]`: whether a run of op i starts in it. A byte of a value *is there* if it is valid in
tier 0, or has passed a channel into tier 0 in a copy that is under way: it is allocated in both cases.
:math:`0 \le s_{ku}, c_{ku}, o_{ku}, h_{ku} \le m_u`: bytes of u that are there at moment k; that pass a
channel into tier 0 in interval k, each counted once; that pass one out of it there for the first time; that
are there all through the interval.

Objective. Minimize :math:`\sum_k \sigma_k` subject to

1. :math:`\sigma_k \ge \sum_i d_i R_{ki}`; :math:`B^+ \sigma_k \ge \sum_u c_{ku}`; :math:`B^- \sigma_k \ge
   \sum_u o_{ku}`; :math:`B \sigma_k \ge \sum_u (c_{ku} + o_{ku})`;
2. :math:`\sum_{k \le b_i} R_{ki} \ge 1`, with :math:`b_i` the interval before the first moment that has i as
   an ancestor; :math:`R_{ki} = 0` before interval :math:`a_i`, of the last moment that is i or an ancestor of
   it; :math:`R_{ki} = 1` where :math:`a_i = b_i = k`;
3. :math:`s_{k+1,u} \le s_{ku} + m_u R_{k W_u} + c_{ku}`; at time 0 :math:`s_{0u} = m_u` for what may start in
   tier 0, else 0;
4. :math:`m_u R_{ki} \le s_{ku} + m_u R_{k W_u} + c_{ku}` for u that i reads; :math:`s_{ku} = m_u` for those
   that :math:`p_k` reads;
5. :math:`\sum_u s_{ku} \le M`, and :math:`\sum s_{ku} + f_{p_k} \le M` over the u whose bundle is not in
   :math:`T_{p_k}`;
6. :math:`h_{ku} \ge s_{ku} + s_{k+1,u} - m_u - m_u R_{k W_u} - c_{ku}`, and :math:`\sum h_{ku} + f_i \le M`
   over the u whose bundle is not in :math:`T_i`, for ops with :math:`a_i = b_i = k`;
7. :math:`c_{ku} \le \sum_{j \le k} o_{ju}` and, for final u, :math:`s_{K+1,u} + \sum_j o_{ju} \ge m_u`,
   unless u may start outside tier 0.

*It is a bound.* With one processor no run is under way when a first run starts, so each lies in one interval:
the first row of 1, and 2, since ops run first behind the first runs of their ancestors. Copies have constant
rates, so what passes in an interval is at most what the channels carry in its length. A byte that is there at
moment k + 1 and was not at moment k passed a channel in between, or a run of the writer left it, which
started in the interval: 3; what a run finds likewise: 4. 5 are limits of tier 0, in which all that is there
is allocated; under ``replace`` too, where an op takes what it reads, then what it writes, beside what it does
not access. A byte that is there at both moments, but neither passed a channel nor was left by a run in
between, was there all the time, and when i ran: 6. What comes in passed out before, in this interval or
earlier, for outside it was not at time 0, and nothing else writes there; each byte that is only outside at
the end did, too: 7. A plan longer than U is longer than U: the bound is the least of the two. Latencies,
outer capacities, rivals of versions and the staleness of copies behind a run are left out, which only
relaxes. QED.

Source: ours; the moments are those of `lowtide.formulations.recompute.moments_milp`, whose transfers block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...linear_program import SECOND, LinearProgram, ProgramBuilder
from ...model import Tick
from ...recompute.data import RecomputeData


@dataclass(frozen=True, kw_only=True)
class Ways:
    """What the channels of tier 0 carry in bytes per second, and by value where it may be at time 0.

    Attributes
    ----------
    into, out, both
        B+, B- and B.
    inside, outside
        Of initial values, whether they may start in tier 0, and in another one.
    """

    into: int
    out: int
    both: int
    inside: tuple[bool, ...]
    outside: tuple[bool, ...]


Term = tuple[int, int]


def build(
    data: RecomputeData,
    moments: Sequence[int],
    memory: int,
    ways: Ways,
    most: int,
    tick: Tick = lambda: None,
) -> LinearProgram:
    """Return the program.

    Parameters
    ----------
    moments
        p_1 .. p_K, ascending.
    memory
        M in bytes; that of the data is rounded as if nothing moved in parts.
    most
        U in ns.
    """
    last, values = len(moments), data.values
    size = [x.nbytes * data.unit for x in values]
    time = [data.ns(d) for d in data.duration]
    footprint = [f * data.unit for f in data.footprint]
    out = ProgramBuilder(max(1, memory // 64), max(1, sum(time) // 64), tick)
    sigma = [out.variable(most, out.time_unit, 1) for _ in range(last + 1)]
    first, sure = _intervals(data, moments)
    runs: list[list[int | None]] = []  # None: no run; a number below 0: 1; else the variable
    for k in range(last + 1):
        runs.append(
            [
                None if k < first[i] else -1 if k == first[i] == sure[i] else out.variable(1, 1)
                for i in range(data.n)
            ]
        )

    def times(factor: int, item: int | None) -> tuple[list[Term], int]:
        """Return terms and a constant of factor * R."""
        if item is None:
            return [], 0
        return ([], factor) if item < 0 else ([(item, factor)], 0)

    for i in range(data.n):  # (2)
        if first[i] < sure[i]:
            some = [item for k in range(first[i], sure[i] + 1) if (item := runs[k][i]) is not None]
            out.row([(item, 1) for item in some], 1, 1)
    exists = [0 if x.writer is None else first[x.writer] for x in values]

    def per_value(k: int, wanted: Sequence[bool] | None = None) -> dict[int, int]:
        some = (u for u in range(len(values)) if size[u] and k >= exists[u])
        return {u: out.variable(size[u], out.bytes_unit) for u in some if wanted is None or wanted[u]}

    # s by moment 0 .. K + 1, as a term or a constant.
    there: list[dict[int, tuple[list[Term], int]]] = [
        {u: ([], size[u]) for u, x in enumerate(values) if x.writer is None and ways.inside[u]}
    ]
    for k in range(1, last + 2):
        found = {u: ([(item, 1)], 0) for u, item in per_value(k - 1).items()}
        for u in data.reads[moments[k - 1]] if k <= last else ():
            found[u] = ([], size[u])
        there.append(found)
    read = [bool(x.readers) for x in values]
    back = [per_value(k, read) for k in range(last + 1)]
    gone = [per_value(k, [not some for some in ways.outside]) for k in range(last + 1)]
    nothing: tuple[list[Term], int] = ([], 0)

    def source(k: int, u: int) -> tuple[list[Term], int]:
        """Return s + m R + c of a value in an interval."""
        writer = values[u].writer
        now = there[k].get(u, nothing)
        made = nothing if writer is None else times(size[u], runs[k][writer])
        came = [(back[k][u], 1)] if u in back[k] else []
        return [*now[0], *made[0], *came], now[1] + made[1]

    def at_most(some: Sequence[tuple[list[Term], int]], limit: int) -> None:
        terms = [(column, -value) for some_terms, _ in some for column, value in some_terms]
        constant = sum(number for _, number in some)
        if terms:
            out.row(terms, constant - limit, out.bytes_unit)

    for k in range(last + 1):
        spent = [times(-time[i], runs[k][i]) for i in range(data.n)]  # (1)
        out.row(
            [(sigma[k], 1), *(term for some, _ in spent for term in some)],
            -sum(number for _, number in spent),
            out.time_unit,
        )
        into, away = ([(column, -SECOND) for column in row[k].values()] for row in (back, gone))
        for rate, moved in ((ways.into, into), (ways.out, away), (ways.both, [*into, *away])):
            out.row([(sigma[k], rate), *moved], 0, max(1, rate * out.time_unit))
        for u in range(len(values)):
            if not size[u]:
                continue
            terms, constant = source(k, u)
            later = there[k + 1].get(u, nothing)
            lost = [(column, -value) for column, value in later[0]]
            if later != nothing:  # (3)
                out.row([*terms, *lost], later[1] - constant, out.bytes_unit)
            for i in values[u].readers:  # (4)
                if runs[k][i] is None or (k and i == moments[k - 1]):
                    continue
                needs, number = times(-size[u], runs[k][i])
                out.row([*terms, *needs], -number - constant, out.bytes_unit)
            if u in back[k] and not ways.outside[u]:  # (7)
                written = [(gone[j][u], 1) for j in range(k + 1) if u in gone[j]]
                out.row([*written, (back[k][u], -1)], 0, out.bytes_unit)
        if k:  # (5)
            i = moments[k - 1]
            own = {values[u].tensor for u in (*data.reads[i], *data.writes[i])}
            others = [s for u, s in there[k].items() if values[u].tensor not in own]
            at_most([*others, ([], footprint[i])], memory)
            at_most(list(there[k].values()), memory)
        stays = {}
        for u in there[k].keys() & there[k + 1].keys() if k else ():  # (6)
            writer = values[u].writer
            if writer is not None and runs[k][writer] == -1:
                continue
            stays[u] = out.variable(size[u], out.bytes_unit)
            now, later = there[k][u], there[k + 1][u]
            again = nothing if writer is None else times(size[u], runs[k][writer])
            came = [(back[k][u], 1)] if u in back[k] else []
            lost = [(column, -value) for column, value in (*now[0], *later[0])]
            low = now[1] + later[1] - size[u] - again[1]
            out.row([(stays[u], 1), *again[0], *came, *lost], low, out.bytes_unit)
        for i in range(data.n) if k else ():
            if runs[k][i] == -1 and i != moments[k - 1]:
                own = {values[u].tensor for u in (*data.reads[i], *data.writes[i])}
                held = [([(h, 1)], 0) for u, h in stays.items() if values[u].tensor not in own]
                at_most([*held, ([], footprint[i])], memory)
    for u, x in enumerate(values):
        if x.final and size[u] and not ways.outside[u]:
            terms, constant = there[-1].get(u, nothing)
            written = [(row[u], 1) for row in gone if u in row]
            out.row([*terms, *written], size[u] - constant, out.bytes_unit)
    return out.done()


def _intervals(data: RecomputeData, moments: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return by op a and b of (2)."""
    first, sure = [], []
    for i in range(data.n):
        behind = [k for k, p in enumerate(moments, 1) if data.ancestors[i] >> p & 1]
        before = [k for k, p in enumerate(moments) if p != i and data.ancestors[p] >> i & 1]
        first.append(max(behind, default=0))
        sure.append(max(min(before, default=len(moments)), first[-1]))
    return first, sure
