"""The least heights of small sets of buffers by trying every address, and random sets with every feature.

Written from the definitions alone: which bytes of its own a buffer occupies at an instant, which addresses
two buffers therefore cannot have together, and then every combination of addresses, for one height after
the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from lowtide.models.buffers import Buffer, Buffers, Gap, read_banks


def brute_offsets(buffers: Buffers) -> int | None:
    """Return the least total over the pools of the end of the highest buffer, None if nothing fits."""
    heights = brute_heights(buffers)
    return None if heights is None else sum(heights.values())


def brute_heights(buffers: Buffers) -> dict[str, int] | None:
    """Return the least height of each pool, None if a pool has no allocation."""
    found = {}
    for pool, capacity in buffers.pools.items():
        height = _least_height([b for b in buffers.buffers if b.pool == pool], capacity, buffers.inplace)
        if height is None:
            return None
        found[pool] = height
    return found


def least_outside(buffers: Buffers, text: str) -> int | None:
    """Return the least traffic outside of the first bank by trying every bank for every buffer."""
    banks = read_banks(text)
    best: int | None = None
    for chosen in itertools.product(range(len(banks)), repeat=len(buffers.buffers)):
        if any(b.pool not in ("", banks[k].name) for b, k in zip(buffers.buffers, chosen, strict=True)):
            continue
        outside = sum(b.moved for b, k in zip(buffers.buffers, chosen, strict=True) if k)
        if best is not None and outside >= best:
            continue
        placed = (replace(b, pool=banks[k].name) for b, k in zip(buffers.buffers, chosen, strict=True))
        if brute_heights(Buffers(buffers=tuple(placed), pools={b.name: b.size for b in banks})) is not None:
            best = outside
    return best


def _least_height(
    chosen: list[Buffer], capacity: int | None, inplace: Sequence[tuple[str, str]]
) -> int | None:
    # Fixed ones first: if they do not clash, all others fit above them, each with room to align.
    chosen = sorted(chosen, key=lambda b: (b.offset is None, -b.size))
    fixed = [b for b in chosen if b.offset is not None]
    clashes = [
        [forbidden_differences(a, b, {(a.id, b.id), (b.id, a.id)} & {*inplace} != set()) for a in chosen[:n]]
        for n, b in enumerate(chosen)
    ]
    most = max((b.offset + b.size for b in fixed if b.offset is not None), default=0)
    if not _fits(fixed, clashes, most):
        return None
    stacked = most + sum(b.size + b.alignment - 1 for b in chosen if b.offset is None)
    limit = stacked if capacity is None else min(stacked, capacity)
    return next((height for height in range(most, limit + 1) if _fits(chosen, clashes, height)), None)


def forbidden_differences(a: Buffer, b: Buffer, paired: bool) -> set[int]:
    """Return every d such that `b` cannot lie d above `a`: then they share a byte at some instant."""
    found = set()
    instants = {x for c in (a, b) for x in (c.lower, c.upper, *(t for gap in c.gaps for t in gap[:2]))}
    for t in instants:  # what is occupied changes only here
        for byte in occupied_bytes(a, t):
            found |= {byte - other for other in occupied_bytes(b, t)}
    return found - {0} if paired else found


def occupied_bytes(b: Buffer, time: int) -> range:
    """Return the bytes that a buffer occupies at an instant, counted from its offset."""
    if not b.lower <= time < b.upper:
        return range(0)
    for lower, upper, low, high in b.gaps:
        if lower <= time < upper:
            return range(low, high)
    return range(b.size)


def _fits(chosen: list[Buffer], clashes: list[list[set[int]]], height: int) -> bool:
    """Return whether some addresses keep all buffers apart and below the height."""
    offsets: list[int] = []

    def place(n: int) -> bool:
        if n == len(chosen):
            return True
        b = chosen[n]
        for offset in range(height - b.size + 1) if b.offset is None else (b.offset,):
            if offset % b.alignment or offset + b.size > height:
                continue
            if any(offset - at in apart for at, apart in zip(offsets, clashes[n], strict=True)):
                continue
            offsets.append(offset)
            if place(n + 1):
                return True
            offsets.pop()
        return False

    return place(0)


def random_set(rng: Random, *, most: int = 6, plain: bool = False) -> Buffers:
    """Return up to `most` buffers; unless `plain`, with any of the features, alone and combined.

    Sizes of 0, equal buffers, sizes with a common divisor, alignments that fit it or not, gaps with and
    without windows, fixed offsets (some in conflict), hints, pools with and without a capacity, in-place
    pairs as single pairs, stars, chains and cliques.
    """
    count = rng.randint(1, most)
    unit = rng.choice((1, 1, 1, 2)) if count < 5 else 1
    alignments = rng.choice(((1,), (1,), (1, 2), (1, 2, 3), (1, 4)))
    pools = rng.choice((("",), ("",), ("a", "b")))
    gappy, pinned = rng.choice((0.0, 0.5, 0.9)), rng.choice((0.0, 0.0, 0.3))
    if plain:
        alignments, pools, gappy, pinned = (1,), ("",), 0.0, 0.0
    found: list[Buffer] = []
    for n in range(count):
        if found and rng.random() < 0.25:  # a twin
            twin = rng.choice(found)
            size, lower, upper, gaps = twin.size, twin.lower, twin.upper, twin.gaps
        else:
            size = unit * rng.choice((0, 1, 1, 2, 2, 3, 4))
            lower = rng.randint(0, 5)
            upper = lower + rng.randint(1, 5)
            gaps = random_gaps(rng, lower, upper, size) if rng.random() < gappy else ()
        found.append(
            Buffer(
                id=f"b{n}",
                lower=lower,
                upper=upper,
                size=size,
                alignment=rng.choice(alignments),
                offset=rng.randint(0, 6) if rng.random() < pinned else None,
                hint=rng.randint(0, 9) if rng.random() < 0.1 else None,
                gaps=gaps,
                pool=rng.choice(pools),
            )
        )
    total = sum(b.size for b in found)
    return Buffers(
        buffers=tuple(found),
        pools={pool: rng.choice((None, None, rng.randint(0, total + 2))) for pool in pools},
        inplace=() if plain else random_pairs(rng, [b.id for b in found]),
    )


def random_gaps(rng: Random, lower: int, upper: int, size: int) -> tuple[Gap, ...]:
    """Return gaps within a lifetime that leave something of it."""
    cuts = sorted(rng.sample(range(lower, upper + 1), min(upper - lower + 1, rng.choice((2, 2, 3, 4)))))
    found = []
    for begin, end in itertools.pairwise(cuts):
        if rng.random() < 0.7:
            low, high = sorted((rng.randint(0, size), rng.randint(0, size)))
            found.append(Gap(begin, end, low, high) if rng.random() < 0.7 else Gap(begin, end))
    whole = sum(gap.upper - gap.lower for gap in found if gap.low == gap.high) == upper - lower
    return () if whole else tuple(found)


def random_pairs(rng: Random, names: list[str]) -> tuple[tuple[str, str], ...]:
    """Return no pairs, or some that share a buffer or not."""
    kind = rng.choice(("none", "none", "single", "star", "chain", "clique", "any"))
    few = rng.sample(names, min(len(names), rng.randint(2, 4)))
    if kind == "single":
        return ((few[0], few[1]),) if len(few) > 1 else ()
    if kind == "star":
        return tuple((few[0], x) for x in few[1:])
    if kind == "chain":
        return tuple(itertools.pairwise(few))
    if kind == "clique":
        return tuple((a, b) for k, a in enumerate(few) for b in few[:k])
    if kind == "any":
        return tuple((a, b) for k, a in enumerate(names) for b in names[:k] if rng.random() < 0.3)
    return ()
