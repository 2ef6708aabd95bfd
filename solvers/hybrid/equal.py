"""`equal`: stages of the same degrees and equal numbers of layers, as planners before Piper take them.

As PipeDream-2BW's planner does (Narayanan and others, ICML 2021), with tensor parallelism added, as Piper's
authors compare it: all stages have the same d and t, all layers run again or none, and each stage has as
many of the layers that repeat (the kind of op of which there are most) as any other, or one more in the
last stages; what the first of them need goes before, all else behind. If no kind repeats, all layers count.
Layers that do not repeat may have stages of their own, the first and the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...formulations.hybrid.data import Degree, HybridData, hybrid_data
from ...models.derived.precedence import bits
from ...models.problems.hybrid import Hybrid
from ...models.split import Split
from ..context import Context, Outcome


def solve_equal(problem: Hybrid, context: Context) -> Outcome:
    """Offer the best of these stages that are valid."""
    data = hybrid_data(problem)
    context.careful = True
    for stage in _cuts(problem, data):
        count = max(stage) + 1
        for t, degree in data.degrees.items():
            for d in degree.exchanged:
                if context.late():
                    return Outcome(reason="time")
                if count * d * t > problem.processors or count * d > problem.micro:
                    continue
                for modes in _modes(problem, degree):
                    kinds, replicas = (f"t{t}",) * count, (d,) * count
                    with context.attempt():
                        context.offer(Split(stage=stage, kinds=kinds, replicas=replicas, modes=modes))
    return Outcome(detail="" if context.answer else "no stages of the same degrees are valid")


def _cuts(problem: Hybrid, data: HybridData) -> Iterator[tuple[int, ...]]:
    """Yield the stages of layers: so many of equal numbers, without and with own stages for the others."""
    kinds = Counter(op.kind for op in problem.graph.ops)
    kind, most = max(kinds.items(), key=lambda pair: pair[1])
    blocks = [i for i, op in enumerate(problem.graph.ops) if op.kind == kind or most == 1]
    needed = set(blocks)
    for i in range(data.n - 1, -1, -1):
        if i in needed:
            needed.update(bits(data.before[i]))
    ahead = needed.difference(blocks)
    behind = set(range(data.n)) - needed
    for apart in (False, True):
        first = int(apart and bool(ahead))
        for count in range(1, min(len(blocks), problem.processors - first) + 1):
            each, more = divmod(len(blocks), count)
            sizes = [each + (s >= count - more) for s in range(count)]
            stage = dict.fromkeys(ahead, 0)
            stage |= dict.fromkeys(behind, first + count - (not apart))
            order = iter(blocks)
            for s, size in enumerate(sizes, first):
                stage |= {next(order): s for _ in range(size)}
            yield tuple(stage[i] for i in range(data.n))


def _modes(problem: Hybrid, degree: Degree) -> Iterator[tuple[int, ...]]:
    """Yield the fastest modes in which no layer that can runs again, and those in which each does."""
    if not all(degree.modes):
        return
    for again in (False, True):
        yield tuple(
            min(row, key=lambda x: (problem.all_needs[i][x.number].again != again, x.time)).number
            for i, row in enumerate(degree.modes)
        )
