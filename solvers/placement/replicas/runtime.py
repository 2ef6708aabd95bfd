"""A runtime of several GPUs whose commands meet on shared links: plans made apart become one of all.

Each lane comes with a plan for itself, made as if nobody else were there. The runtime knows its commands
(runs, copies, releases) and their order, not its times: a command waits for those of its lane that had ended
when it began in the plan. Then a run starts, a release happens, and a copy asks for its channel and the
groups that the channel is in. It is carried at the least of their rates, in one piece, as soon as that much
is free, but not before others that ask for the same and come first:

``fifo``
    who asked first;
``turn``
    the first lane, then who asked first;
``token``
    as ``fifo``, but only the lane that holds the *token* copies out of its memory, and it copies nothing
    in meanwhile. It takes the token with a copy and gives it back when no other copy of its waits.

**Lemma.** What fits into a lane's own memory in its plan fits when the runtime has carried it out.

*Proof.* At any moment let S be the commands that have begun, e the last of these to begin in the plan, at
time x of the plan. Commands that ended by x in the plan are over, for e waited for them: all releases up to x
have happened. Everything in S began by x in the plan. So what is allocated now was allocated at x in the
plan, or has been released since. A run under way now was under way at x: it began by then, and had it ended
by then it were over. So its workspace was counted too. QED. The argument takes no notice of what lanes share:
an outer tier of finite capacity holds all of them if the plans are those of a G-th of it (`share`). The last
word has the verifier.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....models.machine import Machine
from ....models.plan import Copy, Free, Plan, Run
from .share import Replicas

SECOND = 10**9
RULES = ("fifo", "turn", "token")


@dataclass(eq=False)
class _Command:
    """A command of a lane, and how many of the lane's ends it waits for; `place`: which end its own is."""

    lane: int
    what: Run | Copy | Free
    waits: int = 0
    place: int = 0
    asked: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class _Link:
    """What a copy needs: resources with their rates, its own rate, and its latency in ns."""

    needs: tuple[str, ...]
    rate: int
    latency: int


def carry_out(found: Replicas, plans: Sequence[Plan], rule: str = "fifo") -> Plan:
    """Return the plan of all lanes that the runtime makes of one plan each; single runs only.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> from lowtide.solvers.placement.replicas.share import replicas
    >>> spec = "gen:skipchain?n=8,seed=1,machine=v100x4-16g-shared-pcie3,device=450MB,start=device,replicas=2"
    >>> problem = load_problem("placement", spec)
    >>> found = replicas(problem)
    >>> one = lt.solve(found.alone, "belady")
    >>> times = [problem.judge(carry_out(found, [one.plan] * 2, rule)).objective for rule in RULES]
    >>> min(times) >= one.objective
    True
    """
    return _Runtime(found, plans, rule).run()


class _Runtime:
    def __init__(self, found: Replicas, plans: Sequence[Plan], rule: str) -> None:
        self.problem, self.rule = found.problem, rule
        self.together = found.spread(plans)
        self.homes = [lane.device for lane in found.lanes]
        self.limits, self.links = _links(self.problem.machine)
        self.used = dict.fromkeys(self.limits, 0)
        self.commands = _commands(found, self.together)
        self.following = [0] * len(plans)
        self.over: list[list[bool]] = [[False] * len(some) for some in self.commands]
        self.through = [0] * len(plans)
        self.asking: list[_Command] = []
        self.under_way: list[tuple[int, int, int, _Command]] = []
        self.done: list[Run | Copy | Free] = []
        self.holder: int | None = None
        self.count = self.now = 0

    def run(self) -> Plan:
        """Return the plan."""
        while True:
            for lane in range(len(self.commands)):
                self._release(lane)
            self._dispatch()
            if not self.under_way:
                break
            self.now = self.under_way[0][0]
            while self.under_way and self.under_way[0][0] == self.now:
                self._end(heapq.heappop(self.under_way)[3])
        return replace(
            self.together,
            runs=tuple(x for x in self.done if isinstance(x, Run)),
            copies=tuple(x for x in self.done if isinstance(x, Copy)),
            frees=tuple(x for x in self.done if isinstance(x, Free)),
        )

    def _release(self, lane: int) -> None:
        """Begin what waits for nothing any more; copies ask for their link."""
        some = self.commands[lane]
        while self.following[lane] < len(some):
            command = some[self.following[lane]]
            if command.waits > self.through[lane]:
                return
            self.following[lane] += 1
            what = command.what
            if isinstance(what, Copy):
                first = lane if self.rule == "turn" else 0
                command.asked = (first, self.now, self.count)
                self.count += 1
                self.asking.append(command)
            elif isinstance(what, Run):
                self._start(command, replace(what, start=self.now, end=self.now + what.end - what.start))
            else:
                self.done.append(replace(what, time=self.now))
                self._through(command)

    def _dispatch(self) -> None:
        """Start the copies that have their rate now, in the order of the rule."""
        taken: set[str] = set()
        self.asking.sort(key=lambda command: command.asked)
        left = []
        for command in self.asking:
            what = command.what
            assert isinstance(what, Copy)
            link, home = self.links[what.src, what.dst], self.homes[command.lane]
            out = what.src == home
            if self.rule == "token" and self._must_wait(command.lane, out):
                left.append(command)
                continue
            free = all(
                name not in taken and self.used[name] + link.rate <= self.limits[name] for name in link.needs
            )
            if not free:
                taken.update(link.needs)
                left.append(command)
                continue
            for name in link.needs:
                self.used[name] += link.rate
            if self.rule == "token" and out:
                self.holder = command.lane
            low, high = what.bytes or (0, self.problem.graph.tensors[what.tensor].nbytes)
            end = self.now + link.latency - (-(high - low) * SECOND // link.rate)
            self._start(command, replace(what, start=self.now, end=end))
        self.asking = left

    def _must_wait(self, lane: int, out: bool) -> bool:
        """Whether a lane without the token asks to copy out, or the lane with it asks for something else."""
        return self.holder not in (None, lane) if out else self.holder == lane

    def _start(self, command: _Command, what: Run | Copy) -> None:
        self.done.append(what)
        heapq.heappush(self.under_way, (what.end, command.lane, command.place, command))

    def _end(self, command: _Command) -> None:
        what, lane = command.what, command.lane
        if isinstance(what, Copy):
            link = self.links[what.src, what.dst]
            for name in link.needs:
                self.used[name] -= link.rate
        self._through(command)
        if self.holder == lane and isinstance(what, Copy) and what.src == self.homes[lane]:
            self._release(lane)
            busy = [x for *_, x in self.under_way] + self.asking
            if not any(x.lane == lane and isinstance(x.what, Copy) and x.what.src == what.src for x in busy):
                self.holder = None

    def _through(self, command: _Command) -> None:
        over = self.over[command.lane]
        over[command.place] = True
        while self.through[command.lane] < len(over) and over[self.through[command.lane]]:
            self.through[command.lane] += 1


def _links(machine: Machine) -> tuple[dict[str, int], Mapping[tuple[str, str], _Link]]:
    """Return the limits of channels and groups by name, and what a copy on each channel needs."""
    limits = {f"{c.src}->{c.dst}": c.bytes_per_s for c in machine.channels}
    limits |= {f"group {g.name}": g.bytes_per_s for g in machine.groups}
    links = {}
    for c in machine.channels:
        needs = (
            f"{c.src}->{c.dst}",
            *(f"group {g.name}" for g in machine.groups if (c.src, c.dst) in g.channels),
        )
        links[c.src, c.dst] = _Link(needs, min(limits[name] for name in needs), c.latency_ns)
    return limits, links


def _commands(found: Replicas, plan: Plan) -> list[list[_Command]]:
    """Return the commands of each lane in the order of their beginnings, with how many ends they wait for.

    What takes no time begins behind the ends of its instant and before the beginnings; releases go last.
    """
    by_processor = {lane.processor: g for g, lane in enumerate(found.lanes)}
    owner = {t: g for g, lane in enumerate(found.lanes) for t in lane.tensors}
    events: list[tuple[int, int, int, int, _Command]] = []
    some: tuple[Run | Copy | Free, ...] = (*plan.runs, *plan.copies, *plan.frees)
    for number, what in enumerate(some):
        lane = by_processor[what.processor] if isinstance(what, Run) else owner[what.tensor]
        command = _Command(lane, what)
        begin, end = (what.time, what.time) if isinstance(what, Free) else (what.start, what.end)
        if begin == end:
            events.append((begin, 1, int(isinstance(what, Free)), number, command))
        else:
            events += [(begin, 2, 0, number, command), (end, 0, 0, number, command)]
    found_commands: list[list[_Command]] = [[] for _ in found.lanes]
    ends = [0] * len(found.lanes)
    for _, phase, _, _, command in sorted(events, key=lambda event: event[:4]):
        if phase:
            command.waits = ends[command.lane]
            found_commands[command.lane].append(command)
        if phase < 2:
            command.place = ends[command.lane]
            ends[command.lane] += 1
    return found_commands
