"""Finding and reading ONNX files: the light models inside the ``onnx`` package, and any path."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Any

from ...models.errors import BackendUnavailable, InstanceError
from .dependence import bodies

KEPT_ELEMENTS = 1024
"""Constants with more elements than this lose their content as they are read: only shapes matter."""

KEPT_INDICES = 2**18
"""The same for integers and truth values, from which shapes may be computed; 2 MiB each at most."""


def require_onnx() -> Any:
    """Return the ``onnx`` package with its shape inference.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        import onnx
        import onnx.shape_inference
    except ImportError:
        raise BackendUnavailable(
            "ONNX models: the package onnx is not installed; pip install 'lowtide[onnx]'"
        ) from None
    return onnx


def light_models() -> dict[str, Path]:
    """Return the networks that ship inside the ``onnx`` package: name -> path.

    They are real networks whose weights were replaced by ConstantOfShape nodes.

    Raises
    ------
    BackendUnavailable
        If onnx is not installed.
    """
    root = Path(require_onnx().__file__).parent / "backend" / "test" / "data" / "light"
    return {path.stem.removeprefix("light_"): path for path in sorted(root.glob("light_*.onnx"))}


def find_model(path_or_name: str | Path) -> tuple[str, Path]:
    """Return the name and the path of a light model, or of a file.

    Raises
    ------
    InstanceError
        If it is neither; the message names the nearest light models.
    BackendUnavailable
        If onnx is not installed.
    """
    light = light_models()
    name = str(path_or_name)
    if name in light:
        return name, light[name]
    path = Path(path_or_name)
    if path.is_file():
        return path.stem, path
    if path.suffix == ".onnx" or len(path.parts) > 1:
        raise InstanceError(f"{name}: found no such file, expected an ONNX model; check the path")
    nearest = get_close_matches(name, light, n=3, cutoff=0.4) or list(light)
    raise InstanceError(
        f"onnx:{name}: found no such model, expected a path or a light model of the onnx package "
        f"(nearest: {', '.join(nearest) or 'none is installed'})"
    )


def parse_model(path: Path) -> Any:
    """Return the ``ModelProto`` of a file as it is, without weights that are in other files.

    Raises
    ------
    InstanceError
        If the file is no ONNX model.
    """
    onnx = require_onnx()
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise InstanceError(f"{path}: found {error.strerror or error}, expected a readable file") from None
    except Exception:  # the protobuf backends raise different types for the same corrupt bytes
        raise InstanceError(
            f"{path}: found bytes that do not parse, expected an ONNX model; export it again"
        ) from None
    if not model.graph.node and not model.graph.output:
        raise InstanceError(f"{path}: found a model without nodes, expected a network; export it again")
    return model


def read_model(path: Path) -> Any:
    """Return the ``ModelProto`` with local functions inlined and without the content of weights.

    Weights in external files are not read either; integers that shapes may need are, if the file is there.
    A ``ZipMap`` hands on the probabilities that its maps hold.

    Raises
    ------
    InstanceError
        If the file is no ONNX model.
    """
    model = parse_model(path)
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    _forget_weights(model.graph, path.parent)
    _unzip(model.graph)
    return model


def _unzip(graph: Any) -> None:
    for node in graph.node:
        if node.domain == "ai.onnx.ml" and node.op_type == "ZipMap":
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
            for info in graph.output:
                if info.name in node.output:
                    info.ClearField("type")


def _forget_weights(graph: Any, folder: Path) -> None:
    onnx = require_onnx()
    kinds = onnx.TensorProto
    indices = (kinds.BOOL, kinds.INT32, kinds.INT64)
    tensors = list(graph.initializer)
    for node in graph.node:
        for body in bodies(node).values():
            _forget_weights(body, folder)
        if node.op_type == "Constant":
            tensors += [attribute.t for attribute in node.attribute if attribute.name == "value"]
    for tensor in tensors:
        elements = prod(tensor.dims)
        if elements > (KEPT_INDICES if tensor.data_type in indices else KEPT_ELEMENTS):
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
        elif tensor.data_type in indices and tensor.data_location == kinds.EXTERNAL:
            with suppress(Exception):  # a file that is missing or too short: the content stays unknown
                onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
                tensor.data_location = kinds.DEFAULT
