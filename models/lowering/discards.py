"""Discards as early as they can be, for runs and transfers in a given sequence.

This is best: between two actions that put a tensor into a tier, what the first one left must stay until the
last read or copy from there before the second one, and nothing is gained by keeping it longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..graph import Graph
from .actions import Action, Compute, Discard, Transfer

Place = tuple[int, str]
"""A tensor and a tier."""

Places = tuple[Place, ...]


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
    places_of = _places(graph, fast)
    needed = {(t, fast) for t, tensor in enumerate(graph.tensors) if tensor.final}
    discards: dict[Place, Discard] = {}
    backwards: list[Action] = []
    for step in reversed(list(steps)):
        used, made = places_of(step)
        for place in _last_first(used, made):
            if place not in needed:
                due = discards.get(place)
                if due is None:
                    due = discards[place] = Discard(*place)
                backwards.append(due)
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
    places_of = _places(graph, fast)
    needed = {(t, fast) for t, tensor in enumerate(graph.tensors) if tensor.final}
    kept: list[Compute | Transfer] = []
    for step in reversed(list(steps)):
        used, made = places_of(step)
        if isinstance(step, Transfer) and made[0] not in needed:
            continue
        kept.append(step)
        needed.difference_update(made)
        needed.update(used)
    return kept[::-1]


def _places(graph: Graph, fast: str) -> Callable[[Compute | Transfer], tuple[Places, Places]]:
    """Return a function from steps to where they read and where they write."""
    of_tensors: dict[tuple[int, int], tuple[Places, Places]] = {}
    ops, here = graph.ops, [(t, fast) for t in range(len(graph.tensors))]

    def places_of(step: Compute | Transfer) -> tuple[Places, Places]:
        if not isinstance(step, Compute):
            return ((step.tensor, step.src),), ((step.tensor, step.dst),)
        key = step.op, step.mode
        places = of_tensors.get(key)
        if places is None:
            op = ops[step.op]
            tiers = dict(op.modes[step.mode].operands) if op.modes else None
            if not tiers:
                places = tuple([here[t] for t in op.reads]), tuple([here[t] for t in op.writes])
            else:
                reads, writes = (tuple((t, tiers.get(t, fast)) for t in x) for x in (op.reads, op.writes))
                places = reads, writes
            of_tensors[key] = places
        return places

    return places_of


def _last_first(used: Places, made: Places) -> Iterable[Place]:
    """Return the places, the last one first."""
    if len(used) + len(made) == 1:
        return used or made
    return sorted({*used, *made}, reverse=True)
