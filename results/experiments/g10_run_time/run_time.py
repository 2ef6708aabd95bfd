"""The run time of G10's artifact: unified memory in pages, faults in batches, ops that run as pages arrive.

Source: Zhang et al., G10, MICRO 2023, and its artifact (platformxlab/G10 at de2c8c6: src/simulationEvents.cc,
src/simulationComponents.cc, src/main.cc, src/resources/genconfigs.py). With these rules the periods of the
artifact's result files come out to the cycle. They are *not* those of the suite's machines: an op here ends
when its last page has come, and no plan, bound or verdict of the suite is made of them.

A page (4 KiB) is on the device, on the host, on the slow tier, or nowhere; never in two places. Weights begin
on the slow tier, all else nowhere. Time is in cycles (1.2 GHz). Systems:

=======  ================  ==================  =======================================================
system   hints             what leaves         where to
=======  ================  ==================  =======================================================
lru      none              earliest arrived    host, slow tier when that is full; dead pages as well
deepum   8 ops ahead: all  the same, not what  host, slow tier when that is full; dead pages are
         that op uses      8 ops use (rule 5)  dropped
g10      those of `hints`  earliest arrived    the same as lru; hints drop what is dead
=======  ================  ==================  =======================================================

Rules.

1. Ops run one after the other, for `iterations` iterations; a period is the time between the ends of two
   iterations. When an op becomes due, its hints are followed: pages of a tensor that shall come and are
   nowhere, on the slow tier or on the host are queued (three queues *ahead*); those that shall leave are
   queued by destination (two queues); dropping is immediate. What is in a queue is left as it is.
2. If all pages of its tensors are on the device, in no queue, and no fault is waiting, the op ends after its
   duration. Otherwise all missing pages that are in no queue are *faulted*: put in three queues of faults, by
   where they are.
3. Then it ends when no fault waits and all its pages are there, but not before its duration and the time of
   its faults are over: with r and w the bytes it reads and writes, missing parts by source, and t_0 <= t_r <=
   t_a its durations with no page, its inputs, and all pages missing, faults of inputs come from the host, or
   from nowhere, at r / (t_a - t_r) and those of outputs at w / (t_r - t_0) (without limit where these are
   equal); from the slow tier at 45 / (45 + 20) of that, at most its rate; from the host at most what that
   leaves of the link. The time is the greater of the sums over slow pages and over the others. The artifact
   divides by the clock in integers there: t_0, t_r, t_a are in *whole seconds*, 0 for nearly all ops, so that
   new memory costs as much as its bytes on the link. `measured` takes the durations as they are instead. (Of
   an op that reads or writes nothing while that duration differs, only slow pages count: 0 / 0 there; where
   they take all of the link, the time is infinite, which there is 0 as an integer.)
4. Every batch (50 pages at the link's rate, 15,599 cycles) moves at most 50 pages each way, of these at most
   10 from and to the slow tier, and gives memory to at most 3,899 pages, in the order: leaving for the slow
   tier, leaving for the host; faults on the slow tier, on the host, of new memory; ahead from the slow tier,
   from the host; memory ahead. Each goes on while a page is free on the device or one can still leave in this
   batch. Pages that leave for the host go to the slow tier when the host is full, or out of the batch's pages
   for it; those that leave for the slow tier go to the host when the batch has no more pages for that.
   If DeepUM's op waits and nothing moves, what is ahead is served as faults.
5. If the device is full, a page that comes makes another one leave, with its bytes also if the host has had a
   copy: the first in the order of arrival (*not* of use: what is called LRU there is first in, first out)
   that is in no queue, from a place on that is set to the first such when an op becomes due or goes on, and
   moves behind each page that leaves; at the end it begins again, and when the page at that place leaves by
   itself. The op's own pages are not spared; one that leaves is faulted again. DeepUM passes over pages of
   the tensors of 8 ops from the current one on; without another page its hints wait. Its faults (and hints
   for the op of now) take the very first page in the order of arrival.

The published period is the least of the two iterations'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....models.errors import InstanceError
from ....models.graph import Graph
from . import memory_kernel as state
from . import pages_kernel as kernel
from .hints import KnownUses, hints_of

MB, GB, GIB = 10**6, 10**9, 2**30
"""Bytes of the units in which the simulator's settings are."""
PAGE = 4096
"""Bytes of a page, the unit that the simulator moves."""
MOST_RUNS = 22
"""Of neighbouring pages in a queue, a power of 2."""


class System(StrEnum):
    """Who decides what comes and leaves."""

    LRU = "lru"
    DEEPUM = "deepum"
    G10 = "g10"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The machine, by default that of the artifact.

    Attributes
    ----------
    device, host
        Bytes.
    line
        Part of the device up to which G10 plans.
    rate, slow_rate
        Of the link and of the slow tier, bytes per second each way.
    clock
        Cycles per second.
    batch
        Pages of a batch on the link.
    fault_us, slow_us
        Latencies in the model of faults and, in `hints`, of a migration.
    allocation
        us per byte of new memory.
    ahead
        Ops by which DeepUM's hints are ahead.
    iterations
        How many.
    measured
        Whether durations with faults are taken as measured, not in whole seconds.
    """

    device: int = 40 * GIB
    host: int = 128 * GIB
    line: float = 0.99
    rate: float = 15.754 * GB
    slow_rate: float = 3.2 * GB
    clock: int = 1200 * MB
    batch: int = 50
    fault_us: int = 45
    slow_us: int = 20
    allocation: float = 8.14e-7
    ahead: int = 8
    iterations: int = 2
    measured: bool = False


class Faulted(NamedTuple):
    """Durations of ops whose inputs, and whose operands all, are faulted; us."""

    reads: Integers
    everything: Integers


class Course(NamedTuple):
    """What happened.

    Attributes
    ----------
    ends
        Cycle at which each op ends, iteration by iteration.
    moved
        Pages in each iteration (rows): new memory, from slow tier, from host; to slow tier, to host, dropped.
    ideal
        Sum of the durations, cycles.
    """

    ends: Integers
    moved: NDArray[np.int64]
    ideal: int

    @property
    def periods(self) -> list[int]:
        """Return the cycles of each iteration."""
        return [int(period) for period in np.diff(self.ends[:, -1], prepend=0)]


class RunTime:
    """A training iteration on the run time.

    Parameters
    ----------
    graph
        Weights are its tensors of that kind; all others are of one iteration. Ops run in its order.
    system
        Who decides.
    faulted
        Per op; None: faults cost what their bytes take.
    setting
        The machine.

    Raises
    ------
    InstanceError
        If an op uses more pages than the device has.
    """

    def __init__(
        self, graph: Graph, system: System, faulted: Faulted | None = None, setting: Setting | None = None
    ) -> None:
        self.graph, self.system = graph, System(system)
        self.setting = setting = setting or Setting()
        n, count = len(graph.ops), len(graph.tensors)
        kept = np.array([tensor.kind == "weight" for tensor in graph.tensors])
        pages = np.array([-(-tensor.nbytes // PAGE) for tensor in graph.tensors], dtype=np.int64)
        durations = np.array([op.duration_ns for op in graph.ops], dtype=np.int64)
        self.cycles = np.rint(durations * (setting.clock / GB)).astype(np.int64)
        self.ops, self.accesses = accesses_of(graph)
        uses: list[list[int]] = [[] for _ in range(count)]
        last = np.full(count, -1)
        for k, op in enumerate(graph.ops):
            used = self.accesses[0, self.ops[k] : self.ops[k + 1]]
            if pages[used].sum() > setting.device // PAGE:
                raise InstanceError(
                    f"op {k} {op.name!r}: found {pages[used].sum()} pages, expected at most "
                    f"{setting.device // PAGE}"
                )
            last[[*op.reads]] = k
            for t in used.tolist():
                uses[t].append(k)
        born = np.array([some[0] if some else n for some in uses])
        lives = np.where(kept, [[0], [n]], [born, np.where(last < 0, born, last) + 1])
        self.memory = self._memory(kept, pages, lives)
        hints = np.array([*self._hints(kept, pages, uses)], dtype=np.int64).reshape(-1, 3)
        self.program = kernel.Program(
            f=np.array(
                [
                    *(setting.rate / 1e3, setting.slow_rate / 1e3),
                    *(setting.fault_us, setting.slow_us, setting.clock / 1e3),
                ]
            ),
            ops=self.ops,
            accesses=self.accesses,
            cycles=self.cycles,
            measured=self._measured(faulted),
            hints=hints.T.copy(),
        )
        self.ends = np.zeros(n * setting.iterations, dtype=np.int64)
        self.moved = np.zeros((setting.iterations + 1, state.MOVES), dtype=np.int64)

    def _measured(self, faulted: Faulted | None) -> NDArray[np.float64]:
        """Return durations without, with inputs' and with all faults, ms as the model of faults has them."""
        clock, rows = self.setting.clock, [self.cycles]
        for more in (faulted.reads, faulted.everything) if faulted else ():
            rows.append(np.maximum(rows[-1], more * (clock // MB)))
        rows += rows[-1:] * (3 - len(rows))
        cycles = np.array(rows)
        return cycles / clock * 1e3 if self.setting.measured else cycles // clock * 1e3

    def _hints(
        self, kept: NDArray[np.bool_], pages: Integers, uses: list[list[int]]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield op, tensor and destination of every hint, by op."""
        n, setting = len(self.cycles), self.setting
        if self.system == System.DEEPUM:
            for k in range(n):
                then = (k + setting.ahead) % n
                for t in self.accesses[0, self.ops[then] : self.ops[then + 1]][::-1].tolist():
                    yield k, t, state.DEVICE
        elif self.system == System.G10:
            work = KnownUses(
                size=pages * PAGE,
                weight=kept,
                uses=uses,
                life=[*zip(*self.memory.lives.tolist(), strict=True)],
                clock=np.concatenate((np.zeros(1), np.cumsum(self.cycles / (setting.clock / MB)))),
                memory=setting.device,
                line=int(setting.device * setting.line),
                host=setting.host,
                rate=setting.rate / GB * GIB / MB,
                slow_rate=setting.slow_rate / GB * GIB / MB,
                wait=float(setting.fault_us),
                slow_wait=float(setting.fault_us + setting.slow_us),
                allocation=setting.allocation,
            )
            for k, t, to in hints_of(work):
                yield k % n, t, to

    def _memory(self, kept: NDArray[np.bool_], pages: Integers, lives: NDArray[np.int64]) -> state.Memory:
        """Return the pages as they are at the beginning."""
        setting = self.setting
        step = int(setting.batch * PAGE / (setting.rate / setting.clock))
        settings = [
            *(setting.device // PAGE, setting.host // PAGE, step),
            *(int(setting.batch / setting.rate * setting.slow_rate), setting.batch),
            step // round(setting.allocation * PAGE / MB * setting.clock),
            *(setting.ahead if self.system == System.DEEPUM else 0, 0),
        ]
        s = np.zeros(state.STATES, dtype=np.int64)
        s[state.BASE] = state.END
        where = -1 - np.repeat(np.where(kept, state.SLOW, state.NOWHERE), pages).astype(np.int32)
        runs = 1 << min(MOST_RUNS, max(6, len(where).bit_length()))
        return state.Memory(
            p=np.array(settings, dtype=np.int64),
            tensors=np.concatenate((np.zeros(1, np.int64), np.cumsum(pages))),
            lives=lives,
            s=s,
            where=where.astype(np.int32),
            arrivals=np.empty(2 * min(setting.device // PAGE, len(where)) + 64, dtype=np.int32),
            queues=np.zeros(2 * state.QUEUES * runs, dtype=np.int32),
            marks=np.zeros((3, len(kept)), dtype=np.int64),
        )

    def step(self, steps: int = 10**6) -> bool:
        """Go on for at most so many ops and batches; return whether all is done."""
        self.memory.p[state.STEPS] = steps
        counts, totals = np.zeros((2, 3), dtype=np.int64), np.zeros(2, dtype=np.int64)
        return bool(kernel.carry_out(self.memory, self.program, counts, totals, self.ends, self.moved))

    def carry_out(self) -> Course:
        """Return what happens in all iterations.

        Raises
        ------
        RuntimeError
            If a queue is longer than there is room for it, or nothing can go on.
        """
        while not self.step():
            pass
        if self.memory.s[state.ERROR]:
            raise RuntimeError(f"op {self.memory.s[state.OP]}: found no way on, expected all ops to end")
        self.check()
        return Course(
            ends=self.ends.reshape(self.setting.iterations, -1),
            moved=np.diff(self.moved, axis=0),
            ideal=int(self.cycles.sum()),
        )

    def check(self) -> None:
        """Count all pages again, against what was counted as they moved.

        Raises
        ------
        RuntimeError
            If a page is on the device and not in the order of arrivals, a tier holds more than it has room
            for, or other pages than came and have not left.
        """
        p, s, where, arrivals = self.memory.p, self.memory.s, self.memory.where, self.memory.arrivals
        there = np.flatnonzero(where >= 0)
        at = arrivals[where[there]]
        on_host = int(np.count_nonzero((where < 0) & ((-1 - where) % 3 == state.HOST)))
        moved = s[state.MOVED : state.MOVED + state.MOVES]
        came, left = int(moved[:3].sum()), int(moved[[3, 4, 5, 6]].sum())
        right = (
            (np.where(at < 0, -1 - at, at) == there).all()
            and len(there) == s[state.RESIDENT] == came - left <= p[state.CAPACITY]
            and on_host == s[state.ON_HOST] == moved[4] - moved[2] - moved[7]
            and on_host <= p[state.HOST_PAGES]
        )
        if not right:
            raise RuntimeError(f"found {len(there)} and {on_host} pages on device and host, expected others")


def accesses_of(graph: Graph) -> tuple[Integers, NDArray[np.int64]]:
    """Return where each op's tensors begin, and these: tensor, whether it is written alone."""
    first, found = [0], []
    for op in graph.ops:
        found += [(t, 0) for t in dict.fromkeys(op.reads)]
        found += [(t, 1) for t in dict.fromkeys(op.writes) if t not in op.reads]
        first.append(len(found))
    return np.array(first, dtype=np.int64), np.array(found, dtype=np.int64).reshape(-1, 2).T.copy()
