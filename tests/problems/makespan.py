"""Small makespan problems, identical processors and several kinds, for tests against exhaustive search.

Imported as ``from tests.problems.makespan import ...``.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_graph

KINDS = ("cpu", "gpu", "npu")


def problem_of_identical(seed: int) -> lt.Makespan:
    """Return a problem of 4 to 6 ops; its memory is one byte too small to just enough and a few more."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=4, max_ops=6)
    peak = brute_force_peak(graph)[0]
    memory = rng.choice([max(0, peak - 1), peak, peak + 1, peak + 3, None])
    return lt.Makespan(graph, processors=rng.randint(1, 3), memory=memory)


def problem_with_kinds(seed: int) -> lt.Makespan:
    """Return 3 to 5 ops on one to three kinds; the memory is a byte too small to a few too large, or none."""
    rng = Random(seed)
    kinds = tuple(sorted(rng.sample(KINDS, rng.choice((1, 2, 2, 3)))))
    graph = random_graph(rng, min_ops=3, max_ops=5)
    graph = replace(graph, ops=tuple(replace(op, modes=_modes(rng, kinds)) for op in graph.ops))
    counts = {kind: rng.choice((1, 1, 2)) for kind in kinds}
    try:
        problem = lt.Makespan(graph, processors=counts)
    except lt.InstanceError:  # a kind on which no op can run
        return problem_with_kinds(seed + 1_000_000)
    peak = brute_force_peak(problem.relaxed)[0]
    memory = rng.choice([max(0, peak - 1), peak, peak + 1, peak + 3, None])
    return replace(problem, memory=memory)


def optimum(problem: lt.Makespan) -> int | None:
    """Return the least makespan by exhaustive search, None if there is no schedule."""
    return fastest_schedule(problem.graph, problem.kinds, problem.memory)


def _modes(rng: Random, kinds: tuple[str, ...]) -> tuple[lt.Mode, ...]:
    """Return one to three modes, at least one of them for a kind that there is."""
    modes = []
    for k in range(rng.choice((1, 1, 2, 2, 3))):
        allowed = rng.sample(KINDS, rng.randint(0, 2)) if k else rng.sample(kinds, rng.randint(0, 1))
        modes.append(
            lt.Mode(
                duration_ns=rng.randint(1, 6),
                workspace=rng.choice((0, 0, rng.randint(0, 5))),
                processors=tuple(sorted(allowed)),
            )
        )
    return tuple(modes)
