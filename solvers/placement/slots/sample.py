"""What a plan says at the instants of the slot model for whole tensors: a point of its lower model.

This is the reading of `whole_milp`'s proof: it gives the solver a plan to start from, and tests the
claim that every plan of whole tensors whose stall is at most U is a point of the model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from ....formulations.placement.slots.pieces import Cut
from ....formulations.placement.slots.whole_milp import SlotMilp
from ....formulations.placement.states import Life
from ....models.plan import Plan

EVER = 2**62
"""Nanoseconds that no plan reaches: a stay of which no end is known."""


@dataclass(frozen=True)
class _Stay:
    """A life in a tier: from when it has room, over which time it comes, until when, on which channel."""

    begin: int
    start: int
    end: int
    gone: int
    way: int | None

    def come(self, now: int) -> float:
        """Return which part has come by a moment."""
        if self.end <= now:
            return 1.0
        return max(0.0, (now - self.start) / (self.end - self.start))


def set_values(built: SlotMilp, plan: Plan) -> None:
    """Give every variable of a lower model its value in a plan of the same problem."""
    cut, model = built.cut, built.model
    clock = instants(cut, plan)
    if plan.period is not None:
        clock += [moment + plan.period for moment in clock[1:]]
    for variable in model.component_data_objects(ctype=None):
        if hasattr(variable, "is_continuous"):
            variable.set_value(0, skip_validation=True)
    for p in model.stall:
        model.stall[p].set_value(clock[p + 1] - clock[p])
    for p in model.more:
        model.more[p].set_value(int(clock[p + 2] > clock[p + 1]))
    for number, life in enumerate(cut.data.lives):
        stays: list[list[_Stay]] = [[] for _ in cut.data.capacity]
        for x, stay in _stays(built, plan, life, clock[cut.end(life.born)]):
            stays[x].append(stay)
        moments = cut.instants(life)
        for e in moments[: -1 if life.ring else None]:
            for x, here in enumerate(stays):
                if (number, e, x) in model.part:
                    now = clock[e]
                    read = not x and any(e <= cut.at(k) and now == clock[cut.at(k)] for k in life.accesses)
                    part = max((s.come(now) for s in here if s.begin <= now < s.gone + read), default=0.0)
                    model.part[number, e, x].set_value(part)
                    if built.whole is not model.part:
                        model.whole[number, e, x].set_value(int(part == 1))
                    if (number, e, x) in model.room:
                        held = part > 0 or any(s.begin < now < s.gone for s in here)
                        model.room[number, e, x].set_value(int(held))
        for p in moments[:-1]:
            for x, here in enumerate(stays):
                before = built.part(number, p, x)
                left = 1.0 - (before if isinstance(before, int) else before.value)
                for stay in sorted(here, key=lambda stay: stay.start):
                    part = min(left, stay.come(clock[p + 1]) - stay.come(clock[p]))
                    if part > 0 and (number, p, stay.way) in model.flow:
                        left -= part
                        flow = model.flow[number, p, stay.way]
                        flow.set_value(flow.value + part)


def _stays(built: SlotMilp, plan: Plan, life: Life, birth: int) -> Iterator[tuple[int, _Stay]]:
    """Yield the stays of a life by tier."""
    data, t = built.cut.data, life.tensor
    number = {tier.name: x for x, tier in enumerate(plan.machine.tiers)}
    channel = {(w.src, w.dst): i for i, w in enumerate(data.ways)}
    turns = [0] if plan.period is None else [turn * plan.period for turn in (-1, 0, 1, 2)]
    freed: list[list[int]] = [[] for _ in number]
    for f in plan.frees:
        if f.tensor == t:
            # What the next iteration releases at its very beginning is still there at the end of this one.
            freed[number[f.tier]] += [f.time + turn + (f.time == 0 < turn) for turn in turns]
    for times in freed:
        times.sort()

    def gone(x: int, since: int) -> int:
        i = bisect_left(freed[x], since)
        return freed[x][i] if i < len(freed[x]) else EVER

    if life.born >= 0:  # under `coexist`, what is released at that very moment was there before
        yield 0, _Stay(birth, birth, birth, gone(0, birth + (not data.replace)), None)
    reached = set()
    for copy in plan.copies:
        if copy.tensor == t:
            w = channel[number[copy.src], number[copy.dst]]
            x = number[copy.dst]
            reached.add(x)
            for turn in turns:
                begin, end = copy.start + turn, copy.end + turn
                if life.ring or begin >= birth:
                    yield x, _Stay(begin, begin + data.ways[w].latency, end, gone(x, end), w)
    for resident in plan.start:
        x = number[resident.tier]
        if resident.tensor == t and life.born < 0 and (not life.ring or x not in reached):
            here = [f.time for f in plan.frees if f.tensor == t and number[f.tier] == x]
            yield x, _Stay(-EVER, 0, 0, EVER if life.ring else min(here, default=EVER), None)


def instants(cut: Cut, plan: Plan) -> list[int]:
    """Return the moment of each instant, in ns: a stall fills its pieces one after the other."""
    runs = {run.op: (run.start, run.end) for run in plan.runs}
    clock = [0]
    for piece in cut.pieces:
        now = clock[-1]
        if piece.run:
            clock.append(now + (piece.length or 0))
        else:
            rest = (runs[piece.op][0] if piece.op < cut.data.n else plan.period or 0) - now
            clock.append(now + (rest if piece.length is None else min(rest, piece.length)))
    return clock
