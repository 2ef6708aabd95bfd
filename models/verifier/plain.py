r"""The verifier's quick look at plain plans: one memory in use, each op once, judged in arrays at once.

Most plans are plain: an order or a schedule on one memory. For those every rule comes down to comparisons of
times, and all of them together to a few passes over arrays, several times as fast as carrying out the events.
This look only ever *accepts*: if any comparison fails, or anything in the plan is not of the plainest form,
it says nothing, and the simulation judges, which finds the violations and their witnesses.

In use is the home tier of all processors, at its full speed; what other tiers there are stays empty.

Sets and data. :math:`V` ops, :math:`T` tensors of :math:`s_t` bytes; :math:`R_t, W_t \subseteq V` the ops
that read and write :math:`t`, in the reference order :math:`<`. The plan runs op :math:`i` over :math:`[a_i,
b_i)` on processor :math:`p_i`, holds the tensors :math:`X` from time 0, and releases :math:`t \in F` at
:math:`f_t`.

What is compared.

1. Each op runs once, for the nanoseconds of its mode (under contention that stretches runs, no less), on a
   processor of its mode's kinds, and runs of one processor do not overlap.
2. :math:`b_i \le a_j` for each :math:`i` in ``after`` of :math:`j`.
3. For :math:`j \in R_t \cup W_t`: if :math:`i` is the last of :math:`W_t` before :math:`j`,
   :math:`b_i \le a_j`; if there is none and :math:`j \in R_t`, then :math:`t \in X`; if :math:`k` is the
   first of :math:`W_t` after :math:`j`, :math:`b_j \le a_k`.
4. :math:`X` has initial tensors only, each once, whole and valid, where the question lets its kind start.
5. Each :math:`t \in F` is released once and whole, is in :math:`X` or written, and is not final;
   :math:`f_t \ge b_i` for :math:`i \in W_t`, and for :math:`i \in R_t` :math:`f_t \ge b_i` with
   accounting ``coexist``, :math:`f_t \ge a_i` with ``replace``.
6. A final tensor is in :math:`X` or written.
7. The bytes held never exceed the capacity, nor do those of :math:`X`.

Why that is enough. By 3 the writers of a tensor follow each other in the reference order, and each access of
a version lies between the end of its writer and the start of the next: no run writes what another one reads
or writes. By 5 nothing is released while it is accessed or before (a read counts at its start with
``replace``, before that instant's releases), nor twice, so a tensor is held from time 0 or its first writer's
start to :math:`f_t` or for good, and every read finds its version, which 3 says was there: of :math:`X`, or
of its writer. Without copies and periods no other rule has anything to say. The profile is the sum of these
intervals and of the workspaces :math:`[a_i, b_i)`; what happens at one instant counts together. The peak is
its largest value, or the bytes of :math:`X` if they are more. The rules on contention between streams are
looked at apart (`contention`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Integers
from ..graph import Accounting, Graph
from ..machine import Machine
from ..plan import Free, Plan, Resident, Run
from .actions import LATEST
from .starts import Starts
from .verdict import Profile, Verification


def _has_runs_only(graph: Graph, plan: Plan) -> bool:
    """Return whether a plan for this graph has runs, and nothing that a plain one has not."""
    return (
        not plan.copies
        and plan.period is None
        and (plan.stages is None or plan.machine.contention is not None)
        and plan.allocation is None
        and plan.accounting == graph.accounting
        and plan.graph_sha256 in (None, graph.sha256)
        and bool(plan.runs)
    )


def judge_plain(graph: Graph, plan: Plan, starts: Starts) -> Verification | None:
    """Return the verdict on a plan that is plain and valid; None if it is not, or not at once seen to be.

    Parameters
    ----------
    graph, plan
        Anything that `verify` takes.
    starts
        The question's rule, or the plan's, on where tensors may be at time 0.
    """
    machine = plan.machine
    homes = {(p.tiers[0].tier, p.tiers[0].bytes_per_s) for p in machine.processors}
    tier, rate = min(homes, default=("", None), key=str)
    if len(homes) != 1 or rate is not None or not _has_runs_only(graph, plan):
        return None
    resident = _residents(graph, plan, starts, tier)
    runs = _runs(graph, plan, machine)
    if resident is None or runs is None:
        return None
    begin, end, workspace = runs
    needed = _accesses(graph, begin, end, resident)
    if needed is None:
        return None
    first, last = needed
    held = resident | (first < LATEST)
    frees = _frees(graph, plan, held, last, tier)
    if frees is None or any(t.final and not held[i] for i, t in enumerate(graph.tensors)):
        return None
    nbytes = np.fromiter((t.nbytes for t in graph.tensors), np.int64, len(graph.tensors))
    capacity = next(x.capacity for x in machine.tiers if x.name == tier)
    profile = _profile(
        (np.zeros(1, np.int64), np.full(1, nbytes[resident].sum())),
        (first[held & ~resident], nbytes[held & ~resident]),
        (begin, workspace),
        (end, -workspace),
        (frees[1], -nbytes[frees[0]]),
    )
    peak = max([int(nbytes[resident].sum()), *(used for _, used in profile)])
    if capacity is not None and peak > capacity:
        return None
    empty = {x.name: ((0, 0),) for x in machine.tiers}
    return Verification(
        violations=(),
        profiles={**empty, tier: profile},
        peaks={**dict.fromkeys(empty, 0), tier: peak},
        makespan=int(end.max()),
        stall=_stall(begin, end),
        traffic={},
        recomputed=0,
    )


def _column(items: Sequence[Any], name: str, least: int, limit: int) -> Integers | None:
    """Return a field of all items, None unless each is an integer of its own type in ``[least, limit)``."""
    values = list(map(attrgetter(name), items))
    if {*map(type, values)} - {int} or (values and not least <= min(values) <= max(values) < limit):
        return None
    return np.array(values, np.int64)


def _are(items: Iterable[object], kind: type) -> bool:
    return not {*map(type, items)} - {kind}


def _residents(graph: Graph, plan: Plan, starts: Starts, tier: str) -> NDArray[np.bool_] | None:
    """Return what is there at time 0 (4)."""
    resident = np.zeros(len(graph.tensors), np.bool_)
    if not _are(plan.start, Resident):
        return None
    listed = _column(plan.start, "tensor", 0, len(graph.tensors))
    if listed is None:
        return None
    for entry in plan.start:
        tensor = graph.tensors[entry.tensor]
        plainly = entry.bytes is None and entry.valid is True and type(entry.tier) is str
        if not plainly or entry.tier != tier or not tensor.initial or resident[entry.tensor]:
            return None
        if tier not in starts.get(tensor.kind, (tier,)):
            return None
        resident[entry.tensor] = True
    return resident


def _runs(graph: Graph, plan: Plan, machine: Machine) -> tuple[Integers, Integers, Integers] | None:
    """Return start, end and workspace of each op's only run (1, 2)."""
    runs, ops = plan.runs, graph.ops
    n = len(ops)
    if len(runs) != n or not _are(runs, Run) or not _are((run.processor for run in runs), str):
        return None
    op, mode = _column(runs, "op", 0, n), _column(runs, "mode", 0, LATEST)
    start, stop = _column(runs, "start", 0, LATEST + 1), _column(runs, "end", 0, LATEST + 1)
    number = {p.name: k for k, p in enumerate(machine.processors)}
    if op is None or mode is None or start is None or stop is None:
        return None
    if any(run.processor not in number for run in runs):
        return None
    processor = np.fromiter((number[run.processor] for run in runs), np.int64, n)
    # An op that never runs would take no time; every op takes some.
    begin, end, on, chosen = (np.zeros(n, np.int64) for _ in range(4))
    begin[op], end[op], on[op], chosen[op] = start, stop, processor, mode
    duration = np.fromiter((x.duration_ns for x in ops), np.int64, n)
    workspace = np.fromiter((x.workspace for x in ops), np.int64, n)
    for i in (i for i, x in enumerate(ops) if x.modes):
        modes = ops[i].modes
        if chosen[i] >= len(modes):
            return None
        taken = modes[chosen[i]]
        if taken.operands or (taken.processors and machine.processors[on[i]].kind not in taken.processors):
            return None
        duration[i], workspace[i], chosen[i] = taken.duration_ns, taken.workspace, 0
    contention = machine.contention
    stretches = contention is not None and contention.model != "none"
    in_turn = np.lexsort((begin, on))
    same = on[in_turn[1:]] == on[in_turn[:-1]]
    if (
        chosen.any()
        or (end - begin < duration).any()
        or (not stretches and (end - begin > duration).any())
        or (same & (begin[in_turn[1:]] < end[in_turn[:-1]])).any()
    ):
        return None
    later, earlier = _pairs([x.after for x in ops])
    return None if (begin[later] < end[earlier]).any() else (begin, end, workspace)


def _pairs(listed: Sequence[tuple[int, ...]]) -> tuple[Integers, Integers]:
    """Return the pairs (position, member) of tuples, in order."""
    counts = np.fromiter(map(len, listed), np.int64, len(listed))
    members = np.fromiter(chain.from_iterable(listed), np.int64, int(counts.sum()))
    return np.repeat(np.arange(len(listed)), counts), members


def _accesses(
    graph: Graph, begin: Integers, end: Integers, resident: NDArray[np.bool_]
) -> tuple[Integers, Integers] | None:
    """Return when each tensor is first written, and how long it must be held (3; 5 says why)."""
    n, count = len(graph.ops), len(graph.tensors)
    reader, read = _pairs([x.reads for x in graph.ops])
    writer, written = _pairs([x.writes for x in graph.ops])
    by_tensor = np.argsort(written, kind="stable")  # the writers of a tensor stay in the reference order
    writer, written = writer[by_tensor], written[by_tensor]
    place = written * n + writer
    for op, tensor, reads in ((reader, read, True), (writer, written, False)):
        key = tensor * n + op
        before, after = np.searchsorted(place, key, "left") - 1, np.searchsorted(place, key, "right")
        follows = (before >= 0) & (written[before] == tensor) if len(place) else np.zeros(len(key), np.bool_)
        if (begin[op[follows]] < end[writer[before[follows]]]).any():
            return None
        if reads and not resident[tensor[~follows]].all():
            return None
        precedes = after < len(place)
        precedes[precedes] = written[after[precedes]] == tensor[precedes]
        if (begin[writer[after[precedes]]] < end[op[precedes]]).any():
            return None
    first, last = np.full(count, LATEST), np.zeros(count, np.int64)
    np.minimum.at(first, written, begin[writer])
    np.maximum.at(last, written, end[writer])
    np.maximum.at(last, read, (end if graph.accounting is Accounting.COEXIST else begin)[reader])
    return first, last


def _frees(
    graph: Graph, plan: Plan, held: NDArray[np.bool_], last: Integers, tier: str
) -> tuple[Integers, Integers] | None:
    """Return tensors and times of the releases (5)."""
    frees = plan.frees
    if not _are(frees, Free) or any(type(f.tier) is not str or f.tier != tier for f in frees):
        return None
    tensor, time = _column(frees, "tensor", 0, len(graph.tensors)), _column(frees, "time", 0, LATEST + 1)
    if tensor is None or time is None or any(f.bytes is not None for f in frees):
        return None
    final = np.fromiter((t.final for t in graph.tensors), np.bool_, len(graph.tensors))
    once = len(np.unique(tensor)) == len(tensor)
    if not once or not held[tensor].all() or final[tensor].any() or (time < last[tensor]).any():
        return None
    return tensor, time


def _profile(*changes: tuple[Integers, Integers]) -> Profile:
    """Return the points after each instant of changes ``(times, bytes)`` where the sum is a new one."""
    times = np.concatenate([time for time, _ in changes])
    in_time = np.argsort(times, kind="stable")
    times = times[in_time]
    used = np.concatenate([nbytes for _, nbytes in changes])[in_time].cumsum()
    settled = np.append(times[1:] != times[:-1], True)
    times, used = times[settled], used[settled]
    new = np.append(True, used[1:] != used[:-1])
    return tuple(zip(times[new].tolist(), used[new].tolist(), strict=True))


def _stall(begin: Integers, end: Integers) -> int:
    """Return the nanoseconds before the last end during which no run executes."""
    in_time = np.argsort(begin, kind="stable")
    begin, reached = begin[in_time], np.maximum.accumulate(end[in_time])
    before = np.append(np.zeros(1, np.int64), reached[:-1])
    return int(np.maximum(begin - before, 0).sum())
