r"""Times of a pipeline whose devices run their ops in given orders: the least makespan, or the least span.

With the order of each device fixed, times are bounded below by differences alone: what an op needs has ended,
and come from another device, and its device's previous op has ended.

Makespan. Each op starts as early as it can.

Span, the longest time from the first start to the last end of a device. Let :math:`x_i` be the first start of
device i, :math:`L_{ik}` the longest path from that start to the last end of device k, and :math:`P_{ik}` that
to its first start (:math:`-\infty` without a path). With first starts given, all others are the longest paths
from them, since every op comes after the first op of some device. So a span of T is possible if and only if
:math:`x_i + P_{ik} \le x_k` and :math:`x_i + L_{ik} \le x_k + T` have a solution, that is, no cycle of them
is positive. As :math:`P_{ik} + L_{kl} \le L_{il}`, and cycles of P alone are no positive ones, the least T is
the largest mean of a cycle of L, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from ..graph import Graph
from .precedence import order_with, precedence
from .stages import PipelineOps

OBJECTIVES = ("makespan", "span")
"""What is least: the last end, or the longest time from first start to last end of a device."""


def time_orders(
    graph: Graph,
    line: PipelineOps,
    orders: Sequence[Sequence[int]],
    latency_ns: int,
    objective: str,
    tick: Callable[[], object] = lambda: None,
) -> tuple[int, ...]:
    """Return the start of each op, in ns, for the least makespan or span of the devices' orders.

    Raises
    ------
    InstanceError
        If the orders close a cycle with the precedence.
    """
    consecutive = [pair for order in orders for pair in pairwise(order)]
    walk = order_with(graph, consecutive)
    before: list[list[tuple[int, int]]] = [[] for _ in line.keys]
    for i, some in enumerate(precedence(graph).successors):
        for j in some:
            sent = latency_ns if line.device[i] != line.device[j] else 0
            before[j].append((i, line.durations[i] + sent))
    for i, j in consecutive:
        before[j].append((i, line.durations[i]))

    def earliest(release: dict[int, int]) -> list[int | None]:
        """Return the starts that paths from released ops leave; None where there is no path."""
        tick()
        start: list[int | None] = [None] * len(before)
        for j in walk:
            times = [s + lag for i, lag in before[j] if (s := start[i]) is not None]
            start[j] = max([*times, *([release[j]] if j in release else [])], default=None)
        return start

    first = [order[0] for order in orders if order]
    last = [order[-1] for order in orders if order]
    if objective == "makespan":
        release = dict.fromkeys(first, 0)
    else:
        paths = [earliest({i: 0}) for i in first]
        to_first = [[row[j] for j in first] for row in paths]
        to_last = [[None if (s := row[j]) is None else s + line.durations[j] for j in last] for row in paths]
        span = _largest_mean(to_last)
        release = dict(zip(first, _potentials(to_first, to_last, span), strict=True))
    return tuple(s or 0 for s in earliest(release))


Weights = list[list[int | None]]


def _largest_mean(weight: Weights) -> int:
    """Return the largest mean of a cycle, rounded up (Karp 1978): each node has one, the cycle to itself."""
    n = len(weight)
    walks: Weights = [[0] * n]  # of k arcs, that end in a node, from any: the largest sum
    for _ in range(n):
        row = [
            max(
                (
                    x + w
                    for x, some in zip(walks[-1], weight, strict=True)
                    if x is not None and (w := some[k]) is not None
                ),
                default=None,
            )
            for k in range(n)
        ]
        walks.append(row)
    best = None
    for k in range(n):
        top = walks[n][k]
        if top is not None:
            means = [-(-(top - x) // (n - j)) for j in range(n) if (x := walks[j][k]) is not None]
            best = max(min(means), best if best is not None else min(means))
    assert best is not None
    return best


def _potentials(to_first: Weights, to_last: Weights, span: int) -> list[int]:
    """Return the least first starts from 0 on: longest paths, of which none has a positive cycle."""
    n = len(to_first)
    x = [0] * n
    for _ in range(n + 1):
        new = [
            max(
                max((x[i] + w for i in range(n) if (w := to_first[i][k]) is not None), default=0),
                max((x[i] + w - span for i in range(n) if (w := to_last[i][k]) is not None), default=0),
                x[k],
            )
            for k in range(n)
        ]
        if new == x:
            break
        x = new
    return x
