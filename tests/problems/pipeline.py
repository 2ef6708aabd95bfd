"""Small pipelines, for tests against exhaustive search.

Imported as ``from tests.problems.pipeline import ...``.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt


def small(seed: int, fixed: int = 0) -> lt.Pipeline:
    """Return a question on two devices that exhaustive search answers, of stages that differ.

    With `fixed`, stages have up to so many bytes on their devices all the time.
    """
    rng, other = Random(seed), Random(-seed)
    v, m, w = rng.choice(((1, 3, 0), (1, 2, 1), (1, 2, 1), (2, 1, 1)))
    stages = [
        lt.Stage(
            device=s if s < 2 else rng.choice((s - 2, 3 - s)),
            forward=rng.randint(1, 3),
            backward=rng.randint(1, 3),
            weight=w * rng.randint(1, 3),
            activation=rng.randint(2, 4),
            kept=w * rng.randint(0, 2),
            fixed=other.randint(0, fixed),
        )
        for s in range(2 * v)
    ]
    if len({x.device for x in stages}) < 2:
        stages[-1] = replace(stages[-1], device=1 - stages[0].device)
    memory = rng.randint(3, 7 if m == 3 else 10) if m == 3 or rng.random() < 0.8 else None
    memory = None if memory is None else memory + fixed
    objective = rng.choice(("makespan", "span"))
    return lt.Pipeline(lt.pipeline_graph(stages, m), memory, rng.choice((0, 0, 1, 3)), objective)
