"""From a plan to the buffers that an allocation of its memory places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter

from ..buffers import Buffer, Buffers, Gap
from ..graph import Graph
from ..machine import Machine
from ..plan import Plan, Run
from .residencies import Residency, first_moment, inplace_pairs, mode_of, residencies


def buffers_from_plan(graph: Graph, plan: Plan) -> Buffers:
    """Return the buffers of a plan: one per maximal residency, and one per run's workspace.

    A residency is a maximal range of a tensor's bytes that are allocated together in a tier and released
    together. What the plan never releases lives to its last event. In a periodic plan, a tensor that is
    both initial and final lives on across the period's end: one buffer with a gap where it is away.
    Nothing of 0 bytes is a buffer. Pools are the tiers. Where bytes are released at time 0, the moment before
    that has a place of its own: it is [0, 1), and all other times are 1 later.

    Ids name the tensor and its index, the bytes if not all, the tier, and the first nanosecond:
    ``3:conv1.weight[0:64]@gpu@1200``; workspaces ``7:conv1/workspace@gpu@1200``.

    Raises
    ------
    InstanceError
        If an action is malformed, or releases bytes that are not allocated.
    """
    found = residencies(graph, plan)
    return buffers_of(graph, plan.machine, found, plan.runs, inplace_pairs(graph, plan, found))


def buffers_of(
    graph: Graph,
    machine: Machine,
    listed: Sequence[Residency],
    runs: Iterable[Run],
    pairs: Iterable[tuple[int, int]],
) -> Buffers:
    """Return a buffer for each residency, then for each run's workspace by time.

    Parameters
    ----------
    pairs
        In-place pairs as positions in `listed`.
    """
    counts = Counter[str]()
    buffers: list[Buffer] = []
    delay = first_moment(listed)

    def add(name: str, lower: int, upper: int, size: int, pool: str, gaps: tuple[Gap, ...] = ()) -> None:
        counts[name] += 1
        while counts[name] > 1:
            name = f"{name}#{counts[name]}"
            counts[name] += 1
        lower = max(lower + delay, 0)
        buffers.append(Buffer(id=name, lower=lower, upper=upper + delay, size=size, gaps=gaps, pool=pool))

    for r in listed:
        tensor, pool = graph.tensors[r.tensor], machine.tiers[r.tier].name
        part = "" if r.high - r.low == tensor.nbytes else f"[{r.low}:{r.high}]"
        gaps = tuple(Gap(a + delay, b + delay) for a, b in r.gaps)
        name = f"{r.tensor}:{tensor.name}{part}@{pool}@{max(r.lower, 0)}"
        add(name, r.lower, r.upper, r.high - r.low, pool, gaps)
    homes = {p.name: p.tiers[0].tier for p in machine.processors}
    for run in sorted(runs, key=attrgetter("start", "op")):
        workspace = mode_of(graph, run).workspace
        if workspace:
            pool = homes[run.processor]
            name = f"{run.op}:{graph.ops[run.op].name}/workspace@{pool}@{run.start}"
            add(name, run.start, run.end, workspace, pool)
    return Buffers(
        buffers=tuple(buffers),
        pools={tier.name: tier.capacity for tier in machine.tiers},
        inplace=tuple((buffers[a].id, buffers[b].id) for a, b in pairs),
        name=graph.name,
    )
