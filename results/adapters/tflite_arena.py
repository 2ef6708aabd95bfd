"""A TensorFlow Lite model with the addresses of a plan, which TFLite Micro takes instead of its own.

The metadata ``OfflineMemoryAllocation`` names a buffer of 32-bit integers: version 0, subgraph 0, the number
of tensors, and the address of each in the arena; -1 leaves it to the greedy planner. (Read: tflite-micro:
tensorflow/lite/micro/docs/memory_management.md; run: tflite-micro of October 2026.)

The rest of the file stays as it is, behind a new beginning: distances in a flatbuffer lead ahead only, so a
new root table with longer lists of buffers and metadata stands in front of the old content and refers to it.
Where the plan has another order than the file, the list of operators is permuted in its place.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from ...instances.formats.tflite import (
    BUFFERS,
    IMPORTER,
    METADATA,
    MODEL_FIELDS,
    TfliteModel,
    read_model,
)
from ...models.errors import InstanceError, UsageError
from ...models.files import write_whole
from ...models.graph import Graph
from ...models.lowering.buffers import buffers_from_plan
from ...models.plan import Plan
from .orders import order_of

ENTRY = "OfflineMemoryAllocation"
"""Name of the metadata."""

ALIGNMENT = 16
"""Bytes that every address in an arena of TFLite Micro is a multiple of (its MicroArenaBufferAlignment)."""

ADDRESSED = "an order with addresses (offsets 'MODEL.tflite?alignment=16', or arena --alignment 16)"
"""What plans must be, in the words of messages."""


def addresses(graph: Graph, plan: Plan) -> list[int]:
    """Return the address of each tensor in bytes; -1 of those that the plan does not place.

    Parameters
    ----------
    graph
        As `lowtide.load` reads it from a ``.tflite`` file, without ``weights=1``.
    plan
        Runs each op once, one after another, and has an address for each tensor.

    Raises
    ------
    InstanceError
        If the graph was read from no such file.
    UsageError
        If the plan is more than an order, has no addresses, or some that TFLite Micro cannot take.
    VerificationError
        If the plan does not verify.
    """
    order_of(graph, plan, "addresses", ADDRESSED)
    _file_of(graph)
    where = f"plan of {graph.name!r}"
    if plan.allocation is None:
        raise UsageError(f"{where}: found no addresses, expected {ADDRESSED}")
    placed = [-1] * len(graph.tensors)
    for buffer in buffers_from_plan(graph, plan).buffers:
        t, offset = int(buffer.id.partition(":")[0]), plan.allocation[buffer.id]  # ids begin with the tensor
        if graph.tensors[t].kind in ("weight", "state"):
            raise UsageError(f"{where}: found an address of {graph.tensors[t].name!r}, expected no weights=1")
        if offset % ALIGNMENT or offset >= 2**31 or placed[t] not in (-1, offset):
            raise UsageError(
                f"{where}: found address {offset} of {graph.tensors[t].name!r}, expected one a tensor, "
                f"a multiple of {ALIGNMENT} below 2 GiB: {ADDRESSED}"
            )
        placed[t] = offset
    return placed


def write(graph: Graph, plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the model of a graph with the addresses and in the order of a plan.

    Parameters
    ----------
    graph, plan
        As of `addresses`.
    path
        The file; written whole or not at all.

    Raises
    ------
    InstanceError, VerificationError
        As `addresses`; if the file has changed, or has parts that this writer does not know.
    UsageError
        As `addresses`; if the path cannot be written.
    """
    order, placed = order_of(graph, plan, "write", ADDRESSED), addresses(graph, plan)
    model = read_model(_file_of(graph))
    ends = [(op.reads, op.writes) for op in graph.ops]
    if ends != [(op.inputs, op.outputs) for op in model.operators] or len(placed) != len(model.tensors):
        raise InstanceError(
            f"{model.file.where}: found another model than that of the plan, expected the same"
        )
    content = _reordered(model, order)
    write_whole(
        path, _with_entry(model, content, struct.pack(f"<3i{len(placed)}i", 0, 0, len(placed), *placed))
    )


def _file_of(graph: Graph) -> str:
    source = graph.provenance.get("source")
    if not isinstance(source, str) or graph.provenance.get("importer") != IMPORTER:
        raise InstanceError(
            f"graph {graph.name!r}: found no .tflite file that it was read from, expected one"
        )
    return source


def _reordered(model: TfliteModel, order: Sequence[int]) -> bytes:
    """Return the bytes of the file with its list of operators in another order."""
    content = bytearray(model.file.content)
    at, count = model.file.elements(model.subgraph, 3, 4)
    targets = [model.file.ahead(at + 4 * i) for i in range(count)]
    for k, i in enumerate(order):
        content[at + 4 * k : at + 4 * k + 4] = _distance(model, at + 4 * k, targets[i])
    return bytes(content)


def _distance(model: TfliteModel, at: int, target: int) -> bytes:
    """Return the four bytes at a place that lead ahead to another one."""
    if not 0 < target - at < 2**32:
        raise InstanceError(
            f"{model.file.where}: found a part at byte {target} that does not follow byte {at}, which refers "
            "to it, expected the order of TensorFlow's writer"
        )
    return struct.pack("<I", target - at)


def _with_entry(model: TfliteModel, content: bytes, integers: bytes) -> bytes:
    """Return the file with another beginning, which has the metadata."""
    file, root = model.file, model.root
    known = 4 + 2 * MODEL_FIELDS
    extent = file.number("H", root - file.number("i", root))
    outside = [b for b in file.tables(root, BUFFERS) if file.integer(b, 1, "Q") > 1]
    if (
        extent > known
        or outside
        or any(file.integer(op, 9, "Q") > 1 for op in file.tables(model.subgraph, 3))
    ):
        what = f"content behind the flatbuffer{'' if extent <= known else ', or unknown fields'}"
        raise InstanceError(f"{file.where}: found {what}, expected a model within one flatbuffer")
    kept = [entry for entry in file.tables(root, METADATA) if file.text(entry, 0) != ENTRY]
    buffers = list(file.tables(root, BUFFERS))
    # root distance, identifier, vtable, table, list of buffers, list of metadata, then what the last two name
    table = 8 + known
    list_of_buffers = table + 4 + 4 * MODEL_FIELDS
    list_of_metadata = list_of_buffers + 4 + 4 * (len(buffers) + 1)
    entry = list_of_metadata + 4 + 4 * (len(kept) + 1) + 8  # its vtable stands before it
    buffer = entry + 12 + 8  # so does that of the buffer, which has 6 bytes and 2 of padding
    name = buffer + 8
    data = -(-(name + 4 + len(ENTRY) + 1 + 4) // ALIGNMENT) * ALIGNMENT - 4
    shift = -(-(data + 4 + len(integers)) // ALIGNMENT) * ALIGNMENT
    parts: list[tuple[int, bytes]] = [(0, struct.pack("<I", table) + b"TFL3")]
    fields = [file.field(root, k) for k in range(MODEL_FIELDS)]
    present = [bool(at) or k in (BUFFERS, METADATA) for k, at in enumerate(fields)]
    places = [4 + 4 * k if there else 0 for k, there in enumerate(present)]
    parts.append((8, struct.pack(f"<{2 + MODEL_FIELDS}H", known, 4 + 4 * MODEL_FIELDS, *places)))
    parts.append((table, struct.pack("<i", table - 8)))
    for k, there in enumerate(present):
        at = table + 4 + 4 * k
        if k == 0 and there:  # the version, which is a number
            parts.append((at, struct.pack("<I", file.number("I", fields[k]))))
        elif there:
            own = {BUFFERS: list_of_buffers, METADATA: list_of_metadata}
            target = own[k] if k in own else shift + file.ahead(fields[k])
            parts.append((at, _distance(model, at, target)))
    for start, old, new in ((list_of_buffers, buffers, buffer), (list_of_metadata, kept, entry)):
        parts.append((start, struct.pack("<I", len(old) + 1)))
        for i, target in enumerate([*(shift + x for x in old), new]):
            at = start + 4 + 4 * i
            parts.append((at, _distance(model, at, target)))
    parts.append((entry - 8, struct.pack("<4H", 8, 12, 4, 8)))
    parts.append((entry, struct.pack("<iII", 8, name - entry - 4, len(buffers))))
    parts.append((buffer - 8, struct.pack("<4H", 6, 8, 4, 0)))
    parts.append((buffer, struct.pack("<iI", 8, data - buffer - 4)))
    parts.append((name, struct.pack("<I", len(ENTRY)) + ENTRY.encode() + b"\0"))
    parts.append((data, struct.pack("<I", len(integers)) + integers))
    beginning = bytearray(shift)
    for at, part in parts:
        beginning[at : at + len(part)] = part
    return bytes(beginning) + content
