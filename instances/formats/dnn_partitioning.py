"""Layers to be split among devices, as the public inputs of Tarnawski and others (NeurIPS 2020) have them.

::

    {"maxFPGAs", "maxCPUs", "maxSizePerFPGA",
     "nodes": [{"id", "name", "fpgaLatency", "cpuLatency", "supportedOnFpga", "size", "isBackwardNode",
                "colorClass"?}],
     "edges": [{"sourceId", "destId", "cost", "size"}],
     "expert"?: [[id, ...], ...]}

A node becomes an op with a mode on accelerators (kind ``acc``) and one on the host's processors (``cpu``),
latencies in ms rounded to whole ns, at least 1. Its size becomes a weight that it reads: what its device has
to hold. Its output has the bytes that the cost (in ms) of its outgoing edges, all equal, takes at the rate of
the file, which is that of most edges (some of the derived training graphs state sizes that do not fit).

A colour class without time whose neighbours are all in one other class (weights, inputs) vanishes into that
one, and its size with it: beside its only neighbours it costs nothing, and they need no transfer. (Only where
memory is scarce it might be better elsewhere.)

The provenance has under ``layers`` what a partition needs besides: ``processors`` (counts by kind),
``memory`` (bytes of an accelerator), ``link`` (bytes per second to or from one), ``together`` (ops that one
device runs: colour classes), ``backward`` (ops of the backward pass), and of some instances ``expert`` (the
ops of each device in a split that people made; in their files it stands apart).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from ...models.graph import Graph, Mode, Op, Tensor
from .foreign import flag, reading, whole
from .foreign import number as amount
from .strict_json import parse_json, read_bytes
from .task_order import topological_order


def read_dnn_partitioning(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no such input.
    """
    where = os.fspath(path)
    data = parse_json(read_bytes(path), where)
    with reading(where, "layers of dnn-partitioning"):
        return _graph(data, where, Path(path).name.removesuffix(".gz").removesuffix(".json"))


def _graph(data: Any, where: str, name: str) -> Graph:
    nodes = {node["id"]: node for node in data["nodes"]}
    number = {v: k for k, v in enumerate(nodes)}
    cost: dict[Any, float] = {}
    rates: Counter[int] = Counter()
    before: list[set[int]] = [set() for _ in nodes]
    for edge in data["edges"]:
        source, ms, nbytes = edge["sourceId"], amount(edge, "cost", where), amount(edge, "size", where)
        before[number[edge["destId"]]].add(number[source])
        if cost.setdefault(source, ms) != ms:
            raise ValueError(f"several costs from node {source}")
        if ms and nbytes:
            rates[round(nbytes / ms * 1000)] += 1
    rate = rates.most_common(1)[0][0] if rates else 0
    ids = list(nodes)
    held = [[round(x)] if (x := amount(node, "size", where)) else [] for node in nodes.values()]
    for node in nodes.values():
        flag(node, "isBackwardNode", where)
        if flag(node, "supportedOnFpga", where):
            amount(node, "fpgaLatency", where)
        amount(node, "cpuLatency", where)
    classes = _merged(list(nodes.values()), before, held)
    order = [ids[k] for k in topological_order(before, where, lambda k: ids[k]) if classes[k] is not None]
    read = set().union(*before)
    at = {v: i for i, v in enumerate(order)}
    tensors: list[Tensor] = []
    ops = []
    out: dict[int, int] = {}
    for v in order:
        node = nodes[v]
        reads = {out[k] for k in before[number[v]]}
        for nbytes in held[number[v]]:
            reads.add(len(tensors))
            name_of = f"{node['name']} held"
            tensors.append(Tensor(name=name_of, nbytes=nbytes, kind="weight", initial=True, final=True))
        if number[v] in read:
            out[number[v]] = len(tensors)
            tensors.append(Tensor(name=f"{node['name']} output", nbytes=round(cost[v] * rate / 1000)))
        kinds = (("acc", "fpgaLatency"),) if node["supportedOnFpga"] else ()
        modes = (
            Mode(duration_ns=max(1, round(node[key] * 1e6)), processors=(kind,))
            for kind, key in (*kinds, ("cpu", "cpuLatency"))
        )
        writes = (out[number[v]],) if number[v] in read else ()
        ops.append(Op(name=str(node["name"]), reads=tuple(sorted(reads)), writes=writes, modes=tuple(modes)))
    together: dict[int | None, list[int]] = {}
    for v in order:
        together.setdefault(classes[number[v]], []).append(at[v])
    layers: dict[str, Any] = {
        "processors": {
            kind: many
            for kind, key in (("acc", "maxFPGAs"), ("cpu", "maxCPUs"))
            if (many := whole(data[key], key, where))
        },
        "memory": int(amount(data, "maxSizePerFPGA", where)),
        "link": rate or None,
        "together": [some for some in together.values() if len(some) > 1],
        "backward": [at[v] for v in order if nodes[v]["isBackwardNode"]],
    }
    if "expert" in data:
        layers["expert"] = [sorted(at[v] for v in some if v in at) for some in data["expert"]]
    source = "github.com/msr-fiddle/dnn-partitioning"
    return Graph(
        name=name, tensors=tuple(tensors), ops=tuple(ops), provenance={"source": source, "layers": layers}
    )


def _merged(nodes: list[Any], before: list[set[int]], held: list[list[int]]) -> list[int | None]:
    """Return the class of each node, None of those that vanish; change what is before, and held."""
    numbers: dict[Any, int] = {}
    classes: list[int | None] = [
        numbers.setdefault(node.get("colorClass", ("own", k)), len(numbers)) for k, node in enumerate(nodes)
    ]
    members: dict[int, list[int]] = {}
    for k, c in enumerate(classes):
        assert c is not None
        members.setdefault(c, []).append(k)
    after: list[set[int]] = [set() for _ in nodes]
    for k, some in enumerate(before):
        for j in some:
            after[j].add(k)
    again = True
    while again:
        again = False
        for c, group in sorted(members.items()):
            if any(
                nodes[k]["fpgaLatency"] or nodes[k]["cpuLatency"] or not nodes[k]["supportedOnFpga"]
                for k in group
            ):
                continue
            near = {j for k in group for j in (*before[k], *after[k]) if classes[j] != c}
            if len({classes[j] for j in near}) != 1:
                continue
            host = min(near)
            for k in group:
                classes[k] = None
                held[host] += held[k]
                for j in after[k]:
                    before[j] = (before[j] - {k}) | before[k]
                for j in before[k]:
                    after[j] = (after[j] - {k}) | after[k]
                before[k], after[k] = set(), set()
            del members[c]
            again = True
    return classes
