"""Layers with modes, as the public inputs of Piper (Tarnawski and others, NeurIPS 2021) have them.

::

    {"maxDevices", "maxMemoryPerDevice", "bandwidth", "mbsInBatch", "timeUnit"?: "s" or "ms",
     "nodes": [{"id", "name",
                "TMPCs": {"1": [{"id", "timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB",
                                 "syncTimeFw": {id: bytes}, "syncTimeBw": {id: bytes}}, ...], "2": ...}}],
     "edges": [{"sourceId", "destId", "communicationCost"}]}

A node becomes an op, each configuration for t tensor parallel devices a mode on a group of them (kind
``t4``), and each edge a tensor of its own. Times become whole ns, rounded to the nearest, at least 1; bytes
are rounded up. ``timeUnit`` is ours: the format states none, and the published program adds times to bytes
by ``bandwidth``, so takes them for seconds; but those of GNMT and ResNet-50 are ms of PipeDream's profiles.

The provenance has under ``hybrid`` what the problem of that name needs besides: ``processors``, ``memory``,
``link``, ``micro``, and ``needs`` by op and mode. A configuration called ``activation recomp`` runs again.
"""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path
from typing import Any

from ...models.graph import Graph, Mode, Op, Tensor
from .foreign import number, reading, whole
from .strict_json import parse_json, read_bytes
from .task_order import topological_order

UNITS = {"s": 10**9, "ms": 10**6}


def read_piper(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no such input.
    """
    where = os.fspath(path)
    data = parse_json(read_bytes(path), where)
    with reading(where, "layers of Piper"):
        return _graph(data, where, Path(path).name.removesuffix(".gz").removesuffix(".json"))


def _graph(data: Any, where: str, name: str) -> Graph:
    nodes = {node["id"]: node for node in data["nodes"]}
    place = {v: k for k, v in enumerate(nodes)}
    before: list[set[int]] = [set() for _ in nodes]
    for edge in data["edges"]:
        before[place[edge["destId"]]].add(place[edge["sourceId"]])
    ids = list(nodes)
    order = [ids[k] for k in topological_order(before, where, lambda k: str(ids[k]))]
    at = {v: i for i, v in enumerate(order)}
    edges = sorted(data["edges"], key=lambda e: (at[e["sourceId"]], at[e["destId"]]))
    tensors = tuple(
        Tensor(name=f"{e['sourceId']} to {e['destId']}", nbytes=ceil(number(e, "communicationCost", where)))
        for e in edges
    )
    unit = UNITS[data.get("timeUnit", "s")]
    ops, needs = [], []
    for v in order:
        modes, own = [], []
        reads = {e["sourceId"]: t for t, e in enumerate(edges) if e["destId"] == v}
        writes = {e["destId"]: t for t, e in enumerate(edges) if e["sourceId"] == v}
        for degree, rows in sorted((int(t), rows) for t, rows in nodes[v]["TMPCs"].items()):
            for row in rows:
                sync = {t: ceil(number(row["syncTimeFw"], str(u), where)) for u, t in reads.items()}
                sync |= {t: ceil(number(row["syncTimeBw"], str(u), where)) for u, t in writes.items()}
                duration = max(1, round(number(row, "timePerSample", where) * unit))
                modes.append(Mode(duration_ns=duration, processors=(f"t{degree}",)))
                own.append(
                    {
                        "weights": ceil(number(row, "parameterSize", where)),
                        "each": ceil(number(row, "memoryUsageA", where)),
                        "once": ceil(number(row, "memoryUsageB", where)),
                        "sync": [[t, nbytes] for t, nbytes in sorted(sync.items()) if nbytes],
                        "again": row["id"] == "activation recomp",
                    }
                )
        reading, writing = tuple(sorted(reads.values())), tuple(sorted(writes.values()))
        kind = str(nodes[v]["name"])
        ops.append(Op(name=f"{kind} {v}", kind=kind, reads=reading, writes=writing, modes=tuple(modes)))
        needs.append(own)
    hybrid = {
        "processors": whole(data["maxDevices"], "maxDevices", where),
        "memory": int(number(data, "maxMemoryPerDevice", where)),
        "link": int(number(data, "bandwidth", where)),
        "micro": whole(data["mbsInBatch"], "mbsInBatch", where),
        "needs": needs,
    }
    provenance = {"source": "github.com/msr-fiddle/piper", "hybrid": hybrid}
    return Graph(name=name, tensors=tensors, ops=tuple(ops), provenance=provenance)
