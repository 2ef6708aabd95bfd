r"""POFO: which values of a chain are kept, offloaded and computed again, by a dynamic program.

*Statement* (Beaumont, Eyraud-Dubois and Shilova, "Efficient combination of rematerialization and offloading
for training DNNs", NeurIPS 2021; its text was not at hand, and this is after a public implementation of it,
ColossalAI's). A chain of stages, plain or taped (`lowtide.solvers.recompute.chains.chain`), is cut into
segments. On the way forward every op runs once; the input of each segment is kept in the memory, or goes out
beside the ops that follow; the other inputs are dropped. In a taped chain the forward of a segment of one
stage may *save*: then its reversal is the backward alone, and the tape belongs to the input of the next
segment. On the way back, the last segment first, its input is there again, the segment is reversed by a
persistent schedule (`lowtide.solvers.recompute.chains.hetero`), and meanwhile the inputs of the segments
before it come back, the nearest first. Where room lacks, an op waits until enough has gone out, or the one
behind it until the rest has come in.

*States.* Before stage i runs forward, its input with or without the tape of stage i - 1: A bytes of inputs
are kept and D bytes still have to go out; behind its backward P bytes have to be there again; T ns are spent
on the stages before, forward and backward. With x the bytes of that input, M those of the memory less the
gradient given at the end of a taped chain, and m(d), m'(d) what passes in d ns, a segment i .. j - 1 leads to

1. :math:`D' = D_j` of :math:`D_{k+1} = \max(0, D_k - m(f_k))` for its forwards k, where :math:`D_i = D + x`
   if its input goes out, else D; if :math:`A + x + D_k + need_k > M`, k waits for the difference (x counts
   once where it goes out: whole for k = i, then what is left of it);
2. :math:`P'`, what has to be there before the reversal, and x more if that went out: behind its last op it
   is P, and before op r it is :math:`P_r = \max(0, P_{r+1} - m'(d_r))`; if :math:`A + x + P_{r+1} + u_r >
   M`, the difference comes in a wait behind r;
3. :math:`A' = A`, or A + x if the input is kept; :math:`T' = T` and both times, and the waits.

:math:`need_k` is what forward k needs beside x, its tape included if it saves, :math:`u_r` what is there
while op r of the reversal runs; for a stage that saved that includes the input of the next one.
The last segment is reversed at once: what is to go out does so before one of its ops, what comes in behind
that, whichever is best. A state is dominated by one in which no number is larger. Sizes are rounded up to M
/ `slots`: that may lose good states, but what is found fits; the plan counts the segments again, exactly
(`emission`).

*Against that implementation.* It has no latency; here each op or wait has a part of its own behind the
latency. It estimates how a reversal and what comes in beside it share their time; here a segment has one
reversal for each memory that changes its time, and what comes in is counted op by op. There all copies wait
for each other at the loss; here copies turn round within the last segment, of any length. Values that leave
are never computed again, and gradients never leave: other plans may be faster, so that each op once is the
only bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ....formulations.model import BuildTimeout, Tick
from ....models.arrays import Integers
from ....models.graph import Graph
from ...recompute.chains.hetero import NEVER, HeteroProgram, schedule
from .channel import Rate, positive

MOST_STATES = 3000
"""Of one stage; if there are more, they are rounded up more."""


Key = tuple[int, bool]
"""A stage, and whether the tape of the stage before belongs to its input."""

Beside = tuple[int | None, int, int]
"""A code (None: a wait), its ns, and the bytes that come in beside it."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Stages `first` .. `last` and the codes of the reversal.

    Attributes
    ----------
    away
        Whether the input goes out.
    taped
        Whether the tape of the stage before belongs to the input.
    saves
        Whether the forward of its only stage saves.
    """

    first: int
    last: int
    away: bool
    taped: bool
    saves: bool
    ops: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class OpChain:
    """A chain on a device, in the codes of `hetero`: ops in their first modes, or forwards in their second.

    Attributes
    ----------
    graph, found
        The chain, and its program within the memory alone.
    inputs, tapes
        Tensors that stages begin with, and in a taped chain those that they save.
    given
        The initial gradient of a taped chain.
    memory
        In bytes.
    out, back
        The channels to and from the outer tier.
    outside
        Whether input 0 has a copy there from the beginning.
    tick
        Called now and then; raises when the time is up.
    """

    graph: Graph
    found: HeteroProgram
    inputs: tuple[int, ...]
    tapes: tuple[int, ...]
    given: tuple[int, ...]
    memory: int
    out: Rate
    back: Rate
    outside: bool
    tick: Tick

    def of(self, i: int, taped: bool) -> tuple[int, ...]:
        """Return the tensors that a segment begins with; empty ones never leave."""
        some = (self.inputs[i], self.tapes[i - 1]) if taped else (self.inputs[i],)
        return tuple(t for t in some if self.graph.tensors[t].nbytes)

    def size(self, i: int, taped: bool) -> int:
        """Return the bytes that a segment begins with."""
        return self.bytes_of(self.of(i, taped))

    def goes_out(self, i: int, taped: bool) -> int:
        """Return those of them that have to go out if they leave."""
        return 0 if i == 0 and self.outside else self.size(i, taped)

    def bytes_of(self, some: Iterable[int]) -> int:
        """Return the bytes of tensors."""
        return sum(self.graph.tensors[t].nbytes for t in some)

    def op(self, code: int) -> tuple[int, int]:
        """Return the op of a code and its mode."""
        mode, number = divmod(code, len(self.graph.ops))
        return number, mode

    def ns(self, code: int) -> int:
        """Return the duration of a code."""
        return self.graph.ops[self.op(code)[0]].all_modes[0].duration_ns

    def written(self, number: int, mode: int) -> set[int]:
        """Return what an op writes to the device."""
        return {*self.graph.ops[number].writes} - ({*self.tapes} if mode else set())

    def forward(self, k: int, saves: bool) -> int:
        """Return the code of the forward of stage k."""
        return k if saves or not self.tapes else len(self.graph.ops) + k

    def backward(self, k: int) -> int:
        """Return the code of the backward of stage k."""
        return len(self.graph.ops) - 1 - k

    def need(self, i: int, k: int, saves: bool) -> int:
        """Return what forward k needs in the segment from stage i on, beside its input, and what is given."""
        stages = self.found.stages
        beside = stages.save[i] if saves else stages.need_first[i] if i == k else stages.need_next[k]
        return beside + self.bytes_of(self.given)

    def uses(self, first: int, codes: Sequence[int]) -> list[int]:
        """Return the bytes that are there while each op of a reversal runs, beside the segment's input."""
        uses = []
        live = self.written(*self.op(codes[-1]))
        for number, mode in map(self.op, reversed(codes)):
            op, written = self.graph.ops[number], self.written(number, mode)
            there = (live | {*op.reads} | written) - {self.inputs[first]}
            uses.append(self.bytes_of(there) + op.all_modes[mode].workspace)
            live = (live - {*op.writes}) | {*op.reads}
        return uses[::-1]

    def rest(self) -> list[int]:
        """Return by stage the ns of it and those behind it, each op once; 0 behind the last one."""
        stages = self.found.stages
        both = [f + b for f, b in zip(stages.forward, stages.backward, strict=True)]
        return [sum(both[i:]) for i in range(len(both) + 1)]

    def reversals(self, first: int, last: int, limit: int) -> Iterator[tuple[int, ...]]:
        """Yield the codes of the best schedules of a segment that take less time, the slowest first."""
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


def pofo(chain: OpChain, slots: int) -> list[Segment] | None:
    """Return the segments of the best plan that the program finds in time; None if it finds none.

    Short segments come first: what they find shortens the search among longer ones.

    Parameters
    ----------
    slots
        That memory is counted in.
    """
    time, segments = NEVER, None
    with suppress(BuildTimeout):
        for longest in (1, 4, 16, max(17, len(chain.inputs))):
            found = _program(chain, slots, longest, time)
            time, segments = found or (time, segments)
    return segments


def _program(chain: OpChain, slots: int, longest: int, limit: int) -> tuple[int, list[Segment]] | None:
    """Return the least time below a limit and its segments, of so many stages at most; None without any."""
    count = len(chain.inputs)
    unit = max(1, -(-chain.memory // slots))
    reached: dict[Key, list[tuple[Integers, Integers, Segment]]] = {}
    start = Segment(first=0, last=-1, away=False, taped=False, saves=False, ops=())
    reached[0, False] = [(np.zeros((4, 1), np.int64), np.zeros(1, np.int64), start)]
    stages: dict[Key, _States] = {}
    rest = chain.rest()
    best: tuple[Key, int, tuple[int, ...]] | None = None  # stage, state, codes
    for key in ((i, taped) for i in range(count) for taped in (False, True)):
        states = _undominated(reached.pop(key, []), unit, chain.tick)
        stages[key] = states
        if not states.numbers.size:
            continue
        i = key[0]
        most = limit - int(states.numbers[3].min()) if i + longest >= count else 0
        for ops in chain.reversals(i, count - 1, most):
            total = states.numbers[3] + _at_the_turn(chain, key, ops, states.numbers)[0]
            state = int(np.argmin(total))
            if total[state] < limit:
                limit, best = int(total[state]), (key, state, ops)
        for segment, numbers in _onwards(
            chain, key, min(i + longest, count - 1), states.numbers, limit, rest
        ):
            j = segment.last + 1
            kept = np.flatnonzero(numbers[3] + rest[j] < limit)
            reached.setdefault((j, segment.saves), []).append((numbers[:, kept], kept, segment))
    if best is None:
        return None
    key, state, ops = best
    last = Segment(first=key[0], last=count - 1, away=False, taped=key[1], saves=False, ops=ops)
    segments = [last]
    while key[0]:
        segment = stages[key].segment[state]
        segments.append(segment)
        key, state = (segment.first, segment.taped), int(stages[key].parent[state])
    return limit, segments[::-1]


def _undominated(candidates: list[tuple[Integers, Integers, Segment]], unit: int, tick: Tick) -> _States:
    """Return the states of a stage, rounded, without those that are dominated, the fastest first."""
    if not candidates:
        return _States(numbers=np.zeros((4, 0), np.int64), parent=np.zeros(0, np.int64), segment=[])
    exact = np.concatenate([numbers for numbers, *_ in candidates], axis=1)
    parent = np.concatenate([kept for _, kept, _ in candidates])
    which = np.repeat(np.arange(len(candidates)), [numbers.shape[1] for numbers, *_ in candidates])
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
        numbers=rounded[:, kept], parent=parent[kept], segment=[candidates[int(which[k])][2] for k in kept]
    )


def _onwards(
    chain: OpChain, key: Key, end: int, states: Integers, limit: int, rest: Sequence[int]
) -> Iterator[tuple[Segment, Integers]]:
    """Yield segments i .. j - 1 for j up to `end`, and the states behind them (1 to 3)."""
    i, taped = key
    kept, pending, due, spent = states
    x, out = chain.size(i, taped), chain.goes_out(i, taped)
    for saves in (False, True)[: 1 + (bool(chain.tapes) and i < end)]:
        ways = {False: (pending, spent)}
        if x:
            ways[True] = (pending + out, spent)
        for j in range(i + 1, (i + 1 if saves else end) + 1):
            k = j - 1
            code = chain.forward(k, saves)
            room = chain.memory - chain.need(i, k, saves) - kept
            for away, (left, time) in ways.items():
                here = room if away and k > i else room - x
                if away and k == i:  # what is left of x is there in any case
                    here = np.where(here < 0, here, here + out)
                waits, left = waited(chain.out, left, here, chain.ns(code))
                ways[away] = left, np.minimum(time + waits + chain.ns(code), NEVER)
            most = limit - min(int(time.min()) for _, time in ways.values()) - rest[j]
            for ops in [(chain.backward(i),)] if saves else chain.reversals(i, k, most):
                waits, before = returned(chain, kept + x, i, ops, due)
                for away, (left, time) in ways.items():
                    total = np.minimum(time + waits + sum(map(chain.ns, ops)), NEVER)
                    more = [kept, left, before + x] if away else [kept + x, left, before]
                    segment = Segment(first=i, last=k, away=away, taped=taped, saves=saves, ops=ops)
                    yield segment, np.stack([*more, total])


def waited(rate: Rate, left: Integers, room: Integers, duration: int) -> tuple[Integers, Integers]:
    """Return the ns to wait until at most `room` bytes are left, and what is left behind an op (1).

    Where room is below 0, which nothing cures, `NEVER` and more.
    """
    waits = rate.waits(positive(left - room))
    left = positive(left - rate.all_moved(waits))
    return np.where(room < 0, NEVER, waits), positive(left - rate.moved(duration))


def returned(
    chain: OpChain,
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


def _at_the_turn(chain: OpChain, key: Key, ops: Sequence[int], states: Integers) -> tuple[Integers, Integers]:
    """Return the ns that the last segment takes, and by state before which of its ops copies turn round."""
    kept, pending, due, _ = states
    base = kept + chain.size(*key)
    rooms = [chain.memory - base - used for used in chain.uses(key[0], ops)]
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


def turn_of(chain: OpChain, segment: Segment, kept: int, pending: int, due: int) -> int:
    """Return before which op of the last segment copies turn round."""
    state = np.array([[kept], [pending], [due], [0]], np.int64)
    return int(_at_the_turn(chain, (segment.first, segment.taped), segment.ops, state)[1][0])
