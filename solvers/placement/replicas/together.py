"""Any method of one GPU, for replicas: its plan of one on its share in step, and of one alone in turn.

1. The method works on the problem of one GPU that has a G-th of what all share (`share`); each better plan is
   that of all GPUs in step.
2. Single runs, with the rest of the time: it works on that of one GPU with the link for itself, and the
   runtime carries its plans out on all GPUs (`runtime`), once the first GPU first and once first come, first
   served.

Its bounds on 2 are bounds of all plans, those of single runs with the last exchange on top (`exchange`); so
are those of single ops on a shared link (`lowtide.formulations.placement.single_ops.window_bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from ....formulations.placement.releases import ideal_time
from ....formulations.placement.single_ops import window_bound
from ....formulations.placement.states import state_data
from ....models.errors import UsageError
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ...context import Context, Outcome
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
    found: dict[str, int] = field(default_factory=dict)
    """``linear``, the best exact bound that averages; ``best``, the time of the best plan of all that was
    taken."""

    @property
    def linear(self) -> int | None:
        """The best exact bound that averages."""
        return self.found.get("linear")

    def offer(self, item: object) -> int:
        """Take a plan of one GPU, and offer those of all that come of it."""
        before = self.answer
        value = super().offer(item)
        if self.answer is not before:
            for plan in self.of_all(self.answer):
                found = self.whole.offer(plan)
                if not self.whole.refused:
                    self.found["best"] = min(found, self.found.get("best", found))
        return value

    def raise_bound(
        self,
        value: int,
        proof: str = "exact",
        *,
        kind: str | None = None,
        evidence: Any = None,
        averages: bool = False,
    ) -> None:
        """Take a bound."""
        super().raise_bound(value, proof, kind=kind)
        if proof == "exact" and averages:
            with self.known.lock:
                self.found["linear"] = max(value, self.found.get("linear", 0))
        if self.bounds_all and (averages or not self.linear_only):
            self.whole.raise_bound(value + self.later, proof, kind=kind and f"{kind}, one GPU")


def for_replicas(
    solve: Callable[Concatenate[Placement, Context, P], Outcome],
) -> Callable[Concatenate[Placement, Context, P], Outcome]:
    """Return the method, for replicas as well; for all else it is as before."""

    @wraps(solve)
    def run(problem: Placement, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        found = replicas(problem)
        if found is None:
            return solve(problem, context, *args, **kwargs)
        return solve_replicas(found, context, lambda one, inner: solve(one, inner, *args, **kwargs))

    return run


def solve_replicas(
    found: Replicas, context: Context, solve: Callable[[Placement, Context], Outcome]
) -> Outcome:
    """Have a method of one GPU work for all, as above."""
    problem, many = found.problem, len(found.lanes)
    context.careful = True
    raise_joint_bounds(found, context)
    twice = many > 1 and not problem.periodic
    facts, said = dict[str, int](), list[str]()
    for turn in range(1 + twice):
        if context.closed or context.expired:
            break
        name = "in turn" if turn else "in step"
        left = context.remaining() / (2 if twice and not turn else 1)
        one = found.alone if turn else found.shared
        inner = one_context(found, context, one, left)
        outcome = solve(one, inner)
        best, linear = inner.found.get("best"), inner.linear
        if best is not None:
            facts[name.replace(" ", "_")] = best
        if not turn and found.even and found.closed and linear is not None:
            facts["in_step_bound"] = linear + found.step_delay
        words = [name, "no plan" if best is None else f"{best} ns", outcome.detail]
        said.append(" ".join(word for word in words if word))
    reason = "time" if context.expired and not context.closed else None
    return Outcome(reason=reason, detail="; ".join(said), facts=facts)


def one_context(found: Replicas, context: Context, one: Placement, seconds: float) -> _OneContext:
    """Return the context of one GPU, which is `shared` or `alone`: what it finds goes on to that of all."""
    many, alone = len(found.lanes), one is found.alone

    def of_all(plan: Plan) -> Iterable[Plan]:
        copies = [plan] * many
        if not alone:
            return [found.spread(copies)]
        return (carry_out(found, copies, rule) for rule in RULES)

    inner = context.inner(one, seconds, f"{'in turn' if alone else 'in step'}: ")
    given = {one.name: getattr(inner, one.name) for one in fields(inner)}
    bounds_all = alone and found.roomy and found.closed and not (found.scattered and one.periodic)
    later = 0 if one.periodic else found.last_delay
    return _OneContext(
        **given, whole=context, of_all=of_all, bounds_all=bounds_all, linear_only=found.scattered, later=later
    )


def raise_joint_bounds(found: Replicas, context: Context) -> None:
    """Raise the bound to durations, with what is exchanged, and to single ops on a shared link."""
    context.raise_bound(ideal_time(found.problem), kind="sum of durations")
    joint_out, joint_in = found.joint_rates
    if found.lanes[0].received:
        bound = joint_bound(found.problem, found.lanes, joint_out, joint_in)
        context.raise_bound(bound, kind="exchange")
    if not found.closed:
        return
    with suppress(UsageError):  # a period, or what the slot model does not know
        bound = window_bound(
            state_data(found.lanes[0].problem),
            many=len(found.lanes),
            joint_out=joint_out,
            joint_in=joint_in,
            scattered=found.scattered,
            expired=lambda: context.expired,
        )
        later = last_delay(found.problem, found.lanes, joint_out, joint_in, scattered=True)
        context.raise_bound(bound + later, kind="single ops on a shared link")
