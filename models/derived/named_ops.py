"""Ops as people list them: by index, or by a name that is unique in the graph."""

from __future__ import annotations

import difflib
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..checks import shown
from ..errors import InstanceError

if TYPE_CHECKING:
    from ..graph import Graph


def ops_by_name(graph: Graph) -> Mapping[str, Sequence[int]]:
    """Return the ops of each name."""
    ops: dict[str, list[int]] = defaultdict(list)
    for i, op in enumerate(graph.ops):
        ops[op.name].append(i)
    return dict(ops)


def op_named(word: object, named: Mapping[str, Sequence[int]], count: int, where: str) -> int:
    """Return the op that an index or a unique name stands for; a text of digits is an index.

    Raises
    ------
    InstanceError
        If it names no op, or several.
    """
    if not isinstance(word, str):
        try:
            word = str(operator.index(word))  # type: ignore[arg-type]
        except TypeError:
            raise InstanceError(
                f"{where}: found {shown(word)}, expected the index or name of an op"
            ) from None
    if word.removeprefix("-").isdigit() and word.isascii():
        if not 0 <= int(word) < count:
            raise InstanceError(f"{where}: found op {word}, expected an index in [0, {count})")
        return int(word)
    ops = named.get(word, ())
    if len(ops) == 1:
        return ops[0]
    if ops:
        raise InstanceError(
            f"{where}: found {word!r}, the name of {len(ops)} ops, expected an index "
            f"({', '.join(map(str, ops[:5]))}{', …' if len(ops) > 5 else ''})"
        )
    near = difflib.get_close_matches(word, named, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"expected an index in [0, {count}) or a name"
    raise InstanceError(f"{where}: found unknown op {word!r}, {hint}")


def ops_of(graph: Graph, order: object, where: str = "order") -> tuple[int, ...]:
    """Return the op indices of a sequence of indices or unique names; nothing else about it is checked.

    Raises
    ------
    InstanceError
        If it is no sequence, or an item names no op, or several.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.derived.named_ops import ops_of
    >>> graph = lt.load("catalogue:diamond")
    >>> ops_of(graph, [graph.ops[0].name, 2])
    (0, 2)
    """
    expected = "a Plan, or a sequence of ops by index or unique name"
    if not isinstance(order, Iterable) or isinstance(order, str | bytes):
        raise InstanceError(f"{where}: found {shown(order)}, expected {expected}")
    listed, count = list(order), len(graph.ops)
    if all(type(i) is int and 0 <= i < count for i in listed):
        return tuple(listed)
    named = ops_by_name(graph)
    return tuple(op_named(i, named, count, f"{where}, place {k}") for k, i in enumerate(listed))
