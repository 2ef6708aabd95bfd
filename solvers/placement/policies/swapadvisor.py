"""`swapadvisor`: memory in pools of slots, found by a genetic search, and SwapAdvisor's planner on them.

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

It fails exactly if no classes of sizes in a row have slots for the operands of every op.

Deviations: the search has no orders of ops, since the question fixes them: it is the half of it that finds
the memory. The simulator knows bytes, not slots, so a tensor may come before its slot is free. Inferred:
sizes of populations, probabilities, what is repaired how. `belady` is the planner on one pool of bytes.
"""

from __future__ import annotations

from math import exp
from random import Random

from ....formulations.model import Tick
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.simulator import Decisions, simulate
from ..simulator.simulator_case import Case
from .belady import evictions, leave_early
from .carry_out import Candidates, DoesNotFit, follow
from .slot_pools import Genome, Planner, Sizes

SPREADS = (1.0, 1.1, 1.25, 1.5, 2.0, 4.0, float("inf"))
"""How many times larger than a size its class is at most, of the first plans."""
MUTATION = 0.1


def solve_swapadvisor(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    population, generations = context.options["population"], context.options["generations"]
    return follow(problem, context, lambda case: decide(case, population, generations, context.seed))


def decide(case: Case, population: int = 12, generations: int = 10, seed: int = 0) -> Candidates:
    """Return the decisions of the first plans, and of the best that the search finds."""
    sizes, random = Sizes(case), Random(seed)
    times: dict[Genome, int] = {}
    for genome in first_plans(sizes, case.tick):
        decisions = planned(case, sizes, genome)
        times[genome] = _time(case, decisions)
        yield "", decisions
    if not times:
        reason = "no pools have slots for the operands of every op"
        raise DoesNotFit(reason, leave_early(case, evictions(case)))
    living = sorted(times, key=lambda x: (times[x], x))[:population]
    best = first = living[0]
    for _ in range(generations):
        if times[best] == case.duration.sum():
            break
        for _ in range(population):
            child = sizes.repaired(*bred(random, *_parents(random, times, living)))
            if child is not None and child not in times:
                times[child] = _time(case, planned(case, sizes, child))
                living.append(child)
        living = sorted(living, key=lambda x: (times[x], x))[:population]
        best = living[0]
    if times[best] < times[first]:
        yield "", planned(case, sizes, best)


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


def planned(case: Case, sizes: Sizes, genome: Genome) -> Decisions:
    """Return the decisions of the planner on a memory plan."""
    planner = Planner(case, sizes, genome)
    return leave_early(case, planner.victims, planner.returns)


def _time(case: Case, decisions: Decisions) -> int:
    """Return the time of decisions; where they do not fit, one that is larger than any."""
    found = simulate(case, decisions).time
    return 1 << 62 if found is None else found


def _parents(random: Random, times: dict[Genome, int], living: list[Genome]) -> tuple[Genome, Genome]:
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
