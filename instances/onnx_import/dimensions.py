"""Giving a model its sizes: symbolic dimensions, and another batch than the one it was exported with.

The batch is the leading dimension of the first graph input, and of every other input whose leading
dimension is the same. In a model that was exported with a fixed batch, target shapes of Reshape and Expand
may have the old batch baked in; then a changed input would silently fall back to the old batch behind
them, or no longer fit. Such constants are rewritten:

* a leading entry equal to the old batch becomes the new batch;
* if no entry is -1, the target must hold all elements of an operand that grew with the batch, so a leading
  entry that merges the batch with another dimension (say batch times heads) is scaled likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ...models.errors import InstanceError
from .control_flow import has_bodies
from .dependence import bodies, dynamic_names, operator, real_inputs
from .inference import infer_values
from .reading import require_onnx
from .shapes import KnownValue, constant_contents


@dataclass(frozen=True, slots=True)
class Sized:
    """A model whose dimensions are all known.

    Parameters
    ----------
    model
        The ``ModelProto``, changed where the batch demanded it.
    values
        Its values by name.
    batch
        Leading dimension of its first input; None if there is none.
    rewritten
        How many target shapes were rewritten for another batch.
    unscaled
        How many values that depend on an input did not grow with the batch.
    """

    model: Any
    values: dict[str, KnownValue]
    batch: int | None
    rewritten: int = 0
    unscaled: int = 0


def size_model(model: Any, where: str, batch: int | None, dims: Mapping[str, int], branch: str = "") -> Sized:
    """Return the model with the symbolic dimensions and the batch set, and its values.

    Parameters
    ----------
    branch
        ``"then"`` or ``"else"``: the branch of every If whose condition the model leaves open.

    Raises
    ------
    InstanceError
        If a symbolic dimension is missing or unknown, or a shape cannot be inferred.
    """
    inputs = real_inputs(model.graph)
    for info in inputs:
        if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
            raise InstanceError(
                f"{where}: input {info.name!r}: found no shape, expected a tensor of known rank"
            )
    leading = _leading(inputs)
    given = dict(dims)
    if batch is not None:
        if leading is None:
            raise InstanceError(f"{where}: found batch={batch}, expected an input with dimensions")
        if isinstance(leading, str) and given.setdefault(leading, batch) != batch:
            raise InstanceError(
                f"{where}: found batch={batch} and {leading}={given[leading]}, expected one size for both"
            )
    for name, size in given.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InstanceError(f"{where}: dimension {name}: found {size!r}, expected an integer >= 1")
    _substitute(model, inputs, given, where)
    if batch is None or isinstance(leading, str) or leading == batch:
        values = infer_values(model, where, branch)
        return Sized(model, values, _size(_leading(inputs)))
    assert leading is not None
    if has_bodies(model.graph):
        raise InstanceError(
            f"{where}: found batch={batch} for a model with control flow that was exported with a batch of "
            f"{leading}, expected a symbolic batch: export it with one"
        )
    return _rebatch(model, where, leading, batch)


def _leading(inputs: list[Any]) -> int | str | None:
    """Return the size or the symbol of the first input's leading dimension."""
    if not inputs or not inputs[0].type.tensor_type.shape.dim:
        return None
    dim = inputs[0].type.tensor_type.shape.dim[0]
    return int(dim.dim_value) if _is_fixed(dim) else _symbol(inputs[0].name, 0, dim)


def _size(leading: int | str | None) -> int | None:
    return leading if isinstance(leading, int) else None


def _is_fixed(dim: Any) -> bool:
    return bool(dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0)


def _symbol(name: str, axis: int, dim: Any) -> str:
    """Return the symbol of a dimension; an anonymous one is called after its input and axis."""
    return str(dim.dim_param) or f"{name}_{axis}"


def _substitute(model: Any, inputs: list[Any], given: Mapping[str, int], where: str) -> None:
    """Set the symbolic dimensions of the inputs, and of every declared shape that names them."""
    missing: dict[str, None] = {}
    known: set[str] = set()
    for info in inputs:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if not _is_fixed(dim):
                symbol = _symbol(info.name, axis, dim)
                known.add(symbol)
                if symbol in given:
                    dim.dim_value = given[symbol]
                else:
                    missing[symbol] = None
    if unknown := sorted(set(given) - known):
        near = get_close_matches(unknown[0], ("batch", "train", "weights"), n=1)
        if near:
            raise InstanceError(f"{where}: found unknown option {unknown[0]}, did you mean {near[0]}?")
        raise InstanceError(
            f"{where}: found unknown dimension {', '.join(unknown)}, expected "
            + (f"one of {', '.join(sorted(known))}" if known else "none: all dimensions are fixed")
        )
    if missing:
        raise InstanceError(
            f"{where}: found symbolic dimension {', '.join(missing)} without a size, expected it to "
            f"be given, as in ?{'&'.join(f'{symbol}=1' for symbol in missing)}"
        )
    _substitute_declared(model.graph, given)


def _substitute_declared(graph: Any, given: Mapping[str, int]) -> None:
    for info in (*graph.value_info, *graph.output):
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param in given:
                dim.dim_value = given[dim.dim_param]
            elif not _is_fixed(dim):
                dim.Clear()
    for node in graph.node:
        for body in bodies(node).values():
            _substitute_declared(body, given)


def _rebatch(model: Any, where: str, old: int, new: int) -> Sized:
    exported = require_onnx().ModelProto()
    exported.CopyFrom(model)  # inference folds what it computes from shapes, here those of the old batch
    before = infer_values(exported, where)
    _forget_shapes(model.graph)
    for info in real_inputs(model.graph):
        dims = info.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == old:
            dims[0].dim_value = new
    rewritten = _rewrite_targets(model, before, old, new)
    values = infer_values(model, f"{where} at batch {new}")
    dynamic = dynamic_names(model.graph) & before.keys() & values.keys()
    unscaled = sum(values[n].elements * old != before[n].elements * new for n in dynamic)
    return Sized(model, values, new, rewritten, unscaled)


def _forget_shapes(graph: Any) -> None:
    """Clear the declared shapes of intermediate values and outputs."""
    del graph.value_info[:]
    for info in graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def _rewrite_targets(model: Any, before: Mapping[str, KnownValue], old: int, new: int) -> int:
    """Rewrite the target shapes that hold the old batch; return how many."""
    onnx = require_onnx()
    dynamic = dynamic_names(model.graph)
    contents = constant_contents(model.graph)
    rewritten = 0
    for index, node in enumerate(model.graph.node):
        if operator(node) not in ("Reshape", "Expand") or node.input[0] not in dynamic:
            continue
        if len(node.input) < 2:
            continue  # the first opsets have an attribute, for which ONNX infers no shapes anyway
        target = contents.get(node.input[1])
        if target is None:
            continue
        shape = [int(x) for x in target]
        scaled = _scaled(shape, before[node.output[0]], old, new, node.op_type == "Expand")
        if scaled != shape:
            rewritten += 1
            name = f"{node.input[1]}/batch{new}/{index}"
            tensor = onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(shape)], scaled)
            model.graph.initializer.append(tensor)
            node.input[1] = name
    return rewritten


def _scaled(shape: list[int], output: KnownValue, old: int, new: int, broadcasts: bool) -> list[int]:
    if not shape or len(shape) != len(output.shape) or shape[0] in (0, -1):
        return shape
    if shape[0] == old:
        # a leading 1 broadcasts to any batch
        return shape if broadcasts and old == 1 else [new, *shape[1:]]
    if broadcasts or -1 in shape or shape[0] * new % old:
        return shape
    return [shape[0] * new // old, *shape[1:]]
