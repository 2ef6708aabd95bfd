"""`auto` for placements in which ops may run again: what is kept, what is copied and what is run again.

Every sequence of runs is a placement problem of its own (`reruns`). These sequences are tried, each with the
planner's first setting:

1. each op once;
2. *by price*: values that are used again much later are dropped behind the use before their longest absence
   and made again for the next one, with what is dropped of that. Which: all whose run costs at most so many
   ns per byte, for a ladder of prices. The rest is kept or swapped, as the planner likes;
3. what recomputation alone finds in one memory of some size between the device and what each op once needs:
   the smaller it is, the less is left to copy;
4. flips of single values in the best set of 2, and of neighbours in the ladder, while one of the last so
   many was faster.

Of taped chains POFO's plan is tried first, then all this where every forward saves.

The graph of the best sequence then is a problem for `auto`, for the time that is left. What placement and
recomputation find alone, and POFO's program on chains, is offered first, so that without a limit of time both
together are never slower than any of them; where the machine has one tier, recomputation's bounds hold, too.

Under the reference order each op waits for the one before it to have run once: the same problem, said to
those who know no order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from ...formulations.recompute.data import RecomputeData, recompute_data
from ...models.derived.memory import sequential_memory
from ...models.errors import LowtideError, UsageError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ...models.problems.recompute import Recompute
from ...models.result import Result, Status
from ..context import Context, Outcome
from ..recompute.chains.chain import is_taped
from .bounds.returns import raise_by_returns
from .dropping import Droppable, droppable, with_dropped
from .planner.planner import check_machine, planned, portfolio
from .pofo.method import solve_pofo, stages_of
from .reruns import sequenced

Alone = Callable[[Placement, Context], Outcome]
"""`auto` where every op runs once."""

PRICES = 16
"""Steps of the ladder."""
SIZES = 4
"""Memories of 3, between the device and what each op once needs."""
IDLE = 40
"""Flips in a row that are of no use, after which 4 ends."""
PROGRAM, OF_TAPED = 0.1, 0.6
"""Part of the time that is left behind placement alone, for the program of chains; and of taped ones."""
BOUND = 0.25
"""Part of the time that is left behind placement alone, for bounds."""
ALONE, LADDER, ONE_MEMORY, FLIPS = 0.2, 0.4, 0.6, 0.85
"""Parts of the time at which placement alone, 2, 3 and 4 end; the best sequence gets the rest."""


def in_reference_order(graph: Graph) -> Graph:
    """Return the graph in which each op waits for the one before it to have run once."""
    ops = (
        replace(op, after=tuple(sorted({*op.after, k - 1}))) if k else op for k, op in enumerate(graph.ops)
    )
    return replace(graph, ops=tuple(ops))


class _Trials:
    """Sequences of runs that have been tried on a problem."""

    def __init__(self, problem: Placement, context: Context) -> None:
        self.problem, self.context = problem, context
        self.times: dict[tuple[int, ...], int | None] = {}

    def problem_of(self, runs: Sequence[int]) -> tuple[Placement, Callable[[Plan], Plan]]:
        """Return the placement problem of a sequence, and what makes its plans those of the problem."""
        found = sequenced(self.problem.graph, runs)
        alone = replace(self.problem, graph=found.graph, order="reference", recompute=False)
        return alone, found.of_first

    def time(self, runs: Sequence[int]) -> int | None:
        """Offer the planner's plan of a sequence; return its ns, None if there is none."""
        key = tuple(runs)
        if key not in self.times:
            self.times[key] = None
            alone, restored = self.problem_of(runs)
            plan: Plan | str = ""
            with suppress(UsageError):  # joint caps in both directions, which the planner does not know
                plan = "" if alone.impossible() else planned(alone, portfolio(alone)[0], context=self.context)
            if isinstance(plan, Plan):
                time = self.context.offer(restored(plan))
                self.times[key] = None if self.context.refused else time
        return self.times[key]


def solve_jointly(problem: Placement, context: Context, alone: Alone) -> Outcome:
    """Offer plans that copy and run again; `alone` is `auto` where every op runs once."""
    if is_taped(problem.graph):
        with suppress(UsageError):
            stages_of(problem)
            return _of_taped(problem, context, alone)
    once = replace(problem, order="reference", recompute=False)
    said = ""
    if once.impossible() is None:
        inner = context.inner(once, context.remaining() * ALONE, "each op once: ")
        said = alone(once, inner).detail
        if inner.answer is not None:
            context.offer(inner.answer)
    _offer_pofo(problem, context)
    if context.closed or context.expired:
        return _ended(context, said)
    graph = problem.graph if problem.order == "free" else in_reference_order(problem.graph)
    try:
        if len(problem.machine.tiers) == len(problem.machine.processors) == 1:
            return _in_one_memory(problem, context, graph)
        check_machine(once)
        data = recompute_data(Recompute(graph), bundled=False)
    except LowtideError as error:
        return _ended(context, f"no op runs again: {error}")
    known = raise_by_returns(problem, context, graph, context.remaining() * BOUND)
    _search(problem, context, graph, data, alone)
    if not context.closed and not context.expired:
        raise_by_returns(problem, context, graph, context.remaining(), known)
    return _ended(context, said)


def _of_taped(problem: Placement, context: Context, alone: Alone) -> Outcome:
    """Offer POFO's plan, and the best one in which every forward saves: a problem of ops with one mode."""
    _offer_pofo(problem, context, OF_TAPED)
    if context.closed or context.expired:
        return _ended(context, "")
    saving = always_saving(problem)
    inner = context.inner(saving, context.remaining(), "every forward saves: ")
    outcome = solve_jointly(saving, inner, alone)
    if inner.answer is not None:
        context.offer(_of_problem(problem, inner.answer))
    return _ended(context, outcome.detail)


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


def _offer_pofo(problem: Placement, context: Context, part: float = PROGRAM) -> None:
    """Offer the plan of POFO's program, if the graph is a chain that it serves."""
    if context.closed or context.expired:
        return
    inner = context.inner(problem, context.remaining() * part, "POFO: ")
    inner.careful = True
    with suppress(LowtideError):
        solve_pofo(problem, inner)
    if inner.answer is not None:
        context.offer(inner.answer)


def _ended(context: Context, detail: str) -> Outcome:
    if context.closed:
        return Outcome()
    return Outcome(reason="time" if context.expired else None, detail=detail)


def _in_one_memory(problem: Placement, context: Context, graph: Graph) -> Outcome:
    """Solve recomputation: what there is to decide where nothing can be copied.

    There all that is initial is in the memory at first; here not what is overwritten before it is read.
    """
    question = Recompute(_without_unread(graph), machine=problem.machine)
    found = _recomputed(question, context, context.remaining(), "auto")
    if found.plan is not None:
        context.offer(_of_problem(problem, question.lower(question.read(found.plan))))
    if found.bound is not None:
        context.raise_bound(found.bound, found.proof or "exact", kind=found.bound_kind)
    infeasible = found.status is Status.INFEASIBLE
    return Outcome(reason=found.reason, infeasible=infeasible, detail=found.detail)


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


def _recomputed(question: Recompute, context: Context, seconds: float, method: str) -> Result:
    """Return what a method of recomputation finds, through `solve`, which prepares its kernels."""
    from ..solve import solve

    limit = None if math.isinf(seconds) else max(seconds, 0.1)
    found = solve(question, method, time_limit=limit, seed=context.seed, threads=context.threads)
    if found.reason == "interrupted":
        raise KeyboardInterrupt
    return found


def _search(problem: Placement, context: Context, graph: Graph, data: RecomputeData, alone: Alone) -> None:
    """Try sequences of runs, and place the best one with care."""
    trials = _Trials(problem, context)
    began, whole = context.elapsed(), context.remaining()
    all_runs: dict[int, tuple[int, ...]] = {}

    def left(part: float) -> float:
        return began + part * whole - context.elapsed()

    def attempt(runs: Sequence[int]) -> int | None:
        time = trials.time(runs)
        if time is not None:
            all_runs.setdefault(time, tuple(runs))
        return time

    attempt(range(data.n))
    context.progress("values made again, by price")
    some = droppable(data)
    best: tuple[int, int] | None = None  # time, how many
    for count in _ladder(some):
        if context.closed or left(LADDER) <= 0:
            break
        time = attempt(with_dropped(data, some[:count]))
        if time is not None and (best is None or time < best[0]):
            best = time, count
    context.progress("sequences of recomputation")
    for runs in _of_one_memory(problem, context, graph, lambda: left(ONE_MEMORY) / SIZES):
        if context.closed or left(ONE_MEMORY) <= 0:
            break
        attempt(runs)
    if best is not None:
        _flip(context, data, some, best[1], attempt, lambda: context.closed or left(FLIPS) <= 0)
    if all_runs and not context.closed and not context.expired:
        chosen, restored = trials.problem_of(all_runs[min(all_runs)])
        inner = context.inner(chosen, context.remaining(), "the best sequence: ")
        with suppress(LowtideError):
            alone(chosen, inner)
        if inner.answer is not None:
            context.offer(restored(inner.answer))


def _ladder(some: Sequence[Droppable]) -> Iterator[int]:
    """Yield how many of the cheapest are dropped."""
    counts = {round(len(some) * k / PRICES) for k in range(1, PRICES + 1)} - {0}
    yield from sorted(counts)


def _of_one_memory(
    problem: Placement, context: Context, graph: Graph, seconds: Callable[[], float]
) -> Iterator[list[int]]:
    """Yield the runs of recomputation alone in memories of several sizes, the largest first."""
    device = problem.machine.tiers[0]
    most = sequential_memory(graph).reference_peak
    if device.capacity is None or most <= device.capacity:
        return
    alone = replace(problem.machine, tiers=(device,), channels=(), groups=())
    for k in range(SIZES - 1, -1, -1):
        room = device.capacity + (most - device.capacity) * k // SIZES
        question = Recompute(graph, memory=room, machine=alone)
        found = _of_chain(question, context, seconds()) if k else None
        found = found or _recomputed(question, context, seconds(), "local-search" if k else "auto")
        if found.plan is None:
            return
        if not k and all(device.name in problem.may_start(x.kind) for x in graph.tensors if x.initial):
            context.offer(_of_problem(problem, question.lower(question.read(found.plan))))
        yield [run.op for run in sorted(found.plan.runs, key=lambda run: run.start)]


def _of_chain(question: Recompute, context: Context, seconds: float) -> Result | None:
    """Return what the program for chains finds, None if the graph is none."""
    with suppress(UsageError):
        return _recomputed(question, context, seconds, "hetero-chain")
    return None


def _flip(
    context: Context,
    data: RecomputeData,
    some: Sequence[Droppable],
    count: int,
    attempt: Callable[[Sequence[int]], int | None],
    stop: Callable[[], bool],
) -> None:
    """Drop one value more or less, while that helps (step 4)."""
    context.progress("flips of single values")
    random = Random(context.seed)
    chosen = {*range(count)}
    best = attempt(with_dropped(data, [some[k] for k in sorted(chosen)]))
    idle = 0
    while idle < IDLE and not stop():
        tried = chosen ^ {random.randrange(len(some)) for _ in range(random.choice((1, 1, 2, 4)))}
        time = attempt(with_dropped(data, [some[k] for k in sorted(tried)]))
        idle += 1
        if time is not None and (best is None or time < best):
            best, chosen, idle = time, tried, 0
