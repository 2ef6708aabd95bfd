"""Builds forward graphs op by op: what the generators share."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from ...models.graph import Graph, Op, Tensor
from ...models.work import Work
from ..options import Parameter
from ..transforms.roofline import duration_ns

EQUAL_BYTES = 10
"""The size of every tensor of a family with ``sizes=equal``."""

SEED = Parameter(0, "seed of everything random", least=0)
SIZES = {
    "sizes": Parameter("random", "sizes of the tensors", choices=("random", "equal")),
    "largest": Parameter(20, "random sizes are 1 to this, in bytes", least=1),
}
DATA = Parameter("op", "one tensor for each op, or one for each edge", choices=("op", "edge"))
"""The parameters of all whose sizes are drawn, `from_successors`."""


class Builder:
    """A forward graph in the making; tensors and ops are appended in reference order."""

    dtype = "fp32"
    """Data type of the arithmetic of layers."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []

    def tensor(self, name: str, nbytes: int, kind: str = "activation") -> int:
        """Add a tensor and return its index; inputs and weights are initial, weights final too."""
        self.tensors.append(
            Tensor(
                name=name,
                nbytes=nbytes,
                kind=kind,
                initial=kind in ("input", "weight"),
                final=kind == "weight",
            )
        )
        return len(self.tensors) - 1

    def op(
        self,
        name: str,
        kind: str,
        reads: Iterable[int],
        writes: Iterable[int],
        time: int = 1,
        work: tuple[Work, ...] = (),
    ) -> None:
        """Add an op; an operand given twice counts once; `time` is in nanoseconds."""
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                duration_ns=time,
                reads=tuple(dict.fromkeys(reads)),
                writes=tuple(writes),
                work=work,
            )
        )

    def layer(
        self,
        name: str,
        kind: str,
        reads: Iterable[int],
        nbytes: int,
        *,
        weight: int = 0,
        multiply_adds: int = 0,
    ) -> int:
        """Add an op of a network with one new tensor, and a weight that it reads if `weight` > 0.

        Its duration is that of the roofline model of the ONNX importer.

        Parameters
        ----------
        nbytes, weight
            Bytes of the new tensor and of the weight.
        multiply_adds
            The arithmetic of the op.

        Returns
        -------
        int
            The index of the new tensor.
        """
        operands = list(dict.fromkeys(reads))
        if weight:
            operands.append(self.tensor(f"{name}.weight", weight, "weight"))
        out = self.tensor(name, nbytes)
        traffic = sum(self.tensors[t].nbytes for t in (*operands, out))
        work = Work(nbytes=traffic, multiply_adds=multiply_adds, dtype=self.dtype)
        self.op(name, kind, operands, (out,), duration_ns(traffic, multiply_adds), (work,))
        return out

    def graph(self, *, keep: bool = True) -> Graph:
        """Return the graph; what no op reads is an output, kept to the end if `keep`."""
        read = {t for op in self.ops for t in op.reads}
        tensors = [
            tensor
            if t in read or tensor.initial
            else Tensor(name=tensor.name, nbytes=tensor.nbytes, kind="output", final=keep)
            for t, tensor in enumerate(self.tensors)
        ]
        return Graph(name="", tensors=tuple(tensors), ops=tuple(self.ops))


def draw_bytes(rng: random.Random, sizes: str, largest: int) -> int:
    """Return the size of a tensor: uniform on ``1..largest``, or `EQUAL_BYTES` for ``equal``."""
    return EQUAL_BYTES if sizes == "equal" else rng.randint(1, largest)


def from_successors(
    successors: Sequence[Sequence[int]],
    rng: random.Random,
    *,
    data: str = "op",
    sizes: str = "random",
    largest: int = 20,
    keep: bool = True,
) -> Graph:
    """Return the graph of a DAG whose arcs all go from smaller to larger indices.

    Parameters
    ----------
    successors
        For each op those that read what it writes.
    rng
        Draws the sizes.
    data
        ``op``: each op writes one tensor that all its successors read. ``edge``: one tensor for each
        arc, and one for each op without successors.
    sizes, largest
        As for `draw_bytes`.
    keep
        Whether outputs stay to the end.
    """
    builder = Builder()
    reads: list[list[int]] = [[] for _ in successors]
    for i, readers in enumerate(successors):
        groups = [[j] for j in readers] if data == "edge" and readers else [list(readers)]
        writes = []
        for group in groups:
            label = f"t{i}" if len(groups) == 1 else f"t{i}_{group[0]}"
            writes.append(builder.tensor(label, draw_bytes(rng, sizes, largest)))
            for j in group:
                reads[j].append(writes[-1])
        builder.op(f"op{i}", "", reads[i], writes)
    return builder.graph(keep=keep)
