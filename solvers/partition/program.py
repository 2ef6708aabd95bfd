"""The dynamic program over a family of ideals: its arrays, its run under the clock, and what it finds."""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING, Any

from ...formulations.partition.data import PartitionData, partition_data
from ...models.checks import LIMIT
from ...models.problems.partition import Partition
from ...models.split import HOST, Split
from ..context import Context

if TYPE_CHECKING:
    from .ideals_kernel import Items, StageDevices

Rows = tuple[list[int], list[int], list[int]]
"""Ideals by size: where the rows of each begin; by row a class that can be added, ascending, and the ideal
with it."""

LARGEST = 10**8
"""States and ideals at most: 16 bytes each."""

CUTS = "cuts of the reference order"
"""The step that finds them, of which one is enough."""

CHUNK, CELLS = 64, 10**8
"""Ideals between two looks at the clock, and with their states and larger ideals at most (one at least)."""


CUTS_PER_SECOND = 50_000_000
"""Pairs of a stage of the reference order and a state behind it."""


def refusal(problem: Partition, data: PartitionData) -> str:
    """Return why the program does not state a problem; empty if it does."""
    if problem.recompute == "choose":
        return "the program is for no choice of what runs again"
    if problem.objective == "latency":
        return "the program is for the largest load and the time of a batch"
    if problem.schedule == "1f1b" and problem.replicate > 1:
        return "the program counts the devices behind a stage, which with replicas are not the stages"
    if len(problem.graph.ops) >= LARGEST // states_of(problem):
        return "too many devices for the states of the program"
    work = sum(max(t or 0 for t in row) for row in data.times) * 2
    work += sum(v.time * (len(v.readers) + 1) for v in data.passed)
    nbytes = sum(v.nbytes for v in data.passed) + sum(data.sizes[t] for held in data.held for t in held)
    work += 4 * problem.replicate * nbytes * _exchange(problem)[0]
    most = max(work, _exchange(problem)[1]) * problem.replicate
    if max(most, nbytes * problem.micro, problem.memory or 0) >= LIMIT:
        return "its numbers add up to 2**62 and more, too many for the program"
    return ""


def counts_of(problem: Partition) -> list[int]:
    """Return by kind how many devices can be of use."""
    return [min(count, len(problem.graph.ops) * problem.replicate) for _, count in problem.kinds]


def states_of(problem: Partition) -> int:
    """Return how many states each ideal has: devices used of each kind."""
    return prod(count + 1 for count in counts_of(problem))


def seconds_of_cuts(problem: Partition) -> float:
    """Return the seconds of the program over cuts of the reference order, about."""
    n = partition_data(problem).n
    return n * n / 2 * min(states_of(problem), 10**9) / CUTS_PER_SECOND


def _exchange(problem: Partition) -> tuple[int, int]:
    """Return that so many ns pass for so many bytes when replicas exchange gradients."""
    if problem.sync is None or problem.replicate == 1:
        return 0, 1
    shared = gcd(10**9, problem.sync)
    return 10**9 // shared, problem.sync // shared


def chain_rows(data: PartitionData) -> Rows:
    """Return the ideals that are beginnings of the order in which the classes stand."""
    return [*range(data.n), data.n, data.n], [*range(data.n)], [*range(1, data.n + 1)]


def offer_cuts(problem: Partition, data: PartitionData, context: Context) -> None:
    """Offer the best cuts of the reference order, unless that has been done or the program does not serve."""
    if context.once(CUTS) and not refusal(problem, data):
        run_program(problem, data, chain_rows(data), context)


def run_program(problem: Partition, data: PartitionData, rows: Rows, context: Context) -> bool:
    r"""Offer the best split whose stages are differences of ideals, if it beats the incumbent.

    For the time of a batch, Alpa's program: the least sum of loads where none exceeds a threshold, for
    falling thresholds. If the least sum is f, with largest load l, no split between l and the threshold is
    better; below l, sums are at least f, and on D devices largest loads at least f / D.

    Return whether the program came to its end: then no such split is better than the incumbent.
    """
    from .ideals_kernel import NEVER

    known, load = context.incumbent, problem.objective == "load"
    most = NEVER // problem.replicate
    if known is not None:
        most = known - 1 if load else (known - 1) // problem.micro
    while True:
        done, split = _best(problem, data, rows, most, context)
        if split is not None:
            context.offer(split)
        if load or split is None:
            return done
        loads = problem.verdict(split).loads
        least = sum(loads) + (problem.micro - 1) * -(-sum(loads) // problem.devices)
        if context.incumbent is not None and least >= context.incumbent:
            return True
        most = max(loads) - 1


def _best(
    problem: Partition, data: PartitionData, rows: Rows, most: int, context: Context
) -> tuple[bool, Split | None]:
    """Return whether the program came to its end, and the best split with loads up to a threshold."""
    import numpy as np

    from .ideals_kernel import NEVER, fill

    first, added, target = (np.array(x, np.int64) for x in rows)
    ideals = len(first) - 1
    items, devices = stage_arrays(problem, data, most)
    states = int(np.prod(devices.counts + 1))
    best = np.full((states, ideals), NEVER, np.int64)
    choice = np.full((states, ideals), -1, np.int64)
    best[0, ideals - 1] = 0
    chunk = max(1, min(CHUNK, CELLS // (states * ideals)))
    for high in range(ideals - 1, 0, -chunk):
        if context.expired:
            return False, None
        fill(max(high - chunk, 0), high, first, added, target, items, devices, best, choice)
    state = int(best[:, 0].argmin())
    if best[state, 0] == NEVER:
        return True, None
    stage, ideal = [0] * data.n, 0
    kinds: list[str] = []
    replicas: list[int] = []
    masks = _masks(rows)
    while ideal != ideals - 1:
        onto, packed = divmod(int(choice[state, ideal]), len(data.kinds) * (problem.replicate + 1))
        k, r = divmod(packed, problem.replicate + 1)
        for c in range(data.n):
            if (masks[onto] & ~masks[ideal]) >> c & 1:
                stage[c] = len(kinds)
        kinds.append(data.kinds[k][0])
        replicas.append(r)
        state -= r * int(devices.stride[k])
        ideal = onto
    return True, data.split(stage, kinds, replicas)


def _masks(rows: Rows) -> list[int]:
    """Return the classes of each ideal as bits."""
    first, added, target = rows
    masks = [0] * (len(first) - 1)
    for i in range(len(masks)):
        for row in range(first[i], first[i + 1]):
            masks[target[row]] = masks[i] | 1 << added[row]
    return masks


def stage_arrays(problem: Partition, data: PartitionData, most: int) -> tuple[Items, StageDevices]:
    """Return what the kernel knows of values, tensors and devices."""
    import numpy as np

    from .ideals_kernel import FORWARD, KEEPS, NEVER, READS, STATIC, WRITES, Items, StageDevices

    roles: list[dict[int, int]] = [{} for _ in range(data.n)]
    facts: list[tuple[int, int, int, int]] = []
    for v in data.passed:
        for c in v.readers:
            roles[c][len(facts)] = READS
        if problem.schedule != "none":
            for c in v.kept:
                roles[c][len(facts)] = roles[c].get(len(facts), 0) | KEEPS
        roles[v.writer][len(facts)] = roles[v.writer].get(len(facts), 0) | WRITES
        nbytes = v.nbytes if problem.schedule != "none" else 0
        facts.append((v.time, nbytes, len(v.readers), FORWARD if v.forward else 0))
    for t in sorted(set().union(*data.held)):
        for c, held in enumerate(data.held):
            if t in held:
                roles[c][len(facts)] = KEEPS
        facts.append((0, data.sizes[t], 0, STATIC))
    counts = counts_of(problem)
    stride = [1]
    for count in counts[:-1]:
        stride.append(stride[-1] * (count + 1))
    sync_ns, sync_bytes = _exchange(problem)

    def ints(values: Any) -> Any:
        return np.array(list(values), np.int64)

    items = Items(
        ints(np.cumsum([0, *map(len, roles)])),
        ints(x for some in roles for x in sorted(some)),
        ints(some[x] for some in roles for x in sorted(some)),
        *(ints(x[j] for x in facts) for j in range(4)),
    )
    devices = StageDevices(
        times=np.array([[-1 if t is None else t for t in row] for row in data.times], np.int64),
        counts=ints(counts),
        stride=ints(stride),
        host=np.array([kind == HOST for kind, _ in data.kinds]),
        memory=NEVER if problem.memory is None else problem.memory,
        micro=problem.micro,
        sync_ns=sync_ns,
        sync_bytes=sync_bytes,
        gpipe=problem.schedule == "gpipe",
        again=problem.recompute == "all",
        summed=problem.objective == "time",
        replicate=problem.replicate,
        most=most,
    )
    if problem.recompute == "all":
        more = np.array([list(row) for row in data.forward_times], np.int64)
        devices = devices._replace(times=np.where(devices.times < 0, -1, devices.times + more))
    return items, devices
