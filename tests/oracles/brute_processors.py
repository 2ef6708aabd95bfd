"""Exhaustive search for the fastest placement of tiny single runs on a GPU and a host's processor.

Whole tensors; the first tier is limited, the second is not; each processor uses one of them and runs its ops
in the reference order, each channel carries one copy at a time. A start can be moved earlier until an op or a
copy ends at that instant, so things start at such instants only, and no more is released than has to be. What
nobody reads at the other end is copied only to make room, and never where all has room.
Accounting ``coexist``. It reads the raw fields only.
"""

import heapq
from itertools import combinations, product

import lowtide as lt

State = tuple[int, tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]
"""Time; by tier, the next of its ops and the end of the one that runs (0: none); copies out and in; tiers."""


def fastest(problem: lt.Placement, start: dict[int, int], most: int) -> int | None:
    """Return the least makespan in ns; None if there is no plan, or it takes more than `most` states.

    Parameters
    ----------
    problem
        Two tiers, of which the first processor's is first.
    start
        For each initial tensor, its tier's number at time 0.
    most
        States that are looked at.
    """
    graph, machine = problem.graph, problem.machine
    names = [tier.name for tier in machine.tiers]
    rate = {(names.index(c.src), names.index(c.dst)): c.bytes_per_s for c in machine.channels}
    size, room = [t.nbytes for t in graph.tensors], machine.tiers[0].capacity
    modes = [op.modes[0] for op in graph.ops]
    home = {p.kind: names.index(p.tiers[0].tier) for p in machine.processors}
    tier = [home[mode.processors[0]] for mode in modes]
    chains = [[k for k, x in enumerate(tier) if x == y] for y in (0, 1)]
    touched = [{*op.reads, *op.writes} for op in graph.ops]
    before = [
        {*op.after}
        | {j for j in range(k) if {*graph.ops[j].writes} & touched[k] or touched[j] & {*op.writes}}
        for k, op in enumerate(graph.ops)
    ]

    def needed(t: int, done: set[int]) -> bool:
        for k, op in enumerate(graph.ops):
            if k not in done and t in touched[k]:
                return t in op.reads
        return graph.tensors[t].final

    def wanted(t: int, x: int, done: set[int]) -> bool:
        """Whether an op of a processor will read what is there now."""
        for k, op in enumerate(graph.ops):
            if k not in done and t in touched[k]:
                if t in op.reads and tier[k] == x:
                    return True
                if t in op.writes:
                    return False
        return False

    used_there = {t for k in chains[0] for t in touched[k]} | {t for t, x in start.items() if x == 0}
    roomy = room is None or room >= sum(size[t] for t in used_there) + max(m.workspace for m in modes)
    where = tuple(1 << start[t] if t in start else 0 for t in range(len(size)))
    first: State = (0, (0, 0), (0, 0), ((-1, 0), (-1, 0)), where)
    queue, seen, met = [first], {first}, set()
    while queue:
        now, place, ends, flights, bits = heapq.heappop(queue)
        left = tuple(max(0, end - now) if end else -1 for end in (*ends, flights[0][1], flights[1][1]))
        if (place, tuple(t for t, _ in flights), bits, left) in met:
            continue
        met.add((place, tuple(t for t, _ in flights), bits, left))
        if len(met) > most:
            return None
        state, spot, run, moving = list(bits), list(place), list(ends), list(flights)
        for x in (0, 1):
            if run[x] and run[x] <= now:
                for t in graph.ops[chains[x][spot[x]]].writes:
                    state[t] = 1 << x
                spot[x], run[x] = spot[x] + 1, 0
            if moving[x][0] >= 0 and moving[x][1] <= now:
                state[moving[x][0]] |= 2 >> x  # flight 0 goes out, to tier 1
                moving[x] = (-1, 0)
        done = {k for x in (0, 1) for k in chains[x][: spot[x]]}
        if len(done) == len(graph.ops):
            return now
        running = [chains[x][spot[x]] for x in (0, 1) if run[x]]
        used = {t for k in running for t in touched[k]}
        for t in range(len(size)):
            if t not in used and t not in {moving[0][0], moving[1][0]} and not needed(t, done):
                state[t] = 0
        startable = [
            [None]
            if run[x] or spot[x] == len(chains[x]) or not before[chains[x][spot[x]]] <= done
            else [None, chains[x][spot[x]]]
            for x in (0, 1)
        ]
        free = [
            t
            for t in range(0 if roomy else len(size))
            if state[t] == 3 and t not in {moving[0][0], moving[1][0]}
        ]
        enough: dict[object, list[set[int]]] = {}
        for drop in (set(some) for r in range(len(free) + 1) for some in combinations(free, r)):
            kept = [2 if t in drop else b for t, b in enumerate(state)]
            if any(t in drop for k in running if tier[k] == 0 for t in touched[k]):
                continue
            for chosen in product(*startable):
                ops = [k for k in chosen if k is not None]
                if any(not kept[t] >> tier[k] & 1 for k in ops for t in graph.ops[k].reads):
                    continue
                if any(t in {moving[0][0], moving[1][0]} for k in ops for t in graph.ops[k].writes):
                    continue
                after = list(kept)
                for k in ops:
                    for t in graph.ops[k].writes:
                        after[t] = after[t] & 1 << tier[k] if t in graph.ops[k].reads else 0
                written = {t for k in (*running, *ops) for t in graph.ops[k].writes}
                choices = [
                    [
                        -1,
                        *(
                            t
                            for t, b in enumerate(after)
                            if b == 1 << x
                            and t not in written
                            and (wanted(t, 1 - x, done) or not (x or roomy))
                        ),
                    ]
                    if moving[x][0] < 0
                    else [-1]
                    for x in (0, 1)
                ]
                for fresh in product(*choices):
                    if any(less <= drop for less in enough.get((chosen, fresh), ())):
                        continue
                    flying = [
                        (t, now - (-size[t] * 10**9 // rate[x, 1 - x])) if t >= 0 else moving[x]
                        for x, t in enumerate(fresh)
                    ]
                    if flying[0][0] == flying[1][0] >= 0:
                        continue
                    on_gpu = {t for t, b in enumerate(after) if b & 1} | {flying[1][0]} - {-1}
                    on_gpu |= {t for k in (*running, *ops) if tier[k] == 0 for t in touched[k]}
                    space = sum(modes[k].workspace for k in (*running, *ops) if tier[k] == 0)
                    if room is not None and space + sum(size[t] for t in on_gpu) > room:
                        continue
                    enough.setdefault((chosen, fresh), []).append(drop)
                    until = [
                        now + modes[k].duration_ns if k is not None else run[x] for x, k in enumerate(chosen)
                    ]
                    events = [e for e in (*until, *(end for t, end in flying if t >= 0)) if e > now]
                    if not events:
                        continue
                    item = (min(events), tuple(spot), tuple(until), tuple(flying), tuple(after))
                    if item not in seen:
                        seen.add(item)
                        heapq.heappush(queue, item)
    return None
