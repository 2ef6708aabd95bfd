"""The verifier's rules on rates: copies share channels and groups within their bytes per second.

A copy of ``b`` bytes takes the rate ``b / d`` over its ``d`` nanoseconds after the latency. Sums of such
rates are kept as integers in units of ``2**-64`` bytes per second, each rounded down; only where the
rounding could change the verdict is the exact fraction formed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from .verify_actions import CopyItem
from .verify_case import Case

SHIFT = 64
NS = 10**9


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
        _report(case, "channel-rate", f"channel {name}", name, uses, channel.bytes_per_s)
    for group in case.machine.groups:
        members = [(case.tier_number[src], case.tier_number[dst]) for src, dst in group.channels]
        uses = [use for pair in members for use in pairs.get(pair, [])]
        label = f"group {group.name!r}"
        _report(case, "group-rate", label, group.name, uses, group.bytes_per_s)


def _uses(copy: CopyItem, latency: int, period: int | None) -> list[_Use]:
    """Return when the copy transfers; a part beyond the period comes round at its beginning."""
    begin, end = copy.start + latency, copy.end
    rate, rest = divmod(copy.nbytes * NS << SHIFT, end - begin)
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
    found: list[tuple[int, _Use]] = []
    load = _Load(limit)
    over = False
    for n, (time, joins, k) in enumerate(events):
        load.change(uses[k], 1 if joins else -1)
        if n + 1 < len(events) and events[n + 1][0] == time:
            continue
        # Without an overload before, only a joining copy can bring one about.
        now = (over or joins == 1) and load.exceeds()
        if now and not over:
            found.append((time, uses[k]))
        over = now
    return found


class _Load:
    """The sum of the active rates, compared with the limit exactly."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.floor = 0
        self.rounded = 0
        self.by_duration: dict[int, int] = {}

    def change(self, use: _Use, sign: int) -> None:
        """Add (1) or remove (-1) a copy."""
        self.floor += sign * use.floor
        self.rounded += sign * use.rounded
        nbytes = self.by_duration.get(use.duration, 0) + sign * use.nbytes
        if nbytes:
            self.by_duration[use.duration] = nbytes
        else:
            del self.by_duration[use.duration]

    def exceeds(self) -> bool:
        """Return whether the sum is above the limit."""
        limit = self.limit << SHIFT
        if self.floor + self.rounded <= limit:
            return False
        if self.floor >= limit:
            return True  # what was rounded off lies above
        exact = sum(Fraction(nbytes, d) for d, nbytes in self.by_duration.items())
        return exact * NS > self.limit
