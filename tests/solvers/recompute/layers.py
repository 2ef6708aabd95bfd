"""Training steps of layers in little memory, and how often a method needs second runs."""

from __future__ import annotations

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from tests.oracles.brute_recompute import fastest_recomputation

STEPS = (
    "gen:chain?n=6,train=1,seed={}",
    "gen:skipchain?n=7,train=1,seed={}",
    "gen:pumpkin?paths=2,length=2,train=1,seed={}",
    "gen:sp?n=7,train=1,seed={}",
)


def tight(graph: lt.Graph, percent: int) -> lt.Recompute:
    """The graph with so much of what the reference order needs beyond the largest op."""
    whole = lt.Recompute(graph)
    least = max(whole.start_bytes, *(whole.least_bytes(i) for i in range(len(graph.ops))))
    most = sequential_memory(graph).reference_peak
    return lt.Recompute(graph, memory=least + (most - least) * percent // 100)


def layers(sizes: list[tuple[int, int]], ns: list[tuple[int, int]]) -> lt.Graph:
    """A step of layers of one forward and one backward each: (output, saved) bytes, and durations.

    The backward of a layer reads what its forward saved, and the gradient; the loss is the last layer.
    """
    n = len(sizes)
    tensors, ops = [lt.Tensor(name="x", nbytes=3, initial=True, final=True)], []
    for k, (output, saved) in enumerate(sizes):
        tensors += [
            lt.Tensor(name=f"a{k}", nbytes=output),
            lt.Tensor(name=f"s{k}", nbytes=saved),
            lt.Tensor(name=f"d{k}", nbytes=output, final=k == 0),
        ]
        reads = (0,) if k == 0 else (3 * k - 2,)
        ops.append(lt.Op(name=f"f{k}", reads=reads, writes=(3 * k + 1, 3 * k + 2), duration_ns=ns[k][0]))
    for k in reversed(range(n)):
        behind = (3 * k + 6,) if k + 1 < n else (3 * k + 1,)
        op = lt.Op(name=f"b{k}", reads=(3 * k + 2, *behind), writes=(3 * k + 3,), duration_ns=ns[k][1])
        ops.append(op)
    return lt.Graph(name="layers", tensors=tuple(tensors), ops=tuple(ops))


def slower_than_once(graphs: list[lt.Graph], share: int, method: str, options: dict[str, str]) -> int:
    """Return on how many graphs a method needs more than each op once; it is never below the optimum."""
    again = 0
    for graph in graphs:
        problem = tight(graph, share)
        found = lt.solve(problem, method, time_limit=None, options=options)
        if found.objective is None:
            continue
        assert found.verification is not None
        assert not found.verification.violations
        best = fastest_recomputation(graph, problem.machine)
        assert best is not None
        assert problem.least_time <= best <= found.objective
        again += found.objective > problem.least_time
    return again
