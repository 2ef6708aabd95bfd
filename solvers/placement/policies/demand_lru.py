"""`demand-lru`: fetch on demand, evict what was used least recently; what unified memory does without hints.

Steps. An op that is due fetches what it misses, one tensor after another. Room that it lacks is made by
evicting the tensors of least recent use: those with a copy elsewhere are dropped, others are copied to the
host, to the slow tier when the host is full. Nothing is fetched ahead.

Abstracted: faults have no cost of their own beyond the channel's latency (the simulator of G10, MICRO 2023,
charges 45 us, and durations that were measured with faults); pages are chunks of 16 MiB by default, evicted
tensor by tensor.
"""

from __future__ import annotations

from dataclasses import replace

from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.problem import SimulatedProblem
from ..simulator.simulator import stay
from .follow import Candidates, follow


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    yield "", replace(stay(case), victim=tables.LEAST_RECENT, eager=True)


def solve_demand_lru(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide, chunk=16 * MIB)
