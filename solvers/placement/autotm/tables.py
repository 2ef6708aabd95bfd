"""AutoTM's model as arrays for its kernels, and solutions back from these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....formulations.placement.autotm.data import AutotmData, ModeData, copy_time
from ....formulations.placement.autotm.steps import Step
from ....formulations.placement.autotm.walks_milp import Path
from .arrays import Scratch, Tables, World


@dataclass(frozen=True, eq=False)
class Arrays:
    """The tables, their `most_time`, the steps that their numbers mean, and room for the kernels."""

    data: AutotmData
    most: int
    tables: Tables
    steps: list[Step]
    scratch: Scratch

    def empty(self) -> World:
        """Return a world in which no item is anywhere."""
        data, m = self.data, self.tables
        return World(
            free=_matrix([row.rooms for row in data.rows], data.n),
            tier=np.zeros(len(m.slow), np.int64),
            beside=np.zeros(data.n, np.int64),
            length=np.zeros(data.n, np.int64),
            mode=np.zeros(data.n, np.int64),
            work=np.zeros(data.n, np.int64),
            chosen=np.full(len(data.items), -1),
            step=np.full(len(m.op), -1),
        )

    def solution(self, world: World) -> tuple[list[Path], list[ModeData]]:
        """Return the paths and modes of a world."""
        m, paths = self.tables, list[Path]()
        for w in world.chosen.tolist():
            numbers = world.step[m.point_first[w] : m.point_first[w + 1]].tolist()
            paths.append((w, tuple(self.steps[s] for s in numbers)))
        first = m.mode_first.tolist()
        return paths, [self.data.modes[k][j - first[k]] for k, j in enumerate(world.mode.tolist())]


MOST_NS = 2**59
MOST_BYTE_OPS = 2**61
"""Of the largest tensor or workspace, times rows and ops."""


def most_time(data: AutotmData) -> int:
    """Return a sum of times that no plan exceeds, nor any sum of the kernels' times (see there).

    That is, of each item all copies at each of its points, and of each op its greatest length once, and twice
    for each of its operands.
    """
    lengths = ((1 + 2 * len(some)) * data.longest(k) for k, some in enumerate(data.operands))
    points = [0] * len(data.items)
    for walk in data.walks:
        points[walk.item] = max(points[walk.item], len(walk.points))
    copies = (
        number
        * sum(
            copy_time(item.nbytes, link)
            for links in (data.links, data.links_beside)
            for link in links.values()
        )
        for number, item in zip(points, data.items, strict=True)
    )
    return sum(lengths) + sum(copies)


def too_large(data: AutotmData) -> str:
    """Return why sums of times, or prices of bytes over all ops, could leave 64 bits."""
    total, largest = most_time(data), max((item.nbytes for item in data.items), default=0)
    if total >= MOST_NS:
        return f"found copies and ops of up to {total} ns together, expected less than 2**59"
    if largest * len(data.rows) * data.n >= MOST_BYTE_OPS:
        return (
            f"found a tensor of {largest} bytes, {data.n} ops and {len(data.rows)} limits of memory, "
            "expected a product of less than 2**61"
        )
    return ""


def arrays_of(data: AutotmData) -> Arrays:
    """Return the arrays of a model, whose numbers are not `too_large`."""
    total, hops = most_time(data), sorted(data.links)
    kinds: dict[tuple[Step, ...], int] = {}
    steps, step_first = list[Step](), [0]
    operand_of, operand_first, slow = dict[tuple[int, int], int](), [0], list[list[int]]()
    for k, operands in enumerate(data.operands):
        for t in operands:
            operand_of[k, t] = len(slow)
            nbytes = data.items[data.at[k, t]].nbytes
            slow.append(
                [int(data.slow_time(nbytes, i)) if i in data.rates else 0 for i in range(data.ways.tiers)]
            )
        operand_first.append(len(slow))
    op, until, operand, kind, point_first = list[int](), list[int](), list[int](), list[int](), [0]
    for walk in data.walks:
        ends = {i: end for _, end, i in data.spans(walk)}
        for i, point in enumerate(walk.points):
            some = tuple(data.steps(walk, i))
            if some not in kinds:
                kinds[some] = len(kinds)
                steps += some
                step_first.append(len(steps))
            op.append(point.op)
            until.append(ends.get(i, point.op + 1))
            operand.append(
                operand_of.get((point.op, data.items[walk.item].tensor), -1) if point.role.accessed else -1
            )
            kind.append(kinds[some])
        point_first.append(len(op))
    modes = [mode for some in data.modes for mode in some]
    most = max(len(some) for some in data.operands)
    wanted = np.full((len(modes), most), -1)
    number = 0
    for k, kinds_of in enumerate(data.modes):
        for mode in kinds_of:
            for j, t in enumerate(data.operands[k]):
                wanted[number, j] = mode.wanted.get(t, -1)
            number += 1
    counts = np.searchsorted([walk.item for walk in data.walks], np.arange(len(data.items) + 1))
    run_rows = [r for r, row in enumerate(data.rows) if row.tier == 0 and row.moment == 1]
    tables = Tables(
        walk_first=_integers(counts),
        point_first=_integers(point_first),
        op=_integers(op),
        until=_integers(until),
        operand=_integers(operand),
        kind=_integers(kind),
        step_first=_integers(step_first),
        src=_integers([step.src for step in steps]),
        dst=_integers([step.dst for step in steps]),
        use=_integers([step.use for step in steps]),
        at=_integers([_bits(data, step.rooms) for step in steps]),
        behind=_integers([_bits(data, (step.dst,) * 3) for step in steps]),
        alone_hops=_matrix([[(*s.before, *s.behind).count(hop) for hop in hops] for s in steps], len(hops)),
        beside_hop=_integers([hops.index(step.beside[0]) if step.beside else -1 for step in steps]),
        size=_integers([item.nbytes for item in data.items]),
        alone_time=_matrix(
            [[copy_time(x.nbytes, data.links[h]) for h in hops] for x in data.items], len(hops)
        ),
        beside_time=_matrix(
            [[copy_time(x.nbytes, data.links_beside[h]) for h in hops] for x in data.items], len(hops)
        ),
        slow=_matrix(slow, data.ways.tiers),
        operand_first=_integers(operand_first),
        mode_first=_integers(np.cumsum([0, *(len(some) for some in data.modes)])),
        duration=_integers([mode.duration for mode in modes]),
        workspace=_integers([mode.workspace for mode in modes]),
        wanted=wanted,
        level=_integers([min((mode.duration for mode in some), default=0) for some in data.modes]),
        core=_integers([min((mode.duration for mode in some), default=0) for some in data.modes]),
        kept=_integers([0] * len(slow)),
        longest=_integers([data.longest(k) for k in range(data.n)]),
        states=1 << data.ways.tiers,
        run_row=run_rows[0] if run_rows else -1,
    )
    longest = max((len(walk.points) for walk in data.walks), default=0)
    scratch = Scratch(
        value=np.zeros((longest + 1, tables.states), np.int64),
        by=np.zeros((longest + 1, tables.states), np.int64),
        path=np.zeros(longest, np.int64),
        full=np.zeros((len(data.rows), data.n + 1), np.int64),
        rent=np.zeros((len(data.rows), 2), np.int64),
    )
    return Arrays(data, total, tables, steps, scratch)


def _bits(data: AutotmData, rooms: tuple[int, int, int]) -> int:
    """Return the rows in which an item has room, as bits."""
    return sum(1 << r for r, row in enumerate(data.rows) if rooms[row.moment] >> row.tier & 1)


def _integers(values: Any) -> Any:
    return np.array(values, np.int64)


def _matrix(values: Any, columns: int) -> Any:
    if not columns:
        return np.zeros((len(values), 0), np.int64)
    return np.array(values, np.int64).reshape(-1, columns)
