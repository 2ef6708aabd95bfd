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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..arrays import Booleans, Integers
from ..flow_proof import SINK, SOURCE, FlowCase, FlowProof
from ..graph import Accounting, Graph
from .followers import Followers, among, distinct
from .verdict import Violation

_EXACT = 2**62
"""Below this in all, flows are added as 64-bit integers, else as those of Python."""


def verify_flow(
    graph: Graph, edges: Sequence[tuple[int, int]], proof: FlowProof, processors: int | None = None
) -> tuple[Violation, ...]:
    """Return what is wrong with flows that are to bound the memory of every parallel schedule.

    Parameters
    ----------
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
    """
    n = len(graph.ops)
    faults = [
        Violation(
            kind="edge", message=f"found [{i}, {j}], expected two different ops in [0, {n})", op=i, other=j
        )
        for i, j in edges
        if not (0 <= i < n and 0 <= j < n and i != j)
    ]
    if faults:
        return tuple(faults)
    facts = _facts(graph, edges)
    if not facts.after.acyclic:
        return (Violation(kind="edge", message="the edges close a cycle, expected none"),)
    fault = _gap(proof, n)
    if fault:
        return (_wrong(fault),)
    for number, case in enumerate(proof.cases):
        where = f"case {number}: " if len(proof.cases) > 1 else ""
        faults += [_wrong(where + text) for text in _faults(facts, case, processors)]
    return tuple(faults)


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


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What is true of the graph for every case.

    Attributes
    ----------
    n, events
        Numbers of ops; of starts, ends and deaths.
    after
        What must follow each op.
    tensor, op, to_end
        Of each access, by tensor and op: these, and whether it lets go at the end of the op.
    first, initial, mortal
        Of each tensor: its first writer, n if there is none; whether it is initial; whether it dies.
    tails, heads, demands
        Arcs that must carry something, by tail and head, and how many bytes.
    """

    n: int
    events: int
    after: Followers
    tensor: Integers
    op: Integers
    to_end: Booleans
    first: Integers
    initial: Booleans
    mortal: Booleans
    tails: Integers
    heads: Integers
    demands: list[int]


def _facts(graph: Graph, edges: Sequence[tuple[int, int]]) -> _Facts:
    ops, n, tensors = graph.ops, len(graph.ops), len(graph.tensors)
    reads, writes = (_rows([getattr(op, kind) for op in ops]) for kind in ("reads", "writes"))
    accesses = distinct(np.concatenate([reads, writes]))
    tensor, op = accesses // max(n, 1), accesses % max(n, 1)
    wrote, read = np.zeros((2, len(accesses)), np.bool_)
    wrote[np.searchsorted(accesses, writes)] = True
    read[np.searchsorted(accesses, reads)] = True
    row = np.arange(len(accesses))
    # rows of the same tensor: the last write before each, the first one behind each
    last = np.maximum.accumulate(np.where(wrote, row, -1))[:-1]
    behind = np.minimum.accumulate(np.where(wrote, row, len(row))[::-1])[::-1][1:]
    has = (last >= 0) & (tensor[last] == tensor[1:])
    held = (behind < len(row)) & read[:-1]
    held[held] = tensor[behind[held]] == tensor[:-1][held]
    forced = [op[last[has]] * n + op[1:][has], op[:-1][held] * n + op[behind[held]]]
    forced += [_rows([x.after for x in ops]), np.array([i * n + j for i, j in edges], np.int64)]
    first = np.full(tensors, n)
    np.minimum.at(first, tensor[wrote], op[wrote])
    initial, final = (
        np.fromiter((getattr(t, kind) for t in graph.tensors), np.bool_, tensors)
        for kind in ("initial", "final")
    )
    used = np.zeros(tensors, np.bool_)
    used[tensor] = True
    bytes_of: dict[tuple[int, int], int] = {}
    for i, x in enumerate(ops):
        bytes_of[2 * i, 2 * i + 1] = max(mode.workspace for mode in x.all_modes) if x.modes else x.workspace
    births = np.where(initial, SOURCE, 2 * first).tolist()
    for t in np.flatnonzero(used | (initial & final)).tolist():
        arc = births[t], SINK if final[t] else 2 * n + t
        bytes_of[arc] = bytes_of.get(arc, 0) + graph.tensors[t].nbytes
    arcs = sorted(bytes_of)
    tails, heads = np.array(arcs, np.int64).reshape(-1, 2).T
    return _Facts(
        n=n,
        events=2 * n + tensors,
        after=Followers(n, distinct(np.concatenate(forced))),
        tensor=tensor,
        op=op,
        to_end=wrote | (graph.accounting is Accounting.COEXIST),
        first=first,
        initial=initial,
        mortal=used & ~final,
        tails=tails,
        heads=heads,
        demands=[bytes_of[arc] for arc in arcs],
    )


def _rows(lists: Sequence[Sequence[int]]) -> Integers:
    """Return ``x n + i`` for each x in the list i of n."""
    flat = np.fromiter(chain.from_iterable(lists), np.int64)
    return flat * len(lists) + np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.int64))


def _faults(facts: _Facts, case: FlowCase, processors: int | None) -> Iterator[str]:
    """Yield what is wrong with the flow of a case."""
    price, scale = case.price, case.scale
    if type(price) is not int or type(scale) is not int or price < 0 or scale < 1:
        yield f"found price {price!r} and scale {scale!r}, expected integers >= 0 and >= 1"
        return
    if price and processors is None:
        yield f"found price {price} for any number of processors, expected none"
        return
    strays: dict[object, int] = {}
    u, v = (_numbers([arc[side] for arc in case.arcs], facts.events, strays) for side in (0, 1))
    width = facts.events + len(strays) + 2
    listed = [flow if type(flow) is int else -price - 1 for _, _, flow in case.arcs]
    largest = sum(map(abs, listed)) + scale * (sum(facts.demands) + 1) + price
    kind = np.int64 if largest < _EXACT else object
    flow, least, demands = np.array(listed, kind), np.zeros(len(u), kind), np.array(facts.demands, kind)
    least[(u >= 0) & (u % 2 == 0) & (u < 2 * facts.n) & (v == u + 1)] = -price
    good = np.asarray(flow >= least, np.bool_)
    sound = _sound(facts, u, v)
    if case.decisions:
        sound |= _settled(facts, case, u, v)
    codes = (u + 2) * width + v + 2
    known, place = np.unique(codes[good], return_inverse=True)
    twice = _repeated(codes, good) if len(known) < len(codes) else ~good
    for k in np.flatnonzero(twice | ~good | ~sound).tolist():
        tail, head, carries = case.arcs[k]
        if twice[k]:
            yield f"arc from {tail} to {head} is listed twice, expected once"
        if not good[k]:
            yield f"arc from {tail} to {head} carries {carries!r}, expected an integer >= {least[k]}"
        elif not sound[k]:
            yield f"arc from {tail} to {head}: nothing makes {head} happen after {tail}"
    net = np.zeros(width, kind)  # of event x at x, of the source and the sink at the end
    np.subtract.at(net, u[good], flow[good])
    np.add.at(net, v[good], flow[good])
    net[[SOURCE, SINK]] = 0
    names = [*range(facts.events), *strays] if strays else range(facts.events)
    for surplus, x in sorted((names[x], net[x]) for x in np.flatnonzero(net).tolist()):
        yield f"event {surplus}: {x} more arrives than leaves, expected as much"
    carried = np.zeros(len(known) + 1, kind)  # the last: of arcs that are not listed
    np.add.at(carried, place, flow[good])
    demands = scale * demands
    demands[(facts.tails >= 0) & (facts.heads == facts.tails + 1) & (facts.tails < 2 * facts.n)] -= price
    wanted = (facts.tails + 2) * width + facts.heads + 2
    at = np.searchsorted(known, wanted)
    at[~among(known, wanted)] = len(known)
    for k in np.flatnonzero(carried[at] < demands).tolist():
        arc = f"arc from {facts.tails[k]} to {facts.heads[k]}"
        yield f"{arc} carries {carried[at[k]]}, expected at least {demands[k]}"


def _numbers(nodes: list[int], events: int, strays: dict[object, int]) -> Integers:
    """Return events as an array; what is none gets a number behind them."""
    if nodes and not (set(map(type, nodes)) == {int} and min(nodes) >= SINK and max(nodes) < events):
        for k, x in enumerate(nodes):
            if not (type(x) is int and SINK <= x < events):
                nodes[k] = strays.setdefault(x, events + len(strays))
    return np.array(nodes, np.int64)


def _repeated(codes: Integers, good: Booleans) -> Booleans:
    """Return which arcs were listed before, with a flow that an arc may carry."""
    seen: set[int] = set()
    twice = []
    for code, fine in zip(codes.tolist(), good.tolist(), strict=True):
        twice.append(code in seen)
        if fine:
            seen.add(code)
    return np.array(twice, np.bool_)


def _sound(facts: _Facts, u: Integers, v: Integers) -> Booleans:
    """Return of which arcs no execution has v happen before u."""
    n = facts.n
    known: Booleans = (u != SINK) & (u < facts.events) & (v != SOURCE) & (v < facts.events)
    sound: Booleans = known & (
        (u == SOURCE) | (v == SINK) | ((u % 2 == 0) & (u < 2 * n) & (v == u + 1) & (v < 2 * n))
    )
    rest = known & ~sound
    born = np.flatnonzero(rest & (v >= 2 * n))
    t = v[born] - 2 * n
    sound[born] = ~facts.initial[t] & (facts.first[t] < n) & (u[born] == 2 * facts.first[t])
    ordered = np.flatnonzero(rest & (v < 2 * n) & (u < 2 * n) & (u % 2 == 1) & (v % 2 == 0))
    dying = np.flatnonzero(rest & (v < 2 * n) & (u >= 2 * n))
    t, op, is_end = u[dying] - 2 * n, v[dying] // 2, v[dying] % 2 == 1
    accesses = facts.tensor * n + facts.op
    ends = np.zeros(len(dying), np.bool_)
    uses = among(accesses, t * n + op)
    ends[uses] = facts.to_end[np.searchsorted(accesses, (t * n + op)[uses])]
    kept = facts.mortal[t] & (is_end == ends)
    dying, t, op = dying[kept], t[kept], op[kept]
    begin = np.searchsorted(facts.tensor, t)
    count = np.searchsorted(facts.tensor, t, "right") - begin
    arc = np.repeat(np.arange(len(t)), count)  # each with every access of its tensor
    a = facts.op[np.arange(len(arc)) + np.repeat(begin - np.cumsum(count) + count, count)]
    arc, a = arc[a != op[arc]], a[a != op[arc]]
    follow: Booleans = facts.after.has(
        np.concatenate([u[ordered] // 2, a]), np.concatenate([v[ordered] // 2, op[arc]])
    )
    sound[ordered] = follow[: len(ordered)]
    sound[dying] = True
    sound[dying[arc[~follow[len(ordered) :]]]] = False
    return sound


def _settled(facts: _Facts, case: FlowCase, u: Integers, v: Integers) -> Booleans:
    """Return of which arcs u surely has happened, to the source, or v surely has not, from the sink."""
    n, after = facts.n, facts.after
    happened, never = np.zeros((2, facts.events + 2), np.bool_)
    for event, yes in case.decisions:
        (happened if yes else never)[[event - event % 2, event] if yes else [event, event | 1]] = True
    ended = _reached(after.earlier, np.flatnonzero(happened[: 2 * n : 2]).tolist())
    happened[[2 * i + side for i in ended for side in (0, 1)]] = True
    unstarted = _reached(after.later, np.flatnonzero(never[1 : 2 * n : 2]).tolist())
    never[[2 * i + side for i in unstarted for side in (0, 1)]] = True
    lets_go = 2 * facts.op + facts.to_end
    holding = np.bincount(facts.tensor[~happened[lets_go]], minlength=len(facts.mortal))
    held = np.bincount(facts.tensor[never[lets_go]], minlength=len(facts.mortal))
    happened[2 * n : facts.events] = facts.mortal & (holding == 0)
    never[2 * n : facts.events] = facts.mortal & (held > 0)
    settled = np.zeros(len(u), np.bool_)
    back, on = (v == SOURCE) & (u < facts.events), (u == SINK) & (v < facts.events)
    settled[back] = happened[u[back]]
    settled[on] |= never[v[on]]
    return settled


def _reached(neighbours: Sequence[Sequence[int]], todo: list[int]) -> set[int]:
    """Return the ops that a path of one arc or more leads to."""
    reached: set[int] = set()
    while todo:
        fresh = [j for j in neighbours[todo.pop()] if j not in reached]
        reached.update(fresh)
        todo += fresh
    return reached
