"""Chakra execution traces (``.et``) of MLCommons: one rank's nodes with dependencies and times.

A file is a sequence of protocol buffers, each behind its length: GlobalMetadata, then a Node each. (Read:
mlcommons/chakra: schema/protobuf/et_def.proto, src/third_party/utils/protolib.py, src/converter.)

What becomes of it:

1. A node is an op with its time, at least 1 ns, and its type as kind.
2. Dependencies, of control and of data, are ``after``. The reference order is the topological order that
   takes, of the ready nodes, always the first of the file.
3. Traces of PyTorch name tensors among the inputs and outputs of nodes, as ``[tensor, storage, offset,
   elements, bytes, 'device']``. A storage is a tensor of the graph, as large as the end of the last tensor in
   it. Nodes that called others have no operands: the called ones do. What is read before it is written is
   there all the time, since the caller holds it. What is written and not read any more is an output.
   ``device=cuda:0``: storages elsewhere have 0 bytes.
4. In traces that name none (of simulators), a node with dependents by data writes a tensor which these read,
   of the bytes that its attributes ``tensor_size`` or ``comm_size`` state, else 0.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .protobuf import Value, chunk, fields, varint
from .strict_json import located, read_bytes
from .task_order import topological_order

PARAMETERS = {"device": Parameter("any", "device whose storages count, such as cuda:0", pattern=r"[\w:.-]+")}

TYPES = (
    *("invalid", "metadata", "load", "store", "compute", "send", "receive", "collective"),
    *("storage", "batch", "checkpoint"),
)
"""Types of nodes by their number."""

_STORAGE = re.compile(r"\[\d{1,19}, (\d{1,19}), (\d{1,15}), (\d{1,15}), (\d{1,4}), '([^'\[\]]*)'\]", re.ASCII)
"""A tensor in the text of inputs or outputs: storage, offset and elements, bytes of an element, device."""

_SIZES = ("tensor_size", "comm_size")
"""Attributes that state bytes, the first one that a node has counts."""

V = TypeVar("V", int, bytes)

Storage = tuple[str, int]
"""Device and number of a storage."""


@dataclass(slots=True)
class TraceNode:
    """A node of the file; operands are storages with their bytes."""

    id: int = 0
    name: str = ""
    type: int = 0
    control: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    micros: int = 0
    reads: dict[Storage, int] = field(default_factory=dict)
    writes: dict[Storage, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


def read_chakra(path: str | os.PathLike[str], *, device: str = "any") -> Graph:
    """Return the graph of a trace.

    Parameters
    ----------
    device
        Storages on other devices have 0 bytes; ``any``: all count.

    Raises
    ------
    InstanceError
        If the file is missing or no trace, an id repeats or dangles, or dependencies close a cycle.
    """
    where = str(path)
    nodes = _nodes(read_bytes(path), where)
    index = {node.id: i for i, node in enumerate(nodes)}
    for node in nodes:
        for other in (*node.control, *node.data):
            if other not in index:
                raise InstanceError(
                    f"{where}, node {node.id}: found dependency {other}, expected a node of the file"
                )
    before = [{index[x] for x in (*node.control, *node.data)} for node in nodes]
    order = topological_order(before, where, lambda i: f"node {nodes[i].id}")
    position = {i: k for k, i in enumerate(order)}
    after = [sorted(position[j] for j in before[i]) for i in order]
    listed = [nodes[i] for i in order]
    if any(node.reads or node.writes for node in nodes):
        tensors, reads, writes = _storages(listed, device)
    else:
        tensors, reads, writes = _dependencies(listed)
    ops = tuple(
        Op(
            name=node.name or f"node {node.id}",
            kind=TYPES[node.type],
            duration_ns=max(1, 1000 * node.micros),
            reads=tuple(reads[k]),
            writes=tuple(writes[k]),
            after=tuple(after[k]),
        )
        for k, node in enumerate(listed)
    )
    with located(where):
        return Graph(
            name=Path(path).name,
            tensors=tuple(tensors),
            ops=ops,
            provenance={"source": "Chakra execution trace"},
        )


Operands = tuple[list[Tensor], list[list[int]], list[list[int]]]
"""Tensors, and for each op those that it reads and writes."""


def _storages(nodes: list[TraceNode], device: str) -> Operands:
    """Return the storages as tensors; of nodes that called others, the operands of these count."""
    callers = {x for node in nodes for x in node.control}
    operands: list[tuple[dict[Storage, int], dict[Storage, int]]] = [
        ({}, {}) if node.id in callers else (node.reads, node.writes) for node in nodes
    ]
    sizes: dict[Storage, int] = {}
    initial: set[Storage] = set()
    written: set[Storage] = set()
    unread: set[Storage] = set()
    for read, write in operands:
        for storage, nbytes in (*read.items(), *write.items()):
            sizes[storage] = max(sizes.get(storage, 0), nbytes)
        initial |= read.keys() - written
        unread -= read.keys()
        written |= write.keys()
        unread |= write.keys()
    number = {storage: t for t, storage in enumerate(sizes)}
    tensors = [
        Tensor(
            name=f"storage {storage[1]} on {storage[0]}",
            nbytes=nbytes if device in ("any", storage[0]) else 0,
            kind="input" if storage in initial else "output" if storage in unread else "other",
            initial=storage in initial,
            final=storage in initial or storage in unread,
        )
        for storage, nbytes in sizes.items()
    ]
    reads, writes = ([[number[s] for s in ends[k]] for ends in operands] for k in (0, 1))
    return tensors, reads, writes


def _dependencies(nodes: list[TraceNode]) -> Operands:
    """Return a tensor for each node with dependents by data, of the size that its attributes state."""
    needed = {x for node in nodes for x in node.data}
    sources = [node for node in nodes if node.id in needed]
    number = {node.id: t for t, node in enumerate(sources)}
    tensors = [
        Tensor(
            name=f"output of {node.name or node.id}",
            nbytes=next((node.sizes[key] for key in _SIZES if key in node.sizes), 0),
        )
        for node in sources
    ]
    reads = [[number[x] for x in dict.fromkeys(node.data)] for node in nodes]
    return tensors, reads, [[number[node.id]] if node.id in number else [] for node in nodes]


def _nodes(content: bytes, where: str) -> list[TraceNode]:
    """Return the nodes of a file, each id once; at least one."""
    _, at = chunk(content, 0, where)
    nodes: dict[int, TraceNode] = {}
    while at < len(content):
        message, at = chunk(content, at, where)
        node = _node(message, f"{where}, node {len(nodes)} of the file")
        if node.id in nodes:
            raise InstanceError(f"{where}, node {node.id}: found it twice, expected each id once")
        nodes[node.id] = node
    if not nodes:
        raise InstanceError(f"{where}: found no node, expected metadata and nodes of a Chakra trace")
    return [*nodes.values()]


def _node(message: bytes, where: str) -> TraceNode:
    node = TraceNode()
    for number, value in fields(message, where):
        if number in (1, 3, 7):
            whole = _typed(value, int, number, where)
            if number == 1:
                node.id = whole
            elif number == 3:
                node.type = whole
            else:
                node.micros = whole
        elif number in (4, 5):
            (node.control if number == 4 else node.data).extend(_repeated(value, where))
        elif number == 2:
            node.name = _text(value, number, where)
        elif number in (8, 9):
            (node.reads if number == 8 else node.writes).update(
                _operands(_typed(value, bytes, number, where), where)
            )
        elif number == 10:
            name, stated = _attribute(_typed(value, bytes, number, where), where)
            if name in _SIZES:
                node.sizes[name] = stated
    if node.type >= len(TYPES):
        raise InstanceError(f"{where}: found type {node.type}, expected a number below {len(TYPES)}")
    return node


def _operands(message: bytes, where: str) -> dict[Storage, int]:
    """Return the storages that the text of inputs or outputs names, with the bytes up to the tensor's end."""
    storages: dict[Storage, int] = {}
    for number, value in fields(message, where):
        for match in _STORAGE.finditer(_text(value, number, where)) if number == 1 else ():
            storage, offset, elements, width = map(int, match.groups()[:4])
            key = (match[5], storage)
            storages[key] = max(storages.get(key, 0), (offset + elements) * width)
    return storages


def _attribute(message: bytes, where: str) -> tuple[str, int]:
    """Return name and number of an attribute; 0 of one that is no integer below 2**63."""
    name, stated = "", 0
    for number, value in fields(message, where):
        if number == 1:
            name = _text(value, number, where)
        elif number in (7, 9, 11, 13) and isinstance(value, int):  # int32, int64, uint32, uint64
            stated = value if value < 2**63 else 0
    return name, stated


def _repeated(value: Value, where: str) -> list[int]:
    """Return the numbers of a repeated field: one, or several packed."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = varint(value, at, where)
        numbers.append(number)
    return numbers


def _typed(value: Value, kind: type[V], number: int, where: str) -> V:
    if not isinstance(value, kind):
        raise InstanceError(
            f"{where}, field {number}: found {type(value).__name__}, expected {kind.__name__}"
        )
    return value


def _text(value: Value, number: int, where: str) -> str:
    return _typed(value, bytes, number, where).decode("utf-8", "replace")
