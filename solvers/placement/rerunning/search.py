"""What `auto` does where ops may run again: what is kept, what is copied and what is run again.

Every sequence of runs is a placement problem of its own (`reruns`). These are tried, each with the planner's
first setting, and the best one of a search is placed by `auto` (`sequences`):

1. each op once: by `auto`;
2. *by price*: values that are used again much later are dropped behind the use before their longest absence
   and made again for the next one, with what is dropped of that. Which: all whose run costs at most so many
   ns per byte, for a ladder of prices. The rest is kept or swapped, as the planner likes. Then single values
   in the best set are flipped, while one of the last so many was faster;
3. what recomputation alone finds in one memory of some size between the device and what each op once needs:
   the smaller it is, the less is left to copy.

POFO's program of chains beside them; of taped chains also all this where every forward saves. Where the
machine has one tier, recomputation says all there is to say. Bounds: `bounds.returns`.

Under the reference order each op waits for the one before it to have run once: the same problem, said to
those who know no order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from ....formulations.recompute.data import recompute_data
from ....models.derived.memory import sequential_memory
from ....models.graph import Graph
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.problems.recompute import Answer, Recompute
from ...context import Context, Known, Outcome
from ...parts import Part, per_op
from ...recompute.chains.chain import is_taped
from ...registry import unserved
from ..bounds.returns import raise_by_returns
from ..parts import DECLARED, beyond_planner, either, seconds_of_planner
from ..planner.method import planned, portfolio
from ..sequences import Runs, Solve, Steps, each_once, of_sequence, search_and_place, solve_as
from ..traits import AGAIN, IN_ORDER, Trait
from .dropping import Droppable, droppable, with_dropped

PRICES = 16
"""Numbers of the cheapest tensors to drop that are tried, evenly spaced from none to all."""
SIZES = 4
"""Memories of 3, between the device and what each op once needs."""
IDLE = 40
"""Flips in a row that are of no use, after which 2 ends."""
SECONDS_OF_BOUND = per_op(200)
"""Until the first linear program is built and solved: measured on 84 to 516 ops."""
OPS_PER_SECOND = 5_000
"""Ops of a graph that the planner places, or recomputation has a first schedule of, in a second."""
RETURNS = "returns"
"""Name of the part that raises the bound and makes no plans."""


def parts_of_reruns(auto: Solve, plans: Solve) -> tuple[Part, ...]:
    """Return the parts of `auto`.

    Parameters
    ----------
    auto, plans
        Solves a problem whose order is fixed; does so without bounds.
    """
    pofo = DECLARED["pofo"]
    again = partial(Part, supports=AGAIN, needs=Trait.RERUN)
    return (
        pofo,
        again(
            name="each op once",
            run=partial(place_each_once, solve=auto),
            supports=IN_ORDER & ~Trait.ONCE | Trait.RERUN,
        ),
        again(
            name="every forward saves",
            run=partial(place_saving, solve=auto),
            supports=pofo.supports,
            refuses=either(_not_taped, pofo.refuses),
        ),
        again(
            name="one memory",
            run=solve_one_memory,
            supports=AGAIN | Trait.ONE_TIER,
            needs=Trait.RERUN | Trait.ONE_TIER,
        ),
        again(
            name="by price",
            run=partial(place_by_price, solve=plans),
            refuses=beyond_planner,
            seconds=seconds_of_planner,
        ),
        again(
            name="recomputed",
            run=partial(place_recomputed, solve=plans),
            supports=AGAIN | Trait.CROSS_CAP,
            seconds=seconds_of_planner,
        ),
        again(
            name=RETURNS,
            run=bound_by_returns,
            supports=AGAIN | Trait.CROSS_CAP,
            seconds=SECONDS_OF_BOUND,
            pauses=False,
        ),
    )


def in_reference_order(graph: Graph) -> Graph:
    """Return the graph in which each op waits for the one before it to have run once."""
    ops = (
        replace(op, after=tuple(sorted({*op.after, k - 1}))) if k else op for k, op in enumerate(graph.ops)
    )
    return replace(graph, ops=tuple(ops))


def place_each_once(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Offer plans in which each op runs once."""
    once = replace(problem, recompute=False)
    return solve_as(once, context, solve, lambda plan: plan, prefix="each op once: ")


def bound_by_returns(problem: Placement, context: Context) -> Outcome:
    """Raise the bound by linear programs in which what is away comes back by a copy or by a run."""
    raise_by_returns(problem, context, in_reference_order(problem.graph))
    return Outcome(reason="time" if context.expired and not context.closed else None)


def place_saving(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Offer plans of a taped chain in which every forward saves: a problem of ops with one mode."""
    saving = always_saving(problem)
    return solve_as(
        saving, context, solve, lambda plan: _of_problem(problem, plan), prefix="every forward saves: "
    )


def always_saving(problem: Placement) -> Placement:
    """Return the problem of a taped chain whose forwards save, on the tiers that channels join."""
    machine, graph = problem.machine, problem.graph
    linked = {end for c in machine.channels for end in (c.src, c.dst)} | {machine.tiers[0].name}
    only = replace(
        machine,
        tiers=tuple(tier for tier in machine.tiers if tier.name in linked),
        processors=tuple(
            replace(p, tiers=tuple(x for x in p.tiers if x.tier in linked)) for p in machine.processors
        ),
    )
    firsts = [op.all_modes[0] for op in graph.ops]
    ops = tuple(
        replace(op, modes=(), duration_ns=mode.duration_ns, workspace=mode.workspace)
        for op, mode in zip(graph.ops, firsts, strict=True)
    )
    start = {kind: tuple(x for x in some if x in linked) for kind, some in problem.starts.items()}
    return replace(problem, graph=replace(graph, ops=ops), machine=only, start=start)


def _not_taped(problem: Placement) -> str:
    """Return why forwards do not all save."""
    return "" if is_taped(problem.graph) else "found no forwards that may save, expected a taped chain"


def solve_one_memory(problem: Placement, context: Context) -> Outcome:
    """Solve recomputation: what there is to decide where nothing can be copied.

    There all that is initial is in the memory at first; here not what is overwritten before it is read.
    """
    from ...recompute.auto import solve_auto as solve_recompute

    graph = _without_unread(in_reference_order(problem.graph))
    question = Recompute(graph, machine=problem.machine)

    def restored(answer: Answer) -> Plan:
        return _of_problem(problem, question.lower(answer))

    return solve_as(question, context, solve_recompute, restored, prefix="recomputation: ", bounds=True)


def _without_unread(graph: Graph) -> Graph:
    """Return the graph in which what is overwritten before it is read is not initial."""
    first: dict[int, bool] = {}
    for op in graph.ops:
        for t in (*op.reads, *op.writes):
            first.setdefault(t, t in op.reads)
    tensors = (replace(x, initial=x.initial and first.get(t, True)) for t, x in enumerate(graph.tensors))
    return replace(graph, tensors=tuple(tensors))


def _of_problem(problem: Placement, plan: Plan) -> Plan:
    """Return a plan for the graph in which each op waits for the one before it as one of the problem."""
    return problem.plan_of(replace(plan, graph_sha256=problem.graph.sha256))


def place_by_price(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Drop values by the price of their runs (2), and offer plans of the best sequence."""
    return search_and_place(problem, context, _by_price(problem, context), solve)


def place_recomputed(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Take what recomputation alone finds in memories of several sizes (3), and offer plans of the best."""
    return search_and_place(problem, context, _of_memories(problem, context), solve)


class _Trials:
    """Sequences of runs that have been tried on a problem, and the best one."""

    def __init__(self, problem: Placement, context: Context) -> None:
        self.problem, self.context = problem, context
        self.times: dict[Runs, int | None] = {}
        self.found: tuple[float, Runs] = math.inf, each_once(problem)

    def time(self, runs: Sequence[int]) -> int | None:
        """Offer the planner's plan of a sequence; return its ns, None if there is none."""
        key = tuple(runs)
        if key not in self.times:
            self.times[key] = time = self._time(key)
            if time is not None and time < self.found[0]:
                self.found = time, key
        return self.times[key]

    def _time(self, runs: Runs) -> int | None:
        alone, restored = of_sequence(self.problem, runs)
        if alone.impossible() or unserved(alone, "planner"):
            return None
        plan = planned(alone, portfolio(alone)[0], context=self.context)
        if not isinstance(plan, Plan):
            return None
        time = self.context.offer(restored(plan))
        return None if self.context.refused else time


def _by_price(problem: Placement, context: Context) -> Steps:
    """Yield the best sequence so far, after each set of values that are dropped."""
    trials = _Trials(problem, context)
    data = recompute_data(Recompute(in_reference_order(problem.graph)), bundled=False)
    trials.time(each_once(problem))
    yield trials.found
    context.progress("values made again, by price")
    candidates = droppable(data)
    best: tuple[int, int] | None = None  # time, how many
    for count in _ladder(candidates):
        time = trials.time(with_dropped(data, candidates[:count]))
        if time is not None and (best is None or time < best[0]):
            best = time, count
        yield trials.found
    if best is None:
        return
    context.progress("flips of single values")
    random, chosen, idle = Random(context.seed), {*range(best[1])}, 0
    least = best[0]
    while idle < IDLE:
        tried = chosen ^ {random.randrange(len(candidates)) for _ in range(random.choice((1, 1, 2, 4)))}
        time = trials.time(with_dropped(data, [candidates[k] for k in sorted(tried)]))
        idle += 1
        if time is not None and time < least:
            least, chosen, idle = time, tried, 0
        yield trials.found


def _ladder(some: Sequence[Droppable]) -> Iterator[int]:
    """Yield how many of the cheapest are dropped."""
    counts = {round(len(some) * k / PRICES) for k in range(1, PRICES + 1)} - {0}
    yield from sorted(counts)


def _of_memories(problem: Placement, context: Context) -> Steps:
    """Yield the best sequence so far, after the runs of recomputation in a memory, the largest first.

    Each memory has its turn, then each one twice the time.
    """
    from ...recompute.auto import solve_auto as solve_recompute

    trials = _Trials(problem, context)
    graph, device = in_reference_order(problem.graph), problem.machine.tiers[0]
    most = sequential_memory(graph).reference_peak
    if device.capacity is None or most <= device.capacity:
        return
    alone = replace(problem.machine, tiers=(device,), channels=(), groups=())
    rooms = [device.capacity + (most - device.capacity) * k // SIZES for k in range(SIZES)]
    open_ = [(Recompute(graph, memory=room, machine=alone), Known()) for room in reversed(rooms)]
    context.progress("sequences of recomputation")
    everything = all(device.name in problem.may_start(x.kind) for x in graph.tensors if x.initial)
    seconds = len(graph.ops) / OPS_PER_SECOND
    while open_:
        for item in list(open_):
            question, known = item
            limit = math.inf if context.time_limit is None else seconds
            inner = context.inner(question, limit, "recomputation: ", known=known)
            solve_recompute(question, inner)
            if inner.answer is not None:
                if question.memory == device.capacity and everything:
                    context.offer(_of_problem(problem, question.lower(inner.answer)))
                runs = sorted(question.lower(inner.answer).runs, key=lambda run: run.start)
                trials.time([run.op for run in runs])
            yield trials.found
            if inner.closed or not inner.expired:
                open_.remove(item)
        seconds *= 2
