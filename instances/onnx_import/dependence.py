"""Which nodes depend on which names: real inputs, names that subgraphs read, dynamic values."""

from __future__ import annotations

from typing import Any

from ...models.errors import InstanceError

CHECK = "onnx.checker.check_model says what is wrong"
"""The next step where a file breaks a rule of ONNX."""

RANDOM = frozenset(
    {
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    }
)
"""Operators that compute anew in every run, whatever they read."""

SHAPE_ONLY = frozenset({"Shape", "Size"})
"""Operators that look at the shape of their operand only."""


def operator(node: Any) -> str:
    """Return the operator of a ``NodeProto``, with the domain in front if it is not ONNX's own."""
    own = node.domain in ("", "ai.onnx")
    return str(node.op_type if own else f"{node.domain}.{node.op_type}")


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes that are numbers, strings or lists of them."""
    from onnx import AttributeProto as Kind
    from onnx.helper import get_attribute_value

    simple = (Kind.FLOAT, Kind.INT, Kind.STRING, Kind.FLOATS, Kind.INTS, Kind.STRINGS)
    return {a.name: get_attribute_value(a) for a in node.attribute if a.type in simple}


def real_inputs(graph: Any) -> list[Any]:
    """Return the graph inputs that are no initializers."""
    weights = set(initializers(graph))
    return [info for info in graph.input if info.name not in weights]


def dynamic_names(graph: Any) -> set[str]:
    """Return the values whose content depends on a real input (or on chance), not only on its shape."""
    names = {info.name for info in real_inputs(graph)}
    for node in graph.node:
        if is_dynamic(node, names):
            names.update(node.output)
    return names - {""}


def is_dynamic(node: Any, names: set[str]) -> bool:
    """Return whether a node's outputs depend on the content of one of the names, or on chance."""
    if operator(node) in SHAPE_ONLY:
        return False
    return (
        operator(node) in RANDOM
        or not names.isdisjoint(node.input)
        or not names.isdisjoint(captured_names(node))
    )


def bodies(node: Any) -> dict[str, Any]:
    """Return the subgraphs of a node by the name of their attribute, numbered if it holds several."""
    found = {}
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found[str(attribute.name)] = attribute.g
        found.update((f"{attribute.name} {k}", body) for k, body in enumerate(attribute.graphs))
    return found


def captured_names(node: Any) -> list[str]:
    """Return the outer names that the subgraphs of a node read or return, in order, without repetition."""
    return list(dict.fromkeys(name for body in bodies(node).values() for name in captured_by(body)))


def captured_by(body: Any) -> list[str]:
    """Return the outer names that one subgraph reads or returns, in order, without repetition."""
    captured: dict[str, None] = {}
    local = {"", *(info.name for info in body.input), *initializers(body)}
    for inner in body.node:
        reads = [*inner.input, *captured_names(inner)]
        captured.update((name, None) for name in reads if name not in local)
        local.update(inner.output)
    captured.update((info.name, None) for info in body.output if info.name not in local)
    return list(captured)


def initializers(graph: Any) -> list[str]:
    """Return the names of the initializers, dense and sparse."""
    return [
        *(t.name for t in graph.initializer),
        *(sparse.values.name for sparse in graph.sparse_initializer),
    ]


def check_order(graph: Any, where: str) -> None:
    """Raise InstanceError if a node reads a value that no earlier node computes."""
    known = {"", *(info.name for info in graph.input), *initializers(graph)}
    for node in graph.node:
        for name in (*node.input, *captured_names(node)):
            if name not in known:
                raise InstanceError(
                    f"{where}: node {operator(node)} {node.name!r}: found input {name!r} before the node "
                    f"that computes it, expected nodes in topological order; {CHECK}"
                )
        known.update(node.output)
    for info in graph.output:
        if info.name not in known:
            raise InstanceError(
                f"{where}: found output {info.name!r}, which no node computes, expected a known value; "
                f"{CHECK}"
            )
