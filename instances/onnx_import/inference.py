"""The values of a model with control flow: inference, folding and branches in turn until all is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ...models.errors import InstanceError
from .control_flow import body_model, declared, given_to, has_bodies, outputs_of, take_branches
from .dependence import attributes_of, bodies, captured_names, check_order, operator
from .foreign import FOREIGN, Foreign, made_by
from .reading import require_onnx
from .sequences import ADVICE, resolve_sequences
from .shapes import KnownValue, constant_contents, fold_arguments, infer_once
from .statements import Shape, state, state_by_hand, take_statements


def infer_values(
    model: Any, where: str, branch: str = "", shapes: Mapping[str, Shape] | None = None
) -> dict[str, KnownValue]:
    """Return the values of the main graph by name.

    In `model`, nodes that compute arguments may be folded, and an If may give way to one of its branches.
    Only an optional output that nobody reads may be missing (the mask of Dropout in old opsets).

    Parameters
    ----------
    branch
        ``"then"`` or ``"else"``: what an If takes whose condition is not known; empty: it stays.
    shapes
        Shapes that a user gives by hand.

    Raises
    ------
    InstanceError
        If a shape stays unknown, a value is no tensor, or inference finds a contradiction.
    """
    stated = take_statements(model.graph)
    state_by_hand(model.graph, shapes or {}, where)
    changed = True
    while changed:
        taken = take_branches(model, "")
        # branches that are not taken may contradict themselves, and types may come from statements
        values, unknown = infer_once(model, where, strict=False)
        changed = bool(
            taken
            or _state_foreign(model, values)
            or resolve_sequences(model, values)
            or ((unknown or has_bodies(model.graph)) and fold_arguments(model, values))
            or (branch and take_branches(model, branch))
            or (unknown and _state_stated(model.graph, values, unknown, stated))
            or (unknown and _state_from_bodies(model, values, unknown, where))
        )
    values, unknown = infer_once(model, where)
    if unknown:
        _refuse_unknown(model, where, values, unknown)
    return values


def _refuse_unknown(
    model: Any, where: str, values: Mapping[str, KnownValue], unknown: Mapping[str, str]
) -> NoReturn:
    roots = {name for node in model.graph.node if _reads(node) <= values.keys() for name in node.output}
    name, what = next(((n, x) for n, x in unknown.items() if n in roots), next(iter(unknown.items())))
    producer = next((n for n in model.graph.node if name in n.output), None)
    origin = f", output of {operator(producer)} {producer.name!r}" if producer else ""
    more = f" ({len(unknown) - 1} more like it)" if len(unknown) > 1 else ""
    step = ADVICE if "sequence" in what else "export the model without it"
    if what.startswith("shape") or "rank" in what or "inferred" in what:
        sizes = re.findall(r"[^\[\], ]+", what.removeprefix("shape")) if "[" in what else ["1", "80", "?"]
        text = "x".join(size if size.isdigit() else "100" for size in sizes)
        step = f"give it as in ?shape.{name}={text}, or in the model's value_info"
    raise InstanceError(
        f"{where}: value {name!r}{origin}: found {what}{more}, expected a tensor of known shape; {step}"
    )


def _reads(node: Any) -> set[str]:
    return {*node.input, *captured_names(node)} - {""}


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
        values_of_body = infer_values(own, label, branch)
        if len(own.graph.output) != len(body.output):
            raise InstanceError(f"{label}: found a body that returns a sequence, expected tensors; {ADVICE}")
        return own, values_of_body
    except InstanceError as error:
        text = str(error).removesuffix(choose)
        raise InstanceError(text + choose * (operator(node) == "If")) from None


def returned_by(own: Any, values: Mapping[str, KnownValue]) -> list[KnownValue]:
    """Return the values that a body returns."""
    return [values[info.name] for info in own.graph.output]


def _state_foreign(model: Any, values: dict[str, KnownValue]) -> bool:
    """State what operators make that ONNX does not know, and we do; return whether there was one."""
    contents: dict[str, Any] | None = None
    stated = False
    for node in model.graph.node:
        kind = operator(node)
        known = kind in FOREIGN and _reads(node) <= values.keys()
        if not known or all(name in values for name in node.output if name):
            continue
        contents = constant_contents(model.graph) if contents is None else contents
        made = made_by(
            kind,
            Foreign(
                [values[name] if name else None for name in node.input],
                attributes_of(node),
                [contents.get(name) for name in node.input],
            ),
        )
        for name, what in zip(node.output, made, strict=False):
            if name and what is not None and name not in values:
                values[name] = KnownValue(name, *what)
                state(model.graph, declared(values[name]))
                stated = True
    return stated


def _state_stated(
    graph: Any, values: Mapping[str, KnownValue], unknown: Mapping[str, str], stated: dict[str, Any]
) -> bool:
    """State what the file states of unknown values whose operands are known; return whether there was one."""
    names = [
        name
        for node in graph.node
        if _reads(node) <= values.keys()
        for name in node.output
        if name in unknown and name in stated
    ]
    for name in names:
        state(graph, stated.pop(name))
    return bool(names) or _state_types(graph, values, unknown)


def _state_types(graph: Any, values: Mapping[str, KnownValue], unknown: Mapping[str, str]) -> bool:
    """Give values whose shape is stated by hand the type of the first operand; return whether one was."""
    taken = False
    for node in graph.node:
        first = values.get(node.input[0]) if node.input else None
        for info in (*graph.value_info, *graph.output):
            untyped = info.name in unknown and info.type.HasField("tensor_type")
            if untyped and not info.type.tensor_type.elem_type and info.name in node.output:
                kind = "FLOAT" if first is None else first.element_type
                info.type.tensor_type.elem_type = require_onnx().TensorProto.DataType.Value(kind)
                taken = True
    return taken


def _state_from_bodies(
    model: Any, values: dict[str, KnownValue], unknown: Mapping[str, str], where: str
) -> bool:
    """State outputs of unknown shape that follow from bodies; return whether one was."""
    contents = constant_contents(model.graph)
    for node in model.graph.node:
        if not bodies(node) or unknown.keys().isdisjoint(node.output) or not _reads(node) <= values.keys():
            continue
        returned = [
            returned_by(*body_of(model, node, attribute, values, where, "")) for attribute in bodies(node)
        ]
        label = f"{where}: node {operator(node)} {node.name or node.output[0]!r}"
        for value in outputs_of(node, returned, values, contents, label):
            state(model.graph, declared(value))
        return True
    return False
