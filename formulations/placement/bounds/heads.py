r"""Heads of ops on several processors: what runs before them, and the bytes that go from one to another.

Sets and data. Op k lasts at least :math:`d_k`, in the shortest of its modes. It is *at home* on processor p
if only p may run it; the ops at home on p run in the reference order, one at a time. Let
:math:`R_{pq}, \lambda_{pq}` be the bytes per second that the channels out of p's tiers, or those into q's,
carry together (joint caps counted as in `releases`), and the least of their latencies; p and q have no tier
in common.

**Heads.** Let :math:`s_k` be the start of op k, and x an op. Then :math:`s_k - s_x \ge h_k`, the greatest of

1. 0 for k = x, and :math:`h_j + d_j` for every j that precedes k, or that stands before it on its processor;
2. :math:`\rho + \lambda_{pq} + \lceil B(\rho) / R_{pq} \rceil` for every time :math:`\rho`, where
   :math:`B(\rho)` are the bytes of the versions that ops at home on p write with
   :math:`h_j + d_j \ge \rho`, and ops at home on q up to k read.

(The greatest of nothing is :math:`-\infty`.) *Proof.* By induction in the reference order. 1: both wait for
the end of j. 2: such a version is nowhere before its op has ended, at :math:`s_x + \rho` or later, and then
in p's tiers only; when k starts, it has been valid in q's tiers, for k or an op before k on q reads it. So
its bytes have all been moved on a channel out of p's tiers, and on one into q's, behind a latency, in an
interval of length :math:`s_k - s_x - \rho - \lambda_{pq}`, by :math:`R_{pq}` at most. QED

**Bounds.** No plan is shorter than :math:`h_k + d_k` with heads from time 0 (an x before all ops). No period
T is shorter than, for every op x at home on q and every :math:`\rho`,

.. math:: \rho + \lambda_{pq} + \lceil C(\rho) / R_{pq} \rceil ,

:math:`C(\rho)` the bytes of the tensors that last, that an op at home on p writes last, with
:math:`h_j + d_j \ge \rho`, and that an op at home on q, x or one before it, reads before any writes them.
*Proof.* That op reads in the next iteration what was written in this one, at :math:`s_x + T` at the latest.
All runs of an iteration lie in one period. As in 2, for the moved bytes between :math:`s_x + \rho` and
:math:`s_x + T`. QED Times are integers, so both may be rounded up.

Source: this project's; heads are textbook bounds of machine scheduling (Carlier 1982).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from itertools import pairwise

from ....models.derived.precedence import precedence
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .releases import rate_out_of

MOST_STARTS = 1000
"""Ops x from which a period is bounded: of more, evenly spread ones."""

Ways = list[tuple[int, int]]
"""Bytes per second and latency in ns of the channels of each cut between two processors."""
Arrivals = list[tuple[int, int]]
"""By version, ns from which on it may be moved, and bytes."""


def heads_bound(problem: Placement, expired: Callable[[], bool] = lambda: False) -> int:
    """Return the best bound in ns until the time is up; the order is the reference order.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:unet?train=1&weights=1&node=zero&machine=v100-32g-cpu&periodic=1"
    >>> problem = load_problem("placement", spec)
    >>> heads_bound(problem) > max(op.duration_ns for op in problem.graph.ops)
    True
    """
    case = _Heads(problem)
    best = max(head + case.duration[k] for k, head in enumerate(case.heads(None)) if head is not None)
    if not problem.periodic:
        return best
    first, last = _ends(problem)
    starts = sorted({first[t] for t in last.keys() & first.keys()})
    for x in starts[:: -(-len(starts) // MOST_STARTS) or 1]:
        if expired():
            break
        heads, q = case.heads(x), case.home[x]
        arrivals: dict[int, Arrivals] = {}
        for t, j in last.items():
            head, p = heads[j], case.home[j]
            there = t in first and first[t] <= x and case.home[first[t]] == q
            if there and head is not None and case.ways(p, q):
                nbytes = problem.graph.tensors[t].nbytes
                arrivals.setdefault(p, []).append((head + case.duration[j], nbytes))
        for p, some in arrivals.items():
            ways = case.ways(p, q)
            best = max(best, _latest(_moved([0] * len(ways), sorted(some), ways), ways))
    return best


def _ends(problem: Placement) -> tuple[dict[int, int], dict[int, int]]:
    """Return, of tensors that last, the first op that reads the old version, and the last that writes."""
    graph = problem.graph
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, op in enumerate(graph.ops):
        for t in op.reads:
            if graph.tensors[t].initial and graph.tensors[t].final and t not in last:
                first.setdefault(t, k)
        last |= {t: k for t in op.writes if graph.tensors[t].initial and graph.tensors[t].final}
    return first, last


def _moved(done: list[int], arrivals: Arrivals, ways: Ways) -> list[int]:
    """Return when each cut has carried further versions, one after the other, in ns times its rate."""
    for time, nbytes in arrivals:
        done = [max(old, time * rate) + nbytes * SECOND for old, (rate, _) in zip(done, ways, strict=True)]
    return done


def _latest(done: list[int], ways: Ways) -> int:
    """Return the last of these times in ns, behind the latencies."""
    return max(latency - (-old // rate) for old, (rate, latency) in zip(done, ways, strict=True))


class _Heads:
    """The processors of ops, and what leads from one to another.

    Attributes
    ----------
    duration
        Per op, the ns of its shortest mode.
    home
        Per op, its processor; -1 if it has several.
    """

    def __init__(self, problem: Placement) -> None:
        graph, processors = problem.graph, problem.machine.processors
        self.problem = problem
        self.duration, self.home = [], []
        for op in graph.ops:
            able = [
                (p, mode.duration_ns)
                for p, processor in enumerate(processors)
                for mode in op.all_modes
                if not mode.processors or processor.kind in mode.processors
            ]
            self.duration.append(min(ns for _, ns in able))
            self.home.append(able[0][0] if len({p for p, _ in able}) == 1 else -1)
        chains = [[k for k, p in enumerate(self.home) if p == q] for q in range(len(processors))]
        self.before = [list(ops) for ops in precedence(graph).predecessors]
        for a, b in (pair for chain in chains for pair in pairwise(chain)):
            self.before[b].append(a)
        self.known: dict[tuple[int, int], Ways] = {}
        writer: dict[int, int] = {}
        self.brought: list[list[tuple[int, int]]] = []  # per op, writer and bytes of what comes for it first
        seen: set[tuple[int, int, int]] = set()
        for k, op in enumerate(graph.ops):
            copied = {
                (writer[t], t)
                for t in op.reads
                if t in writer and self.ways(self.home[writer[t]], self.home[k])
            }
            fresh = sorted((j, t) for j, t in copied if (j, t, self.home[k]) not in seen)
            seen |= {(j, t, self.home[k]) for j, t in fresh}
            self.brought.append([(j, graph.tensors[t].nbytes) for j, t in fresh])
            writer |= dict.fromkeys(op.writes, k)

    def ways(self, p: int, q: int) -> Ways:
        """Return what the channels between two processors carry; nothing if they share a tier."""
        if (p, q) not in self.known:
            self.known[p, q] = self._ways(p, q)
        return self.known[p, q]

    def _ways(self, p: int, q: int) -> Ways:
        machine = self.problem.machine
        if min(p, q) < 0:
            return []
        source, target = ({a.tier for a in machine.processors[x].tiers} for x in (p, q))
        if source & target:
            return []
        ways = []
        for cut in (source, {tier.name for tier in machine.tiers} - target):
            leaving = [c.latency_ns for c in machine.channels if c.src in cut and c.dst not in cut]
            if leaving:
                ways.append((rate_out_of(machine, cut)[0], min(leaving)))
        return ways

    def heads(self, x: int | None) -> list[int | None]:
        """Return the head of each op from the start of op x on, or from time 0; None for those without."""
        heads: list[int | None] = []
        arrivals: dict[tuple[int, int], Arrivals] = {}
        done: dict[tuple[int, int], list[int]] = {}
        for k, before in enumerate(self.before):
            times = [0] if x is None or k == x else []
            times += [head + self.duration[j] for j in before if (head := heads[j]) is not None]
            q = self.home[k]
            for j, nbytes in self.brought[k]:
                if (head := heads[j]) is not None:
                    pair, item = (self.home[j], q), (head + self.duration[j], nbytes)
                    ways, items = self.ways(*pair), arrivals.setdefault(pair, [])
                    insort(items, item)
                    if items[-1] == item and pair in done:
                        done[pair] = _moved(done[pair], [item], ways)
                    else:
                        done[pair] = _moved([0] * len(ways), items, ways)
                    times.append(_latest(done[pair], ways))
            heads.append(max(times, default=None))
        return heads
