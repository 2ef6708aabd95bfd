"""Published schedules that are orders in closed form: GPipe, 1F1B, interleaved 1F1B, ZB-H1, ZB-H2, ZB-V.

Each B is followed by its W, but in the last three. The stages of a device are its *chunks*. `RULES` has these
and those of `lowtide.solvers.pipeline.blocks` and `lowtide.solvers.pipeline.lists`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate

from ...formulations.model import BuildTimeout, ticker
from ...formulations.pipeline.bounds import lower_bound
from ...models.derived.stages import Key, PipelineOps
from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline
from ..context import Context, Outcome
from .blocks import v_orders
from .lists import list_orders

Orders = list[list[int]]
"""By device, its ops in order."""


def raise_first_bound(problem: Pipeline, context: Context) -> None:
    """Raise the bound to the best one in closed form."""
    value, kind = lower_bound(problem)
    context.raise_bound(value, kind=kind)


def solve_rule(problem: Pipeline, context: Context) -> Outcome:
    """Offer the schedule that the method is named after."""
    raise_first_bound(problem, context)
    try:
        return offer_rule(problem, context, context.method)
    except BuildTimeout:
        return Outcome(reason="time")


def offer_rule(problem: Pipeline, context: Context, rule: str) -> Outcome:
    """Offer the best times of a rule's orders whose activations fit the memory; else say which do not.

    Raises
    ------
    UsageError
        If the rule is for stages that are placed otherwise.
    BuildTimeout
        If the time is up.
    """
    tick = ticker(lambda: context.expired)
    detail = "the memory is too small for its turns"
    for orders in RULES[rule](problem, tick):
        most = peaks(problem.line, orders)
        if problem.memory is None or max(most) <= problem.memory:
            context.offer(problem.timed(orders, tick))
            detail = ""
        elif detail:
            i = most.index(max(most))
            detail = f"device {i} would hold {most[i]} bytes, of {problem.memory}"
    return Outcome(detail=detail)


def peaks(line: PipelineOps, orders: Orders) -> list[int]:
    """Return the most bytes on each device, which depends on the order of its ops alone."""
    return [
        fixed + max(accumulate(map(line.change, order)))
        for fixed, order in zip(line.fixed, orders, strict=True)
    ]


def gpipe(line: PipelineOps) -> Orders:
    """Return the orders of GPipe: all forwards, then all backwards.

    Source: Huang and others, NeurIPS 2019, section 2.3.
    """
    m = range(line.micro)
    return [
        _orders_of(
            line,
            [*(("F", s, j) for s in chunks for j in m), *(("B", s, j) for s in chunks[::-1] for j in m)],
        )
        for chunks in line.chunks
    ]


def one_f_one_b(line: PipelineOps) -> Orders:
    """Return the orders of 1F1B (PipeDream-Flush): device i starts with at most p - i forwards.

    Source: Narayanan and others, ICML 2021 (PipeDream-2BW), section 3.2.
    """
    _one_stage_each(line, "1f1b")
    return _alternating(line, lambda i: line.devices - 1 - i, lambda k: (0, k), lambda k: (0, k))


def interleaved(line: PipelineOps) -> Orders:
    """Return the orders of interleaved 1F1B: of v chunks, p micro-batches at a time each.

    Source: Narayanan and others, SC 2021 (Megatron-LM), section 2.2, and the warm-up of its public code.
    """
    p, m = line.devices, line.micro
    v = len(line.stages) // p
    if [x.device for x in line.stages] != [*range(p)] * v or m % p:
        raise UsageError(
            f"method interleaved: found {m} micro-batches, or stages that do not go round the {p} devices, "
            f"expected a multiple of {p}, and stage s on device s mod {p}"
        )

    def forward(k: int) -> tuple[int, int]:
        group, place = divmod(k, p * v)
        return place // p, group * p + place % p

    def backward(k: int) -> tuple[int, int]:
        chunk, j = forward(k)
        return v - 1 - chunk, j

    return _alternating(line, lambda i: 2 * (p - 1 - i) + (v - 1) * p, forward, backward)


Unit = Callable[[int], tuple[int, int]]
"""Chunk and micro-batch of the k-th F or B of a device."""


def _alternating(line: PipelineOps, warm_up: Callable[[int], int], forward: Unit, backward: Unit) -> Orders:
    """Return orders of some forwards, then F and B in turn, then the other backwards."""

    def order(i: int, chunks: tuple[int, ...]) -> Iterator[Key]:
        total = line.micro * len(chunks)
        ahead = min(warm_up(i), total)
        for k in range(total + ahead):
            for kind, unit, at in (("F", forward, k), ("B", backward, k - ahead)):
                if 0 <= at < total:
                    chunk, j = unit(at)
                    yield kind, chunks[chunk], j

    return [_orders_of(line, order(i, chunks)) for i, chunks in enumerate(line.chunks)]


def zero_bubble(line: PipelineOps, k: int) -> Orders:
    """Return the orders of ZB-H1 (k = p), ZB-H2 (k = 2 p - 1) and between: k activations on each device.

    Device i starts with as many F as keep it busy until its first B, 2 (p - i) - 1, but at most k - i. Each B
    is followed by the W that leaves k activations with the next F.

    Source: Qi and others, "Zero bubble pipeline parallelism", ICLR 2024, sections 2.1 and 2.2.
    """
    _one_stage_each(line, "zb-h1 and zb-h2")
    if not all(x.weight for x in line.stages):
        raise UsageError("method zb-h1 or zb-h2: found a stage without W, which they put off")
    p, m = line.devices, line.micro
    orders = []
    for i in range(p):
        ahead = max(min(2 * (p - i) - 1, k - i), 1)
        late = k - ahead
        order = [("F", i, j) for j in range(min(ahead, m))]
        for j in range(m + late):
            order += [("B", i, j)] * (j < m)
            order += [("W", i, j - late)] * (j >= late)
            order += [("F", i, j + ahead)] * (j + ahead < m)
        orders.append([line.op[key] for key in order])
    return orders


def zero_bubble_v(line: PipelineOps) -> Orders:
    """Return the orders of ZB-V, at most 2 p activations of a stage on a device; none for m < p.

    Stages go there and back. Device i starts with the F on the way there that are done until the first
    micro-batch comes back; i times F on the way back and there in turn; p - i times F, B and W on the way
    back. Then F, B and W in turn, on the way there and on the way back, until no F is left; and B on both
    ways in turn, each of the last p - i with the W that waits longest. In slots of equal length no device is
    idle between its first F and its last W, if there are 2 p micro-batches.

    Source: Qi and others, "Zero bubble pipeline parallelism", ICLR 2024, section 6. Their search fills gaps
    one after the other; with slots of equal length it comes to F and B in this order.
    """
    p, m = line.devices, line.micro
    there, back = range(2)
    orders: Orders = []
    for i, chunks in enumerate(line.chunks if m >= p else ()):
        turns = [("F", there)] * (2 * (p - i) - 1) + [("F", back), ("F", there)] * i
        turns += [("F", back), ("B", back), ("W", back)] * (p - i)
        turns += [(kind, way) for way in (there, back) for kind in "FBW"] * (m - p)
        turns += [("B", there), ("B", back)] * i + [("B", there), ("W", there)] * (p - i)
        following = Counter[tuple[str, int]]()
        late: list[int] = []
        order: list[int] = []
        for kind, way in turns:
            if kind == "W":
                order += late[:1]
                del late[:1]
                continue
            s, j = chunks[way], following[kind, way]
            if j < m:
                following[kind, way] += 1
                order.append(line.op[kind, s, j])
                late += [line.op["W", s, j]] if kind == "B" and line.stages[s].weight else []
        orders.append(order + late)
    return orders


def _one_stage_each(line: PipelineOps, method: str) -> None:
    if [x.device for x in line.stages] != [*range(line.devices)]:
        raise UsageError(
            f"method {method}: found stages placed otherwise, expected stage s on device s alone"
        )


def _orders_of(line: PipelineOps, keys: Iterator[Key] | list[Key]) -> list[int]:
    """Return the ops of F and B, each B followed by its W."""
    orders = []
    for kind, s, j in keys:
        orders.append(line.op[kind, s, j])
        if kind == "B" and line.stages[s].weight:
            orders.append(line.op["W", s, j])
    return orders


Tick = Callable[[], object]


def _only(rule: Callable[[PipelineOps], Orders]) -> Callable[[Pipeline, Tick], Iterable[Orders]]:
    """Return a rule of the stages alone, that has one schedule."""
    return lambda problem, tick: [rule(problem.line)]


def _within(problem: Pipeline, tick: Tick) -> Iterable[Orders]:
    """Return the schedule of `zero_bubble` for the most activations that fit."""
    pairs = [(problem.room[x.device], x.activation) for x in problem.line.stages]
    some = [room // most for room, most in pairs if room is not None and most]
    k = max(min([2 * problem.line.devices - 1, *some]), 0)
    return [zero_bubble(problem.line, k)] if k else []


def _there_and_back(problem: Pipeline, tick: Tick) -> Iterator[Orders]:
    """Yield the schedules of V-ZB's block, and that of ZB-V, which holds as much."""
    yield from v_orders("v-zb", problem, tick)
    if orders := zero_bubble_v(problem.line):
        yield orders


RULES: dict[str, Callable[[Pipeline, Tick], Iterable[Orders]]] = {
    "gpipe": _only(gpipe),
    "1f1b": _only(one_f_one_b),
    "interleaved": _only(interleaved),
    "zb-h1": _only(lambda line: zero_bubble(line, line.devices)),
    "zb-h2": _only(lambda line: zero_bubble(line, 2 * line.devices - 1)),
    "zb": _within,
    "v-min": partial(v_orders, "v-min"),
    "v-half": partial(v_orders, "v-half"),
    "v-zb": _there_and_back,
    "list": list_orders,
}
"""By method: the orders of schedules, of which the best counts."""
