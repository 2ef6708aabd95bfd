"""Sums of gradients: additions in a row in the backward pass are one n-ary op.

Where a value has several consumers, autograd adds up what they contribute, two at a time in the order of
arrival: ``a + b``, then ``(a + b) + c``. That order is an accident of the traced execution and no part of
the network, so an addition whose result only the next addition reads is folded into it; the op stands where
the last of them stood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .storages import is_operator, kind_of


def sums_in_a_row(backward: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the additions of the backward pass that take others in: last addition -> its terms.

    Parameters
    ----------
    backward
        The nodes after the loss, in the order of execution.
    """
    terms: dict[Any, list[Any]] = {}
    for node in backward:
        if not _adds_two_of_a_shape(node):
            continue
        found: list[Any] = []
        for x in node.args:
            found += terms.pop(x) if x in terms and len(x.users) == 1 else [x]
        terms[node] = found
    return {node: found for node, found in terms.items() if len(found) > 2}


def _adds_two_of_a_shape(node: Any) -> bool:
    """Return whether a node is ``a + b``, of two tensors, without factor, broadcast or conversion."""
    if not is_operator(node) or kind_of(node) != "add" or node.kwargs or len(set(node.args)) != 2:
        return False
    result = node.meta["val"]
    operands = [x.meta["val"] for x in node.args if hasattr(x, "meta")]
    alike = [x for x in operands if x.shape == result.shape and x.dtype == result.dtype]
    return len(alike) == 2


def absorbed(sums: dict[Any, list[Any]]) -> set[Any]:
    """Return the additions that vanish into later ones."""
    gone: set[Any] = set()
    for last, terms in sums.items():
        waiting = [x for x in last.args if x not in terms]
        while waiting:
            node = waiting.pop()
            gone.add(node)
            waiting += [x for x in node.args if x not in terms]
    return gone
