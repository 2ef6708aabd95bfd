"""A question of each problem about one graph, one that has an answer."""

from __future__ import annotations

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.problems.problem import Problem
from lowtide.solvers.registry import ROOMS


def problem_of(name: str, graph: lt.Graph) -> Problem:
    """Return a question about a graph that has an answer."""
    peak = sequential_memory(graph).reference_peak
    if name == "offsets":
        return lt.Offsets(buffers_from_plan(graph, lt.Plan.from_order(graph, range(len(graph.ops)))))
    if name == "placement":
        return lt.Placement(graph, lt.load_machine("a100-40g-pcie3"))
    if name == "makespan":
        return lt.Makespan(graph, 4, peak)
    if name == "distributed":
        return lt.Distributed(graph, lt.load_machine("v100x4-16g-nvlink"))
    if name == "memory-edges":
        return lt.MemoryEdges(graph, peak)
    if name == "recompute":
        return lt.Recompute(graph, peak - 1)
    if name == "minio":
        return lt.MinIO(graph, peak - 1)
    if name == "pipeline":
        return lt.Pipeline(lt.load(f"gen:stages?p=4&m={len(graph.ops) % 50 + 10}"), objective="span")
    if name == "sharding":
        return lt.Sharding(network_of(graph))
    if name == "tiles":
        return lt.Tiles(lt.load_tiles("catalogue:mlsys2026/1"))
    return ROOMS[name].problem.of(graph)


def network_of(graph: lt.Graph) -> lt.CostNetwork:
    """Return a network with two strategies of each op, the dearer one of half the memory."""
    of_ops = [sum(graph.tensors[t].nbytes for t in op.writes) + 2 for op in graph.ops]
    return lt.CostNetwork(
        intervals=tuple((i, i + 2) for i in range(len(of_ops))),
        costs=tuple((1, 2 + i % 3) for i in range(len(of_ops))),
        usages=tuple((used, used // 2) for used in of_ops),
        edges=tuple((i, i + 1) for i in range(len(of_ops) - 1)),
        matrices=((0, 1, 1, 0),) * (len(of_ops) - 1),
        limit=2 * max(of_ops),
        name=graph.name,
    )
