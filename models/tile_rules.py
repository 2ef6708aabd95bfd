"""Instances and answers of the problem `tiles`: shapes, a scratchpad, and groups of ops run in tiles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any, Self

from .errors import InstanceError
from .graph import Graph, Op, Tensor

MATMUL, POINTWISE = "MatMul", "Pointwise"

LARGEST_SIDE = 2**20
"""Largest width or height of a tensor in elements; divisors are then listed in microseconds."""

LARGEST_NUMBER = 2**62 - 1
"""Largest base cost, capacity and bandwidth: what the native graph format holds."""

MOST_STEPS = 200_000
"""Largest number of steps of a group: the verifier simulates as many in about a second."""

RASTER = ("flush", "keep")
"""Whether slices of the last tile are dropped or kept before the next one, where no order is stated."""

POINTWISE_AT = ("last", "spread")
"""Whether a pointwise op is charged at the last reduction step of a tile or evenly over all of them."""

PLACE = ("apart", "shared")
"""Whether outputs of a group of Pointwise ops take space beside the slices that it reads, or theirs."""

_LISTS = ("widths", "heights", "inputs", "outputs", "base_costs", "op_types")
_KEYS = (*_LISTS, "fast_memory_capacity", "slow_memory_bandwidth", "native_granularity")


@dataclass(frozen=True, kw_only=True)
class TileInstance:
    """Ops on matrices, and the machine that runs them in tiles.

    Attributes
    ----------
    widths, heights
        Per tensor, in elements; an element takes one unit of capacity and of bandwidth.
    inputs
        Per op: tensors; of a MatMul left and right.
    outputs
        Per op: the tensor that it makes.
    base_costs
        Per op: time units of a tile of the native size.
    op_types
        Per op: ``MatMul`` or ``Pointwise``.
    capacity
        Elements of the fast memory.
    bandwidth
        Elements of the slow memory per time unit.
    native
        Width and height of the native tile.
    name, source
        For people, and what it was loaded from; not part of the content that `sha256` names.

    Examples
    --------
    >>> import lowtide as lt
    >>> instance = lt.load_tiles("catalogue:mlsys2026/1")
    >>> instance.shape(0), instance.graph
    ((512, 512), Graph('mlsys-2026-1', 5 ops, 9 tensors))
    """

    widths: tuple[int, ...]
    heights: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    base_costs: tuple[int, ...]
    op_types: tuple[str, ...]
    capacity: int
    bandwidth: int
    native: tuple[int, int]
    name: str = ""
    source: str | None = None

    @classmethod
    def from_dict(cls, data: object, where: str, name: str = "") -> Self:
        """Return the instance of a JSON object in the contest's format.

        Raises
        ------
        InstanceError
            If a key is missing or unknown, a number is out of range, shapes do not match, or an op stands
            before one that makes what it reads.
        """
        if not isinstance(data, Mapping) or {*data} != {*_KEYS}:
            found = sorted(map(str, data))[:12] if isinstance(data, Mapping) else type(data).__name__
            raise InstanceError(f"{where}: found {found}, expected an object with {', '.join(_KEYS)}")
        for key in (*_LISTS, "native_granularity"):
            if not isinstance(data[key], list | tuple):
                raise InstanceError(f"{where}, {key}: found {type(data[key]).__name__}, expected a list")
        sides = {
            key: tuple(_whole(x, 1, LARGEST_SIDE, f"{where}, {key}[{t}]") for t, x in enumerate(data[key]))
            for key in ("widths", "heights", "native_granularity")
        }
        tensors, n = len(sides["widths"]), len(data["op_types"])
        for key, size in (
            ("heights", tensors),
            ("native_granularity", 2),
            *((key, n) for key in _LISTS[2:]),
        ):
            if len(data[key]) != size:
                raise InstanceError(f"{where}, {key}: found {len(data[key])} entries, expected {size}")
        if not n:
            raise InstanceError(f"{where}, op_types: found no ops, expected at least one")
        inputs, outputs = [], []
        for i in range(n):
            for key in ("inputs", "outputs"):
                if not isinstance(data[key][i], list | tuple):
                    raise InstanceError(f"{where}, {key}[{i}]: found {data[key][i]!r:.60}, expected a list")
            inputs.append(
                tuple(_whole(t, 0, tensors - 1, f"{where}, inputs[{i}]") for t in data["inputs"][i])
            )
            made = [_whole(t, 0, tensors - 1, f"{where}, outputs[{i}]") for t in data["outputs"][i]]
            if len(made) != 1:
                raise InstanceError(f"{where}, outputs[{i}]: found {len(made)} tensors, expected one")
            outputs += made
        instance = cls(
            widths=sides["widths"],
            heights=sides["heights"],
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            base_costs=tuple(
                _whole(c, 1, LARGEST_NUMBER, f"{where}, base_costs[{i}]")
                for i, c in enumerate(data["base_costs"])
            ),
            op_types=tuple(data["op_types"]),
            capacity=_whole(
                data["fast_memory_capacity"], 1, LARGEST_NUMBER, f"{where}, fast_memory_capacity"
            ),
            bandwidth=_whole(
                data["slow_memory_bandwidth"], 1, LARGEST_NUMBER, f"{where}, slow_memory_bandwidth"
            ),
            native=(sides["native_granularity"][0], sides["native_granularity"][1]),
            name=name,
        )
        instance._check(where)
        return instance

    def _check(self, where: str) -> None:
        """Raise unless ops stand after what they read, and their shapes match."""
        made: set[int] = set()
        for i, (kind, reads, out) in enumerate(zip(self.op_types, self.inputs, self.outputs, strict=True)):
            for t in reads:
                if t in self.outputs and t not in made:
                    raise InstanceError(
                        f"{where}, inputs[{i}]: found tensor {t}, expected one of an earlier op or of none"
                    )
            if out in made:
                raise InstanceError(
                    f"{where}, outputs[{i}]: found tensor {out} again, expected one op for it"
                )
            made.add(out)
            shapes = [self.shape(t) for t in reads]
            if kind == MATMUL:
                if len(reads) != 2:
                    raise InstanceError(f"{where}, inputs[{i}]: found {len(reads)}, expected two of a MatMul")
                (k, h), (w, depth) = shapes
                fits = k == depth and self.shape(out) == (w, h)
            elif kind == POINTWISE:
                if not reads:
                    raise InstanceError(f"{where}, inputs[{i}]: found none, expected at least one")
                fits = {*shapes} == {self.shape(out)}
            else:
                raise InstanceError(
                    f"{where}, op_types[{i}]: found {kind!r:.60}, expected {MATMUL} or {POINTWISE}"
                )
            if not fits:
                raise InstanceError(
                    f"{where}, op {i}: found {kind} of {shapes} to {self.shape(out)} (width, height), "
                    "expected shapes that match"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object in the contest's format."""
        return {
            "widths": list(self.widths),
            "heights": list(self.heights),
            "inputs": [list(row) for row in self.inputs],
            "outputs": [[t] for t in self.outputs],
            "base_costs": list(self.base_costs),
            "op_types": list(self.op_types),
            "fast_memory_capacity": self.capacity,
            "slow_memory_bandwidth": self.bandwidth,
            "native_granularity": list(self.native),
        }

    def check(self, where: str) -> None:
        """Raise unless `from_dict` would read the instance.

        Raises
        ------
        InstanceError
            As `from_dict`, also where no file stated the instance.
        """
        try:
            stated = self.to_dict()
        except TypeError:
            raise InstanceError(
                f"{where}: found no tuples of integers, expected those of a TileInstance"
            ) from None
        type(self).from_dict(stated, where)

    @cached_property
    def sha256(self) -> str:
        """The content's name: hash of the canonical JSON in the contest's format."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def graph(self) -> Graph:
        """The ops and tensors: a byte an element, a ns a unit of base cost."""
        return Graph(
            name=self.name,
            source=self.source,
            tensors=tuple(
                Tensor(name=f"t{t}", nbytes=self.area(t), initial=t in self.started, final=t in self.finals)
                for t in range(len(self.widths))
            ),
            ops=tuple(
                Op(
                    name=f"{kind} {i}",
                    kind=kind,
                    duration_ns=cost,
                    reads=tuple(sorted({*self.inputs[i]})),
                    writes=(self.outputs[i],),
                )
                for i, (kind, cost) in enumerate(zip(self.op_types, self.base_costs, strict=True))
            ),
        )

    def shape(self, t: int) -> tuple[int, int]:
        """Return width and height of a tensor in elements."""
        return self.widths[t], self.heights[t]

    def area(self, t: int) -> int:
        """Return the elements of a tensor."""
        return self.widths[t] * self.heights[t]

    def depth(self, i: int) -> int:
        """Return the length of the reduction of an op, 1 of a Pointwise."""
        return self.widths[self.inputs[i][0]] if self.op_types[i] == MATMUL else 1

    @cached_property
    def started(self) -> frozenset[int]:
        """The tensors that no op makes: they are in the slow memory at the beginning."""
        return frozenset(range(len(self.widths))) - {*self.outputs}

    @cached_property
    def finals(self) -> frozenset[int]:
        """The tensors that an op makes and none reads: they end in the slow memory."""
        return frozenset(self.outputs) - {t for row in self.inputs for t in row}

    @cached_property
    def scale(self) -> int:
        """Ticks of a time unit: bandwidth and all depths divide it, so every latency is a whole number."""
        return lcm(self.bandwidth, *(self.depth(i) for i in range(len(self.op_types))))


@dataclass(frozen=True, slots=True, kw_only=True)
class TileGroup:
    """Ops that run together, tile by tile.

    Attributes
    ----------
    ops
        Each once, in an order in which they can run.
    granularity
        Width and height of a tile, and the step of the reduction.
    keep
        Tensors that are in the fast memory after the group.
    order
        The tiles by their place in rows; None: row by row, as the reading ``raster`` says.
    """

    ops: tuple[int, ...]
    granularity: tuple[int, int, int]
    keep: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """Groups, one after another: an answer to `tiles`.

    Examples
    --------
    >>> import lowtide as lt
    >>> answer = lt.Tiling.from_dict({"subgraphs": [[0]], "granularities": [[64, 64, 128]]})
    >>> answer.groups[0].granularity
    (64, 64, 128)
    """

    groups: tuple[TileGroup, ...]

    @classmethod
    def from_dict(cls, data: object, where: str = "answer") -> Self:
        """Return the answer of a JSON object in the contest's format; ``subgraph_latencies`` is not read.

        Raises
        ------
        InstanceError
            If it is no such object.
        """
        keys = ("subgraphs", "granularities", "tensors_to_retain", "traversal_orders", "subgraph_latencies")
        if not isinstance(data, Mapping) or not {*keys[:2]} <= {*data} <= {*keys}:
            raise InstanceError(
                f"{where}: found no answer of tiles, expected an object with {', '.join(keys)}"
            )
        rows = data["subgraphs"]
        if not isinstance(rows, list | tuple):
            raise InstanceError(f"{where}, subgraphs: found {type(rows).__name__}, expected a list")
        columns = []
        for key in keys[:4]:
            column = data.get(key)
            if column is None and key in keys[2:]:
                column = [[] if key == "tensors_to_retain" else None] * len(rows)
            if not isinstance(column, list | tuple) or len(column) != len(rows):
                raise InstanceError(
                    f"{where}, {key}: expected a list of {len(rows)} entries, as subgraphs has"
                )
            columns.append(column)
        groups = []
        for s, (ops, granularity, keep, order) in enumerate(zip(*columns, strict=True)):
            at = f"{where}, group {s}"
            shape = _numbers(granularity, 1, f"{at}, granularity")
            if len(shape) != 3:
                raise InstanceError(f"{at}, granularity: found {len(shape)} numbers, expected w, h and k")
            groups.append(
                TileGroup(
                    ops=_numbers(ops, 0, f"{at}, ops"),
                    granularity=(shape[0], shape[1], shape[2]),
                    keep=tuple(sorted(_numbers(keep, 0, f"{at}, tensors_to_retain"))),
                    order=None if order is None else _numbers(order, 0, f"{at}, traversal_orders"),
                )
            )
        return cls(groups=tuple(groups))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object in the contest's format, without ``subgraph_latencies``."""
        return {
            "subgraphs": [list(g.ops) for g in self.groups],
            "granularities": [list(g.granularity) for g in self.groups],
            "tensors_to_retain": [list(g.keep) for g in self.groups],
            "traversal_orders": [None if g.order is None else list(g.order) for g in self.groups],
        }


def _whole(value: object, least: int, most: int, where: str) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InstanceError(f"{where}: found {value!r:.60}, expected an integer from {least} to {most}")
    return value


def _numbers(value: object, least: int, where: str) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise InstanceError(f"{where}: found {value!r:.60}, expected a list of integers")
    return tuple(_whole(x, least, LARGEST_NUMBER, where) for x in value)
