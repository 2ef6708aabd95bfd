"""Exceptions of torch as one line: what was traced or run, what torch found, where, and what to do next."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...models.errors import InstanceError, LowtideError
from ...models.texts import one_line

ADVICE = (
    (
        r"DataDependent|data-dependent|boolean value of Tensor|_local_scalar_dense",
        "expected a computation that does not depend on the content of tensors; give the number as an input "
        "that is no tensor, or choose with torch.where",
    ),
    (
        r"DynamicOutputShape",
        "expected shapes that follow from those of the inputs; use a mask or torch.where instead of nonzero, "
        "unique or a boolean index",
    ),
    (
        r"use_reentrant",
        "expected checkpoints that run under torch.autograd.grad; pass use_reentrant=False to them",
    ),
    (
        r"fake impl|register_fake|UnsupportedOperator|UnsupportedFakeTensor|Meta'? backend|meta kernel",
        "expected an operator that knows the shape of its result; state it with torch.library.register_fake",
    ),
    (
        r"Jitted modules|ScriptModule|numpy\(\) is not supported|dynamo-optimized",
        "expected a module of torch operators; trace the plain module, without numpy in it",
    ),
    (r"more than 1 value per channel", "expected several values to normalize; take a batch of at least 2"),
    (
        r"OutOfMemory|not enough memory|can't allocate memory|MemoryError",
        "expected more memory; take a smaller batch, or a plan for less",
    ),
    (
        r"same device|DeviceMismatch",
        "expected the module and its inputs on one device; move them with .to(device)",
    ),
    (r"", "expected a module that runs on these inputs; call it with them first, without lowtide"),
)
"""Of exceptions whose type or text matches: what was expected, and the next step; the last one fits all."""

_OWN = (str(Path(__file__).parent), "<")
"""Files that are no place for a user to look at: this package, and what torch generates."""


@contextmanager
def one_line_errors(where: str) -> Iterator[None]:
    """Raise each exception of torch as `InstanceError` of one line; torch logs none of them meanwhile.

    Parameters
    ----------
    where
        What is traced or run.
    """
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    except LowtideError:
        raise
    except Exception as error:
        raise InstanceError(described(error, where)) from error
    finally:
        logger.disabled = before


def described(error: Exception, where: str) -> str:
    """Return an exception of torch in one line."""
    import torch

    own = (str(Path(torch.__file__).parent), *_OWN)
    frames = [x for x in traceback.extract_tb(error.__traceback__) if not x.filename.startswith(own)]
    place = f", {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    name = type(error).__name__
    text = one_line(str(error).strip().split("\n")[0])
    step = next(step for pattern, step in ADVICE if re.search(pattern, f"{name}: {error}"))
    return f"{where}{place}: found {name} of torch ({text[:150].rstrip('. ')}), {step}"
