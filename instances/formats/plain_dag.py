"""Graphs of other tools: a directed graph whose nodes are tasks, with sizes on nodes or edges.

Conventions (names in any case; of several names the first one counts):

* A node is an op. ``nbytes``, ``memory``, ``mem``, ``size``, ``output_size`` or ``weight`` is the size of
  the one tensor that it writes, which all of its successors read; ``duration_ns``, ``duration``,
  ``time``, ``runtime`` or ``cost`` its time in ns (default 1); ``workspace`` or ``temp`` the bytes that
  it holds only while it runs; ``work`` the JSON text of its work as in native files, for durations of
  other devices; ``kind``, ``op``, ``op_type`` or ``type`` its operator; ``label`` or
  ``name`` its name (default: the node).
* An edge with ``nbytes``, ``memory``, ``mem``, ``size``, ``data`` or ``weight`` is a tensor of its own
  that the tail writes and the head reads (the per-edge-data model).
* An edge without a size passes the tensor of its tail; if the tail has none, it is a control edge.
* What no op reads is an output and stays to the end, unless the node says ``final=false``.
* A node with duration 0, without size, sized edges or workspace, is a dummy: it vanishes, and what
  follows it comes after what precedes it.
* The reference order is the topological order that takes, of the ready nodes, always the first listed.

Numbers must be integers (``3``, ``3.0`` and ``"3"`` are) or have a unit (``"4MB"``, ``"3ms"``); others are
refused, since rounding sizes would change optima: scale them first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeGuard

from ...models.errors import InstanceError, UsageError
from ...models.graph import Graph, Op, Tensor
from ...models.units import parse_bytes, parse_duration
from ...models.work import Work
from .native import work_from_list
from .strict_json import located, parse_json, show
from .task_order import topological_order

if TYPE_CHECKING:
    import networkx as nx

_NODE_SIZE = ("nbytes", "memory", "mem", "size", "output_size", "weight")
_EDGE_SIZE = ("nbytes", "memory", "mem", "size", "data", "weight")
_DURATION = ("duration_ns", "duration", "time", "runtime", "cost")
_WORKSPACE = ("workspace", "temp")
_KIND = ("kind", "op", "op_type", "type")
_NAME = ("label", "name")


def graph_of_plain_dag(source: nx.Graph[Any], name: str, where: str) -> Graph:
    """Return the graph of a directed graph with sizes on nodes or edges, by the conventions above.

    Parameters
    ----------
    source
        A networkx ``DiGraph`` or ``MultiDiGraph``.

    Raises
    ------
    InstanceError
        If it is undirected, has a cycle or no size at all, or a number is not one.
    """
    if not _is_directed(source):
        raise InstanceError(f"{where}: found an undirected graph, expected a directed one")
    return _PlainDag(source, where).graph(name)


def _is_directed(source: nx.Graph[Any]) -> TypeGuard[nx.DiGraph[Any]]:
    return source.is_directed()


class _PlainDag:
    """The raw facts of the source, numbered in topological order."""

    def __init__(self, source: nx.DiGraph[Any], where: str) -> None:
        self.where = where
        self.nodes = _topological_order(source, where)
        self.attributes: list[Mapping[str, Any]] = [_lower(source.nodes[v]) for v in self.nodes]
        position = {v: i for i, v in enumerate(self.nodes)}
        edges = [(position[u], position[v], _lower(data)) for u, v, data in source.edges(data=True)]
        self.edges = sorted(edges, key=lambda edge: edge[:2])
        self.tensors: list[Tensor] = []
        self.reads: list[list[int]] = [[] for _ in self.nodes]
        self.writes: list[list[int]] = [[] for _ in self.nodes]
        self.after: list[set[int]] = [set() for _ in self.nodes]

    def graph(self, name: str) -> Graph:
        """Return the graph."""
        self._add_tensors()
        dummies = self._fold_dummies()
        kept = [i for i in range(len(self.nodes)) if i not in dummies]
        number = {i: k for k, i in enumerate(kept)}
        ops = [
            Op(
                name=str(self._value(i, _NAME) or self.nodes[i]),
                kind=str(self._value(i, _KIND) or ""),
                duration_ns=1 if (time := self._integer(i, _DURATION, 1)) is None else time,
                workspace=self._integer(i, _WORKSPACE, 0) or 0,
                work=self._work(i),
                reads=tuple(self.reads[i]),
                writes=tuple(self.writes[i]),
                after=tuple(sorted(number[x] for x in self.after[i])),
            )
            for i in kept
        ]
        with located(self.where):
            graph = Graph(
                name=name,
                tensors=tuple(self.tensors),
                ops=tuple(ops),
                provenance={
                    "source": "directed graph with sizes on its nodes or edges",
                    **({"durations": "given"} if any(op.work for op in ops) else {}),
                },
            )
        return graph

    def _add_tensors(self) -> None:
        sizes = [self._edge_size(edge) for edge in self.edges]
        own = [self._integer(i, _NODE_SIZE, 0) for i in range(len(self.nodes))]
        if self.nodes and not any(size is not None for size in [*sizes, *own]):
            raise InstanceError(
                f"{self.where}: found no size on any node or edge, "
                f"expected an attribute {', '.join(_NODE_SIZE)}"
            )
        passes_own = {u for (u, _, _), size in zip(self.edges, sizes, strict=True) if size is None}
        tensor_of: dict[int, int] = {}
        for i, nbytes in enumerate(own):
            if nbytes is not None:
                tensor_of[i] = self._add(i, nbytes, self._label(i), is_read=i in passes_own)
        for (u, v, _), size in zip(self.edges, sizes, strict=True):
            if size is not None:
                t = self._add(u, size, f"{self._label(u)}->{self._label(v)}", is_read=True)
                self.reads[v].append(t)
            elif u not in tensor_of:
                self.after[v].add(u)
            elif tensor_of[u] not in self.reads[v]:
                self.reads[v].append(tensor_of[u])

    def _add(self, writer: int, nbytes: int, name: str, *, is_read: bool) -> int:
        final = not is_read
        if not is_read and (given := self._value(writer, ("final",))) is not None:
            final = str(given).lower() not in ("false", "0", "no")
        kind = "activation" if is_read else "output"
        self.tensors.append(Tensor(name=name, nbytes=nbytes, kind=kind, final=final))
        self.writes[writer].append(len(self.tensors) - 1)
        return len(self.tensors) - 1

    def _fold_dummies(self) -> set[int]:
        """Return the nodes that vanish; what comes after one now comes after what precedes it."""
        dummies: set[int] = set()
        for i in range(len(self.nodes)):
            for d in sorted(self.after[i] & dummies):
                self.after[i].remove(d)
                self.after[i] |= self.after[d] | self._writers_read_by(d)
            if self._integer(i, _DURATION, 0) == 0:
                if self.writes[i] or self._integer(i, _WORKSPACE, 0):
                    raise InstanceError(
                        f"{self.where}: node {self._label(i)!r}, duration: found 0 on a node with data, "
                        "expected an integer >= 1"
                    )
                dummies.add(i)
        for d in dummies:
            self.reads[d].clear()
        return dummies

    def _writers_read_by(self, dummy: int) -> set[int]:
        wanted = set(self.reads[dummy])
        return {i for i in range(dummy) if wanted & set(self.writes[i])}

    def _edge_size(self, edge: tuple[int, int, Mapping[str, Any]]) -> int | None:
        u, v, data = edge
        size = _first(data, _EDGE_SIZE)
        if size is None:
            return None
        where = f"{self.where}: edge {self._label(u)!r} -> {self._label(v)!r}"
        return _to_integer(size[1], 0, f"{where}, {size[0]}")

    def _integer(self, i: int, names: tuple[str, ...], least: int) -> int | None:
        value = _first(self.attributes[i], names)
        if value is None:
            return None
        return _to_integer(value[1], least, f"{self.where}: node {self._label(i)!r}, {value[0]}")

    def _work(self, i: int) -> tuple[Work, ...]:
        value, where = self._value(i, ("work",)), f"{self.where}: node {self._label(i)!r}"
        parts = parse_json(value.encode(), f"{where}, work") if isinstance(value, str) else value
        return () if parts is None else work_from_list(parts, where)

    def _value(self, i: int, names: tuple[str, ...]) -> Any:
        found = _first(self.attributes[i], names)
        return None if found is None else found[1]

    def _label(self, i: int) -> str:
        return str(self.nodes[i])


def _lower(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).lower(): value for key, value in attributes.items()}


def _first(attributes: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, Any] | None:
    return next(((name, attributes[name]) for name in names if name in attributes), None)


def _to_integer(value: Any, least: int, where: str) -> int:
    number = None
    if isinstance(value, str) and re.search("[A-Za-z]", value):
        unit = parse_duration if where.rpartition(", ")[2] in _DURATION else parse_bytes
        with suppress(UsageError):
            number = unit(value)
    elif isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,30}(\.0*)?\s*", value, re.ASCII):
        number = int(value.partition(".")[0])
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is None or number < least:
        raise InstanceError(f"{where}: found {show(value)}, expected an integer >= {least}")
    return number


def _topological_order(source: nx.DiGraph[Any], where: str) -> list[Any]:
    nodes = list(source.nodes)
    position = {v: i for i, v in enumerate(nodes)}
    before = [{position[u] for u in source.predecessors(v)} for v in nodes]
    return [nodes[i] for i in topological_order(before, where, nodes.__getitem__)]
