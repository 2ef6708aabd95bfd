r"""The executed sets of a graph as states, forward from nothing or backward from everything.

Memory between two ops depends only on the executed set S, a downset of the precedence
(`lowtide.models.derived.memory`). Tensors with the same last accessors act together. A *last accessor* of a
mortal tensor precedes no other accessor of it; all accessors have run iff the last ones have. One last
accessor gives a term of that op alone; two or more give a *group* g: ops A_g, bytes s_g > 0. So

    M(S) = M(empty) + sum of a_v over v in S - sum of s_g over groups with A_g subset of S        (1)

The a-term is modular; [A subset of S] is supermodular in S; so M is **submodular** on the lattice of
downsets: M(X | Y) + M(X & Y) <= M(X) + M(Y). Nothing else about tensors (several writers, updates in
place, initial, final, dead) enters: they only fix the numbers in (1).

*Forward*, a walk adds one op after another. The increase of op v is a_v, less s_g for every group
that v completes. The op costs c_v + M before it (``coexist``) or c_v + M after it (``replace``).

*Backward*, a walk removes one op after another from the set of all, and the states are the
complements R = all - S. By (1)

    M(all - R) = M(all) + sum over v in R of -a_v + sum of s_g over groups that R touches,       (2)

again submodular. The increase of v is -a_v, plus s_g for every group that v is the first to touch. Before
and after swap: ``coexist`` costs c_v + M after the removal, ``replace`` c_v + M before it.

In both directions the increase of v only falls while others are walked: that is submodularity again.

What is there before the first op, M of nothing, is the cost of no step, but counts for the peak. Searches
leave it out: their limits are never below it, since the working sets bound every peak by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.graph import Graph

MASK_LIMIT = 20_000
"""Up to this many ops, ancestors as bit masks (n^2 / 8 bytes) simplify groups and edges."""


@dataclass(frozen=True, kw_only=True)
class StateSpace:
    """The numbers of (1) or (2) and the order of the ops, in the direction of the walk.

    Attributes
    ----------
    backward
        Whether walks remove ops; a walk is then an order from its end.
    start
        M where walks start: of nothing (forward) or of everything (backward).
    increase
        Per op: its increase at the start.
    extra
        Per op: c_v.
    extra_before
        Whether c_v is added to M before the op's step (else to M after it).
    groups, group_bytes
        A_g and s_g.
    group_tensors
        Per group: the first tensor of it.
    groups_of
        Per op: the groups that it is in.
    before, after
        Per op: the direct neighbours that walks visit before it, and after it.
    """

    backward: bool
    start: int
    increase: tuple[int, ...]
    extra: tuple[int, ...]
    extra_before: bool
    groups: tuple[tuple[int, ...], ...]
    group_bytes: tuple[int, ...]
    group_tensors: tuple[int, ...]
    groups_of: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.extra)

    def order(self, walk: Sequence[int]) -> tuple[int, ...]:
        """Return the order of the ops that a whole walk stands for."""
        return tuple(reversed(walk)) if self.backward else tuple(walk)


def state_space(graph: Graph, *, backward: bool = False) -> StateSpace:
    """Return the states of a graph in one direction (computed once, kept with it)."""
    kept = graph.__dict__.get("_state_spaces")
    if kept is None:
        forward = _forward(graph)
        kept = (forward, _backward(forward))
        graph.__dict__["_state_spaces"] = kept
    space: StateSpace = kept[backward]
    return space


def _forward(graph: Graph) -> StateSpace:
    memory, order = sequential_memory(graph), precedence(graph)
    n = len(graph.ops)
    masks = order.ancestors if n <= MASK_LIMIT else None
    increase = list(memory.first_bytes)
    groups: dict[tuple[int, ...], int] = {}
    first: dict[tuple[int, ...], int] = {}
    hubs: dict[int, frozenset[int]] = {}
    for t, accessors in enumerate(memory.accessors):
        if not memory.mortal[t] or not memory.sizes[t]:
            continue
        last = _maximal(accessors, order.predecessors, masks, hubs)
        if len(last) == 1:
            increase[last[0]] -= memory.sizes[t]
        else:
            groups[last] = groups.get(last, 0) + memory.sizes[t]
            first.setdefault(last, t)
    groups_of: list[list[int]] = [[] for _ in range(n)]
    for g, ops in enumerate(groups):
        for v in ops:
            groups_of[v].append(g)
    before = order.predecessors
    if masks is not None:
        before = tuple(_maximal(some, before, masks, hubs) for some in before)
    after: list[list[int]] = [[] for _ in range(n)]
    for v, some in enumerate(before):
        for u in some:
            after[u].append(v)
    extra = memory.during_extra if memory.during_extra is not None else memory.after_extra
    assert extra is not None
    return StateSpace(
        backward=False,
        start=memory.initial_bytes,
        increase=tuple(increase),
        extra=extra,
        extra_before=memory.during_extra is not None,
        groups=tuple(groups),
        group_bytes=tuple(groups.values()),
        group_tensors=tuple(first.values()),
        groups_of=_tuples(groups_of),
        before=before,
        after=_tuples(after),
    )


def _backward(forward: StateSpace) -> StateSpace:
    increase = [
        -a + sum(forward.group_bytes[g] for g in some)
        for a, some in zip(forward.increase, forward.groups_of, strict=True)
    ]
    return StateSpace(
        backward=True,
        start=forward.start + sum(forward.increase) - sum(forward.group_bytes),
        increase=tuple(increase),
        extra=forward.extra,
        extra_before=not forward.extra_before,
        groups=forward.groups,
        group_bytes=forward.group_bytes,
        group_tensors=forward.group_tensors,
        groups_of=forward.groups_of,
        before=forward.after,
        after=forward.before,
    )


def _maximal(
    ops: tuple[int, ...],
    predecessors: tuple[tuple[int, ...], ...],
    masks: tuple[int, ...] | None,
    hubs: dict[int, frozenset[int]],
) -> tuple[int, ...]:
    """Return the ops that precede no other of them; with no masks, as far as direct edges tell.

    `hubs` keeps the predecessors of ops with more of them than there are ops here: such an op, as one that
    joins everything, may be among the ops of every tensor.
    """
    if len(ops) < 2:
        return ops
    if masks is None:
        direct: set[int] = set()
        for v in ops:
            some = predecessors[v]
            if len(some) <= len(ops):
                direct.update(some)
            else:
                if v not in hubs:
                    hubs[v] = frozenset(some)
                direct.update(u for u in ops if u in hubs[v])
        return tuple(v for v in ops if v not in direct)
    covered, last = 0, []
    for v in reversed(ops):
        if not covered >> v & 1:
            last.append(v)
            covered |= masks[v]
    return tuple(reversed(last))


def _tuples(lists: Iterable[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, lists))
