"""The problems, one file each, and the table of them."""

from .arena import Arena
from .distributed import Distributed
from .hybrid import Hybrid
from .makespan import Makespan
from .memory_edges import MemoryEdges
from .minio import MinIO
from .offsets import Offsets
from .parallel_memory import ParallelMemory
from .partition import Partition
from .peak import Peak
from .pipeline import Pipeline
from .placement import Placement
from .problem import Problem
from .recompute import Recompute
from .sharding import Sharding
from .streams import Streams
from .tiles import Tiles

PROBLEMS: dict[str, type[Problem]] = {
    problem.name: problem
    for problem in (
        Peak,
        Offsets,
        Arena,
        Placement,
        Makespan,
        Distributed,
        ParallelMemory,
        MemoryEdges,
        Recompute,
        MinIO,
        Streams,
        Pipeline,
        Partition,
        Hybrid,
        Sharding,
        Tiles,
    )
}
"""Every problem of the suite by its CLI name."""
