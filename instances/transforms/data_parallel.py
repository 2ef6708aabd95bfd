"""Data-parallel training: the same graph once per processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode, Op


def data_parallel(graph: Graph, kinds: Sequence[str]) -> Graph:
    """Return a graph of one copy per processor kind, op k of all copies side by side.

    Each copy has tensors and ops of its own, and its ops run on processors of its kind only. The exchange of
    gradients between copies is left out: an op that stands for it keeps its duration on every copy.

    Parameters
    ----------
    graph
        Its modes name no tiers.
    kinds
        Of the processors, one per copy, all different.

    Raises
    ------
    InstanceError
        If kinds repeat, or a mode names the tier of an operand.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances.transforms.data_parallel import data_parallel
    >>> both = data_parallel(lt.load("gen:chain?n=3&seed=1"), ("gpu0", "gpu1"))
    >>> [(op.name, op.all_modes[0].processors) for op in both.ops[:2]]
    [('op0@gpu0', ('gpu0',)), ('op0@gpu1', ('gpu1',))]
    """
    if len(set(kinds)) != len(kinds) or not kinds:
        raise InstanceError(
            f"data-parallel copies: found processor kinds {list(kinds)}, expected different ones"
        )
    for k, op in enumerate(graph.ops):
        if any(mode.operands for mode in op.modes):
            raise InstanceError(
                f"data-parallel copies, op {k} {op.name!r}: found a mode that names the tier of an operand, "
                "expected none"
            )
    many = len(kinds)
    return replace(
        graph,
        name=f"{many} x {graph.name}",
        tensors=tuple(replace(x, name=f"{x.name}@{kind}") for x in graph.tensors for kind in kinds),
        ops=tuple(_copy(op, g, kind, many) for op in graph.ops for g, kind in enumerate(kinds)),
        provenance={**graph.provenance, "data_parallel": list(kinds)},
        source=None,
    )


def _copy(op: Op, g: int, kind: str, many: int) -> Op:
    """Return op number `g` of `many` copies, for processors of a kind."""

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(x * many + g for x in numbers)

    return replace(
        op,
        name=f"{op.name}@{kind}",
        reads=moved(op.reads),
        writes=moved(op.writes),
        after=moved(op.after),
        inplace=tuple((r * many + g, w * many + g) for r, w in op.inplace),
        modes=tuple(
            Mode(duration_ns=mode.duration_ns, workspace=mode.workspace, processors=(kind,))
            for mode in op.all_modes
        ),
    )
