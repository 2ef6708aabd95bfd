"""Published schedules of equal stages in closed form: GPipe, 1F1B, interleaved 1F1B.

Each B is followed by its W. The stages of a device are its *chunks*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...formulations.model import BuildTimeout, ticker
from ...formulations.pipeline.bounds import lower_bound
from ...models.derived.stages import Key, PipelineOps
from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline
from ..context import Context, Outcome

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
        return offer_orders(problem, context, RULES[context.method](problem.line))
    except BuildTimeout:
        return Outcome(reason="time")


def offer_orders(problem: Pipeline, context: Context, orders: Orders) -> Outcome:
    """Offer the best times of orders whose activations fit the memory; else say which do not."""
    for i, peak in enumerate(peaks(problem.line, orders)):
        if problem.memory is not None and peak > problem.memory:
            return Outcome(detail=f"device {i} would hold {peak} bytes, of {problem.memory}")
    context.offer(problem.timed(orders, ticker(lambda: context.expired)))
    return Outcome()


def peaks(line: PipelineOps, orders: Orders) -> list[int]:
    """Return the most bytes on each device, which depends on the order of its ops alone."""
    found = []
    for order in orders:
        used = peak = 0
        for i in order:
            kind, s, _ = line.keys[i]
            x = line.stages[s]
            used += x.activation if kind == "F" else 0
            peak = max(peak, used)
            used -= {"F": 0, "B": x.activation - x.kept, "W": x.kept}[kind]
        found.append(peak)
    return found


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
    if len(line.stages) > line.devices:
        raise UsageError(
            "method 1f1b: found several stages on a device, expected one (interleaved has several)"
        )
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


def _orders_of(line: PipelineOps, keys: Iterator[Key] | list[Key]) -> list[int]:
    """Return the ops of F and B, each B followed by its W."""
    found = []
    for kind, s, j in keys:
        found.append(line.op[kind, s, j])
        if kind == "B" and line.stages[s].weight:
            found.append(line.op["W", s, j])
    return found


RULES: dict[str, Callable[[PipelineOps], Orders]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
}
"""By method."""
