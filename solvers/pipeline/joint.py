r"""Partition, recomputation and schedule of a training step together, within the devices' memories.

`joint_plan` looks at stages that are best for a number :math:`\phi_s` of micro-batches under way on stage s,
for several such profiles: those of 1F1B, GPipe, ZB-H2, and k everywhere. With the least time of B and W of
layers i + 1, …, j within

.. math:: \sum \sigma + \max u + \phi_s \sum a \le M

(ways exchanged in the order of time for a byte, until it holds; or in one go), the dynamic program over cuts
finds the least :math:`\max_s \max(H + m \sum (f + b + w), H + m \sum (f + b) + D)`, rows 1 and 2 of
`lowtide.formulations.pipeline.joint_bound`. All published schedules of these stages are timed, and those of
devices that run B before F before W as soon as they can. The best are improved while another
cut, other choices of a stage, or another way of a layer help; then `auto` of problem `pipeline` looks for
better schedules of the best few.

Every plan is one of problem `pipeline`, verified as all are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise, product
from random import Random

from ...formulations.model import BuildTimeout, Tick, ticker
from ...formulations.pipeline.bounds import lower_bound
from ...formulations.pipeline.chunks_bound import chunks_bound
from ...formulations.pipeline.joint_bound import joint_bound
from ...models.derived.layers import Choice, Joint, stage_of
from ...models.derived.stages import pipeline_graph
from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline
from ...models.result import Result
from ..solve import solve
from .rules import RULES, Orders, peaks

Stages = tuple[tuple[int, ...], tuple[Choice, ...]]
"""The layer behind each stage, and what the stages' layers keep."""

SINGLE = ("gpipe", "1f1b", "zb", "zb-h1", "zb-h2")
"""Published rules for one stage on each device."""

FEW = 3
"""Stages that are improved, and stages that `auto` schedules."""

LEAST_SECONDS = 0.001
"""For `auto` to judge the best schedule, where the time is up."""


@dataclass(frozen=True, kw_only=True)
class JointPlan:
    """What `joint_plan` finds.

    Attributes
    ----------
    ends, choices
        The layer behind each stage, and what the stages' layers keep; empty if nothing was found.
    result
        Of the pipeline of these stages; None if nothing was found.
    bound
        Of the makespan over all stages, choices and schedules, in ns; None: none are within the memory, which
        is proved.
    reason
        Why the search for stages was cut short: "time" or "interrupted"; None if it was not.
    """

    ends: tuple[int, ...] = ()
    choices: tuple[Choice, ...] = ()
    result: Result | None = None
    bound: int | None = None
    reason: str | None = None


def pipeline_for(asked: Joint, stages: Stages) -> Pipeline:
    """Return the pipeline problem of stages, stage s on device s."""
    parts = zip(pairwise([0, *stages[0]]), stages[1], strict=True)
    found = [stage_of(asked.layers[i:j], choice, s) for s, ((i, j), choice) in enumerate(parts)]
    return Pipeline(pipeline_graph(found, asked.micro), asked.memory, asked.latency_ns)


def bound_of_any_stages(asked: Joint) -> int | None:
    """Return a bound in ns also of several stages on each device; None: no stages are within the memory."""
    return chunks_bound(asked)


def joint_plan(
    asked: Joint,
    *,
    time_limit: float | None = 60.0,
    threads: int = 1,
    seed: int = 0,
    also: Sequence[Stages] = (),
    progress: Callable[[str], None] | None = None,
) -> JointPlan:
    """Return the best plan found, and a bound of all.

    Parameters
    ----------
    time_limit
        In seconds, None for no limit; half of it is for `auto`, if stages and their bound are found before.
    threads
        For `auto`.
    seed
        Of the order in which neighbours are looked at, and for `auto`.
    also
        Stages to look at, too, such as published ones.
    progress
        Called with lines of text.
    """
    limit = math.inf if time_limit is None else time_limit
    until = time.monotonic() + limit
    tick = ticker(lambda: time.monotonic() > until)
    choices = Choices(asked)
    seen: set[Stages] = set()
    best: dict[Stages, tuple[int, tuple[int, ...]]] = {}

    def look(stages: Stages) -> int | None:
        """Return the least makespan of the rules' schedules; None if none is among the best."""
        if stages not in seen:
            seen.add(stages)
            problem = pipeline_for(asked, stages)
            least = min((value for value, _ in best.values()), default=None)
            if problem.impossible() is None and (least is None or lower_bound(problem).value < least):
                joint = min(schedules(problem, tick), default=None)
                if joint is not None:
                    best[stages] = joint
        return best[stages][0] if stages in best else None

    reason = None
    try:
        for stages in chain(also, _candidates(asked, choices, tick)):
            look(stages)
        for stages in sorted(best, key=lambda stages: best[stages][0])[:FEW]:
            half = until - limit / 2 if time_limit is not None else math.inf
            _improve(asked, stages, look, choices, half, Random(seed))
    except (BuildTimeout, KeyboardInterrupt) as stopped:  # with what there is until then
        until = min(until, time.monotonic())
        reason = "time" if isinstance(stopped, BuildTimeout) else "interrupted"
    rank = sorted(best, key=lambda stages: best[stages][0])
    bound = joint_bound(asked, best[rank[0]][0] if rank else 1 << 62, tick)
    joint = JointPlan(bound=bound, reason=reason)
    least: int | None = None
    for number, stages in enumerate(rank[:FEW]):
        problem = pipeline_for(asked, stages)
        if least is not None and (least == bound or lower_bound(problem).value >= least):
            continue
        left = max(until - time.monotonic(), LEAST_SECONDS)
        if least is not None and left == LEAST_SECONDS:
            break
        result = solve(
            problem,
            time_limit=None if left == math.inf else left / (min(FEW, len(rank)) - number),
            threads=threads,
            seed=seed,
            hint=problem.lower(best[stages][1]),
            progress=progress,
        )
        if result.objective is not None and (least is None or result.objective < least):
            least = result.objective
            joint = JointPlan(ends=stages[0], choices=stages[1], result=result, bound=bound, reason=reason)
        if result.reason == "interrupted":
            break
    return joint


def profiles(asked: Joint) -> list[tuple[int, ...]]:
    """Return numbers of micro-batches under way by stage; they never rise from stage to stage."""
    p, m = asked.devices, asked.micro
    listed = [tuple(min(m, p - s) for s in range(p)), (m,) * p]
    for k in range(1, 2 * p):
        listed += [
            tuple(min(m, k, 2 * (p - s) - 1) for s in range(p)),
            tuple(min(m, k, p - s) for s in range(p)),
        ]
    return list(dict.fromkeys(listed))


def _candidates(asked: Joint, choices: Choices, tick: Tick) -> Iterator[Stages]:
    """Yield the best stages for each profile."""
    for profile in profiles(asked):
        if (found := divided(asked, choices, profile, tick)) is not None:
            yield found


def divided(
    asked: Joint, choices: Choices, profile: Sequence[int], tick: Tick = lambda: None
) -> Stages | None:
    """Return the stages with the least largest value for a profile; None if none are within the memory."""
    count, p, m, c = len(asked.layers), asked.devices, asked.micro, asked.latency_ns
    ahead, back = [0], [0]
    for x in asked.layers:
        ahead.append(ahead[-1] + x.forward)
        back.append(back[-1] + min(way.backward for way in x.ways))
    reached: dict[int, tuple[int, int, Stages]] = {0: (0, 0, ((), ()))}
    for s in range(p):
        after: dict[int, tuple[int, int, Stages]] = {}
        last = count - (p - 1 - s)
        for i, (largest, total, stages) in reached.items():
            for j in range(last if s == p - 1 else i + 1, last + 1):
                tick()
                if i >= j or (found := choices.best(i, j, profile[s])) is None:
                    continue
                choice, b, both = found
                work = ahead[j] - ahead[i]
                value = ahead[i] + s * c + m * (work + b) + max(m * (both - b), back[i] + s * c)
                value = max(largest, value)
                if j not in after or (value, total + both) < after[j][:2]:
                    after[j] = value, total + both, ((*stages[0], j), (*stages[1], choice))
        reached = after
    return reached[count][2] if count in reached else None


class Choices:
    """What the layers of a stage keep for the least time, for so many micro-batches under way."""

    def __init__(self, asked: Joint) -> None:
        self.asked = asked
        self.known: dict[tuple[int, int, int], tuple[Choice, int, int] | None] = {}
        moves: list[tuple[Fraction, int, int]] = []
        for layer, x in enumerate(asked.layers):
            at = x.ways[0]
            while ahead := [
                (Fraction(y.backward + y.weight - at.backward - at.weight, at.activation - y.activation), k)
                for k, y in enumerate(x.ways)
                if y.activation < at.activation
            ]:
                rate, k = min(ahead)
                moves.append((rate, layer, k))
                at = x.ways[k]
        self.moves = [(layer, k) for _, layer, k in sorted(moves, key=lambda move: move[0])]

    def best(self, i: int, j: int, under_way: int) -> tuple[Choice, int, int] | None:
        """Return the choice of layers i to j - 1, its time of B, and of B and W; None if nothing fits."""
        key = i, j, under_way
        if key not in self.known:
            fitting = [c for c in (self._ways(i, j, under_way), None) if self._fits(i, j, c, under_way)]
            best = []
            for choice in fitting:
                x = stage_of(self.asked.layers[i:j], choice, 0)
                best.append((choice, x.backward, x.backward + x.weight))
            self.known[key] = min(best, key=lambda some: some[2], default=None)
        return self.known[key]

    def _fits(self, i: int, j: int, choice: Choice, under_way: int) -> bool:
        x = stage_of(self.asked.layers[i:j], choice, 0)
        return self.asked.memory is None or x.fixed + under_way * x.activation <= self.asked.memory

    def _ways(self, i: int, j: int, under_way: int) -> Choice:
        """Return ways exchanged in the order of time for a byte, until they fit or none is left."""
        layers, memory = self.asked.layers, self.asked.memory
        ways = [0] * (j - i)
        held = sum(x.ways[0].activation for x in layers[i:j])
        states = sum(x.states for x in layers[i:j])
        for layer, k in [(i, 0), *self.moves]:
            if i <= layer < j:
                held += layers[layer].ways[k].activation - layers[layer].ways[ways[layer - i]].activation
                ways[layer - i] = k
                if memory is None or (
                    states + under_way * held <= memory and self._fits(i, j, tuple(ways), under_way)
                ):
                    break
        return tuple(ways)


def _improve(
    asked: Joint,
    stages: Stages,
    look: Callable[[Stages], int | None],
    choices: Choices,
    until: float,
    rng: Random,
) -> None:
    """Look at neighbours in random order while they are better and there is time."""
    value = look(stages)
    moved = True
    while moved:
        moved = False
        others = list(dict.fromkeys(_neighbours(asked, stages, choices)))
        for other in rng.sample(others, len(others)):
            if time.monotonic() > until:
                return
            new = look(other)
            if new is not None and (value is None or new < value):
                stages, value, moved = other, new, True
                break


def _neighbours(asked: Joint, stages: Stages, choices: Choices) -> Iterator[Stages]:
    """Yield stages of which one has other choices, two have another cut, or one layer another way."""
    ends, chosen = stages
    first = (0, *ends)

    def some(i: int, j: int) -> list[Choice]:
        every = (choices.best(i, j, k) for k in range(1, asked.micro + 1))
        return list(dict.fromkeys(found[0] for found in every if found is not None))

    for s, choice in enumerate(chosen):
        others = some(first[s], first[s + 1])
        for k, way in enumerate(choice or ()):
            for new in range(len(asked.layers[first[s] + k].ways)):
                if choice is not None and new != way:
                    others.append((*choice[:k], new, *choice[k + 1 :]))
        for other in others:
            if other != choice:
                yield ends, (*chosen[:s], other, *chosen[s + 1 :])
    for s in range(asked.devices - 1):
        i, j = first[s], first[s + 2]
        for end in (ends[s] - 1, ends[s] + 1):
            if i < end < j:
                for pair in product(some(i, end), some(end, j)):
                    yield (*ends[:s], end, *ends[s + 1 :]), (*chosen[:s], *pair, *chosen[s + 2 :])


def schedules(problem: Pipeline, tick: Tick = lambda: None) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield makespans and starts of the rules and of orders within the memory."""
    tried: list[Orders] = []
    for orders in _orders(problem, tick):
        fits = problem.memory is None or max(peaks(problem.line, orders)) <= problem.memory
        if fits and orders not in tried:
            tried.append(orders)
            starts = problem.timed(orders, tick)
            yield problem.evaluate(starts), starts


def _orders(problem: Pipeline, tick: Tick) -> Iterator[Orders]:
    line = problem.line
    for rule in SINGLE:
        try:
            yield from RULES[rule](problem, tick)
        except UsageError:  # a stage without W
            continue
    p = line.devices
    for ahead in ([p - i for i in range(p)], [2 * (p - i) - 1 for i in range(p)], [line.micro] * p):
        if (orders := _as_soon_as_possible(problem, ahead, tick)) is not None:
            yield orders


def _as_soon_as_possible(problem: Pipeline, ahead: Sequence[int], tick: Tick) -> Orders | None:
    """Return orders of devices that run what they can first, B before F before W; None if memory is short.

    Parameters
    ----------
    ahead
        The most F of each device without their B.
    """
    line, c = problem.line, problem.latency_ns
    p, m, stages = line.devices, line.micro, line.stages
    done = [{"F": 0, "B": 0, "W": 0} for _ in stages]
    end: dict[tuple[str, int, int], int] = {}
    free, held = [0] * p, [0] * p
    orders: Orders = [[] for _ in stages]
    for _ in line.keys:
        tick()
        runs = []
        for i, (x, n) in enumerate(zip(stages, done, strict=True)):
            room = problem.room[i]
            if n["B"] < n["F"]:
                ready = end["F", i, n["B"]] if i == p - 1 else end.get(("B", i + 1, n["B"]), -1 - c) + c
                if ready >= 0:
                    runs.append((max(free[i], ready), 0, i, "B"))
            may = n["F"] < min(m, n["B"] + ahead[i]) and (room is None or held[i] + x.activation <= room)
            if may and (ready := end.get(("F", i - 1, n["F"]), -1 - c) + c if i else 0) >= 0:
                runs.append((max(free[i], ready), 1, i, "F"))
            if x.weight and n["W"] < n["B"]:
                runs.append((free[i], 2, i, "W"))
        if not runs:
            return None
        start, _, i, kind = min(runs)
        j = done[i][kind]
        op = line.op[kind, i, j]
        end[kind, i, j] = free[i] = start + line.durations[op]
        held[i] += line.change(op)
        done[i][kind] += 1
        orders[i].append(op)
    return orders
