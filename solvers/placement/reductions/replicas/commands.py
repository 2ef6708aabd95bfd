"""The commands of plans, lane by lane: what each waits for, and the room that it takes and gives back.

A *history* is a sequence of events in the order of the plan; a command waits until the first so many of it
have happened. There is one of the ends of commands at each tensor, and for each lane one of the ends of its
runs and one of their beginnings; for a strict runtime one of all ends of each lane. A run behind a barrier
waits for runs of all lanes.

What is exchanged leaves a lane in copies of that lane and comes in copies of the other one, whose histories
are of the tensor as it is *there*. These wait, besides, for as many copies as have taken it out; where it
comes without a stop, for the run that writes it, and its release for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .....models.graph import Graph
from .....models.plan import ByteRange, Copy, Free, Plan, Run
from .share import Replicas

History = tuple[str, int]
"""Of what, and the number of the tensor or the lane."""

Held = dict[History, list[ByteRange]]
"""Bytes of tensors that are allocated in lanes' memories."""


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


def commands(split: Replicas, plan: Plan, *, strict: bool) -> tuple[list[Command], list[int]]:
    """Return the commands of a plan of all lanes in the order of their beginnings, and bytes taken at time 0.

    What takes no time begins behind the ends of its instant and before the beginnings; releases go last. A
    strict runtime counts no bytes.
    """
    log = _Log(split, plan, strict)
    made: dict[int, Command] = {}
    for position, what, begins, ends in _events(plan):
        lane, there = log.lane_of(what)
        histories = _histories(log.graph, what, lane, log.to, strict, there)
        if begins:
            made[position] = Command(lane, what, len(made))
            log.begin(made[position], there, histories)
        if ends:
            log.end(made[position], there, histories)
    return list(made.values()), log.used


class _Log:
    """How far the histories are, and what is allocated, while a plan is read from event to event."""

    def __init__(self, split: Replicas, plan: Plan, strict: bool) -> None:
        self.graph, self.strict = split.problem.graph, strict
        self.by_processor = {lane.processor: g for g, lane in enumerate(split.lanes)}
        self.owner = {t: g for g, lane in enumerate(split.lanes) for t in lane.tensors}
        self.to = {got: g for g, lane in enumerate(split.lanes) for got in lane.received.values()}
        """By exchanged tensor the lane that it comes to."""

        self.homes = [lane.device for lane in split.lanes]
        place = {k: (g, i) for g, lane in enumerate(split.lanes) for i, k in enumerate(lane.ops)}
        self.barriers: dict[int, dict[int, int]] = {}
        for k, op in enumerate(self.graph.ops):
            for g, i in (place[j] for j in op.after):
                waits = self.barriers.setdefault(k, {})
                waits[g] = max(i + 1, waits.get(g, 0))
        written = {t: k for k, op in enumerate(self.graph.ops) for t in op.writes if t in self.to}
        self.writer = {t: place[k] for t, k in written.items()}
        self.counts: dict[History, int] = {}
        self.held: Held = {}
        self.used = [0] * len(self.homes)
        for x in plan.start:
            lane = self.owner[x.tensor]
            if x.tier == self.homes[lane] and not strict:
                self.used[lane] += _taken(self.held, self.graph, ("tensor", x.tensor), x.bytes)

    def lane_of(self, what: Run | Copy | Free) -> tuple[int, str]:
        """Return the lane of a command, and whether it finds its tensor there: "tensor", or "there"."""
        if isinstance(what, Run):
            return self.by_processor[what.processor], "tensor"
        lane, to = self.owner[what.tensor], self.to.get(what.tensor)
        if to is None:
            return lane, "tensor"
        tier = what.dst if isinstance(what, Copy) else what.tier
        comes = tier == self.homes[to] or (isinstance(what, Free) and tier != self.homes[lane])
        return (to, "there") if comes else (lane, "tensor")

    def begin(self, command: Command, there: str, histories: Sequence[History]) -> None:
        """Set what a command waits for, and what its beginning counts for and takes."""
        what, lane, counts = command.what, command.lane, self.counts
        command.waits = {history: counts.get(history, 0) for history in histories}
        if isinstance(what, Run):
            barriers = self.barriers.get(what.op, {})
            command.waits |= {("run", g): n for g, n in barriers.items() if g != lane}
        elif isinstance(what, Copy) and there == "there":
            g, i = self.writer[what.tensor]
            if what.src == self.homes[g]:
                command.waits["run", g] = i + 1
            else:
                command.waits |= _following(counts, "comes", what.tensor)
        elif isinstance(what, Free) and what.tensor in self.to and there == "tensor":
            command.waits |= _following(counts, "goes", what.tensor)
        if self.strict:
            return
        if isinstance(what, Run):
            command.begins = _next(counts, [("begun", lane)])
            op = self.graph.ops[what.op]
            command.takes = command.gives = op.all_modes[what.mode].workspace
            command.takes += sum(_taken(self.held, self.graph, ("tensor", t)) for t in op.writes)
        elif isinstance(what, Copy):
            command.waits["begun", lane] = counts.get(("begun", lane), 0)
            if what.dst == self.homes[lane]:
                command.takes = _taken(self.held, self.graph, (there, what.tensor), what.bytes)

    def end(self, command: Command, there: str, histories: list[History]) -> None:
        """Set what the end of a command counts for, and what it gives back."""
        what = command.what
        if (
            isinstance(what, Copy)
            and what.tensor in self.to
            and what.src == self.homes[self.owner[what.tensor]]
        ):
            histories = [*histories, ("out", what.tensor)]
        command.ends = _next(self.counts, histories)
        if isinstance(what, Free) and what.tier == self.homes[command.lane] and not self.strict:
            command.gives = _given(self.held, self.graph, (there, what.tensor), what.bytes)


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


def _histories(
    graph: Graph, what: Run | Copy | Free, lane: int, to: Mapping[int, int], strict: bool, there: str
) -> list[History]:
    """Return the histories that a command's end belongs to, and whose ends it waits for."""
    if strict:
        return [("end", lane), *([("run", lane)] if isinstance(what, Run) else [])]
    if not isinstance(what, Run):
        return [(there, what.tensor)]
    op = graph.ops[what.op]
    come = {t for t in op.reads if t in to}
    return [
        ("run", lane),
        *(("there" if t in come else "tensor", t) for t in sorted({*op.reads, *op.writes})),
    ]


def _following(counts: dict[History, int], word: str, t: int) -> dict[History, int]:
    """Return that the next part of a tensor waits for as many copies as have taken parts of it out."""
    (place,) = _next(counts, [(word, t)]).values()
    return {("out", t): place + 1}


def _next(counts: dict[History, int], histories: Sequence[History]) -> dict[History, int]:
    """Return the place of the next event of each history, and count it."""
    places = {history: counts.get(history, 0) for history in histories}
    for history in histories:
        counts[history] = places[history] + 1
    return places


def _taken(held: Held, graph: Graph, what: History, part: ByteRange | None = None) -> int:
    """Allocate bytes of a tensor; return how many were not."""
    low, high = part or (0, graph.tensors[what[1]].nbytes)
    spans = held.get(what, [])
    apart = [x for x in spans if x[1] < low or high < x[0]]
    joined = [x for x in spans if not (x[1] < low or high < x[0])]
    before = sum(b - a for a, b in joined)
    ends = [end for x in (*joined, (low, high)) for end in x]
    held[what] = [*apart, (min(ends), max(ends))]
    return max(ends) - min(ends) - before


def _given(held: Held, graph: Graph, what: History, part: ByteRange | None) -> int:
    """Release bytes of a tensor; return how many were allocated."""
    low, high = part or (0, graph.tensors[what[1]].nbytes)
    spans = held.get(what, [])
    before = sum(b - a for a, b in spans)
    cut = [(a, min(b, low)) for a, b in spans] + [(max(a, high), b) for a, b in spans]
    held[what] = [(a, b) for a, b in cut if a < b]
    return before - sum(b - a for a, b in held[what])
