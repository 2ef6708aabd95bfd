"""A plan as a Chrome trace, which Perfetto (ui.perfetto.dev) and ``chrome://tracing`` show.

Runs are complete events (``X``) on a thread for each processor; copies are such events on threads for each
channel, a further thread where copies of a channel overlap, since events of one thread may not. The bytes in
each tier are counters (``C``): the verifier's profile, a value at each change. Times are microseconds, as the
format has them, with the nanoseconds behind the point.

The format: "Trace Event Format", the public document of the Chromium project (text).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from ...models.checks import check_type
from ...models.files import write_packed
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.verify import verify

PROCESSORS, CHANNELS, TIERS = 1, 2, 3
"""Numbers of the three processes of a trace, in the order in which viewers show them."""

Event = dict[str, Any]


def trace(graph: Graph, plan: Plan) -> dict[str, Any]:
    """Return the JSON object of the trace of a plan; of a periodic plan, one period.

    What goes beyond the end of the period comes round at its beginning, as an event of its own.

    Parameters
    ----------
    graph
        The graph of the plan.
    plan
        The plan of any problem.

    Raises
    ------
    InstanceError
        If one of them is something else.
    VerificationError
        If the plan does not verify.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.adapters import chrome_trace
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "greedy")
    >>> found = chrome_trace.trace(result.graph, result.plan)
    >>> [event["args"]["bytes"] for event in found["traceEvents"] if event["ph"] == "C"]
    [4, 5, 8, 6, 2]
    """
    check_type(graph, Graph, "trace, graph")
    check_type(plan, Plan, "trace, plan", "a Plan; result.plan of a result with one")
    verdict = verify(graph, plan)
    verdict.raise_if_invalid()
    events: list[Event] = []
    for number, what in ((PROCESSORS, "processors"), (CHANNELS, "channels"), (TIERS, "memory")):
        events.append(_named("process_name", number, 0, what))
        events.append(
            {"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}}
        )
    runs, copies = _runs(graph, plan), _copies(graph, plan)
    for number, lanes in ((PROCESSORS, runs), (CHANNELS, copies)):
        thread = 0
        for lane, timed in lanes.items():
            for k, row in enumerate(_rows(timed)):
                events.append(_named("thread_name", number, thread, f"{lane} ({k + 1})" if k else lane))
                events += [{"ph": "X", "pid": number, "tid": thread, **event} for event in row]
                thread += 1
    for tier, profile in verdict.profiles.items():
        events += [
            {"ph": "C", "pid": TIERS, "name": f"bytes in {tier}", "ts": _us(time), "args": {"bytes": nbytes}}
            for time, nbytes in profile
        ]
    about: dict[str, Any] = {"graph": graph.name, "sha256": graph.sha256, "machine": plan.machine.name}
    about |= {} if plan.period is None else {"period_ns": plan.period}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def write(graph: Graph, plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the trace of a plan, gzipped if the name ends in ``.gz``; Perfetto reads both.

    Parameters
    ----------
    graph, plan
        As of `trace`.
    path
        The file; written whole or not at all.

    Raises
    ------
    InstanceError, VerificationError
        As `trace`.
    UsageError
        If the path cannot be written.
    """
    write_packed(path, json.dumps(trace(graph, plan)).encode() + b"\n")


def _us(ns: int) -> float | int:
    """Return microseconds; exact to the nanosecond in plans of less than 13 days."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def _named(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(name: str, start: int, end: int, args: dict[str, Any]) -> Event:
    return {"name": name, "ts": _us(start), "dur": _us(end - start), "args": args}


def _runs(graph: Graph, plan: Plan) -> dict[str, list[tuple[int, int, Event]]]:
    """Return start, end and event of the runs of each processor, in ns."""
    lanes: dict[str, list[tuple[int, int, Event]]] = {p.name: [] for p in plan.machine.processors}
    for run in plan.runs:
        op = graph.ops[run.op]
        args: dict[str, Any] = {"op": run.op, "kind": op.kind, "mode": run.mode}
        event = _complete(op.name or op.kind or f"op {run.op}", run.start, run.end, args)
        lanes[run.processor].append((run.start, run.end, event))
    return lanes


def _copies(graph: Graph, plan: Plan) -> dict[str, list[tuple[int, int, Event]]]:
    """Return start, end and event of the copies of each channel, in ns."""
    lanes: dict[str, list[tuple[int, int, Event]]] = {f"{c.src} → {c.dst}": [] for c in plan.machine.channels}
    for copy in plan.copies:
        tensor = graph.tensors[copy.tensor]
        low, high = copy.bytes or (0, tensor.nbytes)
        args = {"tensor": copy.tensor, "kind": tensor.kind, "low": low, "high": high}
        for start, end in _within(copy.start, copy.end, plan.period):
            event = _complete(tensor.name, start, end, args)
            lanes[f"{copy.src} → {copy.dst}"].append((start, end, event))
    return lanes


def _within(start: int, end: int, period: int | None) -> Iterator[tuple[int, int]]:
    """Yield when something takes place within a period."""
    if period is None or end <= period:
        yield start, end
    elif start >= period:
        yield start - period, end - period
    else:
        yield start, period
        yield 0, end - period


def _rows(timed: Iterable[tuple[int, int, Event]]) -> list[list[Event]]:
    """Return events in rows of which none overlap; at least one row."""
    rows: list[list[Event]] = [[]]
    ends = [0]
    for start, end, event in sorted(timed, key=lambda item: item[:2]):
        k = next((k for k, busy in enumerate(ends) if busy <= start), len(rows))
        if k == len(rows):
            rows.append([])
            ends.append(0)
        rows[k].append(event)
        ends[k] = end
    return rows
