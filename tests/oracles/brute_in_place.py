"""Exhaustive search for the fastest plan of tiny single runs whose ops use a second tier in place.

Two tiers, the second one without limit; tensors move as wholes, one copy at a time in each direction, without
interruption. A start can be moved earlier until an op or a copy ends at that instant, so it suffices to start
things at such instants: the search goes from one to the next, earliest first, and tries at each whatever may
be released and started. What an op reads stays where it reads it until its end. It reads the raw fields only.
"""

import heapq
from collections.abc import Iterator
from itertools import chain, combinations, product
from random import Random

import lowtide as lt

State = tuple[int, int, int, int, tuple[tuple[int, int], ...], int, int, int, int, tuple[int, ...]]
"""Time; next op; end, workspace and uses of the one that runs; copies; where tensors are."""

NEAR, FAR = 1, 2  # the current version is in the first tier, in the second one


def fastest(problem: lt.Placement) -> int | None:
    """Return the least makespan in ns, or None if there is no plan; copies must take whole ns."""
    graph, machine = problem.graph, problem.machine
    near, far = (tier.name for tier in machine.tiers)
    bit = {near: NEAR, far: FAR}
    size = [t.nbytes for t in graph.tensors]
    capacity, n = machine.tiers[0].capacity, len(graph.ops)
    rate = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    slow = {a.tier: a.bytes_per_s for a in machine.processors[0].tiers}[far]
    out_time = [-(-z * 10**9 // rate[near, far]) for z in size]
    in_time = [-(-z * 10**9 // rate[far, near]) for z in size]

    def needed(t: int, k: int) -> bool:
        for op in graph.ops[k:]:
            if t in op.reads:
                return True
            if t in op.writes:
                return False
        return graph.tensors[t].final

    def choices(k: int, where: tuple[int, ...]) -> Iterator[tuple[int, int, dict[int, int]]]:
        """Yield ns, workspace, and by operand where it is read (NEAR, FAR) and written (times 4)."""
        op = graph.ops[k]
        operands = sorted({*op.reads, *op.writes})
        for mode in op.all_modes:
            named = {t: bit[tier] for t, tier in mode.operands}
            some = []
            for t in operands:
                reads = [named[t]] if t in named else [NEAR, FAR]
                reads = [x for x in reads if where[t] & x] if t in op.reads else [0]
                writes = [named.get(t, NEAR)] if t in op.writes else [0]
                some.append([(r, w) for r in reads for w in writes])
            for ways in product(*some):
                if any(FAR in way for way in ways) and slow is not None:
                    total = sum(size[t] for t, way in zip(operands, ways, strict=True) if FAR in way)
                    extra = -(-total * 10**9 // slow)
                else:
                    extra = 0
                at = {t: r + 4 * w for t, (r, w) in zip(operands, ways, strict=True)}
                yield mode.duration_ns + extra, mode.workspace, at

    def fits(state: list[int], work: int, extra: set[int]) -> bool:
        held = sum(z for t, z in enumerate(size) if state[t] & NEAR or t in extra)
        return capacity is None or held + work <= capacity

    tiers = [problem.may_start(t.kind) for t in graph.tensors]
    begins = [
        [b for b in (1, 2, 3) if all(b & bit[x] == 0 or x in some for x in (near, far))]
        if t.initial and needed(i, 0)
        else [0]
        for i, (t, some) in enumerate(zip(graph.tensors, tiers, strict=True))
    ]
    queue: list[State] = []
    for where in product(*begins):
        if fits(list(where), 0, set()):
            queue.append((0, 0, 0, 0, (), -1, 0, -1, 0, where))
    heapq.heapify(queue)
    seen = set()
    while queue:
        now, k, run_end, work, uses, out, out_end, into, in_end, where = heapq.heappop(queue)
        left = tuple(max(0, end - now) for end in (run_end, out_end, in_end))
        key = (k, left, work, uses, out, into, where)
        if key in seen:
            continue
        seen.add(key)
        state = list(where)
        if run_end and run_end <= now:
            for t, use in uses:
                if use >= 4:
                    state[t] = use // 4
            k, run_end, work, uses = k + 1, 0, 0, ()
        if out >= 0 and out_end <= now:
            state[out], out, out_end = state[out] | FAR, -1, 0
        if into >= 0 and in_end <= now:
            state[into], into, in_end = state[into] | NEAR, -1, 0
        if k == n:
            return now
        using = dict(uses)
        for t in range(len(size)):
            if t not in using and t not in (out, into) and not needed(t, k + bool(run_end)):
                state[t] = 0
        spare = [
            t for t, s in enumerate(state) if s == 3 and using.get(t, FAR) == FAR and t != out and t != into
        ]
        for dropped in chain.from_iterable(combinations(spare, r) for r in range(len(spare) + 1)):
            kept = [FAR if t in dropped else s for t, s in enumerate(state)]
            starts = [(0, 0, None)] + ([] if run_end else [*choices(k, tuple(kept))])
            for time, space, at in starts:
                then, busy = list(kept), using
                if at is not None:
                    busy = at
                    for t, use in at.items():
                        if use >= 4:  # its room; not valid before the end
                            then[t] = NEAR if use // 4 == NEAR else 0
                    if any(use >= 4 and t in (out, into) for t, use in at.items()):
                        continue
                written = {t for t, use in busy.items() if use >= 4}
                outs = (
                    [-1]
                    if out >= 0
                    else [-1, *(t for t, s in enumerate(then) if s == NEAR and t not in written)]
                )
                ins = (
                    [-1]
                    if into >= 0
                    else [-1, *(t for t, s in enumerate(then) if s == FAR and t not in written)]
                )
                for new_out, new_in in product(outs, ins):
                    arriving = {t for t in (into, new_in) if t >= 0}
                    inner = work if at is None else space
                    if not fits(then, inner, arriving):
                        continue
                    ends = (
                        run_end if at is None else now + time,
                        out_end if new_out < 0 else now + out_time[new_out],
                        in_end if new_in < 0 else now + in_time[new_in],
                    )
                    later = [end for end in ends if end > now]
                    if not later:
                        continue
                    item = (
                        min(later),
                        k,
                        ends[0],
                        inner,
                        uses if at is None else tuple(sorted(at.items())),
                        max(out, new_out),
                        ends[1],
                        max(into, new_in),
                        ends[2],
                        tuple(then),
                    )
                    heapq.heappush(queue, item)
    return None


def random_in_place(seed: int, *, periodic: bool = False) -> lt.Placement:
    """Return a tiny question: ops of several modes, updates, what may start where."""
    rng = Random(f"in place {seed}")
    tensors = [
        lt.Tensor(
            name=f"i{i}",
            nbytes=rng.randint(1, 4),
            kind=rng.choice(("weight", "input")),
            initial=True,
            final=rng.random() < 0.3,
        )
        for i in range(rng.randint(1, 2))
    ]
    ops = []
    for k in range(rng.randint(2, 4)):
        reads = sorted(rng.sample(range(len(tensors)), min(len(tensors), rng.randint(1, 2))))
        writes = [rng.choice(reads)] if rng.random() < 0.2 else []
        if not writes or rng.random() < 0.7:
            tensors.append(lt.Tensor(name=f"t{k}", nbytes=rng.randint(1, 4), final=rng.random() < 0.2))
            writes.append(len(tensors) - 1)
        base, space = rng.randint(1, 6), rng.choice((0, 0, 1))
        modes = []
        if rng.random() < 0.6:
            for tier in ("near", "far"):
                named = tuple((t, tier) for t in writes)
                modes.append(lt.Mode(duration_ns=base + rng.randint(0, 3), workspace=space, operands=named))
            if rng.random() < 0.3:
                named = tuple((t, rng.choice(("near", "far"))) for t in {*reads, *writes})
                modes.append(lt.Mode(duration_ns=max(1, base - 1), operands=named))
        ops.append(
            lt.Op(
                name=f"op{k}",
                reads=tuple(reads),
                writes=tuple(writes),
                duration_ns=base,
                workspace=space,
                modes=tuple(modes),
            )
        )
    graph = lt.Graph(name="tiny", tensors=tuple(tensors), ops=tuple(ops))
    needed = max(sum(tensors[t].nbytes for t in {*op.reads, *op.writes}) + op.workspace for op in ops)
    machine = lt.Machine(
        name="two",
        tiers=(
            lt.Tier(name="near", capacity=max(1, needed + rng.randint(-2, 3))),
            lt.Tier(name="far", capacity=None),
        ),
        processors=(
            lt.Processor(
                name="p",
                tiers=(
                    lt.Access(tier="near"),
                    lt.Access(tier="far", bytes_per_s=rng.choice((None, 10**9, 5 * 10**8, 7 * 10**8))),
                ),
            ),
        ),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=rng.choice((10**9, 5 * 10**8)))
            for a, b in (("near", "far"), ("far", "near"))
        ),
    )
    start = {kind: rng.choice((("near",), ("far",), ("near", "far"))) for kind in ("weight", "input")}
    return lt.Placement(graph, machine, whole=True, start=start, periodic=periodic)
