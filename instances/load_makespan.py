"""Makespan problems: a graph, processors and a memory in one specification."""

from __future__ import annotations

import os
from pathlib import Path

from ..models.errors import InstanceError, UsageError
from ..models.problems.makespan import Makespan
from ..models.problems.processors import parse_processors, processors_text
from ..models.units import parse_bytes
from .load import load
from .spec import Spec, parse_spec

_OWN = ("processors", "memory")


def load_makespan(spec: str | os.PathLike[str], **options: object) -> Makespan:
    """Return the makespan problem that a specification names.

    Besides the options of the graph, in the specification or as keywords:

    ============================  ==========================================================
    ``processors=N``              identical processors (default 1)
    ``processors=cpu=4+gpu=1``    so many of each kind
    ``memory=SIZE``               capacity of the memory that they share (default: no limit)
    ============================  ==========================================================

    Raises
    ------
    InstanceError
        If the graph cannot be loaded, or an option is unknown or wrong.

    Examples
    --------
    >>> from lowtide.instances.load_makespan import load_makespan
    >>> problem = load_makespan("gen:chain?n=5&processors=2&memory=1GiB")
    >>> problem.processors, problem.memory
    (2, 1073741824)
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    text = processors_text(given["processors"]) if "processors" in given else "1"
    given |= {"processors": text} if "processors" in given else {}
    where = str(Spec(parsed.scheme, parsed.name, {k: str(v) for k, v in given.items()}))
    try:
        processors = parse_processors(text)
    except InstanceError as error:
        raise InstanceError(f"instance {where!r}, {error}") from None
    memory = given.get("memory")
    if memory is not None and not isinstance(memory, int):
        try:
            memory = parse_bytes(str(memory))
        except UsageError as error:
            raise InstanceError(f"instance {where!r}, memory: {error}") from None
    rest = {k: v for k, v in given.items() if k not in _OWN}
    graph = load(
        Path(parsed.name) if parsed.scheme == "path" else str(Spec(parsed.scheme, parsed.name)), **rest
    )
    return Makespan(graph, processors=processors, memory=memory, source=where)
