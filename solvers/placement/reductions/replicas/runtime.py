"""A runtime of several GPUs whose commands meet on shared links: plans made apart become one of all.

Each lane comes with a plan for itself, made as if nobody else were there. The runtime knows its commands
(runs, copies, releases) and their order, not its times (`commands`). A command waits for those at the same
tensors that had ended when it began in the plan; a run also for the run before it, a copy until the runs have
begun that had begun before it. Runs, and copies into the lane's memory, then wait for room there: copies in
the order of the plan, and runs may overtake copies. A copy asks for its channel and for the groups that the
channel is in, and is carried at the least of their rates, in one piece, as soon as that much is free, but not
before others that ask for the same and come first:

``fifo``
    who asked first;
``turn``
    the first lane, then who asked first;
``token``
    as ``fifo``, but only the lane that holds the *token* copies out of its memory, and it copies nothing
    in meanwhile. It takes the token with a copy and gives it back when no other copy of its waits.

Room is counted as it is taken, so no lane takes more than it has, and what happens to a tensor happens in the
order of the plan. Where lanes stand still (runs have overtaken a copy on which the releases depend that they
need), where an outer tier has a capacity, and under the accounting ``replace``, where a release may have to
come with the start of a run, the runtime is *strict*: a command waits for all commands of its lane that had
ended when it began in the plan, and for nothing else.

**Lemma.** What fits into a lane's own memory in its plan fits when the strict runtime has carried it out, and
it never stands still.

*Proof.* At any moment let S be the commands that have begun, e the last of these to begin in the plan, at
time x of the plan. Commands that ended by x in the plan are over, for e waited for them: all releases up to x
have happened. Everything in S began by x in the plan. So what is allocated now was allocated at x in the
plan, or has been released since. A run under way now was under way at x: it began by then, and had it ended
by then it were over. So its workspace was counted too. Of the commands that have not begun, the first one in
the plan waits for none of the others. (Barriers and what is exchanged make lanes wait for others, from one
barrier to the next, and for one piece after the other: of what has not begun before the first barrier that a
lane has not passed, something can.) QED. An outer tier of finite capacity holds all lanes if the plans are
those of a G-th of it (`share`). The last word has the verifier.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .....models.graph import Accounting
from .....models.machine import Machine
from .....models.plan import Copy, Free, Plan, Run
from .....models.units import SECOND
from .commands import Command, History, commands
from .share import Replicas

RULES = ("fifo", "turn", "token")


def carry_out(split: Replicas, plans: Sequence[Plan], rule: str = "fifo", *, strict: bool = False) -> Plan:
    """Return the plan of all lanes that the runtime makes of one plan each; single runs only.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> from lowtide.solvers.placement.reductions.replicas.share import replicas
    >>> spec = "gen:skipchain?n=8,seed=1,machine=v100x4-16g-shared-pcie3,device=450MB,start=device,replicas=2"
    >>> problem = load_problem("placement", spec)
    >>> split = replicas(problem)
    >>> one = lt.solve(split.alone, "belady")
    >>> times = [problem.judge(carry_out(split, [one.plan] * 2, rule)).objective for rule in RULES]
    >>> min(times) >= one.objective
    True
    """
    together = split.spread(plans)
    graph = split.problem.graph
    plain = all(len(op.all_modes) == 1 and not op.all_modes[0].operands for op in graph.ops)
    if not strict and split.roomy and plain and graph.accounting is Accounting.COEXIST:
        done = _Runtime(split, together, rule, strict=False).run()
        if done is not None:
            return done
    done = _Runtime(split, together, rule, strict=True).run()
    assert done is not None, "a strict runtime never stands still"
    return done


@dataclass(frozen=True)
class _Link:
    """What a copy needs: channel and groups, its rate, its latency in ns."""

    needs: tuple[str, ...]
    rate: int
    latency: int


class _Runtime:
    def __init__(self, split: Replicas, plan: Plan, rule: str, *, strict: bool) -> None:
        self.plan, self.rule = plan, rule
        self.sizes = [t.nbytes for t in split.problem.graph.tensors]
        self.homes = [lane.device for lane in split.lanes]
        capacity = split.alone.machine.tiers[0].capacity
        self.limits, self.links = _links(split.problem.machine)
        self.load = dict.fromkeys(self.limits, 0)
        self.commands, self.used = commands(split, plan, strict=strict)
        self.capacity = sum(self.sizes) * 2 if capacity is None else capacity
        self.there: dict[History, set[int]] = {}
        self.through: dict[History, int] = {}
        self.waiting: dict[History, list[tuple[int, int]]] = {}
        self.missing = [0] * len(self.commands)
        self.ready: deque[Command] = deque()
        self.roomless: list[list[Command]] = [[] for _ in self.homes]
        self.asking: list[Command] = []
        self.under_way: list[tuple[int, int]] = []
        self.done: list[Run | Copy | Free] = []
        self.holder: int | None = None
        self.now = 0
        for command in self.commands:
            for history, count in command.waits.items():
                if count:
                    self.missing[command.number] += 1
                    heapq.heappush(self.waiting.setdefault(history, []), (count, command.number))
            if not self.missing[command.number]:
                self.ready.append(command)

    def run(self) -> Plan | None:
        """Return the plan; None if the lanes stand still."""
        while True:
            self._settle()
            if not self.under_way:
                break
            self.now = self.under_way[0][0]
            while self.under_way and self.under_way[0][0] == self.now:
                self._end(self.commands[heapq.heappop(self.under_way)[1]])
        if len(self.done) < len(self.commands):
            return None
        return replace(
            self.plan,
            runs=tuple(x for x in self.done if isinstance(x, Run)),
            copies=tuple(x for x in self.done if isinstance(x, Copy)),
            frees=tuple(x for x in self.done if isinstance(x, Free)),
        )

    def _settle(self) -> None:
        """Begin all that may begin now."""
        more = True
        while more:
            while self.ready:
                command = self.ready.popleft()
                what = command.what
                if isinstance(what, Free):
                    self.done.append(replace(what, time=self.now))
                    self._end(command)
                elif isinstance(what, Run) or command.takes:
                    self.roomless[command.lane].append(command)
                else:
                    self._ask(command)
            for lane in range(len(self.homes)):
                self._make_room(lane)
            more = bool(self.ready)
        self._dispatch()

    def _make_room(self, lane: int) -> None:
        """Give room to runs and copies that wait for it, in the order of the plan."""
        waiting = sorted(self.roomless[lane], key=lambda command: command.number)
        self.roomless[lane] = []
        full = False
        for command in waiting:
            what = command.what
            if (isinstance(what, Copy) and full) or self.used[lane] + command.takes > self.capacity:
                full = full or isinstance(what, Copy)
                self.roomless[lane].append(command)
                continue
            self.used[lane] += command.takes
            if isinstance(what, Run):
                self._begin(command, replace(what, start=self.now, end=self.now + what.end - what.start))
            else:
                self._ask(command)

    def _ask(self, command: Command) -> None:
        command.asked = (command.lane if self.rule == "turn" else 0, self.now, command.number)
        self.asking.append(command)

    def _dispatch(self) -> None:
        """Start the copies that have their rate now, in the order of the rule."""
        outs = [self.commands[number] for _, number in self.under_way] + self.asking
        if not any(command.lane == self.holder and self._leads_out(command) for command in outs):
            self.holder = None
        taken: set[str] = set()
        left = []
        for command in sorted(self.asking, key=lambda command: command.asked):
            what, out = command.what, self._leads_out(command)
            assert isinstance(what, Copy)
            link = self.links[what.src, what.dst]
            if self.rule == "token" and self._must_wait(command.lane, out):
                left.append(command)
                continue
            if any(name in taken or self.load[name] + link.rate > self.limits[name] for name in link.needs):
                taken.update(link.needs)
                left.append(command)
                continue
            for name in link.needs:
                self.load[name] += link.rate
            if self.rule == "token" and out:
                self.holder = command.lane
            low, high = what.bytes or (0, self.sizes[what.tensor])
            end = self.now + link.latency - (-(high - low) * SECOND // link.rate)
            self._begin(command, replace(what, start=self.now, end=end))
        self.asking = left

    def _leads_out(self, command: Command) -> bool:
        return isinstance(command.what, Copy) and command.what.src == self.homes[command.lane]

    def _must_wait(self, lane: int, out: bool) -> bool:
        """Whether a lane without the token asks to copy out, or the lane with it asks for something else."""
        return self.holder not in (None, lane) if out else self.holder == lane

    def _begin(self, command: Command, what: Run | Copy) -> None:
        self.done.append(what)
        heapq.heappush(self.under_way, (what.end, command.number))
        self._happened(command.begins)

    def _end(self, command: Command) -> None:
        what = command.what
        if isinstance(what, Copy):
            for name in self.links[what.src, what.dst].needs:
                self.load[name] -= self.links[what.src, what.dst].rate
        self.used[command.lane] -= command.gives
        self._happened(command.ends)

    def _happened(self, events: Mapping[History, int]) -> None:
        """Take note of events; what waited for the last of them is ready."""
        for history, place in events.items():
            there = self.there.setdefault(history, set())
            there.add(place)
            through = self.through.get(history, 0)
            while through in there:
                there.remove(through)
                through += 1
            self.through[history] = through
            waiting = self.waiting.get(history, [])
            while waiting and waiting[0][0] <= through:
                number = heapq.heappop(waiting)[1]
                self.missing[number] -= 1
                if not self.missing[number]:
                    self.ready.append(self.commands[number])


def _links(machine: Machine) -> tuple[dict[str, int], Mapping[tuple[str, str], _Link]]:
    """Return the limits of channels and groups by name, and what a copy on each channel needs."""
    limits = {f"{c.src}->{c.dst}": c.bytes_per_s for c in machine.channels}
    limits |= {f"group {g.name}": g.bytes_per_s for g in machine.groups}
    links = {}
    for c in machine.channels:
        groups = (f"group {g.name}" for g in machine.groups if (c.src, c.dst) in g.channels)
        needs = (f"{c.src}->{c.dst}", *groups)
        links[c.src, c.dst] = _Link(needs, min(limits[name] for name in needs), c.latency_ns)
    return limits, links
