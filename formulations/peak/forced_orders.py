r"""Orders of pairs of ops that every good order obeys: a strengthening of the data of minimum peak memory.

Data: see `data` (ops :math:`i \in I`, :math:`f_i, r_i, e_i, m_0` = ``first``, ``alone``, ``extra``,
``start`` of `data.OpBytes`, shared deaths :math:`k \in K` with ops :math:`A_k` and bytes :math:`d_k`),
and an order whose peak is at most a limit P. *Good* are the orders with a peak of at most P.

Executed sets. When op w runs, the ops that have run are a downset D that contains anc(w) and not w. The
memory between ops is a function of D alone,

.. math:: M(D) = m_0 + \sum_{i \in D} (f_i - r_i) - \sum_{k: A_k \subseteq D} d_k,

and while w runs it is cost(w, D) = :math:`M(D) + e_w` in ``coexist``, :math:`M(D \cup \{w\}) + e_w` in
``replace``.

1. *Forced before.* If cost(w, D) > P for every such D without u, then u runs before w in every good order:
   the D of w there has cost(w, D) at most P, so it contains u.
2. *Forced after.* If cost(w, D) > P for every such D with u, then w runs before u in every good order.
3. *Again.* What is forced joins the precedence, ancestors and downsets being those of the extended one: good
   orders obey it, so their executed sets are among the fewer downsets, and 1 and 2 hold with these.

Minimum cuts. The least cost over the D that contain some ops and lack others is a maximum closure with the
profits :math:`r_i - f_i` and :math:`d_k`, where i requires its predecessors and k its ops, that is a
minimum cut (Picard, Management Science 22, 1976). An op must be inside if its arc from the source is
uncapacitated, outside if its arc to the sink is.

Few flows. A D with cost(w, D) at most P is a witness: no u outside D is forced before w, none inside
after. The states of the known order are witnesses, and so is every minimiser that a flow finds; only the
pairs that no witness clears get a flow. The work is limited by a number of arcs, so that the result depends
on no clock; pairs that it does not reach stay free.

What comes of it: with the extended precedence the windows of `data` narrow, shared deaths lose ops that
others now follow, and the bound of `data` counts more. The optimum stays the least peak, because the
known order is good and obeys everything.

Left out: rows that tie the peak to the op at a step, :math:`P \ge \sum_i c_i (y_{i,s+1} - y_{is})` with
:math:`c_i` the least cost(i, D). By "one op per step" the differences sum to 1, so the right side is at most
:math:`\max_i c_i`, in the relaxation too; that is the cut bound, which P has as its lower bound already.

Measured (one thread, from the first steps of `auto`, limit 15 s; seconds without and with forced orders):

* MILP by executed sets (`steps_milp`): layered-6x4 2.7 and 0.4, randwire-32-0 open and 10, intree-50
  open and 0.2, bvlc_alexnet training (batch 32) 12 and 0.3;
* OLLA's (`olla_milp`): layered-6x4 open and 0.9, randwire-20-1 4.6 and 0.1, randwire-20-equal 2.9 and
  0.1, intree-50 and bvlc_alexnet open and at most 0.2; by tensors the first four of these (layered-6x4 in 12)
  are closed with and open without;
* CP-SAT, either form: intree-50 1.0 and 0.1, randwire-20-1 0.7 and 0.1; randwire-32-0, -40-0, -60-0, sp-50
  and layered-10x5 between a tenth less and 0.4 times more; inception_v1 and vit_b_16 training: no gain.

In trees and where the known order is optimal many pairs are forced, and the bound alone often closes the gap.

Fixing the order of a pair because the other one exceeds a known limit is the immediate selection of
Carlier and Pinson (An algorithm for solving the job-shop problem, Management Science 35, 1989, recalled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .data import Lifetime, PeakData, maximal, op_bytes, order_peak, shared_deaths

MOST_WORK = 5_000_000
"""Arcs of all networks that are solved, together: about a second."""


def with_forced_orders(
    data: PeakData,
    order: Sequence[int],
    *,
    limit: int | None = None,
    most_work: int = MOST_WORK,
    expired: Callable[[], bool] = lambda: False,
) -> PeakData:
    """Return the data with the orders of pairs that a limit forces; good orders and optimum are the same.

    Parameters
    ----------
    order
        A valid order, whose peak is at most the limit.
    limit
        In units; default: the peak of the order.
    most_work
        Stop after flows over that many arcs.
    expired
        Asked before each flow; when it holds, what was found so far is returned.

    Raises
    ------
    ValueError
        If the order is not within the limit.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.peak.data import peak_data
    >>> data = peak_data(lt.Peak(lt.load("catalogue:kept-output")))
    >>> with_forced_orders(data, (0, 2, 3, 1)).earliest, data.earliest
    ((0, 3, 1, 2), (0, 1, 1, 2))
    """
    peak = order_peak(data, order)
    limit = peak if limit is None else limit
    if peak > limit:
        raise ValueError(f"the order has a peak of {peak} units, expected at most the limit of {limit}")
    search = _ForcedOrderSearch(data, order, limit, most_work, expired)
    while search.forces_some():
        pass
    return search.extended()


class _ForcedOrderSearch:
    """Forced orders so far: masks of the extended precedence, and the network with its arcs."""

    def __init__(
        self,
        data: PeakData,
        order: Sequence[int],
        limit: int,
        most_work: int,
        expired: Callable[[], bool],
    ) -> None:
        self.data, self.order, self.limit = data, order, limit
        self.own, self.deaths = op_bytes(data), shared_deaths(data)
        self.ancestors, self.descendants = list(data.ancestors), list(data.descendants)
        self.predecessors = [list(before) for before in data.predecessors]
        self.work, self.most_work, self.expired = 0, most_work, expired
        self.states = _states(data, order)
        self.network = _ClosureNetwork(self)

    @property
    def stopped(self) -> bool:
        """Whether the work is done or the time is up."""
        return self.work >= self.most_work or self.expired()

    def forces_some(self) -> bool:
        """Try 1 and 2 once for every pair that no witness clears; return whether another pass may help."""
        found = False
        for place, w in enumerate(self.order):
            if self.stopped:
                return False
            found |= self._settle(w, place)
        return found

    def _settle(self, w: int, place: int) -> bool:
        """Try all pairs with w, which stands at a place of the known order."""
        free = ((1 << self.data.n) - 1) & ~(self.ancestors[w] | self.descendants[w] | 1 << w)
        earliest, latest = self._known_witnesses(w, place)
        maybe_before, maybe_after = free & earliest, free & ~latest
        found = False
        while maybe_before and not self.stopped:
            u = (maybe_before & -maybe_before).bit_length() - 1
            cost, done = self.network.least(w, outside=u)
            maybe_before &= ~(1 << u)
            if cost > self.limit:
                self._force(u, w)
                found = True
            else:
                maybe_before, maybe_after = maybe_before & done, maybe_after & ~done
        while maybe_after and not self.stopped:
            u = (maybe_after & -maybe_after).bit_length() - 1
            cost, done = self.network.least(w, inside=u)
            maybe_after &= ~(1 << u)
            if cost > self.limit:
                self._force(w, u)
                maybe_after &= ~self.descendants[w]
                found = True
            else:
                maybe_after &= ~done
        return found

    def _known_witnesses(self, w: int, place: int) -> tuple[int, int]:
        """Return the smallest and the largest state of the known order that are witnesses for w."""
        masks, memory = self.states
        low, extra = place, self.own.extra[w]
        if not self.data.replace:
            while low > 0 and not self.ancestors[w] & ~masks[low - 1]:
                low -= 1
            low = next(s for s in range(low, place + 1) if memory[s] + extra <= self.limit)
        return masks[low], masks[place]

    def _force(self, u: int, w: int) -> None:
        """Take u before w into the precedence."""
        earlier, later = self.ancestors[u] | 1 << u, self.descendants[w] | 1 << w
        for i in _members(later):
            self.ancestors[i] |= earlier
        for i in _members(earlier):
            self.descendants[i] |= later
        self.predecessors[w].append(u)
        self.network.require(w, u)

    def extended(self) -> PeakData:
        """Return the data under the extended precedence."""
        data, n = self.data, self.data.n
        merged: dict[tuple[int | None, tuple[int, ...], bool], int] = {}
        for x in data.lifetimes:
            key = (x.born, maximal(x.last, self.ancestors), x.held)
            merged[key] = merged.get(key, 0) + x.nbytes
        return replace(
            data,
            predecessors=tuple(maximal(sorted(some), self.ancestors) for some in self.predecessors),
            earliest=tuple(mask.bit_count() for mask in self.ancestors),
            latest=tuple(n - 1 - mask.bit_count() for mask in self.descendants),
            lifetimes=tuple(Lifetime(*key, nbytes) for key, nbytes in merged.items()),
            ancestors=tuple(self.ancestors),
            descendants=tuple(self.descendants),
        )


class _ClosureNetwork:
    """The network of maximum closures: ops, then deaths, then source and sink."""

    def __init__(self, search: _ForcedOrderSearch) -> None:
        from ortools.graph.python.max_flow import SimpleMaxFlow

        data, own, deaths = search.data, search.own, search.deaths
        self.search, self.n = search, data.n
        profit = np.array(
            [a - f for a, f in zip(own.alone, own.first, strict=True)] + list(deaths.values()), dtype=np.int64
        )
        count = len(profit)
        self.nodes, self.source, self.sink = np.arange(count), count, count + 1
        self.unlimited = int(np.abs(profit).sum()) + 1
        self.gain, self.loss = np.maximum(profit, 0), np.maximum(-profit, 0)
        needs = [(i, j) for i, before in enumerate(data.predecessors) for j in before]
        needs += [(data.n + k, i) for k, ops in enumerate(deaths) for i in ops]
        tails, heads = np.array(needs, dtype=np.int64).reshape(-1, 2).T
        self.flow = SimpleMaxFlow()
        # arc k comes from the source to node k, arc count + k goes from it to the sink
        self.flow.add_arcs_with_capacity(
            np.concatenate((np.full(count, self.source), self.nodes, tails)),
            np.concatenate((self.nodes, np.full(count, self.sink), heads)),
            np.concatenate((self.gain, self.loss, np.full(len(needs), self.unlimited))),
        )

    def require(self, w: int, u: int) -> None:
        """Every closed set with w has u from now on."""
        self.flow.add_arc_with_capacity(w, u, self.unlimited)

    def least(self, w: int, *, inside: int | None = None, outside: int | None = None) -> tuple[int, int]:
        """Return the least cost(w, D) over the D with `inside` and without `outside`, and such a D."""
        search, data = self.search, self.search.data
        ins = [w] if data.replace else list(search.predecessors[w])
        outs = list(_members(search.descendants[w])) if data.replace else [w]
        ins += [] if inside is None else [inside]
        outs += [] if outside is None else [outside]
        changed = np.array([*ins, *(len(self.nodes) + i for i in outs)], dtype=np.int64)
        self.flow.set_arcs_capacity(changed, np.full(len(changed), self.unlimited))
        if self.flow.solve(self.source, self.sink) != self.flow.OPTIMAL:
            raise RuntimeError("the maximum flow of a forced order failed")
        search.work += self.flow.num_arcs()
        profit = int(self.gain.sum()) - self.flow.optimal_flow()
        members = np.zeros(self.n, dtype=np.bool_)
        chosen = np.asarray(self.flow.get_source_side_min_cut(), dtype=np.int64)
        members[chosen[chosen < self.n]] = True
        restored = np.concatenate((self.gain[ins], self.loss[outs]))
        self.flow.set_arcs_capacity(changed, restored)
        done = int.from_bytes(np.packbits(members, bitorder="little").tobytes(), "little") & ~(1 << w)
        return search.own.start - profit + search.own.extra[w], done


def _states(data: PeakData, order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the executed sets of an order as masks, and M of each, from nothing to everything."""
    own, deaths = op_bytes(data), shared_deaths(data)
    left = {ops: len(ops) for ops in deaths}
    of: list[list[tuple[int, ...]]] = [[] for _ in range(data.n)]
    for ops in deaths:
        for i in ops:
            of[i].append(ops)
    masks, memory = [0], [own.start]
    for i in order:
        now = memory[-1] + own.first[i] - own.alone[i]
        for ops in of[i]:
            left[ops] -= 1
            now -= 0 if left[ops] else deaths[ops]
        masks.append(masks[-1] | 1 << i)
        memory.append(now)
    return masks, memory


def _members(mask: int) -> list[int]:
    """Return the ops of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
