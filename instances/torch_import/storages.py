"""Which storages an op touches: views vanish into the storage that they look at.

Tensors of torch are views of storages, and what takes memory is the storage. Tracing on fake tensors keeps
that relation: two fake tensors look at the same bytes exactly if they have the same storage. So a storage
is a tensor of the graph, and an op that makes no new storage and writes none that it was given (``view``,
``t``, ``expand``, ``split``, ``detach``, ``reshape`` where it copies nothing, …) is no op of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SHAPE_ONLY = frozenset(
    {
        *("empty_like", "full_like", "new_empty", "new_empty_strided", "new_full", "new_ones"),
        *("new_zeros", "ones_like", "rand_like", "randn_like", "zeros_like"),
    }
)
"""Kinds of op that look at the shape of their operand, not at its content: they read nothing."""

BATCH_NORMS = ("native_batch_norm", "cudnn_batch_norm")
"""Their arguments 3 and 4 are the running mean and variance, argument 5 says whether it is training."""


def kind_of(node: Any) -> str:
    """Return the kind of an op: the name of its aten operator, without overload."""
    return str(node.target.overloadpacket.__name__) if is_operator(node) else str(node.target.__name__)


def is_operator(node: Any) -> bool:
    """Return whether a node calls an operator of torch; the others take parts of what one returned."""
    return hasattr(node.target, "overloadpacket")


def tensors_of(node: Any) -> list[Any]:
    """Return the fake tensors that a node stands for: none, one, or several."""
    from torch import Tensor

    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return [x for x in values if isinstance(x, Tensor)]


def storage_of(tensor: Any) -> Any:
    """Return the storage of a tensor, as a key that equals that of every other view of it."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(tensor.untyped_storage())


def storages(node: Any) -> list[Any]:
    """Return the storages of a node's tensors, without repetition."""
    return list(dict.fromkeys(storage_of(tensor) for tensor in tensors_of(node)))


def operands(node: Any) -> list[Any]:
    """Return the nodes whose content an op reads, without repetition."""
    return [] if kind_of(node) in SHAPE_ONLY else list(node.all_input_nodes)


def overwritten(node: Any) -> list[Any]:
    """Return the storages that an op changes in place.

    The operator's schema marks them. `BATCH_NORMS` change what their schemas do not mark: in training they
    bring the running mean and variance up to date.
    """
    found = [
        node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        for i, argument in enumerate(node.target._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if kind_of(node) in BATCH_NORMS and node.args[5]:
        found += node.args[3:5]
    return list(dict.fromkeys(s for x in _nodes(found) for s in storages(x)))


def _nodes(arguments: list[Any]) -> Iterator[Any]:
    for x in arguments:
        if isinstance(x, list | tuple):
            yield from _nodes(list(x))
        elif x is not None:
            yield x
