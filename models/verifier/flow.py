r"""Judge a proof that no parallel schedule of a graph needs more than some bytes, from raw fields alone.

The proof is a flow. Its nodes are events: the start 2i and the end 2i + 1 of each of the n ops, the death
2n + t of each tensor that is accessed and not final, a source (-1) before everything and a sink (-2) that
never happens. An arc (u, v) is *sound* if in no execution v happens before u:

* from the source, and to the sink;
* from 2i to 2i + 1; from 2i + 1 to 2j if i must end before j;
* from 2n + t to the start of an op before which every access of t must end;
* from 2n + t to where one access lets go of t (its end; under ``replace``, if it only reads t, its start),
  if every other access of t must end before that op;
* from the birth of t (the source if it is initial, else the start of its first writer) to 2n + t.

Rules: every arc is sound and carries at least 0; at every event as much arrives as leaves; the arc from
birth to death of each tensor carries at least its bytes (those of final tensors end at the sink), that from
2i to 2i + 1 at least the most workspace of op i, where arcs of several demands carry their sum.

**Then no moment needs more than the flow's value**, what leaves the source less what arrives there. Let
p(v) be 1 if event v has happened at the moment, else 0. On a sound arc p(u) - p(v) is at least 0. The memory
is the sum over the demands of bytes (p(u) - p(v)), so at most the sum over all arcs of flow (p(u) - p(v)),
which by conservation is the value times p(source) - p(sink) = 1.

**At most P ops at one time.** With a price q >= 0 the arc from 2i to 2i + 1 may carry q less than it
demands, also less than 0. As p(2i) - p(2i + 1) is 1 for running ops, the memory is at most the value and q
for each of them: at most value + q P. Flow and price may be multiples of a byte over a *scale*; the memory
is an integer, so the sum is rounded down.

**Cases.** A proof may have several flows, each for the moments at which some events have happened and
others have not (decisions about starts and ends). Such moments make further arcs sound: from an event that
has *surely* happened then to the source, since p is 1 at both, and from the sink to one that surely has
not. Surely started is an op if that is decided, or if an op that follows it has surely started; surely
ended if that is decided, or if a follower has surely started; surely not ended if that is decided, or it
has surely not started; surely not started if that is decided, or an op before it has surely not ended. A
tensor is surely dead if every access has surely let go of it, surely not dead if one surely has not. The
cases leave no moment out if they are the leaves of a binary tree, in which every branching decides one
event, written from left to right: "has happened" first. So from one leaf to the next the decisions "has not"
at the end fall away, the last "has" becomes "has not", and what follows is "has" again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..flow_proof import SINK, SOURCE, FlowCase, FlowProof
from ..graph import Accounting, Graph
from .verdict import Violation


def verify_flow(
    graph: Graph, edges: Sequence[tuple[int, int]], proof: FlowProof, processors: int | None = None
) -> tuple[Violation, ...]:
    """Return what is wrong with flows that are to bound the memory of every parallel schedule.

    Parameters
    ----------
    graph
        What is executed, under its precedence.
    edges
        Further pairs (i, j): op i must end before op j starts.
    proof
        Its value is the bound.
    processors
        How many ops run at one time at most; None: any number.

    Returns
    -------
    tuple of Violation
        Kinds ``edge`` and ``flow``; empty if the proof holds for its value.

    Examples
    --------
    >>> from lowtide.models.graph import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="one op",
    ...     tensors=(Tensor(name="x", nbytes=4),),
    ...     ops=(Op(name="make", writes=(0,)),),
    ... )
    >>> case = FlowCase(arcs=((-1, 0, 4), (0, 2, 4), (2, 1, 4), (1, -2, 4)))
    >>> verify_flow(graph, (), FlowProof(cases=(case,)))
    ()
    >>> print(verify_flow(graph, (), FlowProof(cases=(FlowCase(arcs=()),)))[0])
    flow: arc from 0 to 2 carries 0, expected at least 4
    """
    n = len(graph.ops)
    found = [
        Violation(
            kind="edge", message=f"found [{i}, {j}], expected two different ops in [0, {n})", op=i, other=j
        )
        for i, j in edges
        if not (0 <= i < n and 0 <= j < n and i != j)
    ]
    if found:
        return tuple(found)
    after = _followers(graph, edges)
    if not after.acyclic:
        return (Violation(kind="edge", message="the edges close a cycle, expected none"),)
    users, writers = _uses(graph)
    facts = _Facts(graph=graph, after=after, users=users, writers=writers)
    fault = _gap(proof, n)
    if fault:
        return (_wrong(fault),)
    for number, case in enumerate(proof.cases):
        where = f"case {number}: " if len(proof.cases) > 1 else ""
        found += [_wrong(where + text) for text in _faults(facts, case, processors)]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """The graph, what follows each op, users and writers of each tensor."""

    graph: Graph
    after: _Followers
    users: list[list[int]]
    writers: list[list[int]]


@dataclass(frozen=True, kw_only=True)
class _Sure:
    """Bit masks of the ops that have surely started, ended, and surely not."""

    started: int = 0
    ended: int = 0
    unstarted: int = 0
    unended: int = 0


def _wrong(message: str) -> Violation:
    return Violation(kind="flow", message=message)


def _gap(proof: FlowProof, n: int) -> str:
    """Return why the cases might leave a moment out; empty if they do not."""
    if not proof.cases:
        return "found no case, expected one at least"
    before: list[tuple[int, bool]] = []
    for number, case in enumerate(proof.cases):
        path = list(case.decisions)
        if any(not (0 <= v < 2 * n and type(yes) is bool) for v, yes in path):
            return f"case {number}: found a decision about no start or end of an op"
        if len({v for v, _ in path}) < len(path):
            return f"case {number}: found an event decided twice, expected once"
        if number:
            while before and not before[-1][1]:
                before.pop()
            if not before:
                return f"case {number}: found a case behind the last one, expected none"
            turned = [*before[:-1], (before[-1][0], False)]
            if path[: len(turned)] != turned:
                return f"case {number}: found decisions {path}, expected them to begin with {turned}"
            fresh = path[len(turned) :]
        else:
            fresh = path
        if not all(yes for _, yes in fresh):
            return f"case {number}: found an event that has not happened without the case that it has"
        before = path
    if any(yes for _, yes in before):
        return "the last case: found an event that has happened, expected the case that it has not"
    return ""


def _faults(facts: _Facts, case: FlowCase, processors: int | None) -> list[str]:
    """Return what is wrong with the flow of a case."""
    graph, price, scale = facts.graph, case.price, case.scale
    if type(price) is not int or type(scale) is not int or price < 0 or scale < 1:
        return [f"found price {price!r} and scale {scale!r}, expected integers >= 0 and >= 1"]
    if price and processors is None:
        return [f"found price {price} for any number of processors, expected none"]
    sure = _surely(facts, case)
    found = []
    carried: dict[tuple[int, int], int] = {}
    net: dict[int, int] = {}
    for u, v, flow in case.arcs:
        if (u, v) in carried:
            found.append(f"arc from {u} to {v} is listed twice, expected once")
        least = -price if u >= 0 and u % 2 == 0 and u < 2 * len(graph.ops) and v == u + 1 else 0
        if type(flow) is not int or flow < least:
            found.append(f"arc from {u} to {v} carries {flow!r}, expected an integer >= {least}")
            continue
        if not (_sound(facts, u, v) or _settled(facts, sure, u, v)):
            found.append(f"arc from {u} to {v}: nothing makes {v} happen after {u}")
        carried[u, v] = carried.get((u, v), 0) + flow
        net[u] = net.get(u, 0) - flow
        net[v] = net.get(v, 0) + flow
    for v, surplus in sorted(net.items()):
        if surplus and v not in (SOURCE, SINK):
            found.append(f"event {v}: {surplus} more arrives than leaves, expected as much")
    for (u, v), least in sorted(_demands(facts, price, scale).items()):
        if carried.get((u, v), 0) < least:
            found.append(f"arc from {u} to {v} carries {carried.get((u, v), 0)}, expected at least {least}")
    return found


def _uses(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """Return per tensor the ops that access it, and those that write it, ascending."""
    users: list[list[int]] = [[] for _ in graph.tensors]
    writers: list[list[int]] = [[] for _ in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            users[t].append(i)
        for t in op.writes:
            writers[t].append(i)
    return users, writers


def _demands(facts: _Facts, price: int, scale: int) -> dict[tuple[int, int], int]:
    graph, n = facts.graph, len(facts.graph.ops)
    found: dict[tuple[int, int], int] = {}
    for i, op in enumerate(graph.ops):
        found[2 * i, 2 * i + 1] = scale * max(mode.workspace for mode in op.all_modes) - price
    for t, tensor in enumerate(graph.tensors):
        if not facts.users[t] and not (tensor.initial and tensor.final):
            continue
        birth = SOURCE if tensor.initial else 2 * facts.writers[t][0]
        arc = (birth, SINK if tensor.final else 2 * n + t)
        found[arc] = found.get(arc, 0) + scale * tensor.nbytes
    return found


def _sound(facts: _Facts, u: int, v: int) -> bool:
    """Return whether no execution has v happen before u."""
    graph, after, users, writers = facts.graph, facts.after, facts.users, facts.writers
    n, events = len(graph.ops), 2 * len(graph.ops) + len(graph.tensors)
    if not (SINK < u < events and SINK <= v < events and v != SOURCE):
        return False
    if u == SOURCE or v == SINK:
        return True
    if v >= 2 * n:
        t = v - 2 * n
        return not graph.tensors[t].initial and bool(writers[t]) and u == 2 * writers[t][0]
    op, is_end = v // 2, v % 2 == 1
    if u < 2 * n:
        return (u % 2 == 0 and v == u + 1) or (u % 2 == 1 and not is_end and after.has(u // 2, op))
    t = u - 2 * n
    if graph.tensors[t].final or not users[t]:
        return False
    if any(a != op and not after.has(a, op) for a in users[t]):
        return False
    if op not in users[t]:
        return not is_end
    return is_end == _holds_to_end(facts, op, t)


def _holds_to_end(facts: _Facts, op: int, t: int) -> bool:
    """Return whether an access of tensor t lets go of it at the end of the op."""
    return facts.graph.accounting is Accounting.COEXIST or op in facts.writers[t]


def _surely(facts: _Facts, case: FlowCase) -> _Sure:
    """Return which ops have surely started and ended at every moment of a case, and which have not."""
    started = ended = unstarted = unended = 0
    for v, yes in case.decisions:
        op = 1 << v // 2
        if yes:
            started |= op
            ended |= op * (v % 2)
        else:
            unended |= op
            unstarted |= op * (1 - v % 2)
    for i, after in enumerate(facts.after.masks if case.decisions else ()):
        if after & started:
            ended |= 1 << i
    started |= ended
    for i, after in enumerate(facts.after.masks if case.decisions else ()):
        if unended >> i & 1:
            unstarted |= after
    return _Sure(started=started, ended=ended, unstarted=unstarted, unended=unended | unstarted)


def _settled(facts: _Facts, sure: _Sure, u: int, v: int) -> bool:
    """Return whether u surely has happened and v is the source, or v surely has not and u is the sink."""
    n = len(facts.graph.ops)
    if v == SOURCE:
        event, at_start, at_end = u, sure.started, sure.ended
    elif u == SINK:
        event, at_start, at_end = v, sure.unstarted, sure.unended
    else:
        return False
    if not 0 <= event < 2 * n + len(facts.graph.tensors):
        return False
    if event < 2 * n:
        return (at_end if event % 2 else at_start) >> event // 2 & 1 == 1
    t = event - 2 * n
    if facts.graph.tensors[t].final or not facts.users[t]:
        return False
    let_go = [(at_end if _holds_to_end(facts, a, t) else at_start) >> a & 1 for a in facts.users[t]]
    return all(let_go) if v == SOURCE else any(let_go)


class _Followers:
    """What must follow each op: directly; and all of it as bit masks, once something asks for more."""

    def __init__(self, later: list[set[int]]) -> None:
        self.later = later
        waits = [0] * len(later)
        for some in later:
            for j in some:
                waits[j] += 1
        self._order = [i for i, count in enumerate(waits) if not count]
        for i in self._order:
            for j in sorted(later[i]):
                waits[j] -= 1
                if not waits[j]:
                    self._order.append(j)

    @property
    def acyclic(self) -> bool:
        """Whether there is no cycle."""
        return len(self._order) == len(self.later)

    @cached_property
    def masks(self) -> list[int]:
        """Bit j of mask i: j must follow i."""
        masks = [0] * len(self.later)
        for i in reversed(self._order):
            for j in self.later[i]:
                masks[i] |= masks[j] | 1 << j
        return masks

    def has(self, i: int, j: int) -> bool:
        """Return whether op j must follow op i."""
        return j in self.later[i] or bool(self.masks[i] >> j & 1)


def _followers(graph: Graph, edges: Sequence[tuple[int, int]]) -> _Followers:
    """Return what must follow each op by the graph and further edges."""
    later: list[set[int]] = [set() for _ in graph.ops]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, op in enumerate(graph.ops):
        before = set(op.after)
        before.update(writer[t] for t in op.reads if t in writer)
        for t in op.writes:
            before.update(readers.get(t, ()))
            before.update([writer[t]] if t in writer else [])
        for t in op.writes:
            writer[t], readers[t] = i, []
        for t in op.reads:
            readers.setdefault(t, []).append(i)
        for j in before - {i}:
            later[j].add(i)
    for i, j in edges:
        later[i].add(j)
    return _Followers(later)
