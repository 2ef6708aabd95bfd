"""What outlives a period but is only read, and must start outside the device: for planners, an input.

Such a tensor is in its start tiers at the beginning of every period, so its copy there never leaves. For a
planner that lets inputs reappear in their start tier, it is an input that dies behind its last access; in the
plan its copies there then stay. (If a plan counted on that room, the verifier says so.) Tiers that the device
does not see are left out before that (`lowtide.solvers.placement.reductions.near`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....models.plan import Plan
from ....models.problems.placement import Placement
from .near import without_far_tiers


def as_inputs(problem: Placement) -> tuple[Placement, Callable[[Plan], Plan]]:
    """Return the problem with such tensors as inputs, and what makes a plan of it one of the first problem.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:chain?n=5&seed=1")
    >>> problem = lt.Placement(graph, lt.load_machine("a100-40g-pcie3"), periodic=True)
    >>> as_inputs(problem)[0] is problem
    True
    """
    problem, whole = without_far_tiers(problem)
    graph, device = problem.graph, problem.machine.tiers[0].name
    written = {t for op in graph.ops for t in op.writes}
    only_read = {t for op in graph.ops for t in op.reads} - written
    inputs = {
        t
        for t, tensor in enumerate(graph.tensors)
        if tensor.initial and tensor.final and t in only_read
        if device not in problem.may_start(tensor.kind)
    }
    if not problem.periodic or not inputs:
        return problem, whole
    tensors = tuple(replace(x, final=x.final and t not in inputs) for t, x in enumerate(graph.tensors))

    def restored(plan: Plan) -> Plan:
        kept = {(r.tensor, r.tier) for r in plan.start if r.tensor in inputs}
        frees = tuple(free for free in plan.frees if (free.tensor, free.tier) not in kept)
        return whole(replace(plan, frees=frees, graph_sha256=graph.sha256))

    return replace(problem, graph=replace(graph, tensors=tensors)), restored
