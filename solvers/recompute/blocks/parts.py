"""A training step, or a part of one, as parts: intervals of its forwards, each with one of its backwards.

The forwards, ops up to the turn, are cut into so many intervals of like many ops that the fewest bytes cross;
the backwards into as many, from the last to the first. Across a cut pass values of earlier forwards that
later ones read, or their backwards; and values of later forwards that backwards of earlier ones read. What
earlier forwards leave for later ones counts half as much again where no backward of an earlier one reads it.
For each gap between two forwards the cut through the backwards is where this is least, and there where what
backwards leave for others is least; the gaps are chosen by a dynamic program.

A part of a step (`within.BlockGraph`) is cut likewise, with the op *rest* as a last block of its own.

Source: Gusak et al., "HiRemate" (ICML 2025), by its public program, which merges ops bottom to top into
sub-graphs of few inputs and outputs. Ours are intervals of the reference order, found top down.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ....formulations.model import Tick
from ....formulations.recompute.data import RecomputeData
from ..heuristics.segments import turn
from .cutting import BlockCut, RecomputationBlock, beside


def parts(
    data: RecomputeData,
    rest: int | None,
    *,
    least: int,
    most: int,
    leaf: int,
    tick: Tick = lambda: None,
) -> BlockCut | None:
    """Return parts of up to about `leaf` forwards, from `least` to `most` of them; None if that is one.

    `tick` is called for each gap and each end of an interval, and may raise.

    `BlockCut.kept` are the values that a part leaves for others or for the end, `BlockCut.once` the ops
    that cannot run again, since they overwrite what they read.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5")))
    >>> found = parts(data, None, least=1, most=3, leaf=2)
    >>> [(list(block.forward), list(block.backward)) for block in found.blocks]
    [([0], [9, 10]), ([1, 2], [7, 8]), ([3, 4, 5], [6])]
    """
    middle = turn(data) + 1 if rest is None else rest
    count = min(most, middle, max(least, -(-middle // leaf)))
    if count < 2:
        return None
    across, places = _gaps(data, middle, middle if rest is None else rest + 1, tick)
    ends = _chosen(across, count, tick)
    bounds = [0, *(i + 1 for i in ends), middle]
    turns = [data.n]
    for i in ends:
        turns.append(min(turns[-1], int(places[i])))
    behind = middle if rest is None else rest + 1
    blocks = [
        RecomputationBlock(forward=range(a, b), backward=range(low, high), output=None)
        for (a, b), high, low in zip(pairwise(bounds), turns, [*turns[1:], behind], strict=True)
    ]
    if rest is not None:
        blocks.append(
            RecomputationBlock(forward=range(rest, behind), backward=range(behind, behind), output=None)
        )
    block_of = {i: k for k, block in enumerate(blocks) for i in (*block.forward, *block.backward)}
    kept = {
        u
        for u, x in enumerate(data.values)
        if x.writer is not None and x.writer < blocks[-1].forward.start
        if x.final or {block_of[i] for i in x.readers} - {block_of[x.writer]}
    }
    top, through = beside(data, blocks, frozenset())
    return BlockCut(
        blocks=tuple(blocks),
        base=sum(x.nbytes for x in data.values if x.at_start),
        kept=frozenset(kept),
        once=frozenset(i for i in range(middle) if not set(data.reads[i]).isdisjoint(data.destroys[i])),
        top=tuple(top),
        through=tuple(through),
    )


def _gaps(data: RecomputeData, middle: int, behind: int, tick: Tick) -> tuple[list[int], list[int]]:
    """Return by gap after a forward twice the least units across, and the first earlier backward."""
    shape = len(data.values)
    writer, size, ahead = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    first, last = np.full(shape, data.n), np.full(shape, -1)
    passing = np.zeros(data.n + 2, dtype=np.int64)
    for u, x in enumerate(data.values):
        writer[u] = -1 if x.writer is None else x.writer
        size[u] = 0 if x.writer is None else x.nbytes
        ahead[u] = max((i for i in x.readers if i < middle), default=-1)
        after = [i for i in x.readers if i >= behind]
        if after:
            first[u], last[u] = after[0], after[-1]
            if writer[u] >= middle:
                passing[writer[u] + 1] += x.nbytes
                passing[after[-1] + 1] -= x.nbytes
    bans = _bans(data, middle, behind)
    high = 4 * int(size.sum()) + 4
    passing = np.cumsum(passing)[behind : data.n + 1]
    across, places = [], []
    for i in range(middle - 1):
        tick()
        early = (writer >= 0) & (writer <= i)
        crosses = early & (ahead > i)
        change = np.zeros(data.n + 2, dtype=np.int64)
        gaps = early & ~crosses & (first < data.n)
        np.add.at(change, first[gaps] + 1, size[gaps])  # read by a later backward if that begins behind it
        gaps = (writer > i) & (writer < middle) & (last >= 0)
        change[0] += size[gaps].sum()
        np.add.at(change, last[gaps] + 1, -size[gaps])
        change *= 2
        gaps = crosses & (last >= 0)
        np.add.at(change, last[gaps] + 1, size[gaps])
        for begin, destroyed in bans:
            if begin <= i:
                change[destroyed + 1] += high
        units = np.cumsum(change)[behind : data.n + 1] + 2 * size[crosses].sum()
        least = np.flatnonzero(units == units.min())
        best = int(least[np.argmin(passing[least])])
        across.append(int(units[best]))
        places.append(behind + best)
    return across, places


def _bans(data: RecomputeData, middle: int, behind: int) -> list[tuple[int, int]]:
    """Return pairs of a forward that accesses a value, and the first backward that destroys that one.

    As an update destroys weights: from then on the forward cannot run again, so this is no later part's.
    """
    bans = []
    for x in data.values:
        accesses = [i for i in (x.writer, *x.readers) if i is not None and i < middle]
        lost = [w for v in x.rivals if (w := data.values[v].writer) is not None and w >= behind]
        if accesses and lost:
            bans.append((min(accesses), min(lost)))
    return bans


def _chosen(across: list[int], count: int, tick: Tick) -> list[int]:
    """Return the gaps between `count` intervals of half to one and a half times the mean length."""
    n = len(across) + 1
    low, high = max(1, n // (2 * count)), -(-3 * n // (2 * count))
    best: list[dict[int, tuple[int, int]]] = [{0: (0, -1)}]
    for k in range(1, count + 1):
        row = dict[int, tuple[int, int]]()
        for end in range(1, n + 1) if k < count else (n,):
            tick()
            cost = across[end - 1] if end < n else 0
            chosen = [
                (before[0] + cost, begin)
                for begin in range(max(0, end - high), end - low + 1)
                if (before := best[-1].get(begin)) is not None
            ]
            if chosen:
                row[end] = min(chosen)
        best.append(row)
    ends, end = [], n
    for row in reversed(best[2:]):
        end = row[end][1]
        ends.append(end - 1)
    return ends[::-1]
