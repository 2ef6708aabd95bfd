"""What policies share: the backward pass, bytes on the device op by op, early returns, tiers with room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.arrays import Integers
from ....models.derived.backward import first_backward
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import Decisions, stay


def turn_of(case: SimulatedProblem) -> int:
    """Return the first op of the backward pass.

    That of `first_backward`; without such, the op of most live bytes.
    """
    found = first_backward(case.graph)
    return int(np.argmax(case.live)) if found is None else found


def crossing_absences(case: SimulatedProblem, turn: int) -> Integers:
    """Return the absences of activations that begin before the backward pass and end in it."""
    plain = ~case.persistent[case.absence_tensor] & (case.absence_first >= 0) & (case.absence_next < NEVER)
    return np.flatnonzero(plain & (case.absence_first < turn) & (case.absence_next >= turn))


def forced_away(case: SimulatedProblem) -> Integers:
    """Return the absences of tensors that may not start on the device, from time 0 to their first use."""
    entry = case.absence_first < 0
    return np.flatnonzero(entry & (case.starts[case.absence_tensor] & 1 == 0))


def start_tier(case: SimulatedProblem, absence: int) -> int:
    """Return the nearest outer tier where the tensor of an absence may start."""
    bits = int(case.starts[case.absence_tensor[absence]])
    return next(x for x in (1, 2) if bits >> x & 1)


def add_load(case: SimulatedProblem, load: Integers, absence: int, back: int, sign: int) -> None:
    """Add the bytes of an absence's tensor, times `sign`, where it is away until op `back`."""
    for low, high in case.away_ops(absence, back):
        load[low:high] += sign * case.absence_size[absence]


def load_of(case: SimulatedProblem, away: Integers) -> Integers:
    """Return the bytes on the device per op if the tensors of some absences are away from end to end."""
    load = case.live.copy()
    for g in away.tolist():
        case.tick()
        if case.absence_first[g] >= 0 or case.starts[case.absence_tensor[g]] & 1:
            add_load(case, load, g, int(case.absence_next[g]), -1)
    return load


def early_returns(case: SimulatedProblem, away: Integers, least: Integers) -> Integers:
    """Return per absence the op from which on its tensor is back, as early as memory permits until its use.

    Parameters
    ----------
    case
        Of the policy.
    away
        Absences, each of which is away.
    least
        Per absence of the problem, the earliest op to return at.

    Returns
    -------
    Integers
        Per absence of the problem; the next use for those that are not away.
    """
    load, memory = load_of(case, away).tolist(), case.memory
    back = case.absence_next.copy()
    n = case.ops
    returning = [g for g in away.tolist() if case.absence_next[g] < NEVER]
    for g in sorted(returning, key=lambda g: (int(case.absence_next[g]) % n, g)):
        case.tick()
        op, size, earliest = int(back[g]), int(case.absence_size[g]), int(least[g])
        while op - 1 >= earliest and load[(op - 1) % n] + size <= memory:
            op -= 1
            load[op % n] += size
        back[g] = op
    return back


class Outside:
    """How full the outer tiers are, op by op, as tensors are assigned to them, the nearest tier first."""

    def __init__(self, case: SimulatedProblem) -> None:
        self.case = case
        self.used = np.zeros((3, case.ops), dtype=np.int64)

    def fits(self, tier: int, absence: int) -> bool:
        """Return whether a tier has room for an absence's tensor from end to end."""
        case = self.case
        spans = case.away_ops(absence, int(case.absence_next[absence]))
        most = max((int(self.used[tier, a:b].max()) for a, b in spans), default=0)
        return most + int(case.absence_size[absence]) <= case.capacity(tier)

    def take(self, tier: int, absence: int) -> None:
        """Put an absence's tensor into a tier."""
        for low, high in self.case.away_ops(absence, int(self.case.absence_next[absence])):
            self.used[tier, low:high] += self.case.absence_size[absence]

    def nearest(self, absence: int, bits: int = -1) -> int:
        """Take room in the nearest tier of `bits` that has it, else in the last; return its number."""
        tiers = [x for x in self.case.outer if bits >> x & 1]
        tier = next((x for x in tiers if self.fits(x, absence)), tiers[-1])
        self.take(tier, absence)
        return tier


NOTHING = np.array([], dtype=np.int64)
"""No absences."""


def swap(case: SimulatedProblem, chosen: Integers, back: Integers) -> Decisions:
    """Return the decisions by which the tensors of some absences leave, each when its absence begins.

    Parameters
    ----------
    case
        Of the policy.
    chosen
        Absences, in the order in which they take room: in the nearest outer tier that has it. One that lasts
        to the next iteration is in a tier where the tensor may start, or stays. Tensors that may not start on
        the device are away besides.
    back
        Per absence of the problem, the anchor from which on it is asked back; -1 on demand.
    """
    base, outside = stay(case), Outside(case)
    tier = base.tier.copy()
    for g in forced_away(case).tolist():
        tier[g] = start_tier(case, g)
        outside.take(int(tier[g]), g)
    goes_round = (case.absence_next >= case.ops) & (case.absence_next < NEVER)
    for g in chosen.tolist():
        case.tick()
        bits = int(case.starts[case.absence_tensor[g]]) if goes_round[g] else -1
        if not tier[g] and any(bits >> x & 1 for x in case.outer):
            tier[g] = outside.nearest(g, bits)
    asked = (tier > 0) & (case.absence_next < NEVER) & (back >= 0)
    anchors = np.where(asked, np.maximum(back, 2 * (case.absence_first + 1)), -1)
    return replace(base, tier=tier, back=anchors, rank=case.absence_next % case.ops)


def nothing_moves(case: SimulatedProblem) -> Decisions:
    """Return the decisions by which nothing leaves; what starts elsewhere comes as early as is safe."""
    forced = forced_away(case)
    return swap(case, NOTHING, 2 * early_returns(case, forced, case.absence_first + 1))
