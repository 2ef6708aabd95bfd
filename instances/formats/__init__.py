"""The table of formats: a new one is a file with its reader, and a row here.

The module of a reader may have ``PARAMETERS``, the options of a specification, checked before the reader
takes all of them as keywords. The native files of plans, machines, certificates and allocations say inside
what they hold (``format``), and have no rows.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ...models.errors import InstanceError
from .strict_json import parse_json, read_bytes


@dataclass(frozen=True, kw_only=True)
class Format:
    """Where instances come from: a kind of file, or a scheme of specifications.

    Parameters
    ----------
    name
        The scheme of a specification, ``stg:PATH``.
    read
        ``MODULE:FUNCTION`` in `lowtide.instances`, called with the name and the options.
    endings
        Of names of files, in lower case; they tell the format of a path without a scheme.
    write
        ``MODULE:FUNCTION``, called with what is written and the path; empty: only read.
    is_file
        Whether what follows the scheme is a path.
    checks
        Whether the reader checks its options itself, since they depend on the name.
    buffers
        Whether the files hold buffers, instead of a graph.
    keys
        Of the object in a JSON file, by which one without a scheme is known; empty: by none.
    """

    name: str
    read: str
    endings: tuple[str, ...] = ()
    write: str = ""
    is_file: bool = True
    checks: bool = False
    buffers: bool = False
    keys: frozenset[str] = frozenset()

    @property
    def reader(self) -> Callable[..., Any]:
        """Return the function that reads."""
        return _function(self.read)

    @property
    def writer(self) -> Callable[..., None]:
        """Return the function that writes."""
        return _function(self.write)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the options that its reader takes, by name."""
        found = vars(_module(self.read)).get("PARAMETERS", {})
        assert isinstance(found, dict)
        return found


FORMATS = (
    Format(
        name="native",
        read="formats.native:read_graph",
        write="formats.native:write_graph",
        endings=(".json", ".json.gz"),
    ),
    Format(name="onnx", read="onnx_import.named:load_named", endings=(".onnx",), is_file=False, checks=True),
    Format(
        name="inductor", read="formats.inductor_graph:read_inductor", keys=frozenset({"nodes", "buffers"})
    ),
    Format(name="ios", read="formats.ios_network:read_ios", keys=frozenset({"blocks", "input"})),
    Format(
        name="dnn-partitioning",
        read="formats.dnn_partitioning:read_dnn_partitioning",
        keys=frozenset({"nodes", "edges", "maxSizePerFPGA"}),
    ),
    Format(name="pipedream", read="formats.pipedream_profile:read_pipedream"),
    Format(
        name="piper",
        read="formats.piper_layers:read_piper",
        keys=frozenset({"nodes", "edges", "maxMemoryPerDevice"}),
    ),
    Format(
        name="dot",
        read="formats.networkx_io:read_dot",
        write="formats.networkx_io:write_dot",
        endings=(".dot", ".gv"),
    ),
    Format(
        name="graphml",
        read="formats.networkx_io:read_graphml",
        write="formats.networkx_io:write_graphml",
        endings=(".graphml", ".graphml.gz"),
    ),
    Format(name="stg", read="formats.stg:read_stg", endings=(".stg",)),
    Format(name="chakra", read="formats.chakra:read_chakra", endings=(".et", ".et.gz")),
    Format(name="tflite", read="formats.tflite:read_tflite", endings=(".tflite",)),
    Format(name="hyperdag", read="formats.hyperdag:read_hyperdag", endings=(".hdag",)),
    Format(name="mlsys", read="formats.mlsys:read_mlsys", keys=frozenset({"widths", "heights", "op_types"})),
    Format(name="tree", read="formats.tree_file:read_tree", endings=(".tree", ".nf")),
    Format(name="wfcommons", read="formats.wfcommons:read_wfcommons", keys=frozenset({"workflow"})),
    Format(
        name="iopddl",
        read="formats.iopddl:read_iopddl",
        keys=frozenset({"problem"}),
    ),
    Format(name="g10", read="formats.g10_statistics:read_g10"),
    Format(name="catalogue", read="catalogue:load_entry", is_file=False),
    Format(name="gen", read="generators:generate", is_file=False, checks=True),
    Format(name="torch", read="torch_import:load_torch", is_file=False, checks=True),
    Format(name="hlo", read="xla_import.hlo_graph:read_hlo", endings=("after_optimizations.txt",)),
    Format(
        name="minimalloc",
        read="formats.minimalloc_csv:read_csv",
        write="formats.minimalloc_csv:write_csv",
        endings=(".csv", ".csv.gz"),
        buffers=True,
    ),
    Format(
        name="snapshot",
        read="formats.cuda_snapshot:read_snapshot",
        endings=(".pickle", ".pkl", ".pickle.gz"),
        buffers=True,
    ),
    Format(
        name="xla",
        read="xla_import.buffer_assignment:read_assignment",
        endings=("-buffer-assignment.txt",),
        buffers=True,
    ),
)
"""All formats."""

SCHEMES = {found.name: found for found in sorted(FORMATS, key=lambda row: row.name) if not found.buffers}
"""Formats of graphs by the scheme that names them; a specification without one is a path."""

BUFFER_SCHEMES = {row.name: row for row in FORMATS if row.buffers}
"""Formats of buffers by the scheme that names them, as `SCHEMES`."""


def format_of(path: str, *, buffers: bool = False) -> Format | None:
    """Return the format that the ending of a path tells, of buffers or of a graph; None if it tells none."""
    lower = path.lower()
    return next((row for row in FORMATS if row.buffers == buffers and lower.endswith(row.endings)), None)


def format_within(path: str) -> Format | None:
    """Return the format that the keys of a JSON file tell; None for our own files, and if they tell none."""
    try:
        with (gzip.open if path.lower().endswith(".gz") else open)(path, "rb") as file:
            if b'"format"' in file.read(1024):
                return None
        data = parse_json(read_bytes(path), path)
    except (OSError, EOFError, ValueError, InstanceError):
        return None  # whoever reads it says what is wrong
    keys = {*data} if isinstance(data, dict) else set()
    return next((row for row in FORMATS if row.keys and row.keys <= keys), None)


def known_endings(*, buffers: bool = False, written: bool = False) -> str:
    """Return the endings of graphs in words, with those of buffers, only those that can be written."""
    rows = sorted((row for row in FORMATS if buffers or not row.buffers), key=lambda row: not row.buffers)
    return ", ".join(ending for row in rows if row.write or not written for ending in row.endings)


def _module(name: str) -> Any:
    return import_module(f"..{name.partition(':')[0]}", __name__)


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(_module(name), name.partition(":")[2])
    return found
