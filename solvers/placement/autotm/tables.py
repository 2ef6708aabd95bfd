"""AutoTM's model as arrays for its kernels, and solutions back from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....formulations.placement.autotm.data import AutotmData, ModeData, TransferRate, copy_time
from ....formulations.placement.autotm.steps import Hop, Transition
from ....formulations.placement.autotm.walks_milp import Path
from .arrays import AutotmTables, Locations, Scratch


@dataclass(frozen=True, eq=False)
class Arrays:
    """The tables, their `most_time`, the steps that their numbers mean, and room for the kernels."""

    data: AutotmData
    most: int
    tables: AutotmTables
    steps: list[Transition]
    scratch: Scratch

    def empty(self) -> Locations:
        """Return a world in which no item is anywhere."""
        data, m = self.data, self.tables
        return Locations(
            free=_matrix([row.rooms for row in data.rows], data.n),
            tier=np.zeros(len(m.slow), np.int64),
            beside=np.zeros(data.n, np.int64),
            length=np.zeros(data.n, np.int64),
            mode=np.zeros(data.n, np.int64),
            work=np.zeros(data.n, np.int64),
            chosen=np.full(len(data.items), -1),
            step=np.full(len(m.op), -1),
        )

    def solution(self, world: Locations) -> tuple[list[Path], list[ModeData]]:
        """Return the paths and modes of a world."""
        m, paths = self.tables, list[Path]()
        for w in world.chosen.tolist():
            numbers = world.step[m.point_first[w] : m.point_first[w + 1]].tolist()
            paths.append((w, tuple(self.steps[s] for s in numbers)))
        first = m.mode_first.tolist()
        return paths, [self.data.modes[k][j - first[k]] for k, j in enumerate(world.mode.tolist())]


MOST_NS = 2**59
"""Sum of all times in ns from which the kernels' sums of a few of them could leave 64 bits."""
MOST_BYTE_OPS = 2**61
"""Of the largest tensor or workspace, times rows and ops."""


def most_time(data: AutotmData) -> int:
    """Return a sum of times that no plan exceeds, nor any sum of the kernels' times (see there).

    That is, of each item all copies at each of its points, and of each op its greatest length once, and twice
    for each of its operands.
    """
    lengths = ((1 + 2 * len(tensors)) * data.longest(k) for k, tensors in enumerate(data.operands))
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
    hops, steps, step_first = sorted(data.links), list[Transition](), [0]
    slow, operand_first, operand_of = _operands(data)
    op, until, operand, kind, point_first = list[int](), list[int](), list[int](), list[int](), [0]
    kinds: dict[tuple[Transition, ...], int] = {}
    for walk in data.walks:
        ends = {i: end for _, end, i in data.spans(walk)}
        for i, point in enumerate(walk.points):
            choices = tuple(data.steps(walk, i))
            if choices not in kinds:
                kinds[choices] = len(kinds)
                steps += choices
                step_first.append(len(steps))
            op.append(point.op)
            until.append(ends.get(i, point.op + 1))
            tensor = data.items[walk.item].tensor
            operand.append(operand_of.get((point.op, tensor), -1) if point.role.accessed else -1)
            kind.append(kinds[choices])
        point_first.append(len(op))
    modes = [mode for modes_of_op in data.modes for mode in modes_of_op]
    fastest = [min((mode.duration for mode in modes_of_op), default=0) for modes_of_op in data.modes]
    counts = np.searchsorted([walk.item for walk in data.walks], np.arange(len(data.items) + 1))
    run_rows = [r for r, row in enumerate(data.rows) if row.tier == 0 and row.moment == 1]
    tables = AutotmTables(
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
        alone_time=_copy_times(data, data.links),
        beside_time=_copy_times(data, data.links_beside),
        slow=_matrix(slow, data.ways.tiers),
        operand_first=_integers(operand_first),
        mode_first=_integers(np.cumsum([0, *map(len, data.modes)])),
        duration=_integers([mode.duration for mode in modes]),
        workspace=_integers([mode.workspace for mode in modes]),
        wanted=_wanted(data),
        level=_integers(fastest),
        core=_integers(fastest),
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
    return Arrays(data, most_time(data), tables, steps, scratch)


def _operands(data: AutotmData) -> tuple[list[list[int]], list[int], dict[tuple[int, int], int]]:
    """Return by operand what slower tiers add, by op its first operand, by op and tensor which it is."""
    slow, first, number = list[list[int]](), [0], dict[tuple[int, int], int]()
    for k, operands in enumerate(data.operands):
        for t in operands:
            number[k, t] = len(slow)
            nbytes, tiers = data.items[data.at[k, t]].nbytes, range(data.ways.tiers)
            slow.append([int(data.slow_time(nbytes, i)) if i in data.rates else 0 for i in tiers])
        first.append(len(slow))
    return slow, first, number


def _wanted(data: AutotmData) -> Any:
    """Return, by mode and operand, the tier in which it wants that; -1: any."""
    operands = [tensors for tensors, modes in zip(data.operands, data.modes, strict=True) for _ in modes]
    wanted = np.full((len(operands), max(map(len, data.operands))), -1)
    modes = (mode for modes_of_op in data.modes for mode in modes_of_op)
    for number, (mode, tensors) in enumerate(zip(modes, operands, strict=True)):
        for j, t in enumerate(tensors):
            wanted[number, j] = mode.wanted.get(t, -1)
    return wanted


def _copy_times(data: AutotmData, links: Mapping[Hop, TransferRate]) -> Any:
    """Return by item and hop the ns of a copy."""
    hops = sorted(data.links)
    return _matrix([[copy_time(x.nbytes, links[h]) for h in hops] for x in data.items], len(hops))


def _bits(data: AutotmData, rooms: tuple[int, int, int]) -> int:
    """Return the rows in which an item has room, as bits."""
    return sum(1 << r for r, row in enumerate(data.rows) if rooms[row.moment] >> row.tier & 1)


def _integers(values: Any) -> Any:
    return np.array(values, np.int64)


def _matrix(values: Any, columns: int) -> Any:
    if not columns:
        return np.zeros((len(values), 0), np.int64)
    return np.array(values, np.int64).reshape(-1, columns)
