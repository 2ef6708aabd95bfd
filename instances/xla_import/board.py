"""The tensors and ops of a graph in the making, and what a body of control flow needs while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ...models.work import Work
from ..onnx_import.least_peak import MOST_STATES, least_peak, peak_of_reference

DTYPES = {"bf16": "bf16", "bfloat16": "bf16", "f16": "fp16", "float16": "fp16", "s8": "int8", "int8": "int8"}
"""Element types of XLA and JAX whose arithmetic is not that of fp32."""


def dtype_of(element: str) -> str:
    """Return the data type of arithmetic on elements of a type."""
    return "fp8" if element.startswith(("f8", "float8")) else DTYPES.get(element, "fp32")


class Board:
    """A graph in the making.

    Parameters
    ----------
    reorder
        Whether bodies of control flow need the least peak of all their orders, instead of that of their own
        one.
    """

    def __init__(self, *, reorder: bool) -> None:
        self.reorder = reorder
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self._names: dict[str, int] = {}

    def tensor(self, name: str, nbytes: int, kind: str = "activation", *, initial: bool = False) -> int:
        """Add a tensor, whose name is numbered if it is taken, and return its index."""
        self.tensors.append(Tensor(name="", nbytes=nbytes, kind=kind, initial=initial))
        self.rename(len(self.tensors) - 1, name)
        return len(self.tensors) - 1

    def rename(self, tensor: int, name: str) -> None:
        """Give a tensor another name, numbered if it is taken."""
        seen = self._names[name] = self._names.get(name, -1) + 1
        numbered = f"{name}/{seen}" if seen else name
        self.tensors[tensor] = replace(self.tensors[tensor], name=numbered)

    def keep(self, tensors: Iterable[int]) -> None:
        """Let tensors be there after the last op."""
        for t in tensors:
            self.tensors[t] = replace(self.tensors[t], final=True)

    def op(
        self,
        name: str,
        kind: str,
        reads: Iterable[int],
        writes: Iterable[int],
        *,
        workspace: int = 0,
        multiply_adds: int = 0,
        dtype: str = "fp32",
        work: Sequence[Work] | None = None,
    ) -> None:
        """Add an op; without `work` it is one kernel that moves what it reads and writes."""
        read, written = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        if work is None:
            moved = sum(self.tensors[t].nbytes for t in (*read, *written))
            work = (Work(nbytes=moved, multiply_adds=multiply_adds, dtype=dtype),)
        self.ops.append(
            Op(name=name, kind=kind, reads=read, writes=written, workspace=workspace, work=tuple(work))
        )

    def peak(self, label: str) -> int:
        """Return the least peak of the board as a body, in bytes.

        Raises
        ------
        InstanceError
            If it is not proved within so many executed sets.
        """
        graph = Graph(name=label, tensors=tuple(self.tensors), ops=tuple(self.ops))
        peak = least_peak(graph) if self.reorder else peak_of_reference(graph)
        if peak is None:
            raise InstanceError(
                f"{label}: found {len(self.ops)} ops of which no order is proved to need the least memory "
                f"within {MOST_STATES:,} executed sets, expected fewer; bodies=file takes their own order"
            )
        return peak
