r"""Whether a small graph has a dominant order, by exhaustive search: a tool for theory.

An order dominates another one of the same ops if it can replace it in every schedule around them whose ops
precede all of them, follow all, or are free of all, without raising a peak (`blocks` has the definition by
cuts). For given memories :math:`m_0, \dots, m_n` at the cuts of T and peaks :math:`p_1, \dots, p_n` of its
ops, S dominates T iff position 0 of S can be moved to its end in n steps such that the i-th one passes no op
with a peak above :math:`p_i` and ends where the memory is at most :math:`m_i`; before the first one the
position is 0. All positions that can be reached are kept from step to step.

Candidates are built executed set by executed set. Of two orders of a set, if one dominates the other, so
it does when the same op is run after both: their memories and peaks then are the same. So for each
set it is enough to keep orders that no other kept one dominates. If one order of all ops is left, it
dominates all, since domination is transitive; if several are left, none does: what dominates all would
have been dominated by one of them, which would then dominate the others.

The graph stands for a part of a larger one: what the part reads from outside or leaves behind is said by its
initial and final tensors. Where the memory is additive, series-parallel graphs have dominant orders
(`blocks`). R. Jin, M. Purohit, Z. Svitkina, E. Vee, J. Wang, "Dominant schedules...", arXiv 2312.13526 (2023)
show that every graph has one.
"""

from __future__ import annotations

from typing import NamedTuple

from ....models.checks import check_type
from ....models.derived.memory import SequentialMemory, sequential_memory
from ....models.derived.precedence import precedence
from ....models.errors import UsageError
from ....models.graph import Graph

MOST_SETS = 20_000
"""Executed sets of one size that are kept."""


class Profile(NamedTuple):
    """An order of some ops, its peaks p and its memories m without that at the beginning, in bytes."""

    order: tuple[int, ...]
    peaks: tuple[int, ...]
    memories: tuple[int, ...]


def dominant_order(graph: Graph) -> tuple[int, ...] | None:
    """Return an order that can replace every other one in every schedule around them; None if there is none.

    Parameters
    ----------
    graph
        A small graph: the executed sets are enumerated.

    Raises
    ------
    UsageError
        If it has more than `MOST_SETS` executed sets of one size.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:outtree?n=8&seed=2")
    >>> lt.dominant_order(graph)
    (0, 4, 1, 5, 2, 3, 6, 7)
    """
    check_type(graph, Graph, "dominant_order, graph")
    memory, before = sequential_memory(graph), precedence(graph).predecessors
    needed = [sum(1 << u for u in some) for some in before]
    kept: dict[int, list[Profile]] = {0: [Profile((), (), ())]}
    for _ in graph.ops:
        larger: dict[int, list[Profile]] = {}
        for done, profiles in kept.items():
            if len(larger) > MOST_SETS:
                raise UsageError(
                    f"dominant_order, graph {graph.name!r}: found more than {MOST_SETS} executed sets of one "
                    f"size, expected at most {MOST_SETS}"
                )
            for v, mask in enumerate(needed):
                if not done >> v & 1 and mask & ~done == 0:
                    for one in profiles:
                        new = profile_of(memory, (*one.order, v))
                        _keep(larger.setdefault(done | 1 << v, []), new, memory.initial_bytes)
        kept = larger
    (profiles,) = kept.values()
    return profiles[0].order if len(profiles) == 1 else None


def dominates(one: Profile, other: Profile, start: int) -> bool:
    """Return whether an order of some ops dominates another one, from the same memory at the beginning.

    Examples
    --------
    >>> low, high = Profile((0, 1), (5, 4), (3, 2)), Profile((1, 0), (6, 5), (4, 2))
    >>> dominates(low, high, 1), dominates(high, low, 1)
    (True, False)
    """
    cuts = (start, *one.memories)
    reached = {0}
    for peak, memory in zip(other.peaks, other.memories, strict=True):
        moved = set[int]()
        for begin in reached:
            k = begin
            while k not in moved:
                if cuts[k] <= memory:
                    moved.add(k)
                if k == len(one.peaks) or one.peaks[k] > peak:
                    break
                k += 1
        reached = moved
    return len(one.peaks) in reached


def profile_of(memory: SequentialMemory, order: tuple[int, ...]) -> Profile:
    """Return the profile of an order of some ops."""
    during, after = memory.profile(order)
    return Profile(order, tuple(during), tuple(after))


def _keep(kept: list[Profile], new: Profile, start: int) -> None:
    """Add an order of a set unless one dominates it, and remove those that it dominates."""
    if not any(dominates(one, new, start) for one in kept):
        kept[:] = [one for one in kept if not dominates(new, one, start)]
        kept.append(new)
