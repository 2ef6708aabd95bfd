"""Any method of one GPU, for replicas: its plan of one on its share in step, and of one alone in turn.

1. The method works on the problem of one GPU that has a G-th of what all share (`share`); each better plan is
   that of all GPUs in step.
2. Single runs, with the rest of the time: it works on that of one GPU with the link for itself, and the
   runtime carries its plans out on all GPUs (`runtime`), once the first GPU first and once first come, first
   served.

Its bounds on 2 are bounds of all plans, those of single runs with the last exchange on top (`exchange`); so
are those of single ops on a shared link (`lowtide.formulations.placement.bounds.single_ops.window_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from .....formulations.placement.bounds.releases import ideal_time
from .....formulations.placement.bounds.single_ops import window_bound
from .....formulations.placement.states import empty_and_far, state_data
from .....models.plan import Plan
from .....models.problems.placement import Placement
from ....context import Context, Outcome
from ...traits import STATES, Trait, traits
from .exchange import joint_bound, last_delay
from .runtime import RULES, carry_out
from .share import Replicas, replicas

P = ParamSpec("P")


@dataclass(kw_only=True)
class _OneContext(Context):
    """Takes plans of one GPU and passes on those of all; its bounds too, if they are such of all plans."""

    whole: Context
    of_all: Callable[[Plan], Iterable[Plan]]
    bounds_all: bool
    """Whether bounds that average are bounds of all plans (`share`)."""
    linear_only: bool
    """Whether others are not."""
    later: int
    """Ns by which they are then higher for all plans (`exchange`)."""
    shared: dict[str, int] = field(default_factory=dict)
    """``linear``, the best exact bound that averages; ``best``, the time of the best plan of all that was
    taken."""

    @property
    def linear(self) -> int | None:
        """The best exact bound that averages."""
        return self.shared.get("linear")

    def offer(self, item: object) -> int:
        """Take a plan of one GPU, and offer those of all that come of it."""
        before = self.answer
        value = super().offer(item)
        if self.answer is not before:
            for plan in self.of_all(self.answer):
                time = self.whole.offer(plan)
                if not self.whole.refused:
                    self.shared["best"] = min(time, self.shared.get("best", time))
        return value

    def raise_bound(
        self, value: int, proof: str = "exact", *, kind: str | None = None, averages: bool = False, **of: Any
    ) -> None:
        """Take a bound."""
        super().raise_bound(value, proof, kind=kind)
        if proof == "exact" and averages:
            with self.known.lock:
                self.shared["linear"] = max(value, self.shared.get("linear", 0))
        if self.bounds_all and (averages or not self.linear_only):
            self.whole.raise_bound(value + self.later, proof, kind=kind and f"{kind}, one GPU")


def for_replicas(
    solve: Callable[Concatenate[Placement, Context, P], Outcome],
) -> Callable[Concatenate[Placement, Context, P], Outcome]:
    """Return the method, for replicas as well; for all else it is as before."""

    @wraps(solve)
    def run(problem: Placement, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        split = replicas(problem)
        if split is None:
            return solve(problem, context, *args, **kwargs)
        return solve_replicas(split, context, lambda one, inner: solve(one, inner, *args, **kwargs))

    return run


def solve_replicas(
    split: Replicas, context: Context, solve: Callable[[Placement, Context], Outcome]
) -> Outcome:
    """Have a method of one GPU work for all, as above."""
    context.careful = True
    raise_joint_bounds(split, context)
    outcomes = list[Outcome]()
    turns = (False, True) if len(split.lanes) > 1 and not split.problem.periodic else (False,)
    for number, turn in enumerate(turns):
        if not context.closed and not context.expired:
            seconds = context.remaining() / (len(turns) - number)
            outcomes.append(solve_one(split, context, solve, in_turn=turn, seconds=seconds))
    reason = "time" if context.expired and not context.closed else None
    facts = {key: value for outcome in outcomes for key, value in outcome.facts.items()}
    return Outcome(reason=reason, detail="; ".join(x.detail for x in outcomes), facts=facts)


def solve_one(
    split: Replicas,
    context: Context,
    solve: Callable[[Placement, Context], Outcome],
    *,
    in_turn: bool,
    seconds: float = math.inf,
) -> Outcome:
    """Have a method of one GPU work on its share of what all share, or with the link for itself."""
    one = split.alone if in_turn else split.shared
    inner = one_context(split, context, one, seconds)
    outcome = solve(one, inner)
    name, best, linear = "in turn" if in_turn else "in step", inner.shared.get("best"), inner.linear
    facts = {} if best is None else {name.replace(" ", "_"): best}
    if not in_turn and split.even and split.closed and linear is not None:
        facts["in_step_bound"] = linear + split.step_delay
    words = [name, "no plan" if best is None else f"{best} ns", outcome.detail]
    reason = "time" if context.expired and not context.closed else outcome.reason
    return Outcome(reason=reason, detail=" ".join(word for word in words if word), facts=facts)


def one_context(split: Replicas, context: Context, one: Placement, seconds: float) -> _OneContext:
    """Return the context of one GPU, which is `shared` or `alone`: what it finds goes on to that of all."""
    many, alone = len(split.lanes), one is split.alone

    def of_all(plan: Plan) -> Iterable[Plan]:
        copies = [plan] * many
        if not alone:
            return [split.spread(copies)]
        return (carry_out(split, copies, rule) for rule in RULES)

    inner = context.inner(one, seconds, f"{'in turn' if alone else 'in step'}: ")
    given = {one.name: getattr(inner, one.name) for one in fields(inner)}
    bounds_all = alone and split.roomy and split.closed and not (split.scattered and one.periodic)
    later = 0 if one.periodic else split.last_delay
    return _OneContext(
        **given, whole=context, of_all=of_all, bounds_all=bounds_all, linear_only=split.scattered, later=later
    )


def raise_joint_bounds(split: Replicas, context: Context) -> None:
    """Raise the bound to durations, with what is exchanged, and to single ops on a shared link."""
    context.raise_bound(ideal_time(split.problem), kind="sum of durations")
    joint_out, joint_in = split.joint_rates
    if split.lanes[0].received:
        bound = joint_bound(split.problem, split.lanes, joint_out, joint_in)
        context.raise_bound(bound, kind="exchange")
    if not split.closed:
        return
    one = split.lanes[0].problem
    if not traits(one) & ~(STATES & ~Trait.MODES) and not empty_and_far(one):
        bound = window_bound(
            state_data(one),
            many=len(split.lanes),
            joint_out=joint_out,
            joint_in=joint_in,
            scattered=split.scattered,
            expired=lambda: context.expired,
        )
        later = last_delay(split.problem, split.lanes, joint_out, joint_in, scattered=True)
        context.raise_bound(bound + later, kind="single ops on a shared link")
