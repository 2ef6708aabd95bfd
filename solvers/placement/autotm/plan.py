"""The plan of a solution of AutoTM's model: op by op, nothing overlaps the border of a slot.

1. Copies before op k, one after another.
2. Op k starts its slot, where stale copies go; beside it, one after another, the copies that the model puts
   there. The slot ends with the last of them.
3. Copies behind op k, one after another; what the state behind the op does not have leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ....formulations.placement.autotm.data import AutotmData, ModeData, copy_time
from ....formulations.placement.autotm.items import TierPath
from ....formulations.placement.autotm.steps import Hop, Role, Transition
from ....formulations.placement.autotm.walks_milp import Path
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement


@dataclass(eq=False)
class _Item:
    """A tensor's content in the plan so far: its walk, its steps, and the tiers where it has room."""

    walk: TierPath
    steps: tuple[Transition, ...]
    held: int = 0


class Emission(PlanBuilder):
    """The actions so far, and the time."""

    def __init__(self, problem: Placement, data: AutotmData) -> None:
        super().__init__(problem.graph, problem.machine)
        self.data = data
        self.tiers = [tier.name for tier in problem.machine.tiers]
        self.now = 0

    def move(self, item: _Item, hops: tuple[Hop, ...], *, beside: bool = False) -> None:
        """Copy an item; outward it leaves the tier that it comes from."""
        content = self.data.items[item.walk.item]
        for i, j in hops:
            time = copy_time(content.nbytes, (self.data.links_beside if beside else self.data.links)[i, j])
            self.copy(content.tensor, self.tiers[i], self.tiers[j], self.now, self.now + time)
            self.now += time
            item.held |= 1 << j
            if j > i:
                self.leave(item, item.held & ~(1 << i), self.now)

    def leave(self, item: _Item, state: int, time: int) -> None:
        """Free an item in the tiers where it has room, but for those of a state."""
        tensor = self.data.items[item.walk.item].tensor
        for tier, name in enumerate(self.tiers):
            if item.held & ~state & 1 << tier:
                self.free(tensor, name, time)
        item.held &= state


def emit(problem: Placement, data: AutotmData, paths: list[Path], modes: list[ModeData]) -> Plan:
    """Return the plan of a solution."""
    out = Emission(problem, data)
    at: list[list[tuple[_Item, Role, Transition]]] = [[] for _ in range(data.n)]
    kept = []
    for w, steps in paths:
        item = _Item(data.walks[w], steps)
        for point, step in zip(item.walk.points, steps, strict=True):
            if point.role is Role.START:
                item.held = step.dst
                tier = step.dst.bit_length() - 1
                out.start(data.items[item.walk.item].tensor, out.tiers[tier])
            elif point.role is Role.END:
                kept.append(item)
            else:
                at[point.op].append((item, point.role, step))
    for k, here in enumerate(at):
        for item, _, step in here:
            out.move(item, step.before)
        start = out.now
        for item, role, step in here:
            if role.accessed:
                item.held |= 1 << step.use  # what the op makes
            if role.accessed or role is Role.DROPPED:
                out.leave(item, step.rooms[1], start)
        end = start + _length(data, k, modes[k], here)
        out.run(k, modes[k].number, start, end, problem.machine.processors[0].name)
        for item, _, step in here:
            out.move(item, step.beside, beside=True)
        out.now = max(out.now, end)
        for item, _, step in here:
            if not step.behind:
                out.leave(item, step.dst, out.now)
        for item, _, step in here:
            if step.behind:
                out.move(item, step.behind)
                out.leave(item, step.dst, out.now)
    if problem.periodic:
        for item in kept:
            if data.items[item.walk.item].returns:
                out.leave(item, item.walk.end, out.now)
    return out.plan(period=out.now if problem.periodic else None)


def _length(data: AutotmData, k: int, mode: ModeData, here: list[tuple[_Item, Role, Transition]]) -> int:
    """Return the ns of a run: those of its mode, and what operands in outer tiers add, rounded up."""
    longer = sum(
        (
            data.slow_time(data.items[item.walk.item].nbytes, step.use)
            for item, role, step in here
            if role.accessed
        ),
        Fraction(0),
    )
    return mode.duration + -(-longer.numerator // longer.denominator)
