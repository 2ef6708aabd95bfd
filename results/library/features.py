"""Features of a question: how large, wide, deep and tight it is, as integers; and their logarithms.

What they describe: of a graph its ops and their precedence, of buffers these and which of them overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.units import parse_bytes

if TYPE_CHECKING:
    from ...instances.spec import Spec
    from ...models.buffers import Buffers
    from ...models.graph import Graph
    from ...models.problems.problem import Problem

MEMORIES = ("memory", "device", "bound")
"""Options of specifications that limit a memory, in bytes; the first that is given counts."""
PROCESSORS = ("processors", "devices", "gpus")
"""Options of specifications that count processors or devices; the first that is given counts."""

Features = Mapping[str, int | None]


def counts_of(problem: Problem) -> dict[str, int | None]:
    """Return the features of what a question is about: a graph or buffers.

    Returns
    -------
    dict
        ``ops`` (of buffers: how many), ``edges`` (of buffers: None), ``width`` (ops in the largest level,
        where the level of an op is its longest path from a source; of buffers: most that are live at a
        time), ``depth`` (levels; of buffers: different ends of lifetimes), ``bytes`` of all tensors,
        ``largest`` of them, ``shared`` (tensors that at least two ops read).
    """
    graph = problem.plan_graph
    return _of_buffers(problem.buffers) if graph is None else _of_graph(graph)  # type: ignore[attr-defined]


def asked_in(spec: Spec) -> dict[str, int | None]:
    """Return the features of what is asked: ``memory`` in bytes and ``processors``; None if not given."""
    memory = next((spec.options[key] for key in MEMORIES if key in spec.options), None)
    processors = next((spec.options[key] for key in PROCESSORS if key in spec.options), None)
    count = int(processors) if processors is not None and processors.isdecimal() else None
    return {"memory": _bytes(memory), "processors": count}


def vector(features: Features) -> tuple[float, ...]:
    """Return the point of a question in the space in which the sets are spread: logarithms to base 10.

    Coordinates: ops; edges per op; width and depth as shares of the ops; the largest tensor as a share of all
    bytes; shared tensors per op; memory as a share of all bytes; processors. A feature that is absent is 0.

    Examples
    --------
    >>> flat = dict.fromkeys(("edges", "memory", "processors"))
    >>> of = {"ops": 100, "width": 10, "depth": 10, "bytes": 1000, "largest": 100, "shared": 9, **flat}
    >>> [round(x, 2) for x in vector(of)]
    [2.0, 0.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.0]
    """
    ops, total = features["ops"], features["bytes"]

    def ratio(key: str, whole: int | None, more: int = 0) -> float:
        value = features[key]
        return 0.0 if value is None else math.log10(max(value + more, 1) / max(whole or 1, 1))

    return (
        math.log10(max(ops or 1, 1)),
        ratio("edges", ops),
        ratio("width", ops),
        ratio("depth", ops),
        ratio("largest", total),
        ratio("shared", ops, 1),
        ratio("memory", total),
        ratio("processors", 1),
    )


def _bytes(text: str | None) -> int | None:
    """Return a size in bytes; None if there is none, or it is no size (a share, a name)."""
    try:
        return None if text is None else parse_bytes(text)
    except UsageError:
        return None


def _of_graph(graph: Graph) -> dict[str, int | None]:
    before = precedence(graph)
    levels: list[int] = []
    for some in before.predecessors:
        levels.append(1 + max((levels[j] for j in some), default=-1))
    counts: dict[int, int] = {}
    for level in levels:
        counts[level] = counts.get(level, 0) + 1
    readers = [0] * len(graph.tensors)
    for op in graph.ops:
        for tensor in op.reads:
            readers[tensor] += 1
    sizes = [tensor.nbytes for tensor in graph.tensors]
    return {
        "ops": len(graph.ops),
        "edges": before.n_edges,
        "width": max(counts.values(), default=0),
        "depth": len(counts),
        "bytes": sum(sizes),
        "largest": max(sizes, default=0),
        "shared": sum(count > 1 for count in readers),
    }


def _of_buffers(buffers: Buffers) -> dict[str, int | None]:
    events = sorted((time, step) for b in buffers.buffers for time, step in ((b.lower, 1), (b.upper, -1)))
    live = most = 0
    for _, step in events:  # an end comes before a start at the same time
        live += step
        most = max(most, live)
    sizes = [b.size for b in buffers.buffers]
    return {
        "ops": len(sizes),
        "edges": None,
        "width": most,
        "depth": len({b.upper for b in buffers.buffers}),
        "bytes": sum(sizes),
        "largest": max(sizes, default=0),
        "shared": 0,
    }
