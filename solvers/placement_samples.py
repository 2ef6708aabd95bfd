"""`lp-bound`: lower bounds on the period from linear programs over sample instants, and where to sample.

Any samples give a bound; those that matter surround the stalls of good plans. A few coarse ones, the op of
most live bytes in each of `BINS` equal spans of time, stand for the rest of the iteration. Around every
cluster of stalls of the incumbent ops are sampled at their start and their end, first a few before it, then
four times as many from round to round; where that makes too many samples, only every second, third, ... op.

The values of an interior point method are turned into integers over `DENOMINATOR` and evaluated exactly by
weak duality (`lowtide.formulations.linear_program.dual_bound`): the bound needs no trust in the solver.
"""

from __future__ import annotations

from itertools import pairwise

from ..formulations.linear_program import dual_bound
from ..formulations.placement_samples import Outer, SampleData, build
from ..models.errors import UsageError
from ..models.placement import Placement
from ..models.plan import Plan
from .algorithms.placement.planner import check_machine, first_plan, ideal_time
from .context import Context, Outcome

BINS = 40
"""Coarse samples."""
SMALLEST = 2**20
"""Tensors below it, and below a 40,000th of the memory, count only where they are accessed."""
SHORTEST = 20_000
"""ns: shorter ops are not sampled in windows of long iterations."""
ROUNDS = ((24, 120), (96, 200), (384, 300))
"""Ops sampled before a cluster of stalls, and how many samples there are around all of them, by round."""
BEHIND = 8
"""Ops sampled behind one."""
JOINED = 12
"""Ops between stalls of one cluster at most."""
SMALL = 350
"""Samples up to which an iteration is sampled at every op."""
DENOMINATOR = 2**90


def solve_samples(problem: Placement, context: Context) -> Outcome:
    """Raise the bound around the stalls of the incumbent; make one first if there is none."""
    ideal = ideal_time(problem)
    context.raise_bound(ideal, kind="sum of durations")
    if context.answer is None:
        check_machine(problem)
        plan = first_plan(problem, context)
        if isinstance(plan, Plan):
            context.offer(plan)
    return raise_by_samples(problem, context)


def raise_by_samples(problem: Placement, context: Context) -> Outcome:
    """Solve programs with more and more samples until the bound meets the incumbent."""
    from .engines.highs_lp import dual_values

    ideal = ideal_time(problem)
    done: list[int] = []
    for reach, most in ROUNDS:
        if context.closed or context.expired:
            break
        stall = None if context.incumbent is None else context.incumbent - ideal
        data = sample_data(problem, ideal if stall is None else stall)
        samples = chosen_samples(data, context.answer, reach, most)
        if samples == done:
            break
        done = samples
        program = build(data, samples)
        context.progress(f"linear program: {len(samples)} samples, {len(program.low)} rows")
        values = dual_values(program, context, context.remaining())
        if values is None:
            break
        bound = ideal + dual_bound(program, [round(y * DENOMINATOR) for y in values], DENOMINATOR)
        context.raise_bound(bound, kind="sampled states")
    return Outcome(reason="time" if context.expired and not context.closed else None)


def sample_data(problem: Placement, stall: int) -> SampleData:
    """Return the data of the linear program.

    Raises
    ------
    UsageError
        If the problem is not periodic, or the machine has several processors, reads in place outside its
        first tier, or has channels between outer tiers.
    """
    graph, machine = problem.graph, problem.machine
    device = machine.tiers[0]
    names = [t.name for t in machine.tiers]
    fault = None
    if not problem.periodic:
        fault = "a single run, expected a periodic problem"
    elif len(machine.processors) != 1 or [a.tier for a in machine.processors[0].tiers] != [device.name]:
        fault = "another use of tiers, expected one processor that uses the first tier only"
    elif any(device.name not in (c.src, c.dst) for c in machine.channels):
        fault = "a channel between outer tiers, expected all of them at the first tier"
    if fault:
        raise UsageError(f"bound by samples, machine {machine.name!r}: found {fault}")
    accesses: list[list[int]] = [[] for _ in graph.tensors]
    writes: list[list[int]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            accesses[t].append(k)
        for t in sorted(set(op.writes)):
            writes[t].append(k)
    kept = [t for t, some in enumerate(accesses) if some]
    tensors = graph.tensors
    least = SMALLEST if device.capacity is None else min(SMALLEST, device.capacity // 40_000)
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    outer = tuple(
        Outer(
            out_rate=rates.get((device.name, t.name), 0),
            in_rate=rates.get((t.name, device.name), 0),
            capacity=t.capacity,
        )
        for t in machine.tiers[1:]
    )
    joint: dict[str, int] = {}
    for side, pairs in (
        ("out", {(device.name, name) for name in names[1:]}),
        ("in", {(name, device.name) for name in names[1:]}),
    ):
        for group in machine.groups:  # a cap over more channels bounds these as well
            if {pair for pair in pairs if pair in rates} <= set(group.channels):
                joint[side] = min(joint.get(side, group.bytes_per_s), group.bytes_per_s)
    total = sum(t.nbytes for t in tensors) + max(
        (m.workspace for o in graph.ops for m in o.all_modes), default=0
    )
    return SampleData(
        duration=tuple(min(m.duration_ns for m in op.all_modes) for op in graph.ops),
        workspace=tuple(min(m.workspace for m in op.all_modes) for op in graph.ops),
        size=tuple(tensors[t].nbytes for t in kept),
        accesses=tuple(tuple(accesses[t]) for t in kept),
        writes=tuple(tuple(writes[t]) for t in kept),
        persistent=tuple(tensors[t].initial and tensors[t].final for t in kept),
        everywhere=tuple(
            tensors[t].nbytes >= least and (not tensors[t].initial or tensors[t].final) for t in kept
        ),
        memory=total if device.capacity is None else device.capacity,
        outer=outer,
        joint_out=joint.get("out"),
        joint_in=joint.get("in"),
        stall=stall,
    )


def chosen_samples(data: SampleData, plan: Plan | None, reach: int, most: int) -> list[int]:
    """Return samples: coarse ones, and ops around the stalls of a plan.

    Parameters
    ----------
    data
        What is sampled.
    plan
        The incumbent, or None: then small iterations are sampled at every op.
    reach
        How many ops before each cluster of stalls.
    most
        About how many samples around all clusters.
    """
    n = len(data.duration)
    if 2 * n <= SMALL:
        return list(range(2 * n))
    clusters = _clusters(plan)
    near = {k % n for low, high in clusters for k in range(low - reach, high + BEHIND + 1)}
    ops = [k for k in sorted(near) if data.duration[k] >= SHORTEST]
    step = max(1, -(-2 * len(ops) // most))
    picked = {*ops[::step], *(k for ends in clusters for k in ends)}
    return sorted({2 * k for k in _coarse(data)} | {2 * k + half for k in picked for half in (0, 1)})


def _coarse(data: SampleData) -> list[int]:
    """Return the op of most live bytes in each span of time."""
    n = len(data.duration)
    change = [0] * (n + 1)
    for nbytes, some, always in zip(data.size, data.accesses, data.persistent, strict=True):
        change[0 if always else some[0]] += nbytes
        if not always:
            change[some[-1] + 1] -= nbytes
    total, now, live = sum(data.duration), 0, 0
    best: dict[int, tuple[int, int]] = {}
    for k in range(n):
        live += change[k]
        found = (-live - data.workspace[k], k)
        best[now * BINS // total] = min(best.get(now * BINS // total, found), found)
        now += data.duration[k]
    return [k for _, k in best.values()]


def _clusters(plan: Plan | None) -> list[tuple[int, int]]:
    """Return first and last op of the groups of stalls that make up nearly all of a plan's stall."""
    if plan is None:
        return []
    runs = sorted(plan.runs, key=lambda r: r.start)
    stalls = [(runs[0].op, runs[0].start)] if runs else []
    stalls += [(b.op, b.start - a.end) for a, b in pairwise(runs)]
    total = sum(x for _, x in stalls)
    clusters: list[list[int]] = []
    for op, length in stalls:
        if length * 300 <= total:
            continue
        if clusters and op - clusters[-1][1] <= JOINED:
            clusters[-1][1] = op
        else:
            clusters.append([op, op])
    return [(a, b) for a, b in clusters]
