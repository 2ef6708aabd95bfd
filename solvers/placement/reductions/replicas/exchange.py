r"""What lanes exchange at barriers: how a plan gets it there, and what it costs every plan.

Each of G lanes sends s bytes to another one, all of them at the same barrier
(`lowtide.formulations.placement.lanes`). In *windows*: where all run the same plan of their part, everything
that follows op k - 1 is put off by the length of a window, in which nothing runs, copies under way end, and
then the s bytes pass in pieces, on channels between the processors if there is one for each pair, else
through an outer tier: a piece goes in there while the next one goes out. A piece is released before as much
comes, so the room in the part is enough; on direct channels, where it comes meanwhile, it has that of one
more piece (`lowtide.formulations.placement.lanes.PIECES`).

**In step a window of the least length loses nothing.** Let lanes have one outer tier and no channels between
them, and the channel out of and into a lane's memory each have a rate :math:`\rho`: the least of its own and
of a lane's part of the caps over it. Of every plan in step, with E exchanges, the bounds of one GPU on its
share that average (`share`) hold with :math:`E x` on top, where
:math:`x = \lfloor s / \max(\rho_{out}, \rho_{in}) \rfloor`. *Proof.* Op k - 1 ends everywhere at
the same time, and op k begins so. In between each lane sends and receives s bytes, so that stall is at least
:math:`s / \rho` long for either direction. Take x ns off the stall, which is then whole as before, and the s
bytes off its flows. What is left satisfies each row of rates: of one channel, for x times its :math:`\rho` is
at most s, and a larger cap over it alone holds as that does; of a cap over both, if it is at most
:math:`2 \max \rho`, for it counts 2 s, and else as the two rows of the channels do. All other rows do not
know lengths of stalls. So the mean over the lanes is a mixture without exchange, by :math:`E x` shorter.
QED. If both directions are as fast, a solution of it with windows of that length is one
with exchange, pieces growing small: then the optimum in step *is* that of one GPU on its share, and E x.

**Any plan.** Let :math:`D_i` be the durations of a lane from barrier i - 1 to barrier i, :math:`m_i` and
:math:`a_i` the first and the last end of an op before barrier i, r the rates of the channels of a lane in a
direction, R the joint rate of all lanes, x = s / r the longer one, y = G s / R at least x. Then
:math:`m_i \ge a_{i-1} + D_i`, and :math:`a_i \ge \max(m_i, a_{i-1} + x + D_i, m_{i-1} + y + D_i)`: all wait
for the last lane, whose s bytes pass behind its op; nothing passes before the first one's op has ended, and
who waits for the last bytes has :math:`D_i` to do. So a period is at least the sum of all D and that of all
x, or half of that of all y: over two barriers a grows by two D and y. And all bytes pass in it.

**The last barrier.** No plan of one lane alone ends its op before the last barrier sooner than b less the
duration of the op behind it, if b bounds its part: there that op can run at once, and copies under way need
not end. Behind the first of these ends all G s bytes pass, so no plan takes less than b + y. (Where tensors
are scattered, this holds in some lane only, not in the first one to end.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .....formulations.placement.lanes import PIECES, Lane
from .....models.machine import Machine
from .....models.plan import Copy, Free, Plan, Run
from .....models.problems.placement import Placement
from .....models.units import SECOND

COUNTS = tuple(2**i for i in range(PIECES.bit_length()))
"""Of pieces, that are tried where they go through a tier."""


def joint_bound(
    problem: Placement, parts: Sequence[Lane], joint_out: int | None, joint_in: int | None
) -> int:
    """Return a bound in ns on all plans of lanes that are alike, by durations and what is exchanged.

    Parameters
    ----------
    problem, parts
        All lanes.
    joint_out, joint_in
        What leaves and enters all memories of lanes together, bytes/s; None for no limit but their own.
    """
    stages, single, all_of_it = _stages(problem, parts), *_delays(problem, parts, joint_out, joint_in)
    if problem.periodic:
        return max(sum(stages) + max(sum(single), sum(all_of_it) // 2), sum(all_of_it))
    first = last = stages[0]
    for length, x, y in zip(stages[1:], single, all_of_it, strict=True):
        first, last = last + length, max(last + x, first + y) + length
    return last


def last_delay(
    problem: Placement,
    parts: Sequence[Lane],
    joint_out: int | None,
    joint_in: int | None,
    *,
    scattered: bool,
) -> int:
    """Return the ns by which single runs are longer than a bound of one lane alone says.

    `scattered`: whether the bound is that of some lane, for tensors may start in other lanes' tiers. Other
    parameters as above.
    """
    if not parts[0].received or parts[0].problem.graph.ops[-1].reads != (_readers(parts[0])[-1][1],):
        return 0
    single, joint = _delays(problem, parts, joint_out, joint_in)
    return single[-1] if scattered else joint[-1]


def step_delay(one: Placement, parts: Sequence[Lane], *, even: bool) -> int:
    """Return the ns by which plans in step are longer than bounds of one GPU on its share that average say.

    Of that GPU's problem `one`, whose share is rounded down unless it is `even`.
    """
    home = one.machine.tiers[0].name
    rates = [
        min([c.bytes_per_s, *(g.bytes_per_s for g in one.machine.groups if (c.src, c.dst) in g.channels)])
        for c in one.machine.channels
        if home in (c.src, c.dst)
    ]
    rate = max(rates) + (not even)
    return sum(one.graph.tensors[t].nbytes * SECOND // rate for _, t in _readers(parts[0]))


def with_windows(problem: Placement, parts: Sequence[Lane], plan: Plan) -> Plan:
    """Return the plan in which what is exchanged passes in windows.

    Parameters
    ----------
    problem, parts
        All lanes.
    plan
        Of all lanes, in which each keeps what it sends, in the place of what it receives.
    """
    if not parts[0].received:
        return plan
    home = [lane.device for lane in parts]
    owner = {t: g for g, lane in enumerate(parts) for t in lane.tensors}
    to = {got: g for g, lane in enumerate(parts) for got in lane.received.values()}
    instead = {sent: got for lane in parts for sent, got in lane.received.items()}
    way = route(problem.machine, parts)
    assert way is not None
    legs, via = way
    spells = [_spells(lane, plan) for lane in parts]
    copies, frees = [], []
    lengths = list[int]()
    counts = COUNTS[:1] if problem.whole else COUNTS if via else COUNTS[-1:]
    for number, sent in enumerate(parts[0].received):
        nbytes = problem.graph.tensors[sent].nbytes
        many, step = min(
            ((n, _step(legs, -(-nbytes // n))) for n in counts),
            key=lambda x: (x[0] + len(legs) - 1) * x[1],
        )
        wait = max(_under_way(plan, owner, g, some[number][0], instead) for g, some in enumerate(spells))
        begin = [some[number][0] + sum(lengths) + wait for some in spells]
        for g, lane in enumerate(parts):
            t = [*lane.received][number]
            tiers = [home[g], *via, home[to[t]]]
            ways = list(zip(pairwise(tiers), legs, strict=True))
            for j in range(many):
                part = (nbytes * j // many, nbytes * (j + 1) // many)
                for i, ((src, dst), leg) in enumerate(ways):  # each end by its lane's own time
                    start, end = (i + j) * step, (i + j) * step + leg.time(part[1] - part[0])
                    at = begin[to[t] if dst == tiers[-1] else g]
                    copies.append(Copy(t, src, dst, at + start, at + end, part))
                    frees.append(Free(t, src, begin[g if src == tiers[0] else to[t]] + end, part))
        lengths.append(wait + (many + len(legs) - 1) * step)
    ends = [[end for end, _ in some] for some in spells]
    behind = [0, *(sum(lengths[: i + 1]) for i in range(len(lengths)))]

    def begun(g: int, begin: int, end: int) -> int:
        """Return when something begins that began, and ended, at these times."""
        return begin + behind[(bisect_right if end > begin else bisect_left)(ends[g], begin)]

    for copy in plan.copies:
        if copy.tensor not in instead:
            start = begun(owner[copy.tensor], copy.start, copy.end)
            copies.append(replace(copy, start=start, end=start + copy.end - copy.start))
    last: dict[int, tuple[bool, int]] = {}
    for free in plan.frees:
        g = owner[free.tensor]
        if free.tensor not in instead:
            frees.append(replace(free, time=begun(g, free.time, free.time)))
        elif free.tier == home[g]:
            end, start = spells[g][[*parts[g].received].index(free.tensor)]
            if not end <= free.time < start:  # before that: in the next iteration
                last[free.tensor] = max(last.get(free.tensor, (False, 0)), (free.time < end, free.time))
    for t, (following, time) in last.items():
        late = time if following else begun(owner[t], time, time + 1)
        frees.append(Free(instead[t], home[to[instead[t]]], late))
    place = {k: (g, i) for g, lane in enumerate(parts) for i, k in enumerate(lane.ops)}
    readers = [i for i, _ in _readers(parts[0])]
    runs = []
    for run in plan.runs:
        later = behind[bisect_right(readers, place[run.op][1])]
        runs.append(replace(run, start=run.start + later, end=run.end + later))
    period = None if plan.period is None else plan.period + behind[-1]
    return replace(plan, runs=tuple(runs), copies=tuple(copies), frees=tuple(frees), period=period)


@dataclass(frozen=True)
class _Leg:
    """A channel on the way: bytes/s of one lane, latency in ns."""

    rate: int
    latency: int

    def time(self, nbytes: int) -> int:
        """Return the ns of a copy."""
        return self.latency - (-nbytes * SECOND // self.rate)


def _step(legs: Sequence[_Leg], nbytes: int) -> int:
    """Return the ns of a piece on the slowest leg."""
    return max(leg.time(nbytes) for leg in legs)


def route(machine: Machine, parts: Sequence[Lane]) -> tuple[list[_Leg], list[str]] | None:
    """Return the legs between lanes that exchange, and the tier between them if there is one; None without.

    All at once have the rates; of a joint cap each channel has the same part.
    """
    home = {t: lane.device for lane in parts for t in lane.tensors}
    pairs = {(home[got], lane.device) for lane in parts for got in lane.received.values()}
    channels = {(c.src, c.dst): c for c in machine.channels}
    homes = {home for pair in pairs for home in pair}
    ways: list[tuple[list[set[tuple[str, str]]], list[str]]] = [([pairs], [])]
    for tier in machine.tiers:
        if tier.name not in homes:
            sides = [{(a, tier.name) for a, _ in pairs}, {(tier.name, b) for _, b in pairs}]
            ways.append((sides, [tier.name]))
    for sides, via in ways:
        used = set().union(*sides)
        if used <= channels.keys():
            rate = {pair: channels[pair].bytes_per_s for pair in used}
            for group in machine.groups:
                for pair in used & {*group.channels}:
                    rate[pair] = min(rate[pair], group.bytes_per_s // len(used & {*group.channels}))
            if all(rate.values()):
                return [
                    _Leg(min(rate[p] for p in side), max(channels[p].latency_ns for p in side))
                    for side in sides
                ], via
    return None


def _readers(lane: Lane) -> list[tuple[int, int]]:
    """Return place and tensor of each op of a part that reads what came, in their order."""
    number = {t: i for i, t in enumerate(lane.tensors)}
    some = {number[sent] for sent in lane.received}
    return [(i, t) for i, op in enumerate(lane.problem.graph.ops) for t in op.reads if t in some]


def _spells(lane: Lane, plan: Plan) -> list[tuple[int, int]]:
    """Return for each exchange when the op before it ends, and when that behind it starts."""
    runs: dict[int, Run] = {run.op: run for run in plan.runs}
    return [(runs[lane.ops[i - 1]].end, runs[lane.ops[i]].start) for i, _ in _readers(lane)]


def _under_way(plan: Plan, owner: Mapping[int, int], g: int, time: int, but: Mapping[int, int]) -> int:
    """Return the ns until copies of a lane that are under way at a time have ended."""

    def left() -> Iterator[int]:
        for copy in plan.copies:
            if owner[copy.tensor] == g and copy.tensor not in but:
                for turn in (0, plan.period or 0):
                    if copy.start - turn < time:
                        yield copy.end - turn - time

    return max(0, max(left(), default=0))


def _stages(problem: Placement, parts: Sequence[Lane]) -> list[int]:
    """Return the sums of durations of a lane from each barrier to the next one, in ns."""
    stages, readers = [0], {i for i, _ in _readers(parts[0])}
    for i, op in enumerate(parts[0].problem.graph.ops):
        if i in readers:
            stages.append(0)
        stages[-1] += min(mode.duration_ns for mode in op.all_modes)
    return stages


def _delays(
    problem: Placement, parts: Sequence[Lane], joint_out: int | None, joint_in: int | None
) -> tuple[list[int], list[int]]:
    """Return by exchange the ns that what one lane sends takes at least, and what all send."""
    home = parts[0].device
    out = sum(c.bytes_per_s for c in problem.machine.channels if c.src == home)
    into = sum(c.bytes_per_s for c in problem.machine.channels if c.dst == home)
    sizes = [parts[0].problem.graph.tensors[t].nbytes for _, t in _readers(parts[0])]
    single = [z * SECOND // min(out, into) for z in sizes]
    joint = [r for r in (joint_out, joint_in) if r is not None]
    return single, [
        max([x, *(len(parts) * z * SECOND // r for r in joint)]) for x, z in zip(single, sizes, strict=True)
    ]
