"""Problems of parallel memory: a graph with processors, or with a bound, in one specification."""

from __future__ import annotations

import os
from pathlib import Path

from ..models.errors import InstanceError, UsageError
from ..models.graph import Graph
from ..models.problems.memory_edges import MemoryEdges
from ..models.problems.parallel_memory import ParallelMemory
from ..models.units import parse_bytes
from .load import load
from .options import Parameter, typed_options
from .spec import Spec, parse_spec

_PROCESSORS = {"processors": Parameter(1, "ops that run at one time at most", least=1)}
_BOUND = "bound"


def load_parallel_memory(spec: str | os.PathLike[str], **options: object) -> ParallelMemory:
    """Return the problem of the largest parallel memory that a specification names.

    Besides the options of the graph, in the specification or as keywords: ``processors=N``, how many ops run
    at one time at most (default: any number).

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
    graph, processors = _graph_and_processors(parsed, given)
    return ParallelMemory(graph, processors=processors)


def load_memory_edges(spec: str | os.PathLike[str], **options: object) -> MemoryEdges:
    """Return the problem of edges that bound parallel memory that a specification names.

    Besides the options of the graph, in the specification or as keywords: ``bound=SIZE``, such as ``12GiB``,
    and ``processors=N``, how many ops run at one time at most (default: any number).

    Raises
    ------
    InstanceError
        If the graph cannot be loaded, an option is unknown or wrong, or there is no bound.

    Examples
    --------
    >>> load_memory_edges("gen:chain?n=5&bound=1KiB").bound
    1024
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    bound = given.pop(_BOUND, None)
    if bound is None:
        raise InstanceError(
            f"instance {_shown(parsed, given)!r}, bound: found none, expected a size such as bound=12GiB"
        )
    if not isinstance(bound, int):
        try:
            bound = parse_bytes(str(bound))
        except UsageError as error:
            raise InstanceError(f"instance {_shown(parsed, given)!r}, bound: {error}") from None
    graph, processors = _graph_and_processors(parsed, given)
    return MemoryEdges(graph, bound=bound, processors=processors)


def _graph_and_processors(parsed: Spec, given: dict[str, object]) -> tuple[Graph, int | None]:
    own = {k: v for k, v in given.items() if k in _PROCESSORS}
    values = typed_options(own, _PROCESSORS, _shown(parsed, given))
    graph = load(_bare(parsed), **{k: v for k, v in given.items() if k not in _PROCESSORS})
    return graph, int(values["processors"]) if own else None


def _bare(parsed: Spec) -> str | Path:
    return Path(parsed.name) if parsed.scheme == "path" else str(Spec(parsed.scheme, parsed.name))


def _shown(parsed: Spec, given: dict[str, object]) -> str:
    return str(Spec(parsed.scheme, parsed.name, {k: str(v) for k, v in given.items()}))
