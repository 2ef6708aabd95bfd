"""Edges that bound parallel memory: the MILP.

It knows only edges that one flow certifies. These are all where no tensor has several last accesses: any
flow network is then that of `lowtide.formulations.parallel.network` without (5). Elsewhere the least critical
path of theirs is no bound on that of all edges, and none is claimed beyond the path without edges.
"""

from __future__ import annotations

from functools import partial

from ...formulations.parallel import edges_milp
from ...formulations.parallel import network as parallel_cut
from ...models.errors import UsageError
from ...models.problems.memory_edges import Edges, MemoryEdges
from ..context import Context, Outcome
from ..engines.model import solve_model
from ..method import Stated, Value
from .edges import raise_path_bound
from .flow import largest_cut

_SETTINGS = (
    {"mip_feasibility_tolerance": "1e-9"},
    {"presolve": "off"},
    {"mip_feasibility_tolerance": "1e-7", "presolve": "off"},
)
"""Of HiGHS 1.12, one after the other while it ends with "Solve error": where rows with large factors are
violated by just its tolerance, it does not stand by its optimum; and with a few models after presolve."""


def solve_milp(problem: MemoryEdges, context: Context) -> Outcome:
    """Solve the MILP; option ``solver`` names another solver that Pyomo finds."""
    if problem.processors is not None:
        raise UsageError(
            f"method milp of memory-edges: found processors {problem.processors}, expected any number: "
            "its flow knows no number of processors; auto, cpsat, min-levels and respect-order do"
        )
    if detail := refused(problem):
        raise UsageError(f"method milp of memory-edges: {detail}; auto and cpsat do")
    raise_path_bound(problem, context)
    shared = len(parallel_cut.build(problem.graph).shared)
    run = context.inner(problem, context.remaining(), "") if shared else context
    if shared and context.answer is not None:
        run.offer(context.answer)
    outcome = solve_model(
        context,
        edges_milp,
        lambda: edges_milp.build(problem.graph, problem.bound, expired=lambda: context.expired),
        what="the MILP of edges",
        size=edges_milp.size(problem.graph),
        decode=partial(edges_of, problem, {}),
        to_objective=lambda ns: ns,
        run=run,
        settings=_SETTINGS,
    )
    if not shared:
        return outcome
    if run.answer is not None:
        context.offer(run.answer)
    detail = "no edges let one flow prove the bound" if outcome.infeasible else outcome.detail
    tensors = f"{shared} tensor{'s' * (shared > 1)} with several last accesses"
    return Outcome(reason=outcome.reason, detail=f"{detail}; {tensors}: other edges may be better")


def refused(problem: MemoryEdges) -> str:
    """Return why the MILP cannot be stated; empty if it can."""
    for amount, unit in zip(edges_milp.totals(problem.graph), ("bytes", "ns"), strict=True):
        if amount >= edges_milp.LARGEST_TOTAL:
            return (
                f"found {amount} {unit} in all, expected less than 2^49 (solvers take larger factors for "
                "mistakes)"
            )
    return ""


def edges_of(
    problem: MemoryEdges, stated: Stated, built: edges_milp.BuiltEdges, value: Value
) -> Edges | None:
    """Return the edges of a solution with the flow that proves them; None if it proves too little."""
    edges = edges_milp.decode(built, problem.graph, value)
    flow = largest_cut(parallel_cut.build(problem.graph, edges)).flow
    return Edges(edges=tuple(edges), flow=flow) if flow.value() <= problem.bound else None
