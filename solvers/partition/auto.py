"""`auto` for `partition`: programs over ideals, cuts of paths, prices and models in turns.

1. The bound by the work of all devices; the split that people made, where the instance brings one.
2. In turns, what is cheaper to begin first (`lowtide.solvers.portfolio`):

   - cuts of the reference order by `chain`, which also chooses what runs again;
   - `ideals` of contiguous stages: finds and proves;
   - `branch-price` of stages in any order: it proves few large classes in seconds;
   - for the latency the cuts of paths, which bound it, and `serial`, which finds;
   - balanced blocks as torchgpipe has them, and, where `chain` does not state the question, other published
     splits;
   - the model by CP-SAT, and by HiGHS: of many classes they find better splits in any order.
"""

from __future__ import annotations

from ...formulations.partition import asked_milp
from ...formulations.partition.data import partition_data
from ...models.problems.partition import Partition
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .branch_price import ROUNDS, refused_by_prices, solve_branch_price
from .chain import solve_chain
from .ideals import solve_ideals
from .latency import raise_latency
from .models import NO_LATENCY, refused, solve_cpsat, solve_milp
from .program import CUTS, refusal, seconds_of_cuts
from .serial import solve_serial

BLOCKS_PER_SECOND = 50_000
"""Layers that blocks are balanced of in a second."""

TERMS_PER_SECOND = 20_000
"""Of a model: built, presolved and searched until there is a better split (55,000 to 150,000 terms: 2 to 8 s
by CP-SAT and HiGHS alike)."""


def solve_auto(problem: Partition, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    return run(PARTS, problem, context)


def _chain(problem: Partition, context: Context) -> Outcome:
    context.once(CUTS)  # no other part looks for them again
    return solve_chain(problem, context)


def _prices(problem: Partition, context: Context) -> Outcome:
    return solve_branch_price(problem, context, rounds=ROUNDS if context.time_limit is None else None)


def _paths(problem: Partition, context: Context) -> Outcome:
    raise_latency(problem, context, share=1.0)
    return Outcome(reason="time" if context.expired else None)


def _no_cuts(problem: Partition) -> str:
    """Return why `chain` does not state the question."""
    chosen = problem.recompute == "choose" and problem.objective == "load" and problem.replicate == 1
    return "" if chosen else refusal(problem, partition_data(problem))


def _no_ideals(problem: Partition) -> str:
    return refusal(problem, partition_data(problem)) or ("" if problem.contiguous else "stages in any order")


def _no_latency(problem: Partition) -> str:
    return "" if problem.objective == "latency" else "serial is for the latency"


def _by_paths(problem: Partition) -> str:
    return "cuts of a path bound the latency" if problem.objective == "latency" else ""


def _no_cpsat(problem: Partition) -> str:
    return NO_LATENCY if problem.objective == "latency" else refused(problem)


def _cuts_serve(problem: Partition) -> str:
    return "" if _no_cuts(problem) else "chain does no worse"


def _seconds_of_blocks(problem: Partition) -> float:
    return partition_data(problem).n / BLOCKS_PER_SECOND


def _seconds_of_prices(problem: Partition) -> float:
    data = partition_data(problem)
    return (data.n + sum(len(v.readers) for v in data.passed)) * len(data.kinds) / TERMS_PER_SECOND


def _seconds_of_model(problem: Partition) -> float:
    return asked_milp.size(problem).terms / TERMS_PER_SECOND


def _published(name: str, run: str) -> Part:
    return Part(name=name, run=f".partition.{run}", refuses=_cuts_serve, seconds=seconds_of_cuts)


PARTS = (
    Part(name="bound at once", run=".partition.bounds:raise_bound", first=True, refuses=_by_paths),
    Part(name="expert", run=".partition.published:solve_expert", first=True),
    Part(name="chain", run=_chain, refuses=_no_cuts, seconds=seconds_of_cuts),
    Part(name="ideals", run=solve_ideals, refuses=_no_ideals, seconds=seconds_of_cuts),
    Part(name="branch-price", run=_prices, refuses=refused_by_prices, seconds=_seconds_of_prices),
    Part(name="cuts of a path", run=_paths, refuses=_no_latency),
    Part(name="serial", run=solve_serial, refuses=_no_latency),
    Part(name="torchgpipe", run=".partition.published:solve_torchgpipe", seconds=_seconds_of_blocks),
    _published("pipedream", "chain:solve_pipedream"),
    _published("alpa", "chain:solve_alpa"),
    Part(name="cpsat", run=solve_cpsat, refuses=_no_cpsat, seconds=_seconds_of_model, pauses=False),
    Part(name="milp", run=solve_milp, refuses=refused, seconds=_seconds_of_model, pauses=False),
)
