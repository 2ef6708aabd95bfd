"""`tmof`: TMOF's MILP for one GPU or several on a shared link, as inferred, through Pyomo and HiGHS.

Option ``share`` says what the GPUs know of each other:

``joint``
    One program for all, with the shared link; nothing else couples them (the default).
``disjoint``
    Besides, at most D GPUs swap the same interval: D = 1, and if that has no plan half of them, rounded up.
``bidirectional``
    Besides, one GPU at a time swaps out, and only others swap in meanwhile.
``both``
    The last two together.
``oblivious``
    Every GPU follows the program of one GPU that has its link for itself; then they share the link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ....formulations.placement.bounds.single_ops import window_bound
from ....formulations.placement.lanes import Lane, is_closed, is_scattered, lanes
from ....formulations.placement.slots.bytes_lp import BYTES_PER_TERM, size
from ....formulations.placement.slots.pieces import coarse
from ....formulations.placement.states import StateData, state_data
from ....formulations.placement.tmof import paths, swaps_milp
from ....formulations.placement.tmof.slots import alike, joint_rate, shares
from ....formulations.placement.tmof.whole import order_of
from ....formulations.placement.whole.sequence_plan import plan_of
from ....models.machine import ChannelGroup
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...engines.memory import refuse_if_too_large
from ...engines.model import solve_model
from ..reductions.choices import for_modes
from ..reductions.replicas.exchange import joint_bound, with_windows
from ..reductions.replicas.share import replicas
from ..slots.bytes import longest_stall, slot_bound
from ..slots.emission import emit
from ..slots.rounds import LanePart

RESERVES = (0, 4, 256)
"""Millionths of each memory left free, from try to try; HiGHS takes rows as kept within one millionth."""


@for_modes(by_plans=True)
def solve_tmof(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan of TMOF's form; the bound is that of all plans.

    For GPUs that are alike, the fact ``form_bound`` is a bound in ns on all plans that go in step, TMOF's or
    not (`form_bound`).

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:skipchain?n=8,seed=1,machine=v100-16g-pcie3,device=450MB,start=gpu"
    >>> problem = load_problem("placement", spec)
    >>> lt.solve(problem, "tmof", threads=1).verification.valid
    True
    """
    share = context.options.get("share", "joint")
    parts = lanes(problem)
    data = [state_data(lane.problem) for lane in parts]
    if detail := refused(share, data):
        return Outcome(refused=f"method tmof, {detail}")
    closed, scattered = is_closed(problem, parts), is_scattered(problem, parts)
    for lane_data in data:
        context.raise_bound(lane_data.ideal, kind="sum of durations")
        if closed and not scattered:
            context.raise_bound(window_bound(lane_data, expired=lambda: context.expired), kind="single ops")
    if closed and len(parts) > 1 and alike(data):
        out, into = (joint_rate(parts, data, problem.machine.groups, outward) for outward in (True, False))
        bound = window_bound(
            data[0],
            many=len(parts),
            joint_out=out,
            joint_in=into,
            scattered=scattered,
            expired=lambda: context.expired,
        )
        context.raise_bound(bound, kind="single ops on a shared link")
    parts_of = replicas(problem) if parts[0].received else None
    if parts_of is not None:
        context.raise_bound(joint_bound(problem, parts, *parts_of.joint_rates), kind="exchange")
    later = 0 if parts_of is None else parts_of.step_delay
    form = form_bound(parts, data, problem.machine.groups, context, later) if closed else None
    facts = {} if form is None else {"form_bound": form}
    known = "" if form is None else f", no plan of GPUs in step takes less than {form} ns"
    if form is not None and len(problem.machine.processors) == 1:  # every plan is in step with itself
        context.raise_bound(form, kind="slot model")
    if share == "oblivious":
        outcome = _solve(problem, context, parts, data[:1], swaps_milp.build)
        return replace(outcome, detail=f"{outcome.detail}, each GPU for itself{known}", facts=facts)
    token = share in ("bidirectional", "both")
    limits: Sequence[int | None] = (None,)
    if share in ("disjoint", "both"):
        limits = sorted({1, -(-len(parts) // 2)})
    for limit in limits:
        groups = problem.machine.groups
        statement = partial(swaps_milp.build, lanes=parts, groups=groups, disjoint=limit, token=token)
        outcome = _solve(problem, context, parts, data, statement)
        if limit is not None:
            outcome = replace(outcome, detail=f"{outcome.detail}, intervals swapped by at most {limit} GPUs")
        if context.answer is not None or outcome.reason is not None:
            break
    return replace(outcome, detail=f"{outcome.detail}{known}", facts=facts)


def refused(share: str, data: Sequence[StateData]) -> str:
    """Return why GPUs do not share a link in a way that is for equal ones; empty if they do."""
    if share not in ("disjoint", "both", "oblivious") or alike(data):
        return ""
    return f"share {share}: found different GPUs or graphs, expected copies of one"


def plan_of_swaps(
    problem: Placement,
    parts: Sequence[Lane],
    data: Sequence[StateData],
    built: swaps_milp.TmofModel,
    value: Callable[[Any], float],
) -> Plan | None:
    """Return the plan of a solution; None if it fits within a solver's tolerances only.

    `parts` and `data` are those of all GPUs, of which the model may have the first one alone. Whole tensors
    are copied in the order of the solution, for which there may be no plan.
    """
    if problem.whole:
        return plan_of(problem, data[0], order_of(built, value))
    read = [paths.decode(built, value, g) for g in range(len(built.slots))]
    read += read[:1] * (len(parts) - len(read))
    items = [LanePart(lane, coarse(x), walks) for lane, x, (_, walks) in zip(parts, data, read, strict=True)]
    plan = emit(items, problem)
    return None if plan is None else with_windows(problem, parts, plan)


def form_bound(
    parts: Sequence[Lane],
    data: Sequence[StateData],
    groups: Sequence[ChannelGroup],
    context: Context,
    later: int = 0,
) -> int | None:
    """Return a bound in ns on all plans of GPUs that go in step, no less than that of all; None without one.

    `later` are the ns that an exchange adds (`reductions.replicas.exchange.step_delay`). In
    step: op k starts on every GPU at the same time. The GPUs are alike (`alike`: graph, memory, links).

    Proof. Read the quantities of the slot model (`formulations.placement.slots.bytes_lp`) off the plan, GPU
    by GPU, and one length for each stall, because all have the same. Each GPU satisfies rows 1 to 5 with its
    own channels, and for each joint cap the sum over all GPUs is at most its rate times the length of a
    piece. All rows are linear, and those of the GPUs are the same: their average satisfies them too. Where a
    cap counts the same directions of every GPU, the sum over all is m times that of the average. So the
    average and the stalls satisfy the program of one GPU with an m-th of the cap, and its optimum is no more
    than the plan's time. (Rates are rounded up and other caps left out, which only lowers it.) It says
    nothing of plans in which GPUs use the link in turn.
    """
    if not alike(data):
        return None
    most = longest_stall(data[0]) * len(data)
    one = replace(data[0], caps=(*shares(parts, data, groups),))
    too_large = refuse_if_too_large(
        size(one), bytes_per_term=BYTES_PER_TERM, context=context, what="the slot model of one GPU"
    )
    if too_large is not None:
        return None
    found = slot_bound(one, context, most, context.remaining() / 4)
    return None if found is None else max(found + later, context.bound or 0)


def _solve(
    problem: Placement,
    context: Context,
    parts: Sequence[Lane],
    data: Sequence[StateData],
    build: Callable[..., swaps_milp.TmofModel],
) -> Outcome:
    """Solve a program of all GPUs, or of one whose plan all follow.

    Where what fits within the solver's tolerances does not fit in whole bytes, once more with less memory.
    """
    known = context.bound or 0
    misfits = list[str]()

    def decode(built: swaps_milp.TmofModel, value: Callable[[Any], float]) -> Plan | None:
        exact = [*data, *[data[0]] * (len(parts) - len(data))]
        plan = plan_of_swaps(problem, parts, exact, built, value)
        if plan is None:
            misfits.append(
                "copies of whole tensors in the order of a solution are no plan"
                if problem.whole
                else "solutions fit within the tolerances of the solver only"
            )
        return plan

    outcome = Outcome()
    for reserve in RESERVES:
        reduced = [_with_reserve(x, reserve) for x in data]
        outcome = solve_model(
            context,
            swaps_milp,
            partial(build, reduced, expired=lambda: context.expired),
            what="TMOF's model",
            size=swaps_milp.size(data),
            decode=decode,
            to_objective=lambda units: min(math.floor(units), known),
        )
        if context.answer is not None or not misfits or context.expired:
            break
    form = "among plans of TMOF's form" + ", which may cut tensors" * problem.whole
    detail = [outcome.detail, form, *misfits[-1:] * (context.answer is None)]
    return replace(outcome, infeasible=False, detail=", ".join(detail))


def _with_reserve(data: StateData, reserve: int) -> StateData:
    """Return the data with some millionths of each memory left free, where its ops leave that."""
    needed = [max(data.need, default=0), *[0] * (len(data.capacity) - 1)]
    less = [
        None if c is None else max(min(c, least), c - c * reserve // 10**6)
        for c, least in zip(data.capacity, needed, strict=True)
    ]
    return replace(data, capacity=(*less,))
