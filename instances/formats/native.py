"""The native graph format: JSON, also gzipped, read strictly and written without defaults.

::

    {"format": "lowtide/graph", "version": 1, "name", "provenance", "accounting",
     "tensors": [{"name", "nbytes", "kind", "initial", "final"}],
     "ops": [{"name", "kind", "duration_ns", "workspace", "share", "reads": [index], "writes": [index],
              "after": [index], "inplace": [[read, write]],
              "modes": [{"duration_ns", "workspace", "share", "processors": [kind],
                         "operands": {index: tier}, "work"}],
              "work": [{"nbytes", "multiply_adds", "dtype", "times"}]}]}

``format``, ``version``, ``name``, ``tensors``, ``ops``, the ``name`` of tensors and ops, and
``nbytes`` of tensors must be there; whatever else is left out takes the default of `Tensor`, `Op`, `Mode`,
`Work`. The work says what an op does in its time, kernel after kernel; it is no part of the hash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...models.errors import InstanceError
from ...models.files import write_packed
from ...models.graph import KINDS, Accounting, Graph, Mode, Op, Tensor
from ...models.work import DTYPES, Work
from .native_measurement import measurement_from_dict
from .strict_json import (
    FLAG,
    SIZE,
    TEXT,
    Field,
    check_header,
    check_object,
    check_rows,
    dump_json,
    is_int_list,
    is_list,
    is_object,
    is_pair_list,
    is_positive,
    is_text_list,
    optional,
    parse_json,
    problem,
    read_bytes,
    required,
    show,
)

_INDICES = Field(is_int_list, "a list of indices (integers)")
_DURATION = Field(is_positive, "an integer >= 1")
_SHARE = Field(optional(is_positive), "an integer >= 1 or null (all of the device)")
_WORKS = Field(is_list, "a list of work")

_GRAPH = {
    "format": required(TEXT),
    "version": required(SIZE),
    "name": required(TEXT),
    "provenance": Field(is_object, "an object"),
    "accounting": Field(
        lambda value: type(value) is str and value in tuple(Accounting),
        " or ".join(f'"{a}"' for a in Accounting),
    ),
    "tensors": required(Field(is_list, "a list of tensors")),
    "ops": required(Field(is_list, "a list of ops")),
}
_TENSOR = {
    "name": required(TEXT),
    "nbytes": required(SIZE),
    "kind": Field(lambda value: value in KINDS, f"one of {', '.join(KINDS)}"),
    "initial": FLAG,
    "final": FLAG,
}
_OP = {
    "name": required(TEXT),
    "kind": TEXT,
    "duration_ns": _DURATION,
    "workspace": SIZE,
    "reads": _INDICES,
    "writes": _INDICES,
    "after": _INDICES,
    "inplace": Field(is_pair_list, "a list of pairs [read, write] of indices"),
    "modes": Field(is_list, "a list of modes"),
    "share": _SHARE,
    "work": _WORKS,
}
_MODE = {
    "duration_ns": _DURATION,
    "workspace": SIZE,
    "processors": Field(is_text_list, "a list of processor kinds (strings)"),
    "operands": Field(
        lambda value: (
            type(value) is dict
            and all(re.fullmatch("0|[1-9][0-9]{0,17}", key) for key in value)
            and is_text_list(list(value.values()))
        ),
        "an object from tensor indices to tier names",
    ),
    "share": _SHARE,
    "work": _WORKS,
}
_WORK = {
    "nbytes": SIZE,
    "multiply_adds": SIZE,
    "dtype": Field(lambda value: type(value) is str and value in DTYPES, f"one of {', '.join(DTYPES)}"),
    "times": Field(is_positive, "an integer >= 1"),
}


def read_graph(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a native file, ``.json`` or ``.json.gz``.

    Raises
    ------
    InstanceError
        If the file cannot be read or is not exactly of the format; one line that names file, element,
        found and expected.

    Examples
    --------
    >>> import os, tempfile
    >>> from lowtide.instances import load, read_graph, write_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "chain.json.gz")
    ...     write_graph(load("gen:chain?n=3"), path)
    ...     read_graph(path)
    Graph('chain?n=3', 3 ops, 3 tensors)
    """
    return graph_from_dict(parse_json(read_bytes(path), os.fspath(path)), os.fspath(path))


def graph_from_dict(data: Any, where: str = "graph") -> Graph:
    """Return the graph of a native JSON object.

    Raises
    ------
    InstanceError
        If it is not exactly of the format, or states no valid graph.
    """
    check_header(data, "graph", where)
    check_object(data, _GRAPH, where)
    check_rows(data["tensors"], _TENSOR, where, "tensor")
    check_rows(data["ops"], _OP, where, "op")
    _check_after(data["ops"], where)
    try:
        if "measured" in data.get("provenance", {}):
            measurement_from_dict(data["provenance"]["measured"], "provenance, measured")
        graph = Graph(
            name=data["name"],
            tensors=tuple(Tensor(**row) for row in data["tensors"]),
            ops=tuple(_op(i, row) for i, row in enumerate(data["ops"])),
            accounting=data.get("accounting", Accounting.COEXIST),
            provenance=data.get("provenance", {}),
        )
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None
    return graph


def write_graph(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph in the native format; gzipped if the name ends in ``.gz``.

    The same graph always gives the same bytes; defaults are left out; the file is written whole or
    not at all.

    Raises
    ------
    InstanceError
        If the provenance is not made of JSON values.
    UsageError
        If the path cannot be written.
    """
    content = dump_json(sparse_dict(graph), ("tensors", "ops"))
    write_packed(path, content)


def sparse_dict(graph: Graph) -> dict[str, Any]:
    """Return the native JSON object without the values that are defaults."""
    data: dict[str, Any] = {"format": "lowtide/graph", "version": 1, "name": graph.name}
    if graph.provenance:
        data["provenance"] = dict(graph.provenance)
    if graph.accounting is not Accounting.COEXIST:
        data["accounting"] = str(graph.accounting)
    data["tensors"] = [_sparse(tensor, _TENSOR, Tensor(name="", nbytes=0)) for tensor in graph.tensors]
    default = Op(name="")
    data["ops"] = [_sparse_op(op, default) for op in graph.ops]
    return data


def _sparse(item: object, fields: Mapping[str, Field], default: object) -> dict[str, Any]:
    return {
        key: value
        for key, field in fields.items()
        if (value := getattr(item, key)) != getattr(default, key) or field.required
    }


def _sparse_op(op: Op, default: Op) -> dict[str, Any]:
    data = _sparse_with_work(op, _OP, default)
    if op.modes:
        only = Mode(duration_ns=op.duration_ns, workspace=op.workspace, share=op.share)
        data["modes"] = [_sparse_with_work(mode, _MODE, Mode()) for mode in op.modes]
        for mode in data["modes"]:
            if "operands" in mode:
                mode["operands"] = {str(t): tier for t, tier in mode["operands"]}
        if op.modes == (only,) and not op.modes[0].work:
            del data["modes"]
    return data


def _sparse_with_work(item: Op | Mode, fields: Mapping[str, Field], default: Op | Mode) -> dict[str, Any]:
    data = _sparse(item, fields, default)
    if "work" in data:
        data["work"] = [_sparse(part, _WORK, Work()) for part in item.work]
    return data


def _op(i: int, row: Mapping[str, Any]) -> Op:
    where = f"op {i} {row['name']!r}"
    row = _with_work(row, where)
    if not row.get("modes"):
        return Op(**row)
    modes = []
    for k, mode in enumerate(row["modes"]):
        if text := problem(mode, _MODE):
            raise InstanceError(f"{where}, mode {k}, {text}")
        operands = tuple((int(t), tier) for t, tier in mode.get("operands", {}).items())
        modes.append(Mode(**{**_with_work(mode, f"{where}, mode {k}"), "operands": operands}))
    return Op(**{**row, "modes": modes})


def _with_work(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the object of an op or a mode, its work read."""
    return {**row, "work": work_from_list(row["work"], where)} if "work" in row else row


def work_from_list(parts: Any, where: str) -> tuple[Work, ...]:
    """Return the work of an op from the list of its JSON objects.

    Raises
    ------
    InstanceError
        If it is no such list.

    Examples
    --------
    >>> work_from_list([{"nbytes": 8}], "op 0")
    (Work(nbytes=8, multiply_adds=0, dtype='fp32', times=1),)
    """
    if not is_list(parts):
        raise InstanceError(f"{where}, work: found {show(parts)}, expected a list of work")
    for k, part in enumerate(parts):
        if text := problem(part, _WORK):
            raise InstanceError(f"{where}, work {k}, {text}")
    return tuple(Work(**part) for part in parts)


def _check_after(ops: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raise, naming the cycle, if `after` and the tensors make ops wait for each other in a circle.

    A forward reference in `after` without a circle is left to `Graph`, which asks for another order.
    """
    if not any(x >= i for i, op in enumerate(ops) for x in op.get("after", ())):
        return
    first_writer: dict[int, int] = {}
    for i, op in enumerate(ops):
        for t in op.get("writes", ()):
            first_writer.setdefault(t, i)
    before: list[set[int]] = []
    for i, op in enumerate(ops):
        writers = (first_writer.get(t, i) for t in op.get("reads", ()))
        after = (x for x in op.get("after", ()) if 0 <= x < len(ops))
        before.append({w for w in writers if w < i} | set(after))
    cycle = find_cycle(before)
    if cycle:
        path = " after ".join(f"op {i} {ops[i]['name']!r}" for i in [*cycle, cycle[0]])
        raise InstanceError(f"{where}: after: found the cycle {path}, expected none")


def find_cycle(before: Sequence[set[int]]) -> list[int]:
    """Return the indices on one cycle, each followed by one that it waits for; empty if none.

    Parameters
    ----------
    before
        For each element those that must come before it.
    """
    import networkx as nx

    waits = nx.DiGraph((i, x) for i, some in enumerate(before) for x in sorted(some))
    try:
        return [i for i, _ in nx.find_cycle(waits)]
    except nx.NetworkXNoCycle:
        return []
