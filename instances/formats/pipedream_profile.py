"""Profiles of the pipeline planner PipeDream (Narayanan and others, SOSP 2019): layers, times and bytes.

::

    node2 -- Conv2d(...) -- forward_compute_time=1.5, backward_compute_time=3.0, activation_size=4.0, parameter_size=8.0
    <tab>node1 -- node2

A node becomes a forward op and a backward op, times in ms rounded to whole ns, at least 1. The backward op reads the
weights, the node's own activation, and a gradient from the backward op of each node that reads the
activation, of as many bytes; several sizes of an activation add up. Sources that are called Input vanish, as in the published planner.

The provenance has under ``layers`` what a partition needs besides: ``together`` (the two ops of a node) and
``backward``.
"""  # noqa: E501

from __future__ import annotations

import os
import re
from pathlib import Path

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from .strict_json import read_bytes
from .task_order import topological_order

_NODE = re.compile(
    r"(\w+) -- (.*) -- forward_compute_time=([\d.]+), backward_compute_time=([\d.]+), "
    r"activation_size=([\d.]+|\[[\d.; ]+\]), parameter_size=([\d.]+)"
)


def read_pipedream(path: str | os.PathLike[str]) -> Graph:
    """Return the graph of a profile.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is no profile.
    """
    where = os.fspath(path)
    try:
        return _graph(
            read_bytes(path).decode(), where, Path(path).name.removesuffix(".gz").removesuffix(".txt")
        )
    except (KeyError, ValueError, OverflowError) as error:
        raise InstanceError(f"{where}: found {error}, expected a profile of PipeDream") from None


def _graph(text: str, where: str, name: str) -> Graph:
    described: dict[str, str] = {}
    numbers: dict[str, tuple[float, ...]] = {}
    pairs = []
    for line in text.splitlines():
        if line.startswith("\t"):
            source, _, target = line.strip().partition(" -- ")
            pairs.append((source, target))
        elif line.strip():
            match = _NODE.fullmatch(line.strip())
            if match is None:
                raise ValueError(f"line {line[:60]!r}")
            described[match[1]] = match[2]
            numbers[match[1]] = tuple(
                sum(map(float, part.strip("[]").split(";"))) for part in match.groups()[2:]
            )
    read = {target for _, target in pairs}
    names = [v for v in numbers if v in read or not described[v].startswith("Input")]
    at = {v: k for k, v in enumerate(names)}
    before: list[set[int]] = [set() for _ in names]
    for a, b in pairs:
        if numbers[a] and a in at:
            before[at[b]].add(at[a])
    order = topological_order(before, where, names.__getitem__)
    tensors = [Tensor(name=v, nbytes=round(numbers[v][2])) for v in names]
    gradients: dict[int, list[int]] = {k: [] for k in order}
    backward: list[Op] = []
    weights: dict[int, tuple[int, ...]] = {}
    for k in reversed(order):
        v = names[k]
        weights[k] = ()
        if nbytes := round(numbers[v][3]):
            weights[k] = (len(tensors),)
            tensors.append(
                Tensor(name=f"{v} weights", nbytes=nbytes, kind="weight", initial=True, final=True)
            )
        writes = []
        for j in sorted(before[k]):
            gradients[j].append(len(tensors))
            writes.append(len(tensors))
            nbytes = round(numbers[names[j]][2])
            tensors.append(Tensor(name=f"{names[j]} gradient from {v}", nbytes=nbytes, kind="gradient"))
        reads = (k, *weights[k], *gradients[k])
        ns = max(1, round(numbers[v][1] * 1e6))
        backward.append(
            Op(name=f"{v} backward", kind=described[v], duration_ns=ns, reads=reads, writes=tuple(writes))
        )
    forward = [
        Op(
            name=names[k],
            kind=described[names[k]],
            duration_ns=max(1, round(numbers[names[k]][0] * 1e6)),
            reads=(*sorted(before[k]), *weights[k]),
            writes=(k,),
        )
        for k in order
    ]
    n = len(order)
    layers = {"together": [[i, 2 * n - 1 - i] for i in range(n)], "backward": [*range(n, 2 * n)]}
    provenance = {"source": "github.com/msr-fiddle/pipedream", "layers": layers}
    return Graph(name=name, tensors=tuple(tensors), ops=(*forward, *backward), provenance=provenance)
