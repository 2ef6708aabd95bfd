"""The importer's own picture of a model: its live nodes, and the storage behind every name.

Names fall into three groups. *Dynamic* values depend on the content of a real input: they are computed in
every run. All others are *constants*: weights, whatever is computed from weights, and arguments such as
target shapes; in the light models weights come out of ConstantOfShape nodes. A constant that a dynamic node
reads is a weight tensor; arguments and scalars vanish into the op.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...models.errors import InstanceError
from .arguments import ARGUMENTS, NO_ARGUMENTS
from .control_flow import carried_by, fresh, iterations, outputs_of
from .dependence import (
    CHECK,
    SHAPE_ONLY,
    attributes_of,
    captured_by,
    captured_names,
    is_dynamic,
    operator,
    real_inputs,
)
from .dependence import bodies as bodies_in
from .dimensions import Sized
from .element_types import TRAINABLE
from .inference import body_of, returned_by
from .shapes import KnownValue, constant_contents
from .views import is_view


@dataclass(frozen=True, slots=True)
class Body:
    """A body of a node of control flow.

    Parameters
    ----------
    label
        What messages call it.
    network
        Its live part, as a model of its own.
    borrowed
        Storages that the outer graph holds: what the body captures, and its constants.
    trainable
        The names in the outer graph of its constants that can be trained.
    """

    label: str
    network: Network
    borrowed: frozenset[str]
    trainable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Node:
    """A node that computes something in every run.

    Parameters
    ----------
    name
        The node's name, else its operator and first output.
    op_type
        ``Conv``; with the domain in front if it is not ONNX's own.
    inputs, outputs
        Value names in ONNX's positions; "" where an optional one is absent.
    operands
        For each input the storage that it reads; "" if it is absent, an argument or a scalar constant.
    captured
        Storages that its bodies use from outside, their constants among them.
    attributes
        Numbers, strings and lists of them.
    bodies
        Of control flow.
    iterations
        How often a body runs; 1 if the model does not say so.
    carried
        Storages that each iteration writes again: the outputs of If, what Loop and Scan carry.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operands: tuple[str, ...]
    captured: tuple[str, ...]
    attributes: dict[str, Any]
    bodies: tuple[Body, ...] = ()
    iterations: int = 1
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """The live part of a model.

    Parameters
    ----------
    values
        Every value by name.
    inputs
        Names of the real inputs.
    outputs
        Storages that the graph returns, without repetition.
    nodes
        The nodes that some output needs, in the model's order.
    storage
        Name -> name of the value that owns its storage (itself, unless it is a view).
    constants
        Storages that are weights.
    trainable
        The constants that come from initializers or weight fillers, and Constant nodes that are weights of a
        linear layer, a normalization or a recurrent layer, or a bias or scale right behind one.
    views, dead
        How many nodes were folded into their storage, and how many no output needs.
    """

    values: dict[str, KnownValue]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    storage: dict[str, str]
    constants: frozenset[str]
    trainable: frozenset[str]
    views: int
    dead: int


def stored_as(network: Network, element_type: str) -> Network:
    """Return the network with all floating-point values stored as another type, in its bodies, too."""
    values = {
        name: replace(value, stored=element_type) if value.element_type in TRAINABLE else value
        for name, value in network.values.items()
    }
    nodes = (
        replace(
            node,
            bodies=tuple(replace(x, network=stored_as(x.network, element_type)) for x in node.bodies),
        )
        for node in network.nodes
    )
    return replace(network, values=values, nodes=tuple(nodes))


def build_network(sized: Sized, where: str, *, train: bool, branch: str = "") -> Network:
    """Return the network of a model of known sizes.

    Parameters
    ----------
    train, branch
        As of `load_onnx`.

    Raises
    ------
    InstanceError
        If the bodies of control flow cannot be sized.
    """
    graph, values = sized.model.graph, dict(sized.values)
    inputs = tuple(info.name for info in real_inputs(graph))
    outputs = [info.name for info in graph.output]
    contents = constant_contents(graph)
    used = _used_names(graph)
    weights = values.keys() - {*inputs} - {name for node in graph.node for name in node.output}
    dynamic, trainable = set(inputs), weights | _weights_in_constants(graph)
    storage = {name: name for name in (*inputs, *weights)}
    candidates: list[Node] = []
    views = 0
    for node in graph.node:
        attributes = attributes_of(node)
        computed = is_dynamic(node, dynamic)
        if computed:
            dynamic.update(name for name in node.output if name)
        elif not trainable.isdisjoint(node.input) and operator(node) not in SHAPE_ONLY:
            trainable.update(name for name in node.output if name)
        storage.update((name, name) for name in node.output if name)
        if is_view(node, attributes, values, train=train, used=used, contents=contents):
            storage[node.output[0]] = storage[node.input[0]]
            views += computed
        elif computed:
            made = _node(node, attributes, storage, values, dynamic)
            if bodies_in(node):
                made = _with_bodies(made, node, sized, storage, values, contents, where, branch)
                trainable.update(name for body in made.bodies for name in body.trainable)
            candidates.append(made)
    kept = _live(candidates, {storage[name] for name in outputs})
    return Network(
        values=values,
        inputs=inputs,
        outputs=tuple(dict.fromkeys(storage[name] for name in outputs)),
        nodes=tuple(kept),
        storage=storage,
        constants=frozenset(set(storage.values()) - dynamic),
        trainable=frozenset(trainable),
        views=views,
        dead=len(candidates) - len(kept),
    )


def _used_names(graph: Any) -> frozenset[str]:
    """Return the values that a node, a body of one, or the model's caller reads."""
    read = (name for node in graph.node for name in (*node.input, *captured_names(node)))
    return frozenset((*read, *(info.name for info in graph.output)))


_PARAMETERS: dict[str, frozenset[int]] = {
    "BatchNormalization": frozenset({1, 2, 3, 4}),
    "Conv": frozenset({1, 2}),
    "ConvTranspose": frozenset({1, 2}),
    "GRU": frozenset({1, 2, 3}),
    "Gemm": frozenset({0, 1, 2}),
    "GroupNormalization": frozenset({1, 2}),
    "InstanceNormalization": frozenset({1, 2}),
    "LSTM": frozenset({1, 2, 3, 7}),
    "LayerNormalization": frozenset({1, 2}),
    "MatMul": frozenset({0, 1}),
    "PRelu": frozenset({1}),
    "RNN": frozenset({1, 2, 3}),
}
"""Operator -> positions of its operands that are weights."""

_PASSING = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators through which a constant reaches the operator whose weight it is."""


def _weights_in_constants(graph: Any) -> set[str]:
    """Return the Constant nodes, by their output, that are weights in the sense of `Network.trainable`."""
    weights: set[str] = set()
    layers: set[str] = set()
    for node in graph.node:
        positions = _PARAMETERS.get(operator(node))
        if positions is not None:
            weights.update(name for k, name in enumerate(node.input) if k in positions)
            layers.update(node.output[:1])
        elif operator(node) in ("Add", "Mul") and not layers.isdisjoint(node.input):
            weights.update(set(node.input) - layers)
    for node in reversed(graph.node):
        if operator(node) in _PASSING and node.output[0] in weights:
            weights.add(node.input[0])
    return {node.output[0] for node in graph.node if operator(node) == "Constant"} & weights


def _node(
    node: Any,
    attributes: dict[str, Any],
    storage: dict[str, str],
    values: dict[str, KnownValue],
    dynamic: set[str],
) -> Node:
    op_type = operator(node)
    arguments = ARGUMENTS.get(op_type, NO_ARGUMENTS)

    def operand(position: int, name: str) -> str:
        if not name:
            return ""
        owner = storage[name]
        if owner not in dynamic and (position in arguments or not values[name].shape):
            return ""
        return owner

    return Node(
        name=node.name or ":".join([op_type, *[name for name in node.output if name][:1]]),
        op_type=op_type,
        inputs=tuple(node.input),
        outputs=tuple(name if name in values else "" for name in node.output),
        operands=tuple(operand(i, name) for i, name in enumerate(node.input)),
        captured=(),
        attributes=attributes,
    )


def _with_bodies(
    made: Node,
    node: Any,
    sized: Sized,
    storage: dict[str, str],
    values: dict[str, KnownValue],
    contents: dict[str, Any],
    where: str,
    branch: str,
) -> Node:
    """Return a node with its bodies; constants of theirs become constants of the outer graph."""
    captured: dict[str, None] = {}
    found, returned = [], []
    for attribute in bodies_in(node):
        trained = set()
        label = f"{where}: node {made.op_type} {made.name!r}, {attribute}"
        own, inner = body_of(sized.model, node, attribute, values, where, branch)
        returned.append(returned_by(own, inner))
        network = build_network(Sized(own, inner, None), label, train=False, branch=branch)
        used = dict.fromkeys(x for n in network.nodes for x in (*n.operands, *n.captured) if x)
        used.update(dict.fromkeys(network.outputs))
        outer = set(captured_by(bodies_in(node)[attribute]))
        for name in used:
            if name in outer:
                captured[storage[name]] = None
            elif name in network.constants:
                new = fresh(f"{made.name}/{attribute}/{name}", set(storage))
                values[new] = replace(network.values[name], name=new)
                storage[new] = new
                captured[new] = None
                trained.update([new] if name in network.trainable else [])
        found.append(Body(label, network, frozenset(outer | network.constants), frozenset(trained)))
    label = f"{where}: node {made.op_type} {made.name!r}"
    for output in outputs_of(node, returned, values, contents, label):
        if not output.name:
            continue
        stated = values.setdefault(output.name, output)
        if (stated.shape, stated.element_type) != (output.shape, output.element_type):
            raise InstanceError(
                f"{label}: found output {output.name!r} declared as {stated.element_type} "
                f"{list(stated.shape)}, expected {output.element_type} {list(output.shape)}, "
                f"as bodies return; {CHECK}"
            )
    outputs = tuple(node.output)
    again = outputs if made.op_type == "If" else outputs[: carried_by(node)]
    return replace(
        made,
        outputs=outputs,
        captured=tuple(captured),
        bodies=tuple(found),
        iterations=1 if made.op_type == "If" else iterations(node, values, contents) or 1,
        carried=tuple(name for name in again if name),
    )


def _live(nodes: list[Node], needed: set[str]) -> list[Node]:
    kept = []
    for node in reversed(nodes):
        if not needed.isdisjoint(filter(None, node.outputs)):
            needed.update(node.operands, node.captured)
            kept.append(node)
    return kept[::-1]
