"""Data-parallel training: the same graph once per processor, and the exchange of gradients between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode, Op, Tensor
from ...models.work import Work
from .roofline import duration_ns


def data_parallel(graph: Graph, kinds: Sequence[str], barriers: int = 0, exchange: int = 0) -> Graph:
    """Return a graph of one copy per processor kind, op k of all copies side by side.

    Each copy has tensors and ops of its own, and its ops run on processors of its kind only.

    Parameters
    ----------
    graph
        Its modes name no tiers.
    kinds
        Of the processors, one per copy, all different.
    barriers
        How many there are, at equal distances in the order of the ops, between ops: the op behind one starts
        when every copy of the op before it has ended.
    exchange
        Bytes of gradients of which all G copies make the sum at each barrier and at the end, by a ring
        (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009):
        each copy sends :math:`2 (G - 1) / G` of them to the next one, rounded up. The op before the barrier
        writes what is sent, a tensor of its own; a further op, behind the barrier, reads what came, in the
        time of the roofline. How it gets there is the plan's business, as of any tensor. (Deviation: a ring
        works in 2 (G - 1) steps, each on a G-th; what is sent at full rate arrives at the same time.)

    Raises
    ------
    InstanceError
        If kinds repeat, a mode names the tier of an operand, there are less than 0 barriers or as many as
        ops, or less than 0 bytes.

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
    if exchange < 0:
        raise InstanceError(f"data-parallel copies: found {exchange} bytes to exchange, expected 0 or more")
    behind = [i * n // (barriers + 1) for i in range(1, barriers + 1)]
    sent = -(-2 * (many - 1) * exchange // many)
    one, first = graph, len(graph.tensors)
    if sent:
        one = _exchanging(graph, [*behind, n], sent)
        behind = [k for k, op in enumerate(one.ops) if any(t >= first for t in op.reads)]
    stated = {"barriers": barriers, "exchange": exchange}
    return replace(
        one,
        name=f"{many} x {graph.name}",
        tensors=tuple(replace(x, name=f"{x.name}@{kind}") for x in one.tensors for kind in kinds),
        ops=tuple(
            _copy(op, g, kind, many, k if k in behind else 0, first)
            for k, op in enumerate(one.ops)
            for g, kind in enumerate(kinds)
        ),
        provenance={
            **graph.provenance,
            "data_parallel": list(kinds),
            **{key: value for key, value in stated.items() if value},
        },
        source=None,
    )


def _exchanging(graph: Graph, places: Sequence[int], nbytes: int) -> Graph:
    """Return one copy with exchanges before the ops at some places; the last place is behind all ops."""
    ops: list[Op] = []
    number: list[int] = []
    tensors = list(graph.tensors)
    for k in range(len(graph.ops) + 1):
        after: tuple[int, ...] = ()
        if k in places:
            name, t = f"exchange {places.index(k)}", len(tensors)
            tensors.append(Tensor(name=name, nbytes=nbytes, kind="gradient"))
            ops[-1] = replace(ops[-1], writes=(*ops[-1].writes, t))
            after = (len(ops),)
            ops.append(
                Op(
                    name=name,
                    kind="Exchange",
                    reads=(t,),
                    after=(len(ops) - 1,),
                    duration_ns=duration_ns(nbytes, 0),
                    work=(Work(nbytes=nbytes),) * graph.states_work,
                )
            )
        if k < len(graph.ops):
            number.append(len(ops))
            op = graph.ops[k]
            ops.append(replace(op, after=tuple(sorted({*(number[j] for j in op.after), *after}))))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def _copy(op: Op, g: int, kind: str, many: int, barrier: int, first: int) -> Op:
    """Return op number `g` of `many` copies, for a kind of processor, behind a barrier if it has a number.

    Tensors from `first` on are read by the next copy.
    """

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(x * many + g for x in numbers)

    return replace(
        op,
        name=f"{op.name}@{kind}",
        reads=tuple(t * many + (g if t < first else (g - 1) % many) for t in op.reads),
        writes=moved(op.writes),
        after=tuple(
            sorted({*moved(op.after), *(range((barrier - 1) * many, barrier * many) if barrier else ())})
        ),
        inplace=tuple((r * many + g, w * many + g) for r, w in op.inplace),
        modes=tuple(
            Mode(duration_ns=mode.duration_ns, workspace=mode.workspace, processors=(kind,), work=mode.work)
            for mode in op.all_modes
        ),
    )
