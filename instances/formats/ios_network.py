r"""Networks in blocks, as the inter-operator scheduler IOS (MLSys 2021) has them, with shapes and edges.

::

    {"name", "source", "input": {"name", "shape"},
     "blocks": [{"enter", "exit", "parts", "nodes": [{"name", "type", "inputs": [[node]], "out_bytes",
                 "in_bytes", "weight_bytes", "flops", ...}]}]}

Nodes become ops, their outputs tensors, the input of the network an initial tensor. The provenance keeps the
blocks, and parts of blocks, as lists of ops (``blocks``): IOS schedules them one by one.

Times and shares are a **roofline**, not measured. A node's outputs are computed in :math:`b` blocks of
`outputs` elements each, so that it can fill :math:`u = \min(S, b) / S` of the device's :math:`S`
multiprocessors (`share` is :math:`\min(S, b)`), and alone it takes
:math:`\max(\mathrm{flops} / (F u), \mathrm{bytes} / B)` and the time of a launch, bytes being those of
inputs, outputs and weights; the defaults are figures of a V100 and 4-byte elements.

Convolutions of one input, stride, activation and group whose kernels and paddings are centred on the same
inputs (per axis 2 padding - kernel is the same) are one convolution with all their outputs, if kernels and
paddings are widened by zeros to the largest. The provenance states such ``merges`` of up to four ops with
times by the same roofline (`lowtide.models.derived.merging`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .foreign import reading, whole
from .strict_json import parse_json, read_bytes

PARAMETERS = {
    "parts": Parameter(80, "multiprocessors of the device", least=1),
    "outputs": Parameter(4096, "elements that a multiprocessor computes at a time", least=1),
    "tflops": Parameter(15.7, "10^12 operations a second of the device", least=0.001),
    "gb_per_s": Parameter(900.0, "10^9 bytes a second of its memory", least=0.001),
    "launch_ns": Parameter(3000, "of each op"),
}
ELEMENT = 4
"""Bytes of an element: networks are in single precision."""
MOST_MERGED = 4
"""Ops that a stated merge has at most."""


def read_ios(
    path: str | os.PathLike[str],
    *,
    parts: int = 80,
    outputs: int = 4096,
    tflops: float = 15.7,
    gb_per_s: float = 900.0,
    launch_ns: int = 3000,
) -> Graph:
    """Return the graph of a network in blocks.

    Parameters
    ----------
    path
        JSON, also gzipped.
    parts, outputs, tflops, gb_per_s, launch_ns
        The roofline.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no network in blocks.
    """
    where = os.fspath(path)
    data = parse_json(read_bytes(path), where)

    def roofline(out_bytes: int, flops: int, moved: int) -> tuple[int, int]:
        """Return share and nanoseconds of an op."""
        share = min(parts, max(1, -(-out_bytes // (ELEMENT * outputs))))
        seconds = max(flops / (tflops * 1e12 * share / parts), moved / (gb_per_s * 1e9))
        return share, max(1, round(seconds * 1e9) + launch_ns)

    with reading(where, "a network in blocks"):
        nodes = [node for block in data["blocks"] for node in block["nodes"]]
        name_of_input, shape = str(data["input"]["name"]), data["input"]["shape"]
        nbytes = ELEMENT
        for length in shape:
            nbytes *= whole(length, "shape", where)
        number = {name_of_input: 0} | {str(node["name"]): k + 1 for k, node in enumerate(nodes)}
        if len(number) <= len(nodes):
            raise ValueError("a name twice")
        read = {number[str(x)] for node in nodes for term in node["inputs"] for x in term}
        tensors = [Tensor(name="input", nbytes=nbytes, kind="input", initial=True)]
        ops = []
        for k, node in enumerate(nodes, 1):
            final = k not in read
            tensors.append(
                Tensor(
                    name=f"t{node['name']}",
                    nbytes=whole(node["out_bytes"], "out_bytes", where),
                    kind="output" if final else "activation",
                    final=final,
                )
            )
            moved = sum(whole(node[key], key, where) for key in ("in_bytes", "out_bytes", "weight_bytes"))
            share, time = roofline(node["out_bytes"], whole(node["flops"], "flops", where), moved)
            ops.append(
                Op(
                    name=f"{node['type']}{node['name']}",
                    kind=str(node["type"]),
                    duration_ns=time,
                    share=share,
                    reads=tuple(sorted({number[str(x)] for term in node["inputs"] for x in term})),
                    writes=(k,),
                )
            )
        blocks = [[number[x] - 1 for x in part] for part in _parts(data)]
        merges = list(_merges(nodes, [op.name for op in ops], roofline, where))
    source = str(data.get("source", ""))
    return Graph(
        name=str(data.get("name", Path(path).stem)),
        tensors=tuple(tensors),
        ops=tuple(ops),
        provenance={
            "source": source,
            "times": "roofline, not measured",
            "blocks": blocks,
            **({"merges": merges} if merges else {}),
        },
    )


def _merges(
    nodes: Sequence[dict[str, Any]],
    names: Sequence[str],
    roofline: Callable[[int, int, int], tuple[int, int]],
    where: str,
) -> Iterator[dict[str, Any]]:
    """Yield what convolutions take that are merged: with kernels of the largest height and width."""
    alike: dict[object, list[int]] = {}
    for i, node in enumerate(nodes):
        if node["type"] == "conv" and node.get("groups") == 1:
            for key in ("padding", "kernel", "stride", "out_shape"):
                for value in node[key]:
                    whole(value, key, where)
            whole(node["cin"], "cin", where)
            centred = [2 * p - k for p, k in zip(node["padding"], node["kernel"], strict=True)]
            same = (node["inputs"], node["stride"], node["act"], centred, node["out_shape"][1:])
            alike.setdefault(repr(same), []).append(i)
    for group in alike.values():
        for count in range(2, min(len(group), MOST_MERGED) + 1):
            for ops in combinations(group, count):
                merged = [nodes[i] for i in ops]
                height, width = (max(int(node["kernel"][axis]) for node in merged) for axis in (0, 1))
                channels, (rows, columns) = (
                    sum(int(x["out_shape"][0]) for x in merged),
                    merged[0]["out_shape"][1:],
                )
                taps = int(merged[0]["cin"]) * height * width
                out_bytes = sum(int(node["out_bytes"]) for node in merged)
                moved = int(merged[0]["in_bytes"]) + out_bytes + ELEMENT * channels * (taps + 1)
                share, time = roofline(out_bytes, 2 * taps * channels * int(rows) * int(columns), moved)
                yield {"ops": [names[i] for i in ops], "duration_ns": time, "share": share}


def _parts(data: Any) -> list[list[str]]:
    """Return the names of the nodes of each block, or of each part of a block that has parts."""
    groups: list[list[str]] = []
    for block in data["blocks"]:
        parts = block.get("parts") or [[node["name"] for node in block["nodes"]]]
        groups += [[str(x) for x in part] for part in parts]
    return groups
