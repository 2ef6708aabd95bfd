"""`deeptm`: where room lacks the coldest tensors leave; what DeepTM's agent is rewarded for, step by step.

Source: DeepTM, IEEE Transactions on Parallel and Distributed Systems, 2024, from notes on it: a deep
reinforcement learner that decides tensor by tensor. No policy is learned here; this is its greedy target.

State. Of a tensor: where it is, its heat, and the bytes left in fast and in slow memory. The heat is a
weighted sum of four features, each at most 1: its accesses over the most of any tensor; 1 over the ops until
its next use; the least size over its size; the uses that are left of its accesses.

Action. Migrate or not. Reward: less for what a migration costs, much less if memory runs out; at the end,
less for the time of the iteration.

Steps.

1. Ops are carried out without times, as by `belady`. Where an op lacks room, the coldest tensor that it does
   not use migrates, until there is enough: no other action spares running out of memory, and keeping what is
   hot costs the fewest migrations to come.
2. A victim leaves behind its last access. It returns as early as there is room for it until its next use, in
   the order of these uses.
3. The weights of the features, a quarter each at first, are tuned by random search (`trials`, 8): the plan
   of the least time, the reward at the end, is taken.

Abstracted: pages, whose tensors DeepTM chooses by access counts; neighbours that migrate in one transaction
(each copy pays its latency here); slow memory that ops use in place. Inferred: which four features, and how
they are scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import SimulatedProblem
from .belady import Choice, evictions, leave_early
from .follow import Candidates, follow


def solve_deeptm(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, lambda case: decide(case, context.options["trials"], context.seed))


def decide(case: SimulatedProblem, trials: int = 0, seed: int = 0) -> Candidates:
    """Return the policy's decisions by weights of a quarter, then by random ones."""
    random = Random(seed)
    for trial in range(trials + 1):
        weights = [random.random() for _ in range(4)] if trial else [0.25] * 4
        words = ", ".join(f"{weight:.2f}" for weight in weights)
        yield f"weights {words}", leave_early(case, evictions(case, coldest(case, weights)))


def coldest(case: SimulatedProblem, weights: Sequence[float]) -> Choice:
    """Return what chooses the coldest tensor: weights of accesses, reuse distance, size, uses left."""
    most = max(map(len, case.accesses), default=1)
    least = int(case.size[case.size > 0].min(initial=1 << 62))
    often, near, small, left = weights
    uses = [[k for k, _ in some] for some in case.accesses]
    fixed = [
        often * len(some) / most + small * least / max(int(case.size[i]), 1) for i, some in enumerate(uses)
    ]

    def choice(i: int, k: int, use: int) -> tuple[float, int]:
        remaining = sum(u >= k for u in uses[i]) / len(uses[i])
        return -(fixed[i] + near / max(use - k, 1) + left * remaining), -i

    return choice
