"""The end of a random steady-state plan: bring weights and states back to where they were at time 0."""

from __future__ import annotations

from lowtide.models.plan import Copy
from tests.oracles.random_scheduler import Scheduler
from tests.oracles.random_state import STALE


def close_period(walk: Scheduler) -> int:
    """Let the walk end as it began; return the period."""
    kept = {t for t, x in enumerate(walk.graph.tensors) if x.initial and x.final}
    for (t, tier), units in sorted(walk.home.items()):
        if t not in kept or (t, tier) in walk.frozen:
            continue
        missing = {u for u in units if walk.memory[t, tier].get(u) != walk.last(t)}
        anchor = next(x for x in walk.tiers if walk.whole(t, x, walk.last(t)))
        for piece in list(walk.stretches(t, missing)):
            walk.enter(walk.copy(t, anchor, tier, piece, walk.now), piece)
    walk.wait()
    quiet = walk.now
    after_last_start = max((copy.start + 1 for copy in walk.copies), default=1)
    period = max(after_last_start, quiet + walk.rng.randint(0, 2))
    tails = []
    for head in walk.heads:
        begin = max(quiet, head.landing) + walk.rng.randint(0, 2)
        latency = walk.latency[head.src, head.dst]
        period = max(period, begin + 1, begin + latency + 1 - head.landing)
        tails.append((head, begin))
        walk.memory[head.tensor, head.dst].update(dict.fromkeys(head.units, STALE))
    for head, begin in tails:
        named = walk.byte_range(head.tensor, head.units)
        end = period + head.landing
        walk.copies.append(Copy(head.tensor, head.src, head.dst, begin, end, named))
    _release_leftovers(walk, kept, quiet, period)
    return period


def _release_leftovers(walk: Scheduler, kept: set[int], quiet: int, period: int) -> None:
    landing = {(h.tensor, h.dst): set(h.units) for h in walk.heads}
    for (t, tier), content in sorted(walk.memory.items()):
        tensor = walk.graph.tensors[t]
        if tensor.final and not tensor.initial:
            continue
        stays = set(walk.home.get((t, tier), ()))
        if t in kept:
            stays |= landing.get((t, tier), set())
        for units in list(walk.stretches(t, set(content) - stays)):
            walk.drop(t, tier, units, walk.rng.randint(quiet, period))
