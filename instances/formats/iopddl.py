"""Instances of the contest on intra-operator parallelism at ASPLOS 2025 (github.com/google/iopddl, PROBLEM).

::

    {"problem": {"name", "nodes": {"intervals": [[start, end], ...], "costs": [[...], ...],
                                   "usages": [[...], ...]},
                 "edges": {"nodes": [[u, v], ...], "costs": [[...], ...]}, "usage_limit"}}

Each node has a row of costs and usages by strategy. Each edge has the costs of pairs of strategies, that of
the last node fastest. All are integers; intervals are half open. Read: example and instances of the contest.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...models.cost_network import CostNetwork
from .strict_json import (
    SIZE,
    TEXT,
    Field,
    check_object,
    is_list,
    is_object,
    located,
    parse_json,
    read_bytes,
    required,
)

_OBJECT, _LIST = required(Field(is_object, "an object")), required(Field(is_list, "a list"))

_PROBLEM = {"name": TEXT, "nodes": _OBJECT, "edges": _OBJECT, "usage_limit": required(SIZE)}

_NODES = {"intervals": _LIST, "costs": _LIST, "usages": _LIST}

_EDGES = {"nodes": _LIST, "costs": _LIST}


def read_iopddl(path: str | os.PathLike[str]) -> CostNetwork:
    """Return the network of a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is not exactly of the format.
    """
    where = os.fspath(path)
    data: Any = parse_json(read_bytes(path), where)
    check_object(data, {"problem": _OBJECT}, where)
    problem = data["problem"]
    check_object(problem, _PROBLEM, f"{where}, problem")
    check_object(problem["nodes"], _NODES, f"{where}, nodes")
    check_object(problem["edges"], _EDGES, f"{where}, edges")
    with located(where):
        return CostNetwork(
            **problem["nodes"],
            edges=problem["edges"]["nodes"],
            matrices=problem["edges"]["costs"],
            limit=problem["usage_limit"],
            name=problem.get("name") or Path(path).name.removesuffix(".gz").removesuffix(".json"),
            source=f"iopddl:{where}",
        )
