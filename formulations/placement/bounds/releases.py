r"""Release times: no op starts before the inputs that it reads can have come from where they must start.

Sets and data. Op k, in the reference order, lasts at least :math:`d_k`. The *late* tensors are those whose
content is there at time 0 in tiers only that no processor uses: initial, read by the first op that accesses
them, and (if the problem is periodic) not final; :math:`S_t` are the tiers where t may start. For a set U of
tiers that no processor uses, let :math:`E_U` be the channels that lead out of U, :math:`R_U` what they carry
together (bytes/s, at most the joint caps). Let :math:`B_{Uk}` be the bytes of the late tensors with
:math:`S_t \subseteq U` that must be there when op k starts: with one processor, what ops up to k read, for
they run in this order; else what k reads of what no op before it writes. :math:`\lambda_{Uk}` are the least
latencies that one of these bytes meets: the least, over the channels of :math:`E_U`, on a way from
:math:`S_t` to the channel and over it, and the least on a way from its other end to a tier that some
processor uses.

**Bound.** Op k starts at :math:`r_k` or later, in every plan,

.. math:: r_k = \max_{U:\,B_{Uk} > 0} \lambda_{Uk} + \lceil B_{Uk} / R_U \rceil ,

and no plan is faster than :math:`\max_k (r_k + q_k)`, where :math:`q_k = \sum_{j \ge k} d_j` with one
processor, else :math:`q_k = d_k`.

*Proof.* At time 0 all content of these tensors is in U: elsewhere nothing is valid, and nobody has written
them. (In a periodic plan they reappear so at time 0, and no copy of theirs crosses the period's end.) When k
starts, every byte of :math:`B_{Uk}` is valid in a tier that a processor uses, so it passed a channel of
:math:`E_U`. It did so while the copy was in progress, behind the latencies of the copies that brought it
there and of this one, and before those that took it on: within an interval of length
:math:`s_k - \lambda_{Uk}`, the same for all bytes, if :math:`s_k` is the start of k. The channels of
:math:`E_U` carry at most :math:`R_U` times its length. With one processor, the ops from k on run one after
another from :math:`s_k` to the end. Times are integers. QED. The accounting plays no part: under ``replace``
too, what k reads is valid when it starts.

:math:`R_U` counts joint caps that do not overlap, those that save most first: any such choice is an upper
bound on what the channels carry. If :math:`E_U` is empty, there is no plan at all; that is left to others.

Stalls of windows (`windows`) between the start of k and the end of the last op come on top: the
bound counts no stall behind the start of k. (A window that goes on into the next iteration would count the
stall before its first op, which may be the wait for its inputs.)

Source: this project's; release times and tails are textbook bounds of one-machine scheduling (Carlier 1982).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, combinations

from ....models.derived.precedence import precedence
from ....models.machine import Machine
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .windows import Window

Needed = tuple[int, int, set[str]]
"""An op, the late bytes that must be there when it starts, and the tiers where they may start."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """What proves the bound `time`, in ns: op k, the tiers U, and the joint caps that are counted."""

    time: int
    op: int
    tiers: tuple[str, ...]
    groups: tuple[str, ...]


def ideal_time(problem: Placement) -> int:
    """Return the most ns that any processor is busy at least; of one processor, the sum of the durations.

    Proof. Each op runs in one of its modes, on a processor that may run it. A processor runs one op at a
    time, in a period as well, and no run crosses its end. So nothing is shorter than the shortest modes
    together of the ops that only one processor may run.
    """
    processors = problem.machine.processors
    busy = dict.fromkeys(range(len(processors)), 0)
    for op in problem.graph.ops:
        able = [
            (p, mode.duration_ns)
            for p, processor in enumerate(processors)
            for mode in op.all_modes
            if not mode.processors or processor.kind in mode.processors
        ]
        if len({p for p, _ in able}) == 1:
            busy[able[0][0]] += min(ns for _, ns in able)
    return max(busy.values())


def release_bound(problem: Placement, windows: Sequence[Window] = ()) -> int:
    """Return the bound in ns; 0 if nothing must come from afar.

    Parameters
    ----------
    problem
        On any machine.
    windows
        Windows of the problem, which has one processor then.

    Examples
    --------
    >>> import lowtide as lt
    >>> x = lt.Tensor(name="x", nbytes=12 * 10**9, kind="input", initial=True)
    >>> graph = lt.Graph(name="read", tensors=(x,), ops=(lt.Op(name="a", reads=(0,)),))
    >>> machine = lt.load_machine("v100-16g-pcie3")
    >>> release_bound(lt.Placement(graph, machine))  # 12 GB at 12 GB/s, then the op
    1000000001
    """
    best = best_release(problem, windows)
    return 0 if best is None else best.time


def best_release(problem: Placement, windows: Sequence[Window] = ()) -> Release | None:
    """Return what proves the bound, None if nothing must come from afar; parameters as of `release_bound`."""
    graph, starts_of = problem.graph, late_tensors(problem)
    one = len(problem.machine.processors) == 1
    tails = [min(mode.duration_ns for mode in op.all_modes) for op in graph.ops]
    if one:
        tails = list(accumulate(reversed(tails)))[::-1]
        tails = [tail + stall for tail, stall in zip(tails, _stalls_behind(windows, len(tails)), strict=True)]

    def needed(inside: Set[int]) -> Iterator[Needed]:
        left, nbytes, starts = {*inside}, 0, set[str]()
        for k, op in enumerate(graph.ops):
            if fresh := {*op.reads} & left:
                if not one:
                    nbytes, starts = 0, set()
                nbytes += sum(graph.tensors[t].nbytes for t in fresh)
                starts.update(*(starts_of[t] for t in fresh))
                yield k, nbytes, starts
            left -= {*op.reads, *op.writes} if one else {*op.writes}  # written: another version is read

    return _best(problem, starts_of, needed, tails)


def best_release_of_orders(problem: Placement) -> Release | None:
    """Return what proves the best bound where one processor may run the ops in any order; None: nothing does.

    Of op k, B are the late bytes whose initial content k or its ancestors read, and the tail are k and its
    descendants, all by the precedence: they come before the start of k, and behind it, in every order.
    """
    if len(problem.machine.processors) > 1:
        return best_release(problem)
    graph, starts_of, edges = problem.graph, late_tensors(problem), precedence(problem.graph)
    durations = [min(mode.duration_ns for mode in op.all_modes) for op in graph.ops]
    old, read = {*starts_of}, list[set[int]]()  # tensors that nobody has written yet
    for k, op in enumerate(graph.ops):
        read.append((old & {*op.reads}).union(*(read[j] for j in edges.predecessors[k])))
        old -= {*op.writes}
    tails = [
        durations[k] + sum(durations[j] for j in range(k + 1, len(durations)) if behind >> j & 1)
        for k, behind in enumerate(edges.descendants)
    ]

    def needed(inside: Set[int]) -> Iterator[Needed]:
        for k, some in enumerate(read):
            here = some & inside
            yield k, sum(graph.tensors[t].nbytes for t in here), set().union(*(starts_of[t] for t in here))

    return _best(problem, starts_of, needed, tails)


def _best(
    problem: Placement,
    starts_of: Mapping[int, set[str]],
    needed: Callable[[Set[int]], Iterable[Needed]],
    tails: Sequence[int],
) -> Release | None:
    """Return what proves the best bound, None if nothing must come from afar.

    Parameters
    ----------
    problem, starts_of
        On any machine; its late tensors.
    needed
        From those of them that start within a cut to ops and what must be there when they start.
    tails
        By op, the least ns from its start to the end.
    """
    machine = problem.machine
    best: Release | None = None
    for cut in cuts(machine) if starts_of else ():
        carried, groups = rate_out_of(machine, cut)
        inside = {t for t, starts in starts_of.items() if starts <= cut}
        for k, nbytes, starts in needed(inside) if carried else ():
            if nbytes:
                time = least_latency(machine, cut, starts) - (-nbytes * SECOND // carried) + tails[k]
                if best is None or time > best.time:
                    best = Release(time=time, op=k, tiers=tuple(sorted(cut)), groups=groups)
    return best


def late_tensors(problem: Placement) -> dict[int, set[str]]:
    """Return the late tensors with the tiers where they may start."""
    graph = problem.graph
    near = _used(problem.machine)
    first: dict[int, bool] = {}
    for op in graph.ops:
        for t in {*op.reads, *op.writes}:
            first.setdefault(t, t in op.reads)
    starts_of = {}
    for t, tensor in enumerate(graph.tensors):
        starts = set(problem.may_start(tensor.kind))
        there = tensor.initial and not (problem.periodic and tensor.final)
        if there and first.get(t, False) and starts.isdisjoint(near):
            starts_of[t] = starts
    return starts_of


def _used(machine: Machine) -> set[str]:
    return {access.tier for processor in machine.processors for access in processor.tiers}


def cuts(machine: Machine) -> list[set[str]]:
    """Return the sets of tiers that no processor uses."""
    far = [tier.name for tier in machine.tiers if tier.name not in _used(machine)]
    return [set(some) for many in range(1, len(far) + 1) for some in combinations(far, many)]


def rate_out_of(machine: Machine, cut: set[str]) -> tuple[int, tuple[str, ...]]:
    """Return bytes per second that the channels out of some tiers carry together, and groups that count."""
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels if c.src in cut and c.dst not in cut}
    total = sum(rates.values())
    savings = []
    for group in machine.groups:
        pairs = set(group.channels) & set(rates)
        savings.append((sum(rates[pair] for pair in pairs) - group.bytes_per_s, group.name, pairs))
    counted: set[tuple[str, str]] = set()
    names = []
    for saved, name, pairs in sorted(savings, key=lambda item: (-item[0], item[1])):
        if saved > 0 and counted.isdisjoint(pairs):
            total -= saved
            counted |= pairs
            names.append(name)
    return total, tuple(names)


def least_latency(machine: Machine, cut: set[str], starts: set[str]) -> int:
    """Return the least latencies in ns before a byte leaves the cut, and behind that."""
    before = _distances({(c.src, c.dst): c.latency_ns for c in machine.channels}, starts)
    behind = _distances({(c.dst, c.src): c.latency_ns for c in machine.channels}, _used(machine))
    leaving = [c for c in machine.channels if c.src in cut and c.dst not in cut]
    ways_in = [before[c.src] + c.latency_ns for c in leaving if c.src in before]
    ways_on = [behind[c.dst] for c in leaving if c.dst in behind]
    return min(ways_in, default=0) + min(ways_on, default=0)


def _distances(lengths: dict[tuple[str, str], int], sources: set[str]) -> dict[str, int]:
    """Return the length of a shortest way from some tiers to each that can be reached."""
    distance = dict.fromkeys(sources, 0)
    for _ in range(len(lengths)):
        for (a, b), length in lengths.items():
            if a in distance and distance[a] + length < distance.get(b, distance[a] + length + 1):
                distance[b] = distance[a] + length
    return distance


def _stalls_behind(found: Sequence[Window], n: int) -> list[int]:
    """Return for each op the most stall of windows that do not overlap, from its start to the last end."""
    inside = sorted((w for w in found if w.stall > 0 and w.low >= 0 and w.high < 2 * n), key=lambda w: -w.low)
    best = [0] * (2 * n)  # by instant, of the windows from there on
    at = 0
    for instant in range(2 * n - 2, -1, -1):
        best[instant] = best[instant + 1]
        while at < len(inside) and inside[at].low == instant:
            best[instant] = max(best[instant], inside[at].stall + best[inside[at].high])
            at += 1
    return [best[2 * k] for k in range(n)]
