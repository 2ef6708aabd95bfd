"""Random questions for AutoTM's model, and rounds of its form by prices."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.placement.autotm.prices import Dual
from tests.problems.placement import random_graph, tiny_graph, working_set
from tests.solvers.placement.machines import DRAM, PMM, node

FORMS = ("static", "sync", "async")


def with_modes(graph: lt.Graph, seed: int) -> lt.Graph:
    """Let most ops write in PMM as well; some have times for the tiers of all operands instead."""
    rng = Random(seed)
    ops = []
    for op in graph.ops:
        named = op.writes if rng.random() < 0.7 else tuple(sorted({*op.reads, *op.writes}))
        modes = []
        for bits in range(2 ** len(named)):
            tiers = tuple((t, PMM if bits >> i & 1 else DRAM) for i, t in enumerate(named))
            slow = sum(graph.tensors[t].nbytes for t, tier in tiers if tier == PMM)
            modes.append(
                lt.Mode(
                    duration_ns=op.duration_ns // 20 + 1 + rng.randint(0, 3) * slow,
                    workspace=op.workspace if bits == 0 else rng.randint(0, 3),
                    operands=tiers,
                )
            )
        ops.append(replace(op, modes=tuple(modes)) if rng.random() < 0.85 else op)
    return replace(graph, ops=tuple(ops))


def case(seed: int, *, in_place: bool, ops: int | None = None) -> lt.Placement:
    graph = tiny_graph(seed) if ops is None else random_graph(seed, ops)
    graph = replace(graph, ops=tuple(replace(op, duration_ns=op.duration_ns // 50 + 1) for op in graph.ops))
    if in_place:
        graph = with_modes(graph, seed)
    rng = Random(seed)
    room = rng.randint(0, 12) if in_place and rng.random() < 0.7 else working_set(graph) + rng.randint(0, 5)
    start = rng.choice(
        [None, {"input": (DRAM, PMM)}, {"input": (PMM,), "weight": (DRAM,)}, {"weight": (PMM,)}]
    )
    bench = node(room, in_place=in_place, latency=rng.choice((0, 0, 2)))
    return lt.Placement(graph, bench, periodic=rng.random() < 0.3, start=start)


def meet(dual: Dual, problem: lt.Placement, rounds: int = 1) -> None:
    """Look for prices and plans."""
    for _ in range(rounds):
        master = dual.converge(Context(problem=problem))
        dual.plan(Context(problem=problem))
        dual.choose(master, Context(problem=problem))
        dual.adopt()
