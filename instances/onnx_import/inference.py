"""The values of a model with control flow: inference, folding and branches in turn until all is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.errors import InstanceError
from .control_flow import body_model, given_to, has_bodies, outputs_of, take_branches
from .dependence import bodies, captured_names, check_order, operator
from .reading import require_onnx
from .shapes import KnownValue, constant_contents, fold_arguments, infer_once


def infer_values(model: Any, where: str, branch: str = "") -> dict[str, KnownValue]:
    """Return the values of the main graph by name.

    In `model`, nodes that compute arguments may be folded, and an If may give way to one of its branches.
    Only an optional output that nobody reads may be missing (the mask of Dropout in old opsets).

    Parameters
    ----------
    branch
        ``"then"`` or ``"else"``: what an If takes whose condition is not known; empty: it stays.

    Raises
    ------
    InstanceError
        If a shape stays unknown, a value is no tensor, or inference finds a contradiction.
    """
    changed = True
    while changed:
        taken = take_branches(model, "")
        open_ended = has_bodies(
            model.graph
        )  # with branches that are not taken, and may contradict themselves
        values, unknown = infer_once(model, where, strict=not open_ended)
        changed = bool(
            taken
            or ((unknown or open_ended) and fold_arguments(model, values))
            or (branch and take_branches(model, branch))
            or (unknown and _declare(model, values, unknown, where))
        )
    if open_ended:
        values, unknown = infer_once(model, where)
    if not unknown:
        return values
    name, found = next(iter(unknown.items()))
    producer = next((n for n in model.graph.node if name in n.output), None)
    origin = f", output of {producer.op_type} {producer.name!r}" if producer else ""
    more = f" ({len(unknown) - 1} more like it)" if len(unknown) > 1 else ""
    raise InstanceError(
        f"{where}: value {name!r}{origin}: found {found}{more}, expected a tensor of known shape; state it "
        "in the model's value_info"
    )


def body_of(
    model: Any, node: Any, attribute: str, values: Mapping[str, KnownValue], where: str, branch: str
) -> tuple[Any, dict[str, KnownValue]]:
    """Return a body as a model of its own, and its values.

    Raises
    ------
    InstanceError
        As `infer_values`, about the body; or if its operator or its inputs are not understood.
    """
    body = bodies(node)[attribute]
    choose = "; branch=then or branch=else takes one branch of each If"
    label = f"{where}: node {operator(node)} {node.name or node.output[0]!r}, {attribute}"
    own = body_model(model, body, given_to(node, body, values, label), values)
    check_order(own.graph, label)
    try:
        return own, infer_values(own, label, branch)
    except InstanceError as error:
        text = str(error).removesuffix(choose)
        raise InstanceError(text + choose * (operator(node) == "If")) from None


def returned_by(own: Any, values: Mapping[str, KnownValue]) -> list[KnownValue]:
    """Return the values that a body returns."""
    return [values[info.name] for info in own.graph.output]


def _declare(model: Any, values: dict[str, KnownValue], unknown: Mapping[str, str], where: str) -> bool:
    """Declare outputs of unknown shape that follow from bodies; return whether one was."""
    contents = constant_contents(model.graph)
    for node in model.graph.node:
        reads = {*node.input, *captured_names(node)} - {""}
        if not bodies(node) or unknown.keys().isdisjoint(node.output) or not reads <= values.keys():
            continue
        returned = [
            returned_by(*body_of(model, node, attribute, values, where, "")) for attribute in bodies(node)
        ]
        label = f"{where}: node {operator(node)} {node.name or node.output[0]!r}"
        for value in outputs_of(node, returned, values, contents, label):
            _declare_value(model.graph, value)
        return True
    return False


def _declare_value(graph: Any, value: KnownValue) -> None:
    onnx = require_onnx()
    code = onnx.TensorProto.DataType.Value(value.element_type)
    info = onnx.helper.make_tensor_value_info(value.name, code, value.shape)
    known = [x for x in (*graph.output, *graph.value_info) if x.name == value.name]
    for x in known:
        x.CopyFrom(info)
    if not known and value.name:
        graph.value_info.append(info)
