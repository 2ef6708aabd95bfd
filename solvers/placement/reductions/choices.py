"""Any method of ops with one mode each, for ops with several: branch and bound over the modes that are left.

1. The method works on the reference modes (`modes`), the fastest, the smallest.
2. It works on ops of the least duration and the least workspace of all their modes: its bounds there are
   bounds of all plans, and if it proves that there is no plan, there is none.
3. Branches: of the op whose modes that are left differ most in duration, the fastest one against the others,
   and 2 for each; where one mode an op is left, its plan is one of the problem. The least bound comes first.
   The bound is the least of those of the branches that are left.

*Proof that bounds of 2 are bounds.* Take a plan in which every op runs in one of the modes that are left.
Let each run take the least duration d instead, under ``coexist`` the last d ns of it, under ``replace`` the
first, and the least workspace. Its operands are there as before; what it writes is there no later, and has
its room no earlier; what starts or is released behind its end stays as it is. So it is a plan of the ops of
2, of the same time. A mode that takes no less time and no less workspace than another one is left out for
the same reason. (All ops use the first tier only, as these methods ask for.)

Source: this suite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from heapq import heappop, heappush

from ....models.graph import Mode
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from .modes import fastest_modes, in_modes, reference_modes, smallest_modes

MOST = 100
"""Branches over modes at most; each solves a placement of its own."""

Solve = Callable[[Placement, Context], Outcome]
Left = tuple[tuple[int, ...], ...]
"""By op, the numbers of the modes that are left, fastest first."""


def for_modes(*, by_plans: bool = False) -> Callable[[Solve], Solve]:
    """Return what makes a method one for ops with several modes as well; for all else it is as before.

    `by_plans`: no branch is followed where the best plan of 2 is no better than the one at hand, for a method
    whose plans of its form say more than its bounds of all plans do.
    """

    def made(solve: Solve) -> Solve:
        @wraps(solve)
        def run(problem: Placement, context: Context) -> Outcome:
            if all(len(op.all_modes) < 2 for op in problem.graph.ops):
                return solve(problem, context)
            return _Choices(problem, context, solve, by_plans).search()

        return run

    return made


def useful(problem: Placement) -> Left:
    """Return the modes in which an op may run, without those that another one beats.

    Examples
    --------
    >>> import lowtide as lt
    >>> ways = tuple(lt.Mode(duration_ns=ns, workspace=size) for ns, size in ((9, 0), (4, 8), (5, 8)))
    >>> graph = lt.Graph(name="one", tensors=(), ops=(lt.Op(name="a", modes=ways),))
    >>> useful(lt.Placement(graph, lt.load_machine("a100-40g-pcie3")))
    ((1, 0),)
    """
    kinds = {processor.kind for processor in problem.machine.processors}
    modes_left = []
    for op in problem.graph.ops:
        ways = [(m, x) for m, x in enumerate(op.all_modes) if not x.processors or kinds & {*x.processors}]
        ways.sort(key=lambda way: (way[1].duration_ns, way[1].workspace, way[0]))
        kept: list[int] = []
        for m, mode in ways:
            if not kept or mode.workspace < op.all_modes[kept[-1]].workspace:
                kept.append(m)
        modes_left.append(tuple(kept))
    return tuple(modes_left)


def relaxed(problem: Placement, left: Left) -> Placement:
    """Return the problem whose ops have the least duration and the least workspace of the modes left."""
    ops = []
    for op, numbers in zip(problem.graph.ops, left, strict=True):
        ways = [op.all_modes[m] for m in numbers]
        least = Mode(
            duration_ns=min(x.duration_ns for x in ways),
            workspace=min(x.workspace for x in ways),
            processors=ways[0].processors,
            operands=ways[0].operands,
        )
        ops.append(replace(op, modes=(least,)))
    return replace(problem, graph=replace(problem.graph, ops=tuple(ops)))


@dataclass
class _Choices:
    """The search: bounds in ns of what is left, and what was found of each choice."""

    problem: Placement
    context: Context
    solve: Solve
    by_plans: bool
    known: dict[tuple[int, ...], int | None] = field(default_factory=dict)
    floating: bool = False
    detail: str = ""

    def search(self) -> Outcome:
        """Return how it ended."""
        context, problem = self.context, self.problem
        context.careful = True
        for modes in (reference_modes(problem), fastest_modes(problem), smallest_modes(problem)):
            if not context.closed and not context.expired:
                self.chosen(tuple(modes))
        ends, number = list[int](), 0  # bounds of what is not branched on
        queue: list[tuple[int, int, Left]] = []
        self.reach(useful(problem), 0, queue, ends)
        while queue and number < MOST and not context.expired:
            self.settle(queue, ends)
            if context.closed:
                break
            least, _, left = heappop(queue)
            if context.incumbent is not None and least >= context.incumbent:
                ends.append(least)
                break  # nor is anything else better
            number += 1
            widest = max(range(len(left)), key=lambda k: self.spread(left, k))
            for part in (left[widest][:1], left[widest][1:]):
                self.reach((*left[:widest], part, *left[widest + 1 :]), least, queue, ends)
        self.settle(queue, ends)
        detail = (
            f"{self.detail}; {number} branches by modes" if self.detail else f"{number} branches by modes"
        )
        if not queue and not ends and context.answer is None and not context.expired:
            return Outcome(infeasible=True, detail=f"no plan in any modes; {detail}")
        return Outcome(reason="time" if context.expired and not context.closed else None, detail=detail)

    def spread(self, left: Left, k: int) -> int:
        """Return by how many ns the modes of an op that are left differ; -1 for one mode."""
        modes = self.problem.graph.ops[k].all_modes
        return modes[left[k][-1]].duration_ns - modes[left[k][0]].duration_ns if len(left[k]) > 1 else -1

    def reach(self, left: Left, least: int, queue: list[tuple[int, int, Left]], ends: list[int]) -> None:
        """Have the method work on a branch of which a bound is known; keep it, if there may be a plan."""
        if all(len(modes) == 1 for modes in left):
            modes = tuple(one for (one,) in left)
            bound = self.known[modes] if modes in self.known else self.chosen(modes)
            if bound is not None:
                ends.append(max(least, bound))
            return
        inner, outcome = self.work(relaxed(self.problem, left))
        if outcome.infeasible and inner.answer is None:
            return
        bound, best, relaxed_best = max(least, inner.bound or 0), self.context.incumbent, inner.incumbent
        known = self.by_plans and outcome.reason is None
        if known and best is not None and relaxed_best is not None and relaxed_best >= best:
            ends.append(bound)
        else:
            heappush(queue, (bound, len(queue) + len(ends), left))

    def chosen(self, modes: tuple[int, ...]) -> int | None:
        """Offer the method's plan in some modes; return a bound on all in them, None if there is none."""
        one, restored = in_modes(self.problem, modes)
        inner, outcome = self.work(one)
        if inner.answer is not None:
            before = self.context.incumbent
            value = self.context.offer(restored(inner.answer))
            if before is None or value < before:
                self.detail = outcome.detail
        self.detail = self.detail or outcome.detail
        gone = outcome.infeasible and inner.answer is None
        self.known[modes] = None if gone else inner.bound or 0
        return self.known[modes]

    def work(self, problem: Placement) -> tuple[Context, Outcome]:
        """Have the method work on ops with one mode each for half of the time that is left."""
        inner = self.context.inner(problem, self.context.remaining() / 2, "modes: ")
        why = problem.impossible()
        if why is not None:
            return inner, Outcome(infeasible=True, detail=why)
        outcome = self.solve(problem, inner)
        self.floating |= inner.proof == "floating"
        return inner, outcome

    def settle(self, queue: Sequence[tuple[int, int, Left]], ends: Sequence[int]) -> None:
        """Raise the bound to the least of what is left, or to the incumbent if that is no better."""
        bounds = [*(least for least, _, _ in queue), *ends]
        if self.context.incumbent is not None:
            bounds.append(self.context.incumbent)
        if bounds and (self.context.bound is None or min(bounds) > self.context.bound):
            proof = "floating" if self.floating else "exact"
            self.context.raise_bound(min(bounds), proof, kind="branches by modes")
