"""A training step as a chain of blocks: forwards cut where one value crosses, each with its backward.

*Forwards.* The ops up to the turn (`heuristics.segments.turn`) are cut into blocks 0 .. K - 1 after each op
where at most one value that is not *kept* is read across: the output of the block before the gap, the input
of the one behind it. Of gaps that the same value crosses the last one counts.

*Backwards.* The ops behind the turn are cut into as many intervals, that of block K - 1 first. The interval
of block k ends behind the last op that reads what block k left, and before the first one that reads what an
earlier block left, other than its input, or what is initial and no later forward reads; in between, where
fewest bytes cross. A block whose interval is empty is one with the next.

*Kept* are, from when they are there to their last use: what ops leave that overwrite what they read and so
run once (`BlockCut.once`), final values, and values that are read elsewhere than in their block, its
backward, and, outputs, in the next block and its backward. In the last block nothing is: it runs once in any
case.

Bytes: initial values take theirs all the time (`BlockCut.base`); `BlockCut.top` is what a block finds there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from ....formulations.recompute.data import RecomputeData
from ..heuristics.segments import turn


@dataclass(frozen=True, kw_only=True)
class RecomputationBlock:
    """A block of ops.

    Attributes
    ----------
    forward, backward
        Its ops, ascending.
    output
        The value that it hands on; None for the last one, and where only kept values cross.
    """

    forward: range
    backward: range
    output: int | None


@dataclass(frozen=True, kw_only=True)
class BlockCut:
    """A chain of blocks; bytes in units.

    Attributes
    ----------
    base
        Bytes of what is initial.
    kept
        Values that the page above calls so.
    once
        Ops that run in the first pass through their block only: they cannot run again, or all that they leave
        is kept.
    top
        By block k, the bytes of what is kept, and of what backwards behind that of k left, for the forwards
        and backwards of blocks up to k: what is there beside the block when its backward begins.
    through
        By block k, the bytes of that which stay until its backward ends.
    """

    blocks: tuple[RecomputationBlock, ...]
    base: int
    kept: frozenset[int]
    once: frozenset[int]
    top: tuple[int, ...]
    through: tuple[int, ...]


def cut(data: RecomputeData) -> BlockCut:
    """Return the graph as a chain of blocks.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> found = cut(recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=3"))))
    >>> [(list(block.forward), list(block.backward)) for block in found.blocks]
    [([0], [6]), ([1], [5]), ([2], [4]), ([3], [])]
    """
    last, values = turn(data), data.values
    alone = {i for i in range(last + 1) if not set(data.reads[i]).isdisjoint(data.destroys[i])}
    kept = {u for u, x in enumerate(values) if x.writer is not None and (x.final or x.writer in alone)}
    ends, outputs = _gaps(data, last, kept)
    turns = _backwards(data, [0, *(i + 1 for i in ends), last + 1], outputs)
    chosen = [k for k in range(len(ends)) if turns[k] > turns[k + 1]]
    outputs = [outputs[k] for k in chosen]
    bounds = [0, *(ends[k] + 1 for k in chosen), last + 1]
    turns = [turns[k] for k in (*chosen, len(ends), len(ends) + 1)]
    blocks = tuple(
        RecomputationBlock(forward=range(a, b), backward=range(turns[k + 1], turns[k]), output=output)
        for k, ((a, b), output) in enumerate(zip(pairwise(bounds), [*outputs, None], strict=True))
    )
    block_of = {i: k for k, block in enumerate(blocks) for i in (*block.forward, *block.backward)}
    behind = bounds[-2]  # what later ops leave comes once, as what backwards leave
    kept = {u for u in kept if (w := values[u].writer) is not None and w < behind}
    for u, x in enumerate(values):
        if x.writer is not None and x.writer < behind:
            home = block_of[x.writer]
            near = {home, home + 1} if outputs[home] == u else {home}
            if not {block_of[i] for i in x.readers} <= near:
                kept.add(u)
    once = {i for i in range(behind) if i in alone or (data.writes[i] and kept.issuperset(data.writes[i]))}
    top, through = beside(data, blocks, kept)
    return BlockCut(
        blocks=tuple(
            RecomputationBlock(
                forward=x.forward, backward=x.backward, output=None if x.output in kept else x.output
            )
            for x in blocks
        ),
        base=sum(x.nbytes for x in values if x.at_start),
        kept=frozenset(kept),
        once=frozenset(once),
        top=tuple(top),
        through=tuple(through),
    )


def beside(
    data: RecomputeData, blocks: Sequence[RecomputationBlock], kept: Set[int]
) -> tuple[list[int], list[int]]:
    """Return `BlockCut.top` and `BlockCut.through`."""
    block_of = {i: k for k, block in enumerate(blocks) for i in (*block.forward, *block.backward)}
    behind = blocks[-1].forward.start
    top, through = [0] * len(blocks), [0] * len(blocks)
    started = {x.tensor for x in data.values if x.at_start}
    for u, x in enumerate(data.values):
        if x.writer is None or x.tensor in started or (x.writer < behind and u not in kept):
            continue
        # Backwards run from the last block to the first: this is there while some block up to k reads it.
        until = 0 if x.final else min((block_of[i] for i in x.readers), default=block_of[x.writer])
        begin = len(blocks) if u in kept else block_of[x.writer]
        for k in range(until, begin):
            top[k] += x.nbytes
            through[k] += x.nbytes * (k > until or x.final or u in kept)
    return top, through


def _gaps(data: RecomputeData, last: int, kept: set[int]) -> tuple[list[int], list[int | None]]:
    """Return the ops of the forwards after which at most one value crosses that is not kept, and that one."""
    crossing: list[list[int]] = [[] for _ in range(last + 1)]
    for u, x in enumerate(data.values):
        ahead = bisect_left(x.readers, last + 1)
        if x.writer is not None and u not in kept and ahead:
            for i in range(x.writer, x.readers[ahead - 1]):
                crossing[i].append(u)
    ends: list[int] = []
    outputs: list[int | None] = []
    for i in range(last):
        if len(crossing[i]) > 1:
            continue
        output = crossing[i][0] if crossing[i] else None
        if output is not None and outputs and outputs[-1] == output:
            ends[-1] = i
        else:
            ends.append(i)
            outputs.append(output)
    return ends, outputs


def _backwards(data: RecomputeData, bounds: list[int], outputs: list[int | None]) -> list[int]:
    """Return by block the op behind its backward, and the one behind the turn."""
    count = len(bounds) - 1
    first, final = [data.n] * (count + 1), [-1] * count
    handed = set(outputs)
    across = [0] * (data.n + 2)
    for u, x in enumerate(data.values):
        if not x.readers:
            continue
        behind = bisect_left(x.readers, bounds[-1])
        if x.writer is not None and x.writer >= bounds[-2]:
            across[x.writer + 1] += x.nbytes
            across[x.readers[-1] + 1] -= x.nbytes
        elif behind < len(x.readers) and (x.writer is not None or behind):
            # Initial values belong to the last block whose forward reads them.
            k = bisect_right(bounds, x.readers[behind - 1] if x.writer is None else x.writer) - 1
            if x.writer is not None:
                final[k] = max(final[k], x.readers[-1])
            k += u in handed  # the next block may read it, too
            first[k] = min(first[k], x.readers[behind])
    for i in range(data.n):
        across[i + 1] += across[i]
    ends = [bounds[-1]]
    for k in reversed(range(1, count)):
        low = max(ends[-1], final[k] + 1)
        ends.append(min(range(low, max(low, min(first[:k])) + 1), key=lambda i: (across[i], -i)))
    return [data.n, *ends[::-1]]
