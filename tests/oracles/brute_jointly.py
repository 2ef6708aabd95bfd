"""Exhaustive search for the fastest tiny placement in which ops may run again beside copies.

Two tiers, a fast memory and an unlimited outer one, or the fast memory alone; accounting ``coexist``; each
tensor has one writer at most, and initial ones none, so there is one version of each. An op of several modes
runs in any of them: what a mode writes to another tier than the first is lost. Tensors move as wholes,
one copy at a time in each direction. A start can be moved earlier until an op or a copy ends at that instant,
so the search goes from one such instant to the next, earliest first, and tries at each whatever may be
started, and whatever may be released for it. First runs keep the order of the graph. Raw fields only.
"""

import heapq
from collections.abc import Container
from itertools import chain, combinations

import lowtide as lt

DEVICE, COPY = 1, 2  # a tensor is on the device, has a copy outside
IDLE = (-1, 0)


def fastest_jointly(
    graph: lt.Graph, machine: lt.Machine, start: dict[int, int], stay: Container[int] = ()
) -> int | None:
    """Return the least makespan in ns, None if there is no plan.

    `start` says where initial tensors are at 0, `stay` which tensors are never copied out.
    """
    rate = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    names = [machine.tiers[0].name, *(b for a, b in rate if a == machine.tiers[0].name)]
    size = [t.nbytes for t in graph.tensors]
    memory = machine.tiers[0].capacity
    tensors, n = range(len(size)), len(graph.ops)

    def lost(i: int) -> set[int]:  # by op and n times its mode
        modes = graph.ops[i % n].modes
        return {t for t, tier in modes[i // n].operands if tier != names[0]} if modes else set()

    ways = [[i + n * m for m in range(max(1, len(op.modes)))] for i, op in enumerate(graph.ops)]

    def copy_ns(t: int, a: int, b: int) -> int:
        return -(-size[t] * 10**9 // rate[names[a], names[b]])

    behind = [sum(op.all_modes[0].duration_ns for op in graph.ops[k:]) for k in range(n + 1)]

    def least(now: int, done: int, run: tuple[int, int]) -> int:
        """Return when all can have run, each op once from here on."""
        return behind[done] + now if run[0] < 0 else behind[max(done, run[0] % n + 1)] + run[1]

    # The least end; now; first runs so far; op, copy out, copy in, each with its end; where tensors are
    queue = [(0, 0, 0, IDLE, IDLE, IDLE, tuple(start.get(t, 0) for t in tensors))]
    met = set()
    while queue:
        _, now, done, run, out, back, where = heapq.heappop(queue)
        left = tuple((x, max(0, end - now)) for x, end in (run, out, back))
        if (done, left, where) in met:
            continue
        met.add((done, left, where))
        state = list(where)
        if run[0] >= 0 and run[1] <= now:
            for t in {*graph.ops[run[0] % n].writes} - lost(run[0]):
                state[t] = DEVICE
            done, run = max(done, run[0] % n + 1), IDLE
        if out[0] >= 0 and out[1] <= now:
            state[out[0]] |= COPY
            out = IDLE
        if back[0] >= 0 and back[1] <= now:
            state[back[0]] |= DEVICE
            back = IDLE
        there = all(x for x, t in zip(state, graph.tensors, strict=True) if t.final)
        if there and done == len(graph.ops) and (run, out, back) == (IDLE,) * 3:
            return now
        busy = set() if run[0] < 0 else {*graph.ops[run[0] % n].reads, *graph.ops[run[0] % n].writes}
        loose = [
            t
            for t in tensors
            if size[t] and state[t] & DEVICE and t not in busy and t not in (out[0], back[0])
        ]
        tried: dict[object, list[set[int]]] = {}
        for gone in chain.from_iterable(combinations(loose, r) for r in range(len(loose) + 1)):
            kept = [x & ~DEVICE if t in gone else x for t, x in enumerate(state)]
            for i in [-1] if run[0] >= 0 else [-1, *chain.from_iterable(ways[: done + 1])]:
                op = graph.ops[i % n] if i >= 0 else None
                used = busy if op is None else {*op.reads, *op.writes}
                if op is not None:
                    if any(not kept[t] & DEVICE for t in op.reads) or {out[0], back[0]} & {*op.writes}:
                        continue
                    if back[0] in used:
                        continue
                now_on = max(i, run[0])
                written = set() if now_on < 0 else {*graph.ops[now_on % n].writes}
                space = 0 if now_on < 0 else graph.ops[now_on % n].all_modes[now_on // n].workspace
                gone_by = set() if now_on < 0 else lost(now_on)
                can_leave = [t for t in tensors if kept[t] == DEVICE and t not in written and t not in stay]
                outs = [out] if out[0] >= 0 or not rate else [IDLE, *((t, -1) for t in can_leave)]
                can_come = [t for t in tensors if kept[t] == COPY and t not in used]
                backs = [back] if back[0] >= 0 or not rate else [IDLE, *((t, -1) for t in can_come)]
                for o in outs:
                    for b in backs:
                        less = tried.setdefault((i, o, b), [])
                        if any(x <= {*gone} for x in less):
                            continue
                        held = {t for t in tensors if kept[t] & DEVICE} | (used - gone_by) | ({b[0]} - {-1})
                        if memory is not None and sum(size[t] for t in held) + space > memory:
                            continue
                        less.append({*gone})
                        after = [0 if op is not None and t in op.writes else x for t, x in enumerate(kept)]
                        now_run = run if op is None else (i, now + op.all_modes[i // n].duration_ns)
                        now_out = (o[0], now + copy_ns(o[0], 0, 1)) if o[1] < 0 else o
                        now_back = (b[0], now + copy_ns(b[0], 1, 0)) if b[1] < 0 else b
                        if (now_run, now_out, now_back) == (run, out, back):
                            continue
                        ends = [end for x, end in (now_run, now_out, now_back) if x >= 0]
                        then = min(ends)
                        item = (done, now_run, now_out, now_back, tuple(after))
                        heapq.heappush(queue, (max(then, least(then, done, now_run)), then, *item))
        ends = [end for x, end in (run, out, back) if x >= 0]
        if ends:  # nothing more starts
            then = min(ends)
            item = (done, run, out, back, tuple(state))
            heapq.heappush(queue, (max(then, least(then, done, run)), then, *item))
    return None
