"""Random valid plans, grown forwards in time by a scheduler that only takes steps it may take.

It knows nothing of the verifier or of the naive simulator: it keeps its own memory and locks, so that
its plans are a third opinion of what is valid.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from lowtide.models.graph import Mode
from lowtide.models.machine import Processor
from lowtide.models.plan import Copy, Free, Run
from tests.oracles.random_state import STALE, Walk


class Stuck(Exception):
    """The random walk met a dead end; draw another plan."""


class Scheduler(Walk):
    """The random walk; `grow` runs it to the end."""

    # -- the walk ------------------------------------------------------------------------------

    def grow(self) -> None:
        for _ in range(300):
            self.settle()
            self.copy_at_once()
            if not self.pending and not self.active and self.rng.random() < 0.8:
                break
            if self.recompute and self.rng.random() < 0.3:
                self.forget()
            if self.replace:
                chosen = self.choose_runs()
                self.drop_things()
                for run in chosen:
                    self.launch(run)
            else:
                self.drop_things()
                for run in self.choose_runs():
                    self.launch(run)
            self.make_copies()
            self.advance()
        else:
            raise Stuck
        self.wait()
        if not self.periodic:
            self.drop_things()

    def wait(self) -> None:
        """Let time pass until nothing is under way."""
        while self.locks or self.arrivals:
            self.advance()
            self.settle()

    def settle(self) -> None:
        for arrival in [x for x in self.arrivals if x[0] <= self.now]:
            self.arrivals.remove(arrival)
            _, t, tier, units, version = arrival
            self.memory[t, tier].update(dict.fromkeys(units, version))
        for pair in [x for x in self.active if x[0].end <= self.now]:
            self.active.remove(pair)
            self.done.add(pair[0].op)
        self.locks = [x for x in self.locks if x[3] > self.now]

    def advance(self) -> None:
        times = [run.end for run, _ in self.active] + [x[0] for x in self.arrivals]
        step = self.rng.randint(1, 2)
        if times and self.rng.random() < 0.7:
            step = min(times) - self.now
        self.now += step

    # -- runs ----------------------------------------------------------------------------------

    def choose_runs(self) -> list[Run]:
        """Choose runs to start now; in coexist each is entered at once, so that later ones see it."""
        chosen: list[Run] = []
        for i in self.rng.sample(sorted(self.pending), len(self.pending)):
            if self.rng.random() < 0.2 or not self.is_ready(i, chosen):
                continue
            busy = {run.processor for run, _ in self.active} | {run.processor for run in chosen}
            for m, mode, processor in self.ways(i):
                reads = self.best_tiers(i, mode, processor)
                targets = {(t, self.write_tier(mode, processor, t)) for t in self.graph.ops[i].writes}
                if processor.name in busy or reads is None or targets & self.frozen:
                    continue
                length = mode.duration_ns + self.extra(i, mode, processor, reads)
                run = Run(i, m, self.now, self.now + length, processor.name)
                chosen.append(run)
                self.pending.discard(i)
                if not self.replace:
                    for t in set(self.graph.ops[i].reads) - set(self.graph.ops[i].writes):
                        self.locks.append((t, reads[t], self.units(t), run.end))
                break
        return chosen

    def is_ready(self, i: int, chosen: list[Run]) -> bool:
        op = self.graph.ops[i]
        if i not in self.done and any(a not in self.done for a, b in self.precedes if b == i):
            return False
        for run in chosen:
            other = self.graph.ops[run.op]
            if set(other.writes) & {*op.reads, *op.writes} or set(other.reads) & set(op.writes):
                return False
        for t in op.writes:
            if self.is_locked(t, None, self.units(t)) or self.is_being_written(t):
                return False
            mine = self.version(i, t) + 1
            if i in self.done and any(
                content > mine for x in self.tiers for content in self.memory[t, x].values()
            ):
                return False
            for j in self.pending - {i}:
                waiting = self.graph.ops[j]
                if t in waiting.reads and self.version(j, t) < mine:
                    return False
                if j in self.done and t in waiting.writes:
                    return False
        return True

    def ways(self, i: int) -> list[tuple[int, Mode, Processor]]:
        """Return the modes and processors that can run the op, in random order."""
        found = []
        for m, mode in enumerate(self.graph.ops[i].all_modes):
            for processor in self.machine.processors:
                kind = not mode.processors or processor.kind in mode.processors
                near = {access.tier for access in processor.tiers}
                if kind and near >= {tier for _, tier in mode.operands}:
                    found.append((m, mode, processor))
        return self.rng.sample(found, len(found))

    def best_tiers(self, i: int, mode: Mode, processor: Processor) -> dict[int, str] | None:
        """Return the tier that each read is served from, or None."""
        best = {}
        named = dict(mode.operands)
        for t in self.graph.ops[i].reads:
            served = [
                (float("-inf") if access.bytes_per_s is None else -access.bytes_per_s, k)
                for k, access in enumerate(processor.tiers)
                if named.get(t, access.tier) == access.tier and self.whole(t, access.tier, self.version(i, t))
            ]
            if not served:
                return None
            best[t] = processor.tiers[min(served)[1]].tier
        return best

    def extra(self, i: int, mode: Mode, processor: Processor, reads: dict[int, str]) -> int:
        touched = set(reads.items())
        touched |= {(t, self.write_tier(mode, processor, t)) for t in self.graph.ops[i].writes}
        total = Fraction(0)
        for access in processor.tiers:
            nbytes = sum(self.graph.tensors[t].nbytes for t, x in touched if x == access.tier)
            if access.bytes_per_s is not None:
                total += Fraction(nbytes * 10**9, access.bytes_per_s)
        return ceil(total)

    def write_tier(self, mode: Mode, processor: Processor, t: int) -> str:
        return dict(mode.operands).get(t, processor.tiers[0].tier)

    def launch(self, run: Run) -> None:
        op = self.graph.ops[run.op]
        mode = op.all_modes[run.mode]
        processor = next(p for p in self.machine.processors if p.name == run.processor)
        for t in op.writes:
            tier = self.write_tier(mode, processor, t)
            for x in self.tiers:
                self.memory[t, x] = dict.fromkeys(self.memory[t, x], STALE)
            self.memory[t, tier] = dict.fromkeys(self.units(t), STALE)
            self.locks.append((t, tier, self.units(t), run.end))
            self.arrivals.append((run.end, t, tier, self.units(t), self.version(run.op, t) + 1))
        self.active.append((run, mode))
        self.runs.append(run)

    # -- frees ---------------------------------------------------------------------------------

    def drop_things(self) -> None:
        places = [place for place, content in self.memory.items() if content]
        for t, tier in self.rng.sample(places, len(places)):
            if (t, tier) in self.frozen or self.rng.random() < 0.4:
                continue
            kept = {
                unit
                for unit, content in self.memory[t, tier].items()
                if self.is_locked(t, tier, range(unit, unit + 1)) or not self.may_drop(t, tier, content)
            }
            for units in list(self.stretches(t, set(self.memory[t, tier]) - kept)):
                self.drop(t, tier, self.part(units))

    def may_drop(self, t: int, tier: str, content: int) -> bool:
        if content == STALE or not self.needed(t, content):
            return True
        return any(self.whole(t, x, content) for x in self.tiers if x != tier)

    def drop(self, t: int, tier: str, units: range, time: int | None = None) -> None:
        for unit in units:
            del self.memory[t, tier][unit]
        time = self.now if time is None else time
        self.frees.append(Free(t, tier, time, self.byte_range(t, units)))

    def forget(self) -> None:
        """Drop what an op computed, or keep it, and run the op again."""
        for k in self.rng.sample(sorted(self.done), len(self.done)):
            op = self.graph.ops[k]
            if k in self.pending or set(op.reads) & set(op.writes) or len(self.runs) > 14:
                continue
            there = all(any(self.whole(t, x, self.version(k, t)) for x in self.tiers) for t in op.reads)
            if not there or any(self.is_being_written(t) for t in (*op.reads, *op.writes)):
                continue
            if any(
                content not in (STALE, self.version(k, t) + 1)
                for t in op.writes
                for x in self.tiers
                for content in self.memory[t, x].values()
            ) or any(self.is_locked(t, None, self.units(t)) for t in op.writes):
                continue
            if any(set(op.writes) & set(self.graph.ops[j].writes) for j in self.pending & self.done):
                continue
            for t in op.writes if self.rng.random() < 0.7 else ():
                for tier in self.tiers:
                    for units in list(self.stretches(t, set(self.memory[t, tier]))):
                        self.drop(t, tier, units)
            self.pending.add(k)
            return

    # -- copies --------------------------------------------------------------------------------

    def copy_at_once(self) -> None:
        """Copy tensors without bytes over channels without latency, in no time."""
        for (t, src), content in sorted(self.memory.items()):
            dst = self.rng.choice(self.tiers)
            free_of_charge = self.latency.get((src, dst)) == 0 and not self.graph.tensors[t].nbytes
            if not free_of_charge or content.get(0, STALE) == STALE or self.rng.random() < 0.8:
                continue
            target = self.memory[t, dst]
            taken = self.is_locked(t, dst, self.units(t)) and target.get(0, STALE) == STALE
            if not taken and (t, dst) not in self.frozen:
                target[0] = content[0]
                self.copies.append(Copy(t, src, dst, self.now, self.now, self.byte_range(t, range(1))))

    def make_copies(self) -> None:
        for t, src in self.rng.sample(sorted(self.memory), len(self.memory)):
            if self.rng.random() < 0.5 or self.is_being_written(t):
                continue
            wanted = [x for x in self.tiers if (src, x) in self.latency]
            if not wanted:
                continue
            dst = self.rng.choice(wanted)
            if (t, dst) in self.frozen or (self.rng.random() < 0.6 and not self.helps(t, src, dst)):
                continue
            valid = {u for u, content in self.memory[t, src].items() if content != STALE}
            for units in list(self.stretches(t, valid))[:2]:
                piece = self.part(units)
                spoils = any(self.memory[t, dst].get(u, STALE) != STALE for u in piece)
                if self.is_locked(t, dst, piece) or (spoils and self.rng.random() < 0.7):
                    continue
                self.enter(self.copy(t, src, dst, piece, self.now), piece)

    def helps(self, t: int, src: str, dst: str) -> bool:
        """Is it all in one tier, still needed and not yet in the other?"""
        content = self.memory[t, src].get(0, STALE)
        there = content != STALE and self.whole(t, src, content) and self.needed(t, content)
        return there and not self.whole(t, dst, content)

    def copy(self, t: int, src: str, dst: str, units: range, start: int) -> Copy:
        latency = self.latency[src, dst]
        least = 0 if latency and not self.graph.tensors[t].nbytes else 1
        end = start + latency + least + self.rng.choice((0, 0, 1, 2, 3))
        return Copy(t, src, dst, start, end, self.byte_range(t, units))

    def enter(self, copy: Copy, units: range) -> None:
        t = copy.tensor
        version = self.memory[t, copy.src][units.start]
        self.memory[t, copy.dst].update(dict.fromkeys(units, STALE))
        self.move(t, copy.src, copy.dst, units, copy.end, version)
        self.copies.append(copy)
