"""Questions of streams whose ops run as soon as they can."""

from __future__ import annotations

from random import Random

import lowtide as lt
from tests.solvers.streams.stages import with_shares
from tests.strategies import random_graph


def question(seed: int) -> lt.Streams:
    rng = Random(seed)
    graph = random_graph(rng, max_ops=6, max_duration=9)
    return lt.Streams(
        with_shares(graph, rng),
        contention=rng.choice(("none", "proportional")),
        parts=4,
        sync_ns=rng.choice((0, 0, 1, 3)),
        memory=rng.choice((None, None, rng.randint(0, 14))),
        streams=rng.choice((None, None, 1, 2, 3)),
    )
