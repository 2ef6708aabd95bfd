"""`g10`: the planner of G10, which fills a ledger of every op's bandwidth with the most useful absences.

Source: Zhang et al., G10, MICRO 2023, and its artifact (platformxlab/G10 at de2c8c6: src/analysis.cc,
``scheduling_prefetch``, and src/simulationEvents.cc for the run time).

Steps.

1. The line is 0.99 of the device; the load counts everything that is live. Absences of persistent tensors go
   round.
2. A ledger has for every op and direction the bytes that each channel moves while the op runs; traffic of the
   slow tier books on the group that it shares with the host's as well.
3. While the load exceeds the line somewhere, the absence of the greatest benefit is taken: its bytes times
   the duration of the ops above the line between the op in which half of it would be out and the op in which
   half of it must have come in, by what the ledger has left on the slow channels. Ties: time times bytes.
   Absences of one op are left out.
4. With m the time of a copy: an absence longer than 2.5 m of the slow tier goes there, unless its channel is
   full in all ops from the absence's beginning to the one in which m is over (that one excepted, so that a
   copy within one op finds it full) and the host has room; else one longer than 2.5 m of the host goes to the
   host, if that has room; others stay. The host has room if the tensor fits beside the most that any op of
   the iteration leaves there. The copy fills the ledger from the absence's beginning forwards, the return
   from its end backwards; if they meet, the absence stays. Absences that go round book nothing: they leave
   for m, return 1.5 m before their end, and never go to the host because the slow tier is full. The load
   falls by the tensor's bytes between the op in which the copy ends and that of the return.
5. Eager prefetch: accepted absences by the op of their return; each moves ahead while the op before is below
   the line (as there, without the tensor's own bytes, so that it may overshoot by one tensor).
6. At run time, room that the next op or a prefetch lacks is made by evicting what was used least recently, to
   the host while it has room; what is missing when its op is due is fetched.

What the artifact charges and this does not: 45 us per fault or batch and 20 us of the SSD (in m as well; here
both are the channels' latencies); allocation of 0.8 us per MB; a copy of every page that leaves, also of one
that has a copy already. What it does not charge: an op that waits for pages runs meanwhile, and ends when the
last one has come and its duration, with a model of its faults, is over since it was due; here it starts when
all are there. Its ledger takes a GB for 2**30 bytes, its clock for 10**9; here rates are the machine's. Its
scores see ops above the whole device, not above the line, a hundredth less. Pages and their batches are
chunks of 16 MiB, evicted tensor by tensor; memory is allocated as an op starts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import stay
from ..world.channels import SCALE, SLOW_OUT, channel_back, channel_out
from .follow import Candidates, follow
from .loads import Outside, early_returns, forced_away, start_tier

LINE = 99
"""Percent of the device up to which the ledger of live bytes may rise."""


class Budgets:
    """Bytes that each channel can still move during each op, `left`, and those booked (rows: channels)."""

    def __init__(self, case: SimulatedProblem) -> None:
        self.case = case
        self.left: Integers = case.rates[:, None] * case.duration[None, :] // SCALE
        self.full = self.left.copy()
        self.booked = np.zeros_like(self.left)

    def forwards(self, channel: int, op: int, nbytes: int, end: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the op at which bytes from `op` on are through, at most `end`, and what is taken where."""
        taken = []
        while nbytes > 0 and op < end:
            part = min(nbytes, int(self.left[channel, op % self.case.ops]))
            taken.append((op % self.case.ops, part))
            nbytes -= part
            op += 1
        return (op if nbytes <= 0 else end + 1), taken

    def backwards(self, channel: int, op: int, nbytes: int, first: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the op at which a return of bytes that is through before `op` begins, at least `first`."""
        taken = []
        while nbytes > 0 and op > first:
            op -= 1
            part = min(nbytes, int(self.left[channel, op % self.case.ops]))
            taken.append((op % self.case.ops, part))
            nbytes -= part
        return (op if nbytes <= 0 else first - 1), taken

    def book(self, channel: int, taken: list[tuple[int, int]]) -> None:
        """Take bytes; what is left of a channel is limited by what is left of its joint caps as well."""
        for op, nbytes in taken:
            self.booked[channel, op] += nbytes
            left = self.full[:, op] - self.booked[:, op]
            for rate, *under in self.case.caps:
                members = np.array(under) > 0
                shared = rate * self.case.duration[op] // SCALE - self.booked[members, op].sum()
                left[members] = np.minimum(left[members], shared)
            self.left[:, op] = np.maximum(left, 0)


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    n, ledger, outside = case.ops, Budgets(case), Outside(case)
    line = case.memory * LINE // 100
    load, base = case.live.copy(), stay(case)
    tier, back = base.tier.copy(), case.absence_next.copy()
    finish = case.absence_first + 1
    forced = forced_away(case)
    tier[forced] = [start_tier(case, g) for g in forced.tolist()]
    for g in forced.tolist():
        outside.take(int(tier[g]), g)
    open_absences = (
        np.minimum(case.absence_next, np.where(case.absence_next >= NEVER, n, 2 * n)) - case.absence_first > 2
    )
    open_absences[forced] = False
    while (load > line).any() and open_absences.any():
        case.tick()
        g = _best(case, ledger, load > line, open_absences)
        if g < 0:
            break
        open_absences[g] = False
        accepted = _accept(case, ledger, outside, g)
        if accepted is not None:
            tier[g], finish[g], back[g] = accepted
            away = np.arange(finish[g], min(int(back[g]), int(case.absence_next[g]), 2 * n)) % n
            load[away] -= case.absence_size[g]
    booked = np.flatnonzero((tier > 0) & (case.absence_next < n) & (case.absence_first >= 0)).tolist()
    for g in sorted(booked, key=lambda g: (int(back[g]), g)):
        case.tick()
        while back[g] > finish[g] and load[back[g] - 1] < line:
            back[g] -= 1
            load[back[g]] += case.absence_size[g]
    early = early_returns(case, np.flatnonzero(tier > 0), case.absence_first + 1)
    back[forced] = early[forced]
    anchors = np.where((tier > 0) & (case.absence_next < NEVER), 2 * back, -1)
    plan = replace(base, tier=tier, back=anchors, rank=case.absence_next % n)
    yield "", replace(plan, victim=tables.LEAST_RECENT, eager=True)


def _best(
    case: SimulatedProblem, ledger: Budgets, over: NDArray[np.bool_], open_absences: NDArray[np.bool_]
) -> int:
    """Return the open absence of the greatest benefit, -1 if none has any (step 3)."""
    n, slow = case.ops, case.outer[-1]
    time_over = np.tile(np.where(over, case.duration, 0), 2)
    clock = np.concatenate((np.zeros(1, np.int64), np.cumsum(time_over)))
    out, home = (
        np.concatenate((np.zeros(1, np.int64), np.cumsum(np.tile(ledger.left[channel], 2))))
        for channel in (channel_out(slow), channel_back(slow))
    )
    low = case.absence_first + 1
    high = np.where(case.absence_next >= NEVER, n, case.absence_next)
    half = case.absence_size // 2
    first = np.searchsorted(out, out[low] + half) - 1
    last = np.searchsorted(home, home[high] - half, side="right") - 1
    round_trip = case.absence_next >= n
    first = np.clip(np.where(round_trip, low, first), low, high)
    last = np.clip(np.where(round_trip, high, last), low, high)
    benefit = np.where(
        open_absences, np.maximum(clock[last] - clock[first], 0), 0
    ) * case.absence_size.astype(float)
    if not (benefit > 0).any():
        return -1
    area = (case.clock[high] - case.clock[low]) * case.absence_size.astype(float)
    return int(np.lexsort((-area, -benefit))[0])


def _accept(case: SimulatedProblem, ledger: Budgets, outside: Outside, g: int) -> tuple[int, int, int] | None:
    """Return tier, op behind the copy and op of the return of an absence, or None if it stays (step 4)."""
    n, size = case.ops, int(case.absence_size[g])
    low, after = int(case.absence_first[g]) + 1, int(case.absence_next[g])
    ends = after >= NEVER
    high = n if ends else after
    length = int(case.clock[high] - case.clock[low])
    host, slow = (x if x in case.outer else 0 for x in (1, 2))
    room = bool(host) and int(outside.used[1].max()) + size <= case.capacity(1)
    trip = {x: case.transfer_ns(size, channel_out(x)) for x in case.outer}
    if slow and 2 * length > 5 * trip[slow]:
        chosen, through = slow, _op_at(case, case.clock[low] + trip[slow])
        full = all(ledger.left[SLOW_OUT, k % n] == 0 for k in range(low, min(through, high)))
        if full and room and after < n:
            chosen = host
    elif room and 2 * length > 5 * trip[host]:
        chosen = host
    else:
        return None
    if not outside.fits(chosen, g):
        return None
    if after < n or ends:
        leaving, returning = channel_out(chosen), channel_back(chosen)
        finish, out = ledger.forwards(leaving, low, size, high)
        back, home = (high, []) if ends else ledger.backwards(returning, high, size, low)
        if finish > high or back < finish:
            return None
        ledger.book(leaving, out)
        ledger.book(returning, home)
    else:
        finish = _op_at(case, case.clock[low] + trip[chosen]) + 1
        back = _op_at(case, case.clock[high] - 3 * trip[chosen] // 2)
        if back <= low:
            return None
    outside.take(chosen, g)
    return chosen, finish, back


def _op_at(case: SimulatedProblem, time: int) -> int:
    """Return the op that runs at an ideal time."""
    return int(np.searchsorted(case.clock, time, side="right")) - 1


def solve_g10(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide, chunk=16 * MIB)
