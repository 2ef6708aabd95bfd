"""Questions of two devices, and their optima by enumeration."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from tests.oracles.brute_rates import fastest_at_any_rates


def tiny(rng: Random, most: int) -> lt.Graph:
    """Return a graph of tensors that are initial or written once, with orders and workspaces."""
    tensors = [
        lt.Tensor(
            name=f"x{k}", nbytes=rng.randint(0, 3), initial=True, final=rng.random() < 0.5, kind="input"
        )
        for k in range(rng.randint(0, 2))
    ]
    ops: list[lt.Op] = []
    for i in range(rng.randint(1, most)):
        reads = tuple(t for t in range(len(tensors)) if rng.random() < 0.5)
        writes = range(len(tensors), len(tensors) + rng.choice((0, 1, 1, 1, 2)))
        tensors += [
            lt.Tensor(name=f"t{t}", nbytes=rng.randint(0, 4), final=rng.random() < 0.3) for t in writes
        ]
        after = tuple(j for j in range(i) if rng.random() < 0.15)
        ops.append(
            lt.Op(
                name=f"o{i}",
                duration_ns=rng.randint(1, 4),
                reads=reads,
                writes=tuple(writes),
                after=after,
                workspace=rng.choice((0, 0, 1, 2)),
                share=rng.randint(1, 4),
            )
        )
    return lt.Graph(name="tiny", tensors=tuple(tensors), ops=tuple(ops))


def question(seed: int, *, most: int = 4, memory: bool = False) -> lt.Streams:
    rng = Random(seed)
    streams = rng.choice((1, 1, 1, 2))
    return lt.Streams(
        tiny(rng, most if streams == 1 else min(most, 3)),
        devices=2,
        streams=streams,
        parts=4,
        link=10**9,
        latency_ns=rng.choice((0, 0, 1)),
        memory=rng.randint(1, 12) if memory else None,
    )


def rates_question(seed: int) -> tuple[lt.Streams, int]:
    """Return a question of two devices under proportional contention, and its optimum by enumeration."""
    plain = question(seed, most=3 if seed % 3 else 4)
    if seed % 2:  # small ops, which a number of streams holds back
        ops = (replace(op, share=1, reads=(), after=op.after[:1]) for op in plain.graph.ops)
        plain = replace(plain, graph=replace(plain.graph, ops=tuple(ops)))
    problem = replace(plain, streams=(None, 1, 2)[seed % 3], contention="proportional")
    streams, latency = problem.streams, problem.latency_ns
    return problem, fastest_at_any_rates(problem.graph, 2, streams, 4, link=1, latency_ns=latency)
