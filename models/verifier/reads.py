"""The verifier's rule ``read``: what a run reads is valid, in one tier, for as long as it must be."""

from __future__ import annotations

from dataclasses import dataclass

from .actions import RunItem
from .case import Case
from .state import Memory


@dataclass(slots=True, eq=False)
class Read:
    """A tensor that a run reads; `tiers`: where it has been valid so far, the preferred tier first."""

    run: RunItem
    tensor: int
    tiers: list[int]


class Reads:
    """The reads of the runs under way.

    A read counts for the whole run if memory is accounted as coexisting and the run does not also write
    the tensor; otherwise only its start counts, where it can clash with the writes that start then.
    """

    def __init__(self, case: Case, memory: Memory, coexist: bool) -> None:
        self.case = case
        self.memory = memory
        self.coexist = coexist
        self.of_run: dict[int, list[Read]] = {}
        self._lasting: list[dict[int, dict[int, Read]]] = [{} for _ in case.tiers]
        self._starting: dict[int, list[Read]] = {}

    def begin(self, run: RunItem, time: int) -> None:
        """Look for every operand in the tiers where the run may read it."""
        case, held, base = self.case, self.memory.held, self.memory.base
        processor = case.processors[run.processor]
        written = {t for t, _ in case.writes[run.op]} if self.coexist else ()
        reads = []
        for t, version in case.reads[run.op]:
            named = run.tiers.get(t)
            choice = processor.tiers if named is None else (named,)
            want = base[t] + version
            tiers = [k for k in choice if held[k][t] == want]
            read = Read(run, t, tiers)
            reads.append(read)
            if not tiers:
                tier = processor.home if named is None else named
                lack = self.memory.lack(tier, t, 0, case.span[t], version)
                others = ", nor valid in its processor's other tiers" if len(choice) > 1 else ""
                self._report(read, time, tier, f"in version {version}, but {lack}{others}")
            elif self.coexist and t not in written:
                for k in tiers:
                    self._lasting[k].setdefault(t, {})[run.position] = read
            else:
                self._starting.setdefault(t, []).append(read)
        self.of_run[run.position] = reads

    def of_tensor(self, t: int) -> bool:
        """Return whether a read of the tensor is watched."""
        if t in self._starting:
            return True
        for readers in self._lasting:  # noqa: SIM110 - asked for every write and release, twice as fast as any()
            if t in readers:
                return True
        return False

    def disturb(self, k: int, t: int, time: int, cause: str) -> None:
        """Bytes of the tensor in one tier are released or made stale: lasting reads lose the tier."""
        readers = self._lasting[k].pop(t, None)
        if readers:
            for read in readers.values():
                read.tiers.remove(k)
                if not read.tiers:
                    self._report(read, time, k, f"until {read.run.end} ns, but {cause}")

    def overwrite(self, writer: RunItem, t: int, time: int, cause: str) -> None:
        """Another run starts to write the tensor: no read of it survives."""
        for k in range(len(self._lasting)):
            self.disturb(k, t, time, cause)
        for read in self._starting.get(t, ()):
            if read.run is not writer and read.tiers:
                tier = read.tiers[0]
                read.tiers.clear()
                self._report(read, time, tier, f"but {cause}")

    def close_instant(self) -> None:
        """Every start of this instant is done: reads that count at their start only are settled."""
        if self._starting:
            self._starting.clear()

    def end(self, run: RunItem) -> list[Read]:
        """Take the run's reads off the watch and return them."""
        reads = self.of_run.pop(run.position)
        if self.coexist:
            for read in reads:
                for k in read.tiers:
                    readers = self._lasting[k].get(read.tensor)
                    if readers is not None and run.position in readers:
                        del readers[run.position]
                        if not readers:
                            del self._lasting[k][read.tensor]
        return reads

    def _report(self, read: Read, time: int, tier: int, fault: str) -> None:
        case, run = self.case, read.run
        case.report(
            "read",
            f"{case.op(run.op)}, which starts at {run.start} ns, reads {case.tensor(read.tensor)} {fault}",
            time=time,
            op=run.op,
            tensor=read.tensor,
            tier=case.tiers[tier],
            run=run.position,
        )
