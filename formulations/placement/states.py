r"""What the models of whole tensors share: lives of tensor versions on any tiers, single runs and periods.

Ops :math:`k = 0..n-1` run one after another, each for :math:`d_k` ns on the one processor, which uses tier 0;
while k runs, :math:`W_k` bytes there hold its workspace and what it accesses or, under ``replace``, what it
writes: then what it reads must be there when it starts, and may go at that moment, before what it writes has
its room. In a *period* op k runs again one iteration later, as op n + k. A *life* is one version of a tensor
whose content somebody still needs: born at the end of the op that writes it or at time 0, until the start of
its last access, or the end of the iteration if it is kept. An op that reads and writes a tensor accesses the
old version last and bears the new one, in the same bytes. A tensor that is initial and final outlives the
iterations of a period: its last version lives on into the next iteration, and if no op writes it, its life is
a *ring*, without beginning or end. Versions that nobody reads live during their writer only.

Any channels join the tiers, with joint caps over any of them, and any tier may have a capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from ...models.graph import Accounting
from ...models.problems.placement import Placement
from .weightless import ways


@dataclass(frozen=True, kw_only=True)
class TierChannel:
    """A channel: numbers of its tiers, bytes per second, latency in ns."""

    src: int
    dst: int
    rate: int
    latency: int


@dataclass(frozen=True, kw_only=True)
class Life:
    """One version of a tensor.

    Attributes
    ----------
    tensor, nbytes
        Which one, and its size.
    born
        The op that writes it; -1: it is there at time 0.
    accesses
        Ops that need it in tier 0, ascending, from n on in the next iteration; `born` is none of them.
    kept
        Whether it must be somewhere at the end of the iteration.
    lasting, ring
        Whether it goes on in the next iteration, and whether it has neither beginning nor end.
    starts
        By tier, whether the tensor may be there at time 0.
    """

    tensor: int
    nbytes: int
    born: int
    accesses: tuple[int, ...]
    kept: bool
    lasting: bool
    ring: bool
    starts: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class Extra:
    """A mode of an op: its number, and the ns and bytes of workspace beyond the least of all its modes."""

    number: int
    ns: int
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class StateData:
    """What is placed.

    Attributes
    ----------
    duration, need
        Per op: ns, and bytes in tier 0 while it runs (:math:`W_k`); of several modes, the least.
    keeps
        Per op, the tensors that are in tier 0 to its end: what it writes and, under ``coexist``, reads.
    replace
        Whether the bytes count by ``replace``.
    capacity
        Per tier, bytes; None: no limit that counts.
    lives
        By tensor, then by birth; those of zero bytes left out.
    ways, caps
        The channels, and joint caps: numbers of channels, and bytes per second.
    periodic
        Whether the ops repeat.
    modes
        Per op with several modes, each with what it takes more than the least.
    """

    duration: tuple[int, ...]
    need: tuple[int, ...]
    keeps: tuple[frozenset[int], ...]
    replace: bool
    capacity: tuple[int | None, ...]
    lives: tuple[Life, ...]
    ways: tuple[TierChannel, ...]
    caps: tuple[tuple[tuple[int, ...], int], ...]
    periodic: bool
    modes: Mapping[int, tuple[Extra, ...]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of ops."""
        return len(self.duration)

    @property
    def end(self) -> int:
        """Position of the end of the iteration, behind all ops that may access a life."""
        return 2 * self.n if self.periodic else self.n

    @property
    def linked(self) -> bool:
        """Whether a channel joins outer tiers."""
        return any(way.src and way.dst for way in self.ways)

    @property
    def ideal(self) -> int:
        """Sum of the (least) durations, in ns: no plan takes less."""
        return sum(self.duration)

    @property
    def slowest(self) -> int:
        """Sum of the longest durations, in ns."""
        return self.ideal + sum(max(mode.ns for mode in modes) for modes in self.modes.values())

    def chosen(self, mode: Sequence[int]) -> StateData:
        """Return the data of ops in modes, by their places in `modes`."""
        if not self.modes:
            return self
        duration, need = [*self.duration], [*self.need]
        for k, modes in self.modes.items():
            duration[k] += modes[mode[k]].ns
            need[k] += modes[mode[k]].nbytes
        return replace(self, duration=tuple(duration), need=tuple(need), modes={})

    @cached_property
    def unread(self) -> tuple[int, ...]:
        """Numbers of the lives that go on in the next iteration, where nobody accesses them."""
        return tuple(
            number
            for number, life in enumerate(self.lives)
            if life.lasting and not life.ring and life.accesses[-1:] < (self.n,)
        )


def state_data(problem: Placement, *, modes: bool = False) -> StateData:
    """Return the data of a problem.

    Parameters
    ----------
    problem
        What is asked.
    modes
        Whether ops may have several modes, of which those count that the processor runs.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&machine=a100-40g-pcie3&periodic=1")
    >>> data = state_data(problem)
    >>> len(data.capacity), [(way.src, way.dst) for way in data.ways]
    (3, [(0, 1), (1, 0), (0, 2), (2, 0)])
    """
    graph, machine = problem.graph, problem.machine
    (processor,) = machine.processors
    device = machine.tiers[0].name
    assert [(a.tier, a.bytes_per_s) for a in processor.tiers] == [(device, None)]
    assert modes or all(len(op.all_modes) < 2 for op in graph.ops)
    assert {tier for op in graph.ops for m in op.all_modes for _, tier in m.operands} <= {device}
    sizes = [t.nbytes for t in graph.tensors]
    free = graph.accounting is Accounting.REPLACE
    keeps = tuple(frozenset(op.writes if free else (*op.reads, *op.writes)) for op in graph.ops)
    kind = machine.processors[0].kind
    modes_of_ops = [
        [(m, x) for m, x in enumerate(op.all_modes) if not x.processors or kind in x.processors]
        or [*enumerate(op.all_modes)]
        for op in graph.ops
    ]
    least = [
        (min(x.duration_ns for _, x in ways), min(x.workspace for _, x in ways)) for ways in modes_of_ops
    ]
    total = sum(sizes) + max((mode.workspace for op in graph.ops for mode in op.all_modes), default=0)
    number = {tier.name: x for x, tier in enumerate(machine.tiers)}
    pairs = {(c.src, c.dst): w for w, c in enumerate(machine.channels)}
    return StateData(
        duration=tuple(ns for ns, _ in least),
        need=tuple(
            space + sum(sizes[t] for t in held) for (_, space), held in zip(least, keeps, strict=True)
        ),
        keeps=keeps,
        replace=free,
        capacity=tuple(None if (c := t.capacity) is None or c >= total else c for t in machine.tiers),
        lives=_lives(problem),
        ways=tuple(
            TierChannel(src=number[c.src], dst=number[c.dst], rate=c.bytes_per_s, latency=c.latency_ns)
            for c in machine.channels
        ),
        caps=tuple((tuple(pairs[pair] for pair in g.channels), g.bytes_per_s) for g in machine.groups),
        periodic=problem.periodic,
        modes={
            k: tuple(
                Extra(number=m, ns=x.duration_ns - least[k][0], nbytes=x.workspace - least[k][1])
                for m, x in ways
            )
            for k, ways in enumerate(modes_of_ops)
            if len(graph.ops[k].all_modes) > 1
        },
    )


def empty_and_far(problem: Placement) -> str:
    """Return why these data cannot state a problem."""
    near = ways(problem, inward=True).keys()
    far = any(
        t.initial and not t.nbytes and not near & {*problem.may_start(t.kind)} for t in problem.graph.tensors
    )
    device = problem.machine.tiers[0].name
    words = f"found an initial tensor of no bytes that starts where no way leads to {device!r}, expected one"
    return words if far else ""


def _lives(problem: Placement) -> tuple[Life, ...]:
    graph, n = problem.graph, len(problem.graph.ops)
    reads: list[list[int]] = [[] for _ in graph.tensors]
    writes: list[list[int]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in op.reads:
            reads[t].append(k)
        for t in op.writes:
            writes[t].append(k)
    lives = []
    for t, tensor in enumerate(graph.tensors):
        lasting = problem.periodic and tensor.initial and tensor.final
        starts = tuple(tier.name in problem.may_start(tensor.kind) for tier in problem.machine.tiers)
        read, births = reads[t], ([-1] if tensor.initial else []) + writes[t]
        if lasting and writes[t]:
            read, births = [*read, *(n + k for k in read)], [*writes[t], n + writes[t][0]]
        elif not lasting:
            births = [*births, 2 * n]
        else:
            births = [-1, 2 * n]
        for born, following in pairwise(births):
            last = following == births[-1]
            accesses = tuple(k for k in read if born < k <= following)
            kept = tensor.final and last
            if tensor.nbytes and (accesses or kept):
                lives.append(
                    Life(
                        tensor=t,
                        nbytes=tensor.nbytes,
                        born=born,
                        accesses=accesses,
                        kept=kept,
                        lasting=lasting and last,
                        ring=lasting and not writes[t],
                        starts=starts,
                    )
                )
    return tuple(lives)
