"""Allocations judged address by address and instant by instant, and random ones to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import TypeGuard

from lowtide.models.buffers import Buffer, Buffers, Gap

Offsets = Mapping[str, object]


def random_buffers(rng: Random, *, most: int = 5) -> Buffers:
    """Return a few buffers with short lives, gaps, windows, alignments, fixed offsets, pools and pairs."""
    buffers = []
    for n in range(rng.randint(1, most)):
        lower = rng.randint(0, 4)
        upper = lower + rng.randint(1, 5)
        size = rng.choice((0, 1, 2, 3, 4))
        buffers.append(
            Buffer(
                id=f"b{n}",
                lower=lower,
                upper=upper,
                size=size,
                alignment=rng.choice((1, 1, 2)),
                offset=rng.randint(0, 3) if rng.random() < 0.2 else None,
                hint=rng.randint(0, 3) if rng.random() < 0.2 else None,
                gaps=random_gaps(rng, lower, upper, size) if rng.random() < 0.5 else (),
                pool=rng.choice(("a", "a", "b")),
            )
        )
    names = [b.id for b in buffers]
    pairs = [tuple(rng.sample(names, 2)) for _ in range(rng.choice((0, 0, 1, 2))) if len(names) > 1]
    pools = {"a": rng.choice((None, 3, 6)), "b": 4}
    return Buffers(buffers=tuple(buffers), pools=pools, inplace=tuple((a, b) for a, b in pairs))


def random_gaps(rng: Random, lower: int, upper: int, size: int) -> tuple[Gap, ...]:
    """Return gaps within a lifetime, some with a window, that leave something of it."""
    times = sorted(rng.choices(range(lower, upper + 1), k=rng.choice((2, 4))))
    gaps = []
    for begin, end in zip(times[::2], times[1::2], strict=True):
        if begin < end:
            low, high = sorted(rng.choices(range(size + 1), k=2))
            gaps.append(Gap(begin, end, low, high) if rng.random() < 0.5 else Gap(begin, end))
    whole = sum(gap.upper - gap.lower for gap in gaps) == upper - lower
    return () if whole and all(gap.low == gap.high for gap in gaps) else tuple(gaps)


def random_offsets(rng: Random, buffers: Buffers) -> dict[str, object]:
    """Return an offset for nearly every buffer, some of them nonsense."""
    offsets: dict[str, object] = {}
    for b in buffers.buffers:
        nonsense = rng.random() < 0.03
        offset = rng.choice((-1, True, 1.0, None, 2**63) if nonsense else (0, 1, 2, 3, 4, 6))
        if rng.random() < 0.95:
            offsets[b.id] = offset
    if rng.random() < 0.05:
        offsets["nobody"] = 0
    return offsets


def allocation_faults(buffers: Buffers, offsets: Offsets) -> set[tuple[str, frozenset[str]]]:
    """Return each fault's kind and the buffers concerned."""
    found = {("unknown", frozenset[str]()) for x in offsets if x not in {b.id for b in buffers.buffers}}
    placed: list[tuple[Buffer, int]] = []
    for b in buffers.buffers:
        offset = offsets.get(b.id)
        if b.id not in offsets:
            found.add(("missing", frozenset({b.id})))
        elif is_offset(offset):
            placed.append((b, offset))
        else:
            found.add(("offset", frozenset({b.id})))
    for n, (b, low) in enumerate(placed):
        limit = buffers.pools[b.pool]
        if low % b.alignment:
            found.add(("alignment", frozenset({b.id})))
        if b.offset not in (None, low):
            found.add(("fixed", frozenset({b.id})))
        if limit is not None and low + b.size > limit:
            found.add(("capacity", frozenset({b.id})))
        for a, other in placed[:n]:
            paired = {(a.id, b.id), (b.id, a.id)} & set(buffers.inplace)
            if a.pool == b.pool and not (paired and low == other) and collide(a, other, b, low):
                found.add(("overlap", frozenset({a.id, b.id})))
    return found


def collide(a: Buffer, a_offset: int, b: Buffer, b_offset: int) -> bool:
    """Return whether there is an instant at which both occupy some byte."""
    return first_collision(a, a_offset, b, b_offset) is not None


def first_collision(a: Buffer, a_offset: int, b: Buffer, b_offset: int) -> int | None:
    """Return the first instant at which both occupy some byte."""
    times = range(max(a.lower, b.lower), min(a.upper, b.upper))
    return next((t for t in times if bytes_at(a, a_offset, t) & bytes_at(b, b_offset, t)), None)


def bytes_at(b: Buffer, offset: int, time: int) -> set[int]:
    """Return the addresses that a buffer occupies at an instant of its lifetime."""
    for begin, end, low, high in b.gaps:
        if begin <= time < end:
            return {offset + i for i in range(low, high)}
    return {offset + i for i in range(b.size)}


def is_offset(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def first_fit(rng: Random, buffers: Buffers) -> dict[str, int] | None:
    """Return a valid allocation, placed one by one in a random order, or None."""
    offsets: dict[str, int] = {}
    placed: list[Buffer] = []
    for b in sorted(buffers.buffers, key=lambda b: (b.offset is None, rng.random())):
        places = range(0, 100, b.alignment) if b.offset is None else (b.offset,)
        for low in places:
            tried = {**offsets, b.id: low}
            if not allocation_faults(
                replace(buffers, buffers=(*placed, b), inplace=_among(buffers, tried)), tried
            ):
                break
        else:
            return None
        offsets[b.id] = low
        placed.append(b)
    return offsets


def _among(buffers: Buffers, names: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((a, b) for a, b in buffers.inplace if a in names and b in names)
