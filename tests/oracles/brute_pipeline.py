"""Exhaustive search for pipeline schedules: every order of every device, every delay of first starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import lowtide as lt


def device_orders(problem: lt.Pipeline, device: int) -> Iterator[list[int]]:
    """Yield the orders of a device's ops that respect F, B, W of each stage and the memory."""
    line = problem.line
    left = {i for i, d in enumerate(line.device) if d == device}

    def grow(order: list[int], used: int) -> Iterator[list[int]]:
        if len(order) == len(left):
            yield list(order)
        for i in sorted(left - {*order}):
            kind, s, j = line.keys[i]
            before = {"F": None, "B": ("F", s, j), "W": ("B", s, j)}[kind]
            if before is not None and line.op[before] not in order:
                continue
            x = line.stages[s]
            grown = used + x.activation * (kind == "F")
            if problem.memory is not None and grown > problem.memory:
                continue
            gone = {"F": 0, "B": x.activation - x.kept, "W": x.kept}[kind]
            yield from grow([*order, i], grown - gone)

    return grow([], sum(x.fixed for x in line.stages if x.device == device))


def simulated(
    problem: lt.Pipeline, orders: Sequence[Sequence[int]], delays: Sequence[int]
) -> dict[int, int] | None:
    """Return each op's start if devices begin no earlier than their delays; None if they wait for ever."""
    line, graph = problem.line, problem.graph
    writer = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    start: dict[int, int] = {}
    place = [0] * len(orders)
    free = list(delays)
    moved = True
    while moved:
        moved = False
        for d, order in enumerate(orders):
            while place[d] < len(order):
                i = order[place[d]]
                needs = {*(writer[t] for t in graph.ops[i].reads if t in writer), *graph.ops[i].after}
                if not needs <= start.keys():
                    break
                times = [
                    start[k] + line.durations[k] + problem.latency_ns * (line.device[k] != d) for k in needs
                ]
                start[i] = max([free[d], *times])
                free[d] = start[i] + line.durations[i]
                place[d] += 1
                moved = True
    return start if len(start) == len(graph.ops) else None


def least(problem: lt.Pipeline) -> int | None:
    """Return the least objective, or None if nothing fits the memory; spans are those of two devices.

    A later first start of the second device makes no op earlier, so delays end with the first by which the
    first device alone takes as long as the best schedule.
    """
    line = problem.line
    every = [list(device_orders(problem, d)) for d in range(line.devices)]
    span = problem.objective == "span"
    best = None
    for orders in product(*every):
        for delay in range(sum(line.durations) if span else 1):
            start = simulated(problem, orders, [0, delay, *[0] * (line.devices - 2)])
            if start is None:
                break
            runs = [[(start[i], start[i] + line.durations[i]) for i in order] for order in orders]
            windows = [some[-1][1] - (some[0][0] if span else 0) for some in runs]
            best = max(windows) if best is None else min(best, max(windows))
            if windows[0] >= best:
                break
    return best
