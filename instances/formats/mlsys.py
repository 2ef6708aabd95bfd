"""Instances of the MLSys 2026 contest on graph scheduling, as JSON.

An instance has ``widths`` and ``heights`` by tensor, ``inputs``, ``outputs``, ``base_costs`` and
``op_types`` by op, ``fast_memory_capacity``, ``slow_memory_bandwidth`` and ``native_granularity`` (source:
yarongmu-google/MLSys:PROBLEM.md). `tiles` asks about all of that; other problems about the graph alone, in
which a tensor of w x h elements has as many bytes, and an op its base cost in ns.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...models.graph import Graph
from ...models.tile_rules import TileInstance
from .strict_json import read_json


def read_mlsys(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no such instance.
    """
    return read_shapes(path).graph


def read_shapes(path: str | os.PathLike[str]) -> TileInstance:
    """Return the instance of a file, named as the file is.

    Raises
    ------
    InstanceError
        As `read_mlsys`.
    """
    name = Path(path).name.removesuffix(".gz").removesuffix(".json")
    return TileInstance.from_dict(read_json(path), os.fspath(path), name)
