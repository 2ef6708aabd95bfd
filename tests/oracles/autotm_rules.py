"""Exhaustive search for the fastest plan under AutoTM's rules, as a judge of its model; tiny graphs only.

Op by op over all states: each content that is still needed is in the fast memory for good (`PINNED`), in the
fast memory (`ALONE`), there with a copy (`BOTH`), or in the slow memory (`SLOW`). It reads the raw fields.
"""

from collections.abc import Sequence
from itertools import product

import lowtide as lt

PINNED, ALONE, BOTH, SLOW = "pinned", "alone", "both", "slow"
FAST = (PINNED, ALONE, BOTH)


def fastest(
    problem: lt.Placement,
    form: str,
    window: int = 15,
    beside: int | None = None,
    rooms: Sequence[int] | None = None,
) -> int | None:
    """Return the least makespan (or period) in ns, or None if there is no plan of that form.

    `rooms`: bytes of fast memory by op, where that is not the machine's for all of them.
    """
    graph, machine = problem.graph, problem.machine
    ops, n = graph.ops, len(graph.ops)
    fast, slow = (tier.name for tier in machine.tiers)
    size = [t.nbytes for t in graph.tensors]
    rates = {a.tier: a.bytes_per_s for a in machine.processors[0].tiers}
    channel = {(c.src, c.dst): c for c in machine.channels}

    def copy(t: int, src: str, dst: str, alone: bool) -> int:
        link = channel[src, dst]
        rate = link.bytes_per_s if alone or beside is None else min(beside, link.bytes_per_s)
        return max(1, link.latency_ns - (-size[t] * 10**9 // rate))

    points: dict[tuple[int, int], set[int]] = {}
    for t, tensor in enumerate(graph.tensors):
        ends = {-1} if tensor.initial else set()
        for k, op in enumerate(ops):
            if t in op.writes and t not in op.reads:
                points |= {(t, j): ends for j in range(-1, k) if (t, j) not in points}
                ends = {k}
            elif t in (*op.reads, *op.writes):
                ends |= {k}
        ends |= {n} if tensor.final else set()
        points |= {(t, j): ends for j in range(-1, n) if (t, j) not in points}

    def needed(t: int, k: int) -> bool:
        """Whether the content at the end of op k is needed later."""
        return max(points[t, k], default=-1) > k

    def returns(t: int) -> bool:
        return problem.periodic and graph.tensors[t].initial and graph.tensors[t].final

    def near(t: int, k: int) -> bool:
        """Whether a move may go beside op k."""
        if form != "async":
            return False
        of = points[t, k]
        return min(of) < k < max(of) and any(abs(k - j) <= window for j in of)

    def may_start(t: int) -> list[str]:
        kind = graph.tensors[t].kind
        default = {"input": (slow,)} if problem.start is None and not problem.periodic else {}
        allowed = (problem.start or default).get(kind, (fast, slow))
        return [s for s, tier in ((PINNED, fast), (SLOW, slow)) if tier in allowed]

    def slots(k: int, where: dict[int, str]) -> list[tuple[int, dict[int, str]]]:
        """Return what op k can do: ns from before its reads to behind its writes, and where all is then."""
        op, room = ops[k], machine.tiers[0].capacity if rooms is None else rooms[k]
        operands = {*op.reads, *op.writes}
        others = [t for t in where if t not in operands]
        choices = list[list[tuple[int, str]]]()
        for t in sorted(operands):
            if t not in op.reads:
                choices.append([(0, ALONE), (0, SLOW)])
                continue
            some = [(0, where[t])]
            if where[t] == SLOW and form != "static":
                some.append((copy(t, slow, fast, True), BOTH))
            if t in op.writes:
                some = [(c, ALONE if s == BOTH else s) for c, s in some]
            choices.append(some)
        moves = []
        for t in others:
            some = [(0, where[t])]
            if near(t, k) and where[t] == SLOW:
                some.append((copy(t, slow, fast, False), BOTH))
            if near(t, k) and where[t] == ALONE:
                some.append((copy(t, fast, slow, False), SLOW))
            moves.append(some)
        found = []
        for chosen in product(*choices):
            at = dict(zip(sorted(operands), (s for _, s in chosen), strict=True))
            before = sum(c for c, _ in chosen)
            if slow not in rates and any(s == SLOW for s in at.values()):
                continue
            rate = rates.get(slow)
            in_slow = sum(size[t] for t, s in at.items() if s == SLOW)
            longer = -(-in_slow * 10**9 // rate) if rate else 0
            for mode in op.all_modes:
                named = dict(mode.operands)
                for t in op.writes:
                    named.setdefault(t, fast)
                if any((at[t] in FAST) != (tier == fast) for t, tier in named.items()):
                    continue
                for moved in product(*moves):
                    after = dict(zip(others, (s for _, s in moved), strict=True))
                    held = [t for t, s in at.items() if s in FAST]
                    early = {t for t in where if where[t] in FAST or (t in op.reads and at[t] in FAST)}
                    if room is not None and not k and sum(size[t] for t in early) > room:
                        continue
                    kept = [t for t in others if needed(t, k - 1)]
                    held += [t for t in kept if where[t] in FAST or after[t] in FAST]
                    if room is not None and sum(size[t] for t in held) + mode.workspace > room:
                        continue
                    time = before + max(mode.duration_ns + longer, sum(c for c, _ in moved))
                    left = []
                    for t, s in sorted((at | after).items()):
                        if not needed(t, k):
                            continue
                        some = [(0, s)]
                        if s == BOTH:
                            some.append((0, SLOW))
                        if s == ALONE and t in at and form != "static":
                            some.append((copy(t, fast, slow, True), SLOW))
                        left.append([(t, c, s) for c, s in some])
                    for ended in product(*left):
                        found.append((time + sum(c for _, c, _ in ended), {t: s for t, _, s in ended}))
        return found

    def ended(t: int, begin: str, end: str) -> bool:
        """Whether what must return is where it began; what is overwritten unread is not pinned any more."""
        if any(t in op.writes and t not in op.reads for op in ops):
            return end in (FAST if begin == PINNED else (BOTH, SLOW))
        return (begin == PINNED) == (end == PINNED) and end != ALONE

    there = [t for t, x in enumerate(graph.tensors) if x.initial and (needed(t, -1) or returns(t))]
    best: int | None = None
    for some in product(*(may_start(t) for t in there)):
        begin = dict(zip(there, some, strict=True))
        states = {tuple(begin.items()): 0}
        for k in range(n):
            following: dict[tuple[tuple[int, str], ...], int] = {}
            for state, spent in states.items():
                for time, after in slots(k, dict(state)):
                    key = tuple(sorted(after.items()))
                    following[key] = min(following.get(key, spent + time), spent + time)
            states = following
        for state, spent in states.items():
            if all(ended(t, begin[t], s) for t, s in state if returns(t)):
                best = spent if best is None else min(best, spent)
    return best
