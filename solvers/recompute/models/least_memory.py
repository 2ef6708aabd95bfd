r"""Memory that every schedule needs up to the first run of an op: a search backwards from that run.

Data: see `lowtide.formulations.recompute.data` (ops, values u, :math:`W_u, In_i, Out_i, m_u, w_i`). One
memory only: what was discarded comes back by a run of its writer, and initial contents do not.

*What is there all the time* until op g has run: the initial contents :math:`A_g` that an op finds which
cannot run before g, and a version of each `resident` bundle. :math:`B_g` are the bundles of all these.

*States.* A state S is a set of values that are all there at one moment before the first run of g ends. Unless
all of S is initial, let w be the op of the last of the runs that left the others and since which they stayed.
What it did not leave, :math:`H = S \setminus Out_w`, was there before it and stayed. So

1. the run destroys nothing of H nor of :math:`A_g`;
2. while it goes on, :math:`\sum_b m_b + w_w \le M` over the bundles b of :math:`B_g`, H, :math:`In_w` and
   :math:`Out_w` (accounting ``replace``: over those of :math:`B_g`, H and :math:`In_w` at its start, without
   workspace, and over those of :math:`B_g`, H and :math:`Out_w` after it);
3. before it :math:`H \cup In_w` is a state, and so is each part of it.

Before the first run of g :math:`In_g` is a state, and (2) holds for g with H empty. There are finitely many
runs. So every schedule chooses a w in each state, by (3), to the point where all that is left is initial, and
keeps (2) and (1) all the way. The least M for which some choice does is a bound on the memory, and a problem
with less of it has no schedule.

*Parts.* Of each state only values of at least so many units are held: (3) allows that, and there are fewer
states. The search takes first the state up to which the runs need least, and of those within the memory the
one with fewest values. Where it is cut short, what the next state needs is a bound, too.

Source: goal regression, as in planning; the bound and its parts are ours.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Set
from itertools import count

from ....formulations.recompute.data import RecomputeData
from ....models.derived.precedence import bits
from ....models.problems.recompute import Recompute
from ....models.units import exact_bytes
from .moments import with_slower_tiers

PARTS = (4, 8, 16, 32)
"""Values are held of at least such parts of the memory, one after the other: smaller ones prove more."""

STATES = 2000
"""That are expanded for an op and a part, at most."""


LOOK = 200
"""Ops whose own needs are added up between two looks at the clock."""


def none_fits(problem: Recompute, data: RecomputeData, stop: Callable[[], bool]) -> str:
    """Return why no schedule fits; nothing where that is not proved."""
    if with_slower_tiers(problem) or problem.memory is None:
        return ""
    need, op = least_need(data, stop)
    if need <= data.memory:
        return ""
    graph, used = problem.graph, {t for bundle in data.tensors for t in bundle}
    idle = sum(x.nbytes for t, x in enumerate(graph.tensors) if x.initial and x.final and t not in used)
    needs = exact_bytes(need * data.unit + idle)
    return (
        f"every schedule needs {needs} at least up to the first run of op {op} {graph.ops[op].name!r}, "
        f"of {exact_bytes(problem.memory)}"
    )


def least_need(data: RecomputeData, stop: Callable[[], bool] = lambda: False) -> tuple[int, int]:
    """Return units that every schedule needs, and an op up to whose first run; it ends above the memory.

    Parameters
    ----------
    stop
        Whether to end with what is proved by then.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> least_need(recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=2)))
    (4, 6)
    """
    sizes = {x.tensor: x.nbytes for x in data.values}
    below = initial_below(data)
    alone: list[int] = []
    for g in range(data.n):
        if g % LOOK == LOOK - 1 and stop():
            break
        alone.append(_LeastMemorySearch(data, sizes, g, below(g)).alone)
    order = sorted(range(len(alone)), key=lambda g: -alone[g])
    best, at = alone[order[0]], order[0]
    for part in PARTS:
        for g in order:
            if stop() or best > data.memory:
                return best, at
            found = _LeastMemorySearch(data, sizes, g, below(g)).bound(data.memory // part, stop)
            if found > best:
                best, at = found, g
    return best, at


def initial_below(data: RecomputeData) -> Callable[[int], set[int]]:
    """Return a function that gives the initial contents which stay while an op g runs first: A_g of the page.

    These are what the ops find that g comes before.
    """
    initial = [u for u, x in enumerate(data.values) if x.writer is None]
    own, below = [0] * data.n, [0] * data.n
    for k, u in enumerate(initial):
        for i in data.values[u].readers:
            own[i] |= 1 << k
    for i in reversed(range(data.n)):
        for j in (*data.inputs[i], *data.after[i]):
            below[j] |= below[i] | own[i]
    return lambda g: {initial[k] for k in bits(below[g])}


class _LeastMemorySearch:
    """The search from the first run of an op.

    Attributes
    ----------
    always
        The initial contents that are there all the time until it has run.
    alone
        Units that are needed during that run.
    """

    def __init__(self, data: RecomputeData, size: Mapping[int, int], op: int, always: Set[int]) -> None:
        self.data, self.size, self.op, self.always = data, size, op, always
        self.base = {data.values[u].tensor for u in always} | data.resident
        self.alone = self.need(op, frozenset())

    def need(self, w: int, rest: frozenset[int]) -> int:
        """Return the units during a run of w through which the rest stays, as in (2)."""
        data = self.data
        before, after = rest.union(data.reads[w]), rest.union(data.writes[w])
        if data.in_place:
            return max(self._units(before), self._units(after) + data.workspace[w])
        return self._units(before | after) + data.workspace[w]

    def _units(self, there: Set[int]) -> int:
        return sum(self.size[b] for b in self.base.union(self.data.values[u].tensor for u in there))

    def bound(self, least: int, stop: Callable[[], bool], most: int = STATES) -> int:
        """Return units that are needed, where values of at least so many are held, after `most` states."""
        data, values = self.data, self.data.values
        held = {u for u, size in enumerate(data.sizes) if size >= max(1, least)}
        first = frozenset(held.intersection(data.reads[self.op]))
        needs = {first: self.alone}
        queue = [(max(data.memory, self.alone), len(first), sorted(first))]
        for expanded in count():
            reached, _, listed = heapq.heappop(queue)
            state = frozenset(listed)
            if max(data.memory, needs[state]) < reached:
                continue
            writers = {w for u in state if (w := values[u].writer) is not None}
            if not writers or expanded >= most or stop():
                break
            for w in sorted(writers):
                rest = state.difference(data.writes[w])
                if (rest | self.always).isdisjoint(data.destroys[w]):
                    before = rest.union(held.intersection(data.reads[w]))
                    need = max(needs[state], self.need(w, rest))
                    if before not in needs or need < needs[before]:
                        needs[before] = need
                        heapq.heappush(queue, (max(data.memory, need), len(before), sorted(before)))
        return needs[state] if reached > data.memory else self.alone
