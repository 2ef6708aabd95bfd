"""FlashNeuron's allocator: what is offloaded lies at the high end of the device, all else at the low end.

It carries out one iteration with times, to see when a tensor finds a hole, and whether each does. The rules
are those of ``FlashNeuron_simulator`` in the artifact of G10 (src/analysis.cc):

1. Weights, and the most workspace of one op, are placed first. (What one op alone accesses is workspace.)
   Everything else is placed when its op is due, in the order of the op's reads and writes, in the first hole
   from its end that is large enough. If there is none, the op waits for copies to end. If none is under way,
   the run fails: its memory is fragmented, or too small.
2. A tensor is written from the op on at which its absence begins, first in, first out, and gives back its
   place when the copy ends. The first backward op waits for all of them.
3. In the backward pass, whenever an op ends, what is used next of all that is away gets a place and is
   fetched, first in, first out, as long as it takes less than what the largest hole has beyond the largest
   footprint of an op. What is not fetched by then is fetched when its op is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from ..simulator.problem import SimulatedProblem
from .pool import WORKSPACE, Pool


class TwoEnds:
    """An iteration on the two-ended pool.

    Parameters
    ----------
    case
        Of the policy.
    leaving
        By tensor that is offloaded, its absence.
    turn
        The first op of the backward pass.
    footprint
        Bytes beyond which the largest hole is used for fetches.

    Attributes
    ----------
    back
        By tensor that was fetched before its op was due, the op from which on.
    now
        ns: the end of the iteration, or when it failed.
    """

    def __init__(self, case: SimulatedProblem, leaving: Mapping[int, int], turn: int, footprint: int) -> None:
        self.case, self.leaving, self.turn, self.footprint = case, leaving, turn, footprint
        self.pool, self.there = Pool(case.memory), {WORKSPACE}
        self.now, self.ends = 0, [0, 0]  # of the last copy out and in
        self.out, self.into = deque[tuple[int, int]](), deque[tuple[int, int]]()
        self.back: dict[int, int] = {}
        self.outside = {i for i, bits in enumerate(case.starts.tolist()) if bits and not bits & 1}
        self.passing = {
            i
            for i, some in enumerate(case.accesses)
            if len(some) == 1 and not case.starts[i] and not case.graph.tensors[int(case.tensor[i])].final
        }
        number = {int(t): i for i, t in enumerate(case.tensor)}
        ops = case.graph.ops
        self.reads = [[number[t] for t in op.reads if case.size[number[t]]] for op in ops]
        self.writes = [[number[t] for t in op.writes if case.size[number[t]]] for op in ops]
        uses = [(k, i) for k in range(turn, case.ops) for i in self.reads[k] + self.writes[k] if i in leaving]
        self.coming = deque(uses)

    def carry_out(self) -> str:
        """Carry out all ops; return why it failed, or nothing."""
        case = self.case
        brief = [sum(int(case.size[i]) for i in some if i in self.passing) for some in self.writes]
        workspace = int((case.workspace + np.array(brief, dtype=np.int64)).max())
        weights = np.flatnonzero(case.persistent & (case.size > 0)).tolist()
        if workspace + int(case.size[weights].sum()) > case.memory:
            return f"weights and {workspace} bytes of workspace do not fit"
        for i in weights:
            self.put(i)
        if workspace:
            self.pool.place_at_end(WORKSPACE, workspace, high=False)
        begins: dict[int, list[int]] = {}
        for i, g in self.leaving.items():
            begins.setdefault(int(case.absence_first[g]) + 1, []).append(i)
        for k in range(case.ops):
            case.tick()
            self.write(begins.get(k, ()))
            while self.out and k >= self.turn:
                self.wait()
            if k >= self.turn:
                self.fetch_ahead(k)
            missing = next((i for i in self.reads[k] if not self.provide(i, k)), None)
            if case.early:
                self.release(k, set(self.reads[k]) - set(self.writes[k]))
            if missing is None:
                missing = next((i for i in self.writes[k] if not self.provide(i, k)), None)
            if missing is not None:
                free = sum(end - low for _, low, end in self.pool.holes())
                return (
                    f"op {k} {case.graph.ops[k].name!r}: a tensor of {int(case.size[missing])} bytes finds "
                    f"no hole among {free} free bytes, the largest has {self.largest()}"
                )
            self.run(int(case.duration[k]))
            self.release(k, self.reads[k] + self.writes[k])
        return ""

    def put(self, i: int) -> bool:
        """Place a tensor at its end; return whether there was a hole."""
        if self.pool.place_at_end(i, int(self.case.size[i]), high=i in self.leaving):
            self.there.add(i)
        return i in self.there

    def drop(self, i: int) -> None:
        """Release a tensor's place."""
        self.pool.drop(i)
        self.there.discard(i)

    def largest(self) -> int:
        """Return the bytes of the largest hole."""
        return max((end - low for _, low, end in self.pool.holes()), default=0)

    def write(self, some: Iterable[int]) -> None:
        """Ask for copies out."""
        for i in some:
            self.out.append((self.copy_end(i, 0), i))

    def fetch(self, i: int) -> None:
        """Ask for a copy in, of a tensor that has its place."""
        self.into.append((self.copy_end(i, 1), i))

    def copy_end(self, i: int, back: int) -> int:
        """Return the end of a tensor's copy out (0) or in (1), behind those before it."""
        trip = self.case.transfer_ns(int(self.case.size[i]), self.case.outer[-1] - 1 + 2 * back)
        self.ends[back] = max(self.now, self.ends[back]) + trip
        return self.ends[back]

    def wait(self) -> bool:
        """Let the next copy end; return whether one was under way."""
        queues = [queue for queue in (self.out, self.into) if queue]
        if not queues:
            return False
        end, i = (first := min(queues, key=lambda queue: queue[0])).popleft()
        self.now = max(self.now, end)
        if first is self.out:
            self.drop(i)
        return True

    def provide(self, i: int, k: int) -> bool:
        """Wait until a tensor of op k has its place and its bytes; return whether it ever does."""
        if i not in self.there and i not in self.passing:
            while not self.put(i):
                if not self.wait():
                    return False
            first = self.case.accesses[i][0][0]
            if i in self.outside if first == k else i in self.leaving:
                self.fetch(i)
        while any(x == i for _, x in self.into):
            self.wait()
        return True

    def run(self, duration: int) -> None:
        """Run an op."""
        end = self.now + duration
        while any(queue and queue[0][0] <= end for queue in (self.out, self.into)):
            self.wait()
        self.now = end

    def release(self, k: int, some: Iterable[int]) -> None:
        """Release what dies with op k."""
        for i in some:
            last = self.case.accesses[i][-1][0] == k
            if i in self.there and last and not self.case.graph.tensors[int(self.case.tensor[i])].final:
                self.drop(i)

    def fetch_ahead(self, k: int) -> None:
        """Fetch what ops from k on use, while the largest hole has room beyond the footprint (step 3)."""
        room = self.largest() - self.footprint
        while self.coming:
            use, i = self.coming[0]
            if use >= k and i not in self.there:
                if room <= self.case.size[i]:
                    return
                self.put(i)
                self.fetch(i)
                room -= int(self.case.size[i])
                self.back[i] = k
            self.coming.popleft()
