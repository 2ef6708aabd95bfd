"""DOT and GraphML files: written from full graphs, read as full graphs or plain DAGs."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...models.errors import InstanceError
from ...models.files import write_packed, write_whole
from ...models.graph import Graph
from .dot_text import parse_dot, quoted
from .networkx_graph import from_networkx, to_networkx
from .strict_json import read_bytes, show

# What XML 1.0 cannot hold, and the carriage return, which its parsers turn into a line feed.
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")


def read_graphml(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a GraphML file, ``.graphml`` or ``.graphml.gz``.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no valid graph.
    """
    import networkx as nx

    where = os.fspath(path)
    content = read_bytes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = nx.read_graphml(io.BytesIO(content))
    except Exception as error:  # The reader lets through whatever its XML parser or int() raises.
        raise InstanceError(f"{where}: found {_one_line(error)}, expected GraphML") from None
    return from_networkx(source, _stem(where), where)


def write_graphml(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as GraphML, from which `read_graphml` makes the same one; gzipped for ``.gz``.

    Raises
    ------
    InstanceError
        If a name has a character that XML cannot hold.
    UsageError
        If the path cannot be written.
    """
    import networkx as nx

    source = to_networkx(graph)
    for attributes in [source.graph, *(data for _, data in source.nodes(data=True))]:
        for key, value in attributes.items():
            if isinstance(value, str) and _NOT_XML.search(value):
                raise InstanceError(f"{key}: found {show(value)}, expected text that XML can hold")
    buffer = io.BytesIO()
    nx.write_graphml_xml(source, buffer)
    content = buffer.getvalue()
    write_packed(path, content)


def read_dot(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a DOT file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no valid graph.
    """
    where = os.fspath(path)
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InstanceError(
            f"{where}: found a byte at offset {error.start} that is no UTF-8, expected DOT"
        ) from None
    return from_networkx(parse_dot(text, where), _stem(where), where)


def write_dot(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as DOT, from which `read_dot` makes the same one.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    source = to_networkx(graph)
    lines = ["digraph {", f"graph [{_attributes(source.graph)}]"]
    for node, data in source.nodes(data=True):
        shape = "box" if data["what"] == "op" else "ellipse"
        lines.append(f"{node} [{_attributes({'shape': shape, **data})}]")
    lines += [f"{u} -> {v} [{_attributes(data)}]" for u, v, data in source.edges(data=True)]
    write_whole(path, ("\n".join([*lines, "}"]) + "\n").encode())


def _attributes(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={quoted(str(value))}" for key, value in data.items())


def _stem(path: str) -> str:
    return Path(path).name.partition(".")[0]


def _one_line(error: object) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."
