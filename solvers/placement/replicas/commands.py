"""The commands of plans, lane by lane: what each waits for, and the room that it takes and gives back.

A *history* is a sequence of events in the order of the plan; a command waits until the first so many of it
have happened. There is one of the ends of commands at each tensor, and for each lane one of the ends of its
runs and one of their beginnings; for a strict runtime one of all ends of each lane. A run behind a barrier
waits for runs of all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ....models.graph import Graph
from ....models.plan import ByteRange, Copy, Free, Plan, Run
from .share import Replicas

History = tuple[str, int]
"""Of what, and the number of the tensor or the lane."""


@dataclass(eq=False)
class Command:
    """A command of a lane.

    Attributes
    ----------
    lane, what, number
        Whose, what is done, and its place among all in the order of their beginnings.
    waits
        By history, how many of its events it waits for.
    begins, ends
        By history, which of its events its beginning and its end are.
    takes, gives
        Bytes of the lane's memory that it takes as it begins and gives back as it ends.
    asked
        Orders copies that ask for their link.
    """

    lane: int
    what: Run | Copy | Free
    number: int
    waits: dict[History, int] = field(default_factory=dict)
    begins: dict[History, int] = field(default_factory=dict)
    ends: dict[History, int] = field(default_factory=dict)
    takes: int = 0
    gives: int = 0
    asked: tuple[int, int, int] = (0, 0, 0)


def commands(found: Replicas, plan: Plan, *, strict: bool) -> tuple[list[Command], list[int]]:
    """Return the commands of a plan of all lanes in the order of their beginnings, and bytes taken at time 0.

    What takes no time begins behind the ends of its instant and before the beginnings; releases go last. A
    strict runtime counts no bytes.
    """
    graph = found.problem.graph
    by_processor = {lane.processor: g for g, lane in enumerate(found.lanes)}
    owner = {t: g for g, lane in enumerate(found.lanes) for t in lane.tensors}
    homes = [lane.device for lane in found.lanes]
    held: dict[int, list[ByteRange]] = {t: [] for t in owner}
    used = [0] * len(homes)
    for x in plan.start:
        if x.tier == homes[owner[x.tensor]] and not strict:
            used[owner[x.tensor]] += _taken(held, graph, x.tensor, x.bytes)
    place = {k: (g, i) for g, lane in enumerate(found.lanes) for i, k in enumerate(lane.ops)}
    barriers: dict[int, dict[int, int]] = {}
    for k, op in enumerate(graph.ops):
        for g, i in (place[j] for j in op.after):
            waits = barriers.setdefault(k, {})
            waits[g] = max(i + 1, waits.get(g, 0))
    counts: dict[History, int] = {}
    some: dict[int, Command] = {}
    for position, what, begins, ends in _events(plan):
        lane = by_processor[what.processor] if isinstance(what, Run) else owner[what.tensor]
        histories = _histories(graph, what, lane, strict)
        if begins:
            command = some[position] = Command(lane, what, len(some))
            command.waits = {history: counts.get(history, 0) for history in histories}
            if isinstance(what, Run):
                command.waits |= {("run", g): n for g, n in barriers.get(what.op, {}).items() if g != lane}
            if isinstance(what, Copy) and not strict:
                command.waits["begun", lane] = counts.get(("begun", lane), 0)
            elif isinstance(what, Run) and not strict:
                command.begins = _next(counts, [("begun", lane)])
                workspace = graph.ops[what.op].all_modes[what.mode].workspace
                command.takes = command.gives = workspace
                command.takes += sum(_taken(held, graph, t) for t in graph.ops[what.op].writes)
            if isinstance(what, Copy) and what.dst == homes[lane] and not strict:
                command.takes = _taken(held, graph, what.tensor, what.bytes)
        if ends:
            command = some[position]
            command.ends = _next(counts, histories)
            if isinstance(what, Free) and what.tier == homes[lane] and not strict:
                command.gives = _given(held, graph, what.tensor, what.bytes)
    return list(some.values()), used


def _events(plan: Plan) -> Iterator[tuple[int, Run | Copy | Free, bool, bool]]:
    """Yield number, command, whether it begins and whether it ends, in the order of the plan."""
    all_of_it: Sequence[Run | Copy | Free] = (*plan.runs, *plan.copies, *plan.frees)
    events = []
    for position, what in enumerate(all_of_it):
        begin, end = (what.time, what.time) if isinstance(what, Free) else (what.start, what.end)
        if begin == end:
            events.append((begin, 1, isinstance(what, Free), position))
        else:
            events += [(begin, 2, False, position), (end, 0, False, position)]
    for _, phase, _, position in sorted(events):
        yield position, all_of_it[position], phase > 0, phase < 2


def _histories(graph: Graph, what: Run | Copy | Free, lane: int, strict: bool) -> list[History]:
    """Return the histories that a command's end belongs to, and whose ends it waits for."""
    if strict:
        return [("end", lane), *([("run", lane)] if isinstance(what, Run) else [])]
    if not isinstance(what, Run):
        return [("tensor", what.tensor)]
    op = graph.ops[what.op]
    return [("run", lane), *(("tensor", t) for t in sorted({*op.reads, *op.writes}))]


def _next(counts: dict[History, int], histories: Sequence[History]) -> dict[History, int]:
    """Return the place of the next event of each history, and count it."""
    found = {history: counts.get(history, 0) for history in histories}
    for history in histories:
        counts[history] = found[history] + 1
    return found


def _taken(held: dict[int, list[ByteRange]], graph: Graph, t: int, part: ByteRange | None = None) -> int:
    """Allocate bytes of a tensor; return how many were not."""
    low, high = part or (0, graph.tensors[t].nbytes)
    apart = [x for x in held[t] if x[1] < low or high < x[0]]
    joined = [x for x in held[t] if not (x[1] < low or high < x[0])]
    before = sum(b - a for a, b in joined)
    ends = [end for x in (*joined, (low, high)) for end in x]
    held[t] = [*apart, (min(ends), max(ends))]
    return max(ends) - min(ends) - before


def _given(held: dict[int, list[ByteRange]], graph: Graph, t: int, part: ByteRange | None) -> int:
    """Release bytes of a tensor; return how many were allocated."""
    low, high = part or (0, graph.tensors[t].nbytes)
    before = sum(b - a for a, b in held[t])
    cut = [(a, min(b, low)) for a, b in held[t]] + [(max(a, high), b) for a, b in held[t]]
    held[t] = [(a, b) for a, b in cut if a < b]
    return before - sum(b - a for a, b in held[t])
