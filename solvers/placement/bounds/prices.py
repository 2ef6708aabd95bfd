"""Lower bounds on the time of a placement, from windows in closed form and from prices (`lp-bound`).

1. The best windows that do not overlap (`formulations.placement.bounds.windows`): seconds at most, often
   all that there is to gain.
2. Linear programs whose samples are the ends of good windows, in rounds with more of them, and a few coarse
   ones, the op of most live bytes in each of some equal spans of time (`samples_lp`). Small instances
   are sampled at every instant. What an interior point method finds are prices; their bound is computed in
   integers (`prices`).

Under ``replace`` op k counts as two ops of `sample_data`: 2 k reads, in no time, and 2 k + 1 writes, for
:math:`d_k` ns with the workspace. *Proof* that every plan yields the states of `sample_data`: take for the
instants of op 2 k the bytes just before what is released and allocated at the start of k. They are at most M
and the capacities, as allocated before, and what k reads is valid on the device, for its reads count before
these releases. Take for the first instant of 2 k + 1 the bytes just behind: what k writes is allocated and
nowhere else valid, and so it is until the end of k, with the workspace; of what k only reads nothing is asked
any more. What a byte passes, and how long channels have between two instants, is as before. There is no stall
between the two ops, but the bound may count as if there could be. QED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ....formulations.placement.bounds.prices import MemoryPrices, price_bound, window_prices
from ....formulations.placement.bounds.releases import ideal_time, release_bound
from ....formulations.placement.bounds.samples import Outer, SampleData
from ....formulations.placement.bounds.samples_lp import build, sampled_prices
from ....formulations.placement.bounds.windows import Window, disjoint, windows
from ....models.graph import Accounting, Graph
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...parts import described
from ..reductions.outer_tiers import merged, near_as_one, too_fast
from ..traits import FREEDOMS, SAMPLED, traits

SMALLEST = 2**20
"""Tensors below it, and below a 40,000th of the memory, count only where they are accessed."""
SMALL = 350
"""Instants up to which an iteration is sampled at every one."""
ROUNDS = ((20, 20, 6), (4, 40, 6), (2, 80, 6), (1, 160, 20))
"""By round: least distance of the windows of one form in instants, how many there are, coarse samples."""
NEAR = 0.03
"""Of the sum of durations: windows whose stall is so much below the best one are left out."""


LARGE = 2000
"""Above so many ops the windows look at the clock, and few come first."""

SPARSE = 15
"""One in so many ops has windows then; odd, for two instants of an op under ``replace``."""

WINDOWS = "placement: windows"
"""Step of a context: all windows of its problem have been looked at."""


def raise_first_bounds(problem: Placement, context: Context) -> None:
    """Raise the bound to what takes no time to find, on any machine: durations, and release times."""
    context.raise_bound(ideal_time(problem), kind="sum of durations", averages=True)
    context.raise_bound(release_bound(problem), kind="release times", averages=True)


def raise_by_prices(
    problem: Placement, context: Context, rounds: Sequence[tuple[int, int, int]] = ROUNDS
) -> Outcome:
    """Compute bounds, from quick ones to slow ones, until one meets the incumbent."""
    for _ in price_steps(problem, context, rounds):
        pass
    return Outcome(reason="time" if context.expired and not context.closed else None)


def price_steps(
    problem: Placement, context: Context, rounds: Sequence[tuple[int, int, int]] = ROUNDS
) -> Iterator[str]:
    """Do the same step by step, and yield what each bound is by; no step depends on the time limit."""
    ideal = ideal_time(problem)
    if release_bound(problem) > ideal:
        context.progress("windows behind the releases")
        behind = release_bound(
            problem, _of_ops(problem, windows(sample_data(problem), late(problem, context)))
        )
        context.raise_bound(behind, kind="release times", averages=True)
    if (joined := near_as_one(problem)) is not None:
        data = sample_data(joined)
        context.progress("windows, near tiers as one")
        if chosen := disjoint(windows(data, late(problem, context)), data):
            stall = price_bound(data, window_prices(data, chosen))
            context.raise_bound(ideal + stall, kind="windows, near tiers as one", averages=True)
    for prices, kind, bound in price_rounds(problem, context, lambda: context.closed, rounds):
        context.raise_bound(ideal + bound, kind=kind, evidence=prices, averages=True)
        yield kind


def _of_ops(problem: Placement, chosen: Sequence[Window]) -> Sequence[Window]:
    """Return windows between instants of the ops themselves, of which ``replace`` makes two."""
    if problem.graph.accounting is Accounting.COEXIST:
        return chosen

    def instant(c: int) -> int:
        return c // 4 * 2 + (c % 4 == 3)

    return [replace(w, low=instant(w.low), high=instant(w.high), instant=instant(w.instant)) for w in chosen]


def late(problem: Placement, context: Context) -> Callable[[], bool]:
    """Return what says that the time for windows is up; those of small graphs take none."""
    large = len(problem.graph.ops) > LARGE
    return lambda: context.expired and large  # a part is paused where it looks at the clock


def price_rounds(
    problem: Placement,
    context: Context,
    closed: Callable[[], bool],
    rounds: Sequence[tuple[int, int, int]] = ROUNDS,
) -> Iterator[tuple[MemoryPrices | tuple[Window, ...], str, int]]:
    """Yield prices, what made them, and their bound on the stall in ns, until closed or out of time.

    Where windows prove more one by one, each rounded up to whole ns, they are yielded themselves.
    """
    from ...engines.highs_lp import dual_values

    data = sample_data(problem)
    done: list[int] = []
    for every in (SPARSE, 1) if len(problem.graph.ops) > LARGE else (1,):
        context.progress("windows")
        candidates = windows(data, late(problem, context), every=every)
        if every == 1:
            context.known.done.add(WINDOWS)
        chosen = disjoint(candidates, data)
        if chosen:
            prices = window_prices(data, chosen)
            bound, whole = price_bound(data, prices), sum(w.stall for w in chosen)
            yield prices, "windows", bound
            if whole > bound:
                yield tuple(chosen), "windows in whole ns", whole
        for apart, most, bins in rounds:
            if closed() or context.expired:
                return
            samples = chosen_samples(data, candidates, chosen, apart, most, bins)
            if samples == done:
                break
            done = samples
            sampled = build(data, samples)
            context.progress(f"linear program: {len(samples)} samples, {len(sampled.program.low)} rows")
            values = dual_values(sampled.program, context, context.remaining())
            if values is None:
                break
            prices = sampled_prices(data, sampled, values)
            yield prices, "prices", price_bound(data, prices)


def unsampled(problem: Placement) -> str:
    """Return why these bounds do not serve a problem: an op might last longer than they think, or shorter."""
    if odd := traits(problem) & ~(SAMPLED | FREEDOMS):
        return f"found {described(odd)}, expected none"
    return too_fast(problem)


def sample_data(problem: Placement) -> SampleData:
    """Return what the bounds of a problem that they serve (`unsampled`) are computed from."""
    assert not unsampled(problem)
    graph, device = problem.graph, problem.machine.tiers[0]
    problem = merged(problem)
    machine = problem.machine
    names = [t.name for t in machine.tiers]
    lives = _lives(problem)
    least = least_bytes(problem)
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    outer = tuple(
        Outer(
            out_rate=rates.get((device.name, t.name), 0),
            in_rate=rates.get((t.name, device.name), 0),
            capacity=t.capacity,
        )
        for t in machine.tiers[1:]
    )
    joint: dict[str, int] = {}
    for side, pairs in (
        ("out", {(device.name, name) for name in names[1:]}),
        ("in", {(name, device.name) for name in names[1:]}),
    ):
        for group in machine.groups:  # a cap over more channels bounds these as well
            if {pair for pair in pairs if pair in rates} <= set(group.channels):
                joint[side] = min(joint.get(side, group.bytes_per_s), group.bytes_per_s)
    duration = [min(mode.duration_ns for mode in op.all_modes) for op in graph.ops]
    workspace = [op.least_workspace for op in graph.ops]
    total = sum(t.nbytes for t in graph.tensors) + max(m.workspace for op in graph.ops for m in op.all_modes)
    modes = [
        tuple((m.duration_ns - ns, m.workspace - nbytes) for m in op.all_modes)
        for op, ns, nbytes in zip(graph.ops, duration, workspace, strict=True)
    ]
    twice = graph.accounting is Accounting.REPLACE
    return SampleData(
        duration=tuple(x for ns in duration for x in [0] * twice + [ns]),
        workspace=tuple(x for nbytes in workspace for x in [0] * twice + [nbytes]),
        modes=tuple(x for some in modes for x in [((0, 0),)] * twice + [some]),
        size=tuple(life.nbytes for life in lives),
        accesses=tuple(life.accesses for life in lives),
        writes=tuple(life.writes for life in lives),
        cyclic=tuple(life.cyclic for life in lives),
        initial=tuple(life.initial for life in lives),
        final=tuple(life.final for life in lives),
        start=tuple(life.start for life in lives),
        everywhere=tuple(life.nbytes >= least and life.everywhere for life in lives),
        memory=total if device.capacity is None else device.capacity,
        outer=outer,
        joint_out=joint.get("out"),
        joint_in=joint.get("in"),
        periodic=problem.periodic,
    )


def least_bytes(problem: Placement) -> int:
    """Return the bytes below which tensors count only where ops access them."""
    capacity = problem.machine.tiers[0].capacity
    return SMALLEST if capacity is None else min(SMALLEST, capacity // 40_000)


@dataclass(frozen=True, kw_only=True)
class _ContentLifetime:
    """Content of a tensor from its first version to its last access; the fields are those of `SampleData`."""

    nbytes: int
    accesses: tuple[int, ...]
    writes: tuple[int, ...]
    cyclic: bool = False
    initial: bool = False
    final: bool = False
    start: tuple[int, ...] = ()
    everywhere: bool = True


def _accesses(graph: Graph) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Return by tensor the places of its accesses, of its writes, and of those that do not read it."""
    accesses: list[list[int]] = [[] for _ in graph.tensors]
    writes: list[list[int]] = [[] for _ in graph.tensors]
    fresh: list[list[int]] = [[] for _ in graph.tensors]
    twice = graph.accounting is Accounting.REPLACE
    for number, op in enumerate(graph.ops):
        k = 2 * number + 1 if twice else number
        for t in sorted({*op.reads, *op.writes}):
            accesses[t] += [k - 1] * (twice and t in op.reads) + [k] * (not twice or t in op.writes)
        for t in sorted(set(op.writes)):
            writes[t].append(k)
            if t not in op.reads:
                fresh[t].append(k)
    return accesses, writes, fresh


def _lives(problem: Placement) -> list[_ContentLifetime]:
    """Return the lives of all tensors that ops access.

    A write that does not read begins a new life: what was there before need not be anywhere between its last
    access and that write. Where lives would go on in the next iteration, the tensor counts where it is
    accessed, not elsewhere; so do inputs that reappear each period.
    """
    graph = problem.graph
    names = [t.name for t in problem.machine.tiers]
    count = len(graph.ops) * (1 + (graph.accounting is Accounting.REPLACE))
    accesses, writes, fresh = _accesses(graph)
    lives = []
    for t, tensor in enumerate(graph.tensors):
        if not accesses[t]:
            continue
        if problem.periodic and tensor.initial:
            whole = tensor.final and not fresh[t]
            lives.append(
                _ContentLifetime(
                    nbytes=tensor.nbytes,
                    accesses=tuple(accesses[t]),
                    writes=tuple(writes[t]),
                    cyclic=whole,
                    everywhere=whole,
                )
            )
            continue
        starts = [-1] * tensor.initial + fresh[t]
        for low, high in pairwise([*starts, count]):
            inside = tuple(k for k in accesses[t] if low <= k < high)
            last = high == count and tensor.final and not problem.periodic
            if not inside:
                continue
            tiers = problem.may_start(tensor.kind)
            lives.append(
                _ContentLifetime(
                    nbytes=tensor.nbytes,
                    accesses=inside,
                    writes=tuple(k for k in writes[t] if low <= k < high),
                    initial=low < 0,
                    final=last,
                    start=tuple(sorted(names.index(x) for x in tiers)) if low < 0 else (),
                )
            )
    return lives


def chosen_samples(
    data: SampleData, windows: Sequence[Window], chosen: Sequence[Window], apart: int, most: int, bins: int
) -> list[int]:
    """Return the ends of good windows, and coarse samples.

    Parameters
    ----------
    data
        What is sampled; small iterations at every instant.
    windows, chosen
        Windows, by falling stall, and those whose ends are wanted anyway.
    apart, most
        Least distance in instants of the windows of one form, and how many of each.
    bins
        Coarse samples.
    """
    n = len(data.duration)
    if 2 * n <= SMALL:
        return list(range(2 * n))
    picked = {2 * k for k in _coarse(data, bins)} | _ends(data, chosen)
    kept: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    least = windows[0].stall - NEAR * data.clock[-1] if windows else 0
    for w in windows:
        if w.stall < least:
            break
        some = kept.setdefault((w.tiers, w.outward), [])
        if len(some) < most and all(abs(w.instant - c) >= apart for c in some):
            some.append(w.instant)
            picked |= _ends(data, [w])
    return sorted(picked)


def _ends(data: SampleData, chosen: Sequence[Window]) -> set[int]:
    """Return the instants at the ends of windows, in the first iteration."""
    around = 2 * len(data.duration)
    return {end % around if data.periodic else end for w in chosen for end in (w.low, w.high)}


def _coarse(data: SampleData, bins: int) -> list[int]:
    """Return the op of most live bytes in each span of time."""
    n = len(data.duration)
    change = [0] * (n + 1)
    for t in data.counted:
        first, last = data.live(t)
        change[max(0, first) // 2] += data.size[t]
        change[last // 2 + 1] -= data.size[t]
    live = 0
    best: dict[int, tuple[int, int]] = {}
    for k in range(n):
        live += change[k]
        span = data.clock[k] * bins // data.clock[-1]
        best[span] = min(best.get(span, (0, n)), (-live - data.fixed[k], k))
    return [k for _, k in best.values()]
