"""One exit for what is kept: the ending of the file name chooses the format."""

from __future__ import annotations

import os

from ..models.buffers import Buffers
from ..models.checks import shown
from ..models.errors import UsageError
from ..models.graph import Graph
from ..models.plan import Plan
from ..models.result import Result
from .answers import write_answer
from .formats import format_of, known_endings
from .formats.native_buffers import write_buffers
from .formats.native_plan import write_plan


def save(item: Graph | Buffers | Plan | Result, path: str | os.PathLike[str]) -> None:
    """Write a graph, buffers, a plan or a result's answer; `load`, `load_buffers` and `load_plan` read it.

    Parameters
    ----------
    item
        What is kept of a result is its plan or its allocation.
    path
        Of a graph .json, .json.gz, .dot, .gv, .graphml or .graphml.gz; of buffers, and of the answer to
        `offsets`, .csv, .json or .json.gz; of plans .json or .json.gz. The file is written whole or not at
        all.

    Raises
    ------
    UsageError
        If the ending is unknown, the path cannot be written, or the result has no answer.
    InstanceError
        If the format cannot hold the graph.

    Examples
    --------
    >>> import os, tempfile
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "greedy")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "plan.json")
    ...     lt.save(result, path)
    ...     plan, graph = lt.load_plan(path)
    >>> plan.order == result.order, graph
    (True, Graph('diamond', 4 ops, 4 tensors))
    """
    if isinstance(item, Graph):
        chosen = format_of(os.fspath(path))
        if chosen is None or not chosen.write:
            raise UsageError(f"{path}: found no known ending, expected one of {known_endings(written=True)}")
        chosen.writer(item, path)
        return
    if not isinstance(item, Buffers | Plan | Result):
        raise UsageError(f"save: found {shown(item)}, expected a Graph, Buffers, a Plan or a Result")
    csv = None if isinstance(item, Plan) else format_of(os.fspath(path), buffers=True)
    if (csv is None or not csv.write) and not os.fspath(path).endswith((".json", ".json.gz")):
        others = "" if isinstance(item, Plan) else ".csv, "
        raise UsageError(f"{path}: found no known ending, expected one of {others}.json, .json.gz")
    if isinstance(item, Buffers):
        (csv.writer if csv is not None else write_buffers)(item, path)
    elif isinstance(item, Plan):
        write_plan(item, path)
    elif item.plan is None and item.allocation is None:
        raise UsageError(f"save: found a result without an answer ({item.status}), expected one with a plan")
    else:
        write_answer(item, path)
