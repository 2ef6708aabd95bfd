"""How long the verifier will take for an answer, so that this much of a time limit is kept back for it.

Judging is part of what a user waits for: an answer is lowered to a plan, every action of the plan is looked
at and simulated, flows and allocations are checked. All of that is linear in what is judged but for a
logarithm, so the estimate is a number of microseconds for each op and each of its accesses, or for each
buffer. At most half of the limit is kept back.

The numbers of the rooms are measured on graphs of 30,000 and 100,000 ops, on one core (peak 2.0 to 2.3,
makespan 1.6, minio 4.0, parallel-memory 2.1 to 3.6, offsets 12 a buffer) and rounded up; those of recompute,
placement, distributed and memory-edges are estimates for plans that the verifier has to simulate.
"""

from __future__ import annotations

from ..models.problems.problem import Problem
from .registry import room_of

PART = 0.5
"""Of the limit that is kept back at most."""


def judging_seconds(problem: Problem, time_limit: float | None) -> float:
    """Return the seconds that are kept back for judging an answer; 0 without a limit."""
    return 0.0 if time_limit is None else min(PART * time_limit, estimated_seconds(problem))


def estimated_seconds(problem: Problem) -> float:
    """Return about how many seconds the verifier takes for an answer."""
    graph, buffers = getattr(problem, "graph", None), getattr(problem, "buffers", None)
    judged = 0 if buffers is None else len(buffers.buffers)
    if graph is not None:
        judged += len(graph.ops) + sum(len(op.reads) + len(op.writes) for op in graph.ops)
    return 1e-6 * room_of(problem).judging * judged
