"""The verifier's rules on the last instant: final tensors, and the state that closes a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from .actions import CopyItem
from .byte_ranges import ByteRanges
from .case import Case
from .state import Memory

Contents = list[list[tuple[tuple[int, int, bool], ...]]]
"""By tier and tensor, the allocated ranges and whether they are valid."""


def contents(case: Case, memory: Memory, last: bool) -> Contents:
    """Return what is where; valid means the last version, or else version 0."""
    tensors = range(len(case.nbytes))
    return [
        [memory.content(k, t, case.last[t] if last else 0) for t in tensors] for k in range(len(case.tiers))
    ]


def judge_final(case: Case, memory: Memory, time: int, tiers: Sequence[str] | None = None) -> None:
    """Rule ``final``: every byte of a final tensor is in a tier, or one of `tiers`, in the last version."""
    among = [k for k, name in enumerate(case.tiers) if tiers is None or name in tiers]
    where = "somewhere" if tiers is None else f"in {' or '.join(tiers)}"
    for t, tensor in enumerate(case.graph.tensors):
        if not tensor.final:
            continue
        want = memory.base[t] + case.last[t]
        if any(memory.held[k][t] == want for k in among):
            continue
        ranges = ByteRanges()
        for k in among:
            for low, high, valid in memory.content(k, t, case.last[t]):
                if valid:
                    ranges.replace(low, high, 1)
        gaps = ranges.gaps(0, case.span[t])
        if not gaps:
            continue
        low, high = gaps[0]
        lacks = [memory.lack(k, t, low, high, case.last[t]) for k in among]
        case.report(
            "final",
            f"{case.tensor(t)} is final, expected every byte at {time} ns {where} in version "
            f"{case.last[t]}, but {', and '.join(lacks)}",
            time=time,
            tensor=t,
        )


def judge_crossings(case: Case, copies: list[CopyItem], starts: Mapping[str, Sequence[str]]) -> None:
    """Rules ``period`` and ``start``: what may cross a period's end in flight, and to where.

    Only tensors that are both initial and final; their bytes are allocated where they go at time 0 then, so
    they go to where their kind may start.
    """
    for copy in copies:
        if case.period is None or copy.end <= case.period:
            continue
        tensor, tier = case.graph.tensors[copy.tensor], case.tiers[copy.dst]
        allowed = starts.get(tensor.kind, (tier,))
        if not (tensor.initial and tensor.final):
            kind, expected = "period", "expected a tensor that is initial and final"
        elif tier not in allowed:
            kind, expected = "start", f"to tier {tier!r}, expected {list(allowed)} for kind {tensor.kind!r}"
        else:
            continue
        case.report(
            kind,
            f"copy {copy.position} of {case.tensor(copy.tensor)} from {copy.start} to {copy.end} "
            f"ns crosses the period's end {case.period}, {expected}",
            time=copy.start,
            tensor=copy.tensor,
            copy=copy.position,
        )


def judge_period(case: Case, before: Contents, memory: Memory, time: int) -> None:
    """Rule ``period``: the state at the period's end is that of its beginning.

    Tensors that are both initial and final: the same bytes, and valid (in the last version) where they
    were valid (in version 0). Other initial tensors reappear, so what is left of them must lie within
    their start. Tensors that are final only leave; of all others nothing may be left.
    """
    after = contents(case, memory, last=True)
    for k, tier in enumerate(case.tiers):
        for t, tensor in enumerate(case.graph.tensors):
            old, new = before[k][t], after[k][t]
            if tensor.initial and tensor.final:
                fault = _difference(case, t, old, new)
            elif tensor.initial:
                fault = _excess(case, t, old, new)
            elif tensor.final or not new:
                fault = None
            else:
                fault = f"{case.part(t, *new[0][:2])} is still allocated, expected it released"
            if fault:
                case.report(
                    "period",
                    f"at the period's end, {time} ns, in tier {tier!r}: {fault}",
                    time=time,
                    tensor=t,
                    tier=tier,
                )


_WORDS: dict[int | None, str] = {None: "absent", False: "stale", True: "valid"}


def _difference(
    case: Case, t: int, old: tuple[tuple[int, int, bool], ...], new: tuple[tuple[int, int, bool], ...]
) -> str | None:
    """Name the first bytes whose state differs."""
    if old == new:
        return None
    edges = sorted({x for low, high, _ in (*old, *new) for x in (low, high)})
    states, wanted = ByteRanges(new), ByteRanges(old)
    for low, high in pairwise(edges):
        found, expected = states.value_of(low, high), wanted.value_of(low, high)
        if found != expected:
            return f"{case.part(t, low, high)} is {_WORDS[found]}, expected {_WORDS[expected]} as at time 0"
    return None


def _excess(
    case: Case, t: int, old: tuple[tuple[int, int, bool], ...], new: tuple[tuple[int, int, bool], ...]
) -> str | None:
    """Name the first bytes that are allocated but were not at time 0."""
    edges = sorted({x for low, high, _ in (*old, *new) for x in (low, high)})
    states, wanted = ByteRanges(new), ByteRanges(old)
    for low, high in pairwise(edges):
        if states.value_of(low, high) is not None and wanted.value_of(low, high) is None:
            return f"{case.part(t, low, high)} is allocated, expected none beyond those of time 0"
    return None
