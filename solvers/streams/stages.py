r"""The stages of IOS (Ding, Zhu, Jia, Pekhimenko and Han, MLSys 2021): a dynamic program over executed sets.

A stage is a set of ops that nothing outside it, of what has not been executed before it, must precede or be
preceded by: run last among the set S of ops up to it, it is closed under successors in S, an *ending*. Its
groups are its weakly connected parts. With T(F) the price of stage F,

.. math:: D[\emptyset] = 0, \qquad D[S] = \min_F D[S \setminus F] + T(F).

Endings are those of the published code, unions of disjoint sets {v} and its successors in S (``code``), or
``all``; r bounds the ops of a group, s the groups, as IOS prunes.

**Memory.** A stage F after the set X = S \ F holds what X wrote and something outside X reads, or is final,
what F reads, and what F writes: both sets are the state, so that a stage above the memory is left out, and
nothing else changes.

**Blocks.** A network is often cut by ops through which every path goes. Of a stage with ops before such an op
x and x itself, all these ops are connected through x, so they are one group, whose price is the sum of their
times: the same as that of a stage for each. So there is an optimum with a stage for x alone, and blocks
between such ops are solved one by one. ``blocks=stated`` takes the blocks that the graph states
(`provenance`), as IOS does for networks whose cells are joined by more than one op; that is a restriction.

After each block its stages go on with what is left of the best ones before: without a memory that is an
answer, as stages without some of their ops are stages.

**What is proved.** With all endings, no r and no s, and blocks of the first kind, D is the optimum, and the
sum over blocks of what they take, or take at least (`lowtide.solvers.streams.bounds`), is a bound: groups
that are not connected merge connected ones, which makes none of the stage's terms smaller. (Fewer groups can
help where their number is limited, or with the workspace: then nothing is proved.)

If nothing is within the memory, that is proved with any endings, r and s: one op after another, each a stage,
is among what is looked at, and holds no more than stages do in which these ops stand in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...formulations.model import BuildTimeout, ticker
from ...models.derived.precedence import bits, precedence
from ...models.derived.stated_blocks import stated_blocks
from ...models.graph import Graph
from ...models.lowering.streams import share_of
from ...models.machine import Contention
from ...models.problems.stream_answers import Stages
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import least_time, raise_first_bound
from .events import refuse_orders
from .memory import is_too_little

MOST_OPS = 3000
"""Ops up to which the program is begun: blocks, and sets of successors, take time quadratic in them."""

Groups = tuple[int, ...]
"""The groups of an ending as sets of ops: bits of integers."""

Life = tuple[int, int, int, bool, bool]
"""Of a tensor: bytes, writers, all that access it, whether initial, whether final."""


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """What endings there are: of which kind, with how many ops in a group and groups at most."""

    endings: str = "code"
    most_ops: int | None = None
    most_groups: int | None = None

    @property
    def is_exact(self) -> bool:
        """Whether no ending is left out."""
        return self.endings == "all" and self.most_ops is None and self.most_groups is None


@dataclass(kw_only=True)
class StageProgram:
    """What the dynamic program found: cost, stages, and how much it looked at.

    Attributes
    ----------
    cost
        Nanoseconds; None if no stages are within the memory.
    states, transitions, schedules
        Sets that were reached, endings of them, and ways through the program.
    """

    cost: int | None
    stages: list[Groups] = field(default_factory=list)
    states: int = 0
    transitions: int = 0
    schedules: int = 0


def solve_ios(problem: Streams, context: Context) -> Outcome:
    """Offer the best stages that the program finds."""
    refuse_orders(problem)
    raise_first_bound(problem, context)
    if is_too_little(problem):
        return Outcome(infeasible=True, detail="what is there from first to last is above the memory")
    options = context.options
    groups = [x for x in (options["s"] or None, problem.streams) if x is not None]
    pruning = Pruning(
        endings=options["endings"], most_ops=options["r"] or None, most_groups=min(groups, default=None)
    )
    graph = problem.graph
    if len(graph.ops) > MOST_OPS:
        return Outcome(detail=f"found {len(graph.ops)} ops, expected at most {MOST_OPS}")
    stated = stated_blocks(graph) if options["blocks"] == "stated" else None
    blocks = stated or blocks_of(graph)
    stages: list[tuple[tuple[int, ...], ...]] = []
    states, transitions = 0, 0
    executed, lives = 0, lives_of(graph)
    proves = pruning.is_exact and not stated and is_plain(problem)
    least = [least_time(problem, block) for block in blocks]
    if proves:
        context.raise_bound(sum(least), "exact", kind="work of blocks")
    for k, block in enumerate(blocks):
        context.progress(f"ios: block {k + 1} of {len(blocks)}, {transitions:,} transitions")
        try:
            found = program(
                problem, block, pruning, executed=executed, lives=lives, expired=lambda: context.expired
            )
        except BuildTimeout:
            return Outcome(
                reason="time",
                detail=f"the time was up in block {k + 1} of {len(blocks)}; r and s leave endings out",
            )
        states, transitions = states + found.states, transitions + found.transitions
        if found.cost is None:
            said = f"no stages of block {k + 1} are within the memory"
            return Outcome(infeasible=not stated, detail=f"{said}, of those looked at" if stated else said)
        stages += [tuple(tuple(bits(group)) for group in some) for some in found.stages]
        executed |= sum(1 << i for i in block)
        least[k] = found.cost
        if proves:
            context.raise_bound(sum(least), "exact", kind="dynamic program")
        if context.answer is not None and problem.memory is None:
            context.offer(Stages(stages=(*stages, *_without(context.answer.stages, executed))))
    context.offer(Stages(stages=tuple(stages)))
    return Outcome(
        detail=f"{states:,} sets of ops, {transitions:,} endings",
        facts={"states": states, "transitions": transitions},
    )


def _without(
    stages: Sequence[Sequence[Sequence[int]]], executed: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield what is left of stages without ops that have been executed."""
    for stage in stages:
        groups = (tuple(i for i in group if not executed >> i & 1) for group in stage)
        if left := tuple(group for group in groups if group):
            yield left


def is_plain(problem: Streams) -> bool:
    """Return whether merging groups cannot help: see the module."""
    workspace = problem.memory is not None and any(op.all_modes[0].workspace for op in problem.graph.ops)
    return problem.streams is None and not workspace


def blocks_of(graph: Graph, ops: Sequence[int] | None = None) -> list[list[int]]:
    """Return the ops between those through which every path goes, each with the one that ends it.

    Of a part of the graph that is connected with no other op, if `ops` are its own.

    Examples
    --------
    >>> import lowtide as lt
    >>> blocks_of(lt.load("catalogue:diamond"))
    [[0], [1, 2, 3]]
    """
    ops = range(len(graph.ops)) if ops is None else ops
    n = len(ops)
    before, after = precedence(graph).ancestors, precedence(graph).descendants
    cuts = [i for i in ops if before[i].bit_count() + after[i].bit_count() == n - 1]
    blocks, done = [], 0
    ends = [before[i] | 1 << i for i in sorted(cuts, key=lambda i: before[i].bit_count())]
    for end in (*ends, sum(1 << i for i in ops)):
        if block := end & ~done:
            blocks.append(bits(block))
            done |= block
    return blocks


def lives_of(graph: Graph) -> list[Life]:
    """Return how each tensor that is used is."""
    writers, users = [0] * len(graph.tensors), [0] * len(graph.tensors)
    for i, op in enumerate(graph.ops):
        for t in op.writes:
            writers[t] |= 1 << i
        for t in (*op.reads, *op.writes):
            users[t] |= 1 << i
    return [
        (x.nbytes, writers[t], users[t], x.initial, x.final)
        for t, x in enumerate(graph.tensors)
        if x.nbytes and (users[t] or x.final)
    ]


@dataclass(frozen=True, kw_only=True)
class StageBlock:
    """The ops of a block by their numbers in the graph; all sets are of these."""

    graph: Graph
    device: Contention
    memory: int | None
    ops: Sequence[int]
    earlier: int
    lives: Sequence[Life]

    @cached_property
    def mask(self) -> int:
        """The ops as bits."""
        return sum(1 << i for i in self.ops)

    @cached_property
    def after(self) -> dict[int, int]:
        """All successors of each op within the block."""
        found = precedence(self.graph).descendants
        return {i: found[i] & self.mask for i in self.ops}

    @cached_property
    def neighbours(self) -> dict[int, int]:
        """Direct predecessors and successors of each op within the block."""
        order = precedence(self.graph)
        some = {i: (*order.predecessors[i], *order.successors[i]) for i in self.ops}
        return {i: sum(1 << j for j in near) & self.mask for i, near in some.items()}

    @cached_property
    def time(self) -> dict[int, int]:
        """Nanoseconds of each op alone."""
        return {i: self.graph.ops[i].all_modes[0].duration_ns for i in self.ops}

    @cached_property
    def work(self) -> dict[int, int]:
        """Parts times ns of each op."""
        return {i: ns * share_of(self.graph, i, self.device.parts) for i, ns in self.time.items()}

    @cached_property
    def workspace(self) -> dict[int, int]:
        """Bytes of workspace of each op that needs some."""
        found = {i: self.graph.ops[i].all_modes[0].workspace for i in self.ops}
        return {i: nbytes for i, nbytes in found.items() if nbytes}

    def price(self, longest: int, serial: int, area: int, groups: int) -> int:
        """Return the nanoseconds of a stage."""
        ns: int = device_price(self.device, max(longest * self.device.parts, area), serial, groups)
        return ns

    def held(self, state: int) -> tuple[int, list[tuple[int, int]]]:
        """Return what every stage that ends with a set holds, and bytes and users of what some hold.

        A tensor that is final or has a user beyond the set is held; of the others those with a user in the
        stage, which are no others than those that something outside the set before the stage uses.
        """
        if self.memory is None:
            return 0, []
        now = state | self.earlier
        always, some = 0, []
        for nbytes, writers, users, initial, final in self.lives:
            if initial or writers & now:
                if final or users & ~now:
                    always += nbytes
                elif users & state:
                    some.append((nbytes, users))
        return always, some

    def fits(self, held: tuple[int, list[tuple[int, int]]], groups: Groups) -> bool:
        """Return whether a stage is within the memory, given `held` of the set that it ends."""
        if self.memory is None:
            return True
        always, some = held
        ending = sum(groups)
        used = always + sum(nbytes for nbytes, users in some if users & ending)
        if self.workspace:
            used += sum(max(self.workspace.get(i, 0) for i in bits(group)) for group in groups)
        return used <= self.memory


def device_price(device: Contention, least: Any, serial: Any, groups: Any) -> Any:
    """Return the nanoseconds of stages, integers or arrays of them.

    Parameters
    ----------
    device
        That runs them.
    least
        Parts times ns that a stage takes at least: of its longest group, and of all its work.
    serial
        Nanoseconds of its ops one after the other.
    groups
        How many it has.
    """
    full = serial * device.parts if device.model == "half-serial" else least
    return -(-(full + least) // (2 * device.parts)) + device.sync_ns * (groups > 1)


def program(
    problem: Streams,
    ops: Sequence[int],
    pruning: Pruning,
    *,
    executed: int = 0,
    lives: Sequence[Life] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> StageProgram:
    """Solve the dynamic program over the sets of a block, from the whole block down.

    Parameters
    ----------
    problem
        With a contention that prices stages.
    ops
        The block.
    pruning
        Which endings there are.
    executed
        The ops before the block, as bits: what they wrote may still be held.
    lives
        `lives_of` the graph, if it is there already.

    Raises
    ------
    BuildTimeout
        If the time is up.
    """
    block = StageBlock(
        graph=problem.graph,
        device=problem.device,
        memory=problem.memory,
        ops=ops,
        earlier=executed,
        lives=lives_of(problem.graph) if lives is None else lives,
    )
    enumerate_endings = _code_endings if pruning.endings == "code" else _all_endings
    found, tick = StageProgram(cost=None), ticker(expired)
    best: dict[int, int] = {block.mask: 0}
    ways: dict[int, int] = {block.mask: 1}
    came: dict[int, tuple[int, Groups]] = {}
    levels: list[list[int]] = [[] for _ in range(len(ops) + 1)]
    levels[-1].append(block.mask)
    for level in reversed(levels[1:]):
        for state in level:
            found.states += 1
            cost, count, held = best[state], ways[state], block.held(state)
            for groups, price in enumerate_endings(block, state, pruning, tick):
                rest = state & ~sum(groups)
                if not block.fits(held, groups):
                    continue
                found.transitions += 1
                if rest not in best:
                    levels[rest.bit_count()].append(rest)
                    best[rest], ways[rest], came[rest] = cost + price, count, (state, groups)
                    continue
                ways[rest] += count
                if cost + price < best[rest]:
                    best[rest], came[rest] = cost + price, (state, groups)
    if 0 in best:
        found.cost, found.schedules = best[0], ways[0]
        state = 0
        while state != block.mask:
            state, groups = came[state]
            found.stages.append(groups)
    return found


def _code_endings(
    block: StageBlock, state: int, pruning: Pruning, tick: Callable[[], None]
) -> Iterator[tuple[Groups, int]]:
    """Yield every union of disjoint sets of an op and its successors, with its price."""
    most = pruning.most_groups or len(block.ops)
    choices = []
    for i in bits(state):
        group = (block.after[i] & state) | 1 << i
        if pruning.most_ops is None or group.bit_count() <= pruning.most_ops:
            members = bits(group)
            length, work = sum(block.time[j] for j in members), sum(block.work[j] for j in members)
            choices.append((group, length, work))
    stack: list[tuple[int, int, Groups, int, int, int]] = [(0, 0, (), 0, 0, 0)]
    while stack:
        tick()
        first, used, groups, longest, serial, area = stack.pop()
        for k in range(first, len(choices)):
            group, length, work = choices[k]
            if not group & used:
                more = (*groups, group)
                top, total, work = max(longest, length), serial + length, area + work
                yield more, block.price(top, total, work, len(more))
                if len(more) < most:
                    stack.append((k + 1, used | group, more, top, total, work))


def _all_endings(
    block: StageBlock, state: int, pruning: Pruning, tick: Callable[[], None]
) -> Iterator[tuple[Groups, int]]:
    """Yield every ending, with its price."""
    ops = bits(state)[::-1]  # the reference order is topological: successors come first
    stack = [(0, 0)]
    while stack:
        tick()
        k, ending = stack.pop()
        while k < len(ops):
            i = ops[k]
            k += 1
            if not block.after[i] & state & ~ending:
                stack.append((k, ending))
                ending |= 1 << i
        if not ending:
            continue
        groups = parts_of(block, ending)
        if pruning.most_groups is not None and len(groups) > pruning.most_groups:
            continue
        if pruning.most_ops is not None and any(g.bit_count() > pruning.most_ops for g in groups):
            continue
        lengths = [sum(block.time[i] for i in bits(group)) for group in groups]
        area = sum(block.work[i] for i in bits(ending))
        yield groups, block.price(max(lengths), sum(lengths), area, len(groups))


def parts_of(block: StageBlock, ending: int) -> Groups:
    """Return the weakly connected parts of a set."""
    parts = []
    while ending:
        part, front = 0, ending & -ending
        while front:
            part |= front
            reach = 0
            for i in bits(front):
                reach |= block.neighbours[i]
            front = reach & ending & ~part
        parts.append(part)
        ending &= ~part
    return tuple(parts)
