"""`auto` for `placement`: plans of the planner and bounds by windows and prices, at the same time.

1. The sum of the durations as a bound, and release times where inputs may not start on the device, and the
   first plan of the planner; often they meet.
2. Bounds by windows and by linear programs in a thread of their own (with two threads or more), while
   the planner tries its other settings; with one thread in turn with these. Where
   there are few ops `slot-lp`, whose programs grow with the square of the ops, goes on from there.

Policies plan periods, too: `belady` before the settings, others behind them or in turn. Where channels have
latencies planner and policies plan without; their plans then get the times that the latencies leave
(`timing`).

Single runs: bounds by windows, `flexgen` where weights are read again and nothing is trained, a few settings
of the planner, then `slot-lp` and the other settings; where there are too many ops for that, settings and
bounds by prices in turn.

Which step comes next, and how long it may take, does not depend on the time limit (`_in_turn`): with more
time the same steps come first, so what a smaller limit proves, a larger one proves, too.

Where the order is free: `lowtide.solvers.placement.orders.search`; orders get their plans as above, without
linear programs for bounds, which would be those of one order.

Whole tensors: then the local search over decisions; where ops are few and there is a time limit, `cpsat`
until it is up, in single runs instead.

Where there is no plan yet, policies and local search make one, then `first-touch` and `serial`, which takes
any machine. Behind these, `autotm-sync` improves it where operands may be read in place, and `tmof` where
there are several processors.

Each of these is a *part*. A plan counts when the verifier has found it valid. A part that does not serve the
machine, or fails, ends by itself: the others go on with what is known, and the result's detail tells of it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from ...models.errors import LowtideError, UsageError
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..engines.supervise import stop_running
from ..registry import find_method
from .bounds.prices import price_steps, raise_by_prices, raise_first_bounds
from .jointly import solve_jointly
from .models.autotm import solve_sync
from .models.intervals import solve_intervals
from .models.slots import solve_slots
from .models.tmof import solve_tmof
from .orders.search import solve_free
from .orders.tree import solve_every_order
from .planner.planner import check_machine, first_plan, try_settings
from .policies import autoswap, belady, deeptm, flexgen
from .policies.carry_out import Candidates, follow
from .policies.first_touch import solve_first_touch
from .policies.local_search import solve_local_search
from .replicas.share import replicas
from .replicas.together import solve_replicas
from .serial.search import solve_serial
from .simulator.simulator_case import Case
from .timing import without_latencies

POLICIES = (partial(deeptm.decide, trials=8), autoswap.decide)
"""What offers plans of periods behind the settings of the planner; `belady` does so before them."""

MOST_OPS = 400
"""Single runs of more ops than this get the bound by prices instead of the slot model, whose programs grow
with the number of ops times that of tensors."""

MOST_OF_PERIOD = 100
"""Ops up to which periods get the slot model, too: half a minute there, minutes at twice as many."""

MOST_INTERVALS = 100
"""Ops up to which `cpsat`, whose programs grow in the same way, finds plans within seconds."""

FIRST_SETTINGS = 2
"""Of the planner, tried on a small single run before the slot model, which finds better plans; by hand."""

CHOOSING = 5.0
"""Seconds for the modes of ops; chosen by hand."""

FOLLOWED = 20.0
"""Seconds for a policy that plans a single run; chosen by hand."""

_THROUGH = object()
"""What an iterator without further steps gives."""

EXHAUSTED = (
    "every setting of the planner and every round of the bounds was tried; "
    "--method local-search with --hint PLAN searches on, and more memory or bandwidth narrows the gap"
)


@dataclass
class _Parts:
    """What runs on a context, part by part, and what they say."""

    problem: Placement
    context: Context
    bounds: bool = True
    said: list[str] = field(default_factory=list)
    settings: Iterator[str] | None = None
    infeasible: bool = False

    def run(self, name: str, part: Callable[[], Outcome | str | None]) -> None:
        """Run a part, unless nothing is left to do; take its words, or its error, and go on."""
        if self.context.closed or self.context.expired:
            return
        try:
            outcome = part()
        except LowtideError as error:
            self.say(str(error))
        except Exception as error:
            logging.getLogger("lowtide").warning("auto: %s failed", name, exc_info=True)
            self.say(f"{name}: {type(error).__name__}: {error}")
        else:
            if isinstance(outcome, str):
                self.say(outcome)
            elif outcome is not None:
                self.say(outcome.detail)
                self.infeasible |= outcome.infeasible

    def say(self, words: str) -> None:
        """Keep words for the result, once."""
        if words and words not in self.said:
            self.said.append(words)

    def end(self) -> Outcome:
        """Return how all of it ended."""
        context = self.context
        infeasible = self.infeasible and context.answer is None
        late = context.late()
        if not (context.closed or late or infeasible):
            self.say(EXHAUSTED)
        return Outcome(
            reason="time" if late and not context.closed else None,
            infeasible=infeasible,
            detail="" if context.closed else "; ".join(self.said),
        )


def solve_auto(problem: Placement, context: Context) -> Outcome:
    """Stop as soon as a bound meets a plan, or when the settings and the programs are through."""
    if problem.order == "free":
        return solve_free(problem, context, partial(_solve_in_order, bounds=False), _solve_in_order)
    return _solve_in_order(problem, context)


def solve_orders(problem: Placement, context: Context) -> Outcome:
    """Solve all orders in turn (`lowtide.solvers.placement.orders.tree`)."""
    return solve_every_order(problem, context, _solve_in_order)


def _solve_in_order(problem: Placement, context: Context, bounds: bool = True) -> Outcome:
    """Solve a problem whose order is fixed; without `bounds` plans come first, and few bounds are raised."""
    context.careful = True
    if problem.recompute:
        raise_first_bounds(problem, context)
        return solve_jointly(problem, context, solve_auto)
    parts = _Parts(problem, context, bounds)
    if (found := replicas(problem)) is not None:
        parts.run("replicas", lambda: solve_replicas(found, context, _one_of_many))
        if context.answer is None:
            _last_resorts(parts)
        return parts.end()
    raise_first_bounds(problem, context)
    context.progress("planner")
    if problem.periodic:
        parts.run("planner", lambda: _first_plan(problem, context))
        if context.answer is None:
            _without_planner(parts)
        else:
            parts.run("belady", lambda: _follow(problem, context, belady.decide, math.inf))
        _periodic(parts)
    else:
        _single_run(parts)
    if context.answer is None:
        _last_resorts(parts)
    return parts.end()


def _one_of_many(problem: Placement, context: Context) -> Outcome:
    """Solve the problem of one replica; what is left to try, all together say."""
    return replace(solve_auto(problem, context), detail="")


def _first_plan(problem: Placement, context: Context) -> str:
    """Offer the first plan of the planner; return why there is none."""
    check_machine(problem)
    with context.attempt():
        found = first_plan(problem, context)
        if not isinstance(found, Plan):
            return found
        context.offer(found)
    return "" if context.answer is not None else context.refused


def _follow(
    problem: Placement, context: Context, decide: Callable[[Case], Candidates], seconds: float
) -> None:
    """Offer the plan of a policy, made without latencies, at the times that they leave.

    Parameters
    ----------
    problem, context
        Of the solve.
    decide
        The policy.
    seconds
        For the policy, at most.
    """
    prompt, timed = without_latencies(problem)
    own = context.inner(prompt, seconds, options={"strict": False})
    with suppress(UsageError):  # it does not serve the machine
        follow(prompt, own, decide)
    plan = None if own.answer is None else timed(own.answer)
    if plan is not None:
        context.offer(plan)


def _periodic(parts: _Parts) -> None:
    """Try settings of the planner and raise the bound, side by side if there are threads."""
    problem, context = parts.problem, parts.context
    if context.closed or context.expired:
        return
    if context.threads < 2 or not parts.bounds:
        bounds = {"bounds": price_steps(problem, context)} if parts.bounds else {}
        _in_turn(parts, {"planner": _settings(parts, CHOOSING), "policy": _policies(parts), **bounds})
        _slots_of_period(parts)
        _search_whole(parts)
        return
    stopped: list[BaseException] = []

    def work() -> None:
        try:
            parts.run("bounds", lambda: raise_by_prices(problem, context))
        except BaseException as error:
            stopped.append(error)

    thread = threading.Thread(target=work, name="lowtide bounds", daemon=True)
    thread.start()
    _in_turn(parts, {"planner": _settings(parts, math.inf)})
    _in_turn(parts, {"policy": _policies(parts)})
    _slots_of_period(parts)
    _search_whole(parts)
    while thread.is_alive() and not context.closed and not context.expired:
        thread.join(0.1)  # in slices: Ctrl-C comes through
    stop_running(context)
    if stopped:
        raise stopped[0]


def _single_run(parts: _Parts) -> None:
    """Try settings of the planner, then improve plan and bound by the slot model, or the bound by prices."""
    problem, context = parts.problem, parts.context
    parts.run("windows", lambda: raise_by_prices(problem, context, rounds=()))
    if flexgen.serves(problem):
        for early in (False, True):
            decide = partial(flexgen.decide, early=early)
            parts.run("flexgen", partial(_follow, problem, context, decide, FOLLOWED))
    settings, large = _settings(parts, CHOOSING), len(problem.graph.ops) > MOST_OPS
    _in_turn(parts, {"planner": islice(settings, 1 if large else FIRST_SETTINGS)})
    if context.answer is not None and not context.late():
        parts.run("planner", lambda: _first_plan(problem, context))  # at larger chunks
    if not large:
        parts.run("slot model", lambda: _slots(problem, context))
    bounds = {"bounds": price_steps(problem, context)} if large and parts.bounds else {}
    _in_turn(parts, {"planner": settings, **bounds})
    if context.answer is None:
        _without_planner(parts)
        parts.run("bounds", lambda: raise_by_prices(problem, context))
    else:
        _search_whole(parts)


def _slots_of_period(parts: _Parts) -> None:
    """Improve plan and bound of a period by the slot model, where it serves and is of moderate size."""
    if len(parts.problem.graph.ops) <= MOST_OF_PERIOD:
        parts.run("slot model", lambda: solve_slots(parts.problem, parts.context))


def _slots(problem: Placement, context: Context) -> Outcome:
    """Improve plan and bound by the slot model; where it does not serve, the bound by prices."""
    if any(len(op.all_modes) > 1 for op in problem.graph.ops):
        return raise_by_prices(problem, context)
    try:
        return solve_slots(problem, context)
    except UsageError:
        return raise_by_prices(problem, context)


def _in_turn(parts: _Parts, sides: Mapping[str, Iterator[str]]) -> None:
    """Take steps until all sides are through, always of the one that has taken the least time so far.

    Neither that choice nor a step knows the time limit, which only ends the sequence: under a larger one it
    begins as under a smaller one.
    """
    context, left, words = parts.context, dict.fromkeys(sides, 0.0), ""

    def step(name: str) -> None:
        nonlocal words
        if (found := next(sides[name], _THROUGH)) is _THROUGH:
            del left[name]
        elif name == "planner":
            words = str(found) or words

    while left and not context.closed and not context.expired:
        name = min(left, key=left.__getitem__)
        began = context.elapsed()
        parts.run(name, partial(step, name))
        if name in left:
            left[name] += context.elapsed() - began
    if context.answer is None:
        parts.say(words)


def _settings(parts: _Parts, choosing: float) -> Iterator[str]:
    """Try settings of the planner, from where it was left off; yield why each has no plan, or "".

    Modes of ops are chosen in so many seconds.
    """
    check_machine(parts.problem)
    context = parts.context
    if parts.settings is None:
        until = context.elapsed() + choosing
        parts.settings = try_settings(
            parts.problem, context, lambda: context.expired or context.elapsed() > until
        )
    for said in parts.settings:  # noqa: UP028  (the wrapper may end before the settings do)
        yield said


def _policies(parts: _Parts) -> Iterator[str]:
    """Let policies plan a period, each in as much time as has passed."""
    for decide in POLICIES:
        _follow(parts.problem, parts.context, decide, parts.context.elapsed())
        yield ""


def _search_whole(parts: _Parts) -> None:
    """Search decisions on whole tensors: the planner is made for chunks, the slot model for bytes."""
    problem, context = parts.problem, parts.context
    if not problem.whole:
        return
    timed = len(problem.graph.ops) <= MOST_INTERVALS and context.time_limit is not None
    if problem.periodic or not timed:
        parts.run("local search", lambda: solve_local_search(problem, context))
    if timed:
        parts.run("intervals", lambda: solve_intervals(problem, context))


def _without_planner(parts: _Parts) -> None:
    """Raise the bound by windows, then search from the policies on."""
    problem, context = parts.problem, parts.context
    parts.run("windows", lambda: raise_by_prices(problem, context, rounds=()))
    parts.run("local search", lambda: solve_local_search(problem, context))


def _last_resorts(parts: _Parts) -> None:
    """Look for any plan."""
    problem, context = parts.problem, parts.context
    parts.run("first-touch", lambda: solve_first_touch(problem, context))
    parts.run("serial", lambda: solve_serial(problem, context))
    if any(len(processor.tiers) > 1 for processor in problem.machine.processors):
        options, _ = find_method("placement", "autotm-sync").typed({})
        own = context.inner(problem, options=options, known=context.known)
        parts.run("autotm-sync", lambda: solve_sync(problem, own))
    if len(problem.machine.processors) > 1:
        parts.run("tmof", lambda: solve_tmof(problem, context))
