"""The buffers that the verifier says a plan has: what an allocation in the plan must place.

Derived from the plan's well-formed actions, as everything that the verifier says; what lowers plans to
buffers for the solvers (`lowtide.models.lowering.buffers`) is another program.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

from ..buffers import Buffer, Buffers, Gap
from .actions import Actions
from .case import Case
from .residencies import CARRIED, Residency, inplace_pairs, residencies


def buffers_of_plan(case: Case, actions: Actions) -> Buffers:
    """Return a buffer for each maximal residency, then one for each run's workspace by time.

    A residency is a maximal range of a tensor's bytes that are allocated together in a tier and released
    together. What the plan never releases lives to its last event. In a periodic plan, a tensor that is
    both initial and final lives on across the period's end: one buffer with a gap where it is away.
    Nothing of 0 bytes is a buffer. Pools are the tiers. Where bytes are released at time 0, the moment before
    that is [0, 1), and all other times are 1 later.

    Ids name the tensor and its index, the bytes if not all, the tier, and the first nanosecond:
    ``3:conv1.weight[0:64]@gpu@1200``; workspaces ``7:conv1/workspace@gpu@1200``.

    Raises
    ------
    InstanceError
        If a free releases bytes that are not allocated.
    """
    listed = residencies(case, actions)
    pairs = inplace_pairs(case, actions, listed)
    names = Counter[str]()
    ids = [_unique(names, _residency_id(case, r)) for r in listed]
    moved = int(any(r.lower == CARRIED and 0 in (r.upper, *(a for a, _ in r.gaps)) for r in listed))
    buffers = [
        Buffer(
            id=name,
            lower=0 if r.lower == CARRIED else r.lower + moved,
            upper=r.upper + moved,
            size=r.high - r.low,
            gaps=tuple(Gap(begin + moved, end + moved) for begin, end in r.gaps),
            pool=case.tiers[r.tier],
        )
        for name, r in zip(ids, listed, strict=True)
    ]
    for run in sorted(actions.runs, key=attrgetter("start", "op", "position")):
        if run.workspace:
            tier = case.tiers[case.processors[run.processor].home]
            name = _unique(names, f"{run.op}:{case.graph.ops[run.op].name}/workspace@{tier}@{run.start}")
            begin, end = run.start + moved, run.end + moved
            buffers.append(Buffer(id=name, lower=begin, upper=end, size=run.workspace, pool=tier))
    return Buffers(
        buffers=tuple(buffers),
        pools=dict(zip(case.tiers, case.capacity, strict=True)),
        inplace=tuple((ids[a], ids[b]) for a, b in pairs),
        name=case.graph.name,
    )


def _residency_id(case: Case, r: Residency) -> str:
    whole = r.low == 0 and r.high == case.nbytes[r.tensor]
    part = "" if whole else f"[{r.low}:{r.high}]"
    name = case.graph.tensors[r.tensor].name
    return f"{r.tensor}:{name}{part}@{case.tiers[r.tier]}@{max(r.lower, 0)}"


def _unique(names: Counter[str], name: str) -> str:
    names[name] += 1
    return name if names[name] == 1 else _unique(names, f"{name}#{names[name]}")
