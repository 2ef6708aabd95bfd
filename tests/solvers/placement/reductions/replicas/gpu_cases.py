"""Questions on several GPUs that do the same, and the slot program of GPUs in step."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import lowtide as lt
from lowtide.formulations.linear_program import LinearProgram, ProgramBuilder
from lowtide.formulations.placement.slots.bytes_lp import SlotProgram
from lowtide.instances.transforms.data_parallel import data_parallel
from lowtide.models.problems.placement import Placement
from lowtide.models.units import SECOND
from lowtide.solvers.placement.reductions.replicas.share import Replicas, replicas
from tests.problems.placement import random_graph, tiny_graph, working_set
from tests.solvers.placement.graphs import scaled
from tests.solvers.placement.machines import gpus


def parallel(graph: lt.Graph, many: int, device: int, *, shared: int = 1) -> Placement:
    """Copies of a graph, everything on its GPU at the start."""
    bench = gpus(many, device, shared=shared)
    kinds = [p.kind for p in bench.processors]
    start = dict.fromkeys(("input", "weight"), tuple(kinds))
    return Placement(data_parallel(graph, kinds), bench, start=start)


def found_in(problem: Placement) -> Replicas:
    found = replicas(problem)
    assert found is not None
    return found


@cache
def case(seed: int) -> tuple[lt.Graph, int]:
    graph = scaled(random_graph(seed, 8) if seed % 2 else tiny_graph(seed), 10_000)
    return graph, working_set(graph) + (1 + seed % 6) * 30_000


@cache
def chain(seed: int, percent: int) -> tuple[lt.Graph, int]:
    """A training chain whose tensors have few bytes, and a part of its peak."""
    graph = lt.load(f"gen:skipchain?n=14&seed={seed}")
    graph = replace(graph, tensors=tuple(replace(t, nbytes=t.nbytes // 2_000) for t in graph.tensors))
    peak = lt.Peak(graph).evaluate(tuple(range(len(graph.ops))))
    return graph, max(peak * percent // 100, working_set(graph))


CASES = [
    *(case(seed) for seed in range(12)),
    *(chain(seed, part) for seed in (1, 3, 4, 5) for part in (90, 75)),
]


def exchanging(
    graph: lt.Graph,
    many: int,
    device: int,
    nbytes: int,
    barriers: int = 0,
    *,
    bench: lt.Machine | None = None,
) -> Placement:
    """Copies of a graph that exchange gradients, all on its GPU at the start; room for them besides."""
    bench = gpus(many, device + 2 * nbytes) if bench is None else bench
    kinds = [p.kind for p in bench.processors]
    start = dict.fromkeys(("input", "weight"), tuple(kinds))
    barriers = min(barriers, len(graph.ops) - 1)
    return Placement(data_parallel(graph, kinds, barriers, nbytes), bench, start=start)


def in_step_program(slots: SlotProgram, many: int) -> LinearProgram:
    """Return the program of several lanes in step: rows of each, channels together, the same stalls."""
    one, stalls = slots.program, set(slots.stalls)
    builder = ProgramBuilder(bytes_unit=1, time_unit=1)
    number = [
        [
            builder.variable(one.upper[j], one.unit[j], one.cost[j]) if g == 0 or j not in stalls else j
            for j in range(len(one.upper))
        ]
        for g in range(many)
    ]
    for r, (low, scale) in enumerate(zip(one.low, one.scale, strict=True)):
        terms = [(one.column[k], one.value[k]) for k in range(one.first[r], one.first[r + 1])]
        if any(value == -SECOND for _, value in terms):  # a channel
            length = [(j, value) for j, value in terms if j in stalls]
            flows = [(number[g][j], value) for g in range(many) for j, value in terms if j not in stalls]
            builder.row(flows + length, low, scale)
        else:
            for g in range(many):
                builder.row([(number[g][j], value) for j, value in terms], low, scale)
    return builder.done()
