"""Recomputation problems: a graph, its fast memory and slower tiers in one specification."""

from __future__ import annotations

import os
from pathlib import Path

from ..models.errors import InstanceError, UsageError
from ..models.problems.recompute import ONE_MEMORY, Recompute
from ..models.units import parse_bytes
from .load import load
from .machines import load_machine
from .options import Parameter, typed_options
from .spec import Spec, parse_spec

_SLOTS = {"slots": Parameter(1, "checkpoints that fit", least=0)}
_MEMORY, _MACHINE = "memory", "machine"


def load_recompute(spec: str | os.PathLike[str], **options: object) -> Recompute:
    """Return the recomputation problem that a specification names.

    Besides the options of the graph, in the specification or as keywords:

    ==================  ==================================================================================
    ``memory=SIZE``     capacity of the fast memory (default: that of the machine, or no limit)
    ``slots=N``         the same, of graphs whose tensors have one size: what its largest op needs, and N
                        tensors (for chains: N checkpoints beside the buffers in work)
    ``machine=NAME``    slower tiers: a bundled machine or a ``.toml`` or ``.json`` file, whose first tier
                        is the fast memory
    ==================  ==================================================================================

    Raises
    ------
    InstanceError
        If the graph or the machine cannot be loaded, or an option is unknown or wrong.

    Examples
    --------
    >>> from lowtide.instances.load_recompute import load_recompute
    >>> load_recompute("gen:chain?n=5&sizes=equal&slots=3").memory  # 20 for the largest op
    50
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    where = str(Spec(parsed.scheme, parsed.name, {k: str(v) for k, v in given.items()}))
    memory = given.pop(_MEMORY, None)
    if memory is not None and not isinstance(memory, int):
        try:
            memory = parse_bytes(str(memory))
        except UsageError as error:
            raise InstanceError(f"instance {where!r}, memory: {error}") from None
    machine = load_machine(str(given.pop(_MACHINE))) if _MACHINE in given else ONE_MEMORY
    slots = given.pop("slots", None)
    path = Path(parsed.name) if parsed.scheme == "path" else str(Spec(parsed.scheme, parsed.name))
    problem = Recompute(load(path, **given), memory=memory, machine=machine, source=where)
    if slots is None:
        return problem
    if memory is not None:
        raise InstanceError(f"instance {where!r}: found memory and slots, expected one of them")
    count = int(typed_options({"slots": slots}, _SLOTS, where)["slots"])
    sizes = sorted({tensor.nbytes for tensor in problem.graph.tensors if tensor.nbytes})
    if len(sizes) != 1:
        raise InstanceError(
            f"instance {where!r}, slots: found tensors of {len(sizes)} different sizes, expected one "
            "(give memory=SIZE instead)"
        )
    working = max(problem.least_bytes(i) for i in range(len(problem.graph.ops)))
    return Recompute(problem.graph, memory=working + count * sizes[0], machine=machine, source=where)
