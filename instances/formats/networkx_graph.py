"""Graphs as networkx digraphs, without loss, and back.

In a full graph there is a node for each op (``op0``, ``op1``, …) and for each tensor (``tensor0``, …), in
index order. An edge from tensor to op is a read, from op to tensor a write, from op to op a control
edge (``after``); ``position`` on an edge is its place in the op's list. The attributes are those of the
native format, but ``name`` is ``label``, which drawing tools show, and ``inplace``, ``modes`` and ``work``
are JSON text. The graph attribute ``format`` is
``lowtide/graph``: a digraph without it is read by the conventions of `plain_dag`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...models.errors import InstanceError
from ...models.graph import Graph
from .native import graph_from_dict, sparse_dict
from .plain_dag import graph_of_plain_dag
from .strict_json import parse_json, show

if TYPE_CHECKING:
    import networkx as nx

_ROLES = {("tensor", "op"): "reads", ("op", "tensor"): "writes", ("op", "op"): "after"}
_TEXT_KEYS = {"format", "kind", "accounting"}
_FLAG_KEYS = {"initial", "final"}
_JSON_KEYS = {"provenance", "inplace", "modes", "work"}


def to_networkx(graph: Graph) -> nx.DiGraph[str]:
    """Return the digraph of ops and tensors, from which `from_networkx` makes the same graph.

    Parameters
    ----------
    graph
        Any graph.

    Examples
    --------
    >>> from lowtide.instances import from_networkx, load, to_networkx
    >>> graph = load("gen:chain?n=3")
    >>> from_networkx(to_networkx(graph)) == graph
    True
    """
    import networkx as nx

    data = sparse_dict(graph)
    tensors, ops = data.pop("tensors"), data.pop("ops")
    result: nx.DiGraph[str] = nx.DiGraph(**_encoded(data))
    for t, row in enumerate(tensors):
        result.add_node(f"tensor{t}", what="tensor", **_encoded(row))
    for i, row in enumerate(ops):
        operands = {key: row.pop(key, []) for key in ("reads", "writes", "after")}
        result.add_node(f"op{i}", what="op", **_encoded(row))
        for k, t in enumerate(operands["reads"]):
            result.add_edge(f"tensor{t}", f"op{i}", position=k)
        for k, t in enumerate(operands["writes"]):
            result.add_edge(f"op{i}", f"tensor{t}", position=k)
        for k, x in enumerate(operands["after"]):
            result.add_edge(f"op{x}", f"op{i}", position=k)
    return result


def from_networkx(source: nx.Graph[Any], name: str = "graph", where: str = "digraph") -> Graph:
    """Return the graph of a networkx digraph: a full one, or a plain DAG with sizes.

    Parameters
    ----------
    source
        As `to_networkx` makes it, or by the conventions of `lowtide.instances.formats.plain_dag`: sizes as
        attribute ``nbytes`` (or ``memory``, ``size``, ``weight``) of nodes or edges.
    name
        Of the graph, if the source has none.
    where
        What messages call it, usually the file.

    Raises
    ------
    InstanceError
        If it is not a valid graph; a cycle is named.

    Examples
    --------
    >>> import networkx as nx
    >>> from lowtide.instances import from_networkx
    >>> dag = nx.DiGraph([("a", "b"), ("a", "c")])
    >>> nx.set_node_attributes(dag, 8, "nbytes")
    >>> from_networkx(dag, name="fork")
    Graph('fork', 3 ops, 3 tensors)
    """
    if "format" in source.graph:
        return graph_from_dict(_native(source, where), where)
    return graph_of_plain_dag(source, str(source.graph.get("name") or name), where)


def _native(source: nx.Graph[Any], where: str) -> dict[str, Any]:
    """Return the native JSON object, whose values are checked when it is read."""
    data = {"name": "", **_decoded(_without_tool_keys(source.graph), where)}
    rows: dict[str, dict[int, dict[str, Any]]] = {"tensor": {}, "op": {}}
    place: dict[Any, tuple[str, int]] = {}
    for node, attributes in source.nodes(data=True):
        match = re.fullmatch(r"(op|tensor)(\d{1,9})", str(node), re.ASCII)
        if match is None:
            raise InstanceError(f"{where}: found node {str(node)!r}, expected opNUMBER or tensorNUMBER")
        place[node] = (match[1], int(match[2]))
        own = _without_tool_keys(attributes)
        rows[match[1]][int(match[2])] = {"name": "", **_decoded(own, f"{where}: node {node}")}
    operands: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for u, v, attributes in source.edges(data=True):
        (kind_u, number_u), (kind_v, number_v) = place[u], place[v]
        role = _ROLES.get((kind_u, kind_v))
        position = _number(attributes.get("position"))
        if role is None or type(position) is not int:
            raise InstanceError(
                f"{where}: found edge {u} -> {v} with position {show(position)}, "
                "expected a read, write or control edge with an integer"
            )
        op, other = (number_u, number_v) if role == "writes" else (number_v, number_u)
        operands.setdefault((op, role), []).append((position, other))
    for (op, role), pairs in operands.items():
        rows["op"][op][role] = [other for _, other in sorted(pairs)]
    for kind, by_number in rows.items():
        if sorted(by_number) != list(range(len(by_number))):
            missing = next(i for i in range(len(by_number)) if i not in by_number)
            raise InstanceError(f"{where}: found no node {kind}{missing}, expected one")
        data[f"{kind}s"] = [by_number[i] for i in range(len(by_number))]
    return data


def _encoded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "label" if key == "name" else key: json.dumps(v) if key in _JSON_KEYS else v for key, v in row.items()
    }


def _decoded(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Undo `_encoded`, also where a format has turned numbers and flags into text."""
    result: dict[str, Any] = {}
    for key, value in row.items():
        if key == "label":
            result["name"] = value
        elif key in _TEXT_KEYS:
            result[key] = value
        elif key in _JSON_KEYS:
            result[key] = parse_json(str(value).encode(), f"{where}, {key}")
        elif key in _FLAG_KEYS:
            result[key] = {"True": True, "False": False}.get(str(value).capitalize(), value)
        else:
            result[key] = _number(value)
    return result


def _number(value: Any) -> Any:
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d{1,30}", value, re.ASCII)
    return int(value) if is_number else value


def _without_tool_keys(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a drawing needs, and what networkx adds when it reads a file."""
    unwanted = ("what", "shape", "name", "node_default", "edge_default")
    return {key: value for key, value in attributes.items() if key not in unwanted}
