"""Tensors, ops and the computation graph: frozen, integer, checked once at construction.

A *tensor* is a buffer of ``nbytes`` bytes. An *op* reads and writes tensors; each write makes a new
*version* of the tensor (version 0 is the initial content). The ops of a graph stand in a *reference
order* that is itself a valid execution: it fixes which version each op reads, and the last version of
each tensor. `lowtide.models.derived.precedence` derives the arrays that algorithms use from these raw fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

from .checks import check_sums, check_type
from .errors import InstanceError
from .op import KINDS, Mode, Op, Tensor, as_text, canonical_op, op_to_dict

__all__ = ["KINDS", "Accounting", "Graph", "Mode", "Op", "Tensor"]


class Accounting(StrEnum):
    """How an op's own memory counts (design: "coexist" is the classical workflow model)."""

    COEXIST = "coexist"
    """Reads, writes and workspace are all resident for the whole run."""
    REPLACE = "replace"
    """Reads that die with the op are released as its writes are allocated (simple data-flow)."""


PEAK_DEVICE = "a100-40g at its peak rates"
"""The device of the durations of importers and generators, which know no other: no launch cost."""

A_GRAPH = "a Graph, as load(...) returns it"
"""What messages say where something else was found."""


@dataclass(frozen=True, slots=False, kw_only=True, eq=False)
class Graph:
    """A computation graph: tensors, and ops in a reference order that is a valid execution.

    Parameters
    ----------
    name
        Shown to people; not part of the hash.
    tensors, ops
        Referred to by their indices everywhere.
    accounting
        How an op's own memory counts.
    provenance
        Where the graph comes from (JSON values); not part of the hash.
    source
        What `load` was given, so that a plan can name its graph; part of neither hash nor file.

    Raises
    ------
    InstanceError
        If an index dangles, an operand repeats, the reference order is no valid execution, or the bytes
        (of tensors and workspaces) or the nanoseconds, over all modes, add up to 2**62 or more.

    Examples
    --------
    >>> from lowtide import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="two ops",
    ...     tensors=(Tensor(name="x", nbytes=4), Tensor(name="y", nbytes=8, final=True)),
    ...     ops=(Op(name="load", writes=(0,)), Op(name="relu", reads=(0,), writes=(1,))),
    ... )
    >>> graph.summary()["ops"]
    2
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    accounting: Accounting = Accounting.COEXIST
    provenance: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    _repr_html_: ClassVar[Callable[[Any], str]]

    def __post_init__(self) -> None:
        check_type(self.name, str, "graph, name")
        for key, kind in (("tensors", Tensor), ("ops", Op)):
            check_type(
                getattr(self, key), Iterable, f"graph {self.name!r}, {key}", f"a tuple of {kind.__name__}"
            )
            object.__setattr__(self, key, tuple(getattr(self, key)))
            for item in getattr(self, key):
                check_type(item, kind, f"graph {self.name!r}, {key}")
        try:
            object.__setattr__(self, "accounting", Accounting(self.accounting))
        except ValueError:
            raise InstanceError(
                f"accounting: found {self.accounting!r}, expected one of {', '.join(Accounting)}"
            ) from None
        _check_structure(self)
        _check_reference_order(self)
        _check_sums(self)

    def __eq__(self, other: object) -> bool:
        """Equal content; name and provenance do not count."""
        return isinstance(other, Graph) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical JSON (sorted keys, defaults written out), name and provenance left out."""
        digest = hashlib.sha256()
        for part in _canonical(self):
            digest.update(part.encode())
        return digest.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the native JSON object, with every default written out."""
        return {
            "format": "lowtide/graph",
            "version": 1,
            "name": self.name,
            "provenance": dict(self.provenance),
            "accounting": str(self.accounting),
            "tensors": [tensor.to_dict() for tensor in self.tensors],
            "ops": [op_to_dict(op, work=True) for op in self.ops],
        }

    def drop(self, kinds: Iterable[str]) -> Graph:
        """Return the graph without the bytes of the tensors of the given kinds.

        The tensors stay, with ``nbytes`` 0: their versions still order the ops (a weight update must
        follow the reads of the old weight). The hash changes.

        Raises
        ------
        InstanceError
            If a kind is unknown.
        """
        unwanted = set(kinds)
        if unknown := sorted(unwanted - set(KINDS)):
            raise InstanceError(f"drop: found kind {unknown[0]!r}, expected {', '.join(KINDS)}")
        tensors = tuple(replace(t, nbytes=0) if t.kind in unwanted else t for t in self.tensors)
        lost = sum(t.nbytes for t in self.tensors if t.kind in unwanted)
        dropped = {**self.dropped_bytes, ",".join(sorted(unwanted)): lost}
        return replace(self, tensors=tensors, provenance={**self.provenance, "dropped_bytes": dropped})

    @cached_property
    def states_work(self) -> bool:
        """Whether some op states its work."""
        return any(op.all_work for op in self.ops)

    @property
    def device(self) -> str | None:
        """The device whose roofline the durations are; None if they were measured or given."""
        stated = self.provenance.get("durations")
        if isinstance(stated, Mapping):
            return str(stated.get("device"))
        is_roofline = stated == "roofline" or (stated is None and self.states_work)
        return PEAK_DEVICE if is_roofline else None

    @property
    def durations(self) -> str:
        """Where the durations come from, in words."""
        stated = self.provenance.get("durations")
        if isinstance(stated, Mapping):
            dtypes, kept, n = stated.get("dtypes"), stated.get("given"), len(self.ops)
            names = ", ".join(map(str, dtypes)) if isinstance(dtypes, Sequence) else "fp32"
            given = f"; {kept:,} of {n:,} ops given" if isinstance(kept, int) and 0 < kept <= n else ""
            return f"roofline of {self.device}, {names}{given}"
        if self.device is not None:
            return f"roofline of {self.device}, fp32"
        return "measured" if "measured" in self.provenance else "given"

    @property
    def dropped_bytes(self) -> dict[str, int]:
        """Bytes that importers or `drop` left out, by the kinds they belong to."""
        stated = self.provenance.get("dropped_bytes")
        if not isinstance(stated, Mapping):
            return {}
        return {str(kinds): lost for kinds, lost in stated.items() if isinstance(lost, int)}

    def summary(self) -> dict[str, Any]:
        """Return counts and totals: ops, tensors, bytes by kind, duration of all ops."""
        by_kind = {k: sum(t.nbytes for t in self.tensors if t.kind == k) for k in KINDS}
        return {
            "name": self.name,
            "sha256": self.sha256,
            "accounting": str(self.accounting),
            "ops": len(self.ops),
            "tensors": len(self.tensors),
            "initial": sum(t.initial for t in self.tensors),
            "final": sum(t.final for t in self.tensors),
            "bytes": sum(t.nbytes for t in self.tensors),
            "bytes_by_kind": {k: v for k, v in by_kind.items() if v},
            "duration_ns": sum(
                min(m.duration_ns for m in op.modes) if op.modes else op.duration_ns for op in self.ops
            ),
        }

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.ops)} ops, {len(self.tensors)} tensors)"


def _canonical(graph: Graph) -> Iterator[str]:
    """Yield the JSON object of the content, keys sorted, in parts; most ops and tensors by a template.

    The same text as that of `Graph.to_dict` without name, provenance and work, in a sixth of the time: an
    object for each op and tensor at once would be met again and again by the garbage collector.
    """
    quote = json.encoder.encode_basestring_ascii
    yield f'{{"accounting":{quote(str(graph.accounting))},"format":"lowtide/graph","ops":['
    for i, op in enumerate(graph.ops):
        yield ("," if i else "") + (canonical_op(op, quote) if not op.modes else as_text(op_to_dict(op)))
    yield '],"tensors":['
    for i, t in enumerate(graph.tensors):
        yield (
            f'{"," if i else ""}{{"final":{"true" if t.final else "false"},'
            f'"initial":{"true" if t.initial else "false"},"kind":{quote(t.kind)},"name":{quote(t.name)},'
            f'"nbytes":{t.nbytes}}}'
        )
    yield '],"version":1}'


def _check_structure(graph: Graph) -> None:
    """Check that indices are in range, operands do not repeat, in-place pairs are operands."""
    n_tensors = len(graph.tensors)
    for i, op in enumerate(graph.ops):
        where = f"op {i} {op.name!r}"
        for key, limit in (("reads", n_tensors), ("writes", n_tensors), ("after", i)):
            indices = getattr(op, key)
            for x in indices:
                if isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < limit:
                    if key == "after":
                        expected = f"an index below {i} (an op comes after earlier ones only)"
                    else:
                        expected = f"a tensor index in [0, {n_tensors})"
                    raise InstanceError(f"{where}, {key}: found {x!r}, expected {expected}")
            if len(set(indices)) != len(indices):
                twice = next(x for x in indices if indices.count(x) > 1)
                raise InstanceError(f"{where}, {key}: found {twice} twice, expected it once")
        for r, w in op.inplace:
            if r not in op.reads or w not in op.writes:
                raise InstanceError(
                    f"{where}, inplace: found [{r}, {w}], expected a tensor it reads and one it writes"
                )
        for mode in op.modes:
            for t, _ in mode.operands:
                if t not in op.reads and t not in op.writes:
                    raise InstanceError(
                        f"{where}, modes, operands: found tensor {t}, expected one it reads or writes"
                    )


def _check_reference_order(graph: Graph) -> None:
    """Check that the listed order is a valid execution: each read and final tensor has content."""
    has_content = [t.initial for t in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in op.reads:
            if not has_content[t]:
                raise InstanceError(
                    f"op {i} {op.name!r}, reads: found tensor {t} {graph.tensors[t].name!r} before its "
                    "first write, expected an initial tensor or one that an earlier op writes"
                )
        for t in op.writes:
            has_content[t] = True
    for t, tensor in enumerate(graph.tensors):
        if tensor.final and not has_content[t]:
            raise InstanceError(
                f"tensor {t} {tensor.name!r}, final: found true without content, "
                "expected an initial tensor or one that some op writes"
            )


def _check_sums(graph: Graph) -> None:
    """Check that all bytes, and all nanoseconds, add up exactly in 64 bits."""
    modes = [mode for op in graph.ops for mode in op.modes or (op,)]  # an op has the fields of its only mode
    check_sums(
        {
            "nbytes": sum(t.nbytes for t in graph.tensors) + sum(m.workspace for m in modes),
            "duration_ns": sum(m.duration_ns for m in modes),
        }
    )
