"""Ops that one op may stand for, as convolutions of one input that are merged into one (IOS, MLSys 2021).

A graph says in its provenance which ops may be merged, and what they take together (``merges``): a list of
``{"ops": [name], "duration_ns", "share"}``; what names ops that are not there does not count, as the graph
may have been made from another one. All ops of a merge read the same tensors after the same ops, so that none
precedes another. Merged, they are one op that writes one tensor of all their outputs; whoever reads one of
these reads that tensor, a slice of it, which is there until the last of its readers has ended; nothing is
made in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..errors import InstanceError
from ..graph import Graph, Op, Tensor
from .named_ops import op_named, ops_by_name
from .stated_blocks import stated_blocks

Sets = Sequence[Sequence[int]]


class OpMerge(NamedTuple):
    """Ops that may be merged, sorted; what they take then in ns, and the share of the device they fill."""

    ops: tuple[int, ...]
    duration_ns: int
    share: int | None


def stated_merges(graph: Graph) -> tuple[OpMerge, ...]:
    """Return the merges that a graph states.

    Raises
    ------
    InstanceError
        If they are stated otherwise, or of ops that cannot be merged.
    """
    merges, number = [], {name: ops[0] for name, ops in ops_by_name(graph).items() if len(ops) == 1}
    try:
        for item in graph.provenance.get("merges", ()):
            share = item.get("share")
            ops = tuple(sorted(number.get(name, -1) for name in item["ops"]))
            if ops[0] >= 0:
                merges.append(OpMerge(ops, int(item["duration_ns"]), None if share is None else int(share)))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InstanceError(
            f"graph {graph.name!r}, merges: found {type(error).__name__} {error}, expected objects with ops "
            "and duration_ns"
        ) from None
    writes = [t for op in graph.ops for t in op.writes]
    for merge in merges:
        first, *_ = merged = [graph.ops[i] for i in merge.ops]
        used = {*first.reads, *(t for op in merged for t in op.writes)}
        alike = all(
            (op.reads, op.after, op.kind, op.modes, op.inplace, op.workspace, len(op.writes))
            == (first.reads, first.after, first.kind, (), (), 0, 1)
            for op in merged
        )
        if (
            not alike
            or len(set(merge.ops)) < 2
            or any(writes.count(t) + graph.tensors[t].initial > 1 for t in used)
        ):
            raise InstanceError(
                f"graph {graph.name!r}, merges: found {list(merge.ops)}, expected ops of one kind and mode "
                "that read the same tensors after the same ops, and write one tensor each, once"
            )
    return tuple(merges)


def merged_numbers(graph: Graph, sets: Sets) -> list[int]:
    """Return by op its number in the graph of `merge_ops`; each set is where its first op was."""
    first = {i: min(some) for some in sets for i in some}
    left = [i for i in range(len(graph.ops)) if first.get(i, i) == i]
    number = {i: k for k, i in enumerate(left)}
    return [number[first.get(i, i)] for i in range(len(graph.ops))]


def merge_ops(graph: Graph, sets: Sets) -> Graph:
    """Return the graph with each set of ops as one op.

    Parameters
    ----------
    sets
        Disjoint; each is one that the graph states.

    Raises
    ------
    InstanceError
        If they are not, or the graph's merges are wrong.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("catalogue:ios/squeezenet")
    >>> merge_ops(graph, [(3, 4)]).ops[3].name
    'conv4+conv5'
    """
    known = {merge.ops: merge for merge in stated_merges(graph)}
    chosen = []
    for some in sets:
        if (ops := tuple(sorted(some))) not in known:
            raise InstanceError(
                f"merge, graph {graph.name!r}: found {list(ops)}, expected a merge that it states"
            )
        chosen.append(known[ops])
    if sum(len(merge.ops) for merge in chosen) > len({i for merge in chosen for i in merge.ops}):
        raise InstanceError(f"merge, graph {graph.name!r}: found an op in two merges, expected it in one")
    number = merged_numbers(graph, sets)
    whole = {graph.ops[i].writes[0]: graph.ops[merge.ops[0]].writes[0] for merge in chosen for i in merge.ops}
    kept = [t for t in range(len(graph.tensors)) if whole.get(t, t) == t]
    place = {t: k for k, t in enumerate(kept)}
    tensors = {t: [x for x, into in whole.items() if into == t] or [t] for t in kept}
    of = {merge.ops[0]: merge for merge in chosen}
    gone = {i for merge in chosen for i in merge.ops[1:]}

    def moved(i: int) -> Op:
        op, merge = graph.ops[i], of.get(i)
        op = replace(
            op,
            reads=tuple(sorted({place[whole.get(t, t)] for t in op.reads})),
            writes=tuple(place[t] for t in op.writes),
            inplace=tuple((place[a], place[b]) for a, b in op.inplace if a not in whole),
            after=tuple(sorted({number[j] for j in op.after})),
        )
        if merge is None:
            return op
        name = "+".join(graph.ops[j].name for j in merge.ops)
        return replace(op, name=name, duration_ns=merge.duration_ns, share=merge.share, work=())

    provenance = {key: value for key, value in graph.provenance.items() if key != "blocks"}
    if (stated := stated_blocks(graph)) is not None:
        blocks = [[number[i] for i in block if i not in gone] for block in stated]
        provenance["blocks"] = [block for block in blocks if block]
    return Graph(
        name=graph.name,
        tensors=tuple(_together([graph.tensors[x] for x in tensors[t]]) for t in kept),
        ops=tuple(moved(i) for i in range(len(graph.ops)) if i not in gone),
        accounting=graph.accounting,
        provenance={**provenance, "merged": text_of(graph, sets)},
    )


def _together(tensors: Sequence[Tensor]) -> Tensor:
    return replace(
        tensors[0],
        name="+".join(x.name for x in tensors),
        nbytes=sum(x.nbytes for x in tensors),
        final=any(x.final for x in tensors),
    )


def text_of(graph: Graph, sets: Sets) -> str:
    """Return sets as the option of an instance has them: names, joined.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("catalogue:ios/squeezenet")
    >>> text_of(graph, [(3, 4), (9, 10)])
    'conv4+conv5;conv10+conv11'
    >>> sets_of(graph, "conv4+conv5;9+10")
    [[3, 4], [9, 10]]
    """
    return ";".join("+".join(graph.ops[i].name for i in sorted(some)) for some in sets)


def sets_of(graph: Graph, text: str) -> list[list[int]]:
    """Return the sets that a text has: names of ops or numbers.

    Raises
    ------
    InstanceError
        If there is no such op.
    """
    named, n = ops_by_name(graph), len(graph.ops)
    return [[op_named(x, named, n, "merge") for x in some.split("+")] for some in text.split(";")]
