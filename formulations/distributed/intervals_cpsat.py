r"""Makespan on distributed memory as intervals in CP-SAT.

Data: see `data`.

Variables, in ticks. :math:`S_i \in [head_i, H - tail_i - d_i]`: start of op i, :math:`E_i` its end, H the
makespan of a known schedule or a horizon. :math:`z_{ia} \in \{0, 1\}`: op i takes alternative a;
:math:`u_{im}`: it runs on memory m. :math:`x_{ykm}`: value y is transferred over link (k, m), to m from
:math:`X_{ym}` to :math:`A_{ym}`. C: the makespan. For each memory with a capacity and each tensor that may
come there, :math:`v_{tm}`: whether it is there, at least from :math:`B_{tm}` to :math:`D_{tm}`.

Objective. Minimize C subject to

1. :math:`\sum_a z_{ia} = 1`, :math:`E_i = S_i + \sum_a d_{ia} z_{ia}`, and
   :math:`u_{im} = \sum_{a: m_{q_a} = m} z_{ia}`;
2. :math:`E_i \le S_j` for each direct edge of the precedence; :math:`E_i \le C` for each op without a
   successor;
3. at any time at most :math:`p_q` ops run in alternatives in place q;
4. for each reader i of y and memory m: :math:`u_{im} \le u_{o_y m} + \sum_k x_{ykm}`, and
   :math:`x_{ykm} \le u_{o_y k}`;
5. where y is transferred to m, :math:`X_{ym} \ge E_{o_y}` and :math:`A_{ym} = X_{ym} + \sum_k x_{ykm}
   (\lambda_{km} + \beta_{ykm})`; its readers there start at :math:`A_{ym}` at the earliest;
6. transfers that share a lane use it one at a time, each from :math:`X_{ym} + \lambda_{km}` to
   :math:`A_{ym}`;
7. where an op accesses tensor t, :math:`v_{tm} = 1`; :math:`B_{tm} \le S_i` for an op there that writes t,
   :math:`B_{tm} \le X_{ym}` for a transfer to m, and :math:`B_{tm} = 0` if an op there accesses its initial
   version;
8. :math:`D_{tm} \ge E_i` for an op there that accesses t (accounting ``replace``: :math:`S_i`, if it only
   reads), :math:`D_{tm} \ge A_{ym'}` for a transfer from m, and :math:`D_{tm} \ge C` if t is final and
   stays there: where it was written last or, never written, wherever it is;
9. at any time the tensors and workspaces in memory m have at most :math:`K_m`;
10. under ``replace`` so have the tensors that are there at the start, which may leave at once.

Source: this suite. With one memory it is the model of `lowtide.formulations.makespan.intervals_cpsat`;
without capacities it is that of list schedulers (Topcuoglu, Hariri, Wu 2002) whose transfers wait for links.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...models.errors import UsageError
from ...models.problems.distributed import DistributedSchedule, Send
from ..makespan.intervals_cpsat import LARGEST_AREA
from ..model import ModelSize, ticker
from .data import DistributedData

ENGINE = "cpsat"
BYTES_PER_TERM = 1200
"""Measured bytes at the peak of building and solving, per nonzero coefficient."""

Way = tuple[int, int]


@dataclass(kw_only=True)
class MemoryInterval:
    """A tensor in a memory: whether it is there, from when, until when."""

    present: Any
    begin: Any
    end: Any


@dataclass(kw_only=True)
class DistributedModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: DistributedData
    horizon: int
    makespan: Any
    start: list[Any] = field(default_factory=list)
    end: list[Any] = field(default_factory=list)
    takes: list[list[Any]] = field(default_factory=list)
    """By op: z of its alternatives."""
    on: list[dict[int, Any]] = field(default_factory=list)
    """By op: u of the memories where it can run."""
    sent: list[dict[Way, Any]] = field(default_factory=list)
    """By value that may be transferred: x of the links that it may take."""
    leave: list[dict[int, Any]] = field(default_factory=list)
    """By such value and memory to which it may go: X."""
    arrive: list[dict[int, Any]] = field(default_factory=list)
    """The same: A."""
    stays: dict[tuple[int, int], MemoryInterval] = field(default_factory=dict)
    """By tensor and memory."""


def size(data: DistributedData, horizon: int) -> ModelSize:
    """Return about the counts of the model; they do not depend on the horizon."""
    ways = sum(map(len, data.alternatives))
    edges = sum(map(len, data.predecessors))
    sends = len(data.sent) * len(data.latency)
    uses = sum(len(x.readers) + 2 for x in data.values) * len(data.capacity)
    return ModelSize(
        variables=4 * ways + 4 * sends + 4 * uses,
        constraints=4 * ways + edges + 4 * sends + 3 * uses,
        terms=10 * ways + 2 * edges + 12 * sends + 8 * uses,
    )


def check(data: DistributedData, horizon: int) -> None:
    """Raise `UsageError` if bytes times time are too large for 64 bits."""
    area = max(((k or 0) + 1 for k in data.capacity), default=1) * (horizon + 1)
    if area >= LARGEST_AREA:
        raise UsageError(
            f"CP-SAT model of distributed: found {area} units of {data.unit} bytes times ticks of "
            f"{data.tick} ns, expected less than 2^61 of them (coarser durations or sizes)"
        )


def build(
    data: DistributedData,
    *,
    horizon: int,
    lower: int = 0,
    hint: DistributedSchedule | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> DistributedModel:
    """Return the model; its objective is the makespan in ticks.

    Parameters
    ----------
    horizon
        No schedule of interest takes longer, in ticks.
    lower
        A bound that is known, in ticks.
    hint
        A schedule within the horizon.
    """
    from ortools.sat.python import cp_model

    check(data, horizon)
    model = cp_model.CpModel()
    model.name = f"makespan_in_ticks_of_{data.tick}_ns"
    C = model.new_int_var(lower, max(horizon, lower), "C")
    built = DistributedModel(model=model, data=data, horizon=horizon, makespan=C)
    for i, choices in enumerate(data.alternatives):
        least = min(a.duration for a in choices)
        latest = max(horizon - data.tail[i] - least, data.head[i])
        built.start.append(model.new_int_var(data.head[i], latest, f"S{i}"))
        built.end.append(model.new_int_var(0, max(horizon - data.tail[i], latest), f"E{i}"))
        built.takes.append([model.new_bool_var(f"z{i}_{a}") for a in range(len(choices))])
        built.on.append({m: model.new_bool_var(f"u{i}_{m}") for m in data.memories(i)})
    for y, value in enumerate(data.sent):
        goes = {m for i in value.readers for m in data.memories(i)}
        ways = [(k, m) for k, m in data.latency if k in built.on[data.maker[y]] and m in goes]
        built.sent.append({(k, m): model.new_bool_var(f"x{y}_{k}_{m}") for k, m in ways})
        there = sorted({m for _, m in ways})
        built.leave.append({m: model.new_int_var(0, horizon, f"X{y}_{m}") for m in there})
        built.arrive.append({m: model.new_int_var(0, horizon, f"A{y}_{m}") for m in there})
    for value in data.values:
        for i in (*value.present, *(() if value.writer is None else (value.writer,))):
            for m in data.memories(i):
                key = value.tensor, m
                if data.capacity[m] is not None and data.nbytes[value.tensor] and key not in built.stays:
                    built.stays[key] = MemoryInterval(
                        present=model.new_bool_var(f"v{value.tensor}_{m}"),
                        begin=model.new_int_var(0, horizon, f"B{value.tensor}_{m}"),
                        end=model.new_int_var(0, horizon, f"D{value.tensor}_{m}"),
                    )
    tick = ticker(expired)
    for constrain in CONSTRAINTS:
        tick()
        constrain(built)
    model.minimize(C)
    if hint is not None:
        _hint(built, hint)
    return built


def _one_alternative(built: DistributedModel) -> None:
    """Constraint 1: each op takes one alternative, its time, and its memory."""
    data, model = built.data, built.model
    for i, choices in enumerate(data.alternatives):
        model.add_exactly_one(built.takes[i])
        taken = sum(a.duration * z for a, z in zip(choices, built.takes[i], strict=True))
        model.add(built.end[i] == built.start[i] + taken)
        for m, on in built.on[i].items():
            ways = [z for a, z in zip(choices, built.takes[i], strict=True) if data.memory_of[a.kind] == m]
            model.add(sum(ways) == on)


def _precedence(built: DistributedModel) -> None:
    """Constraint 2: what precedes an op has ended before it starts; C is not before the last end."""
    for i, before in enumerate(built.data.predecessors):
        for j in before:
            built.model.add(built.end[j] <= built.start[i])
        if not built.data.successors[i]:
            built.model.add(built.end[i] <= built.makespan)


def _processors(built: DistributedModel) -> None:
    """Constraint 3: at any time at most p_q ops run in place q."""
    model = built.model
    runs: list[list[Any]] = [[] for _ in built.data.counts]
    for i, some in enumerate(built.data.alternatives):
        for k, (a, z) in enumerate(zip(some, built.takes[i], strict=True)):
            name = f"run {i} as {k}"
            runs[a.kind].append(
                model.new_optional_fixed_size_interval_var(built.start[i], a.duration, z, name)
            )
    for here, count in zip(runs, built.data.counts, strict=True):
        if count == 1:
            model.add_no_overlap(here)
        elif count < len(here):
            model.add_cumulative(here, [1] * len(here), count)


def _sent_where_needed(built: DistributedModel) -> None:
    """Constraint 4: what is read in another memory is sent there, from where it was written."""
    data = built.data
    for value, maker, sent in zip(data.sent, data.maker, built.sent, strict=True):
        writer = built.on[maker]
        for i in value.readers:
            for m, on in built.on[i].items():
                to = [x for (_, there), x in sent.items() if there == m]
                built.model.add(on <= sum(to) + writer.get(m, 0))
        for (k, _), x in sent.items():
            built.model.add(x <= writer[k])


def _transfer_times(built: DistributedModel) -> None:
    """Constraint 5: a transfer begins when its value is written, takes its time, and readers wait for it."""
    data, model = built.data, built.model
    for y, value in enumerate(data.sent):
        for m, leave in built.leave[y].items():
            ways = {way: x for way, x in built.sent[y].items() if way[1] == m}
            taken = sum(data.takes(y, way) * x for way, x in ways.items())
            model.add(built.arrive[y][m] == leave + taken)
            for x in ways.values():
                model.add(leave >= built.end[data.maker[y]]).only_enforce_if(x)
                for i in value.readers:
                    if m in built.on[i]:
                        model.add(built.start[i] >= built.arrive[y][m]).only_enforce_if(x, built.on[i][m])


def _lanes(built: DistributedModel) -> None:
    """Constraint 6: transfers that share a lane use it one at a time."""
    data, model = built.data, built.model
    uses: dict[str, list[Any]] = {}
    for y, sent in enumerate(built.sent):
        for way, x in sent.items():
            begin = built.leave[y][way[1]] + data.latency[way]
            name = f"send {y} over {way[0]} {way[1]}"
            for lane in data.lanes[way] if data.busy[y][way] else ():
                uses.setdefault(lane, []).append(
                    model.new_optional_fixed_size_interval_var(begin, data.busy[y][way], x, name)
                )
    for _, some in sorted(uses.items()):
        model.add_no_overlap(some)


def _begins(built: DistributedModel) -> None:
    """Constraint 7: a tensor is there from the first op there that writes it, or transfer to there."""
    data, model = built.data, built.model
    for value in data.values:
        users = value.present if value.writer is None else (*value.readers, value.writer)
        for i in users:
            for m, on in built.on[i].items():
                if (stay := built.stays.get((value.tensor, m))) is not None:
                    model.add_implication(on, stay.present)
                    if value.writer is None:
                        model.add(stay.begin == 0).only_enforce_if(on)
                    elif i == value.writer:
                        model.add(stay.begin <= built.start[i]).only_enforce_if(on)
    for y, value in enumerate(data.sent):
        for (_, m), x in built.sent[y].items():
            if (stay := built.stays.get((value.tensor, m))) is not None:
                model.add_implication(x, stay.present)
                model.add(stay.begin <= built.leave[y][m]).only_enforce_if(x)


def _ends(built: DistributedModel) -> None:
    """Constraint 8: it is there to its last use, and a final one stays."""
    data, model = built.data, built.model
    for value in data.values:
        t = value.tensor
        for i in value.present if value.writer is None else (*value.readers, value.writer):
            held = not data.replace or t in data.writes[i]
            stays_on = data.final[t] and value.last and value.writer in (None, i)
            for m, on in built.on[i].items():
                if (stay := built.stays.get((t, m))) is not None:
                    model.add(stay.end >= (built.end if held else built.start)[i]).only_enforce_if(on)
                    if stays_on:
                        model.add(stay.end >= built.makespan).only_enforce_if(on)
    for y, value in enumerate(data.sent):
        for (k, m), x in built.sent[y].items():
            if (stay := built.stays.get((value.tensor, k))) is not None:
                model.add(stay.end >= built.arrive[y][m]).only_enforce_if(x)


def _memory(built: DistributedModel) -> None:
    """Constraint 9: what is in a memory fits."""
    data, model = built.data, built.model
    for m, room in enumerate(data.capacity):
        if room is None:
            continue
        intervals, demands = [], []
        for (t, there), stay in built.stays.items():
            if there == m:
                length = model.new_int_var(0, built.horizon, f"L{t}_{m}")
                intervals.append(
                    model.new_optional_interval_var(
                        stay.begin, length, stay.end, stay.present, f"stay {t} {m}"
                    )
                )
                demands.append(data.nbytes[t])
        for i, some in enumerate(data.alternatives):
            for k, a in enumerate(some):
                if data.memory_of[a.kind] == m and a.workspace:
                    z = built.takes[i][k]
                    name = f"workspace {i} as {k}"
                    intervals.append(
                        model.new_optional_fixed_size_interval_var(built.start[i], a.duration, z, name)
                    )
                    demands.append(a.workspace)
        if room < 0:
            model.add_bool_or([])  # false
        elif intervals:
            model.add_cumulative(intervals, demands, room)


def _start(built: DistributedModel) -> None:
    """Constraint 10: what is in a memory at the start fits, also what leaves at once."""
    data, model = built.data, built.model
    for m, room in enumerate(data.capacity):
        at_start = []
        for x in data.values:
            users = [built.on[i][m] for i in x.present if m in built.on[i]]
            if data.replace and x.writer is None and users and data.nbytes[x.tensor]:
                here = model.new_bool_var(f"F{x.tensor}_{m}")
                model.add_max_equality(here, users)
                at_start.append(data.nbytes[x.tensor] * here)
        if room is not None and at_start:
            model.add(sum(at_start) <= room)


CONSTRAINTS: tuple[Callable[[DistributedModel], None], ...] = (
    _one_alternative,
    _precedence,
    _processors,
    _sent_where_needed,
    _transfer_times,
    _lanes,
    _begins,
    _ends,
    _memory,
    _start,
)
"""As numbered on the page of mathematics."""


def _hint(built: DistributedModel, hint: DistributedSchedule) -> None:
    """Hint when and where ops run and transfers begin; presolve derives the rest."""
    data, model = built.data, built.model
    memory = []
    for i, (start, chosen) in enumerate(zip(hint.starts, hint.chosen, strict=True)):
        a = data.alternatives[i][chosen]
        memory.append(data.memory_of[a.kind])
        model.add_hint(built.start[i], start // data.tick)
        model.add_hint(built.end[i], start // data.tick + a.duration)
        for k, z in enumerate(built.takes[i]):
            model.add_hint(z, k == chosen)
        for m, on in built.on[i].items():
            model.add_hint(on, m == memory[i])
    begins = {(x.writer, x.tensor, x.memory): x.start // data.tick for x in hint.transfers}
    for y, (value, maker) in enumerate(zip(data.sent, data.maker, strict=True)):
        for (k, m), x in built.sent[y].items():
            model.add_hint(x, memory[maker] == k and (maker, value.tensor, m) in begins)
        for m, leave in built.leave[y].items():
            begin = begins.get((maker, value.tensor, m))
            taken = 0 if begin is None else data.takes(y, (memory[maker], m))
            model.add_hint(leave, begin or 0)
            model.add_hint(built.arrive[y][m], (begin or 0) + taken)
    ends = (hint.starts[i] // data.tick + data.alternatives[i][a].duration for i, a in enumerate(hint.chosen))
    model.add_hint(built.makespan, max(ends))


def decode(built: DistributedModel, value: Callable[[Any], int]) -> DistributedSchedule:
    """Return the schedule of a solution, in ns, with the transfers that some reader needs."""
    data = built.data
    taken = [[value(z) for z in some] for some in built.takes]
    chosen = [row.index(max(row)) for row in taken]
    memory = [data.memory_of[some[k].kind] for some, k in zip(data.alternatives, chosen, strict=True)]

    return DistributedSchedule(
        starts=tuple(value(s) * data.tick for s in built.start),
        chosen=tuple(chosen),
        transfers=tuple(
            Send(maker, x.tensor, m, value(leave) * data.tick)
            for x, maker, some in zip(data.sent, data.maker, built.leave, strict=True)
            for m, leave in some.items()
            if m != memory[maker] and any(memory[i] == m for i in x.readers)
        ),
    )
