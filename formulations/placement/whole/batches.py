r"""Copies of whole tensors that share a channel: what is lost where each takes whole ns.

A copy of z bytes on a channel of R bytes per ns takes :math:`\lceil z / R \rceil` ns. Copies of z and z'
bytes at the same time, each at a constant rate in proportion to its bytes, take
:math:`\lceil (z + z') / R \rceil`: often one less than one after the other. Such copies are
a *batch* (`sequence`).

`finer` states a question in parts of a ns, of which copies take whole numbers; `batched` looks for batches
and places in the order with which a plan in ns ends as soon as it would without any rounding: a random walk,
over orders that end no later than the best one and, as in threshold accepting, a few ns that become less with
each step. In each step two batches near each other that lose less together become one, one of them moves
elsewhere, or one is cut in two.

Source: threshold accepting is that of G. Dueck and T. Scheuer, J. Comput. Phys. 90 (1990); the rest is this
suite's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd, lcm
from random import Random

from ....models.units import SECOND
from ..states import StateData
from .sequence import Copying, Order, Timing, rates, timing
from .windows_cpsat import EXACT_UNITS, PARTS

JOIN, SHIFT = 0.5, 0.9
"""Of the steps of the walk, those up to which two batches become one, and then those in which one moves."""
NEAR = 6
"""Of the batches with which one loses less together, how many of the nearest may become one with it."""
LATER = 4
"""By how many ns an order may end later than the best one, at the beginning of the walk."""
BESIDE = 1e-2
"""By how much of a place in the order a batch moves beyond another one, at most."""


def finer(data: StateData) -> tuple[StateData, int]:
    """Return the data with times in parts of a ns, and how many parts these are.

    In so many parts copies take whole numbers of them, or lose little: as in `windows_cpsat`.
    """
    used = [*rates(data, beside=False)[0]]
    parts = lcm(*(rate // gcd(rate, SECOND) for rate in used))
    parts = parts if parts <= EXACT_UNITS else PARTS
    scaled = replace(
        data,
        duration=tuple(ns * parts for ns in data.duration),
        ways=tuple(
            replace(way, rate=max(1, way.rate // parts), latency=way.latency * parts) for way in data.ways
        ),
        caps=tuple((ways, max(1, cap // parts)) for ways, cap in data.caps),
        modes={k: tuple(replace(x, ns=x.ns * parts) for x in modes) for k, modes in data.modes.items()},
    )
    return scaled, parts


def batched(
    data: StateData,
    order: Order,
    times: Timing,
    *,
    steps: int,
    least: int = 0,
    seed: int = 0,
    expired: Callable[[], bool] = lambda: False,
) -> tuple[Order, Timing]:
    """Return an order of a single run with batches that ends no later, and its times.

    Parameters
    ----------
    data, order, times
        Where the walk begins; ops in one mode each.
    steps, least, expired
        When it ends: after so many steps, when the last op starts at `least` ns, or when this says so.
    seed
        For what is drawn.
    """
    draw, last = Random(seed), data.n - 1
    rate = rates(data, beside=False)[0]
    best, soonest = order, times
    for step in range(steps):
        if soonest.start[last] <= least or expired():
            break
        copies = _stepped(data, order, rate, draw)
        if copies is None:
            continue
        candidate = replace(order, copies=copies)
        then = timing(data, candidate)
        latest = soonest.start[last] + LATER * (steps - step) // steps
        if then is None or then.start[last] > max(times.start[last], latest):
            continue
        order, times = candidate, then
        if then.start[last] <= soonest.start[last]:
            best, soonest = candidate, then
    return best, soonest


def _stepped(data: StateData, order: Order, rate: list[int], draw: Random) -> list[Copying] | None:
    """Return the copies after a step; None if it changes nothing."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, copy in enumerate(order.copies):
        groups.setdefault((copy.way, i if copy.batch < 0 else copy.batch), []).append(i)
    keys = sorted(groups)
    if not keys:
        return None
    key, kind = draw.choice(keys), draw.random()
    group, copies = groups[key], list(order.copies)
    if kind >= SHIFT:
        return _cut(copies, group, draw)
    where = copies[group[0]].begin
    others = sorted(
        (abs(copies[x[0]].begin - where), x) for at, x in groups.items() if at != key and at[0] == key[0]
    )
    if not others:
        return None
    if kind >= JOIN:
        place = copies[draw.choice(others)[1][0]]
        shift = BESIDE * draw.uniform(-1, 1)
        for i in group:
            copies[i] = replace(copies[i], begin=place.begin + shift, end=place.end + shift)
        return copies

    def lost(batch: list[int]) -> int:
        return -sum(data.lives[copies[i].life].nbytes for i in batch) * SECOND % rate[key[0]]

    near = [x for _, x in others if lost(group + x) < lost(group) + lost(x)][:NEAR]
    if not near:
        return None
    other = draw.choice(near)
    place = copies[draw.choice((group, other))[0]]
    for i in (*group, *other):
        copies[i] = replace(copies[i], batch=min(*group, *other), begin=place.begin, end=place.end)
    return copies


def _cut(copies: list[Copying], group: list[int], draw: Random) -> list[Copying] | None:
    """Let a batch become two, one behind the other."""
    if len(group) < 2:
        return None
    first = draw.sample(group, draw.randrange(1, len(group)))
    for part in (first, [i for i in group if i not in first]):
        shift = BESIDE * draw.random()
        for i in part:
            copies[i] = replace(
                copies[i],
                batch=min(part) if len(part) > 1 else -1,
                begin=copies[i].begin + shift,
                end=copies[i].end + shift,
            )
    return copies
