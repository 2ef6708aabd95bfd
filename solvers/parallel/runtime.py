"""A runtime that schedules dynamically: runs a graph many times with random durations and watches the memory.

Each run draws a duration for every op (uniform between 0 and twice that of its shortest mode, but above 0)
and a priority. Whenever processors are idle and ops are ready, those of the highest priority start; nothing
waits for memory. At one instant ends come first, then starts; memory counts as in
`lowtide.models.problems.parallel_memory`, each op with the workspace of its mode with the most.

What it sees is a sample: never above the largest parallel memory, and mostly below it, since the worst moment
needs its ops to meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from random import Random

from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import order_with, successors_with
from ...models.errors import UsageError
from ...models.graph import Accounting, Graph
from ...models.problems.memory_edges import Edge, shortest_mode
from ...models.problems.parallel_memory import check_modes, most_workspace


@dataclass(frozen=True, kw_only=True)
class _Script:
    """What one run needs of the graph: bytes and counts by op and tensor."""

    later: list[list[int]]
    waits: list[int]
    duration: list[int]
    workspace: list[int]
    born: list[int]
    at_start: list[list[int]]
    at_end: list[list[int]]
    holds: list[int]
    nbytes: list[int]
    initial: int


def simulate(
    graph: Graph,
    edges: Sequence[Edge] = (),
    *,
    runs: int,
    processors: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> list[int]:
    """Return the peak memory of each run in bytes.

    Parameters
    ----------
    graph
        Every op may run on any processor.
    edges
        Further precedence: the first op of a pair ends before the second starts.
    runs
        At least 1.
    processors
        How many ops run at one time at most; None: any number.
    seed
        Of durations and priorities: run k of one seed draws the same for other edges.
    progress
        Called with one line of text now and then.

    Raises
    ------
    UsageError
        If `runs` is below 1.
    InstanceError
        If the edges dangle or close a cycle, or a mode names processors or tiers.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.Graph(
    ...     name="branches",
    ...     tensors=(),
    ...     ops=(lt.Op(name="a", workspace=4), lt.Op(name="b", workspace=6)),
    ... )
    >>> simulate(graph, runs=2), simulate(graph, [(0, 1)], runs=2)
    ([10, 10], [6, 6])
    """
    if runs < 1:
        raise UsageError(f"runs: found {runs}, expected at least 1")
    check_modes(graph, "simulate")
    order_with(graph, edges)
    script = _script(graph, edges)
    peaks = []
    for k in range(runs):
        peaks.append(_run(script, processors, Random(f"{seed} {k}")))
        if (k + 1) % 100 == 0:
            progress(f"simulated {k + 1} of {runs} runs, at most {max(peaks)} bytes")
    return peaks


def _script(graph: Graph, edges: Sequence[Edge]) -> _Script:
    n, coexist = len(graph.ops), graph.accounting is Accounting.COEXIST
    later = successors_with(graph, edges)
    waits = [0] * n
    for some in later:
        for j in some:
            waits[j] += 1
    at_start: list[list[int]] = [[] for _ in range(n)]
    at_end: list[list[int]] = [[] for _ in range(n)]
    holds, born, known = [0] * len(graph.tensors), [0] * n, [t.initial for t in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            if t in op.writes and not known[t]:
                known[t] = True
                born[i] += graph.tensors[t].nbytes
            if not graph.tensors[t].final:
                holds[t] += 1
                (at_end if coexist or t in op.writes else at_start)[i].append(t)
    return _Script(
        later=[sorted(some) for some in later],
        waits=waits,
        duration=[shortest_mode(graph, i)[0] for i in range(n)],
        workspace=[most_workspace(graph, i)[0] for i in range(n)],
        born=born,
        at_start=at_start,
        at_end=at_end,
        holds=holds,
        nbytes=[t.nbytes for t in graph.tensors],
        initial=sequential_memory(graph).initial_bytes,
    )


def _run(script: _Script, processors: int | None, rng: Random) -> int:
    """Return the peak of one run in bytes."""
    n = len(script.waits)
    duration = [(1.0 - rng.random()) * 2 * d for d in script.duration]
    priority = [rng.random() for _ in range(n)]
    waits, holds = list(script.waits), list(script.holds)
    ready = [(priority[i], i) for i in range(n) if not waits[i]]
    heapify(ready)
    running: list[tuple[float, int]] = []
    memory, peak, now = script.initial, script.initial, 0.0
    while ready or running:
        while ready and (processors is None or len(running) < processors):
            i = heappop(ready)[1]
            memory += script.born[i] + script.workspace[i]
            memory -= _let_go(script.at_start[i], holds, script.nbytes)
            heappush(running, (now + duration[i], i))
        peak = max(peak, memory)
        now = running[0][0]
        while running and running[0][0] <= now:
            i = heappop(running)[1]
            memory -= script.workspace[i] + _let_go(script.at_end[i], holds, script.nbytes)
            for j in script.later[i]:
                waits[j] -= 1
                if not waits[j]:
                    heappush(ready, (priority[j], j))
    return max(peak, memory)


def _let_go(tensors: list[int], holds: list[int], nbytes: list[int]) -> int:
    """Return the bytes of the tensors that nothing holds any more."""
    freed = 0
    for t in tensors:
        holds[t] -= 1
        if not holds[t]:
            freed += nbytes[t]
    return freed
