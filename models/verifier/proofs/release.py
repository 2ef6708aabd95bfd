r"""The kind `release`: no plan is faster, because an op waits for what must come from afar.

**Claim.** At time 0 the content of some tensors is in tiers U only, which no processor uses: they are
initial, not final if the setting is periodic (then no copy of theirs crosses the period's end), the first op
that accesses them reads them, and the setting lets their kinds start in U only. Op k needs B bytes of them
when it starts: with one processor, which runs the ops in the reference order, those that ops up to k read;
where that order is free, those that k and its ancestors read before a write (by the precedence, they do so in
every order); else those that k reads and no op before it writes. Each of these bytes has passed a channel out
of U by then.
It passes behind the latencies of a way from where it starts to the channel and over it, and before those of a
way on to a tier that a processor uses; the channels out of U carry at most R bytes/s together: their rates,
of those of a group at most its cap. So k starts at

.. math:: \lambda + \lceil B / R \rceil

or later, :math:`\lambda` the least latencies of both ways; then it runs, with one processor all ops from k on
one after another (where the order is free, k and its descendants), and the plan takes no less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...graph import Graph
from ...setting import Setting
from ...units import SECOND
from ...written import Written
from .executed import executed_sets, masks
from .refused import Refused, require_op


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseProof(Written):
    """What op `op` waits for must come out of some tiers, through channels with joint caps.

    Attributes
    ----------
    op
        Index.
    tiers, groups
        Names; the groups have no channel out of the tiers in common.
    """

    kind: ClassVar[str] = "release"
    op: int
    tiers: tuple[str, ...]
    groups: tuple[str, ...] = ()


def check_release(graph: Graph, setting: Setting, bound: int, proof: ReleaseProof) -> None:
    """Raise `Refused` unless no plan starts the op, and ends behind it, before `bound`."""
    proven = released_time(graph, setting, proof)
    if bound > proven:
        raise Refused(f"bound: found {bound} ns, expected at most {proven} ns, which the release proves")


def released_time(graph: Graph, setting: Setting, proof: ReleaseProof) -> int:
    """Return the ns that no plan undercuts.

    Raises
    ------
    Refused
        If op, tiers or groups are none of the graph and the machine, or a processor uses one of the tiers.
    """
    machine, cut, k = setting.machine, set(proof.tiers), require_op(graph, proof.op, "release")
    names = [tier.name for tier in machine.tiers]
    used = {access.tier for processor in machine.processors for access in processor.tiers}
    if not cut or not cut <= set(names) - used:
        raise Refused(f"release, tiers: found {sorted(cut)}, expected some that no processor uses")
    one = len(machine.processors) == 1
    upto: list[int] = [*range(k + 1)] if one else [k]
    behind = [*range(k, len(graph.ops))] if one else [k]
    if one and setting.order != "reference":
        sets = masks(executed_sets(graph))
        upto = [i for i in range(k + 1) if i == k or sets.ancestors[k] >> i & 1]
        behind = [i for i in behind if i == k or sets.descendants[k] >> i & 1]
    nbytes, starts = 0, set[str]()
    for t, tensor in enumerate(graph.tensors):
        allowed = set(setting.starts.get(tensor.kind, names))
        accessed = [i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        late = tensor.initial and not (setting.periodic and tensor.final) and allowed <= cut
        if not late or not accessed or t not in graph.ops[accessed[0]].reads:
            continue
        first = next((i for i in accessed if t in graph.ops[i].writes), len(graph.ops))
        if any(t in graph.ops[i].reads and i <= first for i in upto):
            nbytes += tensor.nbytes
            starts |= allowed
    rate = _rate(setting, proof, cut)
    tail = sum(min(mode.duration_ns for mode in graph.ops[i].all_modes) for i in behind)
    return tail if not nbytes else _latency(setting, cut, starts, used) - (-nbytes * SECOND // rate) + tail


def _rate(setting: Setting, proof: ReleaseProof, cut: set[str]) -> int:
    """Return bytes per second out of the tiers; groups of the proof count with their caps."""
    machine = setting.machine
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels if c.src in cut and c.dst not in cut}
    total = sum(rates.values())
    caps = {group.name: group for group in machine.groups}
    for name in proof.groups:
        if name not in caps:
            raise Refused(f"release, groups: found {name!r}, expected some of {sorted(caps)}")
        pairs = set(caps[name].channels) & set(rates)
        if not pairs:
            raise Refused(f"release, groups: found {name!r}, expected groups of different channels")
        together = sum(rates.pop(pair) for pair in pairs)
        total -= max(0, together - caps[name].bytes_per_s)
    if not total:
        raise Refused("release, tiers: found no channel out of them, expected one")
    return total


def _latency(setting: Setting, cut: set[str], starts: set[str], used: set[str]) -> int:
    """Return the least latencies up to the channels out of the tiers and over them, and behind."""
    channels = setting.machine.channels
    unknown = sum(c.latency_ns for c in channels) + 1
    there = {tier.name: 0 if tier.name in starts else unknown for tier in setting.machine.tiers}
    on = {tier.name: 0 if tier.name in used else unknown for tier in setting.machine.tiers}
    for _ in there:
        for c in channels:
            there[c.dst] = min(there[c.dst], there[c.src] + c.latency_ns)
            on[c.src] = min(on[c.src], on[c.dst] + c.latency_ns)
    out = [c for c in channels if c.src in cut and c.dst not in cut]
    up = min(there[c.src] + c.latency_ns for c in out)
    back = min(on[c.dst] for c in out)
    return (up if up < unknown else 0) + (back if back < unknown else 0)
