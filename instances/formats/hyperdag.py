"""HyperDAG files (``.hdag``) of OneStopParallel and HyperDAG_DB: vertices, and hyperedges from one to many.

``%`` begins a comment. The first line has the numbers of hyperedges, vertices and pins; then follow

* in OneStopParallel's layout a line ``id communication memory`` for each hyperedge, a line ``id work type``
  for each vertex, and a line ``hyperedge vertex`` for each pin;
* in HyperDAG_DB's (version 1) the pins, then a line ``id work communication`` for each vertex.

The first pin of a hyperedge is the vertex that makes its value, the others read it. (Read: the files in
Algebraic-Programming/OneStopParallel:data, its reader include/auxiliary/io/hdag_graph_file_reader.hpp.)

What becomes of it:

1. A vertex is an op whose duration is its work times `unit_ns`, at least 1 ns; its kind is its type.
2. A hyperedge is a tensor of its memory weight times `unit_bytes`, or, with ``weight=communication``, of its
   communication weight; HyperDAG_DB's layout has only the latter, that of the vertex which makes the value.
3. A hyperedge without readers is an output, final.
4. The reference order is the topological order that takes, of the ready vertices, always the least id.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .strict_json import located, read_bytes, show
from .task_order import topological_order

PARAMETERS = {
    "unit_bytes": Parameter(1, "bytes of a unit of weight", least=1),
    "unit_ns": Parameter(1, "nanoseconds of a unit of work", least=1),
    "weight": Parameter("memory", "the weight that sizes are", choices=("memory", "communication")),
}

Line = tuple[int, list[int]]
"""Number of a line in the file, and the integers on it."""


def read_hyperdag(
    path: str | os.PathLike[str], *, unit_bytes: int = 1, unit_ns: int = 1, weight: str = "memory"
) -> Graph:
    r"""Return the graph of a file.

    Parameters
    ----------
    unit_bytes, unit_ns
        Bytes of a unit of weight, and nanoseconds of a unit of work.
    weight
        The weight of a hyperedge that is its size: ``memory`` or ``communication``.

    Raises
    ------
    InstanceError
        If the file is missing, a line is not as the format has it, or there is a cycle; the message has
        file and line.
    """
    where = str(path)
    lines = _lines(where, read_bytes(path))
    at, head = lines[0]
    if len(head) != 3 or min(head) < 1:
        raise _unexpected(where, at, head, "the numbers of hyperedges, vertices and pins, each >= 1")
    edges, vertices, pins = head
    rows = lines[1:]
    if len(rows) not in (edges + vertices + pins, vertices + pins):
        raise InstanceError(
            f"{where}: found {len(rows)} lines after the first, expected {edges + vertices + pins} "
            f"({edges} hyperedges, {vertices} vertices, {pins} pins), or {pins + vertices} without hyperedges"
        )
    if len(rows) == pins + vertices:
        ends = _ends(where, rows[:pins], edges, vertices)
        costs = _by_id(where, rows[pins:], vertices, "vertex, work and communication")
        sizes = [costs[pinned[0]][1] for pinned in ends]
        kinds = [""] * vertices
    else:
        weights = _by_id(where, rows[:edges], edges, "hyperedge, communication and memory weight")
        costs = _by_id(where, rows[edges : edges + vertices], vertices, "vertex, work and type")
        ends = _ends(where, rows[edges + vertices :], edges, vertices)
        sizes = [pair[weight == "memory"] for pair in weights]
        kinds = [f"type {kind}" for _, kind in costs]
    before: list[set[int]] = [set() for _ in range(vertices)]
    for source, *readers in ends:
        for vertex in readers:
            before[vertex].add(source)
    order = topological_order(before, where, lambda i: f"vertex {i}")
    reads: list[list[int]] = [[] for _ in range(vertices)]
    writes: list[list[int]] = [[] for _ in range(vertices)]
    for e, (source, *readers) in enumerate(ends):
        writes[source].append(e)
        for vertex in readers:
            reads[vertex].append(e)
    with located(where):
        return Graph(
            name=Path(path).name,
            tensors=tuple(
                Tensor(
                    name=f"hyperedge {e}",
                    nbytes=size * unit_bytes,
                    kind="output" if len(ends[e]) == 1 else "other",
                    final=len(ends[e]) == 1,
                )
                for e, size in enumerate(sizes)
            ),
            ops=tuple(
                Op(
                    name=f"vertex {i}",
                    kind=kinds[i],
                    duration_ns=max(1, costs[i][0] * unit_ns),
                    reads=tuple(reads[i]),
                    writes=tuple(writes[i]),
                )
                for i in order
            ),
            provenance={"source": "hyperDAG file", "weight": weight},
        )


def _lines(where: str, content: bytes) -> list[Line]:
    """Return the lines that are no comments; at least one."""
    lines: list[Line] = []
    for at, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("%"):
            for word in words:
                if not re.fullmatch(r"\d{1,15}", word, re.ASCII):
                    raise InstanceError(f"{where}:{at}: found {show(word)}, expected an integer >= 0")
            lines.append((at, [*map(int, words)]))
    if not lines:
        raise InstanceError(f"{where}: found no line, expected the numbers of hyperedges, vertices and pins")
    return lines


def _by_id(where: str, rows: list[Line], count: int, what: str) -> list[tuple[int, int]]:
    """Return the two numbers of each id below `count`, each of which has one line."""
    values: dict[int, tuple[int, int]] = {}
    for at, numbers in rows:
        if len(numbers) != 3 or numbers[0] >= count or numbers[0] in values:
            raise _unexpected(where, at, numbers, f"{what}, each id below {count} once")
        values[numbers[0]] = (numbers[1], numbers[2])
    return [values[i] for i in range(count)]


def _ends(where: str, rows: list[Line], edges: int, vertices: int) -> list[list[int]]:
    """Return the vertices of each hyperedge, that which makes its value first."""
    ends: list[dict[int, None]] = [{} for _ in range(edges)]
    for at, pin in rows:
        if len(pin) != 2 or pin[0] >= edges or pin[1] >= vertices or pin[1] in ends[pin[0]]:
            expected = f"a hyperedge below {edges} and a vertex below {vertices}, each pair once"
            raise _unexpected(where, at, pin, expected)
        ends[pin[0]][pin[1]] = None
    for e, pinned in enumerate(ends):
        if not pinned:
            raise InstanceError(f"{where}, hyperedge {e}: found no pin, expected the vertex that makes it")
    return [[*pinned] for pinned in ends]


def _unexpected(where: str, at: int, numbers: list[int], expected: str) -> InstanceError:
    return InstanceError(f"{where}:{at}: found {show(' '.join(map(str, numbers)))}, expected {expected}")
