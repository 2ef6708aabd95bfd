"""Data-parallel training: the same graph once per processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode, Op


def data_parallel(graph: Graph, kinds: Sequence[str], barriers: int = 0) -> Graph:
    """Return a graph of one copy per processor kind, op k of all copies side by side.

    Each copy has tensors and ops of its own, and its ops run on processors of its kind only. Of the exchange
    of gradients only the *barriers* count: what is exchanged passes no channel, and an op that stands for it
    keeps its duration on every copy.

    Parameters
    ----------
    graph
        Its modes name no tiers.
    kinds
        Of the processors, one per copy, all different.
    barriers
        How many there are, at equal distances in the order of the ops, between ops: the op behind one starts
        when every copy of the op before it has ended.

    Raises
    ------
    InstanceError
        If kinds repeat, a mode names the tier of an operand, or there are less than 0 barriers or as many as
        ops.

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
    many, n = len(kinds), len(graph.ops)
    if barriers and not 0 <= barriers < n:
        raise InstanceError(f"data-parallel copies: found {barriers} barriers, expected 0 to {n - 1}")
    behind = {i * n // (barriers + 1) for i in range(1, barriers + 1)}
    return replace(
        graph,
        name=f"{many} x {graph.name}",
        tensors=tuple(replace(x, name=f"{x.name}@{kind}") for x in graph.tensors for kind in kinds),
        ops=tuple(
            _copy(op, g, kind, many, k if k in behind else 0)
            for k, op in enumerate(graph.ops)
            for g, kind in enumerate(kinds)
        ),
        provenance={
            **graph.provenance,
            "data_parallel": list(kinds),
            **({"barriers": barriers} if barriers else {}),
        },
        source=None,
    )


def _copy(op: Op, g: int, kind: str, many: int, barrier: int) -> Op:
    """Return op number `g` of `many` copies, for a kind of processor, behind a barrier if it has a number."""

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(x * many + g for x in numbers)

    return replace(
        op,
        name=f"{op.name}@{kind}",
        reads=moved(op.reads),
        writes=moved(op.writes),
        after=tuple(
            sorted({*moved(op.after), *(range((barrier - 1) * many, barrier * many) if barrier else ())})
        ),
        inplace=tuple((r * many + g, w * many + g) for r, w in op.inplace),
        modes=tuple(
            Mode(duration_ns=mode.duration_ns, workspace=mode.workspace, processors=(kind,))
            for mode in op.all_modes
        ),
    )
