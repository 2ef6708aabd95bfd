"""Beam search over executed sets: all orders at once, step by step, the `width` best sets kept.

A pass works under a limit (one byte less than the best peak known) in one direction
(`lowtide.solvers.peak.search.state_space`): steps that cost more are cut off. Two orders of the same
executed set have the same future, so of equal sets one stays, the one with the lower peak. Of the
different sets the `width` with the least memory stay, ties by peak, then in the order of discovery.

*Free ops.* If an op may run next, costs at most the limit and does not increase the memory, only that
step is followed. It loses nothing: let X_0, X_1, … be the states of any completion within the limit from
X_0, and v the free op. In X_0 | {v}, X_1 | {v}, … each state has at most the memory of its twin, because
the increase of v only falls; a step of the twin costs its op's constant plus the memory before or
after it, hence at most as much.

*Proof.* A pass that ends without an order and never dropped a set has seen every state that is
reachable within the limit, up to free ops. Then no order has a peak below the least cost that was cut
off: below it, the same pass would end the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ..bounds.cut_bound import working_set_bound
from .passes import MEMORY, BeamPass
from .state_space import StateSpace, state_space

PLAIN_STEPS = 50_000
"""A pass of at most so many steps runs in plain Python: below half a second, about what loading the compiled
one takes."""

STEPS_PER_SET = 4
"""About how many steps a pass looks at per set that stays: decides only which of the two runs."""

LARGEST = 2**62
"""The compiled pass has 64-bit integers: from so many bytes on, passes run in plain Python."""


def solve_beam(problem: Peak, context: Context) -> Outcome:
    """Offer better and better orders until neither direction finds one, or the working sets allow none."""
    context.offer(range(len(problem.graph.ops)))
    context.raise_bound(working_set_bound(problem.graph), kind="working set")
    complete = improve_by_beam(problem, context, context.options["width"])
    return Outcome(reason=None if complete else "time")


def improve_by_beam(
    problem: Peak,
    context: Context,
    width: int,
    expired: Callable[[], bool] | None = None,
    most: int | None = None,
) -> bool:
    """Run passes under the incumbent of the context until neither direction improves on it.

    Returns whether it got that far before the time was up (``expired``; default: of the context). For
    `most` see `beam_pass`.
    """
    expired = expired or (lambda: context.expired)
    failed = 0
    backward = False
    while failed < 2 and not context.closed and context.incumbent is not None:
        space = state_space(problem.graph, backward=backward)
        result = beam_pass(space, context.incumbent - 1, width, expired, most=most)
        if result.bound is not None:
            context.raise_bound(min(result.bound, context.incumbent), kind="exhaustive pass")
        if result.order is not None:
            context.offer(result.order)
            failed = 0
        elif expired():
            return False
        else:
            failed += 1
            backward = not backward
    return True


def beam_pass(
    space: StateSpace,
    limit: int,
    width: int,
    expired: Callable[[], bool] = lambda: False,
    *,
    exhaustive: bool = False,
    most: int | None = None,
    nbytes: int = MEMORY,
) -> BeamPass:
    """Return an order whose peak is at most the limit, or perhaps a bound, or nothing.

    An `exhaustive` pass gives up at once where it would drop a set: unless the time is up or a step has
    more than `width` sets, it settles whether there is such an order. Any pass gives up when it has looked
    at more than `most` steps, or is on the way to many times more, or would hold more than `nbytes`.

    A pass that may be long is compiled (`lowtide.solvers.peak.search.compiled_pass`); what it finds does
    not depend on that.
    """
    if not space.n:
        return BeamPass(order=()) if space.start <= limit else BeamPass(bound=space.start)
    longest = space.n * min(width, 2 ** min(space.n, 60)) * STEPS_PER_SET
    if min(longest, longest if most is None else most) <= PLAIN_STEPS or largest(space) >= LARGEST:
        from .plain_pass import plain_pass

        return plain_pass(space, limit, width, expired, exhaustive=exhaustive, most=most, nbytes=nbytes)
    from .compiled_pass import compiled_pass

    return compiled_pass(space, limit, width, expired, exhaustive=exhaustive, most=most, nbytes=nbytes)


def largest(space: StateSpace) -> int:
    """Return a bound on all costs and memories of a space, bytes."""
    rise = sum(map(abs, space.increase)) + sum(space.group_bytes)
    return space.start + rise + max(space.extra, default=0)
