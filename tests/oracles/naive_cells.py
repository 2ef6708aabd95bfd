"""Addresses of one memory judged by carrying the ops out on its bytes: whoever is needed must be intact.

Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.models.graph import Accounting, Graph

Owner = tuple[str, int]
"""``("t", tensor)`` or ``("w", op)`` for the workspace of an op."""


def holds(graph: Graph, order: Sequence[int], address: Mapping[Owner, int]) -> bool:
    """Return whether no op of an order finds, or leaves, anything that it or a later one needs overwritten.

    An op that lists a pair (r, w), makes w and only reads r may write w from the first byte of r on, while it
    reads r. What else it makes, and its workspace, go where nothing is that is there.
    """
    size = {("t", t): x.nbytes for t, x in enumerate(graph.tensors)}
    size |= {("w", i): op.all_modes[0].workspace for i, op in enumerate(graph.ops)}

    def cells(owner: Owner) -> range:
        return range(address.get(owner, 0), address.get(owner, 0) + size[owner])

    def needed(t: int, done: int) -> bool:
        later = (graph.ops[i] for i in order[done:])
        return graph.tensors[t].final or any(t in {*op.reads, *op.writes} for op in later)

    bytes_of: dict[int, Owner] = {}
    there: set[int] = set()
    for t, tensor in enumerate(graph.tensors):
        if tensor.initial and needed(t, 0):
            there.add(t)
            bytes_of |= dict.fromkeys(cells(("t", t)), ("t", t))

    def intact() -> bool:
        return all(bytes_of.get(c) == ("t", t) for t in there for c in cells(("t", t)))

    for k, i in enumerate(order):
        if not intact():
            return False
        op = graph.ops[i]
        if graph.accounting is Accounting.REPLACE:
            there -= {t for t in op.reads if t not in op.writes and not needed(t, k + 1)}
        taken = {c: ("t", t) for t in there for c in cells(("t", t))}
        made: list[Owner] = [("t", t) for t in op.writes if t not in there]
        for owner in [*made, ("w", i)] if size["w", i] else made:
            under = {taken[c] for c in cells(owner) if c in taken}
            if under:
                ((kind, r), *more) = under
                listed = kind == "t" and owner[0] == "t" and (r, owner[1]) in op.inplace
                if more or not listed or r in op.writes or address["t", r] != address[owner]:
                    return False
            taken |= dict.fromkeys(cells(owner), owner)
        for owner in made:
            bytes_of |= dict.fromkeys(cells(owner), owner)
        there |= {*op.writes}
        there = {t for t in there if needed(t, k + 1)}
    return intact()
