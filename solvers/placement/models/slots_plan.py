r"""From the values of the slot model (`slots_lp`) to walks: what each life does, in integers.

What is absent and what is held are rounded up, so memories are never fuller than in the program but for what
is on its way. What is left of the model is then a walk over integers, how many bytes
are absent and held at each instant, from which everything else follows (`emission`). What is
held and never needed again is left out: at each instant, the most that is absent from there on.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....formulations.placement.lanes import whole_lane
from ....formulations.placement.slots_lp import SlotProgram, instants
from ....formulations.placement.walks import Bytes, Walk
from ....models.plan import Plan
from ....models.problems.placement import Placement
from .emission import Part, emit


def decode(slots: SlotProgram, values: Sequence[float], problem: Placement) -> Plan | None:
    """Return the plan that the values of a program with rounds stand for; None if rounding breaks it.

    Parameters
    ----------
    slots, values
        The program, and the values of its columns.
    problem
        Whose plan it is; its machine has at most two outer tiers.
    """
    walks = [walk(slots, values, i) for i in range(len(slots.data.lives))]
    return emit([Part(whole_lane(problem), slots.data, walks)], problem)


def walk(slots: SlotProgram, values: Sequence[float], number: int) -> Walk:
    """Round the values of a life."""
    data, life = slots.data, slots.data.lives[number]
    tiers = range(len(data.outer))
    near = min(life.nbytes // 10**6, 10**4)

    def rounded(column: int | None) -> int:
        if column is None:
            return 0
        value = values[column]
        whole = round(value) if abs(value - round(value)) < 1e-3 else int(value) + 1
        return 0 if whole <= near else life.nbytes if whole >= life.nbytes - near else whole

    absent, held = {}, {}
    for e in instants(data, life):
        away = [rounded(slots.absent.get((number, e, x))) for x in tiers]
        if away:
            most = max(tiers, key=lambda x: away[x])
            must = e == 0 and not life.device
            away[most] += life.nbytes - sum(away) if must else min(0, life.nbytes - sum(away))
        absent[e] = tuple(away)
        held[e] = tuple(max(away[x], rounded(slots.held.get((number, e, x)))) for x in tiers)
    if len(tiers) == 2:
        _keep_apart(life.nbytes, absent, held)
    needed = [0 for _ in tiers]
    for e in reversed(instants(data, life)):
        needed = [max(m, a) for m, a in zip(needed, absent[e], strict=True)]
        held[e] = tuple(min(h, m) for h, m in zip(held[e], needed, strict=True))
    return Walk(life, absent, held)


def _keep_apart(nbytes: int, absent: dict[int, Bytes], held: dict[int, Bytes]) -> None:
    """Take off what rounding has made overlap: held bytes of one tier, and absent ones of the other (6)."""
    for e in sorted(held):
        before = e - 1 if e - 1 in held else e
        most = [
            max(nbytes - max(absent[e][1 - x], absent[before][1 - x]), held[before][x] if before < e else 0)
            for x in (0, 1)
        ]
        held[e] = tuple(min(h, m) for h, m in zip(held[e], most, strict=True))
        absent[e] = tuple(min(a, h) for a, h in zip(absent[e], held[e], strict=True))
