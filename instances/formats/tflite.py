"""TensorFlow Lite models (``.tflite``): what TFLite Micro places in its arena, operator by operator.

The places of the fields are those of TensorFlow's schema (read: tensorflow/lite/schema/schema.fbs; what is in
the arena: tflite-micro:tensorflow/lite/micro/micro_allocation_info.cc).

What becomes of it:

1. An operator is an op; the reference order is that of the file. Times are not in the file: 1 ns each.
2. A tensor is a tensor with the same index. Constants (with content in the file) are weights, variables are
   states. Neither is in the part of the arena that is planned, so both have 0 bytes unless ``weights=1``.
3. Inputs exist before the first op, outputs remain.
4. Bytes that kernels ask for while they run (scratch buffers) are not in the file and do not count.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .flatbuffer import FlatBuffer
from .strict_json import located, read_bytes, show

PARAMETERS = {"weights": Parameter(False, "keep the bytes of constants and variables")}

IMPORTER = "tflite"
"""What the provenance of a graph calls this reader."""

MODEL_FIELDS = 10
"""Number of fields of the table Model in the schema of 2026."""

OPERATOR_CODES, SUBGRAPHS, BUFFERS, METADATA = 1, 2, 4, 6
"""Numbers of fields of the table Model."""

_BYTES = {
    **dict.fromkeys((3, 6, 9), 1),  # uint8, bool, int8
    **dict.fromkeys((1, 7, 16, 18), 2),  # float16, int16, uint16, bfloat16
    **dict.fromkeys((0, 2, 15), 4),  # float32, int32, uint32
    **dict.fromkeys((4, 8, 10, 12), 8),  # int64, complex64, float64, uint64
    11: 16,  # complex128
}
"""Bytes of an element by its type; others (texts, resources, parts of bytes) are refused in the arena."""

_MOST_AXES = 16
"""Largest number of axes of a tensor; TensorFlow Lite's kernels have at most 8."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of the file: name, bytes, whether it has content in the file, whether it is a variable."""

    name: str
    nbytes: int
    constant: bool
    variable: bool


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """An operator of the file: its kind, and the tensors that it reads and writes."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """The one subgraph of a file, and where the file has it.

    Parameters
    ----------
    file
        The bytes.
    root, subgraph
        Places of the tables Model and SubGraph.
    """

    file: FlatBuffer
    root: int
    subgraph: int
    tensors: tuple[StoredTensor, ...]
    operators: tuple[StoredOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_model(path: str | os.PathLike[str]) -> TfliteModel:
    """Return the model of a file.

    Raises
    ------
    InstanceError
        If the file is missing or is no model with one subgraph, or a tensor has no known size.
    """
    where = str(path)
    content = read_bytes(path)
    if content[4:8] != b"TFL3":
        raise InstanceError(f"{where}: found {show(content[4:8].hex())} in bytes 4 to 8, expected TFL3")
    file = FlatBuffer(content, where)
    root = file.ahead(0)
    subgraphs = list(file.tables(root, SUBGRAPHS))
    if len(subgraphs) != 1:
        raise InstanceError(f"{where}: found {len(subgraphs)} subgraphs, expected one, without control flow")
    (subgraph,) = subgraphs
    stored = [_content(file, buffer) for buffer in file.tables(root, BUFFERS)]
    tensors = [_tensor(file, t, table, stored) for t, table in enumerate(file.tables(subgraph, 0))]
    kinds = [_kind(file, code) for code in file.tables(root, OPERATOR_CODES)]
    operators = []
    for i, table in enumerate(file.tables(subgraph, 3)):
        code = file.integer(table, 0, "I")
        ends = [_indices(file, table, k, len(tensors), f"operator {i}") for k in (1, 2)]
        if code >= len(kinds):
            raise InstanceError(f"{where}, operator {i}: found code {code}, expected one of {len(kinds)}")
        operators.append(StoredOperator(kinds[code], *ends))
    inputs, outputs = (_indices(file, subgraph, k, len(tensors), "subgraph") for k in (1, 2))
    return TfliteModel(file, root, subgraph, tuple(tensors), tuple(operators), inputs, outputs)


def read_tflite(path: str | os.PathLike[str], *, weights: bool = False) -> Graph:
    """Return the graph of a model.

    Parameters
    ----------
    weights
        Keep the bytes of constants and variables.

    Raises
    ------
    InstanceError
        As `read_model`; if an operator reads what none before it writes.
    """
    model = read_model(path)
    inputs, outputs = set(model.inputs), set(model.outputs)
    tensors = []
    for t, tensor in enumerate(model.tensors):
        fixed = "weight" if tensor.constant else "state" if tensor.variable else ""
        kind = fixed or ("input" if t in inputs else "output" if t in outputs else "activation")
        tensors.append(
            Tensor(
                name=tensor.name,
                nbytes=tensor.nbytes,
                kind=kind,
                initial=bool(fixed) or t in inputs,
                final=bool(fixed) or t in outputs,
            )
        )
    ops = tuple(
        Op(
            name=model.tensors[op.outputs[0]].name if op.outputs else f"operator {i}",
            kind=op.kind,
            reads=op.inputs,
            writes=op.outputs,
        )
        for i, op in enumerate(model.operators)
    )
    with located(model.file.where):
        graph = Graph(
            name=Path(path).name,
            tensors=tuple(tensors),
            ops=ops,
            provenance={"source": model.file.where, "importer": IMPORTER},
        )
        return graph if weights else graph.drop({"weight", "state"})


def _content(file: FlatBuffer, buffer: int) -> int:
    """Return the bytes of the content of a buffer, within the flatbuffer or behind it."""
    return file.elements(buffer, 0, 1)[1] or file.integer(buffer, 2, "Q")


def _tensor(file: FlatBuffer, t: int, table: int, stored: list[int]) -> StoredTensor:
    name = file.text(table, 3) or f"tensor {t}"
    where = f"{file.where}, tensor {t} {name!r}"
    shape, kind, buffer = file.integers(table, 0), file.integer(table, 1, "b"), file.integer(table, 2, "I")
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise InstanceError(
            f"{where}: found shape {show(list(shape))}, expected at most {_MOST_AXES} sizes >= 0"
        )
    if buffer >= len(stored):
        raise InstanceError(f"{where}: found buffer {buffer}, expected one of {len(stored)}")
    if not stored[buffer] and kind not in _BYTES:
        raise InstanceError(f"{where}: found type {kind}, expected one of whole bytes and fixed size")
    nbytes = stored[buffer] or prod(shape) * _BYTES[kind]
    return StoredTensor(name, nbytes, bool(stored[buffer]), bool(file.integer(table, 5, "b")))


def _kind(file: FlatBuffer, code: int) -> str:
    """Return the name of a custom operator, or the number of a built-in one, of the newer or older field."""
    return file.text(code, 1) or f"builtin {max(file.integer(code, 3, 'i'), file.integer(code, 0, 'b'))}"


def _indices(file: FlatBuffer, table: int, k: int, count: int, what: str) -> tuple[int, ...]:
    """Return the tensors that field k lists, each once; -1 stands for an absent one."""
    listed = tuple(dict.fromkeys(t for t in file.integers(table, k) if t != -1))
    for t in listed:
        if not 0 <= t < count:
            raise InstanceError(f"{file.where}, {what}: found tensor {t}, expected one of {count}, or -1")
    return listed
