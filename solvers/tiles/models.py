"""Method `cpsat` of `tiles`: which groups to run, none of which keeps a tensor in fast memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...formulations.tiles import groups_cpsat
from ...formulations.tiles.groups_cpsat import Candidate
from ...models.errors import UsageError
from ...models.problems.tiles import Tiles
from ..context import Context, Outcome
from ..engines.model import solve_model
from .bounds import raise_bound
from .exact import joined_groups
from .groups import GroupCosts

MOST = 50_000
"""Largest number of groups of joined ops; a model of all of them then has about a million terms."""


def solve_cpsat(problem: Tiles, context: Context) -> Outcome:
    """Solve the model of all groups; its bound holds where no tensor that an op reads could be kept."""
    given = problem.shapes
    raise_bound(problem, context)
    most = context.options["most"]
    candidates = _candidates(problem, most, lambda: context.expired)
    if context.expired:
        return Outcome(reason="time")
    if candidates is None:
        return Outcome(detail=f"found more than {most:,} groups of joined ops, expected at most that")
    keeps = any(given.area(t) < given.capacity for reads in given.inputs for t in reads)
    outcome = solve_model(
        context,
        groups_cpsat,
        lambda: groups_cpsat.build(candidates, sorted(given.finals), expired=lambda: context.expired),
        what="the CP-SAT model of groups",
        size=groups_cpsat.size(candidates),
        to_objective=lambda ticks: (context.bound or 0) if keeps else ticks,
        decode=groups_cpsat.decode,
    )
    if keeps and outcome.infeasible:
        return Outcome(detail="no answer keeps nothing")
    return outcome


def stated(problem: Tiles, most: int = MOST) -> dict[str, Any]:
    """Return the groups, and the tensors that must be written.

    Raises
    ------
    UsageError
        If there are more groups of joined ops than `most`.
    """
    candidates = _candidates(problem, most, lambda: False)
    if candidates is None:
        raise UsageError(f"cpsat, most: found more than {most:,} groups of joined ops, expected at most that")
    return {"candidates": candidates, "finals": sorted(problem.shapes.finals)}


def _candidates(problem: Tiles, most: int, expired: Callable[[], bool]) -> list[Candidate] | None:
    """Return the groups that fit, in their best tiles; None if there are more than `most` to look at."""
    costs, candidates = GroupCosts(problem), list[Candidate]()
    started = problem.shapes.started
    for number, ops in enumerate(joined_groups(costs)):
        if expired() or number == most:
            return None if number == most else candidates
        ticks, shape = costs.ticks(ops), costs.shape(ops)
        if ticks is not None and shape is not None:
            reads = tuple(sorted(shape.inputs - started))
            candidates.append(Candidate(ticks, reads, tuple(sorted(shape.outputs)), costs.group(ops)))
    return candidates
