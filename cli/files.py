"""What a verb writes: each to a file of its own, and to none that it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ..models.errors import InstanceError, UsageError
from ..models.files import check_writable, files_read


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str | None] = ()) -> None:
    """Raise `UsageError` unless each output can be written, to a file of its own, and none is an input.

    To be called before anything is loaded, and once more, without inputs, before long work: what has been
    read by then (the graph of a plan, a machine) counts as input too.

    Parameters
    ----------
    outputs
        Paths by the flags that name them; None: not asked for.
    inputs
        Paths and specifications of instances.
    """
    read = files_read() | {path for item in inputs if item is not None for path in _paths(item)}
    taken: dict[str, str] = {}
    for flag, path in outputs.items():
        if path is None:
            continue
        target = os.fspath(check_writable(path))
        if target in read:
            raise UsageError(f"{flag}: found {path!r}, which is read, expected another file to write")
        if target in taken:
            raise UsageError(f"{flag}: found {path!r}, the file of {taken[target]} too, expected another one")
        taken[target] = flag


def _paths(item: str) -> set[str]:
    """Return the files that a path or a specification may name."""
    from ..instances import parse_spec

    names = {item}
    with suppress(InstanceError):  # whoever reads it says what is wrong
        names.add(parse_spec(item).name)
    return {os.path.realpath(name) for name in names}
