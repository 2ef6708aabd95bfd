"""Discards as early as they can be, for runs and transfers in a given sequence.

This is best: between two actions that put a tensor into a tier, what the first one left must stay until the
last read or copy from there before the second one, and nothing is gained by keeping it longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..graph import Graph
from .actions import Action, Compute, Discard, Transfer


def with_discards(graph: Graph, steps: Iterable[Compute | Transfer], fast: str) -> tuple[Action, ...]:
    """Return runs and transfers, each followed by a discard of what nothing uses before it is there afresh.

    Final tensors keep what the last step leaves in the fast memory. Initial contents that nothing uses go
    first.

    Parameters
    ----------
    fast
        The name of the memory where operands are unless the mode of a run names another tier.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.lowering.discards import with_discards
    >>> with_discards(lt.load("gen:chain?n=2"), [lt.Compute(0), lt.Compute(1)], "memory")[1:]
    (Compute(op=1, mode=0), Discard(tensor=0, tier='memory'))
    """
    steps = list(steps)
    reads, writes = _places(graph, fast)
    needed = {(t, fast) for t, tensor in enumerate(graph.tensors) if tensor.final}
    discards: dict[tuple[int, str], Discard] = {}
    backwards: list[Action] = []
    last_first = [
        [sorted({*used, *made}, reverse=True) for used, made in zip(*modes, strict=True)]
        for modes in zip(reads, writes, strict=True)
    ]
    for step in reversed(steps):
        if isinstance(step, Compute):
            used, made = reads[step.op][step.mode], writes[step.op][step.mode]
            places = last_first[step.op][step.mode]
        else:
            used, made = ((step.tensor, step.src),), ((step.tensor, step.dst),)
            places = sorted({*used, *made}, reverse=True)
        for place in places:
            if place in needed:
                continue
            if place not in discards:
                discards[place] = Discard(*place)
            backwards.append(discards[place])
        backwards.append(step)
        needed.difference_update(made)
        needed.update(used)
    accessed = {t for op in graph.ops for t in (*op.reads, *op.writes)}
    for t in sorted(accessed, reverse=True):
        if graph.tensors[t].initial and (t, fast) not in needed:
            backwards.append(Discard(t, fast))
    return tuple(reversed(backwards))


def without_idle_copies(
    graph: Graph, steps: Iterable[Compute | Transfer], fast: str
) -> list[Compute | Transfer]:
    """Return the steps without transfers to where nothing uses the tensor before it is there afresh.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.lowering.discards import without_idle_copies
    >>> steps = [lt.Compute(0), lt.Transfer(0, "memory", "disk"), lt.Compute(1)]
    >>> without_idle_copies(lt.load("gen:chain?n=2"), steps, "memory")
    [Compute(op=0, mode=0), Compute(op=1, mode=0)]
    """
    reads, writes = _places(graph, fast)
    needed = {(t, fast) for t, tensor in enumerate(graph.tensors) if tensor.final}
    kept: list[Compute | Transfer] = []
    for step in reversed(list(steps)):
        if isinstance(step, Compute):
            used, made = reads[step.op][step.mode], writes[step.op][step.mode]
        else:
            used, made = ((step.tensor, step.src),), ((step.tensor, step.dst),)
            if made[0] not in needed:
                continue
        kept.append(step)
        needed.difference_update(made)
        needed.update(used)
    return kept[::-1]


Places = list[list[tuple[tuple[int, str], ...]]]
"""By op and mode: tensors and the tiers where they are."""


def _places(graph: Graph, fast: str) -> tuple[Places, Places]:
    """Return where the ops read and write, in each of their modes."""
    reads: Places = []
    writes: Places = []
    for op in graph.ops:
        named = [dict(mode.operands) for mode in op.all_modes]
        reads.append([tuple((t, tiers.get(t, fast)) for t in op.reads) for tiers in named])
        writes.append([tuple((t, tiers.get(t, fast)) for t in op.writes) for tiers in named])
    return reads, writes
