"""The importer's own picture of a model: its live nodes, and the storage behind every name.

Names fall into three groups. *Dynamic* values depend on the content of a real input: they are computed in
every run. All others are *constants*: weights, whatever is computed from weights, and arguments such as
target shapes; in the light models weights come out of ConstantOfShape nodes. A constant that a dynamic node
reads is a weight tensor; arguments and scalars vanish into the op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .arguments import ARGUMENTS, NO_ARGUMENTS
from .dependence import SHAPE_ONLY, captured_names, is_dynamic, operator, real_inputs
from .dimensions import Sized
from .reading import require_onnx
from .shapes import Value, constant_contents
from .views import is_view


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
        Storages that its subgraphs read from outside.
    attributes
        Numbers, strings and lists of them.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operands: tuple[str, ...]
    captured: tuple[str, ...]
    attributes: dict[str, Any]


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
        The constants that come from initializers or weight fillers, not from Constant nodes.
    views, dead
        How many nodes were folded into their storage, and how many no output needs.
    """

    values: dict[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    storage: dict[str, str]
    constants: frozenset[str]
    trainable: frozenset[str]
    views: int
    dead: int


def build_network(sized: Sized, *, train: bool) -> Network:
    """Return the network of a model of known sizes."""
    graph, values = sized.model.graph, sized.values
    inputs = tuple(info.name for info in real_inputs(graph))
    outputs = [info.name for info in graph.output]
    contents = constant_contents(graph)
    used = frozenset(name for node in graph.node for name in (*node.input, *captured_names(node)))
    used |= frozenset(outputs)
    weights = {name for name in values if name not in inputs} - {
        name for node in graph.node for name in node.output
    }
    dynamic, trainable = set(inputs), set(weights)
    storage = {name: name for name in (*inputs, *weights)}
    candidates: list[Node] = []
    views = 0
    for node in graph.node:
        captured = captured_names(node)
        attributes = _attributes(node)
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
            candidates.append(_node(node, attributes, captured, storage, values, dynamic))
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


def _node(
    node: Any,
    attributes: dict[str, Any],
    captured: list[str],
    storage: dict[str, str],
    values: dict[str, Value],
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
        captured=tuple(dict.fromkeys(storage[name] for name in captured)),
        attributes=attributes,
    )


def _live(nodes: list[Node], needed: set[str]) -> list[Node]:
    kept = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.operands, node.captured)
            kept.append(node)
    return kept[::-1]


def _attributes(node: Any) -> dict[str, Any]:
    """Return the attributes that are numbers, strings or lists of them."""
    onnx = require_onnx()
    simple = onnx.AttributeProto
    kinds = (simple.FLOAT, simple.INT, simple.STRING, simple.FLOATS, simple.INTS)
    return {
        attribute.name: onnx.helper.get_attribute_value(attribute)
        for attribute in node.attribute
        if attribute.type in kinds
    }
