"""Changes of plans of runs and transfers, each of which may break them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from lowtide.models.graph import Graph
from lowtide.models.plan import Copy, Plan, Run

Change = Callable[[Random, Graph, Plan], Plan | None]
STEPS = (-3, -2, -1, -1, 1, 1, 2, 3)


def _runs(change: Callable[[Random, Graph, Plan, Run], list[Run]]) -> Change:
    def mutate(rng: Random, graph: Graph, plan: Plan) -> Plan | None:
        if not plan.runs:
            return None
        k = rng.randrange(len(plan.runs))
        changed = change(rng, graph, plan, plan.runs[k])
        return replace(plan, runs=(*plan.runs[:k], *changed, *plan.runs[k + 1 :]))

    return mutate


def _copies(change: Callable[[Random, Graph, Plan, Copy], list[Copy]]) -> Change:
    def mutate(rng: Random, graph: Graph, plan: Plan) -> Plan | None:
        if not plan.copies:
            return None
        k = rng.randrange(len(plan.copies))
        changed = change(rng, graph, plan, plan.copies[k])
        return replace(plan, copies=(*plan.copies[:k], *changed, *plan.copies[k + 1 :]))

    return mutate


def _moved(run: Run, step: int) -> Run:
    return replace(run, start=run.start + step, end=run.end + step)


def _sent(copy: Copy, step: int) -> Copy:
    return replace(copy, start=copy.start + step, end=copy.end + step)


def _swapped(rng: Random, graph: Graph, plan: Plan) -> Plan | None:
    """Two ops change places: each takes start and processor of the other, and its own time."""
    if len(plan.runs) < 2:
        return None
    a, b = rng.sample(range(len(plan.runs)), 2)
    x, y = plan.runs[a], plan.runs[b]
    runs = list(plan.runs)
    runs[a] = replace(x, start=y.start, end=y.start + x.end - x.start, processor=y.processor)
    runs[b] = replace(y, start=x.start, end=x.start + y.end - y.start, processor=x.processor)
    return replace(plan, runs=tuple(runs))


def _earlier(rng: Random, graph: Graph, plan: Plan) -> Plan:
    """All that begins at some time or later begins a little earlier."""
    now, step = rng.choice([run.start for run in plan.runs] or [0]), rng.choice((1, 1, 2))
    return replace(
        plan,
        runs=tuple(_moved(run, -step) if run.start >= now else run for run in plan.runs),
        copies=tuple(_sent(copy, -step) if copy.start >= now else copy for copy in plan.copies),
    )


def _mode(rng: Random, graph: Graph, plan: Plan, run: Run) -> list[Run]:
    mode = rng.randrange(len(graph.ops[run.op].all_modes))
    length = graph.ops[run.op].all_modes[mode].duration_ns
    return [replace(run, mode=mode, end=run.start + length)]


def _extra(rng: Random, graph: Graph, plan: Plan) -> Plan | None:
    """Send what an op wrote to some memory, as fast as the channel can or faster."""
    wrote = [(run, t) for run in plan.runs for t in graph.ops[run.op].writes]
    if not wrote or not plan.machine.channels:
        return None
    run, t = rng.choice(wrote)
    home = next((p.tiers[0].tier for p in plan.machine.processors if p.name == run.processor), "")
    channels = [c for c in plan.machine.channels if c.src == home] or list(plan.machine.channels)
    channel = rng.choice(channels)
    length = channel.latency_ns - (-graph.tensors[t].nbytes * 10**9 // channel.bytes_per_s)
    start = run.end + rng.randint(0, 3)
    return replace(plan, copies=(*plan.copies, Copy(t, channel.src, channel.dst, start, start + length)))


def _processor(rng: Random, graph: Graph, plan: Plan, run: Run) -> list[Run]:
    return [replace(run, processor=rng.choice(plan.machine.processors).name)]


def _frees(rng: Random, graph: Graph, plan: Plan) -> Plan | None:
    if not plan.frees:
        return None
    k = rng.randrange(len(plan.frees))
    free = plan.frees[k]
    changed = rng.choice(([], [free, free], [replace(free, time=max(0, free.time + rng.choice(STEPS)))]))
    return replace(plan, frees=(*plan.frees[:k], *changed, *plan.frees[k + 1 :]))


def _start(rng: Random, graph: Graph, plan: Plan) -> Plan | None:
    if not plan.start:
        return None
    k = rng.randrange(len(plan.start))
    entry = plan.start[k]
    other = rng.choice(plan.machine.tiers).name
    changed = rng.choice(([], [entry, entry], [replace(entry, tier=other)], [replace(entry, valid=False)]))
    return replace(plan, start=(*plan.start[:k], *changed, *plan.start[k + 1 :]))


CHANGES: dict[str, Change] = {
    "shift run": _runs(lambda rng, graph, plan, x: [_moved(x, rng.choice(STEPS))]),
    "shorter or longer run": _runs(lambda rng, graph, plan, x: [replace(x, end=x.end + rng.choice(STEPS))]),
    "start of run": _runs(lambda rng, graph, plan, x: [replace(x, start=x.start + rng.choice(STEPS))]),
    "run elsewhere": _runs(_processor),
    "other mode": _runs(_mode),
    "no run": _runs(lambda rng, graph, plan, x: []),
    "run twice": _runs(lambda rng, graph, plan, x: [x, _moved(x, rng.choice((0, x.end - x.start)))]),
    "run of another op": _runs(
        lambda rng, graph, plan, x: [replace(x, op=rng.randrange(len(graph.ops)))],
    ),
    "swapped runs": _swapped,
    "all earlier": _earlier,
    "no copy": _copies(lambda rng, graph, plan, x: []),
    "shift copy": _copies(lambda rng, graph, plan, x: [_sent(x, rng.choice(STEPS))]),
    "shorter or longer copy": _copies(
        lambda rng, graph, plan, x: [replace(x, end=x.end + rng.choice(STEPS))]
    ),
    "copy twice": _copies(lambda rng, graph, plan, x: [x, _sent(x, rng.choice((0, x.end - x.start, 1)))]),
    "turned copy": _copies(lambda rng, graph, plan, x: [replace(x, src=x.dst, dst=x.src)]),
    "copy of another tensor": _copies(
        lambda rng, graph, plan, x: [replace(x, tensor=rng.randrange(len(graph.tensors)))]
    ),
    "copy of some bytes": _copies(
        lambda rng, graph, plan, x: [replace(x, bytes=(0, max(0, graph.tensors[x.tensor].nbytes - 1)))]
    ),
    "extra copy": _extra,
    "frees": _frees,
    "start": _start,
}


def mutate(rng: Random, graph: Graph, plan: Plan) -> tuple[str, Plan]:
    """Return a plan with one change, or two, and what was changed."""
    names = []
    for _ in range(rng.choice((1, 1, 2))):
        for _ in range(20):
            name = rng.choice(sorted(CHANGES))
            changed = CHANGES[name](rng, graph, plan)
            if changed is not None and changed != plan:
                plan = changed
                names.append(name)
                break
    return " and ".join(names), plan
