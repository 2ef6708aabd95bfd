"""A block as a problem of its own: its forward, the rest of the step as one op, its backward.

The op *rest* stands for what runs between the forward and the backward of a block. It cannot run again, since
it overwrites what it reads; it finds the block's output and what of it is kept, leaves the gradients that the
backward reads, and has a workspace: with P units of memory, and a workspace of P - S less the bytes of these
gradients, at most S units of the block are kept while the rest runs. So the program within a block for two
budgets, S of what is saved and P of the peak, is a problem of recomputation like any other. The last block
has no rest.

What is counted elsewhere has no bytes here: kept and initial values, gradients that pass through
(`cutting.BlockCut.top`). The input is there at the start; it goes when the block needs it no more, unless the
backward of the block before reads it, which then finds it. Blocks of the same ops, sizes and times are the
same graph, and are solved once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from ....formulations.recompute.data import RecomputeData, levels, recompute_data
from ....models.graph import Accounting, Graph, Op, Tensor
from ....models.problems.recompute import Recompute
from .cutting import BlockCut


@dataclass(frozen=True, kw_only=True)
class BlockGraph:
    """A block as a graph.

    Attributes
    ----------
    graph
        One byte a unit, one ns a tick; the rest has no workspace.
    ops
        By op of the graph that of the step; None for the rest.
    rest
        The op that is the rest; None in the last block.
    once
        Its ops that run in the first pass only.
    source
        The tensor that is the block's input; None if it has none, or no bytes of its own.
    gradients, input, output
        Units of what the rest leaves, of what the block begins with, and of what it hands on.
    """

    graph: Graph
    ops: tuple[int | None, ...]
    rest: int | None
    once: frozenset[int]
    source: int | None
    gradients: int
    input: int
    output: int

    @property
    def largest_peak(self) -> int:
        """As many units as no schedule exceeds."""
        return sum(x.nbytes for x in self.graph.tensors) + max(op.workspace for op in self.graph.ops)

    def problem(self, saved: int, peak: int) -> Recompute:
        """Return the problem in a memory of `peak` units, of which `saved` are kept at most."""
        graph = self.graph
        if self.rest is not None:
            ops = list(graph.ops)
            space = max(0, peak - saved - self.gradients)
            ops[self.rest] = replace(ops[self.rest], workspace=space)
            graph = replace(graph, ops=tuple(ops))
        return Recompute(graph, memory=peak)


@dataclass(frozen=True, kw_only=True)
class BlockRun:
    """A way to run a block: ops of `BlockGraph.graph`, and what they take in ticks and units.

    Attributes
    ----------
    runs
        Ops as they run, the rest among them.
    forward, backward
        Ticks before the rest and after it.
    saved
        Units that are there while the rest runs, the block's output among them, and its input if that stays.
    before, after
        The most units beside what is counted elsewhere, before the rest and after it, with the input.
    alone
        Whether nothing runs between forward and backward, and the block has been passed before.
    """

    runs: tuple[int, ...]
    forward: int
    backward: int
    saved: int
    before: int
    after: int
    alone: bool = False

    @property
    def peak(self) -> int:
        """The most units at all."""
        return max(self.before, self.after)

    def beats(self, other: BlockRun) -> bool:
        """Return whether it takes no more of anything."""
        mine = (self.forward + self.backward, self.saved, self.before, self.after)
        return all(
            a <= b
            for a, b in zip(
                mine, (other.forward + other.backward, other.saved, other.before, other.after), strict=True
            )
        )


def within(data: RecomputeData, chain: BlockCut, k: int) -> BlockGraph:
    """Return block k as a graph."""
    draft = _BlockDraft(data, chain, k)
    for u in range(len(data.values)):
        draft.add(u)
    return draft.done()


class _BlockDraft:
    """The graph of a block, to which values are added one by one."""

    def __init__(self, data: RecomputeData, chain: BlockCut, k: int) -> None:
        self.data, self.chain, self.block = data, chain, chain.blocks[k]
        self.ahead = chain.blocks[k - 1] if k else None
        is_last = k + 1 == len(chain.blocks)
        self.ops: list[int | None] = [*self.block.forward, *([] if is_last else [None]), *self.block.backward]
        self.rest = None if is_last else len(self.block.forward)
        self.inside = {i: p for p, i in enumerate(self.ops) if i is not None}
        self.started = {x.tensor for x in data.values if x.at_start}
        self.reads, self.writes = ([list[int]() for _ in self.ops] for _ in range(2))
        self.tensors: list[Tensor] = []
        self.last: dict[int, int] = {}
        """By bundle, the tensor of its last version."""

        self.gradients = 0
        self.source: int | None = None
        if self.rest is not None:
            self.tensors.append(Tensor(name="token", nbytes=0, initial=True, final=True))
            self.reads[self.rest], self.writes[self.rest] = [0], [0]

    def add(self, u: int) -> None:
        """Add a value with the op that makes it and those that read it, if the block has one of these."""
        x, block, rest = self.data.values[u], self.block, self.rest
        readers = [self.inside[i] for i in x.readers if i in self.inside]
        mine = x.writer in self.inside
        if not readers and not mine:
            return
        # What a block behind this one leaves comes with the rest; all else from elsewhere is there.
        comes = rest is not None and not mine and x.writer is not None and x.writer >= block.forward.stop
        t = self._tensor(u, mine, comes)
        self.last[x.tensor] = t
        if comes and rest is not None:
            self.gradients += self.tensors[t].nbytes
            self.writes[rest].append(t)
        elif mine and x.writer is not None:
            self.writes[self.inside[x.writer]].append(t)
        for p in readers:
            self.reads[p].append(t)
        if rest is not None and (u == block.output or (u in self.chain.kept and self._is_left(u))):
            self.reads[rest].append(t)

    def _tensor(self, u: int, mine: bool, comes: bool) -> int:
        """Return the tensor of a value: a new one, or that of a version before it in the block."""
        x, ahead = self.data.values[u], self.ahead
        passes = x.final or bool(x.readers and x.readers[-1] >= self.block.backward.stop)
        begins = ahead is not None and u == ahead.output
        counts = x.tensor not in self.started and u not in self.chain.kept
        counts = counts and (mine or begins or (comes and not passes))
        if mine and x.tensor in self.last:
            t = self.last[x.tensor]
            self.tensors[t] = replace(self.tensors[t], final=counts and passes)
        else:
            t = len(self.tensors)
            held = begins and ahead is not None and any(i in ahead.backward for i in x.readers)
            final = counts and (held or (mine and passes))
            size = x.nbytes if counts else 0
            self.tensors.append(Tensor(name=f"t{t}", nbytes=size, initial=not (mine or comes), final=final))
        self.source = t if begins else self.source
        return t

    def _is_left(self, u: int) -> bool:
        """Return whether the forward makes a value that no other op of it destroys."""
        x, forward = self.data.values[u], self.block.forward
        writers = (self.data.values[r].writer for r in x.rivals)
        return x.writer in forward and not any(
            x.writer is not None and w is not None and x.writer < w < forward.stop for w in writers
        )

    def done(self) -> BlockGraph:
        """Return what was drawn."""
        data, block = self.data, self.block
        ops = tuple(
            Op(
                name=f"o{p}",
                reads=tuple(self.reads[p]),
                writes=tuple(self.writes[p]),
                duration_ns=1 if i is None else data.duration[i],
                workspace=0 if i is None else data.workspace[i],
            )
            for p, i in enumerate(self.ops)
        )
        accounting = Accounting.REPLACE if data.in_place else Accounting.COEXIST
        return BlockGraph(
            graph=Graph(name="block", tensors=tuple(self.tensors), ops=ops, accounting=accounting),
            ops=tuple(self.ops),
            rest=self.rest,
            once=frozenset(self.inside[i] for i in block.forward if i in self.chain.once),
            source=self.source,
            gradients=self.gradients,
            input=0 if self.source is None else self.tensors[self.source].nbytes,
            output=0 if block.output is None else data.sizes[block.output],
        )


def way_of(block: BlockGraph, runs: Sequence[int], graph: Graph | None = None) -> BlockRun:
    """Return what a sequence of runs of a block takes; with a graph that of `graph_alone`."""
    data = recompute_data(Recompute(graph or block.graph), bundled=False)
    needs = [level * data.unit for level in levels(data, runs)]
    ns = [data.ns(data.duration[i]) for i in runs]
    at = len(runs) if block.rest is None else list(runs).index(block.rest)
    before = max(needs if block.rest is None else needs[:at], default=0)
    return BlockRun(
        runs=tuple(runs),
        forward=sum(ns[:at]),
        backward=sum(ns[at + 1 :]),
        saved=0 if block.rest is None else saved_at(data, runs, at) * data.unit,
        before=before,
        after=max(needs[at + 1 :], default=before),
        alone=graph is not None,
    )


def alone(block: BlockGraph, ways: Sequence[BlockRun]) -> list[BlockRun]:
    """Return the ways without what the backward does not need, where the block has been passed before.

    Then nothing behind the block reads its output any more, and its forwards need not run for themselves. The
    time of ops that run in the first pass only counts, as it does in other ways.
    """
    if block.rest is None:
        return []
    graph = block.graph
    left = {t for p in block.once for t in graph.ops[p].writes}
    tensors = [replace(x, initial=x.initial or t in left) for t, x in enumerate(graph.tensors)]
    ops = [replace(op, writes=() if p in block.once else op.writes) for p, op in enumerate(graph.ops)]
    ops[block.rest] = replace(ops[block.rest], reads=ops[block.rest].reads[:1])
    graph = replace(graph, tensors=tuple(tensors), ops=tuple(ops))
    data = recompute_data(Recompute(graph), bundled=False)
    spent = sum(graph.ops[p].duration_ns for p in block.once)
    shorter = []
    for run in ways:
        needed = {u for u, x in enumerate(data.values) if x.final}
        runs = list[int]()
        for p in reversed(run.runs):
            if p >= block.rest or not needed.isdisjoint(data.writes[p]):
                needed.difference_update(data.writes[p])
                needed.update(data.reads[p])
                runs.append(p)
        try:
            short = way_of(block, runs[::-1], graph)
        except ValueError:  # what is left out made room for what is read later
            continue
        shorter.append(replace(short, forward=short.forward + spent, saved=block.input))
    return shorter


def saved_at(data: RecomputeData, runs: Sequence[int], at: int) -> int:
    """Return the units of what is there before a run and read by it or later ones."""
    needed = {u for u, x in enumerate(data.values) if x.final}
    for i in reversed(runs[at:]):
        needed.difference_update(data.writes[i])
        needed.update(data.reads[i])
    return sum(data.sizes[u] for u in needed)


def sweeps_of(data: RecomputeData, chain: BlockCut, k: int) -> tuple[list[int], list[int]]:
    """Return the ops of the first pass through block k that saves nothing, and of later ones.

    The first one also runs what leaves kept values, and what that is computed from.
    """
    block = chain.blocks[k]

    def needed(wanted: set[int], without: Set[int]) -> list[int]:
        again = set[int]()
        for i in reversed(block.forward):
            if i not in without and not wanted.isdisjoint(data.writes[i]):
                again.add(i)
                wanted.update(data.reads[i])
        return sorted(again)

    output = set() if block.output is None else {block.output}
    kept = {u for i in block.forward for u in data.writes[i] if u in chain.kept}
    once = [i for i in block.forward if i in chain.once]
    first = needed(output | kept | {u for i in once for u in data.reads[i]}, frozenset())
    return sorted({*first, *once}), needed(output, chain.once)


def peak_of_sweep(block: BlockGraph, sweep: Sequence[int], *, holding: bool) -> int:
    """Return the most units that ops of a block's forward need, of which nothing is kept but its output.

    With its input, which stays if they are `holding` it.
    """
    assert block.rest is not None
    tensors = tuple(
        replace(x, final=holding and t == block.source) for t, x in enumerate(block.graph.tensors)
    )
    data = recompute_data(Recompute(replace(block.graph, tensors=tensors)), bundled=False)
    place = {i: p for p, i in enumerate(block.ops)}
    return max(levels(data, [*(place[i] for i in sweep), block.rest])[:-1], default=0) * data.unit
