"""`two-step`: an order first, then addresses for it, as deployed systems do; every pair of published rules.

The orders are methods of `peak`. The allocations, each by falling keys:

==================  ====================================================================================
``tflm``            TensorFlow Lite Micro, ``GreedyMemoryPlanner``: size, of equals the latest first, each
                    into the lowest hole; no in-place pairs
``size``            "greedy by size" (Pisarchyk and Lee, 2020; TensorFlow Lite): the tightest hole
``breadth``         "greedy by breadth" (the same)
``usmp-size``       TVM, unified static memory planner, ``greedy_by_size``: size, then conflicts, each on top
                    of all that it meets, holes stay empty; no in-place pairs
``usmp-conflicts``  TVM, ``greedy_by_conflicts``: conflicts, then size, likewise
``xla``             XLA, ``GlobalDecreasingSizeBestFitHeap``: size or lifetime, what is lower; tightest holes
``run-time``        an allocator at run time, the tightest hole (as PyTorch's, without rounding)
``auto``            `offsets auto`
==================  ====================================================================================

TVM breaks the last ties by names, we by numbers, the latest first. Sources of the rules: tflite-micro,
``memory_planner/greedy_memory_planner.cc``; TVM, ``src/tir/usmp/algo/greedy.cc``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...formulations.arena.data import arena_data
from ...formulations.arena.stacks import stacks
from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers
from ...models.problems.arena import Arena
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..offsets.components import Rule, addresses
from ..offsets.first_come import place_as_they_come
from ..offsets.greedy import greedy_keys, placer
from ..offsets.layout import layout
from ..peak.auto import solve_auto as solve_peak
from ..peak.bounds.cut_bound import working_set_bound
from .allocating import allocate


def solve_two_step(problem: Arena, context: Context) -> Outcome:
    """Offer the addresses that one rule gives the order of another."""
    data = arena_data(problem)
    order = order_by(context.options["order"], problem, context)
    name = context.options["allocation"]
    if name == "auto":
        context.offer(data.answer(order, addresses(data.buffers(order), ALLOCATIONS["size"])))
        allocate(context, data, order, context.remaining())
    else:
        context.offer(data.answer(order, addresses(data.buffers(order), ALLOCATIONS[name])))
    return Outcome()


def order_by(name: str, problem: Arena, context: Context, seconds: float = math.inf) -> Sequence[int]:
    """Return the order of a method of `peak`, the reference order if it finds none."""
    from ..peak.methods import ROOM

    peak = Peak(problem.graph)
    inner = context.inner(peak, min(seconds, context.remaining() / 2), "order: ")
    if name == "auto":
        solve_peak(peak, inner)
    else:
        next(method for method in ROOM.methods if method.name == name).load()(peak, inner)
    return range(len(problem.graph.ops)) if inner.answer is None else inner.answer


def raise_cheap_bound(problem: Arena, context: Context) -> None:
    """Raise the bound to what single ops need."""
    least = stacks(problem)
    context.raise_bound(least.to_height(working_set_bound(least.graph)), kind="working set")


def _placed(data: OffsetsData, keys: Sequence[Integers], best_fit: bool) -> Integers:
    """Place by falling keys, the most important first."""
    none = np.full(data.count, -1, dtype=np.int64)
    return placer(data)(layout(data), np.lexsort([-key for key in reversed(keys)]), none, best_fit)


def _by(name: str) -> Rule:
    return lambda data: _placed(data, (greedy_keys(data)[name], data.size, -data.first), best_fit=True)


def _tflm(data: OffsetsData) -> Integers:
    alone = replace(data, inplace=data.inplace[:0])
    return _placed(alone, (data.size, data.numbers), best_fit=False)


def _usmp(*names: str) -> Rule:
    def rule(data: OffsetsData) -> Integers:
        keys = [*(greedy_keys(data)[name] for name in names), data.numbers]
        offsets = np.full(data.count, -1, dtype=np.int64)
        for i in np.lexsort([-key for key in reversed(keys)]).tolist():
            meets = (offsets >= 0) & (data.first < data.last[i]) & (data.last > data.first[i])
            top = int((offsets + data.size)[meets].max(initial=0))
            offsets[i] = -(-top // data.alignment[i]) * data.alignment[i]
        return offsets

    return rule


def _xla(data: OffsetsData) -> Integers:
    return min((_by(name)(data) for name in ("size", "lifetime")), key=data.height)


ALLOCATIONS: dict[str, Rule] = {
    "tflm": _tflm,
    "size": _by("size"),
    "breadth": _by("breadth"),
    "usmp-size": _usmp("size", "conflicts"),
    "usmp-conflicts": _usmp("conflicts", "size"),
    "xla": _xla,
    "run-time": lambda data: place_as_they_come(data, best_fit=True),
}
"""What gives the buffers of one order their offsets."""
