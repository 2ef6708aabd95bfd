"""The options of a specification ``onnx:NAME?batch=32``, or of a path that ends in ``.onnx``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.work import DTYPES
from ..formats.strict_json import nearest, show
from ..options import Parameter, typed_options
from ..spec import Spec
from . import load_onnx
from .control_flow import BRANCHES
from .reading import light_models
from .statements import Shape

_OPTIONS = {
    "batch": Parameter(1, "size of the batch", least=1),
    "train": Parameter(False, "forward and backward"),
    "weights": Parameter(False, "keep the bytes of the weights"),
    "conv": Parameter("", "a mode for each algorithm of a convolution", choices=("modes",)),
    "branch": Parameter("", "the branch of each If whose condition is not known", choices=BRANCHES),
    "bodies": Parameter("least", "order of the bodies of control flow", choices=("least", "file")),
    "dtype": Parameter("", "data type of floating-point values and arithmetic", choices=tuple(DTYPES)),
}
_SHAPE = "shape."
"""What stands in front of the name of a value whose shape is given by hand."""

_DIMENSION = Parameter(1, "size of a symbolic dimension", least=1)


def load_named(name: str, *, dims: object = None, **options: object) -> Graph:
    """Return the graph of a file, or of a network that ships inside the onnx package.

    Parameters
    ----------
    name
        Ends in ``.onnx`` if it is a path.
    dims
        Sizes of symbolic dimensions by name.
    **options
        ``batch``, ``train``, ``weights``, ``conv``, ``branch``, ``bodies`` and ``dtype`` of `load_onnx`;
        ``shape.NAME`` is the shape of a value, as in ``1x80x?``; any other is a symbolic dimension.

    Raises
    ------
    InstanceError
        As `load_onnx`; if a value is out of range.
    """
    scheme = "path" if name.lower().endswith(".onnx") else "onnx"
    where = str(Spec(scheme, name, {key: str(value) for key, value in options.items()}))
    if scheme == "onnx" and name not in (models := light_models()):
        raise InstanceError(f"instance '{where}': found unknown network {name!r}, {nearest(name, models)}")
    if not isinstance(dims, Mapping | None):
        raise InstanceError(
            f"instance '{where}', option dims: found {show(dims)}, expected a mapping from names to sizes"
        )
    known = {key: value for key, value in options.items() if key in _OPTIONS}
    shapes = {
        key.removeprefix(_SHAPE): _shape(str(value), f"instance '{where}', option {key}")
        for key, value in options.items()
        if key.startswith(_SHAPE)
    }
    others = {
        key: value for key, value in options.items() if key not in _OPTIONS and not key.startswith(_SHAPE)
    }
    sizes = {**(dims or {}), **others}
    values = typed_options(known, _OPTIONS, where)
    typed = typed_options(sizes, dict.fromkeys(sizes, _DIMENSION), where)
    return load_onnx(
        name,
        batch=int(values["batch"]) if "batch" in known else None,
        dims={key: int(value) for key, value in typed.items()} or None,
        train=bool(values["train"]),
        weights=bool(values["weights"]),
        conv=str(values["conv"]),
        branch=str(values["branch"]),
        bodies=str(values["bodies"]),
        dtype=str(values["dtype"]),
        shapes=shapes,
    )


def _shape(text: str, where: str) -> Shape:
    """Return the shape that a text such as ``1x80x?`` states."""
    if not re.fullmatch(r"(\d{1,18}|\?)(x(\d{1,18}|\?))*", text):
        raise InstanceError(f"{where}: found {text!r}, expected sizes such as 1x80x?, where ? is unknown")
    return tuple(None if size == "?" else int(size) for size in text.split("x"))
