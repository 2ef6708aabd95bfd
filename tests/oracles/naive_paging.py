"""A second run time in pages: the rules of the experiment `g10_run_time`, one page at a time.

Written from the rules in its module `run_time`: dictionaries and lists of pages, looked through anew for
every question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lowtide.models.graph import Graph
from lowtide.results.experiments.g10_run_time.run_time import PAGE, Faulted, Setting

Page = tuple[int, int]
AWAY = ("nowhere", "slow", "host")
KINDS = ("faults", "ahead", "leave")


@dataclass
class Naive:
    """The state; `hints` are (op, tensor, place), the place one of `AWAY` or "device"."""

    graph: Graph
    setting: Setting
    hints: list[tuple[int, int, str]]
    window: int = 0
    faulted: Faulted | None = None
    at: dict[Page, str] = field(default_factory=dict)
    arrivals: list[Page] = field(default_factory=list)
    queues: dict[tuple[str, str], list[Page]] = field(default_factory=dict)
    mark: Page | None = None
    forced: str | None = None
    op: int = 0
    hint: int = 0
    moved: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for t, tensor in enumerate(self.graph.tensors):
            for j in range(-(-tensor.nbytes // PAGE)):
                self.at[t, j] = "slow" if tensor.kind == "weight" else "nowhere"
        self.queues = {(kind, place): [] for kind in KINDS for place in AWAY}
        self.room = self.setting.device // PAGE
        self.host_room = self.setting.host // PAGE
        self.step = int(self.setting.batch * PAGE / (self.setting.rate / self.setting.clock))
        self.slow_pages = int(self.setting.batch / self.setting.rate * self.setting.slow_rate)
        self.new_pages = self.step // round(self.setting.allocation * PAGE * self.setting.clock / 1e6)

    # What is where

    def pages(self, t: int) -> list[Page]:
        return [(t, j) for j in range(-(-self.graph.tensors[t].nbytes // PAGE))]

    def uses(self, k: int) -> list[int]:
        op = self.graph.ops[k % len(self.graph.ops)]
        return list(dict.fromkeys((*op.reads, *op.writes)))

    def queued(self, page: Page) -> bool:
        return any(page in queue for queue in self.queues.values())

    def lives(self, t: int) -> bool:
        if self.graph.tensors[t].kind == "weight":
            return True
        ks = [k for k in range(len(self.graph.ops)) if t in self.uses(k)]
        reads = [k for k in ks if t in self.graph.ops[k].reads]
        return ks[0] <= self.op <= (reads[-1] if reads else ks[0])

    def on_host(self) -> int:
        return list(self.at.values()).count("host")

    def spared(self, page: Page) -> bool:
        return any(page[0] in self.uses(self.op + j) for j in range(self.window))

    def waits(self) -> bool:
        if any(self.queues["faults", place] for place in AWAY):
            return True
        return any(
            self.at[page] != "device" or self.queued(page)
            for t in self.uses(self.op)
            for page in self.pages(t)
        )

    # Rule 5

    def set_mark(self) -> None:
        passed = self.spared if self.window else self.queued
        self.mark = next((page for page in self.arrivals if not passed(page)), None)

    def forget(self, page: Page) -> None:
        self.arrivals.remove(page)
        if page == self.mark:
            self.mark = self.arrivals[0] if self.arrivals else None

    def leaver(self, urgent: bool) -> Page | None:
        def first(pages: list[Page]) -> Page | None:
            return next((page for page in pages if not self.queued(page)), None)

        behind = self.arrivals[self.arrivals.index(self.mark) :] if self.mark else []
        if self.window and urgent:
            found = first(self.arrivals)
            if found != self.mark:
                return found
        elif self.window:
            found = next((page for page in behind if not self.spared(page)), None)
        else:
            found = first(behind) or first(self.arrivals)
        if found is None:
            self.mark = None
            return None
        after = self.arrivals[self.arrivals.index(found) + 1 :]
        self.mark = after[0] if after else None
        return found

    # Rule 4

    def may_come(self) -> bool:
        if len(self.arrivals) < self.room:
            return True
        if self.out["slow"] + self.out["host"] >= self.setting.batch:
            return False
        return self.on_host() < self.host_room or self.out["slow"] < self.slow_pages

    def count(self, what: str) -> None:
        self.moved[what] = self.moved.get(what, 0) + 1

    def leave(self, page: Page, to: str) -> None:
        if to != "nowhere":
            self.out[to] += 1
        self.count(f"to {to}")
        self.at[page] = to
        if to == "host" and (self.out["host"] == self.setting.batch or self.on_host() == self.host_room):
            self.forced = "slow"
        if to == "slow" and self.out["slow"] == self.slow_pages:
            self.forced = "host"
        if page[0] in self.uses(self.op):
            self.queues["faults", to].append(page)
        self.forget(page)

    def come(self, page: Page, fault: bool) -> bool:
        if len(self.arrivals) == self.room:
            gone = self.leaver(fault or page[0] in self.uses(self.op))
            if gone is None:
                return False
            to = "host"
            if self.window and not self.lives(gone[0]):
                to = "nowhere"
            elif self.forced:
                to = self.forced
            self.leave(gone, to)
        if self.at[page] == "host" and self.forced == "slow":
            self.forced = None
        self.count(f"from {self.at[page]}")
        self.at[page] = "device"
        self.arrivals.append(page)
        return True

    def serve(self, kind: str, place: str, fault: bool) -> bool:
        """Serve a queue; return whether it could (else what is ahead waits)."""
        queue = self.queues[kind, place]
        limit = self.slow_pages if place == "slow" else self.setting.batch
        while queue and self.may_come():
            if (fault or place == "nowhere") and self.new >= self.new_pages:
                break
            if place != "nowhere" and (
                self.into[place] == limit or sum(self.into.values()) == self.setting.batch
            ):
                break
            page = queue[0]
            if fault:
                queue.pop(0)
            if not self.come(page, fault):
                return False
            if not fault:
                queue.pop(0)
            self.new += 1
            if place != "nowhere":
                self.into[place] += 1
        return True

    def batch(self, waiting: bool) -> None:
        self.out, self.into, self.new = {"slow": 0, "host": 0}, {"slow": 0, "host": 0}, 0
        self.forced = "slow" if self.on_host() == self.host_room else None
        for place in ("slow", "host"):
            queue = self.queues["leave", place]
            while queue and sum(self.out.values()) < self.setting.batch:
                if place == "slow" or self.on_host() == self.host_room:
                    if self.out["slow"] == self.slow_pages:
                        break
                elif self.out["host"] == self.setting.batch:
                    break
                page = queue.pop(0)
                self.leave(page, self.forced or place)
        for place in ("slow", "host", "nowhere"):
            self.serve("faults", place, True)
        if self.serve("ahead", "slow", False):
            self.serve("ahead", "host", False)
        self.serve("ahead", "nowhere", False)
        still = not sum(self.out.values()) and not sum(self.into.values())
        if self.window and waiting and still and self.waits():
            for place in ("slow", "host", "nowhere"):
                self.serve("ahead", place, True)

    # Rules 1 to 3

    def follow(self) -> None:
        for _ in self.hints:
            k, t, to = self.hints[self.hint]
            if k != self.op:
                break
            self.hint = (self.hint + 1) % len(self.hints)
            for page in self.pages(t):
                if self.queued(page):
                    continue
                here = self.at[page]
                if to == "device" and here != "device":
                    self.queues["ahead", here].append(page)
                elif to in ("slow", "host") and here == "device":
                    self.queues["leave", to].append(page)
                elif to == "nowhere":
                    if here == "device":
                        self.forget(page)
                    if here in ("device", "host"):
                        self.count(f"dropped from {here}")
                    self.at[page] = "nowhere"

    def fault_cycles(self) -> int:
        op, setting = self.graph.ops[self.op], self.setting
        sizes, missing = [0, 0], [dict.fromkeys(AWAY, 0), dict.fromkeys(AWAY, 0)]
        for t in self.uses(self.op):
            row = 0 if t in op.reads else 1
            for page in self.pages(t):
                sizes[row] += PAGE
                if self.at[page] != "device" and not self.queued(page):
                    missing[row][self.at[page]] += PAGE
                    self.queues["faults", self.at[page]].append(page)
        times = [round(op.duration_ns * setting.clock / 1e9)]
        if self.faulted is not None:
            times += [int(row[self.op]) * setting.clock // 10**6 for row in self.faulted]
        spent = [1e3 * (t / setting.clock if setting.measured else t // setting.clock) for t in times]  # ms
        none, reads, every = spent[0], max(spent[:2]), max(spent)
        link, slow = setting.rate / 1e3, setting.slow_rate / 1e3
        lengths = (every - reads, reads - none)
        rates = [math.inf if ms == 0 else z / ms for z, ms in zip(sizes, lengths, strict=True)]
        part = setting.fault_us / (setting.fault_us + setting.slow_us)
        slow_rates = [min(rate * part, slow) for rate in rates]
        used = max((r for r, lost in zip(slow_rates, missing, strict=True) if lost["slow"]), default=0.0)
        slow_ms = sum(lost["slow"] / r for r, lost in zip(slow_rates, missing, strict=True) if lost["slow"])
        if any(z == 0 and ms > 0 for z, ms in zip(sizes, lengths, strict=True)):
            return int(slow_ms * (setting.clock / 1e3))
        if used >= link and any(lost["nowhere"] + lost["host"] for lost in missing):
            return 0
        fast_ms = 0.0
        for rate, lost in zip(rates, missing, strict=True):
            if fast := lost["nowhere"] + lost["host"]:
                fast_ms += fast / min(rate, link - used)
        return int(max(slow_ms, fast_ms) * (setting.clock / 1e3))

    def carry_out(self) -> list[list[int]]:
        """Return when the ops of each iteration end, in cycles."""
        due, next_batch, tie, ends = 0, 0, False, []
        for _ in range(self.setting.iterations):
            row = []
            for k, op in enumerate(self.graph.ops):
                next_batch = self.until(due, next_batch, tie)
                self.op = k
                self.set_mark()
                self.follow()
                takes = round(op.duration_ns * self.setting.clock / 1e9)
                if self.waits():
                    takes += self.fault_cycles()
                    while True:
                        now = next_batch
                        self.batch(True)
                        next_batch += self.step
                        if not self.waits():
                            break
                    takes = max(takes, now - due)
                    self.set_mark()
                due += takes
                tie = due == next_batch  # that batch was there before
                row.append(due)
            ends.append(row)
        self.until(due, next_batch, tie)
        return ends

    def until(self, due: int, next_batch: int, tie: bool) -> int:
        """Carry out the batches before an op is due; return the time of the next one."""
        while next_batch < due or (tie and next_batch == due):
            before = dict(self.moved)
            self.batch(False)
            steps = 1 if self.moved != before else max(1, -((next_batch - due) // self.step))
            next_batch += steps * self.step
        return next_batch
