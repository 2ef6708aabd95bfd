"""One entry for every problem: its CLI name and the specification of its instance."""

from __future__ import annotations

import os

from ..models.errors import UsageError
from ..models.problem import PROBLEMS, Offsets, Peak
from .load import load
from .strict_json import nearest


def load_problem(name: str, spec: str | os.PathLike[str], **options: object) -> Peak | Offsets:
    """Return a problem of the suite about the instance that a specification names.

    Parameters
    ----------
    name
        As ``lowtide list problems`` shows it.
    spec, options
        What `load` takes; for `offsets`, what `load_buffers` takes.

    Raises
    ------
    UsageError
        If there is no problem of that name.
    InstanceError
        As `load` and `load_buffers`.

    Examples
    --------
    >>> load_problem("peak", "gen:chain?n=4").graph
    Graph('chain?n=4', 4 ops, 4 tensors)
    """
    if name == Peak.name:
        return Peak(load(spec, **options))
    if name == Offsets.name:
        from .load_buffers import load_buffers

        return Offsets(load_buffers(spec, **options))
    raise UsageError(f"problem: found {name!r}, {nearest(name, PROBLEMS)}")
