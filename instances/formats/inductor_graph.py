"""Fused kernels of torch.compile, as inductor writes them for debugging (``reorder_for_peak_memory_debug``).

::

    {"nodes": [{"name", "buffer_names": [name, ...]}],
     "buffers": [{"name", "size_alloc", "size_free", "size", "is_input", "is_output",
                  "deps": [name, ...], "unmet_deps": [name, ...]}]}

A node is a kernel and becomes an op of 1 ns; the order of the file is the order before inductor reorders. A
buffer becomes a tensor of ``size_free`` bytes: ``is_input`` initial, ``is_output`` final. The kernel that
makes it reads ``deps``, the buffers of which it is a user. ``size`` repeats ``size_free``, and
``unmet_deps`` are those ``deps`` that are no inputs: both are left out.

A kernel with several results makes a tuple: a buffer that allocates the bytes of all items and frees none.
Its items allocate none and free theirs. So the tuple is a tensor of no bytes, and its kernel makes the items,
too. What a tuple allocates and no item frees stays allocated to the end, as inductor counts it.

Then the peak of an order, counted as `lowtide.models.graph.Accounting.COEXIST`, is inductor's own estimate.
The file lacks what only orders kernels (fake dependences); `lowtide.adapters.torch_compile` has them.

Source: ``pytorch/pytorch:torch/_inductor/memory.py``, functions ``export_graph_for_simulator``,
``compute_size_for_scheduler_buffer`` and ``estimate_peak_memory`` (2.13.0).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from .strict_json import (
    FLAG,
    SIZE,
    TEXT,
    Field,
    Fields,
    check_object,
    check_rows,
    is_list,
    is_text_list,
    located,
    read_json,
    required,
)

_NAMES = required(Field(is_text_list, "a list of strings"))
_LIST = required(Field(is_list, "a list"))
_FILE: Fields = {"nodes": _LIST, "buffers": _LIST}
_NODE: Fields = {"name": required(TEXT), "buffer_names": _NAMES}
_BUFFER: Fields = {
    "name": required(TEXT),
    "size_alloc": required(SIZE),
    "size_free": required(SIZE),
    "size": SIZE,
    "is_input": required(FLAG),
    "is_output": required(FLAG),
    "deps": _NAMES,
    "unmet_deps": _NAMES._replace(required=False),
}


def read_inductor(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, a key is not as inductor writes it, a name is unknown or repeats, sizes do
        not fit, or the order of the nodes is no valid execution.
    """
    where = os.fspath(path)
    data = read_json(path)
    check_object(data, _FILE, where)
    check_rows(data["nodes"], _NODE, where, "node")
    check_rows(data["buffers"], _BUFFER, where, "buffer")
    return kernel_graph(data, Path(path).name.removesuffix(".gz").removesuffix(".json"), where)


def kernel_graph(
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    name: str,
    where: str,
    after: Sequence[Iterable[int]] = (),
) -> Graph:
    """Return the graph of kernels and their buffers.

    Parameters
    ----------
    data
        As the file has it, keys and types checked.
    name
        Of the graph.
    where
        What messages call the data.
    after
        By node, the positions of nodes that run before it, beside those whose buffers it reads.

    Raises
    ------
    InstanceError
        As `read_inductor`.
    """
    buffers = _by_name(data["buffers"], f"{where}: buffer")
    _by_name(data["nodes"], f"{where}: node")
    maker = _makers(data["nodes"], buffers, where)
    number = {buffer: t for t, buffer in enumerate(buffers)}
    reads: list[set[int]] = [set() for _ in data["nodes"]]
    writes: list[set[int]] = [set() for _ in data["nodes"]]
    items: dict[str, int] = {}
    for buffer, row in buffers.items():
        if row["is_input"]:
            continue
        node = maker[buffer]
        for used in row["deps"]:
            if used not in number:
                raise InstanceError(f"{where}: buffer {buffer!r}, deps: found unknown buffer {used!r}")
            reads[node].add(number[used])
        whole = _tuple_of(row, buffers, where)
        if whole is None:
            writes[node].add(number[buffer])
        else:
            items[whole] = items.get(whole, 0) + row["size_free"]
            writes[maker[whole]].add(number[buffer])
            reads[node].add(number[buffer])
    tensors = [
        Tensor(
            name=buffer,
            nbytes=row["size_free"],
            kind="input" if row["is_input"] else "output" if row["is_output"] else "activation",
            initial=row["is_input"],
            final=row["is_output"],
        )
        for buffer, row in buffers.items()
    ]
    for buffer, row in buffers.items():
        rest = 0 if row["is_input"] else row["size_alloc"] - row["size_free"] - items.get(buffer, 0)
        if rest < 0 and row["size_alloc"]:
            raise InstanceError(
                f"{where}: buffer {buffer!r}: found {row['size_alloc']} bytes allocated and "
                f"{row['size_alloc'] - rest} freed, expected no more freed than allocated"
            )
        if rest > 0:
            writes[maker[buffer]].add(len(tensors))
            tensors.append(Tensor(name=f"{buffer} unfreed", nbytes=rest, kind="other", final=True))
    with located(where):
        return Graph(
            name=name,
            tensors=tuple(tensors),
            ops=tuple(
                Op(
                    name=node["name"],
                    reads=tuple(sorted(reads[k] - writes[k])),
                    writes=tuple(sorted(writes[k])),
                    after=tuple(sorted(set(after[k]))) if after else (),
                )
                for k, node in enumerate(data["nodes"])
            ),
            provenance={"source": "kernels of torch.compile, after fusion"},
        )


def _by_name(rows: Sequence[Mapping[str, Any]], where: str) -> dict[str, Mapping[str, Any]]:
    rows_by_name: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["name"] in rows_by_name:
            raise InstanceError(f"{where} {row['name']!r}: found it twice, expected it once")
        rows_by_name[row["name"]] = row
    return rows_by_name


def _makers(
    nodes: Sequence[Mapping[str, Any]], buffers: Mapping[str, Mapping[str, Any]], where: str
) -> dict[str, int]:
    """Return the position of the node that makes each buffer which is no input."""
    maker: dict[str, int] = {}
    for k, node in enumerate(nodes):
        for buffer in node["buffer_names"]:
            if buffer in maker or buffers.get(buffer, {}).get("is_input", False):
                raise InstanceError(
                    f"{where}: node {node['name']!r}: found buffer {buffer!r} made before, expected it once"
                )
            maker[buffer] = k
    for buffer, row in buffers.items():
        if buffer not in maker and not row["is_input"]:
            raise InstanceError(f"{where}: buffer {buffer!r}: found no node that makes it, expected one")
    return maker


def _tuple_of(row: Mapping[str, Any], buffers: Mapping[str, Mapping[str, Any]], where: str) -> str | None:
    """Return the buffer that allocates the bytes of an item; None if the buffer is no item of a tuple."""
    if row["size_alloc"] or not row["size_free"]:
        return None
    seen = {row["name"]}
    waiting = list(row["deps"])
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in buffers:
            continue
        seen.add(name)
        used = buffers[name]
        if used["size_alloc"] and not used["size_free"] and not used["is_input"]:
            return str(name)
        if not used["size_alloc"] and not used["size_free"]:  # a tuple within a tuple
            waiting += used["deps"]
    raise InstanceError(
        f"{where}: buffer {row['name']!r}: found {row['size_free']} bytes freed that nothing allocated, "
        "expected a tuple among its deps"
    )
