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

import ast
import operator as arithmetic
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ...models.checks import LIMIT
from ...models.errors import InstanceError
from .control_flow import has_bodies
from .dependence import bodies, dynamic_names, operator, real_inputs
from .inference import infer_values
from .reading import require_onnx
from .shapes import KnownValue, constant_contents
from .statements import Shape, is_fixed, state_by_hand

_IMAGES = (224, 640, 416, 320, 256, 512, 128, 48, 64, 32)
"""Heights and widths that a message suggests; the first one that fits. Common ones, chosen by hand."""

_LENGTHS = (128, 64, 32, 256, 512, 1024, 16_000, 4, 1)
"""Lengths that a message suggests; the first one that fits. Common ones, chosen by hand."""

LONGEST_SYMBOL = 200
"""Characters of a symbol that is read as an expression: those of exporters have some tens."""

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.FloorDiv: arithmetic.floordiv,
}
"""Operations in the symbols of exporters."""


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


def size_model(
    model: Any,
    where: str,
    batch: int | None,
    dims: Mapping[str, int],
    branch: str = "",
    shapes: Mapping[str, Shape] | None = None,
) -> Sized:
    """Return the model with the symbolic dimensions and the batch set, and its values.

    Parameters
    ----------
    branch
        ``"then"`` or ``"else"``: the branch of every If whose condition the model leaves open.
    shapes
        Shapes of values by name, None for an unknown size.

    Raises
    ------
    InstanceError
        If a symbolic dimension is missing or unknown, or a shape cannot be inferred.
    """
    inputs = real_inputs(model.graph)
    shapes = dict(shapes or {})
    of_inputs = {info.name: shapes.pop(info.name) for info in inputs if info.name in shapes}
    state_by_hand(model.graph, of_inputs, where)
    for info in inputs:
        if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
            raise InstanceError(
                f"{where}: input {info.name!r}: found no shape, expected a tensor of known rank; give it as "
                f"in ?shape.{info.name}=1x3x224x224"
            )
    names = _names(inputs)
    leading = _leading(inputs, names)
    given = _given_sizes(dims, batch, names, leading, where)
    if missing := _substitute(model, names, given, where):
        raise InstanceError(
            f"{where}: found symbolic dimension {', '.join(missing)} without a size, expected it to "
            f"be given, as in ?{_suggestion(model, missing, names, where, branch, shapes)}"
        )
    if batch is None or isinstance(leading, str) or leading == batch:
        values = infer_values(model, where, branch, shapes)
        return Sized(model, values, _size(_leading(inputs, names)))
    assert leading is not None
    if shapes or has_bodies(model.graph):
        what = "shapes by hand" if shapes else "control flow"
        raise InstanceError(
            f"{where}: found batch={batch} for a model with {what} that was exported with a batch of "
            f"{leading}, expected a symbolic batch: export it with one"
        )
    return _rebatch(model, where, leading, batch)


def _given_sizes(
    dims: Mapping[str, int],
    batch: int | None,
    names: Mapping[str, str],
    leading: int | str | None,
    where: str,
) -> dict[str, int]:
    """Return the sizes that the user gives by the names of the model, the batch's too."""
    given = {names.get(name, name): size for name, size in dims.items()}
    for name, size in dims.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InstanceError(f"{where}: dimension {name}: found {size!r}, expected an integer >= 1")
        _agree(given, names.get(name, name), size, where, name)
    if batch is None:
        return given
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InstanceError(f"{where}: batch: found {batch!r}, expected an integer >= 1")
    if leading is None:
        raise InstanceError(
            f"{where}: found batch={batch}, expected an input with dimensions; leave batch out"
        )
    if isinstance(leading, str):
        given.setdefault(leading, batch)
        _agree(given, leading, batch, where, "batch")
    return given


def _agree(given: Mapping[str, int], name: str, size: int, where: str, option: str) -> None:
    if given[name] != size:
        raise InstanceError(
            f"{where}: found {option}={size} and {name}={given[name]}, "
            "expected one size for both; leave one out"
        )


def _leading(inputs: list[Any], names: Mapping[str, str]) -> int | str | None:
    """Return the size or the name of the first input's leading dimension."""
    if not inputs or not inputs[0].type.tensor_type.shape.dim:
        return None
    dim = inputs[0].type.tensor_type.shape.dim[0]
    return int(dim.dim_value) if is_fixed(dim) else names[_alias(inputs[0].name, 0)]


def _size(leading: int | str | None) -> int | None:
    return leading if isinstance(leading, int) else None


def _alias(name: str, axis: int) -> str:
    """Return what every symbolic dimension of an input can be called: input and axis."""
    plain = re.sub(r"[^\w./-]", "_", name)
    return f"{plain}_{axis}"


def _names(inputs: list[Any]) -> dict[str, str]:
    """Return what each name of a symbolic dimension stands for: the name that messages use.

    That is the symbol, or input and axis where it has none or an exporter numbered it
    (``DynamicDimension.1``, ``unk__749``).
    """
    symbolic = [
        (_alias(info.name, axis), str(dim.dim_param))
        for info in inputs
        for axis, dim in enumerate(info.type.tensor_type.shape.dim)
        if not is_fixed(dim)
    ]
    names: dict[str, str] = {}
    for alias, symbol in symbolic:
        readable = re.fullmatch(r"[A-Za-z_]\w*", symbol) and not re.fullmatch(r".*__\d+", symbol)
        if readable or re.fullmatch(r"[\w.]+", symbol):
            names.setdefault(symbol, symbol if readable else alias)
    for alias, symbol in symbolic:
        names.setdefault(alias, names.get(symbol, alias))
    return names


def _substitute(model: Any, names: Mapping[str, str], given: Mapping[str, int], where: str) -> list[str]:
    """Set the symbolic dimensions of the inputs, and of every declared shape; return what is missing."""
    shown = dict.fromkeys(names.values())
    if unknown := sorted(set(given) - shown.keys()):
        near = get_close_matches(unknown[0], ("batch", "train", "weights"), n=1)
        if near:
            raise InstanceError(f"{where}: found unknown option {unknown[0]}, did you mean {near[0]}?")
        raise InstanceError(
            f"{where}: found unknown dimension {', '.join(unknown)}, expected "
            + (f"one of {', '.join(sorted(shown))}" if shown else "none: all dimensions are fixed")
        )
    sizes = {name: given[what] for name, what in names.items() if what in given}
    missing: dict[str, None] = {}
    for info in real_inputs(model.graph):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if not is_fixed(dim):
                alias = _alias(info.name, axis)
                size = sizes.get(alias) or _computed(dim.dim_param, sizes)
                if size is not None:
                    dim.dim_value = size
                elif dim.dim_param in names or not _computed(dim.dim_param, dict.fromkeys(names, 2)):
                    missing[names[alias]] = None
    if not missing:
        _substitute_declared(model.graph, sizes)
    return list(missing)


def _computed(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of an expression such as ``past_length + 1`` over known dimensions; None if unknown."""

    def value(tree: ast.AST) -> int:
        if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
            return _OPERATIONS[type(tree.op)](value(tree.left), value(tree.right))
        if isinstance(tree, ast.Name):
            return sizes[tree.id]
        if isinstance(tree, ast.Constant) and type(tree.value) is int:
            return tree.value
        raise KeyError

    if not symbol or len(symbol) > LONGEST_SYMBOL:
        return None
    try:
        size = value(ast.parse(symbol, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return size if 0 < size < LIMIT else None


def _suggestion(
    model: Any,
    missing: list[str],
    names: Mapping[str, str],
    where: str,
    branch: str,
    shapes: Mapping[str, Shape],
) -> str:
    """Return sizes for the missing dimensions with which the shapes of the model do not contradict."""
    inputs = real_inputs(model.graph)
    image = any(len(info.type.tensor_type.shape.dim) > 3 for info in inputs)
    leading = _leading(inputs, names) if len(inputs[0].type.tensor_type.shape.dim) > 1 else None
    first: dict[str, int] = {}
    for size in (*(_IMAGES if image else ()), *_LENGTHS):
        sizes = {name: 1 if name == leading else size for name in missing}
        first = first or sizes
        tried = require_onnx().ModelProto()
        tried.CopyFrom(model)
        try:
            _substitute(tried, names, sizes, where)
            infer_values(tried, where, branch, shapes)
        except InstanceError:
            continue
        first = sizes
        break
    return "&".join(f"{name}={size}" for name, size in first.items())


def _substitute_declared(graph: Any, sizes: Mapping[str, int]) -> None:
    for info in (*graph.value_info, *graph.output):
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
            elif not is_fixed(dim):
                dim.Clear()
    for node in graph.node:
        for body in bodies(node).values():
            _substitute_declared(body, sizes)


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
