r"""Branch and bound on the largest parallel memory: exact for shared tensors and a number of processors.

**Bound.** Of a node with some events decided, the largest cut with a price q on running ops,

    L(q) = max over closed sets of (bytes - q running) + q P,

is at least the memory of each of its moments with at most P running ops. L is convex and piecewise linear;
its least value, which equals that of the linear program with the row for P, is where two closed sets meet,
one with more than P running ops and one with at most P: from two such sets the price at which they are
equally good is tried, until no set is better. Prices are fractions of integers, so all of it is exact.

**Moments.** A closed set with at most P running ops is a moment; its memory is the bytes less the tensors
that are dead there though their death is not in the set. One with more is made one by ending, or not
starting, the ops whose loss is least.

**Branching**, "has happened" before "has not": if the sets differ, on an event of an op that runs in one
and not in the other; else on an access of the largest tensor that the network holds to be alive and is dead,
so that either an access holds it or, at the end, all have let go and its death is settled.

The nodes are worked off by the largest bound. At any time the leaves are a proof of the largest of their
bounds (`lowtide.models.verifier.flow`).

Sources: Lagrangean duality; the number of processors as Bathie, Marchal, Robert and Thibault ("Revisiting
dynamic DAG scheduling under memory constraints for shared-memory platforms", IPDPS workshops 2020) bound the
running ops; the search is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ...formulations.parallel.network import CutNetwork, Shared
from ...models.flow_proof import FlowCase, FlowProof
from ...models.problems.parallel_memory import Moment
from .closure import IN, OUT, Closure, CutArrays, Settled, cut_arrays, flow_case, largest_closure, overrated

Decisions = tuple[tuple[int, bool], ...]


@dataclass(frozen=True, kw_only=True)
class Relaxed:
    """The best bound of a node, the closed set that proves it, and those to branch on.

    Attributes
    ----------
    bound
        Bytes; below 0 if the decisions let more ops run than there are processors.
    proof
        Its flow proves the bound.
    sets
        One with at most P running ops whose bytes are the bound; or one with more and one with less, equally
        good at the price; or none, if there is no moment.
    """

    bound: int
    proof: Closure
    sets: tuple[Closure, ...]


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A node of the tree: its decisions, what they settle, its bound."""

    decisions: Decisions
    settled: bytearray
    relaxed: Relaxed


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search found: the best moment with its bytes, the best bound, the leaves that prove it.

    Without a moment the bytes are the target.
    """

    moment: Moment | None
    nbytes: int
    bound: int
    leaves: tuple[Leaf, ...]
    nodes: int
    root: Relaxed
    cut: CutArrays

    def proof(self) -> FlowProof:
        """Return the cases of the leaves, from left to right."""
        ordered = sorted(self.leaves, key=lambda leaf: [not yes for _, yes in leaf.decisions])
        return FlowProof(cases=tuple(_case(self.cut, leaf) for leaf in ordered))


def search(
    network: CutNetwork | CutArrays,
    processors: int | None = None,
    *,
    target: int | None = None,
    most_nodes: int | None = None,
    expired: Callable[[], bool] = lambda: False,
    found: Callable[[Moment, int], object] = lambda moment, nbytes: None,
    proved: Callable[[int], None] = lambda bound: None,
) -> Searched:
    """Search for the largest memory of the moments of a network.

    Parameters
    ----------
    network
        What `lowtide.formulations.parallel.network.build` returns, or the same as arrays.
    processors
        How many ops run at one time at most; None: any number.
    target
        Stop at the first moment above it, or once the bound is within it; None: the largest memory.
    most_nodes
        Stop after so many nodes.
    found, proved
        Called with each better moment and its bytes, and with each better bound.
    """
    tree = _Tree(network if isinstance(network, CutArrays) else cut_arrays(network), processors)
    best: Moment | None = None
    least = -1 if target is None else target
    bound: int | None = None
    nodes = 0
    while tree.open:
        top = max(-tree.open[0][0], tree.nbytes)  # closed leaves have that of a moment
        if bound is None or top < bound:
            bound = top
            proved(bound)
        if tree.nbytes > least:
            best, least = tree.moment, tree.nbytes
            assert best is not None
            found(best, least)
            if target is not None:
                break
        if top <= least or expired() or (most_nodes is not None and nodes >= most_nodes):
            break
        tree.branch()
        nodes += 1
    leaves = tree.leaves()
    return Searched(
        moment=best,
        nbytes=least,
        bound=max(leaf.relaxed.bound for leaf in leaves),
        leaves=leaves,
        nodes=nodes,
        root=tree.root,
        cut=tree.cut,
    )


class _Tree:
    """The open leaves by bound, and the best moment that their closed sets gave."""

    def __init__(self, cut: CutArrays, processors: int | None) -> None:
        self.cut, self.network, self.processors = cut, cut.network, processors
        self.needs: list[list[int]] = []
        self.needed: list[list[int]] = []
        self.of_event: dict[int, list[Shared]] = {}
        self.moment: Moment | None = None
        self.nbytes = -1
        self.open: list[tuple[int, int, Leaf]] = []
        self.closed: list[Leaf] = []
        self.count = 0
        self._push((), bytearray(self.network.n_events))
        self.root = self.open[0][2].relaxed

    def leaves(self) -> tuple[Leaf, ...]:
        return (*self.closed, *(leaf for _, _, leaf in self.open))

    def branch(self) -> None:
        """Replace the open leaf of the largest bound by two."""
        leaf = heappop(self.open)[2]
        self._link()
        event = self._event(leaf)
        if event is None:  # its bound is the memory of a moment, which the caller knows
            self.closed.append(leaf)
            return
        for yes in (True, False):
            settled = bytearray(leaf.settled)
            self._settle(settled, event, yes)
            self._push((*leaf.decisions, (event, yes)), settled)

    def _link(self) -> None:
        """Fill in what each event needs and who needs it, once there is something to settle."""
        if self.needs:
            return
        events = range(self.network.n_events)
        self.needs, self.needed = [[] for _ in events], [[] for _ in events]
        for u, v in self.network.orders:
            self.needs[v].append(u)
            self.needed[u].append(v)
        for one in self.network.shared:
            for event in one.lets_go:
                self.of_event.setdefault(event, []).append(one)

    def _push(self, decisions: Decisions, settled: bytearray) -> None:
        relaxed = self._relax(settled)
        for closure in relaxed.sets:
            self._try(closure)
        leaf = Leaf(decisions=decisions, settled=settled, relaxed=relaxed)
        heappush(self.open, (-relaxed.bound, self.count, leaf))
        self.count += 1

    def _settle(self, settled: bytearray, event: int, yes: bool) -> None:
        """Settle an event and what it implies."""
        todo = [event]
        while todo:
            v = todo.pop()
            if settled[v]:
                continue
            settled[v] = IN if yes else OUT
            todo += self.needs[v] if yes else self.needed[v]
            if yes:
                for one in self.of_event.get(v, ()):
                    if all(settled[w] == IN for w in one.lets_go):
                        todo.append(2 * self.network.n_ops + one.tensor)

    def _relax(self, settled: bytearray) -> Relaxed:
        """Return the least L(q) of a node."""
        limit = self.processors

        def at(price: int, scale: int) -> Closure:
            return largest_closure(self.cut, price, scale, _array(settled))

        def relaxed(proof: Closure, *sets: Closure) -> Relaxed:
            return Relaxed(bound=proof.value(limit), proof=proof, sets=sets)

        many = at(0, 1)
        if limit is None or many.running <= limit:
            return relaxed(many, many)
        most = sum(map(abs, self.cut.gains.tolist())) + 1
        price = int(np.abs(self.cut.gains).max())
        few = None
        try:
            few = at(price, 1)
            while few.running > limit and price < most:
                price = min(8 * price, most)
                few = at(price, 1)
            if few.running > limit:
                return relaxed(few)
            while few.running < limit:
                price, scale = many.gain - few.gain, many.running - few.running
                closure = at(price, scale)
                if scale * closure.gain - price * closure.running <= scale * few.gain - price * few.running:
                    return relaxed(closure, few, many)
                if closure.running > limit:
                    many = closure
                else:
                    few = closure
        except OverflowError:  # of prices: what is known bounds the node
            return relaxed(many, many) if few is None or few.running > limit else relaxed(many, few, many)
        return relaxed(few, few)

    def _event(self, leaf: Leaf) -> int | None:
        """Return the event to branch on; None if the bound is the memory of a moment, or there is none."""
        sets = [closure.happened for closure in leaf.relaxed.sets]
        if len(sets) > 1:
            n = self.network.n_ops
            running = [s[: 2 * n : 2] & ~s[1 : 2 * n : 2] for s in sets]
            either = np.repeat(running[0] != running[1], 2)
            events = np.flatnonzero(either & (sets[0][: 2 * n] != sets[1][: 2 * n]))
            return int(events[np.argmax(np.abs(self.cut.gains[events]))])
        for happened in sets:
            for one in overrated(self.network, happened):
                for event in one.lets_go:
                    if not leaf.settled[event]:
                        return event
        return None

    def _try(self, closure: Closure) -> None:
        """Keep the moment of a closed set if it is the best so far."""
        n, happened = self.network.n_ops, closure.happened
        gain = closure.gain
        if self.processors is not None and closure.running > self.processors:
            happened = happened.copy()
            gains, loss = self.cut.gains, []
            for i in np.flatnonzero(happened[: 2 * n : 2] & ~happened[1 : 2 * n : 2]).tolist():
                loss.append(min((int(gains[2 * i]), 2 * i), (-int(gains[2 * i + 1]), 2 * i + 1)))
            for lost, v in sorted(loss)[: closure.running - self.processors]:
                happened[v] = v % 2
                gain -= lost
            orders = self.cut.orders  # an end may be where tensors die
            deaths = np.unique(orders[happened[orders[:, 1]] & ~happened[orders[:, 0]], 0])
            happened[deaths] = True
            gain += int(gains[deaths].sum())
        nbytes = gain - sum(one.nbytes for one in overrated(self.network, happened))
        if nbytes > self.nbytes:
            self.moment, self.nbytes = self.network.moment(happened.tolist()), nbytes


def _case(cut: CutArrays, leaf: Leaf) -> FlowCase:
    return flow_case(cut, leaf.relaxed.proof, leaf.decisions, _array(leaf.settled))


def _array(settled: bytearray) -> Settled | None:
    return np.frombuffer(settled, np.uint8) if any(settled) else None
