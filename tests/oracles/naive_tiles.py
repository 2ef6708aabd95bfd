"""Tiles by the letter of the rules: rectangles of each use at each step, and the best of all answers.

Uses are traced from the tiles of the outputs down to what a group reads, one path at a time; two uses are one
slice if their rectangles are the same at every step. Orders of tiles are searched by dynamic programming over
sets of tiles, which knows nothing of snakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from heapq import heappop, heappush
from itertools import chain, combinations, product
from math import ceil

import lowtide as lt

Rectangle = tuple[int, int, int, int]


class Group:
    """A group in a granularity: rectangles, working set and times of its steps."""

    def __init__(self, problem: lt.Tiles, ops: tuple[int, ...], granularity: tuple[int, int, int]) -> None:
        self.problem, self.given, self.ops = problem, problem.shapes, ops
        given = self.given
        self.w, self.h, self.k = granularity
        self.maker = {given.outputs[i]: i for i in ops}
        self.outputs = [t for t in self.maker if not any(t in given.inputs[i] for i in ops)]
        self.inputs = sorted({t for i in ops for t in given.inputs[i] if t not in self.maker})
        self.split = [i for i in ops if self._is_matmul(i) and not any(map(self._is_matmul, self._after(i)))]
        self.steps = 1
        self.faulty = self._faulty()
        if not self.faulty:
            width, height = given.shape(self.outputs[0])
            self.columns, self.rows = width // self.w, height // self.h
            self.steps = given.depth(self.split[0]) // self.k if self.split else 1
            self.uses = self._traced()

    def _is_matmul(self, i: int) -> bool:
        return self.given.op_types[i] == "MatMul"

    def _after(self, i: int) -> set[int]:
        """Return the ops of the group that need op i, directly or not."""
        found: set[int] = set()
        border = [i]
        while border:
            t = self.given.outputs[border.pop()]
            new = [j for j in self.ops if t in self.given.inputs[j] and j not in found]
            found.update(new)
            border += new
        return found

    def _faulty(self) -> bool:
        given = self.given
        shapes = {given.shape(t) for t in self.outputs}
        depths = {given.depth(i) for i in self.split}
        if len(shapes) != 1 or len(depths) > 1:
            return True
        ((width, height),) = shapes
        return bool(width % self.w or height % self.h or any(d % self.k for d in depths))

    def _traced(self) -> list[tuple[int, tuple[Rectangle, ...]]]:
        """Return each slice: its tensor, and its rectangle for each tile and step."""
        moments = [*product(range(self.rows * self.columns), range(self.steps))]
        traced = []
        for tile, step in moments:
            row, column = divmod(tile, self.columns)
            top, left = row * self.h, column * self.w
            at = [
                use
                for t in self.outputs
                for use in self._below(t, (top, top + self.h, left, left + self.w), step)
            ]
            traced.append(at)
        columns: dict[tuple[int, tuple[Rectangle, ...]], None] = {}
        for use in zip(*traced, strict=True):
            columns[use[0][0], tuple(rectangle for _, rectangle in use)] = None
        return [*columns]

    def _below(self, t: int, rectangle: Rectangle, step: int) -> Iterator[tuple[int, Rectangle]]:
        if t not in self.maker:
            yield t, rectangle
            return
        i = self.maker[t]
        top, bottom, left, right = rectangle
        parts = [rectangle] * len(self.given.inputs[i])
        if self._is_matmul(i):
            low, high = (step * self.k, (step + 1) * self.k) if i in self.split else (0, self.given.depth(i))
            parts = [(top, bottom, low, high), (low, high, left, right)]
        for u, part in zip(self.given.inputs[i], parts, strict=True):
            yield from self._below(u, part, step)

    def present(self, whole: set[int]) -> list[tuple[int, tuple[Rectangle, ...]]]:
        return [use for use in self.uses if use[0] not in whole]

    def held(self, whole: set[int], keep: set[int]) -> int:
        """Return the elements in fast memory at most."""
        at = range(len(self.uses[0][1]) if self.uses else 1)
        slices = max(sum(size(use[1][m]) for use in self.present(whole)) for m in at)
        tiles = sum(self.w * self.h for t in self.outputs if t not in keep)
        kept = sum(self.given.area(t) for t in whole)
        if self.problem.place == "shared" and not any(map(self._is_matmul, self.ops)):
            return kept + max(slices, tiles)
        return kept + slices + tiles

    def time(self, before: int | None, tile: int, whole: set[int], keep: set[int], arriving: int) -> Fraction:
        """Return the time of a tile after another one, or with nothing there."""
        given = self.given
        native = ceil(Fraction(self.w, given.native[0])) * ceil(Fraction(self.h, given.native[1]))
        total = Fraction(0)
        for step in range(self.steps):
            now = tile * self.steps + step
            last = now - 1 if step else (None if before is None else (before + 1) * self.steps - 1)
            moved = sum(
                size(places[now])
                for _, places in self.present(whole)
                if last is None or places[last] != places[now]
            )
            moved += arriving if not step else 0
            final = step == self.steps - 1
            moved += sum(self.w * self.h for t in self.outputs if t not in keep) if final else 0
            work = Fraction(0)
            for i in self.ops:
                cost = Fraction(given.base_costs[i] * native)
                if self._is_matmul(i) or self.problem.pointwise == "spread":
                    work += cost / self.steps
                elif final:
                    work += cost
            total += max(work, Fraction(moved, given.bandwidth))
        return total


def size(rectangle: Rectangle) -> int:
    top, bottom, left, right = rectangle
    return (bottom - top) * (right - left)


def latency(problem: lt.Tiles, tiling: lt.Tiling) -> Fraction | None:
    """Return the latency of an answer; None if it breaks a rule."""
    given = problem.shapes
    slow, fast, total = {*given.started}, set[int](), Fraction(0)
    for group in tiling.groups:
        if len({*group.ops}) != len(group.ops) or not joined(problem, group.ops):
            return None
        for p, i in enumerate(group.ops):
            later = {given.outputs[j] for j in group.ops[p:]}
            if later.intersection(given.inputs[i]):
                return None
        run = Group(problem, group.ops, group.granularity)
        if run.faulty or not {*run.inputs} <= slow | fast:
            return None
        keep = {*group.keep}
        tiles = run.rows * run.columns
        if not keep <= {*run.inputs, *run.outputs} | fast:
            return None
        order = range(tiles) if group.order is None else group.order
        if sorted(order) != [*range(tiles)] or run.held(fast | keep, keep) > given.capacity:
            return None
        arriving = sum(given.area(t) for t in run.inputs if t in keep and t not in fast)
        before = None
        for tile in order:
            total += run.time(before, tile, fast | keep, keep, arriving)
            arriving = 0
            before = None if group.order is None and problem.raster == "flush" else tile
        slow.update(t for t in run.outputs if t not in keep)
        fast = keep
    return total if given.finals <= slow else None


def joined(problem: lt.Tiles, ops: tuple[int, ...]) -> bool:
    given = problem.shapes
    reached, border = {ops[0]}, [ops[0]]
    while border:
        i = border.pop()
        for j in ops:
            linked = given.outputs[i] in given.inputs[j] or given.outputs[j] in given.inputs[i]
            if linked and j not in reached:
                reached.add(j)
                border.append(j)
    return len(reached) == len(ops)


def all_runs(problem: lt.Tiles, ops: tuple[int, ...]) -> list[Group]:
    """Return a group in every granularity."""
    most = range(1, max(*problem.shapes.widths, *problem.shapes.heights) + 1)
    runs = [Group(problem, ops, granularity) for granularity in product(most, most, most)]
    return [run for run in runs if not run.faulty and (run.split or run.k == 1)]


def best_time(problem: lt.Tiles, runs: list[Group], fast: set[int], keep: set[int]) -> Fraction | None:
    """Return the least time of a group over all granularities and orders of tiles."""
    given, best = problem.shapes, None
    for run in runs:
        if run.held(fast | keep, keep) > given.capacity:
            continue
        arriving = sum(given.area(t) for t in run.inputs if t in keep and t not in fast)
        found = _least_order(run, fast | keep, keep, arriving)
        best = found if best is None else min(best, found)
    return best


def _least_order(run: Group, whole: set[int], keep: set[int], arriving: int) -> Fraction:
    tiles = range(run.rows * run.columns)
    after = {(a, b): run.time(a, b, whole, keep, 0) for a in tiles for b in tiles if a != b}
    least = {(1 << b, b): run.time(None, b, whole, keep, arriving) for b in tiles}
    for done in range(1, 1 << len(tiles)):
        for a in tiles:
            if (done, a) not in least:
                continue
            for b in tiles:
                if not done >> b & 1:
                    key, value = (done | 1 << b, b), least[done, a] + after[a, b]
                    least[key] = min(value, least.get(key, value))
    return min(value for (done, _), value in least.items() if done == (1 << len(tiles)) - 1)


def optimum(problem: lt.Tiles, *, keeps: bool = True) -> Fraction | None:
    """Return the least latency of all answers, or of those that keep nothing; None if there is none."""
    given = problem.shapes
    every = range(len(given.outputs))
    groups = [ops for n in every for ops in combinations(every, n + 1) if joined(problem, ops)]
    runs = {ops: all_runs(problem, ops) for ops in groups}
    times: dict[object, Fraction | None] = {}
    start = (given.started, frozenset[int]())
    least = {start: Fraction(0)}
    heap = [(Fraction(0), 0, start)]
    number = 0
    while heap:
        now, _, (slow, fast) = heappop(heap)
        if now > least[slow, fast]:
            continue
        if given.finals <= slow:
            return now
        for ops in groups:
            made = {given.outputs[i] for i in ops}
            read = {t for i in ops for t in given.inputs[i]}
            if not read - made <= slow | fast:
                continue
            some = sorted((read - made) | (made - read) | fast) if keeps else []
            for keep in map(
                frozenset, chain.from_iterable(combinations(some, n) for n in range(len(some) + 1))
            ):
                if sum(map(given.area, keep)) > given.capacity:
                    continue
                if not runs[ops]:
                    continue
                near = read | made  # of others only the space counts
                key = (ops, fast & near, keep & near, sum(map(given.area, fast | keep)))
                if key not in times:
                    times[key] = best_time(problem, runs[ops], {*fast}, {*keep})
                time = times[key]
                target = (slow | (made - read - keep), keep)
                if time is not None and now + time < least.get(target, now + time + 1):
                    least[target] = now + time
                    number += 1
                    heappush(heap, (now + time, number, target))
    return None
