r"""The verifier's rules on ops that share a device: synchronisation, stretched runs, stages.

Op i alone takes :math:`w_i` ns and fills :math:`u_i` of the device's :math:`S` parts, so its work is
:math:`u_i w_i`. Under ``proportional`` contention a run may take longer than :math:`w_i`. Runs
:math:`[s_i, e_i)` can be had from the device if and only if the works flow through this network: from each op
to the elementary intervals :math:`I` (between neighbouring starts and ends) inside its run at most
:math:`u_i |I|`, into each interval at most :math:`S |I|`. A flow says how much of each op is done when; with
rates constant in each interval no op is ahead of what it can fill, and the device never gives more than it
has (Horn 1974). All numbers are integers, so that the flow is exact.

Most plans need no search for it. Let everything advance at the rate :math:`\min(1, S / \sum_i u_i)` in each
interval: that is a flow, but for the part of an op that is then done beyond its work, and the part m_i of its
time that is missing. If :math:`\sum_i u_i m_i < 1`, the maximum flow is above all works less one; it is an
integer, so it is all works.

``fluid`` and ``half-serial`` contention price stages (`lowtide.models.machine.Contention`), which the plan
names: runs lie within them, what runs on one processor in a stage is a group, and a stage takes at least its
price.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter

from ..checks import shown
from ..machine import Contention
from ..plan import Plan
from .actions import LATEST, Actions, RunItem
from .case import Case
from .order import orders
from .transport import unplaced

PART = 1 << 96
"""What a nanosecond at full rate counts, so that rates can be rounded down."""


def judge_contention(case: Case, plan: Plan, actions: Actions) -> None:
    """Report ``sync``, ``contention`` and ``stage``, and ``shape`` of what has no meaning there."""
    contention, runs = case.machine.contention, actions.runs
    if contention is None:
        if plan.stages is not None:
            case.report("shape", "plan, stages: found some on a machine without contention, expected none")
        return
    if case.period is not None:
        case.report("shape", "plan, period: found one on a machine with contention, expected none")
    if slow := next((p for p in case.processors if p.rates), None):
        case.report(
            "shape", f"processor {slow.name!r}: found a tier with a rate under contention, expected none"
        )
    homes = sorted({p.home for p in case.processors})
    if contention.staged and len(homes) > 1:
        other = next(p for p in case.processors if p.home != case.processors[0].home)
        case.report(
            "shape", f"processor {other.name!r}: found another home than that of the first, expected one"
        )
    share = {
        run.position: min(
            case.graph.ops[run.op].all_modes[plan.runs[run.position].mode].share or contention.parts,
            contention.parts,
        )
        for run in runs
    }
    if contention.staged:
        _judge_stages(case, plan, actions, share, contention)
        return
    if plan.stages is not None:
        case.report("shape", "plan, stages: found some, expected none unless contention prices stages")
    if contention.sync_ns:
        _judge_syncs(case, runs, contention.sync_ns)
    if contention.model == "proportional":
        for home in homes:
            on_device = [run for run in runs if case.processors[run.processor].home == home]
            _judge_flow(case, on_device, share, contention.parts)


def _judge_syncs(case: Case, runs: list[RunItem], sync: int) -> None:
    by_op: list[list[RunItem]] = [[] for _ in case.graph.ops]
    for run in runs:
        by_op[run.op].append(run)
    for i, j, _, _ in orders(case, by_op):
        for before in by_op[i]:
            for run in by_op[j]:
                if before.processor != run.processor and before.end <= run.start < before.end + sync:
                    case.report(
                        "sync",
                        f"{case.op(j)} starts at {run.start} ns, expected not before {before.end + sync} ns, "
                        f"{sync} ns after {case.op(i)} ends in another stream",
                        time=run.start,
                        op=j,
                        other=i,
                        run=run.position,
                        other_run=before.position,
                    )


def _judge_flow(case: Case, runs: list[RunItem], share: dict[int, int], parts: int) -> None:
    """Rule ``contention``: one maximum flow; the witness is the set of runs on the near side of a cut."""
    times = sorted({t for run in runs for t in (run.start, run.end)})
    number = {t: k for k, t in enumerate(times)}
    lengths = [end - start for start, end in pairwise(times)]
    if _is_shared_out(runs, share, parts, number, lengths):
        return
    missing, near = unplaced(
        [share[run.position] * run.duration for run in runs],
        [parts * length for length in lengths],
        [
            (i, k, share[run.position] * lengths[k])
            for i, run in enumerate(runs)
            for k in range(number[run.start], number[run.end])
        ],
    )
    if not missing:
        return
    tight = sorted((runs[i] for i in near), key=lambda r: (r.start, r.op))
    begin, end = tight[0].start, max(run.end for run in tight)
    case.report(
        "contention",
        f"{len(tight)} runs from {begin} to {end} ns, {case.op(tight[0].op)} the first, have to do "
        f"{missing} parts times ns more than the {parts} parts of the device can in that time",
        time=begin,
        op=tight[0].op,
        run=tight[0].position,
    )


def _is_shared_out(
    runs: list[RunItem], share: dict[int, int], parts: int, number: dict[int, int], lengths: list[int]
) -> bool:
    """Return whether equal rates in each interval, rounded down, leave less than one part times ns undone."""
    change = [0] * (len(lengths) + 1)
    for run in runs:
        change[number[run.start]] += share[run.position]
        change[number[run.end]] -= share[run.position]
    done, asked = [0], 0
    for step, length in zip(change, lengths, strict=False):
        asked += step
        done.append(done[-1] + length * (PART if asked <= parts else parts * PART // asked))
    missing = (
        share[run.position] * max(0, run.duration * PART - done[number[run.end]] + done[number[run.start]])
        for run in runs
    )
    return sum(missing) < PART


def _judge_stages(
    case: Case, plan: Plan, actions: Actions, share: dict[int, int], contention: Contention
) -> None:
    """Rule ``stage``."""
    runs = actions.runs
    begins: object = plan.stages
    sound = isinstance(begins, tuple) and all(type(t) is int and 0 <= t <= LATEST for t in begins)
    if not sound or not isinstance(begins, tuple) or list(begins) != sorted(set(begins)):
        case.report(
            "shape", f"plan, stages: found {shown(begins)}, expected the nanoseconds at which stages begin"
        )
        return
    finish = max((run.end for run in runs), default=0)
    ends = (*begins[1:], finish)[: len(begins)]
    in_stage: list[list[RunItem]] = [[] for _ in begins]
    for run in runs:
        k = bisect_right(begins, run.start) - 1
        if k < 0 or run.end > ends[k]:
            case.report(
                "stage",
                f"{case.op(run.op)} runs from {run.start} to {run.end} ns, expected it within one stage",
                time=run.start,
                op=run.op,
                run=run.position,
            )
        else:
            in_stage[k].append(run)
    stage_of = {run.op: (k, run.processor) for k, some in enumerate(in_stage) for run in some}
    by_op: list[list[RunItem]] = [[] for _ in case.graph.ops]
    for run in runs:
        by_op[run.op].append(run)
    for i, j, _, _ in orders(case, by_op):
        if (
            i in stage_of
            and j in stage_of
            and stage_of[i][0] == stage_of[j][0]
            and stage_of[i] != stage_of[j]
        ):
            case.report(
                "stage",
                f"{case.op(i)} and {case.op(j)} stand in two groups of a stage, expected independent groups",
                time=begins[stage_of[i][0]],
                op=j,
                other=i,
            )
    for begin, end, some in zip(begins, ends, in_stage, strict=True):
        price = stage_ns([(run.processor, run.duration, share[run.position]) for run in some], contention)
        if end - begin < price:
            case.report(
                "stage",
                f"the stage from {begin} to {end} ns takes {end - begin} ns, expected at least {price} ns",
                time=begin,
            )
    _judge_room(case, begins, in_stage, actions)


def _judge_room(case: Case, begins: tuple[int, ...], in_stage: list[list[RunItem]], actions: Actions) -> None:
    """Rule ``stage``: however groups overlap, what a stage needs and keeps is within the device's capacity.

    A tensor is kept from the stage that first accesses it, or from the start, to the one that does so last,
    or in which the plan releases the last of it.
    """
    capacity = case.capacity[case.processors[0].home]
    if capacity is None:
        return
    first = dict.fromkeys((item.tensor for item in actions.start), -1)
    last = dict.fromkeys(first, 0)
    for k, runs in enumerate(in_stage):
        for run in runs:
            op = case.graph.ops[run.op]
            for t in (*op.reads, *op.writes):
                first.setdefault(t, k)
                last[t] = k
    released = {item.tensor: item.time for item in sorted(actions.frees, key=attrgetter("time"))}
    for t, k in last.items():
        if case.graph.tensors[t].final or t not in released:
            last[t] = len(begins)
        else:
            last[t] = max(k, bisect_left(begins, released[t]) - 1)
    for k, runs in enumerate(in_stage):
        workspace: dict[int, int] = {}
        for run in runs:
            workspace[run.processor] = max(workspace.get(run.processor, 0), run.workspace)
        held = sum(case.nbytes[t] for t, end in last.items() if first[t] <= k <= end)
        if (needed := held + sum(workspace.values())) > capacity:
            case.report(
                "stage",
                f"the stage at {begins[k]} ns needs {needed} bytes, expected at most the capacity {capacity}",
                time=begins[k],
            )


def stage_ns(ops: Sequence[tuple[int, int, int]], contention: Contention) -> int:
    """Return the nanoseconds of a stage of ``(group, duration_ns, share)``, rounded up."""
    parts = contention.parts
    groups: dict[int, int] = {}
    for group, duration, _ in ops:
        groups[group] = groups.get(group, 0) + duration
    least = max(max(groups.values(), default=0) * parts, sum(duration * u for _, duration, u in ops))
    if contention.model == "fluid":
        price = -(-least // parts)
    else:
        price = -(-(sum(groups.values()) * parts + least) // (2 * parts))
    return price + (contention.sync_ns if len(groups) > 1 else 0)
