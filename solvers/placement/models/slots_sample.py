"""What a plan says at the instants of the slot model for whole tensors: a point of its lower model.

This is the reading of `slots_milp`'s proof: it gives the solver a plan to start from, and tests the
claim that every plan whose stall is at most U is a point of the model.
"""

from __future__ import annotations

from ....formulations.placement.slots_milp import Cut, SlotMilp
from ....models.plan import Copy, Plan


def set_values(built: SlotMilp, plan: Plan) -> None:
    """Give every variable of a lower model its value in a plan of the same problem."""
    cut, model = built.cut, built.model
    clock = instants(cut, plan)
    device, host = (tier.name for tier in plan.machine.tiers)
    out = {x.tensor: list[Copy]() for x in plan.copies}
    into = {x.tensor: list[Copy]() for x in plan.copies}
    for copy in sorted(plan.copies, key=lambda c: (c.end, c.start)):
        (out if copy.src == device else into)[copy.tensor].append(copy)
    latency = {(c.src, c.dst): c.latency_ns for c in plan.machine.channels}
    freed: dict[int, list[int]] = {}
    for f in plan.frees:
        if f.tier == device:
            freed.setdefault(f.tensor, []).append(f.time)
    at_start = {r.tensor for r in plan.start if r.tier == device}
    for variable in model.component_data_objects(ctype=None):
        if hasattr(variable, "is_continuous"):
            variable.set_value(0, skip_validation=True)
    for x in model.stall:
        model.stall[x].set_value(clock[x + 1] - clock[x])
    for x in model.more:
        model.more[x].set_value(int(clock[x + 2] > clock[x + 1]))
    for g, absence in enumerate(cut.absences):
        tensor = cut.data.lives[absence.life].tensor
        some = cut.instants[g]
        begin = clock[cut.end(absence.before)]
        behind = clock[cut.start[absence.behind]]
        away = absence.before < 0 and tensor not in at_start
        gone = min((time for time in freed.get(tensor, ()) if begin <= time <= behind), default=None)
        if away:
            gone = 0
        if gone is None or (gone == behind and absence.behind < cut.data.n):
            continue
        for e in some:
            model.left[g, e].set_value(int(gone <= clock[e]))
        back = [c for c in into.get(tensor, ()) if gone <= c.start and c.end <= behind]
        if absence.behind < cut.data.n and back:
            for e in some:
                model.back[g, e].set_value(int(back[-1].start < clock[e]))
            for e in some:
                model.into[g, e + 1].set_value(_copied(clock[e + 1], back[-1], latency[host, device]))
    for number, e in model.out:
        life = cut.data.lives[number]
        begin = clock[cut.end(life.born)]
        copies = [c for c in out.get(life.tensor, ()) if c.start >= begin]
        if copies:
            model.out[number, e].set_value(_copied(clock[e], copies[0], latency[device, host]))


def instants(cut: Cut, plan: Plan) -> list[int]:
    """Return the moment of each instant, in ns: a stall fills its pieces one after the other."""
    runs = {run.op: (run.start, run.end) for run in plan.runs}
    clock = [0]
    for piece in cut.pieces:
        now = clock[-1]
        if piece.run:
            clock.append(now + (piece.length or 0))
        else:
            rest = runs[piece.op][0] - now
            clock.append(now + (rest if piece.length is None else min(rest, piece.length)))
    return clock


def _copied(now: int, copy: Copy, latency: int) -> float:
    """Return which part of a copy has passed."""
    begin = copy.start + latency
    return min(1.0, max(0.0, (now - begin) / (copy.end - begin)))
