r"""The kind `lags`: in any order of the ops that keeps the precedence, no plan is faster.

**Setting.** One processor runs the ops one at a time, op k for at least :math:`d_k`, with operands in the
first tier, of M bytes; channels join it and outer tiers (`merged`). Accounting ``coexist``. *Begin* and
*end* are the two ends of the run, or of an iteration of a periodic one. Ancestors and descendants are those
of the precedence: read after write, write after read, write after write, `after`.

**What is there.** A tensor *keeps* its content if every op that writes it reads it, too, but for the first
access of one that is not initial; and, in a period, if it is final where it is initial. Take an op c that
does not access such a tensor. In every order its content is valid somewhere during c if it is *begun*:
initial, or its first writer is an ancestor of c; and *wanted*: final in a single run, initial and final in
a period, or a descendant of c accesses it. While c runs, its operands and its workspace take :math:`L_c`
bytes of M.

**Lags.** Let X be some outer tiers of which each other one has a capacity, K the sum of these, and R the
most that the channels between X and the first tier carry one way, bytes/s: the sum of their rates, at most
the rate of a group that has them all. Of tensors that are there at c with V bytes, at least :math:`V + L_c
- M - K` bytes are in X alone. *Inward*, from the end of c to the start of a descendant j: V counts those
that j, or an ancestor of j that descends from c, accesses: they pass into the first tier by then. To the
end: those that any descendant of c accesses. *Outward*, from the end of an ancestor i of c to the start of
c: those that i, or a descendant of i that is an ancestor of c, writes: what is in X passed behind that.
From begin: those that any ancestor of c writes, or that may be in the first tier only at begin. In a
period, from the end of c to its next start: inward those that are initial or that a descendant accesses,
outward those that an ancestor writes, or that are initial and written at all; this is a bound by itself,
with :math:`d_c`. Each lasts at least :math:`\lceil (V + L_c - M - K) / R \rceil`, with the best X.

**One machine.** The start of k comes no sooner behind begin than :math:`\min_S r + \sum_S d` for any set S
of ancestors of k, nor than :math:`r_a + d_a` and a lag from a: that is :math:`r_k`; :math:`q_k` is the same
from the end of k on. For any set S of ops the whole takes at least :math:`\min_S r + \sum_S d + \min_S q`.

**Least peak.** Where no op overwrites content that nobody has read, and every order has a peak of P bytes
(the proof `least`, of a kind of `peak`), some op c has P bytes around it: :math:`P - M - K` of them in X
alone as it starts and as it ends. All but those of initial tensors went out before, in time A; all but
those of final ones come back behind it, in time B. So the whole takes at least :math:`\min_c \max(r_c, A) +
d_c + \max(q_c, B)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from ...graph import Accounting, Graph
from ...machine import Machine
from ...setting import Setting
from ...units import SECOND
from ...written import Written
from .executed import executed_sets, masks
from .merged import merged_setting
from .prices import check_machine
from .refused import Refused
from .stacks import PeakProof

TIERS = 4
"""Outer tiers at most: their sets double with each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagsProof(Written):
    """Between which ops memory is too small for what is there.

    Attributes
    ----------
    inward, outward
        Pairs ``(c, j)`` and ``(i, c)`` of ops; j = n is the end, i = -1 begin, twice c a whole period.
    peak
        Bytes that every order needs at some time; 0: nothing is said of that.
    least
        Its proof; None without a peak.
    """

    kind: ClassVar[str] = "lags"
    inward: tuple[tuple[int, int], ...] = ()
    outward: tuple[tuple[int, int], ...] = ()
    peak: int = 0
    least: PeakProof | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A tensor that keeps its content: its bytes, who accesses and who writes it, when it is there."""

    nbytes: int
    uses: int
    writes: int
    first: int | None
    cyclic: bool
    stays: bool
    inside: bool


def ordered_time(graph: Graph, setting: Setting, proof: LagsProof) -> int:
    """Return the ns that no plan in any order undercuts, if the peak is proved.

    Raises
    ------
    Refused
        If the setting is another one, or a pair is none of the graph.
    """
    check_machine(graph, setting.machine)
    setting = merged_setting(setting)
    bare = not (proof.inward or proof.outward or proof.peak)  # the sum of the durations, whatever is held
    if graph.accounting is not Accounting.COEXIST and not bare:
        raise Refused(f"lags: found accounting {graph.accounting.value}, expected coexist")
    if len(setting.machine.tiers) > 1 + TIERS:
        raise Refused(f"lags: found {len(setting.machine.tiers)} tiers apart, expected at most {1 + TIERS}")
    n = len(graph.ops)
    sets = masks(executed_sets(graph))
    before, behind = list(sets.ancestors), list(sets.descendants)
    duration = [min(mode.duration_ns for mode in op.all_modes) for op in graph.ops]
    kept = _kept(graph, setting)
    best = 0
    lags: list[tuple[int, int, int]] = []
    for outward, pairs in ((False, proof.inward), (True, proof.outward)):
        for i, j in pairs:
            c, other = (j, i) if outward else (i, j)
            near = before if outward else behind
            ends = {-1 if outward else n, *([c] if setting.periodic else [])}
            if not 0 <= c < n or not (other in ends or (0 <= other < n and near[c] >> other & 1)):
                raise Refused(f"lags: found {(i, j)}, expected an op, and one behind it or an end")
            lag = _lag(graph, setting, kept, (before, behind), (c, other), outward)
            if other == c:
                best = max(best, duration[c] + lag)
            else:
                lags.append((i, j, lag))
    heads = _heads(duration, before, [(i, j, lag) for i, j, lag in lags if j < n], range(n))
    turned = [(n if j == n else j, i, lag) for i, j, lag in lags if i >= 0]
    tails = _heads(duration, behind, turned, range(n - 1, -1, -1))
    best = max(best, _one_machine(duration, heads, tails))
    if proof.peak > 0:
        best = max(best, _around_peak(graph, setting.machine, proof.peak, duration, heads, tails))
    return best


def _kept(graph: Graph, setting: Setting) -> list[_Kept]:
    """Return the tensors that keep their content."""
    names = [tier.name for tier in setting.machine.tiers]
    uses, writes = [0] * len(graph.tensors), [0] * len(graph.tensors)
    first: dict[int, int] = {}
    overwritten: set[int] = set()
    for k, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            if t in op.writes and t not in op.reads and (t in first or graph.tensors[t].initial):
                overwritten.add(t)
            first.setdefault(t, k)
            uses[t] |= 1 << k
        for t in op.writes:
            writes[t] |= 1 << k
    return [
        _Kept(
            nbytes=tensor.nbytes,
            uses=uses[t],
            writes=writes[t],
            first=None if tensor.initial else first[t],
            cyclic=setting.periodic and tensor.initial,
            stays=tensor.final and (tensor.initial or not setting.periodic),
            inside=tensor.initial and {*setting.starts.get(tensor.kind, names)} == {names[0]},
        )
        for t, tensor in enumerate(graph.tensors)
        if t in first and t not in overwritten and (tensor.final or not (setting.periodic and tensor.initial))
    ]


def _lag(
    graph: Graph,
    setting: Setting,
    kept: list[_Kept],
    near: tuple[list[int], list[int]],
    pair: tuple[int, int],
    outward: bool,
) -> int:
    """Return the ns between op c and another one, begin, end, or its own next run."""
    (before, behind), (c, other) = near, pair
    op = graph.ops[c]
    load = min(mode.workspace for mode in op.all_modes)
    load += sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes})
    window = before[c] if outward else behind[c]
    if 0 <= other < len(graph.ops) and other != c:
        window &= (behind if outward else before)[other] | 1 << other
    for x in kept:
        begun = x.first is None or before[c] >> x.first & 1
        if x.uses >> c & 1 or not begun or not (x.stays or behind[c] & x.uses):
            continue
        counts = bool((x.writes if outward else x.uses) & window)
        if other == c and x.cyclic:
            counts = counts or not outward or x.writes > 0
        if other == -1 and x.inside and not x.cyclic:
            counts = True
        load += x.nbytes if counts else 0
    return _time(setting.machine, load, outward)


def _time(machine: Machine, nbytes: int, outward: bool) -> int:
    """Return the ns in which what the fast memory and other tiers cannot hold passes, with the best X."""
    if machine.tiers[0].capacity is None:
        return 0
    beyond = nbytes - machine.tiers[0].capacity
    return max(
        (-(-(beyond - room) * SECOND // rate) for room, rate in _bottlenecks(machine, outward)), default=0
    )


def _bottlenecks(machine: Machine, outward: bool) -> Iterator[tuple[int, int]]:
    """Yield the room in the other tiers, K, and the rate R for each X."""
    device, *outer = machine.tiers
    for many in range(1, len(outer) + 1):
        for some in combinations(outer, many):
            others = [tier.capacity for tier in outer if tier not in some]
            pairs = {(device.name, x.name) if outward else (x.name, device.name) for x in some}
            used = [c for c in machine.channels if (c.src, c.dst) in pairs]
            caps = [g.bytes_per_s for g in machine.groups if {(c.src, c.dst) for c in used} <= {*g.channels}]
            rate = min([sum(c.bytes_per_s for c in used), *caps])
            if rate and None not in others:
                yield sum(room for room in others if room is not None), rate


def _heads(
    duration: list[int], before: list[int], lags: list[tuple[int, int, int]], order: range
) -> list[int]:
    """Return r of every op; backwards, with what is behind as what is before, q."""
    into: dict[int, list[tuple[int, int]]] = {}
    for i, j, lag in lags:
        into.setdefault(j, []).append((i, lag))
    heads = [0] * len(duration)
    for k in order:
        some = sorted((i for i in order if before[k] >> i & 1), key=lambda i: -heads[i])
        work = 0
        for i in some:
            work += duration[i]
            heads[k] = max(heads[k], heads[i] + work)
        for i, lag in into.get(k, ()):
            begin = heads[i] + duration[i] if 0 <= i < len(duration) else 0
            heads[k] = max(heads[k], begin + lag)
    return heads


def _one_machine(duration: list[int], heads: list[int], tails: list[int]) -> int:
    """Return the least time of ops one at a time with heads and tails."""
    order = sorted(range(len(duration)), key=lambda k: -heads[k])
    best = 0
    for least in {*tails}:
        work = 0
        for k in order:
            if tails[k] >= least:
                work += duration[k]
                best = max(best, heads[k] + work + least)
    return best


def _around_peak(
    graph: Graph, machine: Machine, peak: int, duration: list[int], heads: list[int], tails: list[int]
) -> int:
    """Return the least time of an op with the peak around it.

    Raises
    ------
    Refused
        If an op overwrites content that it does not read.
    """
    there = {t for t, tensor in enumerate(graph.tensors) if tensor.initial}
    for op in graph.ops:
        if there & ({*op.writes} - {*op.reads}):
            raise Refused("lags, peak: found content that is overwritten unread, expected none")
        there |= {*op.writes}
    out = _time(machine, peak - sum(t.nbytes for t in graph.tensors if t.initial), True)
    back = _time(machine, peak - sum(t.nbytes for t in graph.tensors if t.final), False)
    ends = zip(duration, heads, tails, strict=True)
    return min((max(r, out) + d + max(q, back) for d, r, q in ends), default=0)
