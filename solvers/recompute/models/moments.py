"""Proved bounds on recomputation: the MILP of moments, with one moment and with many."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....formulations.recompute import moments_milp
from ....formulations.recompute.data import RecomputeData, fits, in_ns, levels, recompute_data
from ....formulations.recompute.moments_milp import Slower
from ....models.lowering.actions import transfer_ns
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...engines.model import solve_model
from ..heuristics.method import STOPPED, first_bound, known_runs, part_of

KIND = "moments"


def relaxed_data(problem: Recompute) -> tuple[RecomputeData, Slower | None] | None:
    """Return the data of the relaxation and the costs of slower tiers.

    None where runs may find what they read in a slower tier, which the relaxation does not know.
    """
    machine, fast = problem.machine, problem.fast
    if not with_slower_tiers(problem):
        return recompute_data(problem), None
    if {access.tier for access in machine.processors[0].tiers} != {fast}:
        return None
    data = in_ns(recompute_data(problem, bundled=False))
    if not (ways_out := [channel.dst for channel in machine.channels if channel.src == fast]):
        return data, None
    ways_back = [channel.src for channel in machine.channels if channel.dst == fast]
    sizes = [x.nbytes * data.unit for x in data.values]
    back = [min((transfer_ns(machine, k, fast, b) for k in ways_back), default=None) for b in sizes]
    written = [min(transfer_ns(machine, fast, k, b) for k in ways_out) for b in sizes]
    return data, Slower(back=tuple(back), written=tuple(written))


def raise_moments(
    data: RecomputeData,
    context: Context,
    moments: Sequence[int],
    seconds: float,
    slower: Slower | None = None,
) -> Outcome:
    """Solve the relaxation with these moments for at most so many seconds, and raise the bound.

    Returns
    -------
    Outcome
        ``infeasible`` if it has no solution: then the problem has none either.
    """
    what = f"the MILP of {len(moments)} moments"
    own = part_of(context, seconds)
    own.options, own.engine_options = {}, {}

    def build() -> moments_milp.MomentsModel:
        built = moments_milp.build(data, moments, slower=slower, expired=lambda: own.expired)
        if (known := known_runs(context)) is not None and fits(data, known):
            moments_milp.set_values(built, known)
        return built

    def note(ticks: int) -> int:
        value = data.ns(ticks)
        context.raise_bound(value, "floating", kind=KIND)
        return value

    outcome = solve_model(
        context,
        moments_milp,
        build,
        what=what,
        size=moments_milp.size(data, len(moments)),
        decode=lambda built, value: None,
        to_objective=note,
        run=own,
        quiet=True,
    )
    if outcome.infeasible:
        return Outcome(infeasible=True, detail=f"{what} has no solution")
    return outcome


def with_slower_tiers(problem: Recompute) -> bool:
    """Return whether values can come back from another tier."""
    return len(problem.machine.tiers) > 1


def raise_bounds(problem: Recompute, context: Context, seconds: float, *, first: int = 0) -> Outcome:
    """Raise the bound by one moment, the tightest ones of the reference order first, then by more and more.

    Nothing is done where runs may find what they read in a slower tier.

    Parameters
    ----------
    seconds
        Time limit.
    first
        The least number of moments.
    """
    relaxed = relaxed_data(problem)
    if relaxed is None:
        return Outcome()
    data, slower = relaxed
    until = context.elapsed() + min(seconds, context.remaining())
    needed = levels(data, range(data.n))
    path = moments_milp.longest_path(data)
    tight = sorted(range(data.n), key=lambda i: (-needed[i], i))
    sets = [[i] for i in tight if needed[i] > data.memory][:SINGLE]
    count = 2
    while count < len(path):
        sets.append([path[(2 * k + 1) * len(path) // (2 * count)] for k in range(count)])
        count *= 2
    sets.append(path)
    refused = Outcome()
    for moments in [some for some in sets if len(some) >= first or some is path]:
        left = until - context.elapsed()
        if context.closed or left <= 0:
            break
        share = left if moments is path or math.isinf(left) else left / 3
        context.progress(f"bound by {len(moments)} moments")
        outcome = raise_moments(data, context, moments, share, slower)
        if outcome.infeasible or outcome.reason in STOPPED:
            return outcome
        if outcome.reason == "memory":
            refused = outcome
    if context.closed:
        return Outcome()
    return Outcome(reason="time") if context.expired else refused


SINGLE = 6
"""Ops whose first run is tried as the only moment."""


def solve_moments(problem: Recompute, context: Context) -> Outcome:
    """Prove a bound; offer only the reference order, if it fits."""
    first_bound(problem, context)
    if context.closed:
        return Outcome()
    return raise_bounds(problem, context, math.inf)
