"""Beam search over executed sets: all orders at once, step by step, the `width` best sets kept.

A pass works under a limit (one byte less than the best peak known) in one direction
(`lowtide.solvers.algorithms.peak.state_space`): steps that cost more are cut off. Two orders of the same
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
from dataclasses import dataclass

from ....models.problem import Peak
from ...context import Context, Outcome
from .state_space import StateSpace, state_space

Ready = dict[int, int]
"""The ops that may be next, each with its increase."""

State = tuple[int, int, int, bytearray, list[int], Ready]
"""Memory now, peak so far, set as a mask, set as flags, ops left per group, what may be next."""

Step = tuple[int, int, int, int, int]
"""Memory after, peak, index of the state, op, set as a mask: sorts as the docstring says."""


@dataclass(frozen=True, kw_only=True)
class BeamPass:
    """What one pass found.

    Attributes
    ----------
    order
        An order with a peak within the limit, or None.
    bound
        A proved lower bound on every peak, or None: there is one only if there is no order.
    """

    order: tuple[int, ...] | None = None
    bound: int | None = None


def solve_beam(problem: Peak, context: Context) -> Outcome:
    """Offer better and better orders until neither direction finds one."""
    context.offer(range(len(problem.graph.ops)))
    complete = improve_by_beam(problem, context, context.option("width", 64))
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
        found = beam_pass(space, context.incumbent - 1, width, expired, most=most)
        if found.bound is not None:
            context.raise_bound(min(found.bound, context.incumbent))
        if found.order is not None:
            context.offer(found.order)
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
) -> BeamPass:
    """Return an order whose peak is at most the limit, or perhaps a bound, or nothing.

    An `exhaustive` pass gives up at once where it would drop a set: unless the time is up or a step has
    more than `width` sets, it settles whether there is such an order. Any pass gives up when it has looked
    at more than `most` steps, or is on the way to more than twice as many.

    Examples
    --------
    >>> from lowtide import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="chain",
    ...     tensors=(Tensor(name="x", nbytes=3), Tensor(name="y", nbytes=5)),
    ...     ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    ... )
    >>> beam_pass(state_space(graph), 8, 4)
    BeamPass(order=(0, 1), bound=None)
    >>> beam_pass(state_space(graph), 7, 4)
    BeamPass(order=None, bound=8)
    """
    if not space.n and space.start > limit:
        return BeamPass(bound=space.start)
    ready = {v: space.increase[v] for v, some in enumerate(space.before) if not some}
    first: State = (space.start, 0, 0, bytearray(space.n), [len(ops) for ops in space.groups], ready)
    states, trail = [first], list[list[tuple[int, int]]]()
    cut_off: list[int] = []
    dropped, looked_at = False, 0
    for step in range(1, space.n + 1):
        looked_at += sum(len(state[5]) for state in states)
        if expired():
            return BeamPass()
        if most is not None and (
            looked_at > most or (step > space.n // 16 and looked_at * space.n > 2 * most * step)
        ):
            return BeamPass()
        steps: list[Step] = []
        for index, state in enumerate(states):
            _follow(space, state, index, limit, steps, cut_off)
        steps.sort()
        if len(cut_off) > 1:
            cut_off = [min(cut_off)]
        kept, records, seen = list[State](), list[tuple[int, int]](), set[int]()
        for memory, peak, index, v, mask in steps:
            if mask not in seen:
                if len(kept) == width:
                    if exhaustive:
                        return BeamPass()
                    dropped = True
                    break
                seen.add(mask)
                kept.append(_after(space, states[index], v, memory, peak, mask))
                records.append((index, v))
        if not kept:
            return BeamPass(bound=None if dropped else cut_off[0])
        states = kept
        trail.append(records)
    walk, index = [], 0
    for records in reversed(trail):
        index, v = records[index]
        walk.append(v)
    return BeamPass(order=space.order(walk[::-1]))


def _follow(
    space: StateSpace, state: State, index: int, limit: int, steps: list[Step], cut_off: list[int]
) -> None:
    """Append the steps that leave a state: the free one that frees most, or all within the limit."""
    now, peak, mask, _, _, ready = state
    extra, before = space.extra, space.extra_before
    free: Step | None = None
    for v, increase in ready.items():
        if increase <= 0 and (free is None or now + increase < free[0]):
            cost = now + extra[v] + (0 if before else increase)
            if cost <= limit:
                free = (now + increase, max(peak, cost), index, v, mask | 1 << v)
    if free is not None:
        steps.append(free)
        return
    least = None
    for v, increase in ready.items():
        cost = now + extra[v] + (0 if before else increase)
        if cost <= limit:
            steps.append((now + increase, cost if cost > peak else peak, index, v, mask | 1 << v))
        elif least is None or cost < least:
            least = cost
    if least is not None:
        cut_off.append(least)


def _after(space: StateSpace, state: State, v: int, memory: int, peak: int, mask: int) -> State:
    """Return the state after walking over v."""
    _, _, _, flags, left, ready = state
    flags, ready = bytearray(flags), ready.copy()
    flags[v] = 1
    del ready[v]
    if space.groups_of[v]:
        left = left.copy()
        for g in space.groups_of[v]:
            left[g] -= 1
            if left[g] == (len(space.groups[g]) - 1 if space.backward else 1):
                for u in space.groups[g]:
                    if u in ready:
                        ready[u] -= space.group_bytes[g]
    for w in space.after[v]:
        if all(flags[u] for u in space.before[w]):
            ready[w] = space.increase[w] - sum(
                space.group_bytes[g]
                for g in space.groups_of[w]
                if (left[g] < len(space.groups[g]) if space.backward else left[g] == 1)
            )
    return memory, peak, mask, flags, left, ready
