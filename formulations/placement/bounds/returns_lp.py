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

from ....models.units import SECOND
from ...linear_program import LinearProgram, ProgramBuilder
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
Affine = tuple[list[Term], int]
"""Columns with their factors, and a constant."""

NOTHING: Affine = ([], 0)


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
    program = _Returns(data, moments, memory, ways, most, tick)
    for k in range(len(moments) + 1):
        program.lasts(k)
        for u in program.sized:
            program.changes(k, u)
        if k:
            program.fits_at_moment(k)
            program.fits_all_through(k)
    program.ends()
    return program.out.done()


class _Returns:
    """Columns by interval k, 0 to K, and the rows over them."""

    def __init__(
        self, data: RecomputeData, moments: Sequence[int], memory: int, ways: Ways, most: int, tick: Tick
    ) -> None:
        self.data, self.moments, self.memory, self.ways = data, moments, memory, ways
        self.size = [x.nbytes * data.unit for x in data.values]
        self.sized = [u for u, nbytes in enumerate(self.size) if nbytes]
        self.time = [data.ns(d) for d in data.duration]
        self.footprint = [f * data.unit for f in data.footprint]
        self.out = ProgramBuilder(max(1, memory // 64), max(1, sum(self.time) // 64), tick)
        self.sigma = [self.out.variable(most, self.out.time_unit, 1) for _ in range(len(moments) + 1)]
        first, sure = _intervals(data, moments)
        self.runs = [self._runs_in(k, first, sure) for k in range(len(moments) + 1)]
        self._run_at_all(first, sure)
        self.exists = [0 if x.writer is None else first[x.writer] for x in data.values]
        self.there = self._at_moments()
        self.back = [
            self._by_value(k, [bool(x.readers) for x in data.values]) for k in range(len(moments) + 1)
        ]
        needs_copy = [not outside for outside in ways.outside]
        self.gone = [self._by_value(k, needs_copy) for k in range(len(moments) + 1)]

    def _runs_in(self, k: int, first: Sequence[int], sure: Sequence[int]) -> list[int | None]:
        """Return R of an interval by op: None for no run, a number below 0 for 1, else the column."""
        return [
            None if k < first[i] else -1 if k == first[i] == sure[i] else self.out.variable(1, 1)
            for i in range(self.data.n)
        ]

    def _run_at_all(self, first: Sequence[int], sure: Sequence[int]) -> None:
        """(2) Where it is open in which interval an op runs first, it runs in one of them."""
        for i in range(self.data.n):
            if first[i] < sure[i]:
                columns = [x for k in range(first[i], sure[i] + 1) if (x := self.runs[k][i]) is not None]
                self.out.row([(x, 1) for x in columns], 1, 1)

    def _by_value(self, k: int, wanted: Sequence[bool] | None = None) -> dict[int, int]:
        """Return a column for each value, or each wanted one, that has bytes and may exist in an interval."""
        values = (u for u in self.sized if k >= self.exists[u])
        return {
            u: self.out.variable(self.size[u], self.out.bytes_unit)
            for u in values
            if wanted is None or wanted[u]
        }

    def _at_moments(self) -> list[dict[int, Affine]]:
        """Return s by moment, 0 to K + 1: columns, or constants where the value is there as a whole."""
        initial = (u for u, x in enumerate(self.data.values) if x.writer is None and self.ways.inside[u])
        there: list[dict[int, Affine]] = [{u: ([], self.size[u]) for u in initial}]
        for k in range(len(self.moments) + 1):
            columns = self._by_value(k)
            there.append({u: ([(column, 1)], 0) for u, column in columns.items()})
            for u in self.data.reads[self.moments[k]] if k < len(self.moments) else ():
                there[-1][u] = ([], self.size[u])
        return there

    def _run(self, k: int, op: int | None, factor: int) -> Affine:
        """Return factor * R of an op in an interval; nothing for no op."""
        item = None if op is None else self.runs[k][op]
        if item is None:
            return NOTHING
        return ([], factor) if item < 0 else ([(item, factor)], 0)

    def _copied_back(self, k: int, u: int) -> list[Term]:
        return [(self.back[k][u], 1)] if u in self.back[k] else []

    def _own(self, i: int) -> set[int]:
        """Return the bundles T_i that an op accesses."""
        return {self.data.values[u].tensor for u in (*self.data.reads[i], *self.data.writes[i])}

    def _at_most(self, summands: Sequence[Affine], limit: int) -> None:
        terms = [(column, -value) for columns, _ in summands for column, value in columns]
        constant = sum(number for _, number in summands)
        if terms:
            self.out.row(terms, constant - limit, self.out.bytes_unit)

    def lasts(self, k: int) -> None:
        """(1) An interval lasts as long as its runs, and as its copies take on the channels."""
        out, sigma = self.out, self.sigma[k]
        spent = [self._run(k, i, -self.time[i]) for i in range(self.data.n)]
        out.row(
            [(sigma, 1), *(term for terms, _ in spent for term in terms)],
            -sum(number for _, number in spent),
            out.time_unit,
        )
        into, away = ([(column, -SECOND) for column in row[k].values()] for row in (self.back, self.gone))
        ways = self.ways
        for rate, moved in ((ways.into, into), (ways.out, away), (ways.both, [*into, *away])):
            out.row([(sigma, rate), *moved], 0, max(1, rate * out.time_unit))

    def changes(self, k: int, u: int) -> None:
        """(3), (4), (7) What is there of a value behind an interval, is read in it, and comes back."""
        out, value = self.out, self.data.values[u]
        now, made = self.there[k].get(u, NOTHING), self._run(k, value.writer, self.size[u])
        terms, constant = [*now[0], *made[0], *self._copied_back(k, u)], now[1] + made[1]
        later = self.there[k + 1].get(u, NOTHING)
        if later != NOTHING:  # (3)
            lost = [(column, -factor) for column, factor in later[0]]
            out.row([*terms, *lost], later[1] - constant, out.bytes_unit)
        for i in value.readers:  # (4)
            if self.runs[k][i] is None or (k and i == self.moments[k - 1]):
                continue
            needs, number = self._run(k, i, -self.size[u])
            out.row([*terms, *needs], -number - constant, out.bytes_unit)
        if u in self.back[k] and not self.ways.outside[u]:  # (7)
            written = [(self.gone[j][u], 1) for j in range(k + 1) if u in self.gone[j]]
            out.row([*written, (self.back[k][u], -1)], 0, out.bytes_unit)

    def fits_at_moment(self, k: int) -> None:
        """(5) What is there at a moment fits, also beside the op that starts then."""
        i, values = self.moments[k - 1], self.data.values
        own = self._own(i)
        others = [s for u, s in self.there[k].items() if values[u].tensor not in own]
        self._at_most([*others, ([], self.footprint[i])], self.memory)
        self._at_most(list(self.there[k].values()), self.memory)

    def fits_all_through(self, k: int) -> None:
        """(6) What is there all through an interval fits beside each op that surely runs first in it."""
        out, values, stays = self.out, self.data.values, dict[int, int]()
        for u in self.there[k].keys() & self.there[k + 1].keys():
            writer = values[u].writer
            if writer is not None and self.runs[k][writer] == -1:
                continue
            stays[u] = out.variable(self.size[u], out.bytes_unit)
            now, later, made = self.there[k][u], self.there[k + 1][u], self._run(k, writer, self.size[u])
            lost = [(column, -factor) for column, factor in (*now[0], *later[0])]
            low = now[1] + later[1] - self.size[u] - made[1]
            out.row([(stays[u], 1), *made[0], *self._copied_back(k, u), *lost], low, out.bytes_unit)
        for i in range(self.data.n):
            if self.runs[k][i] == -1 and i != self.moments[k - 1]:
                own = self._own(i)
                held: list[Affine] = [([(h, 1)], 0) for u, h in stays.items() if values[u].tensor not in own]
                self._at_most([*held, ([], self.footprint[i])], self.memory)

    def ends(self) -> None:
        """(7) Of a final value what is not there at the end was copied out."""
        for u in self.sized:
            if self.data.values[u].final and not self.ways.outside[u]:
                terms, constant = self.there[-1].get(u, NOTHING)
                written = [(row[u], 1) for row in self.gone if u in row]
                self.out.row([*terms, *written], self.size[u] - constant, self.out.bytes_unit)


def _intervals(data: RecomputeData, moments: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return by op a and b of (2)."""
    first, sure = [], []
    for i in range(data.n):
        behind = [k for k, p in enumerate(moments, 1) if data.ancestors[i] >> p & 1]
        before = [k for k, p in enumerate(moments) if p != i and data.ancestors[p] >> i & 1]
        first.append(max(behind, default=0))
        sure.append(max(min(before, default=len(moments)), first[-1]))
    return first, sure
