r"""What the formulations and bounds of makespan under a memory bound share: data in small integers.

Ops :math:`i \in I`; kinds :math:`k \in K` of processors, :math:`p_k` of each, p together; alternatives
:math:`a \in R_i` of an op: on kind :math:`k_a`, of duration :math:`d_{ia}` and workspace :math:`w_{ia}`;
the least of them are :math:`d_i` and :math:`w_i`. Times are in ticks of ``tick`` ns, the greatest common
divisor of all durations. Lifetimes and precedence as in `lowtide.formulations.peak.data`, bytes in
multiples of ``unit``, the greatest common divisor of its own and of all workspaces. M is the capacity in
units, rounded down; what is live throughout (``base``) is part of it.

Ticks lose nothing: some fastest schedule starts every op at time 0 or at the end of another one
(`shift` below), hence at multiples of the tick. Nor do units: all that can be live together is a multiple of
``unit``.

*Shift.* Let every op keep its alternative. Take a fastest schedule whose starts have the least sum, and an
instant s > 0 at which ops start and none ends. What precedes these ops has ended before s; no processor
becomes idle at s; memory is released at s only by these starts themselves. So all of them could start a
little earlier: a contradiction.

So some fastest schedule is never idle either, and takes no longer than all ops one after another, each in its
longest alternative: ``horizon``.

``head`` and ``tail``: the longest chains of durations :math:`d_i` that end where op i starts, and that begin
where it ends.

Lifetime l begins at time 0 if it is initial, else with the start of its first writer. It ends with the last
end among :math:`A_l` if it is ``held``, else with the last start (accounting ``replace``); if it is final,
with the makespan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...models.derived.precedence import precedence
from ...models.problems.makespan import Makespan
from ...models.problems.peak import Peak
from ...models.problems.processors import Alternative
from ..peak.data import PeakData, peak_data

MASKED = 20_000
"""Ops up to which sets of ops are made: they take n^2 / 4 bytes."""


@dataclass(frozen=True, kw_only=True)
class MakespanData:
    """The data of the page of mathematics; times in multiples of `tick`, bytes in those of `bytes.unit`.

    Attributes
    ----------
    bytes
        Lifetimes, least workspaces, precedence.
    processors
        How many in all.
    counts
        How many of each kind.
    alternatives
        By op.
    memory
        M; of unlimited memory, all bytes at once.
    tick
        Nanoseconds.
    duration, head, tail
        By op; of several alternatives, the least duration.
    """

    bytes: PeakData
    processors: int
    counts: tuple[int, ...]
    alternatives: tuple[tuple[Alternative, ...], ...]
    memory: int
    tick: int
    duration: tuple[int, ...]
    head: tuple[int, ...]
    tail: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of ops."""
        return self.bytes.n

    @property
    def horizon(self) -> int:
        """Ticks that some fastest schedule does not exceed."""
        return sum(max(a.duration for a in some) for some in self.alternatives)


def model_name(data: MakespanData) -> str:
    """Return the name that models carry into exported files; it says what their objective counts."""
    return f"makespan_in_ticks_of_{data.tick}_ns"


def in_ticks(data: MakespanData, answer: Sequence[int]) -> list[int]:
    """Return an answer to the problem with its starts in ticks."""
    return [*(s // data.tick for s in answer[: data.n]), *answer[data.n :]]


def makespan_data(problem: Makespan) -> MakespanData:
    """Return the data of a problem.

    Raises
    ------
    UsageError
        If the sizes are too large for exact reasoning in a solver.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.makespan.data import makespan_data
    >>> ops = (lt.Op(name="a", duration_ns=6), lt.Op(name="b", duration_ns=4, after=(0,)))
    >>> data = makespan_data(lt.Makespan(lt.Graph(name="two", tensors=(), ops=ops), processors=2))
    >>> data.tick, data.head, data.tail
    (2, (0, 3), (2, 0))
    """
    size = peak_data(Peak(problem.relaxed), masks=len(problem.graph.ops) <= MASKED)
    every = [a for some in problem.alternatives for a in some]
    tick = math.gcd(*(a.duration for a in every))
    size = _in_units(size, math.gcd(size.unit, *(a.workspace for a in every)))
    alternatives = problem.alternatives
    if (tick, size.unit) != (1, 1):
        alternatives = tuple(
            tuple([Alternative(a.mode, a.kind, a.duration // tick, a.workspace // size.unit) for a in some])
            for some in alternatives
        )
    duration = tuple(d // tick for d in problem.durations)
    order = precedence(problem.graph)
    head, tail = [0] * size.n, [0] * size.n
    for i, before in enumerate(order.predecessors):
        head[i] = max((head[j] + duration[j] for j in before), default=0)
    for i in range(size.n - 1, -1, -1):
        tail[i] = max((tail[j] + duration[j] for j in order.successors[i]), default=0)
    total = size.base + sum(x.nbytes for x in size.lifetimes)
    total += sum(max(a.workspace for a in some) for some in alternatives)
    return MakespanData(
        bytes=size,
        processors=problem.count,
        counts=tuple(count for _, count in problem.kinds),
        alternatives=alternatives,
        memory=total if problem.memory is None else min(total, problem.memory // size.unit),
        tick=tick,
        duration=duration,
        head=tuple(head),
        tail=tuple(tail),
    )


def _in_units(size: PeakData, unit: int) -> PeakData:
    """Return the same data in multiples of a divisor of its unit."""
    factor = size.unit // unit
    if factor == 1:
        return size
    return replace(
        size,
        unit=unit,
        base=size.base * factor,
        lifetimes=tuple(replace(x, nbytes=x.nbytes * factor) for x in size.lifetimes),
        workspace=tuple(w * factor for w in size.workspace),
    )
