"""I/O problems: a graph and its memory in one specification."""

from __future__ import annotations

import os
from pathlib import Path

from ..models.errors import InstanceError, UsageError
from ..models.problems.minio import MinIO
from ..models.units import parse_bytes
from .load import load
from .options import Parameter, typed_options
from .spec import Spec, parse_spec

_OWN = ("memory", "whole")
_WHOLE = {"whole": Parameter(False, "tensors move whole")}


def load_minio(spec: str | os.PathLike[str], **options: object) -> MinIO:
    """Return the I/O problem that a specification names.

    Besides the options of the graph, in the specification or as keywords:

    ===============  ==========================================================
    ``memory=SIZE``  capacity of the memory; there is no default
    ``whole=1``      tensors are written and read whole (default: any part)
    ===============  ==========================================================

    Raises
    ------
    InstanceError
        If the graph cannot be loaded, the memory is missing, or an option is unknown or wrong.

    Examples
    --------
    >>> from lowtide.instances.load_minio import load_minio
    >>> load_minio("gen:intree?n=5&memory=1KiB&whole=1").memory
    1024
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    where = str(Spec(parsed.scheme, parsed.name, {k: str(v) for k, v in given.items()}))
    if "memory" not in given:
        raise InstanceError(f"instance {where!r}: found no memory, expected its size (memory=SIZE, --memory)")
    memory = given["memory"]
    if not isinstance(memory, int):
        try:
            memory = parse_bytes(str(memory))
        except UsageError as error:
            raise InstanceError(f"instance {where!r}, memory: {error}") from None
    flags = typed_options({k: given[k] for k in ("whole",) if k in given}, _WHOLE, where)
    rest = {k: v for k, v in given.items() if k not in _OWN}
    path = Path(parsed.name) if parsed.scheme == "path" else str(Spec(parsed.scheme, parsed.name))
    return MinIO(load(path, **rest), memory=memory, whole=bool(flags["whole"]), source=where)
