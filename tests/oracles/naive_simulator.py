"""A second judge of plans: slow, literal, written from the definitions alone.

Memory is one dictionary per (tensor, tier) from byte number to content, so it takes tiny tensors only.
A byte that is absent is not allocated; ``STALE`` is allocated without content; a number is the version
held. A tensor of zero bytes is one unit of weight 0. Everything is looked at again at every instant at
which anything happens. It shares nothing with the package but the raw fields of graph and plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from lowtide.models.graph import KINDS, Accounting, Graph
from lowtide.models.machine import Processor
from lowtide.models.plan import Copy, Plan, Run
from tests.oracles.naive_rules import SECOND, Rules
from tests.oracles.naive_state import STALE, Outcome, Running, Steps, Transfer


def simulate(
    graph: Graph,
    plan: Plan,
    *,
    rerun: bool | None = None,
    start_tiers: Mapping[str, tuple[str, ...]] | None = None,
) -> Outcome:
    """Return everything that the definitions say about the plan.

    In the steady state a copy that straddles the period's end lands what it carried: the last version,
    unless the simulation of the period shows otherwise; then it is simulated again with that known.
    """
    useless: set[int] = set()
    while True:
        simulation = Simulation(graph, plan, rerun, start_tiers, useless)
        outcome = simulation.judge()
        if simulation.useless == useless:
            return outcome
        useless = set(simulation.useless)


class Simulation(Rules):
    """Memory through time; the methods stand in the order of what happens at one instant."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        rerun: bool | None,
        start_tiers: Mapping[str, tuple[str, ...]] | None,
        useless: set[int],
    ) -> None:
        super().__init__(graph, plan, rerun)
        self.start_tiers = self.where_things_start(start_tiers)
        self.useless = set(useless)
        self.memory: dict[tuple[int, str], dict[int, int]] = {
            (t, tier): {} for t in range(len(graph.tensors)) for tier in self.tiers
        }
        self.running: list[Running] = []
        self.transfers: list[Transfer] = []
        self.failed: list[Copy] = []  # copies that take no time, at this instant
        self.full: set[str] = set()  # tiers that hold more than their capacity
        self.begun: dict[str, int] = {}  # bytes of each tier before anything happens
        self.now = 0

    def judge(self) -> Outcome:
        self.judge_without_memory()
        profiles = self.run_through_time()
        return Outcome(
            faults=frozenset(self.faults),
            profiles=profiles,
            peaks={tier: max(self.begun[tier], *(n for _, n in x)) for tier, x in profiles.items()},
            makespan=self.makespan,
            stall=self.stall(),
            traffic=self.traffic(),
            recomputed=sum(n - 1 for n in self.counts if n > 1),
        )

    def run_through_time(self) -> Steps:
        self.place_start()
        first_state = {place: dict(content) for place, content in self.memory.items()}
        marks = {0, self.makespan, *(f.time for f in self.frees)}
        marks |= {x for r in self.runs for x in (r.start, r.end)}
        marks |= {x for c in self.copies for x in (c.start, c.end)}
        if self.period is not None:
            marks |= {c.end - self.period for c in self.copies if self.straddles(c)}
            marks = {m for m in marks if m <= self.period}
        profiles: dict[str, list[tuple[int, int]]] = {tier: [] for tier in self.tiers}
        for self.now in sorted(marks):
            self.finish()
            self.copy_at_once()
            starting = [self.prepare(r) for r in self.runs if r.start == self.now]
            if self.graph.accounting is Accounting.REPLACE:
                self.find_reads(starting)
            self.release()
            self.look_around()
            if self.graph.accounting is Accounting.COEXIST:
                self.find_reads(starting)
            self.begin(starting)
            self.look_around()
            for copy in self.failed:
                for unit in self.units(copy):
                    self.memory[copy.tensor, copy.dst].setdefault(unit, STALE)
            if self.now == self.makespan:
                self.judge_end(first_state)
            if self.now != self.period:  # that instant is time 0 of the next period
                self.weigh(profiles)
        return {tier: tuple(steps) for tier, steps in profiles.items()}

    def weigh(self, profiles: dict[str, list[tuple[int, int]]]) -> None:
        for tier in self.machine.tiers:
            held = sum(self.size(t, self.memory[t, tier.name]) for t in range(len(self.graph.tensors)))
            for running in self.running:
                if running.processor.tiers[0].tier == tier.name:
                    held += running.mode.workspace
            before = tier.name in self.full
            self.full.discard(tier.name)
            if tier.capacity is not None and held > tier.capacity:
                self.full.add(tier.name)
                if not before:
                    self.fault("capacity", self.now, None, None, tier.name)
            steps = profiles[tier.name]
            if not steps or steps[-1][1] != held:
                steps.append((self.now, held))

    # -- time 0, before its events -------------------------------------------------------------

    def where_things_start(self, question: Mapping[str, tuple[str, ...]] | None) -> dict[str, list[str]]:
        """What the question says, else the plan, else the default; the plan may not say more than it."""
        default = {kind: self.tiers[-1:] if kind == "input" else self.tiers for kind in KINDS}
        stated = self.plan.start_tiers
        sound = isinstance(stated, dict) and all(
            k in KINDS and type(v) is tuple and all(x in self.tiers for x in v) for k, v in stated.items()
        )
        if stated is not None and not sound:
            self.fault("shape")
            stated = None
        said = None if stated is None else {kind: list(stated.get(kind, self.tiers)) for kind in KINDS}
        if question is None:
            return default if said is None else said
        asked = {kind: list(question.get(kind, self.tiers)) for kind in KINDS}
        for tensor in self.graph.tensors:
            for tier in said[tensor.kind] if said is not None and tensor.initial else []:
                if tier not in asked[tensor.kind]:
                    self.fault("start", 0, None, None, tier)
        return asked

    def place_start(self) -> None:
        seen: set[tuple[int, str, int]] = set()
        for place in self.start:
            tensor = self.graph.tensors[place.tensor]
            if not tensor.initial:
                self.fault("start", 0, None, place.tensor, place.tier)
                continue
            if place.tier not in self.start_tiers[tensor.kind]:
                self.fault("start", 0, None, place.tensor, place.tier)
            content = self.memory[place.tensor, place.tier]
            for unit in self.units(place):
                if (place.tensor, place.tier, unit) in seen:
                    self.fault("start", 0, None, place.tensor, place.tier)
                seen.add((place.tensor, place.tier, unit))
                content[unit] = max(content.get(unit, STALE), 0 if place.valid else STALE)
        for position, copy in enumerate(self.copies):
            if self.period is None or copy.end <= self.period:
                continue
            tensor = self.graph.tensors[copy.tensor]
            if not (tensor.initial and tensor.final):
                self.fault("period", copy.start, None, copy.tensor, copy.dst)
            elif copy.dst not in self.start_tiers[tensor.kind]:
                self.fault("start", copy.start, None, copy.tensor, copy.dst)
            if copy.src == copy.dst:
                continue
            units = self.units(copy)
            for unit in units:
                self.memory[copy.tensor, copy.dst][unit] = STALE
            landed = STALE if position in self.useless else 0
            end = copy.end - self.period
            self.transfers.append(Transfer(position, copy, units, 0, end, landed, head=True))
        for transfer in self.transfers:
            if self.content(transfer.copy) == STALE:
                transfer.broken = True
                self.fault("copy-source", 0, None, transfer.copy.tensor, transfer.copy.src)
        for tier in self.machine.tiers:  # the start alone, before anything that happens at time 0
            held = sum(self.size(t, self.memory[t, tier.name]) for t in range(len(self.graph.tensors)))
            self.begun[tier.name] = held
            if tier.capacity is not None and held > tier.capacity:
                self.full.add(tier.name)
                self.fault("capacity", 0, None, None, tier.name)

    # -- ends ----------------------------------------------------------------------------------

    def finish(self) -> None:
        for running in [x for x in self.running if x.run.end == self.now]:
            self.running.remove(running)
            self.judge_duration(running)
            op = running.run.op
            for t in set(self.graph.ops[op].writes) - running.spoilt:
                content = self.memory[t, self.write_tier(running, t)]
                for unit in content:
                    content[unit] = self.version(op, t) + 1
        for transfer in [x for x in self.transfers if x.end == self.now]:
            self.land(transfer)

    def land(self, transfer: Transfer) -> None:
        self.transfers.remove(transfer)
        content = self.memory[transfer.copy.tensor, transfer.copy.dst]
        for unit in transfer.units:
            if unit in content:
                content[unit] = STALE if transfer.broken else transfer.content

    def judge_duration(self, running: Running) -> None:
        slow = any(access.bytes_per_s is not None for access in running.processor.tiers)
        if slow and any(not tiers for tiers in running.tiers.values()):
            return  # it read from nowhere, so no duration is right or wrong
        op = self.graph.ops[running.run.op]
        touched = {(t, self.cheapest(running, t)) for t in op.reads} if slow else set()
        touched |= {(t, self.write_tier(running, t)) for t in op.writes}
        extra = sum(
            (
                self.graph.tensors[t].nbytes * self.seconds_per_byte(running.processor, tier)
                for t, tier in touched
            ),
            Fraction(0),
        )
        expected = running.mode.duration_ns + ceil(extra * SECOND)
        if running.run.end - running.run.start != expected:
            self.fault("duration", running.run.start, running.run.op)

    def cheapest(self, running: Running, tensor: int) -> str:
        tiers = running.tiers[tensor]
        return min(tiers, key=lambda tier: self.seconds_per_byte(running.processor, tier))

    def seconds_per_byte(self, processor: Processor, tier: str) -> Fraction:
        for access in processor.tiers:
            if access.tier == tier and access.bytes_per_s is not None:
                return Fraction(1, access.bytes_per_s)
        return Fraction(0)

    def write_tier(self, running: Running, tensor: int) -> str:
        return dict(running.mode.operands).get(tensor, running.processor.tiers[0].tier)

    def copy_at_once(self) -> None:
        """Carry out the copies that take no time, in whatever order makes their sources valid."""
        waiting = [c for c in self.copies if c.start == self.now == c.end and c.src != c.dst]
        for _ in range(len(waiting)):
            for copy in list(waiting):
                content = self.content(copy)
                if content != STALE:
                    waiting.remove(copy)
                    target = self.memory[copy.tensor, copy.dst]
                    target.update(dict.fromkeys(self.units(copy), content))
        self.failed = waiting
        for copy in waiting:
            self.fault("copy-source", self.now, None, copy.tensor, copy.src)

    # -- reads of the runs that start now; frees -----------------------------------------------

    def prepare(self, run: Run) -> Running:
        mode = self.graph.ops[run.op].all_modes[run.mode]
        return Running(run, mode, self.processors[run.processor])

    def holds(self, tensor: int, tier: str, content: int) -> bool:
        memory = self.memory[tensor, tier]
        return all(memory.get(unit) == content for unit in self.all_units(tensor))

    def find_reads(self, starting: list[Running]) -> None:
        for running in starting:
            op = running.run.op
            for t in self.graph.ops[op].reads:
                readable = [access.tier for access in running.processor.tiers]
                if t in dict(running.mode.operands):
                    readable = [dict(running.mode.operands)[t]]
                version = self.version(op, t)
                running.tiers[t] = [tier for tier in readable if self.holds(t, tier, version)]
                if not running.tiers[t]:
                    self.fault("read", self.now, op, t)

    def release(self) -> None:
        for free in self.frees:
            if free.time != self.now:
                continue
            content = self.memory[free.tensor, free.tier]
            for unit in self.units(free):
                if unit in content:
                    del content[unit]
                else:
                    self.fault("free", self.now, None, free.tensor, free.tier)

    # -- starts --------------------------------------------------------------------------------

    def begin(self, starting: list[Running]) -> None:
        moving = [
            self.load(position, copy)
            for position, copy in enumerate(self.copies)
            if copy.start == self.now < copy.end and copy.src != copy.dst
        ]
        for transfer in moving:
            content = self.memory[transfer.copy.tensor, transfer.copy.dst]
            for unit in transfer.units:
                content[unit] = STALE
        for running in starting:
            for t in self.graph.ops[running.run.op].writes:
                for tier in self.tiers:
                    for unit in self.memory[t, tier]:
                        self.memory[t, tier][unit] = STALE
                for unit in self.all_units(t):
                    self.memory[t, self.write_tier(running, t)][unit] = STALE
        for running in starting:
            op = running.run.op
            for other in starting:
                if other is running:
                    continue
                for t in set(self.graph.ops[op].reads) & set(self.graph.ops[other.run.op].writes):
                    running.tiers[t] = []
                    self.fault("read", self.now, op, t)
        self.running += starting
        self.transfers += moving

    def load(self, position: int, copy: Copy) -> Transfer:
        content = self.content(copy)
        if content == STALE:
            self.fault("copy-source", self.now, None, copy.tensor, copy.src)
        if self.straddles(copy) and content != self.last_version(copy.tensor):
            self.useless.add(position)
        return Transfer(position, copy, self.units(copy), self.now, copy.end, content)

    def content(self, copy: Copy) -> int:
        """Return the one version that the source holds on the whole range, or `STALE`."""
        memory = self.memory[copy.tensor, copy.src]
        found = {memory.get(unit, STALE) for unit in self.units(copy)}
        return found.pop() if len(found) == 1 else STALE

    # -- what is under way: does it still find what it needs? ----------------------------------

    def look_around(self) -> None:
        for running in self.running:
            op = self.graph.ops[running.run.op]
            if self.graph.accounting is Accounting.COEXIST:
                for t in set(op.reads) - set(op.writes):
                    self.keep_reading(running, t)
            for t in op.writes:
                self.keep_writing(running, t)
        for transfer in self.transfers:
            self.keep_copying(transfer)

    def keep_reading(self, running: Running, tensor: int) -> None:
        op = running.run.op
        version = self.version(op, tensor)
        tiers = [x for x in running.tiers[tensor] if self.holds(tensor, x, version)]
        running.tiers[tensor] = tiers
        if not tiers:
            self.fault("read", self.now, op, tensor)

    def keep_writing(self, running: Running, tensor: int) -> None:
        op, tier = running.run.op, self.write_tier(running, tensor)
        freed = set(self.all_units(tensor)) - set(self.memory[tensor, tier])
        rivals = [
            other
            for other in self.running
            if other is not running and tensor in self.graph.ops[other.run.op].writes
        ]
        landing = [
            x for x in self.transfers if x.copy.tensor == tensor and x.copy.dst == tier and not x.target_lost
        ]
        order = self.running.index
        overwritten = any(order(other) > order(running) for other in rivals)
        if freed or overwritten or any(x.started > running.run.start for x in landing):
            running.spoilt.add(tensor)
        if freed or rivals or landing:
            self.fault("write-conflict", self.now, op, tensor, tier)

    def keep_copying(self, transfer: Transfer) -> None:
        copy = transfer.copy
        t = copy.tensor
        source, target = self.memory[t, copy.src], self.memory[t, copy.dst]
        if transfer.head:
            source_lost = any(unit not in source for unit in transfer.units)
        else:
            source_lost = any(source.get(unit) != transfer.content for unit in transfer.units)
        transfer.target_lost |= any(unit not in target for unit in transfer.units)
        clash = False
        for other in self.transfers:
            same = other is not transfer and other.copy.tensor == t
            if same and set(other.units) & set(transfer.units):
                source_lost |= other.copy.dst == copy.src
                clash |= other.copy.dst == copy.dst and not other.target_lost
        for running in self.running:
            if t in self.graph.ops[running.run.op].writes:
                source_lost = True
                transfer.target_lost |= running.run.start >= transfer.started
        if source_lost:
            self.fault("copy-source", self.now, None, t, copy.src)
        if transfer.target_lost or clash:
            self.fault("copy-target", self.now, None, t, copy.dst)
        if source_lost or transfer.target_lost or clash or transfer.content == STALE:
            transfer.broken = True
            if self.straddles(copy):
                self.useless.add(transfer.position)

    # -- the end -------------------------------------------------------------------------------

    def judge_end(self, first_state: dict[tuple[int, str], dict[int, int]]) -> None:
        for t, tensor in enumerate(self.graph.tensors):
            last = self.last_version(t)
            found = [{u for u, x in self.memory[t, k].items() if x == last} for k in self.tiers]
            if tensor.final and not set(self.all_units(t)) <= set().union(*found):
                self.fault("final", self.now, None, t)
            for tier in self.tiers if self.period is not None else []:
                now, then = self.memory[t, tier], first_state[t, tier]
                if tensor.initial and tensor.final:
                    same = now.keys() == then.keys() and all(
                        (now[unit] == last) == (then[unit] == 0) for unit in now
                    )
                elif tensor.initial:
                    same = now.keys() <= then.keys()
                else:
                    same = tensor.final or not now
                if not same:
                    self.fault("period", self.now, None, t, tier)
