"""Plans of whole tensors for single runs: annealing over lines of events.

A *line* is an order of the ops, of the copies of lives (`states`) to their outer tiers, one each, and of
their returns, one for each absence (`absences`) in which they are away. Its *times*: along the line, each
event begins as early as it can: behind the op, copies and births that it needs, behind the copy before it on
its channel or on one that takes turns with it, and behind the event before it that takes room in the same
tier, when enough is free there. Every plan that moves whole tensors so, one at a time on each channel, has a
line that ends no later: events in the order in which they begin. `NEVER`: an event needs one behind it, or
room that nobody leaves.

*Moves.* An event goes to another place; two copies change places; a life changes its outer tier, an op its
mode; of the lives that are around an op, up to five that are of about the same size leave or stay instead,
their copies at places where others were, or anywhere.

*Annealing* (Kirkpatrick, Gelatt and Vecchi, 1983) from the best plan known, in rounds each twice as long as
the one before; the temperature falls geometrically from what an event takes on average to `COLD` of what
the plan takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....formulations.placement.states import StateData
from ....formulations.placement.whole.absences import Absence, absences, holds
from ....formulations.placement.whole.intervals_cpsat import plan_of
from ....formulations.placement.whole.intervals_model import Moves
from ....formulations.placement.whole.sequence import longest_stall, rates
from ....models.arrays import Integers
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context
from ...engines.arrays import Rows
from .event_moves_kernel import MOST, anneal
from .event_orders_kernel import CLEAN, COPIED, NEVER, EventTables, Line, Times, time_line

LARGEST = 2**58
"""Bytes and ns that sums in 64 bits leave room for."""
COLD = 1e-6
"""Last temperature, as a part of what the start takes."""
LEAST, FIRST, ROUNDS = 2000, 20, 4
"""Steps of the first round, and for each pair of events; rounds without a time limit, or, with one, in a row
that find no better plan."""
SLICE = 10_000_000
"""Steps between two looks at the clock, times the square of the events: how long a step takes at most."""


def search_lines(
    problem: Placement, context: Context, data: StateData, seconds: float, *, patient: bool = False
) -> None:
    """Improve the best plan by annealing for so many seconds; without a time limit for some rounds.

    With a time limit it ends, too, when some rounds in a row found nothing, unless it is `patient`.
    """
    until = context.elapsed() + seconds
    if max(sum(life.nbytes for life in data.lives), data.slowest + longest_stall(data)) >= LARGEST:
        return
    if context.answer is None or _cut(context.answer):
        return
    case = case_of(data)
    best = line_of(case, data, problem, context.answer)
    if best is None or not len(case.life):
        return
    line, tried = _copied(best), _copied(best)
    times, drawn = times_for(case), np.zeros(MOST + 2, np.int64)
    square, turn, end = int(best.length[0]) ** 2, 0, ROUNDS
    steps, slice_steps = LEAST + FIRST * square, max(10, SLICE // square)
    soonest = time_line(case, best, times)
    context.offer(plan_of(data, moves_of(case, data, best, times), problem))
    while (patient or turn < end) and not _over(context, until):
        for part, begin in zip(best, line, strict=True):
            begin[:] = part
        time_line(case, best, times)
        events = best.event[: best.length[0]]
        warm, cold = float((times.end[events] - times.begin[events]).mean()), COLD * soonest
        for first in range(0, steps, slice_steps):
            if _over(context, until):
                break
            last = min(steps, first + slice_steps)
            seed = (context.seed * 1000 + turn * 100_003 + first) % 2**32
            least = context.bound or 0
            sooner = anneal(
                case,
                line,
                tried,
                best,
                times,
                drawn,
                first,
                last,
                steps,
                warm,
                cold,
                seed,
                least,
            )
            if sooner < soonest:
                soonest = sooner
                if context.time_limit is not None:
                    end = turn + 1 + ROUNDS
                context.offer(plan_of(data, moves_of(case, data, best, times), problem))
        turn, steps = turn + 1, 2 * steps
        context.progress(f"lines of events: round {turn}, {soonest:,} ns")


def _over(context: Context, until: float) -> bool:
    return context.closed or context.expired or context.elapsed() > until


def case_of(data: StateData) -> EventTables:
    """Return the rows of a single run."""
    n, lives, gaps = data.n, data.lives, absences(data)
    tiers, out, back = _by_tier(data)
    renewed = {(life.tensor, k) for life in lives for k in life.accesses}
    renews = [(life.tensor, life.born) in renewed for life in lives]
    modes = [[(x.ns, x.nbytes) for x in data.modes.get(k, ())] or [(0, 0)] for k in range(n)]
    rest = _held_by_no_life(data, renews)
    at, lists = _flat(_lists(data, gaps), n)
    return EventTables(
        numbers=_row((n, len(lives), len(gaps))),
        capacity=_row([NEVER if c is None else c for c in data.capacity]),
        mode_at=np.cumsum([0, *map(len, modes)]),
        duration=_row(
            [d + ns for d, modes_of_op in zip(data.duration, modes, strict=True) for ns, _ in modes_of_op]
        ),
        rest=_row([z + more for z, modes_of_op in zip(rest, modes, strict=True) for _, more in modes_of_op]),
        size=_row([life.nbytes for life in lives]),
        born=_row([life.born for life in lives]),
        renews=_row(renews),
        of=np.searchsorted([gap.life for gap in gaps], np.arange(len(lives) + 1)),
        life=_row([gap.life for gap in gaps]),
        before=_row([gap.before for gap in gaps]),
        behind=_row([gap.behind for gap in gaps]),
        held=_row([holds(data, gap.life, gap.before) for gap in gaps]),
        must=_row([gap.away(data) for gap in gaps]),
        ways=tiers,
        out=out,
        back=back,
        apart=_apart(data),
        at=at,
        lists=lists,
    )


def _channels(data: StateData) -> tuple[dict[int, int], dict[int, int]]:
    """Return by outer tier the channel out of tier 0 to it, and that back."""
    out = {way.dst: w for w, way in enumerate(data.ways) if not way.src}
    back = {way.src: w for w, way in enumerate(data.ways) if not way.dst}
    return out, back


def _by_tier(data: StateData) -> tuple[Rows, Rows, Rows]:
    """Return, by life and tier, how it comes there, and what its copies there and back take."""
    out, back = _channels(data)
    rate, _ = rates(data, beside=False)
    shape = len(data.lives), len(data.capacity)
    comes, to, fro = (np.zeros(shape, np.int64) for _ in range(3))
    for number, life in enumerate(data.lives):
        for x in back:
            if life.born < 0 and life.starts[x]:
                comes[number, x] = CLEAN
            elif x in out and (life.born >= 0 or life.starts[0]):
                comes[number, x] = COPIED
            for ns, channel in ((to, out.get(x)), (fro, back[x])):
                if channel is not None:
                    ns[number, x] = data.ways[channel].latency - (-life.nbytes * SECOND // rate[channel])
    return comes, to, fro


def _apart(data: StateData) -> Rows:
    """Return by two channels whether they carry one copy at a time."""
    out, back = _channels(data)
    numbers = {w: 2 * x for x, w in out.items()} | {w: 2 * x + 1 for x, w in back.items()}
    apart = np.eye(2 * len(data.capacity), dtype=np.int64)
    for group in rates(data, beside=False)[1]:
        rows = [numbers[w] for w in group if w in numbers]
        apart[np.ix_(rows, rows)] = 1
    return apart


def _held_by_no_life(data: StateData, renews: Sequence[bool]) -> list[int]:
    """Return by op the bytes that it needs and no life holds."""
    rest = list(data.need)
    for number, life in enumerate(data.lives):
        is_new = life.born >= 0 and not renews[number]
        for k in [*life.accesses, *([life.born] if is_new else [])]:
            rest[k] -= life.nbytes * holds(data, number, k)
    return rest


def _lists(data: StateData, gaps: Sequence[Absence]) -> list[list[list[int]]]:
    """Return the lists of `EventTables.lists`, each by op."""
    n, lives = data.n, data.lives
    born = {(life.tensor, life.born) for life in lives}
    ends: list[list[int]] = [[] for _ in range(n)]
    for number, life in enumerate(lives):
        k = life.accesses[-1] if life.accesses else life.born
        if not life.kept and (life.tensor, k) not in born - {(life.tensor, life.born)}:
            ends[k].append(2 * number + holds(data, number, k))
    returns, births, leaves, absent = ([list[int]() for _ in range(n)] for _ in range(4))
    for number, life in enumerate(lives):
        if 0 <= life.born < n:
            births[life.born].append(number)
    for g, gap in enumerate(gaps):
        if 0 <= gap.behind < n:
            returns[gap.behind].append(g)
        if 0 <= gap.before < n:
            leaves[gap.before].append(g)
        for k in range(max(0, gap.before + 1), min(n, gap.behind)):
            absent[k].append(g)
    return [returns, births, leaves, ends, absent]


def _flat(lists: Sequence[Sequence[Sequence[int]]], n: int) -> tuple[Rows, Integers]:
    """Return lists by op behind each other, and where each begins."""
    at, flat = np.zeros((len(lists), n + 1), np.int64), list[int]()
    for row, rows in enumerate(lists):
        at[row, 0] = len(flat)
        for k, part in enumerate(rows):
            flat += part
            at[row, k + 1] = len(flat)
    return at, _row(flat)


def _cut(plan: Plan) -> bool:
    """Return whether a copy moves a part of a tensor."""
    return any(copy.bytes is not None for copy in plan.copies)


def line_of(case: EventTables, data: StateData, problem: Placement, plan: Plan | None) -> Line | None:
    """Return the line of a plan of whole tensors; None if it has none."""
    if plan is None or _cut(plan):
        return None
    n, lives, gaps = data.n, data.lives, absences(data)
    line = Line(
        event=np.zeros(n + len(lives) + len(gaps), np.int64),
        length=np.zeros(1, np.int64),
        away=np.zeros(len(gaps), np.int64),
        tier=np.zeros(len(lives), np.int64),
        mode=np.zeros(n, np.int64),
    )
    for run in plan.runs:
        for i, mode in enumerate(data.modes.get(run.op, ())):
            if mode.number == run.mode:
                line.mode[run.op] = i
    number = {tier.name: x for x, tier in enumerate(problem.machine.tiers)}
    events = {run.op: run.start for run in plan.runs}
    if not _read_copies(case, data, plan, number, line, events):
        return None
    _read_absences(case, data, plan, number, line)
    for life, tier in enumerate(line.tier):
        if tier and not (case.ways[life, tier] and line.away[case.of[life] : case.of[life + 1]].any()):
            events.pop(n + life, None)
            line.tier[life] = 0
        elif case.ways[life, tier] == CLEAN:
            events.pop(n + life, None)
    line.event[: len(events)] = sorted(events, key=lambda event: (events[event], event))
    line.length[0] = len(events)
    return line if time_line(case, line, times_for(case)) < NEVER else None


def _read_copies(
    case: EventTables, data: StateData, plan: Plan, number: dict[str, int], line: Line, events: dict[int, int]
) -> bool:
    """Write a plan's copies into a line and its events; return whether a line can have them."""
    n, lives, gaps = data.n, data.lives, absences(data)
    starts, ends = dict(events), {-1: 0} | {run.op: run.end for run in plan.runs}
    of: dict[int, list[int]] = {}
    for life, part in enumerate(lives):
        of.setdefault(part.tensor, []).append(life)
    for copy in sorted(plan.copies, key=lambda copy: copy.start):
        live = [life for life in of.get(copy.tensor, ()) if ends[lives[life].born] <= copy.start]
        src, dst = number[copy.src], number[copy.dst]
        if not live:  # of no bytes
            continue
        life = live[-1]
        if not src and not line.tier[life]:
            line.tier[life] = dst
            events[n + life] = copy.start
        elif not dst:
            behind = [
                g
                for g in range(case.of[life], case.of[life + 1])
                if gaps[g].behind == data.end or starts[gaps[g].behind] >= copy.end
            ]
            if line.tier[life] not in (0, src) or not behind or gaps[behind[0]].behind == data.end:
                return False
            line.tier[life] = src
            line.away[behind[0]] = 1
            events[n + len(lives) + behind[0]] = copy.start
        else:
            return False
    return True


def _read_absences(
    case: EventTables, data: StateData, plan: Plan, number: dict[str, int], line: Line
) -> None:
    """Write into a line the absences that no copy ends, and those in which a life cannot be in tier 0."""
    starts = {run.op: run.start for run in plan.runs}
    ends = {-1: 0} | {run.op: run.end for run in plan.runs}
    frees = {(free.tensor, free.time) for free in plan.frees if not number[free.tier]}
    for g, gap in enumerate(absences(data)):
        tensor = data.lives[gap.life].tensor
        if gap.behind == data.end and line.tier[gap.life]:
            until = (ends if case.held[g] else starts)[gap.before]
            line.away[g] = any(time >= until for t, time in frees if t == tensor)
        if case.must[g] and not line.away[g]:
            tiers = [number[there.tier] for there in plan.start if there.tensor == tensor]
            line.away[g], line.tier[gap.life] = 1, next((x for x in tiers if case.ways[gap.life, x]), 0)


def moves_of(case: EventTables, data: StateData, line: Line, times: Times) -> Moves:
    """Return what a line says."""
    time_line(case, line, times)
    n, lives, gaps = data.n, len(data.lives), absences(data)
    away = {int(g): int(line.tier[gaps[g].life]) for g in np.flatnonzero(line.away)}
    events = {int(event): int(times.begin[event]) for event in line.event[: line.length[0]]}
    return Moves(
        starts=[events[k] for k in range(n)],
        modes=[int(m) for m in line.mode],
        period=None,
        away=away,
        out={event - n: begin for event, begin in events.items() if n <= event < n + lives},
        back={event - n - lives: begin for event, begin in events.items() if event >= n + lives},
    )


def times_for(case: EventTables) -> Times:
    """Return rows for the times of lines."""
    n, lives, gaps = case.numbers
    events, tiers = n + lives + gaps, len(case.capacity)
    sizes = (events, events, tiers, tiers, 2 * tiers, gaps, lives, tiers)
    rows = [np.zeros(size, np.int64) for size in sizes]
    both = [np.zeros((tiers, 2 * events), np.int64) for _ in range(2)]
    return Times(*rows, *both)


def _copied(line: Line) -> Line:
    return Line(*(part.copy() for part in line))


def _row(numbers: Sequence[int]) -> Integers:
    return np.array(numbers, dtype=np.int64)
