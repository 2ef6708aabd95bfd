"""`cpsat` for `placement`: a bound by what must pass in windows, and plans by intervals, through CP-SAT.

1. Bounds at once: the sum of the durations and those by windows.
2. In bytes, a plan of the slot model, and its model in whole bytes and ns (`slots.rounded`), in CP-SAT, which
   starts from it; what follows cuts no tensors.
3. In single runs, annealing over lines of events (`event_orders`), from a plan of `serial` if there is none,
   until some rounds in a row find nothing; in periods local search on the simulator for a tenth of the time.
4. Of whole tensors, the model of windows: its bound holds for every plan. Its best solution says what is gone
   from the fast memory when.
5. In single runs, solutions of it at its bound, and for each the model of intervals in parts of a ns
   (`batches`), where that is gone then; few steps for both, many tries. A plan that ends at the bound in
   parts of a ns loses no more than rounding. Then copies of the best plan share channels.
6. The model of intervals, where that is gone then: mostly solved in a second.
7. The model of windows again, for solutions near its bound, and 6 again.
8. Where there are few absences or it is a period, the model of intervals, for plans that are faster than the
   one found; in single runs the annealing again, while there is time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ....formulations.model import BuildTimeout, ticker
from ....formulations.placement.states import StateData, state_data
from ....formulations.placement.whole import intervals_cpsat, windows_cpsat
from ....formulations.placement.whole.absences import absences
from ....formulations.placement.whole.batches import finer
from ....formulations.placement.whole.intervals_cpsat import common_tick
from ....formulations.placement.whole.intervals_model import IntervalModel
from ....formulations.placement.whole.sequence import longest_stall, rates
from ....formulations.placement.whole.windows_cpsat import WindowModel
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...engines.cpsat import solve_cpsat
from ...engines.master import Master
from ...engines.memory import refuse_if_too_large
from ...registry import unserved
from ..bounds.prices import raise_by_prices, unsampled
from ..policies.local_search import solve_local_search
from ..serial.search import solve_serial
from ..slots.bytes import search_in_bytes
from ..slots.rounded import by_cpsat
from ..traits import Trait, traits
from .batches import search_batches
from .event_orders import search_lines

FEW = 100
"""Absences up to which lives may leave where no instant is, too."""

OTHER, LINES, FIRST, NEXT, REST = 0.1, 0.2, 0.4, 0.3, 0.5
"""Parts of the time that is left: for other methods, lines, the bound, each round after it, and plans."""
SINGLE, TRIES, TRIED, VAIN = 0.15, 40, 0.6, 4
"""In single runs: the part for the bound, how many solutions at the bound are sought, in which part of the
time that is left, and how often none may be found in a row."""
ROUNDS = 6
"""Models of windows at most, each after plans of the one before; a limit of time ends them sooner."""
SLACKS = 3
"""Rounds ask for a solution within 0, 1 or 2 ns for each op of the bound, in turn."""

SETTINGS = {"linearization_level": "2"}
"""The linear relaxation of windows proves nearly all of the bound, that of intervals finds plans sooner."""

NEAR = {"linearization_level": "0", "max_deterministic_time": "1"}
PLAN = {"linearization_level": "0", "max_deterministic_time": "0.2"}
"""Any solution of windows, or a plan: without relaxations, and not for long."""

LONGEST = 2**53
"""Parts of a ns up to which plans at the bound are sought."""
LARGEST = 2**60
"""Of bytes times ticks, which relaxations of intervals add up in 64 bits: CP-SAT 9.15 aborts beyond them."""

LATEST = 2**62
"""Times in ns from which there are no models."""
TOO_LARGE = "found times or bytes that add up to more than 64 bits, too many for CP-SAT"

Gone = Mapping[tuple[int, int], bool]


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Of the model of windows: its objective in ns, what is gone, and to which tier, by life."""

    objective: int
    gone: Gone
    tiers: Mapping[int, int]


class Relaxation(Master):
    """The model of windows."""

    name: ClassVar[str] = "placement by windows"
    unit: ClassVar[str] = "ns"

    def evaluate(self, answer: Solution) -> int:
        """Return the objective."""
        return answer.objective


def solve_intervals(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan with whole tensors, and a bound for all of them if copies may not be cut.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:skipchain?n=4,machine=v100-16g-pcie3,device=400MB,start=gpu,whole=1"
    >>> problem = load_problem("placement", spec)
    >>> lt.solve(problem, "cpsat", threads=1).status
    <Status.OPTIMAL: 'optimal'>
    """
    data = state_data(problem, modes=True)
    context.careful = True
    context.raise_bound(data.ideal, kind="sum of durations")
    if not unsampled(problem):
        raise_by_prices(problem, context, rounds=())
    refused = refuse_if_too_large(
        windows_cpsat.size(data),
        bytes_per_term=windows_cpsat.BYTES_PER_TERM,
        context=context,
        what="the interval model of placement",
    )
    if refused is not None:
        return refused
    search = _IntervalSearch(problem, context, data)
    if not problem.whole:
        if not traits(problem) & Trait.MODES:
            search_in_bytes(problem, context, by_cpsat)
        if context.closed:
            return Outcome()
    if problem.periodic:
        if not unserved(problem, "local-search"):
            search.other(solve_local_search)
    else:
        if context.answer is None:
            search.other(solve_serial)
        search_lines(problem, context, data, LINES * context.remaining())
    try:
        if search.horizon >= LATEST:
            outcome = Outcome(detail=TOO_LARGE)
        else:
            outcome = search.rounds() if problem.whole else search.plans()
    except BuildTimeout:
        outcome = Outcome(reason="time", detail="the interval model of placement was not built in time")
    if outcome.infeasible and context.answer is None:
        return outcome
    if context.answer is None:
        search.other(solve_serial)
    if not problem.periodic and context.time_limit is not None and outcome.reason is not None:
        search_lines(problem, context, data, context.remaining(), patient=True)
    if context.closed:
        return Outcome(detail=outcome.detail)
    return Outcome(reason="time" if context.expired else None, detail=outcome.detail)


@dataclass
class _IntervalSearch:
    """What is known while models are solved one after the other."""

    problem: Placement
    context: Context
    data: StateData
    solution: Solution | None = None
    start: dict[str, int] = field(default_factory=dict)
    """Values of variables of the best plan, by name."""

    @property
    def horizon(self) -> int:
        """The longest time of interest, in ns."""
        context, data = self.context, self.data
        return data.slowest + longest_stall(data) if context.incumbent is None else context.incumbent

    def other(self, search: Callable[[Placement, Context], Outcome]) -> None:
        """Offer what another method finds in a small part of the time."""
        own = self._own(self.problem, OTHER, engine_options={})
        search(self.problem, own)
        if own.answer is not None:
            self.context.offer(own.answer)

    def rounds(self) -> Outcome:
        """Solve the model of windows, and for each of its solutions that of intervals.

        The first bound of the former is nearly that of its optimum, and its solutions are found sooner by
        asking for any whose objective is near that bound.
        """
        context = self.context
        context.progress("interval model: bound")
        part = FIRST if self.problem.periodic else SINGLE
        outcome = self._relaxed(self._windows(), part, seed=context.seed)
        if outcome.infeasible:
            return replace(
                outcome,
                detail="no plan of whole tensors: during some op more must be away from the first tier than "
                f"the other tiers hold, or the channels ever bring there and back ({outcome.detail})",
            )
        if not self.problem.periodic:
            self.at_bound()
        planned: Solution | None = None
        for number in range(ROUNDS):
            best = self.solution
            if best is not None and best is not planned:
                planned = best
                self.plans(best)
            if best is None or context.closed or context.expired or context.bound is None:
                break
            near = context.bound + self.data.n * (number % SLACKS)
            if best.objective <= near:
                break
            context.progress("interval model: nearer to the bound")
            built = self._windows()
            built.model.clear_objective()
            built.model.add(built.finish <= near)
            self._relaxed(built, NEXT, seed=context.seed + number)
        return self.plans()

    def at_bound(self) -> None:
        """Look for solutions of the windows at their bound, and for their plans, which lose by rounding only.

        Where there is no such solution, no plan takes as little as the bound, which is raised by a ns.
        """
        context, (data, parts) = self.context, finer(self.data)
        before, until, vain = self.solution, context.elapsed() + TRIED * context.remaining(), 0
        for number in range(TRIES):
            bound, vain = context.bound, vain + 1
            if bound is None or context.closed or vain > VAIN or context.elapsed() > until:
                break
            if bound * parts >= LONGEST:
                break
            context.progress("interval model: plans at the bound")
            self.solution, built = None, self._windows()
            built.model.clear_objective()
            built.model.add(built.finish <= bound)
            outcome = self._relaxed(built, 1.0, seed=context.seed + number, settings=NEAR)
            if outcome.infeasible:
                context.raise_bound(bound + 1, kind="CP-SAT, windows")
            if self.solution is not None:
                vain = 0
                self._planned(data, bound * parts, self.solution)
        self.solution = self.solution or before

    def _planned(self, data: StateData, end: int, solution: Solution) -> None:
        """Offer a plan in which that is gone, if there is one by `end`, in the parts of a ns of the data."""
        tick = common_tick(data, rates(data, beside=False)[0])
        row = ticker(lambda: self.context.expired)
        every = len(absences(data)) <= FEW
        built = intervals_cpsat.build(
            data, end, tick=tick, every=every, rows=False, gone=solution.gone, row=row
        )
        built.model.clear_objective()
        built.model.add(built.finish * tick <= end)
        self._fix(built, solution)
        own = self._own(self.problem, 1.0)

        def read(value: Any) -> Any:
            return intervals_cpsat.decode(built, value, self.problem, data=self.data)

        _solved(built.model, own, decode=read, to_objective=lambda ticks: self.data.ideal, defaults=PLAN)
        if own.answer is not None:
            self.context.offer(own.answer)
            search_batches(self.problem, self.context, self.data, own.answer)

    def _relaxed(
        self, built: WindowModel, part: float, *, seed: int, settings: Mapping[str, str] = SETTINGS
    ) -> Outcome:
        """Solve a model of windows for a part of the time."""
        context, end = self.context, built.finish
        proves = built.model.has_objective()
        if context.bound is not None:
            built.model.add(end >= context.bound)

        def read(value: Any) -> Solution:
            gone = {key: bool(value(part)) for key, part in built.gone.items()}
            return Solution(objective=value(end), gone=gone, tiers=self._tiers(built, gone, value))

        def note(bound: int) -> int:
            if proves:
                context.raise_bound(bound, kind="CP-SAT, windows")
            return bound

        own = self._own(Relaxation(self.problem.graph), part, turn=seed - context.seed)
        outcome = _solved(built.model, own, decode=read, to_objective=note, defaults=settings)
        if own.answer is not None and (
            self.solution is None or own.answer.objective < self.solution.objective
        ):
            self.solution = own.answer
        return outcome

    def _tiers(self, built: WindowModel, gone: Gone, value: Any) -> dict[int, int]:
        """Return a tier for each life that is gone: one with room for it all the time, or the fastest one."""
        data, allowed = self.data, dict[int, list[int]]()
        speed = {way.src: way.rate for way in data.ways if not way.dst}
        free = [x for x in speed if data.capacity[x] is None]
        rest = max(free or speed, key=lambda x: (speed[x], -x), default=0)
        for (g, c), there in gone.items():
            if there:
                life = built.absences[g].life
                fits = [x for x in speed if (u := built.inside.get((g, c, x))) is not None and value(u)]
                allowed[life] = [x for x in allowed.get(life, fits) if x in fits]
        return {life: min(tiers, default=rest) for life, tiers in allowed.items()}

    def plans(self, solution: Solution | None = None) -> Outcome:
        """Solve the model of intervals, with what is gone in a solution if one is given."""
        context, outcome = self.context, Outcome()
        if not self.problem.periodic and len(absences(self.data)) > FEW and context.time_limit is not None:
            return Outcome(reason="time")  # lines are faster, and take it
        for beside in (False, True) if self.data.caps else (False,):
            if context.closed or context.expired:
                break
            context.progress("interval model: plans")
            own = self._own(self.problem, REST if solution is not None or self.data.caps else 1.0)
            outcome = self._solve(own, beside, solution)
        return outcome

    def _solve(self, own: Context, beside: bool, solution: Solution | None) -> Outcome:
        """Solve the model of intervals on a context of its own, and offer its plans."""
        context, data = self.context, self.data
        tick = context.options.get("tick") or common_tick(data, rates(data, beside=beside)[0])
        built = intervals_cpsat.build(
            data,
            self.horizon,
            tick=tick,
            beside=beside,
            every=len(absences(data)) <= FEW,
            rows=solution is None,
            gone=None if solution is None else solution.gone,
            row=ticker(lambda: context.expired),
        )
        if solution is not None:
            self._fix(built, solution)
        elif context.bound is not None:
            built.model.add(built.finish * tick >= context.bound)
        parts = built.variables()
        for name, part in parts.items():
            if name in self.start:
                built.model.add_hint(part, self.start[name])

        def read(value: Any) -> Any:
            plan = intervals_cpsat.decode(built, value, self.problem, beside=beside)
            before = context.incumbent
            context.offer(plan)
            if context.incumbent != before:
                self.start = {name: value(part) for name, part in parts.items()}
            return plan

        small = sum(life.nbytes for life in data.lives) * built.horizon < LARGEST
        outcome = _solved(
            built.model,
            own,
            decode=read,
            to_objective=lambda ticks: data.ideal,
            defaults=SETTINGS if small else {},
        )
        detail = f"{outcome.detail}, among plans in steps of {tick} ns, one copy at a time on each channel"
        return Outcome(reason=outcome.reason, detail=detail)

    def _fix(self, built: IntervalModel, solution: Solution) -> None:
        """Let what is gone in a solution be in its tiers, and nothing else be away."""
        gone = {g for (g, _), there in solution.gone.items() if there}
        for g, trip in built.trips.items():
            absence = built.absences[g]
            for away in trip.away.values() if g not in gone and not absence.away(self.data) else ():
                built.model.add(away == 0)
        for number, x in solution.tiers.items():
            if (out := built.outs.get((number, x))) is not None and out.at is not None:
                built.model.add(out.used == 1)

    def _windows(self) -> WindowModel:
        row = ticker(lambda: self.context.expired)
        return windows_cpsat.build(self.data, self.horizon, row=row)

    def _own(
        self, problem: Any, part: float, *, turn: int = 0, engine_options: Mapping[str, str] | None = None
    ) -> Context:
        """Return a context for a part of the time that is left."""
        context = self.context
        seconds = context.remaining() * part
        return context.inner(
            problem, seconds, prefix=None, turn=turn, options={}, engine_options=engine_options
        )


def _solved(model: Any, own: Context, **how: Any) -> Outcome:
    """Run CP-SAT, unless it finds that sums of the model leave 64 bits."""
    if "overflow" in model.validate():
        return Outcome(detail=TOO_LARGE)
    return solve_cpsat(model, own, **how)
