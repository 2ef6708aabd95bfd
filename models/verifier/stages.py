"""Judges a split of ops into stages: recomputes the load and the bytes of each from the graph alone.

A *value* is what an op makes of a tensor, and what others read of it. What a network reads from outside is an
initial tensor, and counts as one (not once for each micro-batch), unless an op makes it.

- A class (`SplitRules.together`) is on one stage; no kind has more devices than there are, no stage more
  replicas than allowed.
- Contiguous: stages never fall along a value between two forward ops, and never rise along one between two
  backward ops of which one is in a class without a forward op.
- The load of a stage is the time of its ops and, except on the host, of its transfers, ``ceil(10**9 bytes /
  link)`` ns each: once for each value of its own that another stage reads, once for each of another stage
  that it reads. Ops that run again count twice. Of r replicas the load is a share ``1 / r``, rounded up, of
  that and of the exchange of the gradients of P bytes of weights, ``4 (r - 1) P / (r sync)`` seconds.
- For its latency one sample goes through: a stage begins when all stages before it that one of its ops needs
  have ended (stages stand in their order, so it is defined if they are contiguous), and takes its load.
- A stage holds the initial tensors that its ops access. With a schedule it also keeps, for each micro-batch
  under way (``micro`` of them; under ``1f1b`` at most one for it and each stage after it), the values of
  forward ops that its backward ops read. If all or some forward ops run again, it keeps what enters it from
  forward ops elsewhere, and of its own only values of ops that do not; besides, once, the values of all
  (``all``: they run in one go) or of the largest (``choose``: one by one) of those that do.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from ..graph import Graph
from ..split import HOST, Split, SplitRules
from ..units import exact_bytes
from .verdict import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitVerdict:
    """By stage the load in ns, the bytes held, and when one sample leaves it; what is wrong."""

    loads: tuple[int, ...]
    memories: tuple[int, ...]
    ends: tuple[int, ...]
    violations: tuple[Violation, ...]


@dataclass(slots=True)
class StageValue:
    """What an op makes of a tensor, and the ops that read it."""

    tensor: int
    nbytes: int
    writer: int
    readers: list[int]


def judge_split(graph: Graph, split: Split, durations: list[int], rules: SplitRules) -> SplitVerdict:
    """Return loads, bytes and violations of a split.

    Parameters
    ----------
    durations
        Per op: ns, in the mode that it runs in.
    """
    values, ordered = ordered_values(graph)
    violations = _wrong(graph, split, rules, ordered)
    loads, memories = [], []
    for s, kind in enumerate(split.kinds):
        ops = {i for i, stage in enumerate(split.stage) if stage == s}
        forward = ops - rules.backward
        again = {"none": set(), "all": forward, "choose": forward & set(split.again)}[rules.recompute]
        entering = [v for v in values if v.writer not in ops and ops.intersection(v.readers)]
        held = _initial_bytes(graph, ops)
        work = sum(durations[i] for i in (*ops, *again))
        if kind != HOST and rules.link is not None:
            leaving = [v for v in values if v.writer in ops and not ops.issuperset(v.readers)]
            work += sum(-(-v.nbytes * 10**9 // rules.link) for v in (*entering, *leaving))
        load, copies = Fraction(work), split.replicas[s]
        if copies > 1 and rules.sync is not None:
            load += Fraction(4 * (copies - 1) * held * 10**9, copies * rules.sync)
        loads.append(ceil(load / copies))
        held += _kept_bytes(rules, values, ops, entering, again, len(split.kinds) - s)
        memories.append(held)
        if rules.memory is not None and kind != HOST and held > rules.memory:
            message = f"stage {s} holds {exact_bytes(held)}, expected at most {exact_bytes(rules.memory)}"
            violations.append(Violation(kind="memory", message=message, resource=f"stage {s}"))
    needed: list[set[int]] = [set() for _ in loads]
    for a, b in ordered:
        if split.stage[a] < split.stage[b]:
            needed[split.stage[b]].add(split.stage[a])
    ends: list[int] = []
    for taken, earlier in zip(loads, needed, strict=True):
        ends.append(taken + max((ends[r] for r in earlier), default=0))
    return SplitVerdict(
        loads=tuple(loads), memories=tuple(memories), ends=tuple(ends), violations=tuple(violations)
    )


def _initial_bytes(graph: Graph, ops: Set[int]) -> int:
    """Return the bytes of the initial tensors that ops access."""
    accessed = {t for i in ops for t in (*graph.ops[i].reads, *graph.ops[i].writes)}
    return sum(graph.tensors[t].nbytes for t in accessed if graph.tensors[t].initial)


def _kept_bytes(
    rules: SplitRules,
    values: list[StageValue],
    ops: Set[int],
    entering: list[StageValue],
    again: Set[int],
    behind: int,
) -> int:
    """Return what a stage with so many `behind`, itself among them, keeps of all micro-batches under way."""
    if rules.schedule == "none":
        return 0
    backward, once = rules.backward, 0
    kept = [v for v in values if v.writer not in backward and ops & backward & {*v.readers}]
    if rules.recompute != "none":
        inside = [v for v in kept if v.writer in ops]
        kept = [v for v in entering if v.writer not in backward]
        kept += [v for v in inside if v.writer not in again]
        redone = [sum(v.nbytes for v in inside if v.writer == i) for i in sorted(again)]
        once = sum(redone) if rules.recompute == "all" else max(redone, default=0)
    under_way = rules.micro if rules.schedule == "gpipe" else min(rules.micro, behind)
    return once + under_way * sum(v.nbytes for v in kept)


def ordered_values(graph: Graph) -> tuple[list[StageValue], list[tuple[int, int]]]:
    """Return the values that ops make, and all pairs of ops of which the second needs the first."""
    latest: dict[int, StageValue] = {}
    values, pairs = [], []
    for i, op in enumerate(graph.ops):
        pairs += [(j, i) for j in op.after]
        for t in op.reads:
            if t in latest:
                latest[t].readers.append(i)
                pairs.append((latest[t].writer, i))
        for t in op.writes:
            latest[t] = StageValue(t, graph.tensors[t].nbytes, i, [])
            values.append(latest[t])
    return values, pairs


def _wrong(graph: Graph, split: Split, rules: SplitRules, pairs: list[tuple[int, int]]) -> list[Violation]:
    """Return what is wrong with devices, classes and order."""
    violations = []
    for kind in sorted(set(split.kinds)):
        used = sum(r for k, r in zip(split.kinds, split.replicas, strict=True) if k == kind)
        if used > rules.counts.get(kind, 0):
            message = f"found {used} devices of kind {kind!r}, expected at most {rules.counts.get(kind, 0)}"
            violations.append(Violation(kind="devices", message=message, resource=kind))
    for s, r in enumerate(split.replicas):
        if not 1 <= r <= rules.replicate:
            message = f"stage {s}: found {r} replicas, expected 1 to {rules.replicate}"
            violations.append(Violation(kind="replicas", message=message, resource=f"stage {s}"))
    mirrored = set(rules.backward)
    for group in rules.together:
        first = group[0]
        if not rules.backward.issuperset(group):
            mirrored.difference_update(group)
        for i in group:
            if split.stage[i] != split.stage[first]:
                message = (
                    f"ops {first} {graph.ops[first].name!r} and {i} {graph.ops[i].name!r} of one class are "
                    f"on stages {split.stage[first]} and {split.stage[i]}, expected one stage"
                )
                violations.append(Violation(kind="class", message=message, op=first, other=i))
                break
    if not rules.contiguous:
        return violations
    for a, b in pairs:
        low, high = split.stage[a], split.stage[b]
        both = (a in rules.backward) + (b in rules.backward)
        if (both == 0 and low > high) or (both == 2 and low < high and (a in mirrored or b in mirrored)):
            message = (
                f"op {b} {graph.ops[b].name!r} on stage {high} needs op {a} {graph.ops[a].name!r} on stage "
                f"{low}, expected {'an earlier' if both == 0 else 'a later'} one or its own"
            )
            violations.append(Violation(kind="contiguity", message=message, op=a, other=b))
    return violations
