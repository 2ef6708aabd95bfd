"""Every problem of the suite by its CLI name."""

from __future__ import annotations

from .makespan import Makespan
from .memory_edges import MemoryEdges
from .minio import MinIO
from .parallel_memory import ParallelMemory
from .placement import Placement
from .problem import Offsets, Peak
from .recompute import Recompute

PROBLEMS: dict[
    str,
    type[Peak]
    | type[Offsets]
    | type[Placement]
    | type[Makespan]
    | type[ParallelMemory]
    | type[MemoryEdges]
    | type[Recompute]
    | type[MinIO],
] = {
    Peak.name: Peak,
    Offsets.name: Offsets,
    Placement.name: Placement,
    Makespan.name: Makespan,
    ParallelMemory.name: ParallelMemory,
    MemoryEdges.name: MemoryEdges,
    Recompute.name: Recompute,
    MinIO.name: MinIO,
}
"""CLI name of each problem."""
