"""Problems of parallel memory: a graph with processors, or with a bound, in one specification."""

from __future__ import annotations

import os
from pathlib import Path

from ..models.parallel_memory import ParallelMemory
from .load import load
from .options import Parameter, typed_options
from .spec import Spec, parse_spec

_PROCESSORS = {"processors": Parameter(1, "ops that run at one time at most", least=1)}


def load_parallel_memory(spec: str | os.PathLike[str], **options: object) -> ParallelMemory:
    """Return the problem that a specification names.

    Besides the options of the graph, in the specification or as keywords: ``processors=N``, how many ops
    run at one time at most (default: any number).

    Raises
    ------
    InstanceError
        If the graph cannot be loaded, or an option is unknown or wrong.

    Examples
    --------
    >>> load_parallel_memory("gen:chain?n=5&processors=2").processors
    2
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    where = str(Spec(parsed.scheme, parsed.name, {k: str(v) for k, v in given.items()}))
    own = {k: v for k, v in given.items() if k in _PROCESSORS}
    values = typed_options(own, _PROCESSORS, where)
    rest = {k: v for k, v in given.items() if k not in _PROCESSORS}
    graph = load(
        Path(parsed.name) if parsed.scheme == "path" else str(Spec(parsed.scheme, parsed.name)), **rest
    )
    return ParallelMemory(graph, processors=int(values["processors"]) if own else None)
