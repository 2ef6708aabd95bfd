"""The verifier's simulation: every event in its order, what each changes and what each may not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from ..units import SECOND
from .actions import Actions, CopyItem, FreeItem, RunItem
from .case import PARTNERS, Case
from .flights import Flight, Flights
from .order import report_duration
from .reads import Read, Reads
from .state import STALE, Memory
from .verdict import Profile

# The order of events at one instant: ends, instantaneous copies, reads that count before frees, frees,
# reads that count after frees and departures (both see the state before any start), starts.
RUN_END, COPY_END, COPY_INSTANT, READ_FIRST, FREE, READ_LAST, DEPART, RUN_START, LAND = range(9)


@dataclass(slots=True, eq=False)
class Writer:
    """A run that is writing a tensor in a tier; a broken one installs nothing."""

    run: RunItem
    tier: int
    broken: bool = False


class Simulation:
    """One pass over the events of a plan.

    Parameters
    ----------
    case
        Graph and machine; takes the violations.
    actions
        What is well formed of the plan.
    coexist
        The accounting: reads count for the whole run, not only at its start.
    outdated
        Positions of copies across the period's end that deliver stale bytes after it.

    Attributes
    ----------
    memory
        The state after the events so far.
    begin
        By tier, the bytes that are there at time 0, before any event.
    profiles
        By tier, the points so far.
    """

    def __init__(self, case: Case, actions: Actions, coexist: bool, outdated: Collection[int] = ()) -> None:
        self.case = case
        self.actions = actions
        self.outdated = outdated
        self._failed: set[int] = set()
        self.memory = Memory(case)
        self.reads = Reads(case, self.memory, coexist)
        self.flights = Flights(case, self.memory)
        self.writers: dict[int, list[Writer]] = {}
        self.profiles: list[list[tuple[int, int]]] = [[] for _ in case.tiers]
        self._over = [False] * len(case.tiers)
        self._waiting: dict[int, list[Flight]] = {}
        self._tails: list[Flight] = []
        self._flights = [Flight(n, copy) for n, copy in enumerate(actions.copies)]
        self._fill()
        self.begin = list(self.memory.used)
        self._judge_start()
        self._events = self._schedule(READ_LAST if coexist else READ_FIRST)
        self._next = 0
        if not self._events or self._events[0][0] > 0:
            self._close_instant(0)

    def advance(self, until: int | None) -> None:
        """Carry out the events up to and including that time, or all that remain."""
        handlers = (
            self._run_end,
            self._copy_end,
            self._copy_instant,
            self._read,
            self._free,
            self._read,
            self._depart,
            self._run_start,
            self._land,
        )
        events, i = self._events, self._next
        count = len(events)
        while i < count:
            time, phase, n = events[i]
            if until is not None and time > until:
                break
            now = time
            while time == now:
                handlers[phase](time, n)
                i += 1
                if i == count:
                    break
                time, phase, n = events[i]
            self._close_instant(now)
        self._next = i

    def failed(self) -> set[int]:
        """Return the copies across the period's end that did not carry the last version round it."""
        broken = {f.copy.position for f in self._flights if self._crosses(f.copy) and f.broken}
        return broken | self._failed

    def result(self) -> dict[str, Profile]:
        """Return the profile of each tier by name."""
        return {name: tuple(self.profiles[k]) for k, name in enumerate(self.case.tiers)}

    def peaks(self) -> dict[str, int]:
        """Return the most bytes that each tier holds, at the start or after any instant."""
        return {
            name: max([self.begin[k], *(used for _, used in self.profiles[k])])
            for k, name in enumerate(self.case.tiers)
        }

    def _fill(self) -> None:
        """Put everything where it is at time 0, copies across the period's end included."""
        # Stale entries first: where entries overlap, valid bytes win.
        for entry in sorted(self.actions.start, key=lambda e: e.valid):
            stamp = 0 if entry.valid else STALE
            self.memory.put(entry.tier, entry.tensor, entry.low, entry.high, stamp)
        for copy in self.actions.copies:
            if self._crosses(copy):
                self._tails.append(Flight(len(self._flights) + len(self._tails), copy))
                self.memory.put(copy.dst, copy.tensor, copy.low, copy.high, STALE)
        for flight in self._tails:
            self.flights.depart(flight, 0)
            if flight.copy.position in self.outdated:
                flight.stamp = STALE

    def _judge_start(self) -> None:
        """Rule ``capacity`` before any event: what is there at time 0 fits, also what goes at once."""
        for k, used in enumerate(self.memory.used):
            capacity = self.case.capacity[k]
            self._over[k] = capacity is not None and used > capacity
            if self._over[k]:
                tier = self.case.tiers[k]
                self.case.report(
                    "capacity",
                    f"tier {tier!r} holds {used} bytes at the start, expected at most "
                    f"its capacity {capacity}",
                    time=0,
                    tier=tier,
                )

    def _crosses(self, copy: CopyItem) -> bool:
        period = self.case.period
        return period is not None and copy.end > period and copy.src != copy.dst

    def _schedule(self, read: int) -> list[tuple[int, int, int]]:
        """Return the events ``(time, phase, number)`` in their order."""
        period = self.case.period
        events: list[tuple[int, int, int]] = []
        for n, run in enumerate(self.actions.runs):
            events.append((run.start, read, n))
            events.append((run.start, RUN_START, n))
            events.append((run.end, RUN_END, n))
        for n, copy in enumerate(self.actions.copies):
            if copy.src == copy.dst:
                continue  # no channel can carry it
            if copy.start == copy.end:
                events.append((copy.start, COPY_INSTANT, n))
                continue
            events.append((copy.start, DEPART, n))
            events.append((copy.start, LAND, n))
            if period is None or copy.end <= period:
                events.append((copy.end, COPY_END, n))
        if period is not None:
            events += [(f.copy.end - period, COPY_END, f.number) for f in self._tails]
            self._flights += self._tails
        events += [(free.time, FREE, n) for n, free in enumerate(self.actions.frees)]
        events.sort()
        return events

    def _run_end(self, time: int, n: int) -> None:
        run, memory = self.actions.runs[n], self.memory
        processor = self.case.processors[run.processor]
        memory.used[processor.home] -= run.workspace
        for t, version in self.case.writes[run.op]:
            writers = self.writers.get(t, [])
            for writer in writers:
                if writer.run is run:
                    writers.remove(writer)
                    if not writer.broken:
                        memory.put(writer.tier, t, 0, self.case.span[t], memory.base[t] + version)
                    break
            if not writers:
                self.writers.pop(t, None)
        reads = self.reads.end(run)
        if processor.rates and all(read.tiers for read in reads):
            self._judge_duration(run, reads)

    def _judge_duration(self, run: RunItem, reads: list[Read]) -> None:
        """Rule ``duration`` where access may be slow: one rounded sum over the operands' tiers."""
        processor = self.case.processors[run.processor]
        accesses = {(read.tensor, read.tiers[0]) for read in reads}
        accesses |= {(t, self._write_tier(run, t)) for t, _ in self.case.writes[run.op]}
        slow: dict[int, int] = {}
        for t, k in accesses:
            if k in processor.rates:
                rate = processor.rates[k]
                slow[rate] = slow.get(rate, 0) + self.case.nbytes[t]
        extra = sum(Fraction(nbytes * SECOND, rate) for rate, nbytes in slow.items())
        expected = run.duration + -(-extra // 1)
        if run.end - run.start != expected:
            report_duration(self.case, run, int(expected))

    def _copy_end(self, time: int, n: int) -> None:
        flight = self._flights[n]
        copy = flight.copy
        stamp = self.flights.arrive(flight)
        if stamp != STALE:
            self.memory.put(copy.dst, copy.tensor, copy.low, copy.high, stamp)
        elif flight.broken:
            self.memory.spoil(copy.dst, copy.tensor, copy.low, copy.high)
            cause = f"copy {copy.position} leaves stale bytes at {time} ns"
            self.reads.disturb(copy.dst, copy.tensor, time, cause)

    def _copy_instant(self, time: int, n: int) -> None:
        """Carry out a copy that takes no time once its source is valid: another one may bring it."""
        flights = [self._flights[n]]
        while flights:
            flight = flights.pop()
            copy, memory = flight.copy, self.memory
            stamp = memory.stamp_of(copy.src, copy.tensor, copy.low, copy.high)
            if stamp is None:
                self._waiting.setdefault(copy.tensor, []).append(flight)
            else:
                memory.put(copy.dst, copy.tensor, copy.low, copy.high, stamp)
                flights += self._waiting.pop(copy.tensor, [])

    def _free(self, time: int, n: int) -> None:
        free: FreeItem = self.actions.frees[n]
        case, k, t = self.case, free.tier, free.tensor
        missing = self.memory.release(k, t, free.low, free.high)
        if missing is not None:
            case.report(
                "free",
                f"free {free.position} at {time} ns: {case.part(t, *missing)} is not in tier "
                f"{case.tiers[k]!r}, expected it allocated",
                time=time,
                tensor=t,
                tier=case.tiers[k],
                free=free.position,
            )
        if not self._in_use(t):
            return
        cause = f"free {free.position} releases it at {time} ns"
        self.reads.disturb(k, t, time, cause)
        self.flights.disturb_sources(k, t, free.low, free.high, time, cause)
        self.flights.disturb_targets(k, t, free.low, free.high, time, cause)
        for writer in self.writers.get(t, ()):
            if writer.tier == k and not writer.broken:
                writer.broken = True
                self._report_conflict(writer, t, time, cause, free=free.position)

    def _read(self, time: int, n: int) -> None:
        self.reads.begin(self.actions.runs[n], time)

    def _depart(self, time: int, n: int) -> None:
        flight = self._flights[n]
        copy = flight.copy
        writers = self.writers.get(copy.tensor)
        cause = f"{self.case.op(writers[0].run.op)} is writing it" if writers else None
        self.flights.depart(flight, time, cause)
        if self._crosses(copy) and not flight.broken:
            version = flight.stamp - self.memory.base[copy.tensor]
            if version != self.case.last[copy.tensor]:
                self._failed.add(copy.position)

    def _write_tier(self, run: RunItem, t: int) -> int:
        return run.tiers.get(t, self.case.processors[run.processor].home)

    def _run_start(self, time: int, n: int) -> None:
        run, case, memory = self.actions.runs[n], self.case, self.memory
        home = case.processors[run.processor].home
        memory.used[home] += run.workspace
        for t, _ in case.writes[run.op]:
            tier = run.tiers.get(t, home)
            if self._in_use(t):
                self._interrupt(run, t, tier, time)
            else:
                self.writers[t] = [Writer(run, tier)]
            memory.invalidate(t)
            memory.put(tier, t, 0, case.span[t], STALE)

    def _in_use(self, t: int) -> bool:
        """Return whether a run may be reading or writing the tensor, or a copy be under way."""
        return t in self.writers or self.flights.under_way or self.reads.of_tensor(t)

    def _interrupt(self, run: RunItem, t: int, tier: int, time: int) -> None:
        """Begin to write what others use: they lose it, and writers conflict."""
        case = self.case
        cause = f"{case.op(run.op)} starts to write it at {time} ns"
        self.reads.overwrite(run, t, time, cause)
        for flight in self.flights.landing_on(tier, t):
            landing = f"copy {flight.copy.position} lands on it until {flight.copy.end} ns"
            self._report_conflict(Writer(run, tier), t, time, landing, copy=flight.copy.position)
        for k in range(len(case.tiers)):
            self.flights.disturb_sources(k, t, 0, case.span[t], time, cause)
            self.flights.disturb_targets(k, t, 0, case.span[t], time, cause)
        self._start_writing(run, t, tier, time, cause)

    def _start_writing(self, run: RunItem, t: int, tier: int, time: int, cause: str) -> None:
        """Rule ``write-conflict`` between runs; the writers kept are those that end last."""
        writers = self.writers.setdefault(t, [])
        for other in writers:
            other.broken = True
        for other in writers[-self.case.partners() :]:
            self._report_conflict(other, t, time, cause, other=run.op, other_run=run.position)
        writers.append(Writer(run, tier))
        if len(writers) > PARTNERS:
            writers.sort(key=lambda w: w.run.end)
            del writers[0]

    def _land(self, time: int, n: int) -> None:
        copy = self.actions.copies[n]
        k, t = copy.dst, copy.tensor
        cause = f"copy {copy.position} lands on it from {time} ns"
        self.reads.disturb(k, t, time, cause)
        self.flights.disturb_sources(k, t, copy.low, copy.high, time, cause)
        for writer in self.writers.get(t, [])[-self.case.partners() :]:
            # A run that starts now has already met this copy.
            if writer.tier == k and writer.run.start < time:
                self._report_conflict(writer, t, time, cause, copy=copy.position)
        self.memory.put(k, t, copy.low, copy.high, STALE)

    def _report_conflict(self, writer: Writer, t: int, time: int, cause: str, **witness: int) -> None:
        case, run = self.case, writer.run
        case.report(
            "write-conflict",
            f"{case.op(run.op)} writes {case.tensor(t)} from {run.start} to {run.end} ns, but {cause}",
            time=time,
            op=run.op,
            tensor=t,
            tier=case.tiers[writer.tier],
            run=run.position,
            **witness,
        )

    def _close_instant(self, time: int) -> None:
        """Settle what the instant leaves open, and take the profiles' points."""
        self.reads.close_instant()
        if self._waiting:
            self._report_waiting(time)
        case = self.case
        if case.period is not None and time >= case.period:
            return
        for k, used in enumerate(self.memory.used):
            profile = self.profiles[k]
            if profile and profile[-1][1] == used:
                continue
            profile.append((time, used))
            capacity = case.capacity[k]
            over = capacity is not None and used > capacity
            if over and not self._over[k]:
                case.report(
                    "capacity",
                    f"tier {case.tiers[k]!r} holds {used} bytes from {time} ns, expected at most "
                    f"its capacity {capacity}",
                    time=time,
                    tier=case.tiers[k],
                )
            self._over[k] = over

    def _report_waiting(self, time: int) -> None:
        """Report instantaneous copies whose source never became valid at their instant."""
        for flights in self._waiting.values():
            for flight in flights:
                copy, memory = flight.copy, self.memory
                self.flights.check_source(flight, time)
                for low, high in memory.absent(copy.dst, copy.tensor, copy.low, copy.high):
                    memory.put(copy.dst, copy.tensor, low, high, STALE)
        self._waiting.clear()
