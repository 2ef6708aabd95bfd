"""Control flow of ONNX: the branches of If, and the bodies of Loop and Scan as models of their own.

An If whose condition the model states (or that follows from shapes) gives way to the nodes of that branch.
What remains are ops with bodies. `body_model` makes a body a model of its own: what it captures from outside
are inputs (or constants), and its own inputs have the shapes of what the op hands to it. Shapes that ONNX
does not infer for the outputs of such an op follow from its bodies, see `outputs_of`.

A body must give each carried value the shape that it had: else no iteration has the memory of another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...models.errors import InstanceError
from .dependence import CHECK, bodies, captured_by, dynamic_names, initializers, operator
from .reading import KEPT_ELEMENTS, require_onnx
from .shapes import KnownValue, constant_contents

CONTROL = frozenset({"If", "Loop", "Scan"})
"""The operators whose bodies are understood."""

BRANCHES = ("then", "else")
"""What an If can be told to take."""


def has_bodies(graph: Any) -> bool:
    """Return whether a node of the graph has a body."""
    return any(bodies(node) for node in graph.node)


def take_branches(model: Any, branch: str) -> bool:
    """Replace each If whose condition is known, or each If, by a branch's nodes; return whether one was.

    Parameters
    ----------
    branch
        The branch that an If with an unknown condition takes; empty: it stays.
    """
    graph = model.graph
    contents = constant_contents(graph)
    taken = {""}.union(initializers(graph), (info.name for info in graph.input))
    taken.update(name for node in graph.node for name in node.output)
    kept: list[Any] = []
    for node in graph.node:
        condition = contents.get(node.input[0]) if operator(node) == "If" and node.input else None
        known = condition is not None and condition.size == 1
        side = BRANCHES[not condition] if known else branch
        if operator(node) != "If" or not side:
            kept.append(node)
            continue
        body = bodies(node)[f"{side}_branch"]
        names = _rename(body, taken)
        graph.initializer.extend(body.initializer)
        graph.sparse_initializer.extend(body.sparse_initializer)
        kept.extend(body.node)
        kept.extend(
            require_onnx().helper.make_node("Identity", [names.get(info.name, info.name)], [output])
            for info, output in zip(body.output, node.output, strict=False)
            if output
        )
    if len(kept) == len(graph.node) and not any(a is not b for a, b in zip(kept, graph.node, strict=True)):
        return False
    copies = [_copy(node) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def _copy(node: Any) -> Any:
    copied = require_onnx().NodeProto()
    copied.CopyFrom(node)
    return copied


def _rename(body: Any, taken: set[str]) -> dict[str, str]:
    """Give the names that a body defines a form that is not `taken`; return the new by the old names."""
    new: dict[str, str] = {}
    for name in (*initializers(body), *(name for node in body.node for name in node.output if name)):
        new[name] = fresh(name, taken)
        taken.add(new[name])
    for tensor in (*body.initializer, *(sparse.values for sparse in body.sparse_initializer)):
        tensor.name = new[tensor.name]
    _rename_nodes(body, new)
    return new


def _rename_nodes(graph: Any, new: Mapping[str, str]) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new.get(name, name) for name in names]
        for body in bodies(node).values():
            own = {*initializers(body), *(info.name for info in body.input)}
            own.update(name for inner in body.node for name in inner.output)
            outer = {old: name for old, name in new.items() if old not in own}
            _rename_nodes(body, outer)
            for info in body.output:
                info.name = outer.get(info.name, info.name)


def fresh(name: str, taken: set[str]) -> str:
    """Return the name, numbered if it is taken."""
    return next(x for x in (name, *(f"{name}/{k}" for k in range(1, len(taken) + 2))) if x not in taken)


def body_model(model: Any, body: Any, given: list[KnownValue], outer: Mapping[str, KnownValue]) -> Any:
    """Return a body as a model: its inputs are those `given`, then what it captures of computed values.

    Constants that it captures are initializers, with their content where it is small and known.
    """
    onnx = require_onnx()
    helper = onnx.helper
    own = helper.make_model(
        onnx.GraphProto(), opset_imports=model.opset_import, ir_version=model.ir_version or 10
    )
    own.graph.CopyFrom(body)
    own.graph.name = body.name or "body"
    del own.graph.input[:]
    own.graph.input.extend(declared(value) for value in given)
    contents, dynamic = constant_contents(model.graph), dynamic_names(model.graph)
    for name in captured_by(body):
        value = outer[name]
        if name in contents:
            own.graph.initializer.append(onnx.numpy_helper.from_array(contents[name], name))
        elif name in dynamic or value.elements <= KEPT_ELEMENTS:
            own.graph.input.append(declared(value))
        else:
            code = onnx.TensorProto.DataType.Value(value.element_type)
            own.graph.initializer.append(onnx.TensorProto(name=name, data_type=code, dims=value.shape))
    return own


def declared(value: KnownValue) -> Any:
    """Return a value as a ``ValueInfoProto``."""
    code = require_onnx().TensorProto.DataType.Value(value.element_type)
    return require_onnx().helper.make_tensor_value_info(value.name, code, value.shape)


def given_to(node: Any, body: Any, values: Mapping[str, KnownValue], where: str) -> list[KnownValue]:
    """Return the inputs of a body with the shapes of what the op hands to it in an iteration.

    Raises
    ------
    InstanceError
        If the op is none of `CONTROL`, or its body takes another number of inputs.
    """
    kind = operator(node)
    if kind not in CONTROL:
        raise InstanceError(
            f"{where}: found a body in operator {kind}, expected one only in {', '.join(sorted(CONTROL))}; "
            "export the model without it"
        )
    names = [info.name for info in body.input]
    handed: list[tuple[tuple[int, ...], str]] = []
    if kind == "Loop":
        handed = [((), "INT64"), ((), "BOOL"), *_like(values, node.input[2:])]
    if kind == "Scan":
        states = len(node.input) - _scanned(node)
        handed = list(_like(values, node.input[:states]))
        for k, (shape, element_type) in enumerate(_like(values, node.input[states:])):
            axis = _axis(node, "scan_input_axes", k, len(shape), where)
            handed.append(((*shape[:axis], *shape[axis + 1 :]), element_type))
    if len(names) != len(handed):
        raise InstanceError(
            f"{where}: found {len(names)} inputs of the body, expected {len(handed)}; {CHECK}"
        )
    return [KnownValue(name, *what) for name, what in zip(names, handed, strict=True)]


def _like(values: Mapping[str, KnownValue], names: Any) -> Iterator[tuple[tuple[int, ...], str]]:
    return ((values[name].shape, values[name].element_type) for name in names)


def carried_by(node: Any) -> int:
    """Return how many values each iteration hands to the next one."""
    return {"Loop": len(node.input) - 2, "Scan": len(node.input) - _scanned(node)}.get(operator(node), 0)


def iterations(node: Any, values: Mapping[str, KnownValue], contents: Mapping[str, Any]) -> int | None:
    """Return the most iterations of an op; None if its model does not say so."""
    if operator(node) == "Scan":
        shape = values[node.input[-1]].shape
        return shape[_axis(node, "scan_input_axes", _scanned(node) - 1, len(shape), node.name)]
    most = contents.get(node.input[0]) if operator(node) == "Loop" else None
    return int(most.reshape(-1)[0]) if most is not None and most.size == 1 else None


def outputs_of(
    node: Any,
    returned: list[list[KnownValue]],
    values: Mapping[str, KnownValue],
    contents: Mapping[str, Any],
    where: str,
) -> list[KnownValue]:
    """Return the outputs of an op by what its bodies return.

    Raises
    ------
    InstanceError
        If branches return different shapes, a body changes the shape of what it carries, or a Loop with an
        unknown number of iterations collects values.
    """
    first = returned[0]
    if operator(node) == "If":
        for one, other in zip(first, returned[1], strict=False):
            if (one.shape, one.element_type) != (other.shape, other.element_type):
                raise InstanceError(
                    f"{where}: found branches that return {_text(one)} and {_text(other)}, expected the same "
                    "shape; choose one with branch=then or branch=else"
                )
        return [
            KnownValue(name, x.shape, x.element_type) for name, x in zip(node.output, first, strict=False)
        ]
    carried, skipped = carried_by(node), int(operator(node) == "Loop")
    first = first[skipped:]
    start = list(node.input[2 * skipped : 2 * skipped + carried])
    for name, after in zip(start, first, strict=False):
        before = values[name]
        if (before.shape, before.element_type) != (after.shape, after.element_type):
            raise InstanceError(
                f"{where}: found a body that makes {_text(before)} of {name!r} into {_text(after)}, expected "
                "carried values to keep their shape; unroll it first"
            )
    collected = [
        (x, _axis(node, "scan_output_axes", k, len(x.shape) + 1, where))
        for k, x in enumerate(first[carried:])
    ]
    many = iterations(node, values, contents)
    for name, (_, axis) in zip(node.output[carried:], collected, strict=False):
        if many is None and name in values and axis < len(values[name].shape):
            many = values[name].shape[axis]
    if collected and many is None:
        raise InstanceError(
            f"{where}: found values that are collected over an unknown number of iterations, expected a "
            "constant number of iterations; give the shape of the output by shape.NAME=SIZES"
        )
    shapes = [x.shape for x in first[:carried]]
    shapes += [(*x.shape[:axis], many or 0, *x.shape[axis:]) for x, axis in collected]
    return [
        KnownValue(name, shape, x.element_type)
        for name, shape, x in zip(node.output, shapes, first, strict=False)
    ]


def _text(value: KnownValue) -> str:
    return f"{value.element_type} {list(value.shape)}"


def _scanned(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "num_scan_inputs"), 0)


def _axis(node: Any, attribute: str, position: int, rank: int, where: str) -> int:
    """Return the axis along which a Scan (or a Loop: the first one) cuts or joins."""
    axes = next((list(a.ints) for a in node.attribute if a.name == attribute), [])
    axis = int(axes[position]) if position < len(axes) else 0
    if not -rank <= axis < rank:
        raise InstanceError(
            f"{where}: found axis {axis} of a value with {rank} dimensions, expected one of them; {CHECK}"
        )
    return axis % rank
