"""Networks in another data type: values of its size, arithmetic at its rate."""

from __future__ import annotations

from dataclasses import replace

from ...models.graph import Graph
from ...models.work import DTYPES
from ..durations import at_peak_rates
from .network import VALUE_BYTES


def in_dtype(graph: Graph, dtype: str) -> Graph:
    """Return a forward graph of 32-bit values in a data type, with its durations at the rates of that type.

    Numbers of tokens, which are integers, keep their size.
    """
    width = DTYPES[dtype]
    sizes = [
        t.nbytes if t.kind == "input" and t.name.endswith("tokens") else t.nbytes * width // VALUE_BYTES
        for t in graph.tensors
    ]
    ops = []
    for op in graph.ops:
        moved = sum(sizes[t] for t in {*op.reads, *op.writes})
        ops.append(replace(op, work=tuple(replace(x, nbytes=moved, dtype=dtype) for x in op.work)))
    tensors = (replace(t, nbytes=size) for t, size in zip(graph.tensors, sizes, strict=True))
    return at_peak_rates(replace(graph, tensors=tuple(tensors), ops=tuple(ops)))
