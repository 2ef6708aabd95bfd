"""Judges stages of data and tensor parallel devices: the time and the bytes of each, from the graph alone.

A stage runs its ops on d replicas, each a group of t devices that split tensors: on d t devices. Op i in mode
m takes its duration there. A mode runs on the groups that it names, one that names none on one device.

- All groups have at most `processors` devices together. d divides `micro`, the micro-batches of a batch,
  and all d add up to at most `micro`, as that many are under way. d and t are at most `replicate` and
  `tensor`.
- With ``recompute=none`` no op has a mode in which it runs again, with ``all`` each that has such a mode on
  groups of its size has one.
- Stages never fall along what an op reads of another's writing, nor along control edges.
- Work: durations; ``ceil(2 (bytes + sync) 10**9 / link)`` ns for each op and each value that it reads of
  another stage's op, and the same for each that it makes and each op of another stage that reads it, with
  the `sync` of its mode about the tensor; of d > 1 replicas for each op ``ceil(4 (d - 1) weights 10**9 /
  (micro link))`` ns, its part of the exchange of gradients after each batch. The time of a sample is work /
  d, rounded up.
- Bytes of each device: each op's ``once`` and y times its ``each``, with y = ceil(D / d) micro-batches
  under way, where D is the sum of the replicas of this stage and all later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ..graph import Graph
from ..hybrid_rules import HybridRules, Need, degree_of
from ..split import Split
from ..units import exact_bytes
from .stages import SplitVerdict, ordered_values
from .verdict import Violation


def judge_hybrid(
    graph: Graph, split: Split, needs: Sequence[Sequence[Need]], rules: HybridRules
) -> SplitVerdict:
    """Return times, bytes and violations of a split with a mode for each op.

    Parameters
    ----------
    needs
        By op and mode.
    """
    values, pairs = ordered_values(graph)
    degrees = [degree_of(kind) or 0 for kind in split.kinds]
    faults = _wrong(graph, split, needs, rules, pairs, degrees)
    own = [needs[i][m] for i, m in enumerate(split.modes)]
    work = [0] * len(degrees)
    held = [0] * len(degrees)
    behind = [*accumulate(reversed(split.replicas))][::-1]
    for i, s in enumerate(split.stage):
        d = split.replicas[s]
        work[s] += graph.ops[i].all_modes[split.modes[i]].duration_ns
        if d > 1 and rules.link is not None:
            work[s] += _up(4 * (d - 1) * own[i].weights * 10**9, rules.micro * rules.link)
        held[s] += own[i].once + _up(behind[s], d) * own[i].each
    for v in values if rules.link is not None else ():
        for reader in v.readers:
            if split.stage[reader] != split.stage[v.writer]:
                for i in (v.writer, reader):
                    more = sum(nbytes for t, nbytes in own[i].sync if t == v.tensor)
                    work[split.stage[i]] += _up(2 * (v.nbytes + more) * 10**9, rules.link or 1)
    for s, nbytes in enumerate(held):
        if rules.memory is not None and nbytes > rules.memory:
            said = f"stage {s} holds {exact_bytes(nbytes)}, expected at most {exact_bytes(rules.memory)}"
            faults.append(Violation(kind="memory", message=said, resource=f"stage {s}"))
    times = tuple(_up(w, d) for w, d in zip(work, split.replicas, strict=True))
    return SplitVerdict(loads=times, memories=tuple(held), ends=(), violations=tuple(faults))


def _wrong(
    graph: Graph,
    split: Split,
    needs: Sequence[Sequence[Need]],
    rules: HybridRules,
    pairs: Sequence[tuple[int, int]],
    degrees: Sequence[int],
) -> list[Violation]:
    """Return what is wrong with devices, degrees, modes and order."""
    faults = []
    used = sum(d * t for d, t in zip(split.replicas, degrees, strict=True))
    if used > rules.processors:
        message = f"found {used} devices, expected at most {rules.processors}"
        faults.append(Violation(kind="devices", message=message))
    if (total := sum(split.replicas)) > rules.micro:
        message = f"found {total} replicas of all stages, expected at most the {rules.micro} micro-batches"
        faults.append(Violation(kind="replicas", message=message))
    for s, (d, t) in enumerate(zip(split.replicas, degrees, strict=True)):
        where = f"stage {s}"
        if rules.micro % d:
            message = f"{where}: found {d} replicas, expected a divisor of {rules.micro} micro-batches"
            faults.append(Violation(kind="replicas", message=message, resource=where))
        if rules.replicate is not None and d > rules.replicate:
            message = f"{where}: found {d} replicas, expected at most {rules.replicate}"
            faults.append(Violation(kind="replicas", message=message, resource=where))
        if rules.tensor is not None and t > rules.tensor:
            message = f"{where}: found groups of {t}, expected at most {rules.tensor}"
            faults.append(Violation(kind="group", message=message, resource=where))
    for i, (op, m) in enumerate(zip(graph.ops, split.modes, strict=True)):
        kind = split.kinds[split.stage[i]]
        there = [k for k, mode in enumerate(op.all_modes) if kind in (mode.processors or ("t1",))]
        again = [k for k in there if needs[i][k].again]
        if m not in there:
            message = f"op {i} {op.name!r}: found mode {m}, expected one of {there} on kind {kind!r}"
            faults.append(Violation(kind="mode", message=message, op=i))
        elif rules.recompute == ("none" if m in again else "all") and (m in again or again):
            expected = "a mode that does not run again" if m in again else f"one of {again}"
            message = f"op {i} {op.name!r}: found mode {m}, expected {expected}"
            faults.append(Violation(kind="mode", message=message, op=i))
    for a, b in pairs:
        if split.stage[a] > split.stage[b]:
            message = (
                f"op {b} {graph.ops[b].name!r} on stage {split.stage[b]} needs op {a} {graph.ops[a].name!r} "
                f"on stage {split.stage[a]}, expected an earlier one or its own"
            )
            faults.append(Violation(kind="contiguity", message=message, op=a, other=b))
    return faults


def _up(number: int, parts: int) -> int:
    return -(-number // parts)
