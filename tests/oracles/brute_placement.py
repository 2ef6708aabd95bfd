"""Exhaustive search for the fastest placement of tiny single runs, as a judge of the other methods.

Two tiers, a fast memory and an unlimited outer one; tensors move as wholes, one copy at a time in each
direction, without interruption. A start can be moved earlier until an op or a copy ends at that instant, so
it suffices to start things at such instants: the search goes from one to the next, earliest first, and tries
at each whatever may be started, releasing no more than it takes. Under the accounting ``replace`` a read
counts at the op's start: what the op only reads may be released then, before what it writes is allocated, or
be copied while it runs. It reads the raw fields only.
"""

import heapq
from itertools import chain, combinations

import lowtide as lt
from lowtide.models.graph import Accounting

DEVICE, COPY = 1, 2  # a tensor's current version is on the device, has a copy outside


def fastest(graph: lt.Graph, machine: lt.Machine, start: dict[int, int]) -> int | None:
    """Return the least makespan in ns, or None if there is no plan.

    Parameters
    ----------
    graph, machine
        Ops with one mode; a machine with two tiers.
    start
        For each initial tensor, where it is at time 0: `DEVICE`, `COPY`, or both added.
    """
    fast, slow = (tier.name for tier in machine.tiers)
    rate = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    size = [t.nbytes for t in graph.tensors]
    memory = machine.tiers[0].capacity
    n, m = len(graph.ops), len(size)
    replace = graph.accounting is Accounting.REPLACE
    held = [{*op.writes} if replace else {*op.reads, *op.writes} for op in graph.ops]

    def duration(t: int, src: str, dst: str) -> int:
        return -(-size[t] * 10**9 // rate[src, dst])

    def needed(t: int, k: int) -> bool:
        """Whether the content is read at or behind op k before it is overwritten, or must be kept."""
        for op in graph.ops[k:]:
            if t in op.reads:
                return True
            if t in op.writes:
                return False
        return graph.tensors[t].final

    first_bytes = sum(size[t] for t, tiers in start.items() if tiers & DEVICE and needed(t, 0))
    if memory is not None and first_bytes > memory:
        return None

    # A state: time; the next op and when the one that runs ends (0: none runs); the tensor and the end of the
    # copy in each direction (-1, 0: none); where each tensor is; bytes allocated beside by what is under way.
    first = (0, 0, 0, -1, 0, -1, 0, tuple(start.get(t, 0) for t in range(m)))
    queue, seen, met = [first], {first}, set()
    while queue:
        now, k, run_end, out, out_end, into, in_end, where = heapq.heappop(queue)
        left = tuple(max(0, end - now) if end else -1 for end in (run_end, out_end, in_end))
        if (k, out, into, where, left) in met:  # as it was before, only later
            continue
        met.add((k, out, into, where, left))
        state = list(where)
        if run_end and run_end <= now:
            for t in graph.ops[k].writes:
                state[t] = DEVICE
            k, run_end = k + 1, 0
        if out >= 0 and out_end <= now:
            state[out] |= COPY
            out, out_end = -1, 0
        if into >= 0 and in_end <= now:
            state[into] |= DEVICE
            into, in_end = -1, 0
        if k == n:
            return now
        running = held[k] if run_end else set()
        content = k + (replace and run_end > 0)
        for t in range(m):  # what nobody needs any more goes at once
            if t not in running and t not in (out, into) and not needed(t, content):
                state[t] = 0
        clean = [
            t for t in range(m) if state[t] == DEVICE + COPY and t not in running and t not in (out, into)
        ]
        fits: dict[tuple[bool, int, int], list[set[int]]] = {}
        for drop in chain.from_iterable(combinations(clean, r) for r in range(len(clean) + 1)):
            kept = [COPY if t in drop else s for t, s in enumerate(state)]
            for op_starts in (False, True) if not run_end else (False,):
                op = graph.ops[k]
                there = state if replace else kept
                if op_starts and any(not there[t] & DEVICE for t in op.reads):
                    continue
                busy = held[k] if op_starts or run_end else set()
                read = {*op.reads} - busy if op_starts else set()
                stay = [
                    0 if t in read and t != out and not needed(t, k + 1) else x for t, x in enumerate(kept)
                ]
                writes = set(op.writes) if busy else set()
                if op_starts and (out in writes or into in busy):
                    continue
                outs = (
                    [-1]
                    if out >= 0
                    else [-1, *(t for t in range(m) if stay[t] == DEVICE and t not in writes and t != into)]
                )
                ins = (
                    [-1]
                    if into >= 0
                    else [-1, *(t for t in range(m) if stay[t] == COPY and t not in busy and t != out)]
                )
                for new_out in outs:
                    for new_in in ins:
                        tried = fits.setdefault((op_starts, new_out, new_in), [])
                        if any(less <= set(drop) for less in tried):
                            continue
                        arriving = {t for t in (into, new_in) if t >= 0}
                        used = sum(
                            size[t] for t in range(m) if stay[t] & DEVICE or t in busy or t in arriving
                        ) + (op.workspace if busy else 0)
                        if memory is not None and used > memory:
                            continue
                        tried.append(set(drop))
                        after = list(stay)
                        if op_starts:
                            for t in op.writes:
                                after[t] = DEVICE if t in op.reads else 0
                        ends = (
                            now + op.duration_ns if op_starts else run_end,
                            now + duration(new_out, fast, slow) if new_out >= 0 else out_end,
                            now + duration(new_in, slow, fast) if new_in >= 0 else in_end,
                        )
                        if max(ends) <= now:
                            continue
                        item = (
                            min(e for e in ends if e > now),
                            k,
                            ends[0],
                            max(out, new_out),
                            ends[1],
                            max(into, new_in),
                            ends[2],
                            tuple(after),
                        )
                        if item not in seen:
                            seen.add(item)
                            heapq.heappush(queue, item)
    return None
