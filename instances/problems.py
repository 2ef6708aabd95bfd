"""One entry for every problem: its CLI name and the specification of its instance."""

from __future__ import annotations

import os

from ..models.errors import UsageError
from ..models.problems import PROBLEMS
from ..models.problems.makespan import Makespan
from ..models.problems.memory_edges import MemoryEdges
from ..models.problems.minio import MinIO
from ..models.problems.offsets import Offsets, Origin
from ..models.problems.parallel_memory import ParallelMemory
from ..models.problems.peak import Peak
from ..models.problems.placement import Placement
from ..models.problems.recompute import Recompute
from .formats.strict_json import nearest
from .load import load
from .load_buffers import load_buffers_and_plan
from .load_makespan import load_makespan
from .load_minio import load_minio
from .load_parallel_memory import load_memory_edges, load_parallel_memory
from .load_placement import load_placement
from .load_recompute import load_recompute

AnyProblem = Peak | Offsets | Placement | Makespan | ParallelMemory | MemoryEdges | Recompute | MinIO


def load_problem(name: str, spec: str | os.PathLike[str], **options: object) -> AnyProblem:
    """Return a problem of the suite about the instance that a specification names.

    Parameters
    ----------
    name
        As ``lowtide list problems`` shows it.
    spec, options
        What `load` takes; for other problems, what their loaders `lowtide.instances.load_buffers`,
        `lowtide.instances.load_placement.load_placement` and
        `lowtide.instances.load_makespan.load_makespan` take.

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
        found = load_buffers_and_plan(spec, **options)
        origin = None
        if found.plan is not None and found.graph is not None:
            origin = Origin(graph=found.graph, plan=found.plan)
        return Offsets(found.buffers, origin=origin)
    if name == Placement.name:
        return load_placement(spec, **options)
    if name == Makespan.name:
        return load_makespan(spec, **options)
    if name == ParallelMemory.name:
        return load_parallel_memory(spec, **options)
    if name == MemoryEdges.name:
        return load_memory_edges(spec, **options)
    if name == Recompute.name:
        return load_recompute(spec, **options)
    if name == MinIO.name:
        return load_minio(spec, **options)
    raise UsageError(f"problem: found {name!r}, {nearest(name, PROBLEMS)}")
