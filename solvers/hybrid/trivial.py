"""All layers in one stage: the split that `auto` begins with."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.hybrid_rules import degree_of
from ...models.problems.hybrid import Hybrid
from ...models.split import Split


def one_stage(problem: Hybrid) -> Iterator[Split]:
    """Yield one stage for each tensor degree, in the fastest modes, then in those of fewest bytes."""
    ops, needs = problem.graph.ops, problem.all_needs
    kinds = {kind for op in ops for mode in op.all_modes for kind in mode.processors or ("t1",)}
    most = min(problem.tensor or problem.processors, problem.processors)
    for t, kind in sorted((degree_of(kind) or 0, kind) for kind in kinds):
        if t > most:
            continue
        there = [
            [m for m, mode in enumerate(op.all_modes) if kind in (mode.processors or ("t1",))] for op in ops
        ]
        for i, suited in enumerate(there):
            again = [m for m in suited if needs[i][m].again]
            if problem.recompute == "none":
                there[i] = [m for m in suited if m not in again]
            elif problem.recompute == "all" and again:
                there[i] = again
        if not all(there):
            continue
        for by_bytes in (False, True):
            modes = tuple(_cheapest(problem, i, suited, by_bytes) for i, suited in enumerate(there))
            yield Split(stage=(0,) * len(ops), kinds=(kind,), replicas=(1,), modes=modes)


def _cheapest(problem: Hybrid, i: int, modes: list[int], by_bytes: bool) -> int:
    needs, all_modes = problem.all_needs[i], problem.graph.ops[i].all_modes
    costs = [(needs[m].each + needs[m].once, all_modes[m].duration_ns, m)[1 - by_bytes :] for m in modes]
    return min(costs)[-1]
