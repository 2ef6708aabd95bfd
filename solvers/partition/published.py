"""Splits as published systems and people choose them, judged by our rules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...formulations.partition.data import PartitionData, partition_data
from ...models.problems.partition import Partition
from ...models.split import HOST, Split
from ..context import Context, Outcome


def solve_expert(problem: Partition, context: Context) -> Outcome:
    """Offer the split that comes with the instance, on the kind of device of which there are most."""
    try:
        groups = problem.graph.provenance["layers"]["expert"]
        at = {i: s for s, some in enumerate(groups) for i in some}
        stage = tuple(at[i] for i in range(len(problem.graph.ops)))
    except (KeyError, TypeError):
        return Outcome(detail="the instance has no split of all its ops that people made")
    kind = max(problem.kinds, key=lambda pair: pair[1])[0]
    if any(kind not in modes for modes in problem.modes):
        return Outcome(detail=f"devices of kind {kind} cannot run all ops")
    count = len(groups)
    return offer_valid(context, Split(stage=stage, kinds=(kind,) * count, replicas=(1,) * count))


def solve_torchgpipe(problem: Partition, context: Context) -> Outcome:
    """Offer blocks of the reference order that differ little, as torchgpipe does.

    One block for each accelerator (of the host's devices if there are none); neither transfers nor memory
    count. Times are scaled to [0, 1]; while blocks differ by more than 1, the smallest takes one element of
    its neighbour on the side of the largest (Bárány and Grinberg, Block partitions of sequences, 2015).
    """
    data = partition_data(problem)
    k = next((k for k, (kind, _) in enumerate(data.kinds) if kind != HOST), 0)
    if data.n < data.kinds[k][1] or any(times[k] is None for times in data.times):
        return Outcome(detail="fewer layers than devices, or one that the devices cannot run")
    times = [times[k] or 0 for times in data.times]
    ends = balanced(times, data.kinds[k][1])
    if any(i >= j for i, j in pairwise([0, *ends])):
        return Outcome(detail="it ends with a block without layers, which torchgpipe refuses")
    return offer_valid(context, _cut(data, ends, data.kinds[k][0]))


def balanced(times: Sequence[int], blocks: int) -> list[int]:
    """Return the ends of the blocks of a sequence; where sizes are equal they may cross, as published.

    Examples
    --------
    >>> from lowtide.solvers.partition.published import balanced
    >>> balanced([1, 2, 3, 4, 5, 6], 2), balanced([27, 30, 27, 23, 17, 16, 17], 3)
    ([4, 6], [1, 2, 7])
    """
    least, spread = min(times), max(times) - min(times) or 1
    ends = [len(times) // blocks * (b + 1) for b in range(blocks - 1)] + [len(times)]

    def sizes() -> list[tuple[int, int]]:  # in parts of the spread
        return [(sum(t - least for t in times[i:j]), b) for b, (i, j) in enumerate(pairwise([0, *ends]))]

    while True:
        large, p = max(sizes())
        while True:
            small, q = min(sizes())
            if large <= small + spread:
                return ends
            if p < q:
                ends[q - 1] -= 1
            else:
                ends[q] += 1
            if p == (q - 1 if p < q else q + 1):
                break


def offer_valid(context: Context, split: Split) -> Outcome:
    """Offer a split if it is a valid one."""
    context.careful = True
    context.offer(split)
    return Outcome(detail=context.refused)


def _cut(data: PartitionData, ends: Sequence[int], kind: str) -> Split:
    stage = [s for s, (i, j) in enumerate(pairwise([0, *ends])) for _ in range(j - i)]
    return data.split(stage, [kind] * len(ends))
