"""Edges that bound parallel memory: the MILP, and the method that takes heuristics first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..formulations import memory_edges_milp, parallel_cut
from ..models.errors import UsageError
from ..models.flow_proof import FlowProof
from ..models.memory_edges import Edges, MemoryEdges
from .algorithms.parallel.adding import RULES
from .context import Context, Outcome
from .engines import highs, pyomo_solver
from .engines.memory import refuse_if_too_large
from .memory_edges import offer_rule, order_within, raise_path_bound, with_flow
from .parallel_flow import largest_cut

_OWN_OPTIONS = ("solver",)

_BYTES_PER_TERM = 1500

_LARGEST_MILP = 14
"""Ops up to which `auto` takes the MILP: beyond, it rarely improves on the heuristics within a minute."""


def solve_milp(problem: MemoryEdges, context: Context) -> Outcome:
    """Solve the MILP; option ``solver`` names another solver that Pyomo finds.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.MemoryEdges(lt.load("catalogue:diamond"), bound=10**9), "milp", threads=1)
    >>> result.status, result.edges
    (<Status.OPTIMAL: 'optimal'>, ())
    """
    name = context.options.get("solver", "highs")
    if name == "highs":
        highs.check_options(context.options, _OWN_OPTIONS)
    else:
        pyomo_solver.check_available(name)
    if problem.processors is not None:
        raise UsageError(
            f"method milp of memory-edges: found processors {problem.processors}, expected any number: "
            "its flow knows no number of processors; min-levels, respect-order and auto do"
        )
    what = "the MILP of edges"
    refused = refuse_if_too_large(
        memory_edges_milp.size(problem.graph), bytes_per_term=_BYTES_PER_TERM, context=context, what=what
    )
    if refused is not None:
        return refused
    raise_path_bound(problem, context)
    began = time.perf_counter()
    built = memory_edges_milp.build(problem.graph, problem.bound)
    context.build_seconds = (context.build_seconds or 0.0) + time.perf_counter() - began
    context.progress(f"{what}: built in {context.build_seconds:.2f} s")

    def decode(value: Callable[[Any], float]) -> Edges | None:
        edges = memory_edges_milp.decode(built, problem.graph, value)
        flow = largest_cut(parallel_cut.build(problem.graph, edges)).flow
        return Edges(edges=tuple(edges), flow=flow) if flow.value() <= problem.bound else None

    solve: Callable[..., Outcome] = highs.solve_highs if name == "highs" else pyomo_solver.solve_pyomo

    def run() -> Outcome:
        return solve(
            built.model, context, decode=decode, to_objective=lambda ns: ns, own_options=_OWN_OPTIONS
        )

    outcome = run()
    if name == "highs" and outcome.reason == "crash" and "presolve" not in context.options:
        # HiGHS 1.12 ends a few small models with "Solve error" after presolve, and solves them without.
        context.options = {**context.options, "presolve": "off"}
        outcome = run()
    if outcome.infeasible and parallel_cut.build(problem.graph).shared:
        return Outcome(detail="no edges let a flow prove the bound; others may suffice (shared tensors)")
    return outcome


def solve_auto(problem: MemoryEdges, context: Context) -> Outcome:
    """Take the best of the four heuristics and, on small graphs, the MILP.

    Examples
    --------
    >>> import lowtide as lt
    >>> lt.solve(lt.MemoryEdges(lt.load("catalogue:harpoon"), bound=2), threads=1).status
    <Status.INFEASIBLE: 'infeasible'>
    """
    raise_path_bound(problem, context)
    if _none_needed(problem, context):
        return Outcome(detail="no edges are needed")
    found = order_within(problem, context)
    if isinstance(found, Outcome) and found.infeasible:
        return found
    outcome = Outcome()
    if problem.processors is not None and not isinstance(found, Outcome):
        outcome = offer_rule(problem, context, "respect-order", found, for_any=True)
    for rule in RULES:
        if context.closed:
            return Outcome()
        if rule == "respect-order" and isinstance(found, Outcome):
            continue
        outcome = offer_rule(problem, context, rule, () if isinstance(found, Outcome) else found)
        context.progress(f"{rule}: {outcome.detail or 'within the bound'}")
    if context.closed or context.expired:
        return outcome
    if problem.processors is None and len(problem.graph.ops) <= _LARGEST_MILP:
        outcome = solve_milp(problem, context)
        return Outcome(detail=outcome.detail) if outcome.reason == "crash" else outcome
    return Outcome(reason="time" if context.expired else None)


def _none_needed(problem: MemoryEdges, context: Context) -> bool:
    """Offer no edges if no schedule exceeds the bound; return whether that was proved."""
    found = with_flow(problem, Edges(edges=(), flow=FlowProof(cases=())))
    if found.flow.value(problem.processors) > problem.bound:
        return False
    context.offer(found)
    return True
