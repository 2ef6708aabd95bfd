"""The state of a random walk through valid plans, and its beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random

from lowtide.models.graph import Accounting, Graph, Mode
from lowtide.models.machine import Machine
from lowtide.models.plan import Copy, Free, Resident, Run
from tests.oracles.brute_force import must_precede

STALE = -1


@dataclass
class Head:
    """A copy that is under way at time 0 of each period."""

    tensor: int
    src: str
    dst: str
    units: range
    landing: int


@dataclass
class Walk:
    """What is where, what is locked until when, and the actions so far."""

    rng: Random
    graph: Graph
    machine: Machine
    recompute: bool = False
    periodic: bool = False
    now: int = 0
    memory: dict[tuple[int, str], dict[int, int]] = field(default_factory=dict)
    locks: list[tuple[int, str, range, int]] = field(default_factory=list)
    arrivals: list[tuple[int, int, str, range, int]] = field(default_factory=list)
    active: list[tuple[Run, Mode]] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    heads: list[Head] = field(default_factory=list)
    home: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    frozen: set[tuple[int, str]] = field(default_factory=set)
    start: list[Resident] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    frees: list[Free] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tiers = [tier.name for tier in self.machine.tiers]
        self.latency = {(c.src, c.dst): c.latency_ns for c in self.machine.channels}
        self.memory = {(t, x): {} for t in range(len(self.graph.tensors)) for x in self.tiers}
        self.pending = set(range(len(self.graph.ops)))
        self.precedes = must_precede(self.graph)
        self.replace = self.graph.accounting is Accounting.REPLACE

    # -- small words ---------------------------------------------------------------------------

    def units(self, t: int) -> range:
        return range(max(1, self.graph.tensors[t].nbytes))

    def byte_range(self, t: int, units: range) -> tuple[int, int] | None:
        """Name the units in a plan: None and the full range are two names of the whole tensor."""
        if len(units) == len(self.units(t)) and self.rng.random() < 0.7:
            return None
        return (units.start, units.stop) if self.graph.tensors[t].nbytes else (0, 0)

    def version(self, i: int, t: int) -> int:
        return sum(t in op.writes for op in self.graph.ops[:i])

    def last(self, t: int) -> int:
        return self.version(len(self.graph.ops), t)

    def whole(self, t: int, tier: str, version: int) -> bool:
        return all(self.memory[t, tier].get(unit) == version for unit in self.units(t))

    def is_locked(self, t: int, tier: str | None, units: range) -> bool:
        return any(
            x == t and tier in (None, place) and set(taken) & set(units) for x, place, taken, _ in self.locks
        )

    def needed(self, t: int, version: int) -> bool:
        """Does an op yet to start read this version, or must it remain?"""
        if self.graph.tensors[t].final and version == self.last(t):
            return True
        readers = (i for i in self.pending if t in self.graph.ops[i].reads)
        return any(self.version(i, t) == version for i in readers)

    def is_being_written(self, t: int) -> bool:
        return any(t in self.graph.ops[run.op].writes for run, _ in self.active)

    def stretches(self, t: int, units: set[int]) -> Iterator[range]:
        """Yield maximal ranges of the units."""
        for _, group in groupby(enumerate(sorted(units)), lambda pair: pair[1] - pair[0]):
            found = [unit for _, unit in group]
            yield range(found[0], found[-1] + 1)

    def part(self, units: range) -> range:
        """Return the range or a random part of it."""
        if len(units) > 1 and self.rng.random() < 0.4:
            a, b = sorted(self.rng.sample(range(units.start, units.stop + 1), 2))
            return range(a, b)
        return units

    # -- time 0 --------------------------------------------------------------------------------

    def place(self, input_tiers: tuple[str, ...]) -> None:
        """Choose what is where at time 0."""
        used = {t for op in self.graph.ops for t in (*op.reads, *op.writes)}
        for t, tensor in enumerate(self.graph.tensors):
            if not tensor.initial:
                continue
            if not (t in used or tensor.final) and self.rng.random() < 0.5:
                continue
            allowed = input_tiers if tensor.kind == "input" else tuple(self.tiers)
            anchor = self.rng.choice(allowed)
            self.put(t, anchor, self.units(t), 0)
            for tier in allowed:
                if tier == anchor or self.rng.random() < 0.75:
                    continue
                homes = {p.tiers[0].tier for p in self.machine.processors}
                stale = self.rng.random() < 0.3 and not (self.periodic and tier in homes)
                self.put(t, tier, self.part(self.units(t)), STALE if stale else 0)
                if stale and self.periodic:
                    self.frozen.add((t, tier))
            if self.periodic and tensor.final and self.rng.random() < 0.5:
                self.add_head(t, anchor, allowed)

    def put(self, t: int, tier: str, units: range, content: int) -> None:
        self.memory[t, tier].update(dict.fromkeys(units, content))
        self.home[t, tier] = set(units)
        pieces = [units]
        if len(units) > 1 and self.rng.random() < 0.3:
            cut = self.rng.randrange(units.start + 1, units.stop)
            pieces = [range(units.start, cut), range(cut, units.stop)]
        for piece in pieces:
            self.start.append(Resident(t, tier, self.byte_range(t, piece), content != STALE))

    def add_head(self, t: int, anchor: str, allowed: Sequence[str]) -> None:
        targets = [x for x in allowed if (anchor, x) in self.latency and not self.memory[t, x]]
        if not targets:
            return
        head = Head(t, anchor, self.rng.choice(targets), self.part(self.units(t)), 0)
        head.landing = self.rng.randint(1, 4)
        self.heads.append(head)
        self.memory[t, head.dst].update(dict.fromkeys(head.units, STALE))
        self.move(t, head.src, head.dst, head.units, head.landing, 0)

    def move(self, t: int, src: str, dst: str, units: range, end: int, version: int) -> None:
        """Enter a copy under way: what it locks, and what arrives when."""
        self.locks += [(t, src, units, end), (t, dst, units, end)]
        self.arrivals.append((end, t, dst, units, version))
