"""The verifier's rules on when and where ops run: how often, after what, on which processor, alone."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from .actions import RunItem
from .case import PARTNERS, Case

_in_time, _end = attrgetter("start", "end", "position"), attrgetter("end")

AFTER = "after"
RAW, WAR, WAW = "read-after-write", "write-after-read", "write-after-write"


def judge_order(case: Case, runs: list[RunItem], rerun: bool) -> None:
    """Report ``missing-run``, ``repeated-run``, ``precedence`` and the rules on processors."""
    by_op: list[list[RunItem]] = [[] for _ in case.graph.ops]
    for run in runs:
        by_op[run.op].append(run)
    for group in by_op:
        if len(group) > 1:
            group.sort(key=_in_time)
    _judge_counts(case, by_op, rerun)
    if rerun:
        _judge_after(case, by_op)
    else:
        _judge_precedence(case, by_op)
    _judge_processors(case, runs)


def _judge_counts(case: Case, by_op: list[list[RunItem]], rerun: bool) -> None:
    for i, group in enumerate(by_op):
        if not group:
            case.report("missing-run", f"{case.op(i)} never runs, expected a run", op=i)
        if rerun:
            continue
        for run in group[1:]:
            case.report(
                "repeated-run",
                f"{case.op(i)} runs again at {run.start} ns, expected one run",
                time=run.start,
                op=i,
                run=run.position,
            )


def orders(case: Case, by_op: list[list[RunItem]]) -> Iterator[tuple[int, int, int | None, str]]:
    """Yield ``(i, j, tensor, reason)``: op i must end before op j starts.

    Only immediate pairs: of one tensor, the last writer and each reader since stand before the next
    writer, the last writer before each reader. The other pairs follow from these. An op that never runs
    is passed over, so that its neighbours are compared with each other.
    """
    writer: list[int | None] = [None] * len(case.nbytes)
    readers: list[list[int]] = [[] for _ in case.nbytes]
    for j, op in enumerate(case.graph.ops):
        reads, writes = set(op.reads), set(op.writes)
        for i in op.after:
            yield i, j, None, AFTER
        if not by_op[j]:
            continue
        for t in op.reads:
            last = writer[t]
            if last is not None:
                yield last, j, t, RAW
        for t in op.writes:
            last = writer[t]
            if last is not None and t not in reads:
                yield last, j, t, WAW
            for i in readers[t]:
                yield i, j, t, WAR
            writer[t], readers[t] = j, []
        for t in op.reads:
            if t not in writes:
                readers[t].append(j)


def _judge_precedence(case: Case, by_op: list[list[RunItem]]) -> None:
    """Each op once: the full precedence, between every pair of runs."""
    latest = [group[0] if len(group) == 1 else max(group, key=_end, default=None) for group in by_op]
    for i, j, tensor, reason in orders(case, by_op):
        before = latest[i]
        if before is None:
            continue
        for run in by_op[j]:
            if run.start < before.end:
                _report_precedence(case, run, before, tensor, reason)


def _judge_after(case: Case, by_op: list[list[RunItem]]) -> None:
    """Ops may run again: each op of `after` has completed once before every run."""
    first = [group[0] if len(group) == 1 else min(group, key=_end, default=None) for group in by_op]
    for j, op in enumerate(case.graph.ops):
        for i in op.after:
            before = first[i]
            for run in by_op[j]:
                if before is None:
                    case.report(
                        "precedence",
                        f"{case.op(j)} starts at {run.start} ns ({AFTER}), but {case.op(i)} never runs",
                        time=run.start,
                        op=j,
                        other=i,
                        run=run.position,
                    )
                elif run.start < before.end:
                    _report_precedence(case, run, before, None, AFTER)


def _report_precedence(case: Case, run: RunItem, before: RunItem, tensor: int | None, reason: str) -> None:
    through = "" if tensor is None else f" through {case.tensor(tensor)}"
    case.report(
        "precedence",
        f"{case.op(run.op)} starts at {run.start} ns, expected not before {case.op(before.op)} ends "
        f"at {before.end} ns ({reason}{through})",
        time=run.start,
        op=run.op,
        other=before.op,
        tensor=tensor,
        run=run.position,
        other_run=before.position,
    )


def _judge_processors(case: Case, runs: list[RunItem]) -> None:
    """Rules ``processor-kind``, ``processor-overlap``, and ``duration`` where no access is slow."""
    open_runs: list[list[RunItem]] = [[] for _ in case.processors]
    for run in sorted(runs, key=_in_time):
        processor = case.processors[run.processor]
        if run.kinds and processor.kind not in run.kinds:
            expected = f"expected kind {' or '.join(run.kinds)}"
            _report_kind(case, run, f"found kind {processor.kind!r}, {expected}")
        for t, tier in run.tiers.items():
            if tier not in processor.tiers:
                reach = [case.tiers[k] for k in sorted(processor.tiers)]
                found = f"its mode needs {case.tensor(t)} in tier {case.tiers[tier]!r}"
                _report_kind(case, run, f"{found}, expected one of the processor's tiers {reach}")
        lasted = run.end - run.start
        if not processor.rates and (lasted < run.duration if case.stretches else lasted != run.duration):
            report_duration(case, run, run.duration)
        # The runs kept are those that end last: whoever meets a run that was dropped meets them too.
        before = [r for r in open_runs[run.processor] if r.end > run.start]
        for other in before[-case.partners() :] if before else ():
            case.report(
                "processor-overlap",
                f"{case.op(run.op)} starts at {run.start} ns on {processor.name!r}, expected not "
                f"before {case.op(other.op)} ends there at {other.end} ns",
                time=run.start,
                op=run.op,
                other=other.op,
                run=run.position,
                other_run=other.position,
                resource=processor.name,
            )
        before.append(run)
        if len(before) > 1:
            before.sort(key=_end)
        open_runs[run.processor] = before[-PARTNERS:]


def _report_kind(case: Case, run: RunItem, fault: str) -> None:
    name = case.processors[run.processor].name
    case.report(
        "processor-kind",
        f"{case.op(run.op)} runs at {run.start} ns on {name!r}: {fault}",
        time=run.start,
        op=run.op,
        run=run.position,
        resource=name,
    )


def report_duration(case: Case, run: RunItem, expected: int) -> None:
    """Report a run that does not take the nanoseconds that its mode and its slow accesses give."""
    case.report(
        "duration",
        f"{case.op(run.op)} runs from {run.start} to {run.end} ns, {run.end - run.start} ns, "
        f"expected {'at least ' if case.stretches else ''}{expected} ns",
        time=run.start,
        op=run.op,
        run=run.position,
    )
