"""One exit for graphs: the ending of the file name chooses the format."""

from __future__ import annotations

import os

from ..models.errors import UsageError
from ..models.graph import Graph
from .formats import format_of, known_endings


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as native JSON, DOT or GraphML; `load` makes the same graph from the file.

    Parameters
    ----------
    graph
        Any graph.
    path
        Ends in .json, .json.gz, .dot, .gv, .graphml or .graphml.gz. The file is written whole or not at all.

    Raises
    ------
    UsageError
        If the ending is unknown, or the path cannot be written.
    InstanceError
        If the format cannot hold the graph.
    """
    found = format_of(os.fspath(path))
    if found is None or not found.write:
        raise UsageError(f"{path}: found no known ending, expected one of {known_endings(written=True)}")
    found.writer(graph, path)
