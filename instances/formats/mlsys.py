"""Instances of the MLSys 2026 contest on graph scheduling, as JSON.

An instance has ``widths`` and ``heights`` by tensor, ``inputs``, ``outputs``, ``base_costs`` and
``op_types`` by op, ``fast_memory_capacity``, ``slow_memory_bandwidth`` and ``native_granularity``. A tensor
of w x h elements has as many bytes in the graph, an op its base cost in ns. The provenance has the instance
as ``tiles``, which the problem of that name reads (source: yarongmu-google/MLSys:PROBLEM.md).
"""

from __future__ import annotations

import os
from pathlib import Path

from ...models.graph import Graph, Op, Tensor
from ...models.tile_rules import TileInstance
from .strict_json import read_json


def read_mlsys(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no such instance.
    """
    given = TileInstance.from_dict(read_json(path), os.fspath(path))
    return mlsys_graph(given, Path(path).name.removesuffix(".gz").removesuffix(".json"))


def mlsys_graph(given: TileInstance, name: str) -> Graph:
    """Return the graph of an instance."""
    return Graph(
        name=name,
        tensors=tuple(
            Tensor(name=f"t{t}", nbytes=given.area(t), initial=t in given.started, final=t in given.finals)
            for t in range(len(given.widths))
        ),
        ops=tuple(
            Op(
                name=f"{kind} {i}",
                kind=kind,
                duration_ns=cost,
                reads=tuple(sorted({*given.inputs[i]})),
                writes=(given.outputs[i],),
            )
            for i, (kind, cost) in enumerate(zip(given.op_types, given.base_costs, strict=True))
        ),
        provenance={"tiles": given.to_dict()},
    )
