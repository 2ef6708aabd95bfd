r"""Local search over orders: annealing by moves of blocks, aimed at the places where the memory is highest.

An order is v_0, ..., v_(n-1); after k ops the executed set is S_k, with memory M(S_k) and the cost of each
step as in `lowtide.solvers.peak.search.state_space` (forward).

**Energy.** With P the least peak known and the target T = P - 1,

    E = sum over places k of max(0, cost at k - T).

E = 0 is an order with a lower peak; then P and T follow it, and the run goes on.

**Moves.** Take places i < j. *Delay*: v_i and all its descendants among v_i, ..., v_j go behind the others of
v_i, ..., v_j, both parts in their order. *Advance*: v_j and all its ancestors among them go before the
others. The result is valid: no op that stays needs one that is delayed, or it would be a descendant
itself; likewise for ancestors. S_i and S_(j+1) stay the same, so memory and cost change in the block
only: **a move is judged by looking at the block alone**, however large the graph is. Moving an op
together with all that depends on it is what lets whole branches pass each other, which single ops cannot.

**Focus.** A place where the cost is above T, or, half of the time, one at a random distance from it; the
block begins and ends at random distances from there. Distances are drawn so that each order of magnitude
is as likely. Moves elsewhere cost nothing and keep the order supple.

**Annealing** (Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983). A
move that raises E by d is taken with probability exp(-d / temperature). A run starts from the best order
known, every third one from the next of the other orders given, the lowest peak first. Runs differ: the
first temperature is drawn between `COOLEST` and `WARMEST` times the mean size of an op's own increase, the
reach of the blocks between `SHORTEST` and `LONGEST`, and lengths grow from run to run. The last temperature
is a `COOLING`-th of the first.

Runs follow from the graph, the orders given and the seed; time only decides when they stop. Nothing is
proved beyond the working sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ..bounds.cut_bound import working_set_bound
from ..bounds.least_memory import LARGEST_SUM
from ..search.state_space import StateSpace, state_space
from .greedy import greedy_orders

RUNS = 100
"""Runs after which the search ends by itself."""

FIRST_WORK = 500_000
"""Places that the first run looks at, and 100 more for each op; on small graphs 2,000 for each op."""

GROWTH = 1.15
"""How many times more places each next run looks at."""

SLICE = 1_000_000
"""Places that are looked at between two looks at the clock: some hundredths of a second."""

COOLEST, WARMEST, COOLING = 0.05, 4.0, 30.0
"""First temperatures by the mean increase of an op; the last one is the first over `COOLING`."""

SHORTEST, LONGEST = 32, 2048
"""Places over which a block of ops is moved at most; each run draws a number between them."""


def solve_local_search(problem: Peak, context: Context) -> Outcome:
    """Offer greedy orders, then what the runs find."""
    context.offer(range(len(problem.graph.ops)))
    context.raise_bound(working_set_bound(problem.graph), kind="working set")
    orders = []
    for order in greedy_orders(problem.graph):
        if context.closed or context.expired:
            break
        orders.append((context.offer(order), order))
    others = [order for _, order in sorted(orders)][1:]
    ended = improve_by_local_search(problem, context, context.options["runs"], lambda: others)
    return Outcome(reason=None if ended else "time")


def improve_by_local_search(
    problem: Peak,
    context: Context,
    runs: int = RUNS,
    others: Callable[[], Sequence[Sequence[int]]] = lambda: (),
    expired: Callable[[], bool] | None = None,
) -> bool:
    """Run from the incumbent of the context, and now and then from other orders; offer what is better.

    Returns whether all runs were made, or the incumbent met the bound, before the time was up (``expired``;
    default: of the context). The other orders are asked for when the first of them is needed.
    """
    expired = expired or (lambda: context.expired)
    space = state_space(problem.graph)
    if context.closed or expired() or space.n < 2 or not _fits(space):
        return not expired()
    import numpy as np

    from .order_kernel import anneal, order_arrays

    arrays, rng = order_arrays(space), Random(context.seed)
    mean = max(1.0, sum(map(abs, space.increase)) / space.n)
    assert context.incumbent is not None
    best, height = np.array(context.answer, dtype=np.int64), context.incumbent
    work = float(min(FIRST_WORK + 100 * space.n, 2000 * space.n))
    for run in range(runs):
        warm = mean * COOLEST * (WARMEST / COOLEST) ** rng.random()
        reach = min(space.n, int(SHORTEST * (LONGEST / SHORTEST) ** rng.random()))
        context.progress(f"run {run + 1} of {runs}, reach {reach}, temperature {warm:.3g}")
        if context.incumbent < height:  # by somebody else
            best, height = np.array(context.answer, dtype=np.int64), context.incumbent
        orders = others() if run % 3 == 2 else ()
        other = orders[run // 3 % len(orders)] if orders else None
        order = best.copy() if other is None else np.array(other, dtype=np.int64)
        slices = max(1, round(work / SLICE))
        for k in range(slices):
            if expired():
                return False
            peak, _ = anneal(
                arrays,
                order,
                best,
                context.incumbent,
                warm / COOLING ** (k / slices),
                warm / COOLING ** ((k + 1) / slices),
                reach,
                round(work / slices),
                rng.getrandbits(32),
            )
            if peak < context.incumbent:
                height = context.offer(best.tolist())
                if context.closed:
                    return True
        work *= GROWTH
    return True


def _fits(space: StateSpace) -> bool:
    """Return whether every sum of bytes is far from the end of 64 bits."""
    total = sum(map(abs, space.increase)) + sum(space.group_bytes) + sum(space.extra) + abs(space.start)
    return total < LARGEST_SUM
