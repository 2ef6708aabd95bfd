"""One micro-batch at a time: the schedule that `auto` begins with."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.problems.pipeline import Pipeline


def one_at_a_time(problem: Pipeline) -> Iterator[tuple[int, ...]]:
    """Yield the starts of ops that run one after the other, all of a micro-batch before the next one.

    There and back through the stages, each B followed by its W: no device ever holds the activations of two
    micro-batches. Between two devices each value waits for the latency.
    """
    line = problem.line
    stages, now = range(len(line.stages)), 0
    starts = [0] * len(problem.graph.ops)
    for j in range(line.micro):
        for kind, order in (("F", stages), ("B", stages[::-1])):
            for s in order:
                for part in (kind, "W") if kind == "B" and line.stages[s].weight else (kind,):
                    op = line.op[part, s, j]
                    starts[op], now = now, now + line.durations[op]
                now += problem.latency_ns
    yield tuple(starts)
