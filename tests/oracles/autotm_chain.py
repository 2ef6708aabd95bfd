"""Exhaustive search for the fastest plan under AutoTM's rules on any tiers, as a judge of its model.

Op by op over all states: where each content that is still needed has copies, a set of tiers, or `PINNED`.
What happens at an op is found by search over single copies and drops. It reads the raw fields.
"""

from functools import cache
from itertools import product

import lowtide as lt
from lowtide.models.graph import Accounting

PINNED = frozenset({-1})
State = tuple[tuple[int, frozenset[int]], ...]
"""Tensors that are still needed and where they are, sorted."""
Way = tuple[int, int, frozenset[int], frozenset[int], frozenset[int], frozenset[int], int]
"""ns alone and beside; tiers with room before, during and behind the op; where it is then; tier of use."""


def fastest(problem: lt.Placement, form: str, window: int = 15) -> int | None:
    """Return the least makespan (or period) in ns, or None if there is no plan of that form."""
    graph, machine = problem.graph, problem.machine
    ops, n = graph.ops, len(graph.ops)
    tiers = [tier.name for tier in machine.tiers]
    size = [t.nbytes for t in graph.tensors]
    rates = {tiers.index(a.tier): a.bytes_per_s for a in machine.processors[0].tiers}
    early = graph.accounting is Accounting.REPLACE
    hops = {}
    for c in machine.channels:
        caps = [g.bytes_per_s for g in machine.groups if (c.src, c.dst) in g.channels]
        hops[tiers.index(c.src), tiers.index(c.dst)] = (min([c.bytes_per_s, *caps]), c.latency_ns)

    def copy(t: int, hop: tuple[int, int]) -> int:
        rate, latency = hops[hop]
        return max(1, latency - (-size[t] * 10**9 // rate))

    def life(t: int, k: int) -> tuple[int, ...]:
        """The ops that access the content that t has around op k, -1 at time 0, n at the end."""
        found: list[list[int]] = [[-1]] if graph.tensors[t].initial else [[]]
        for j, op in enumerate(ops):
            if t in op.writes and t not in op.reads:
                if j > k:
                    return tuple(found[-1])
                found.append([j])
            elif t in (*op.reads, *op.writes):
                found[-1].append(j)
        return (*found[-1], n) if graph.tensors[t].final else tuple(found[-1])

    def needed(t: int, k: int) -> bool:
        return max(life(t, k), default=-1) > k

    def returns(t: int) -> bool:
        return problem.periodic and graph.tensors[t].initial and graph.tensors[t].final

    def again(t: int) -> bool:
        """Whether the content at the end is not that at time 0."""
        return any(t in op.writes and t not in op.reads for op in ops)

    def without(some: frozenset[int]) -> list[frozenset[int]]:
        """What dropping copies leaves."""
        kept = [
            frozenset(x for x, on in zip(sorted(some), bits, strict=True) if on)
            for bits in product((0, 1), repeat=len(some))
        ]
        return [some] if form == "static" else [x for x in kept if x]

    def inward(t: int, at: frozenset[int]) -> list[tuple[int, frozenset[int], frozenset[int]]]:
        """ns, tiers with room and tiers at the end of copies before an op."""
        found, waiting = [(0, at, at)], [(0, at)] if form != "static" else []
        while waiting:
            time, held = waiting.pop()
            for i, j in hops:
                if j < i and i in held and j not in held:
                    more = held | {j}
                    waiting.append((time + copy(t, (i, j)), more))
                    found += [
                        (time + copy(t, (i, j)), more, kept) for kept in without(more) if kept >= more & {0}
                    ]
        return found

    def outward(t: int, at: frozenset[int]) -> list[tuple[int, frozenset[int], frozenset[int], bool]]:
        """The same behind an op, and whether there are copies."""
        found, waiting = (
            [(0, kept, kept, False) for kept in without(at)],
            [(0, at, at)] if form != "static" else [],
        )
        while waiting:
            time, room, held = waiting.pop()
            for i, j in hops:
                if j > i and i in held and j not in held:
                    after = held - {i} | {j}
                    waiting.append((time + copy(t, (i, j)), room | after, after))
                    found += [(time + copy(t, (i, j)), room | after, kept, True) for kept in without(after)]
        return found

    @cache
    def ways(t: int, k: int, where: frozenset[int] | None) -> list[Way]:
        """What an item can do at op k, each once, as fast as it can be; None: it is made there."""
        least = dict[tuple[object, ...], Way]()
        for way in sorted(all_ways(t, k, where), key=lambda way: way[0]):
            least.setdefault(way[1:], way)
        return list(least.values())

    def all_ways(t: int, k: int, where: frozenset[int] | None) -> list[Way]:
        op, none = ops[k], frozenset[int]()
        used, made = t in (*op.reads, *op.writes), where is None
        pinned = where == PINNED
        at = frozenset({0}) if pinned else none if where is None else where
        found: list[Way] = []
        if not used and not needed(t, k):
            return [(0, 0, at, none, none, none, -1)]
        if not used:
            found.append((0, 0, at, at, at, PINNED if pinned else at, -1))
            of = life(t, k)
            if pinned or form == "static":
                return found
            near = form == "async" and min(of) < k < max(of) and any(abs(k - j) <= window for j in of)
            if near:
                found += [(0, 0, at, at, kept, kept, -1) for kept in without(at)]
                for i, j in hops:
                    if i in at and j not in at:
                        after = at | {j} if j < i else at - {i} | {j}
                        found += [
                            (0, copy(t, (i, j)), at, at | {j}, kept, kept, -1)
                            for kept in without(after)
                            if j in kept
                        ]
            return found
        befores = [(0, at, at)] if pinned else inward(t, at) if not made else [(0, none, none)]
        for time, room, held in befores:
            for use in [min(held & set(rates), default=-1)] if not made else sorted(rates):
                if use < 0:
                    continue
                during = frozenset({use}) if t in op.writes else held
                only = early and t not in op.writes
                if not needed(t, k):
                    found.append((time, 0, room, none if only else during, none, none, use))
                elif pinned:
                    found.append((time, 0, room, during, during, PINNED, use))
                else:
                    for more, behind, left, moved in outward(t, during):
                        found.append(
                            (time + more, 0, room, left if only and not moved else during, behind, left, use)
                        )
        return found

    @cache
    def slots(k: int, state: State) -> dict[State, int]:
        """The states behind op k, each with the least ns to it."""
        op, where = ops[k], dict(state)
        items = sorted({*where, *op.writes, *op.reads})
        overwritten = set(op.writes) - set(op.reads)
        found: dict[State, int] = {}
        for chosen in product(*(ways(t, k, None if t in overwritten else where[t]) for t in items)):
            some = dict(zip(items, chosen, strict=True))
            held = [
                [
                    sum(size[t] for t, there in zip(items, at, strict=True) if i in there)
                    for i in range(len(tiers))
                ]
                for at in ([way[2] for way in chosen], [way[3] for way in chosen], [way[4] for way in chosen])
            ]
            for t in overwritten & where.keys():  # what was there at time 0, until op 0 starts
                held[0][max(0, *where[t])] += size[t]
            rooms = [tier.capacity for tier in machine.tiers]
            # In the first tier what is there before an op counts for itself only where the op's start is one.
            moments = held if early or not k else [[0, *held[0][1:]], held[1], held[2]]
            if any(room is not None and use[i] > room for use in moments for i, room in enumerate(rooms)):
                continue
            slow = [(size[t], way[6]) for t, way in some.items() if way[6] >= 0 and rates[way[6]]]
            times = [10**9 * b * 1.0 / (rates[tier] or 1) for b, tier in slow]
            assert all(x == int(x) for x in times)
            for mode in op.all_modes:
                named = dict(mode.operands)
                for t in op.writes:
                    named.setdefault(t, tiers[0])
                if any(tiers[some[t][6]] != tier for t, tier in named.items()):
                    continue
                if rooms[0] is not None and held[1][0] + mode.workspace > rooms[0]:
                    continue
                length = mode.duration_ns + int(sum(times))
                time = sum(way[0] for way in chosen) + max(length, sum(way[1] for way in chosen))
                after = tuple((t, way[5]) for t, way in some.items() if needed(t, k))
                found[after] = min(found.get(after, time), time)
        return found

    there = [t for t, x in enumerate(graph.tensors) if x.initial and (needed(t, -1) or returns(t))]
    starts = []
    for t in there:
        allowed = problem.may_start(graph.tensors[t].kind)
        starts.append(
            [PINNED if i == 0 else frozenset({i}) for i, tier in enumerate(tiers) if tier in allowed]
        )
    best: int | None = None
    for first in product(*starts):
        begin = dict(zip(there, first, strict=True))
        for i, tier in enumerate(machine.tiers):
            held = sum(size[t] for t, at in begin.items() if (0 if at == PINNED else min(at)) == i)
            if tier.capacity is not None and held > tier.capacity:
                break
        else:
            states: dict[State, int] = {tuple(sorted(begin.items(), key=lambda pair: pair[0])): 0}
            for k in range(n):
                following: dict[State, int] = {}
                for state, spent in states.items():
                    for after, time in slots(k, state).items():
                        following[after] = min(following.get(after, spent + time), spent + time)
                states = following
            for state, spent in states.items():
                ends = dict(state)
                back = not problem.periodic or all(
                    (frozenset({0}) <= ends[t] if again(t) else ends[t] == PINNED)
                    if at == PINNED
                    else at <= ends[t]
                    for t, at in begin.items()
                    if graph.tensors[t].final and t in ends
                )
                if back:
                    best = spent if best is None else min(best, spent)
    return best
