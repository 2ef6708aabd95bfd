"""The bundled instances: named, hashed, with the best known bounds; NOTICE says where they come from.

``catalogue.json`` lists them. An entry has either a ``spec`` (a generator) or a ``file`` in this
folder: a graph in the native or the stated format, or buffers as CSV. ``peak`` holds what is known of a
graph for the question `peak`, in bytes; null where nothing was proved yet.

Option ``dtype`` is that of the generator. Graphs that were recorded state the data type of their arithmetic,
but not which tensors hold integers: fp32 may become tf32, of the same bytes; other types need the network.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeVar

from ...models.buffers import Buffers
from ...models.cost_network import CostNetwork
from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.tile_rules import TileInstance
from ...models.work import DTYPES
from ..formats.strict_json import nearest
from ..options import Parameter
from ..spec import parse_spec

T = TypeVar("T")

ASKED = "lowtide solve sharding takes it"
"""What to do with a network where a graph is expected."""

PARAMETERS = {"dtype": Parameter("", "data type of values and arithmetic", choices=tuple(DTYPES))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The best known bounds of a question, and where they come from; None where nothing is known."""

    optimum: int | None = None
    lower: int | None = None
    upper: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A bundled instance.

    Parameters
    ----------
    name, description
        As ``lowtide list instances`` shows them.
    sha256
        Of the graph, the buffers or the network; the loader checks it.
    spec, file
        One of them: the generator's specification, or the file in this folder.
    format
        Of the file of a graph or a network: a scheme of `lowtide.instances.load`.
    peak
        What is known for the question `peak`.
    """

    name: str
    description: str
    sha256: str
    spec: str | None = None
    file: str | None = None
    format: str = "native"
    peak: Bounds = Bounds()

    @property
    def is_buffers(self) -> bool:
        """Whether it is a set of buffers; a graph otherwise."""
        return self.file is not None and self.file.endswith(".csv")

    @property
    def is_network(self) -> bool:
        """Whether it is a network of costs."""
        return self.format == "iopddl"


@cache
def entries() -> dict[str, Entry]:
    """Return the bundled instances by name."""
    text = resources.files(__package__).joinpath("catalogue.json").read_text("utf-8")
    rows = json.loads(text)["instances"]
    return {row["name"]: Entry(**{**row, "peak": Bounds(**row.get("peak", {}))}) for row in rows}


def load_entry(name: str, *, dtype: str = "") -> Graph:
    """Return a bundled graph.

    Parameters
    ----------
    dtype
        Data type of values and arithmetic; empty: as the catalogue has it.

    Raises
    ------
    InstanceError
        If there is none of that name, it is a set of buffers, its hash is not the one that the catalogue
        states, or its sizes in the data type are not known.
    """
    from ..durations import at_peak_rates
    from ..formats import SCHEMES
    from ..generators import generate

    entry = _entry(name)
    if entry.is_buffers:
        raise InstanceError(f"instance 'catalogue:{name}': found a set of buffers, expected a graph")
    if entry.is_network:
        raise InstanceError(f"instance 'catalogue:{name}': found a network, expected a graph ({ASKED})")
    if entry.spec is None:
        graph: Graph = _read(entry, SCHEMES[entry.format].reader)
    else:
        spec = parse_spec(entry.spec)
        graph = generate(spec.name, **spec.options)
    _check(entry, graph.sha256)
    stated = {part.dtype for op in graph.ops for part in op.all_work}
    if not dtype or stated == {dtype}:
        return graph
    if entry.spec is not None and stated:
        return generate(spec.name, **spec.options, dtype=dtype)
    if (stated, dtype) != ({"fp32"}, "tf32"):
        raise _unknown_sizes(name, graph, dtype, stated)
    updates = graph.provenance.get("optimizer")  # which `torch:` leaves in 32 bits, too
    ops = (
        op if op.kind == updates else replace(op, work=tuple(replace(part, dtype=dtype) for part in op.work))
        for op in graph.ops
    )
    return at_peak_rates(replace(graph, ops=tuple(ops)))


def _unknown_sizes(name: str, graph: Graph, dtype: str, stated: set[str]) -> InstanceError:
    """Return what is wrong with a data type of a graph that no generator made, and what to load instead."""
    network = str(graph.provenance.get("source"))
    if not stated:
        expected = "none, for its ops state no data type; load a network of gen:, onnx: or torch: with dtype="
    else:
        again = f"{network}{'&' if '?' in network else '?'}dtype={'fp16' if dtype == 'fp16' else 'bf16'}"
        expected = f"fp32 or tf32, in which its tensors were recorded; '{again}' records the network anew"
    return InstanceError(f"instance 'catalogue:{name}', dtype: found {dtype}, expected {expected}")


def is_buffers(name: str) -> bool:
    """Return whether the bundled instance is a set of buffers.

    Raises
    ------
    InstanceError
        If there is none of that name.
    """
    return _entry(name).is_buffers


def load_buffers_entry(name: str) -> Buffers:
    """Return a bundled set of buffers: `is_buffers` is true of its name.

    Raises
    ------
    InstanceError
        If its hash is not the one that the catalogue states.
    """
    from ..formats.minimalloc_csv import read_csv

    entry = _entry(name)
    buffers = _read(entry, read_csv)
    _check(entry, buffers.sha256)
    return buffers


def load_network_entry(name: str) -> CostNetwork:
    """Return a bundled network.

    Raises
    ------
    InstanceError
        If there is none of that name, it is something else, or its hash is not the one that the catalogue
        states.
    """
    from ..formats.iopddl import read_iopddl

    entry = _entry(name)
    if not entry.is_network:
        raise InstanceError(f"instance 'catalogue:{name}': found no network, expected one, as iopddl/example")
    network = replace(_read(entry, read_iopddl), source=f"catalogue:{name}")
    _check(entry, network.sha256)
    return network


def load_tiles_entry(name: str) -> TileInstance:
    """Return a bundled instance of `tiles`.

    Raises
    ------
    InstanceError
        If there is none of that name, it is something else, or the hash of its graph is not the one that the
        catalogue states.
    """
    from ..formats.mlsys import read_shapes

    entry = _entry(name)
    if entry.format != "mlsys":
        raise InstanceError(f"instance 'catalogue:{name}': found no shapes of tiles, expected mlsys2026/1")
    instance = replace(_read(entry, read_shapes), source=f"catalogue:{name}")
    _check(entry, instance.graph.sha256)
    return instance


def _entry(name: str) -> Entry:
    entry = entries().get(name)
    if entry is None:
        raise InstanceError(
            f"instance 'catalogue:{name}': found unknown name {name!r}, {nearest(name, entries())}"
        )
    return entry


def _read(entry: Entry, read: Callable[[Path], T]) -> T:
    with resources.as_file(resources.files(__package__).joinpath(str(entry.file))) as path:
        return read(path)


def _check(entry: Entry, sha256: str) -> None:
    if sha256 != entry.sha256:
        raise InstanceError(
            f"instance 'catalogue:{entry.name}': found sha256 {sha256}, expected {entry.sha256}"
        )
