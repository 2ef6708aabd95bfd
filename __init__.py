"""Mathematical optimization for memory-aware scheduling of computation graphs.

>>> import lowtide as lt
>>> graph = lt.load("gen:randwire?n=16&seed=1")
>>> result = lt.solve(lt.Peak(graph), time_limit=10)
>>> result.status, result.objective == result.bound
(<Status.OPTIMAL: 'optimal'>, True)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .instances.formats.networkx_graph import from_networkx, to_networkx
from .instances.load import load
from .instances.load_buffers import load_buffers
from .instances.load_network import load_network
from .instances.load_plan import load_plan
from .instances.load_tiles import load_tiles
from .instances.machines import load_machine
from .instances.save import save
from .models.buffers import Buffer, Buffers, Gap
from .models.cost_network import CostNetwork, Strategies
from .models.derived.stages import Stage, pipeline_graph
from .models.errors import (
    BackendUnavailable,
    InstanceError,
    LowtideError,
    UsageError,
    VerificationError,
)
from .models.graph import Accounting, Graph, Mode, Op, Tensor
from .models.graph_builder import GraphBuilder
from .models.hybrid_rules import Need
from .models.machine import Access, Channel, ChannelGroup, Contention, Machine, Processor, Tier
from .models.plan import Copy, Free, Plan, Resident, Run
from .models.problems.arena import Addressed, Arena
from .models.problems.distributed import Distributed, DistributedSchedule, Send
from .models.problems.hybrid import Hybrid
from .models.problems.makespan import Makespan
from .models.problems.memory_edges import Edges, MemoryEdges
from .models.problems.minio import Eviction, MinIO, Traversal
from .models.problems.offsets import Offsets
from .models.problems.parallel_memory import Moment, ParallelMemory
from .models.problems.partition import Partition
from .models.problems.peak import Peak
from .models.problems.pipeline import Pipeline
from .models.problems.placement import Placement
from .models.problems.recompute import Compute, Discard, Recompute, Transfer
from .models.problems.sharding import Sharding
from .models.problems.stream_answers import Stages, StreamOrder
from .models.problems.streams import Streams
from .models.problems.tiles import Tiles
from .models.problems.trade_off import TradeOff, TradeOffPoint
from .models.result import Result, Status
from .models.split import Split
from .models.tile_rules import TileGroup, TileInstance, Tiling
from .models.verifier.certificate import verify_certificate
from .models.verify import verify
from .models.work import Rates, Work
from .results import notebook as _notebook  # noqa: F401
from .solvers.parallel.certify import certify_parallel
from .solvers.peak.certify.certify import certify
from .solvers.peak.series_parallel.dominance import dominant_order
from .solvers.placement.bounds.certify import certify_placement
from .solvers.solve import solve
from .solvers.trade_off import sweep_memory

if TYPE_CHECKING:
    import pandas as pd

    from .instances.torch_import import trace
    from .instances.xla_import.jaxpr import from_jax
    from .results import plot
    from .solvers.build import Built, build

__all__ = [
    "Access",
    "Accounting",
    "Addressed",
    "Arena",
    "BackendUnavailable",
    "Buffer",
    "Buffers",
    "Built",
    "Channel",
    "ChannelGroup",
    "Compute",
    "Contention",
    "Copy",
    "CostNetwork",
    "Discard",
    "Distributed",
    "DistributedSchedule",
    "Edges",
    "Eviction",
    "Free",
    "Gap",
    "Graph",
    "GraphBuilder",
    "Hybrid",
    "InstanceError",
    "LowtideError",
    "Machine",
    "Makespan",
    "MemoryEdges",
    "MinIO",
    "Mode",
    "Moment",
    "Need",
    "Offsets",
    "Op",
    "ParallelMemory",
    "Partition",
    "Peak",
    "Pipeline",
    "Placement",
    "Plan",
    "Processor",
    "Rates",
    "Recompute",
    "Resident",
    "Result",
    "Run",
    "Send",
    "Sharding",
    "Split",
    "Stage",
    "Stages",
    "Status",
    "Strategies",
    "StreamOrder",
    "Streams",
    "Tensor",
    "Tier",
    "TileGroup",
    "TileInstance",
    "Tiles",
    "Tiling",
    "TradeOff",
    "TradeOffPoint",
    "Transfer",
    "Traversal",
    "UsageError",
    "VerificationError",
    "Work",
    "__version__",
    "build",
    "certify",
    "certify_parallel",
    "certify_placement",
    "dominant_order",
    "from_jax",
    "from_networkx",
    "load",
    "load_buffers",
    "load_machine",
    "load_network",
    "load_plan",
    "load_tiles",
    "pipeline_graph",
    "plot",
    "records",
    "save",
    "solve",
    "sweep_memory",
    "to_networkx",
    "trace",
    "verify",
    "verify_certificate",
]


def records(folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Return the run records of experiments as one pandas frame, a row each.

    Parameters
    ----------
    folders
        Folders that ``lowtide bench`` wrote, or files of records (``.jsonl``, ``.json``): one, or several.

    Returns
    -------
    pandas.DataFrame
        What is nested in a record has columns such as ``seconds_solve``; whole numbers are ``Int64``.

    Raises
    ------
    UsageError
        If a folder or file is missing, or holds no records.

    Examples
    --------
    >>> import json, tempfile
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "greedy")
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     _ = file.write(json.dumps(result.record()))
    ...     file.flush()
    ...     table = lt.records(file.name)
    >>> table[["instance", "method", "status"]].values.tolist()
    [['diamond', 'greedy', 'feasible']]
    """
    from .results.tables.store import frame

    return frame(folders)


def __getattr__(name: str) -> Any:
    """Import on first use what most sessions do without: pictures, models in one's hands, torch and JAX."""
    if name == "plot":
        from .results import plot

        return plot
    if name == "trace":
        from .instances.torch_import import trace

        return trace
    if name == "from_jax":
        from .instances.xla_import.jaxpr import from_jax

        return from_jax
    if name in ("Built", "build"):
        from .solvers import build

        return getattr(build, name)
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")
