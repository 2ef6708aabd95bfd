"""Allocations judged address by address and instant by instant, and random ones to judge."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeGuard

from lowtide.models.buffers import Buffer, Buffers, Gap

Offsets = Mapping[str, object]


def random_buffers(rng: Random) -> Buffers:
    """Return a few buffers with short lives, gaps, alignments, fixed offsets, pools and in-place pairs."""
    buffers = []
    for n in range(rng.randint(1, 5)):
        lower = rng.randint(0, 4)
        upper = lower + rng.randint(1, 5)
        gaps = (Gap(lower + 1, upper - 1),) if upper - lower > 2 and rng.random() < 0.4 else ()
        buffers.append(
            Buffer(
                id=f"b{n}",
                lower=lower,
                upper=upper,
                size=rng.choice((0, 1, 2, 3)),
                alignment=rng.choice((1, 1, 2)),
                offset=rng.randint(0, 3) if rng.random() < 0.2 else None,
                gaps=gaps,
                pool=rng.choice(("a", "a", "b")),
            )
        )
    names = [b.id for b in buffers]
    inplace: tuple[tuple[str, str], ...] = ()
    if len(names) > 1 and rng.random() < 0.4:
        first, second = rng.sample(names, 2)
        inplace = ((first, second),)
    pools = {"a": rng.choice((None, 3, 6)), "b": 4}
    return Buffers(buffers=tuple(buffers), pools=pools, inplace=inplace)


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
            shares = range(max(low, other), min(low + b.size, other + a.size))
            instants = [t for t in range(20) if is_alive(a, t) and is_alive(b, t)]
            if a.pool == b.pool and shares and instants and not (paired and low == other):
                found.add(("overlap", frozenset({a.id, b.id})))
    return found


def is_offset(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_alive(b: Buffer, time: int) -> bool:
    return b.lower <= time < b.upper and not any(x <= time < y for x, y, *_ in b.gaps)
