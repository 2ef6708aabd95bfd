"""The verifier's rules on rates: copies share channels and groups within their bytes per second.

Copies of a channel that they do not share are held to its rate one by one.

A copy of ``b`` bytes takes the rate ``b / d`` over its ``d`` nanoseconds after the latency. Sums of such
rates are kept as integers in units of ``2**-64`` bytes per second, each rounded down; only where the
rounding could change the verdict is the exact fraction formed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from ..units import SECOND
from .actions import CopyItem
from .case import Case

SHIFT = 64
"""Binary places of a rate that are compared before exact fractions are: most comparisons end there."""


class _Use(NamedTuple):
    """A copy's use of a channel over ``[begin, end)``: `nbytes` in `duration` ns.

    `floor` is its rate, rounded down to a multiple of ``2**-SHIFT``; `rounded` is 0 if that is exact.
    """

    begin: int
    end: int
    nbytes: int
    duration: int
    floor: int
    rounded: int
    position: int


def judge_rates(case: Case, copies: list[CopyItem]) -> None:
    """Report ``channel-rate`` and ``group-rate``: the first instant of each maximal overload."""
    pairs: dict[tuple[int, int], list[_Use]] = {}
    latency = {(c.src, c.dst): c.latency_ns for c in case.machine.channels}
    for copy in copies:
        if copy.linked and copy.nbytes:
            wait = latency[case.tiers[copy.src], case.tiers[copy.dst]]
            pairs.setdefault((copy.src, copy.dst), []).extend(_uses(copy, wait, case.period))
    for channel in case.machine.channels:
        uses = pairs.get((case.tier_number[channel.src], case.tier_number[channel.dst]), [])
        name = f"{channel.src}->{channel.dst}"
        for some in [uses] if channel.shared else [[use] for use in uses]:
            _report(case, "channel-rate", f"channel {name}", name, some, channel.bytes_per_s)
    for group in case.machine.groups:
        members = [(case.tier_number[src], case.tier_number[dst]) for src, dst in group.channels]
        uses = [use for pair in members for use in pairs.get(pair, [])]
        label = f"group {group.name!r}"
        _report(case, "group-rate", label, group.name, uses, group.bytes_per_s)


def _uses(copy: CopyItem, latency: int, period: int | None) -> list[_Use]:
    """Return when the copy transfers; a part beyond the period comes round at its beginning."""
    begin, end = copy.start + latency, copy.end
    rate, rest = divmod(copy.nbytes * SECOND << SHIFT, end - begin)
    work = (copy.nbytes, end - begin, rate, int(rest > 0), copy.position)
    if period is None or end <= period:
        return [_Use(begin, end, *work)]
    if begin >= period:
        return [_Use(begin - period, end - period, *work)]
    return [_Use(begin, period, *work), _Use(0, end - period, *work)]


def _report(case: Case, kind: str, label: str, resource: str, uses: list[_Use], limit: int) -> None:
    for time, use in _overloads(uses, limit):
        case.report(
            kind,
            f"copies on {label} together take more than {limit} bytes per second from {time} ns, "
            f"when copy {use.position} joins",
            time=time,
            copy=use.position,
            resource=resource,
        )


def _overloads(uses: list[_Use], limit: int) -> list[tuple[int, _Use]]:
    """Return the first instant of each maximal interval above the limit, and who joins then."""
    events = [(use.end, 0, k) for k, use in enumerate(uses)]
    events += [(use.begin, 1, k) for k, use in enumerate(uses)]
    events.sort()
    next_times = [event[0] for event in events[1:]] + [-1] * bool(events)
    overloads: list[tuple[int, _Use]] = []
    floor = rounded = 0  # sums over the active copies
    by_duration: dict[int, int] = {}  # their bytes
    over = False
    for (time, joins, k), next_time in zip(events, next_times, strict=True):
        use = uses[k]
        active = by_duration.get(use.duration, 0)
        if joins:
            floor += use.floor
            rounded += use.rounded
            by_duration[use.duration] = active + use.nbytes
        else:
            floor -= use.floor
            rounded -= use.rounded
            if active > use.nbytes:
                by_duration[use.duration] = active - use.nbytes
            else:
                del by_duration[use.duration]
        # Without an overload before, only a joining copy can bring one about.
        if next_time == time or not (over or joins):
            continue
        now = floor + rounded > limit << SHIFT and _exceeds(floor, limit, by_duration)
        if now and not over:
            overloads.append((time, use))
        over = now
    return overloads


def _exceeds(floor: int, limit: int, by_duration: dict[int, int]) -> bool:
    """Return whether active rates exceed a limit that they may exceed by what was rounded off."""
    if floor >= limit << SHIFT:
        return True
    return sum(Fraction(nbytes, d) for d, nbytes in by_duration.items()) * SECOND > limit
