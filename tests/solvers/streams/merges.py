"""Questions of stages with ops that may be merged."""

from __future__ import annotations

from itertools import combinations
from random import Random

import lowtide as lt


def question(seed: int, *, most: int = 6) -> lt.Streams:
    """Return ops in two layers or three, of which those of a layer that read the same may be merged."""
    rng = Random(seed)
    tensors, before = [lt.Tensor(name="in", nbytes=1, initial=True)], [0]
    ops: list[lt.Op] = []
    alike: dict[tuple[int, ...], list[int]] = {}
    for _ in range(rng.randint(2, 3)):
        made = []
        for _ in range(rng.randint(1, 3)):
            if len(ops) == most:
                break
            reads = tuple(before if rng.random() < 0.6 else before[:1])
            alike.setdefault(reads, []).append(len(ops))
            made.append(len(tensors))
            ops.append(
                lt.Op(
                    name=f"o{len(ops)}",
                    reads=reads,
                    writes=(len(tensors),),
                    duration_ns=rng.randint(1, 9),
                    share=rng.randint(1, 4),
                )
            )
            tensors.append(lt.Tensor(name=f"t{len(tensors)}", nbytes=1, final=rng.random() < 0.2))
        before = made or before
    merges = [
        {"ops": [f"o{i}" for i in some], "duration_ns": rng.randint(1, 14), "share": rng.randint(1, 4)}
        for group in alike.values()
        for count in (2, 3)
        for some in combinations(group, count)
    ]
    graph = lt.Graph(name="layers", tensors=tuple(tensors), ops=tuple(ops), provenance={"merges": merges})
    contention = rng.choice(("fluid", "half-serial"))
    return lt.Streams(graph, contention=contention, parts=4, sync_ns=rng.choice((0, 2)))
