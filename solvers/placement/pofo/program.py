r"""POFO: which values of a chain are kept, offloaded and computed again, by a dynamic program.

*Statement* (Beaumont, Eyraud-Dubois and Shilova, "Efficient combination of rematerialization and offloading
for training DNNs", NeurIPS 2021; here a plain chain of stages 0 .. l). The chain is cut into segments. On
the way forward every op runs once; the input of each segment is kept in the memory, or goes out beside the
ops that follow; the other inputs are dropped. On the way back, the last segment first, its input is there
again, the segment is reversed by a persistent schedule (`lowtide.solvers.recompute.chains.hetero`), and
meanwhile the inputs of the segments before it come back, the nearest first. Where room lacks, an op waits
until enough has gone out, or the one behind it until the rest has come in.

*States.* Before stage i runs forward: A bytes of inputs are kept and D bytes still have to go out; behind
its backward P bytes have to be there again; T ns are spent on the stages before, forward and backward. With
x the bytes of input i, M those of the memory, and m(d), m'(d) what passes in d ns, a segment i .. j - 1
leads to

1. :math:`D' = D_j` of :math:`D_{k+1} = \max(0, D_k - m(f_k))` for its forwards k, where :math:`D_i = D + x`
   if its input goes out, else D; if :math:`A + x + D_k + need_k > M`, k waits for the difference (x counts
   once where it goes out: whole for k = i, then what is left of it);
2. :math:`P'`, what has to be there before the reversal, and x more if that went out: behind its last op it
   is P, and before op r it is :math:`P_r = \max(0, P_{r+1} - m'(d_r))`; if :math:`A + x + P_{r+1} + u_r >
   M`, the difference comes in a wait behind r;
3. :math:`A' = A`, or A + x if the input is kept; :math:`T' = T` and both times, and the waits.

:math:`need_k` is what forward k needs beside x, :math:`u_r` what is there while op r of the reversal runs.
The last segment is reversed at once: what is to go out does so before one of its ops, what comes in behind
that, whichever is best. A state is dominated by one in which no number is larger. Sizes are rounded up to M
/ `slots`: that may lose good states, but what is found fits; the plan counts the segments again, exactly
(`emission`).

*Against the paper.* There stages may save more than their input (taped chains), and there is no latency;
here each op or wait has a part of its own behind the latency. A segment has one reversal for each memory
that changes its time here; there one that knows what must come in beside it. The loss is the end of the
last segment here, of any length; there all copies wait for each other at the loss. Values that leave are
never computed again, and gradients never leave: other plans may be faster, so that each op once is the only
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ....formulations.model import BuildTimeout, Tick
from ....models.arrays import Integers
from ....models.graph import Graph
from ...recompute.chains.hetero import NEVER, Program, schedule
from .channel import Rate, positive

MOST_STATES = 3000
"""Of one stage; if there are more, they are rounded up more."""


Beside = tuple[int | None, int, int]
"""An op (None: a wait), its ns, and the bytes that come in beside it."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Stages `first` .. `last`, whether the input goes out, and the ops of the reversal."""

    first: int
    last: int
    away: bool
    ops: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A plain chain on a device: op i is the forward of stage i, op 2 l - i the backward.

    Attributes
    ----------
    graph, found
        The chain, and its program within the memory alone.
    x
        Tensors that stages begin with.
    memory
        M in bytes.
    out, back
        The channels to and from the outer tier.
    outside
        Whether input 0 has a copy there from the beginning.
    tick
        Called now and then; raises when the time is up.
    """

    graph: Graph
    found: Program
    x: tuple[int, ...]
    memory: int
    out: Rate
    back: Rate
    outside: bool
    tick: Tick

    def size(self, i: int) -> int:
        """Return the bytes of input i."""
        return self.graph.tensors[self.x[i]].nbytes

    def goes_out(self, i: int) -> int:
        """Return the bytes of input i that have to go out if it leaves."""
        return 0 if i == 0 and self.outside else self.size(i)

    def ns(self, op: int) -> int:
        """Return the duration of an op."""
        return self.graph.ops[op].all_modes[0].duration_ns

    def need(self, i: int, k: int) -> int:
        """Return what forward k needs in the segment from stage i on, beside its input."""
        stages = self.found.stages
        return stages.need_first[i] if i == k else stages.need_next[k]

    def uses(self, first: int, ops: Sequence[int]) -> list[int]:
        """Return the bytes that are there while each op of a reversal runs, beside the segment's input."""
        tensors, found = self.graph.tensors, []
        live = {self.graph.ops[ops[-1]].writes[0]}
        for number in reversed(ops):
            op = self.graph.ops[number]
            there = live | {*op.reads, *op.writes, self.x[first]}
            space = op.all_modes[0].workspace
            found.append(sum(tensors[t].nbytes for t in there) - self.size(first) + space)
            live = (live - {*op.writes}) | {*op.reads}
        return found[::-1]

    def rest(self) -> list[int]:
        """Return by stage the ns of it and those behind it, each op once."""
        l = len(self.x) - 1  # noqa: E741
        both = [self.ns(2 * l - i) + (self.ns(i) if i < l else 0) for i in range(l + 1)]
        return [sum(both[i:]) for i in range(l + 1)]

    def reversals(self, first: int, last: int, limit: int) -> Iterator[tuple[int, ...]]:
        """Yield the ops of the best schedules of a segment that take less time, the slowest first."""
        before = limit
        for room in range(self.found.room(first) + 1):
            self.tick()
            if (time := self.found.time(first, last, room)) < before:
                before = time
                yield tuple(schedule(self.found, first, last, room))


@dataclass(kw_only=True)
class _States:
    """Of one stage, by state: A, D, P and T, the state before, and the segment that led here."""

    numbers: Integers
    parent: Integers
    segment: list[Segment]


def pofo(chain: Chain, slots: int) -> list[Segment] | None:
    """Return the segments of the best plan that the program finds in time; None if it finds none.

    Short segments come first: what they find shortens the search among longer ones.

    Parameters
    ----------
    slots
        That memory is counted in.
    """
    time, segments = NEVER, None
    with suppress(BuildTimeout):
        for longest in (1, 4, 16, max(17, len(chain.x))):
            found = _program(chain, slots, longest, time)
            time, segments = found or (time, segments)
    return segments


def _program(chain: Chain, slots: int, longest: int, limit: int) -> tuple[int, list[Segment]] | None:
    """Return the least time below a limit and its segments, of so many stages at most; None without any."""
    count = len(chain.x)
    unit = max(1, -(-chain.memory // slots))
    reached: list[list[tuple[Integers, Integers, Segment]]] = [[] for _ in range(count)]
    start = np.zeros((4, 1), np.int64)
    reached[0].append((start, np.zeros(1, np.int64), Segment(first=0, last=-1, away=False, ops=())))
    stages: list[_States] = []
    rest = chain.rest()
    best: tuple[int, int, tuple[int, ...]] | None = None  # stage, state, ops
    for i in range(count):
        states = _undominated(reached[i], unit, chain.tick)
        stages.append(states)
        if not states.numbers.size:
            continue
        most = limit - int(states.numbers[3].min()) if i + longest >= count else 0
        for ops in chain.reversals(i, count - 1, most):
            total = states.numbers[3] + _at_the_turn(chain, i, ops, states.numbers)[0]
            state = int(np.argmin(total))
            if total[state] < limit:
                limit, best = int(total[state]), (i, state, ops)
        for segment, numbers in _onwards(chain, i, min(i + longest, count - 1), states.numbers, limit, rest):
            j = segment.last + 1
            kept = np.flatnonzero(numbers[3] + rest[j] < limit)
            reached[j].append((numbers[:, kept], kept, segment))
    if best is None:
        return None
    i, state, ops = best
    segments = [Segment(first=i, last=count - 1, away=False, ops=ops)]
    while i:
        segment = stages[i].segment[state]
        segments.append(segment)
        i, state = segment.first, int(stages[i].parent[state])
    return limit, segments[::-1]


def _undominated(found: list[tuple[Integers, Integers, Segment]], unit: int, tick: Tick) -> _States:
    """Return the states of a stage, rounded, without those that are dominated, the fastest first."""
    if not found:
        return _States(numbers=np.zeros((4, 0), np.int64), parent=np.zeros(0, np.int64), segment=[])
    exact = np.concatenate([numbers for numbers, *_ in found], axis=1)
    parent = np.concatenate([kept for _, kept, _ in found])
    which = np.repeat(np.arange(len(found)), [numbers.shape[1] for numbers, *_ in found])
    while True:
        rounded = exact.copy()
        rounded[:3] = -(-exact[:3] // unit) * unit
        kept: list[int] = []
        front = np.empty((3, 0), np.int64)
        for state in np.lexsort((rounded[0] + rounded[1] + rounded[2], rounded[3])).tolist():
            tick()
            own = rounded[:3, state, None]
            if not (front <= own).all(axis=0).any():
                kept.append(state)
                front = np.concatenate((front, own), axis=1)
                if len(kept) > MOST_STATES:
                    break
        if len(kept) <= MOST_STATES:
            break
        unit *= 2
    return _States(
        numbers=rounded[:, kept], parent=parent[kept], segment=[found[int(which[k])][2] for k in kept]
    )


def _onwards(
    chain: Chain, i: int, end: int, states: Integers, limit: int, rest: Sequence[int]
) -> Iterator[tuple[Segment, Integers]]:
    """Yield segments i .. j - 1 for j up to `end`, and the states behind them (1 to 3)."""
    kept, pending, due, spent = states
    x = chain.size(i)
    ways = {False: (pending, spent)}
    if x:
        ways[True] = (pending + chain.goes_out(i), spent)
    for j in range(i + 1, end + 1):
        k = j - 1
        room = chain.memory - chain.need(i, k) - kept
        for away, (left, time) in ways.items():
            here = room if away and k > i else room - x
            if away and k == i:  # what is left of x is there in any case
                here = np.where(here < 0, here, here + chain.goes_out(i))
            waits, left = waited(chain.out, left, here, chain.ns(k))
            ways[away] = left, np.minimum(time + waits + chain.ns(k), NEVER)
        fastest = min(int(time.min()) for _, time in ways.values())
        for ops in chain.reversals(i, k, limit - fastest - rest[j]):
            waits, before = returned(chain, kept + x, i, ops, due)
            for away, (left, time) in ways.items():
                total = np.minimum(time + waits + sum(map(chain.ns, ops)), NEVER)
                more = [kept, left, before + x] if away else [kept + x, left, before]
                segment = Segment(first=i, last=k, away=away, ops=ops)
                yield segment, np.stack([*more, total])


def waited(rate: Rate, left: Integers, room: Integers, duration: int) -> tuple[Integers, Integers]:
    """Return the ns to wait until at most `room` bytes are left, and what is left behind an op (1).

    Where room is below 0, which nothing cures, `NEVER` and more.
    """
    waits = rate.waits(positive(left - room))
    left = positive(left - rate.all_moved(waits))
    return np.where(room < 0, NEVER, waits), positive(left - rate.moved(duration))


def returned(
    chain: Chain,
    base: Integers,
    first: int,
    ops: Sequence[int],
    due: Integers,
    beside: list[Beside] | None = None,
) -> tuple[Integers, Integers]:
    """Return the ns to wait in a reversal for what is due behind it, and what is due before (2).

    Of a single state, `beside` takes each op and the wait behind it, the last one first.
    """
    total = np.zeros_like(due)
    for op, used in zip(reversed(ops), reversed(chain.uses(first, ops) if ops else []), strict=True):
        waits, before = waited(chain.back, due, chain.memory - base - used, chain.ns(op))
        if beside is not None:
            within = min(int(due[0]), chain.back.moved(int(waits[0])))
            beside.append((None, int(waits[0]), within))
            beside.append((op, chain.ns(op), int(due[0]) - within - int(before[0])))
        total, due = np.minimum(total + waits, NEVER), before
    return total, due


def _at_the_turn(chain: Chain, i: int, ops: Sequence[int], states: Integers) -> tuple[Integers, Integers]:
    """Return the ns that the last segment takes, and by state before which of its ops copies turn round."""
    kept, pending, due, _ = states
    base = kept + chain.size(i)
    rooms = [chain.memory - base - used for used in chain.uses(i, ops)]
    out, total = [chain.out.waits(pending)], np.zeros_like(due)
    for op, room in zip(ops, rooms, strict=True):
        waits, pending = waited(chain.out, pending, room, chain.ns(op))
        total = np.minimum(total + waits, NEVER)
        out.append(total + chain.out.waits(pending))
    back, total = [chain.back.waits(due)], np.zeros_like(due)
    for op, room in zip(reversed(ops), reversed(rooms), strict=True):
        waits, due = waited(chain.back, due, room, chain.ns(op))
        total = np.minimum(total + waits, NEVER)
        back.append(total + chain.back.waits(due))
    both = np.stack(out) + np.stack(back[::-1])
    turn = both.argmin(axis=0)
    return np.minimum(both.min(axis=0) + sum(map(chain.ns, ops)), NEVER), turn


def turn_of(chain: Chain, segment: Segment, kept: int, pending: int, due: int) -> int:
    """Return before which op of the last segment copies turn round."""
    state = np.array([[kept], [pending], [due], [0]], np.int64)
    return int(_at_the_turn(chain, segment.first, segment.ops, state)[1][0])
