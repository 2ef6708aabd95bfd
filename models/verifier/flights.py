"""The verifier's rules ``copy-source`` and ``copy-target``: nobody disturbs a copy under way."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from .actions import CopyItem
from .case import Case
from .state import STALE, Memory


@dataclass(slots=True, eq=False)
class Flight:
    """A copy under way, with the stamp that it carries; a broken one delivers stale bytes."""

    number: int
    copy: CopyItem
    stamp: int = STALE
    broken: bool = False


class _Band:
    """Flights by byte range, sorted; ranges may overlap."""

    __slots__ = ("items", "widest")

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int]] = []
        self.widest = 0

    def overlapping(self, low: int, high: int, at_most: int | None = None) -> list[int]:
        """Return the numbers of the flights that touch the range."""
        flights: list[int] = []
        items = self.items
        for i in range(bisect_left(items, (low - self.widest + 1,)), len(items)):
            a, b, number = items[i]
            if a >= high or len(flights) == at_most:
                break
            if b > low:
                flights.append(number)
        return flights


class Flights:
    """The copies under way, by the bytes that they read and by those that they fill."""

    def __init__(self, case: Case, memory: Memory) -> None:
        self.case = case
        self.memory = memory
        self._flights: dict[int, Flight] = {}
        self._sources: list[dict[int, _Band]] = [{} for _ in case.tiers]
        self._targets: list[dict[int, _Band]] = [{} for _ in case.tiers]

    @property
    def under_way(self) -> bool:
        """Whether any copy is under way."""
        return bool(self._flights)

    def check_source(self, flight: Flight, time: int, fault: str | None = None) -> bool:
        """Take up what the source holds; report a source that is not valid in one version.

        `fault` is another reason, if there is one, why the source is not good.
        """
        copy = flight.copy
        stamp = self.memory.stamp_of(copy.src, copy.tensor, copy.low, copy.high)
        if stamp is not None and fault is None:
            flight.stamp = stamp
            return True
        if stamp is None:
            fault = self.memory.lack(copy.src, copy.tensor, copy.low, copy.high, None)
        self._report("copy-source", flight, time, copy.src, f"but {fault}")
        flight.broken = True
        return False

    def depart(self, flight: Flight, time: int, fault: str | None = None) -> None:
        """Check the source, and watch source and target from now on."""
        copy = flight.copy
        if self.check_source(flight, time, fault):
            self._watch(self._sources[copy.src], flight)
        band = self._targets[copy.dst].get(copy.tensor)
        if band is not None:
            for number in band.overlapping(copy.low, copy.high, self.case.partners()):
                other = self._flights[number]
                flight.broken = other.broken = True
                fault = f"where copy {other.copy.position} lands until {other.copy.end} ns"
                self._report("copy-target", flight, time, copy.dst, fault, other=other)
        self._watch(self._targets[copy.dst], flight)
        self._flights[flight.number] = flight

    def arrive(self, flight: Flight) -> int:
        """End the watch; return the stamp that the target now has."""
        copy = flight.copy
        self._unwatch(self._sources[copy.src], flight)
        self._unwatch(self._targets[copy.dst], flight)
        del self._flights[flight.number]
        sound = not flight.broken and flight.stamp >= self.memory.base[copy.tensor]
        return flight.stamp if sound else STALE

    def disturb_sources(self, k: int, t: int, low: int, high: int, time: int, cause: str) -> None:
        """Bytes in a tier are released or overwritten: copies that read them break."""
        self._disturb("copy-source", self._sources[k], k, t, low, high, time, cause)

    def disturb_targets(self, k: int, t: int, low: int, high: int, time: int, cause: str) -> None:
        """Bytes in a tier are released or overwritten: copies that fill them break."""
        self._disturb("copy-target", self._targets[k], k, t, low, high, time, cause)

    def landing_on(self, k: int, t: int) -> list[Flight]:
        """Return the copies under way into a tensor's bytes in a tier."""
        band = self._targets[k].get(t)
        return [self._flights[number] for _, _, number in band.items] if band else []

    def _disturb(
        self,
        kind: str,
        bands: dict[int, _Band],
        k: int,
        t: int,
        low: int,
        high: int,
        time: int,
        cause: str,
    ) -> None:
        band = bands.get(t)
        if band is None:
            return
        for number in band.overlapping(low, high):
            flight = self._flights[number]
            flight.broken = True
            self._unwatch(bands, flight)
            self._report(kind, flight, time, k, f"but {cause}")

    def _watch(self, bands: dict[int, _Band], flight: Flight) -> None:
        copy = flight.copy
        band = bands.setdefault(copy.tensor, _Band())
        insort(band.items, (copy.low, copy.high, flight.number))
        band.widest = max(band.widest, copy.high - copy.low)

    def _unwatch(self, bands: dict[int, _Band], flight: Flight) -> None:
        copy = flight.copy
        band = bands.get(copy.tensor)
        if band is None:
            return
        item = (copy.low, copy.high, flight.number)
        i = bisect_left(band.items, item)
        if i < len(band.items) and band.items[i] == item:
            del band.items[i]
            if not band.items:
                del bands[copy.tensor]

    def _report(
        self,
        kind: str,
        flight: Flight,
        time: int,
        tier: int,
        fault: str,
        other: Flight | None = None,
    ) -> None:
        case, copy = self.case, flight.copy
        ends = f"from {case.tiers[copy.src]!r} to {case.tiers[copy.dst]!r}"
        part = case.part(copy.tensor, copy.low, copy.high)
        case.report(
            kind,
            f"copy {copy.position} takes {part} {ends} from {copy.start} to {copy.end} ns, {fault}",
            time=time,
            tensor=copy.tensor,
            tier=case.tiers[tier],
            copy=copy.position,
            other_copy=None if other is None else other.copy.position,
        )
