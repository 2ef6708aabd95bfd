"""What must run again so that values are there."""

from __future__ import annotations

from collections.abc import Iterable, Set

from ...formulations.recompute.data import RecomputeData


def writers_of(data: RecomputeData, wanted: Iterable[int], there: Set[int]) -> list[int]:
    """Return the ops, ascending, that leave what is missing of some values, and of what these ops read.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5")))
    >>> value = {x.writer: u for u, x in enumerate(data.values)}
    >>> writers_of(data, [value[2]], {value[None], value[0]})
    [1, 2]
    """
    writers, stack = set[int](), list(wanted)
    while stack:
        u = stack.pop()
        writer = data.values[u].writer
        if u not in there and writer is not None and writer not in writers:
            writers.add(writer)
            stack += data.reads[writer]
    return sorted(writers)
