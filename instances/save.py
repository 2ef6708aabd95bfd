"""One exit for graphs: the ending of the file name chooses the format."""

from __future__ import annotations

import os

from ..models.errors import UsageError
from ..models.graph import Graph
from .formats.native import write_graph

ENDINGS = (".json", ".json.gz", ".dot", ".gv", ".graphml", ".graphml.gz")
"""The file name endings that tell the format."""


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as native JSON, DOT or GraphML; `load` makes the same graph from the file.

    Parameters
    ----------
    graph
        Any graph.
    path
        Ends in one of `ENDINGS`. The file is written whole or not at all.

    Raises
    ------
    UsageError
        If the ending is unknown, or the path cannot be written.
    InstanceError
        If the format cannot hold the graph.
    """
    lower = os.fspath(path).lower()
    if lower.endswith((".json", ".json.gz")):
        write_graph(graph, path)
    elif lower.endswith((".dot", ".gv")):
        from .formats.networkx_io import write_dot

        write_dot(graph, path)
    elif lower.endswith((".graphml", ".graphml.gz")):
        from .formats.networkx_io import write_graphml

        write_graphml(graph, path)
    else:
        raise UsageError(f"{path}: found no known ending, expected one of {', '.join(ENDINGS)}")
