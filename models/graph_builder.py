"""A graph made step by step, with names instead of indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .checks import as_bytes, check_flag, check_integer, check_type, shown
from .errors import InstanceError, UsageError
from .graph import Graph, Mode, Op, Tensor
from .texts import nearest
from .units import parse_duration
from .work import Work

INITIAL_KINDS = ("input", "weight", "state")
"""Kinds of tensor that exist before the first op, unless it is said otherwise."""


class GraphBuilder:
    """Builds a graph from named tensors and ops; ops come in reference order, a valid execution.

    Parameters
    ----------
    name
        Of the graph.
    accounting
        How an op's own memory counts: "coexist" or "replace" (`lowtide.Accounting`).

    Examples
    --------
    >>> import lowtide as lt
    >>> g = lt.GraphBuilder("net")
    >>> x = g.tensor("x", "4MB")
    >>> y = g.tensor("y", "8MB", kind="output", final=True)
    >>> g.op("conv", reads=[x], writes=[y], duration="3ms", workspace="1MiB")
    'conv'
    >>> graph = g.build()
    >>> graph, graph.tensors[0].initial, graph.ops[0].duration_ns
    (Graph('net', 1 ops, 2 tensors), True, 3000000)
    """

    def __init__(self, name: str = "graph", *, accounting: str = "coexist") -> None:
        check_type(name, str, "graph, name")
        self.name, self.accounting = name, accounting
        self._tensors: list[tuple[Tensor, bool | None]] = []
        self._ops: list[Op] = []
        self._tensor_at: dict[str, int] = {}
        self._op_at: dict[str, int] = {}

    def tensor(
        self,
        name: str,
        nbytes: int | str,
        *,
        kind: str = "activation",
        initial: bool | None = None,
        final: bool = False,
    ) -> str:
        """Add a tensor and return its name, by which ops refer to it.

        Parameters
        ----------
        name
            Unique among the tensors.
        nbytes
            An integer, or a text such as "4MB" or "1.5GiB".
        kind
            One of ``lowtide.models.graph.KINDS``.
        initial
            It exists before the first op. None: so do inputs, weights, states, and what no op writes.
        final
            It must exist after the last op.

        Raises
        ------
        InstanceError
            If the name is taken, or something is out of range.
        """
        where = f"graph {self.name!r}"
        check_type(name, str, f"{where}, tensor, name")
        if name in self._tensor_at:
            raise InstanceError(f"{where}: found a second tensor {name!r}, expected unique names")
        if initial is not None:
            check_flag(initial, f"tensor {name!r}, initial")
        size = as_bytes(nbytes, 0, f"tensor {name!r}, nbytes")
        self._tensors.append((Tensor(name=name, nbytes=size, kind=kind, final=final), initial))
        self._tensor_at[name] = len(self._tensor_at)
        return name

    def op(
        self,
        name: str,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        duration: int | str = 1,
        workspace: int | str = 0,
        kind: str = "",
        after: Iterable[str] = (),
        inplace: Mapping[str, str] | None = None,
        modes: Iterable[Mode] = (),
        work: Iterable[Work] = (),
    ) -> str:
        """Add an op and return its name.

        Parameters
        ----------
        name
            Unique among the ops.
        reads, writes
            Names of tensors that were added before.
        duration
            Nanoseconds, or a text such as "3ms".
        workspace
            Bytes held only while it runs, or a text such as "1MiB".
        kind
            Its operator type, such as "Conv".
        after
            Names of ops that must have completed before.
        inplace
            By the name of a tensor that it reads, one that it writes and that may reuse its address.
        modes
            The ways to run it, when there are several; `duration` and `workspace` then say nothing.
        work
            Its kernels, so that its duration on a device follows (`lowtide.load`, option ``durations``).

        Raises
        ------
        InstanceError
            If the name is taken, a tensor or op is unknown, or something is out of range.
        """
        check_type(name, str, f"graph {self.name!r}, op, name")
        where = f"op {name!r}"
        if name in self._op_at:
            raise InstanceError(f"graph {self.name!r}: found a second op {name!r}, expected unique names")
        pairs = {} if inplace is None else inplace
        check_type(pairs, Mapping, f"{where}, inplace", "a mapping of reads to writes")
        old = _places(pairs, self._tensor_at, f"{where}, inplace", "tensor")
        new = _places(pairs.values(), self._tensor_at, f"{where}, inplace", "tensor")
        self._ops.append(
            Op(
                name=name,
                kind=kind,
                duration_ns=_nanoseconds(duration, f"{where}, duration"),
                workspace=as_bytes(workspace, 0, f"{where}, workspace"),
                reads=_places(reads, self._tensor_at, f"{where}, reads", "tensor"),
                writes=_places(writes, self._tensor_at, f"{where}, writes", "tensor"),
                after=_places(after, self._op_at, f"{where}, after", "op"),
                inplace=tuple(zip(old, new, strict=True)),
                modes=tuple(modes),
                work=tuple(work),
            )
        )
        self._op_at[name] = len(self._op_at)
        return name

    def build(self) -> Graph:
        """Return the graph.

        Raises
        ------
        InstanceError
            If the ops, one after another, are no valid execution.
        """
        written = {t for op in self._ops for t in op.writes}
        tensors = tuple(
            replace(x, initial=x.kind in INITIAL_KINDS or t not in written if initial is None else initial)
            for t, (x, initial) in enumerate(self._tensors)
        )
        accounting: Any = self.accounting
        return Graph(name=self.name, tensors=tensors, ops=tuple(self._ops), accounting=accounting)


def _places(names: Any, known: Mapping[str, int], where: str, what: str) -> tuple[int, ...]:
    """Return the places of names among those that were added."""
    if isinstance(names, str):
        raise InstanceError(f"{where}: found {names!r}, expected a list of names, as in [{names!r}]")
    check_type(names, Iterable, where, f"a list of names of {what}s")
    for name in names:
        if not isinstance(name, str) or name not in known:
            hint = nearest(str(name), known) if known else f"expected a {what} that was added before"
            raise InstanceError(f"{where}: found unknown {what} {shown(name)}, {hint}")
    return tuple(known[name] for name in names)


def _nanoseconds(value: object, where: str) -> int:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except UsageError as error:
            raise InstanceError(f"{where}: {str(error).removeprefix('duration: ')}") from None
    check_integer(value, 1, where)
    assert isinstance(value, int)
    return value
