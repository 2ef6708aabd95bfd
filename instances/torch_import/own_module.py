"""Modules of users that a command line names: ``FILE.py:FUNCTION`` or ``package.module:function``.

The function takes nothing and returns ``(module, inputs)``, for inference, or ``(module, inputs, targets,
loss)``, for a training step, all as `lowtide.instances.torch_import.trace` takes them. Options stand behind
``?`` (``net.py:step?optimizer=adamw``). Only command lines name functions: files of graphs and plans do not.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...models.checks import check_integer
from ...models.errors import InstanceError, LowtideError
from ...models.texts import one_line
from ..formats import SCHEMES
from ..options import Parameter, typed_options
from .recording import Step, record
from .tracing import AUTOCAST, require_torch
from .updates import STATES

PARAMETERS = {
    "optimizer": Parameter("sgd", "what updates the parameters in training", choices=tuple(STATES)),
    "autocast": Parameter("none", "data type that torch.autocast computes in", choices=("none", *AUTOCAST)),
}

COUNTS = (2, 4)
"""Numbers of values that the function may return: of inference, and of a training step."""


def is_own_module(text: str) -> bool:
    """Return whether a text names a function of the user's, rather than a specification.

    Examples
    --------
    >>> [is_own_module(x) for x in ("net.py:step?optimizer=adamw", "gpt.small:step", "torch:vgg", "unet")]
    [True, True, False, False]
    """
    place, _, function = text.partition("?")[0].rpartition(":")
    is_module = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", place) is not None and place not in SCHEMES
    return function.isidentifier() and (place.endswith(".py") or is_module)


def own_recorder(text: str, *, seed: int = 0, device: str = "cpu") -> Callable[[], Step]:
    """Return what records the step of a module of the user's; the file or module of the function is run now.

    Parameters
    ----------
    text
        As `is_own_module` recognizes it.
    seed
        Of the random numbers that the function draws.
    device
        Where the tensors are that the function makes without a device, as torch calls it.

    Raises
    ------
    InstanceError
        If there is no such file, module or function; when it records: if the function fails or returns
        something else, or torch cannot trace the module.
    BackendUnavailable
        If torch is not installed.
    """
    head, _, query = text.partition("?")
    pairs = [part.partition("=") for part in query.split("&")] if query else []
    values = typed_options({key: value for key, _, value in pairs}, PARAMETERS, text)
    check_integer(seed, 0, f"module {text!r}, seed")
    torch = require_torch(f"module {text!r}")
    with _located(head):
        function = _function(head)

    def recorded() -> Step:
        with _located(head), torch.random.fork_rng(), torch.device(device):
            torch.manual_seed(seed)
            made = function()
        if not isinstance(made, tuple) or len(made) not in COUNTS:
            found = f"{len(made)} values" if isinstance(made, tuple) else type(made).__name__
            raise InstanceError(
                f"module {head!r}: found that the function returns {found}, expected a tuple (module, "
                "inputs), or (module, inputs, targets, loss) for a training step"
            )
        step = record(
            *made,
            optimizer=str(values["optimizer"]),
            autocast=None if values["autocast"] == "none" else str(values["autocast"]),
            name=head.rpartition(":")[2],
            provenance={"module": text},
        )
        return step if step.device == "cpu" else step.with_weights_on_host()

    return recorded


@contextmanager
def _located(head: str) -> Iterator[None]:
    """Raise each exception of the user's code as `InstanceError` of one line."""
    try:
        yield
    except LowtideError:
        raise
    except Exception as error:
        text = f"{type(error).__name__} ({error}) in its code"
        expected = "a function that runs without arguments; call it without lowtide first"
        raise InstanceError(one_line(f"module {head!r}: found {text}, expected {expected}")) from error


def _function(head: str) -> Any:
    """Return the function that a text without options names; its file or module is run."""
    place, _, name = head.rpartition(":")
    if place.endswith(".py"):
        if not os.path.isfile(place):
            raise InstanceError(f"module {head!r}: found no file {place}, expected FILE.py:FUNCTION")
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)  # where classes of the file look for themselves
        folder = os.path.dirname(os.path.abspath(place))
        if folder not in sys.path:
            sys.path.append(folder)  # for files beside it
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise InstanceError(
                f"module {head!r}: found no module {error.name!r}, expected package.module:function on "
                "PYTHONPATH, or FILE.py:FUNCTION"
            ) from None
    function = getattr(module, name, None)
    if not callable(function):
        raise InstanceError(f"module {head!r}: found no function {name!r} in {place}, expected one")
    return function
