"""`swapadvisor`: order of ops and pools of slots by a genetic search, and SwapAdvisor's planner on them.

Source: Huang, Jin and Li, SwapAdvisor: Pushing Deep Learning Beyond the GPU Memory Limit via Smart Swapping,
ASPLOS 2020.

Steps.

1. First memory plans: sizes share the class of the largest one that is at most 1, 1.1, 1.25, 1.5, 2, 4 times
   theirs, or as large as there is; and the classes of sizes in a row whose slots for the operands of every
   op take the fewest bytes. Each class has as many slots as fit (`slot_pools`).
2. Each plan's swaps are those of the planner (`slot_pools`); its fitness is the time of the simulator.
3. A generation: two parents, drawn by a softmax of their times; one point on the list of sizes, before which
   the child has the classes and slots of one, behind which those of the other; with a probability of 0.1 a
   size moves to a neighbouring class, and a class has a slot more or less; what does not fit is repaired. The
   best of parents and children live on (`population`, 12). It ends after `generations` (10), or when nothing
   stalls.
4. Where the question leaves the order free (``order=free``), a second search goes on from those that live:
   now a child has an order, too. It is that of one parent up to a point and behind it that of the other, and
   with a probability of 0.1 at each op any op that is ready takes the turn of the one that is next.

It fails exactly if no classes of sizes in a row have slots for the operands of every op.

Deviations: where the order is free, memory plans in the graph's order are found first, so that a free one is
never slower. Its bound is the sum of the durations, which every order has. The simulator knows bytes, not
slots, so a tensor may come before its slot is free. Inferred: sizes of populations, probabilities, what is
repaired how. `belady` is the planner on one pool of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import exp
from random import Random
from typing import Any, TypeVar

from ....formulations.model import BuildTimeout, Tick
from ....formulations.placement.bounds.releases import ideal_time
from ....models.derived.reordered import in_order
from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..reductions.orders import Order, crossed, mutated, of_first
from ..simulator.problem import SimulatedProblem, simulated_problem
from ..simulator.simulator import Decisions, simulate
from .belady import evictions, leave_early
from .follow import Candidates, DoesNotFit, follow
from .slot_pools import Genome, Planner, Sizes

Member = TypeVar("Member", bound=tuple[Any, ...])
Ordered = tuple[Order, Genome]
"""An order and a memory plan."""

SPREADS = (1.0, 1.1, 1.25, 1.5, 2.0, 4.0, float("inf"))
"""How many times larger than a size its class is at most, of the first plans."""
MUTATION = 0.1
"""Probability of a change at random of each gene: an op's turn, a tensor's class, its slot."""
FAILS = 1 << 62
"""Nanoseconds of a plan that fails: more than any plan takes."""
SEARCH = 0.7
"""Of the time that is left, the share that a search over orders takes."""


def solve_swapadvisor(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    extent = context.options["population"], context.options["generations"]
    if problem.order == "reference":
        return follow(problem, context, lambda case: decide(case, *extent, context.seed))
    context.raise_bound(ideal_time(problem), kind="sum of durations")
    context.careful = True
    fixed = replace(problem, order="reference")
    until = context.elapsed() + SEARCH * context.remaining()
    chunk = context.options["chunk"] * MIB if "chunk" in context.options else None
    best: Ordered | None = None
    with suppress(BuildTimeout):
        best = best_order(fixed, chunk, lambda: context.elapsed() > until, extent, context.seed)
    order = tuple(range(len(problem.graph.ops))) if best is None else best[0]
    ordered = replace(fixed, graph=in_order(problem.graph, order))
    inner = context.inner(ordered, context.remaining(), "in its order: ")
    known = None if best is None else best[1]
    outcome = follow(
        ordered,
        inner,
        lambda case: decide(case, *extent, context.seed) if known is None else _known(case, known),
    )
    if inner.answer is not None:
        context.offer(of_first(inner.answer, problem.graph, order))
    return outcome


def best_order(
    problem: Placement, chunk: int | None, expired: Callable[[], bool], extent: tuple[int, int], seed: int
) -> Ordered | None:
    """Return the order and the memory plan of the least time found until the time is up (step 4).

    None if none fits: where no pools have slots for the operands of every op, that is so in every order.

    Raises
    ------
    BuildTimeout
        If the time was up before the graph's own order had been tried.
    """
    graph, random = problem.graph, Random(seed)

    @lru_cache(1)
    def world(order: Order) -> tuple[SimulatedProblem, Sizes]:
        case = simulated_problem(replace(problem, graph=in_order(graph, order)), chunk, expired)
        return case, Sizes(case)

    def price(member: Ordered) -> int:
        case, sizes = world(member[0])
        return _time(case, planned(case, sizes, member[1]))

    def child(living: Sequence[Ordered]) -> Ordered | None:
        (order, plan), (other, another) = _parents(random, times, living)
        order = mutated(random, graph, crossed(order, other, random.randint(0, len(order))), MUTATION)
        genome = world(order)[1].repaired(*bred(random, plan, another))
        return None if genome is None else (order, genome)

    own = tuple(range(len(graph.ops)))
    case, sizes = world(own)
    plans = {genome: _time(case, planned(case, sizes, genome)) for genome in first_plans(sizes, case.tick)}
    if not plans:
        return None
    times: dict[Ordered, int] = {(own, genome): time for genome, time in plans.items()}
    with suppress(BuildTimeout):
        living = search_plans(case, sizes, plans, extent, random)
        times = {(own, genome): plans[genome] for genome in living}
        evolved(times, price, child, extent, int(case.duration.sum()))
    best = min(times, key=lambda x: (times[x], x))
    return best if times[best] < FAILS else None


def decide(case: SimulatedProblem, population: int = 12, generations: int = 10, seed: int = 0) -> Candidates:
    """Return the decisions of the first plans, and of the best that the search finds."""
    sizes = Sizes(case)
    times: dict[Genome, int] = {}
    for genome in first_plans(sizes, case.tick):
        decisions = planned(case, sizes, genome)
        times[genome] = _time(case, decisions)
        yield "", decisions
    if not times:
        reason = "no pools have slots for the operands of every op"
        raise DoesNotFit(reason, leave_early(case, evictions(case)))
    first = min(times.values())
    best, *_ = search_plans(case, sizes, times, (population, generations), Random(seed))
    if times[best] < first:
        yield "", planned(case, sizes, best)


def _known(case: SimulatedProblem, genome: Genome) -> Candidates:
    """Return the decisions of a memory plan."""
    yield "", planned(case, Sizes(case), genome)


def search_plans(
    case: SimulatedProblem, sizes: Sizes, times: dict[Genome, int], extent: tuple[int, int], random: Random
) -> list[Genome]:
    """Return the memory plans that live at the end of a search in the problem's order, the best first."""

    def child(living: Sequence[Genome]) -> Genome | None:
        return sizes.repaired(*bred(random, *_parents(random, times, living)))

    def price(genome: Genome) -> int:
        return _time(case, planned(case, sizes, genome))

    return evolved(times, price, child, extent, int(case.duration.sum()))


def evolved(
    times: dict[Member, int],
    price: Callable[[Member], int],
    child: Callable[[Sequence[Member]], Member | None],
    extent: tuple[int, int],
    least: int,
) -> list[Member]:
    """Return who lives at the end of a search (step 3), the best first.

    Parameters
    ----------
    times
        Of the members that it begins with, in ns; those of others are added.
    price
        Returns a member's time.
    child
        Returns a child of some of those that live; None if none fits.
    extent
        How many live on, and the number of generations.
    least
        The time with which it ends at once.
    """
    population, generations = extent
    living = sorted(times, key=lambda x: (times[x], x))[:population]
    for _ in range(generations):
        if times[living[0]] == least:
            break
        for _ in range(population):
            young = child(living)
            if young is not None and young not in times:
                times[young] = price(young)
                living.append(young)
        living = sorted(living, key=lambda x: (times[x], x))[:population]
    return living


def first_plans(sizes: Sizes, tick: Tick) -> list[Genome]:
    """Return the memory plans that a search begins with (step 1)."""
    largest = len(sizes.sizes) - 1
    choices = [sizes.tightest(tick)]
    for spread in SPREADS:
        classes, head = [0] * (largest + 1), largest
        for x in range(largest, -1, -1):
            if sizes.sizes[head] > spread * sizes.sizes[x]:
                head = x
            classes[x] = head
        choices.append(classes)
    every = [len(sizes.of)] * (largest + 1)
    plans = (sizes.repaired(classes, every) for classes in choices)
    return list(dict.fromkeys(plan for plan in plans if plan is not None))


def planned(case: SimulatedProblem, sizes: Sizes, genome: Genome) -> Decisions:
    """Return the decisions of the planner on a memory plan."""
    planner = Planner(case, sizes, genome)
    return leave_early(case, planner.victims, planner.returns)


def _time(case: SimulatedProblem, decisions: Decisions) -> int:
    """Return the time of decisions in ns; `FAILS` where they do not fit."""
    found = simulate(case, decisions).time
    return FAILS if found is None else found


def _parents(random: Random, times: dict[Member, int], living: Sequence[Member]) -> tuple[Member, Member]:
    """Draw two parents by a softmax of their times, over the distance of the mean from the best."""
    best = min(times[x] for x in living)
    scale = max(1, sum(min(times[x], 2 * best) - best for x in living) // len(living))
    weights = [exp((best - min(times[x], 2 * best)) / scale) for x in living]
    first, second = random.choices(living, weights, k=2)
    return first, second


def bred(random: Random, first: Genome, second: Genome) -> tuple[list[int], list[int]]:
    """Return classes and slots of a child: one-point crossover, then mutation (step 3)."""
    count = len(first[0])
    cut = random.randint(0, count)
    classes, slots = ([*a[:cut], *b[cut:]] for a, b in zip(first, second, strict=True))
    for x in range(count):
        if random.random() < MUTATION:
            classes[x] = min(max(classes[x] + random.choice((-1, 1)), x), count - 1)
        if random.random() < MUTATION:
            slots[x] = max(slots[x] + random.choice((-1, 1)), 0)
    return classes, slots
