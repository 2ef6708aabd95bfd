"""An ONNX model with its nodes in the order of a plan.

The ops of an imported graph are the nodes that compute something; each is known by the value that it
writes, since every value of an ONNX model has one name and one node. The other nodes follow them:

* what depends on an op (views, shapes, nodes that no output needs) stands right behind the last op that it
  depends on, so that it keeps no value longer than the plan does;
* what depends on weights alone stands before the first node that reads it.

ONNX Runtime runs the nodes in that order with ``execution_order = ExecutionOrder.PRIORITY_BASED``,
``ORT_SEQUENTIAL`` and ``ORT_DISABLE_ALL``; its default order is another one, whatever the file's is (run:
onnxruntime 1.32, whose profile lists the nodes as they ran).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...instances.onnx_import.dependence import bodies, captured_names, operator
from ...instances.onnx_import.reading import find_model, parse_model
from ...models.errors import InstanceError, UsageError
from ...models.files import write_whole
from ...models.graph import Graph
from ...models.plan import Plan
from .orders import order_of

INFERENCE = "an order of an inference graph (peak or arena, without train=1)"
"""What plans must be for an ONNX file to hold them, in the words of messages."""


def ordered(graph: Graph, plan: Plan) -> Any:
    """Return the ``ModelProto`` of the file that a graph was read from, nodes in the order of the plan.

    Parameters
    ----------
    graph
        As `lowtide.load` reads it from an ONNX model; its provenance names the model.
    plan
        Runs each op once, one after another, and copies nothing.

    Raises
    ------
    InstanceError
        If the graph was read from no ONNX model, an op is no node of it (training, inlined functions and
        branches), or the order is impossible in the file because of a shape that is computed from a value.
    UsageError
        If the plan is more than an order.
    VerificationError
        If the plan does not verify.
    BackendUnavailable
        If onnx is not installed.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.adapters import onnx_order
    >>> result = lt.solve(lt.Peak(lt.load("onnx:squeezenet")), "greedy")
    >>> model = onnx_order.ordered(result.graph, result.plan)
    >>> len(model.graph.node) >= len(result.order)
    True
    """
    order = order_of(graph, plan, "ordered", INFERENCE)
    model = parse_model(_file_of(graph))
    nodes = list(model.graph.node)
    ops = _nodes_of_ops(graph, nodes)
    sequence = _sequence(nodes, [ops[i] for i in order], graph.name)
    copies = [type(nodes[i]).FromString(nodes[i].SerializeToString()) for i in sequence]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return model


def write(graph: Graph, plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the model of `ordered`; weights in external files stay there.

    Parameters
    ----------
    graph, plan
        As of `ordered`.
    path
        The file; written whole or not at all.

    Raises
    ------
    InstanceError, VerificationError, BackendUnavailable
        As `ordered`.
    UsageError
        As `ordered`; if the path cannot be written, or is not in the folder of the external files.
    """
    model = ordered(graph, plan)
    source = _file_of(graph)
    if Path(path).resolve().parent != source.resolve().parent:
        for tensor in _tensors(model.graph):
            if tensor.data_location == tensor.EXTERNAL:
                raise UsageError(
                    f"{path}: found another folder than that of {source}, whose weights are in files beside "
                    "it, expected a file in that folder"
                )
    write_whole(path, model.SerializeToString())


def _file_of(graph: Graph) -> Path:
    """Return the file that a graph was read from."""
    source = graph.provenance.get("source")
    if not isinstance(source, str) or not str(graph.provenance.get("importer")).startswith("onnx "):
        raise InstanceError(f"graph {graph.name!r}: found no ONNX model that it was read from, expected one")
    return find_model(source.removeprefix("onnx:"))[1]


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield the constants of a graph and of its bodies."""
    yield from graph.initializer
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))
        for body in bodies(node).values():
            yield from _tensors(body)


def _nodes_of_ops(graph: Graph, nodes: Sequence[Any]) -> list[int]:
    """Return the position of each op's node: that which makes the value that the op writes."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    positions: list[int] = []
    for k, op in enumerate(graph.ops):
        made = {makers.get(graph.tensors[t].name) for t in op.writes}
        i = made.pop() if len(made) == 1 else None
        if i is None or operator(nodes[i]) != op.kind or i in positions:
            raise InstanceError(
                f"graph {graph.name!r}: found op {k} {op.name!r}, which is no node of {_file_of(graph)}, "
                f"expected {INFERENCE}, of a file without functions; inline these in the file first"
            )
        positions.append(i)
    return positions


def _sequence(nodes: Sequence[Any], order: Sequence[int], name: str) -> list[int]:
    """Return the positions of all nodes in the new order; `order` are those of the ops in the plan's."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    reads = [
        [makers[x] for x in dict.fromkeys((*node.input, *captured_names(node))) if x in makers]
        for node in nodes
    ]
    place = {i: k for k, i in enumerate(order)}
    last: list[int] = []  # place of the last op that a node is or depends on; -1: of none
    behind: list[list[int]] = [[i] for i in order]
    for i, before in enumerate(reads):
        latest = max((last[j] for j in before), default=-1)
        if i in place and latest >= place[i]:
            node = nodes[i].name or nodes[i].output[0]
            raise InstanceError(
                f"graph {name!r}: found node {node!r} before one that makes a shape for it, expected a model "
                "whose shapes are constants; fold them in the file first"
            )
        last.append(place.get(i, latest))
        if i not in place and latest >= 0:
            behind[latest].append(i)
    sequence: dict[int, None] = {}

    def put(i: int) -> None:
        needed, constants = [i], set[int]()
        while needed:
            found = {j for j in reads[needed.pop()] if last[j] < 0 and j not in sequence} - constants
            needed += found
            constants |= found
        sequence.update(dict.fromkeys(sorted(constants)))
        sequence[i] = None

    for group in behind:
        for i in group:
            put(i)
    return [*sequence, *(i for i in range(len(nodes)) if i not in sequence)]
