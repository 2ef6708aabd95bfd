"""One rank of a distributed step in the making: its weights, the ops that compute, and the collective ones.

Numbers have 2 bytes (bf16). The optimizer has 12 bytes for each parameter: a copy of 4, and 4 for each of
AdamW's two moments. Collective ops of n bytes over k ranks take the time of a ring: a reduce-scatter and an
all-gather send n (k - 1) / k bytes, an all-reduce twice as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil

from ....models.graph import Graph, Mode, Op, Tensor
from ....models.work import Rates, Work
from ...machines import load_machine
from .options import StepOptions

NUMBER, ADAMW = 2, 12
"""Bytes of a parameter in bf16, and of its copy and moments in the optimizer."""

DEVICE, DTYPE = "a100-40g", "bf16"
"""Machine whose rates give the durations, and the data type of all arithmetic."""

COMPUTE, LINK = "gpu", "link"
"""Kinds of processor of a rank that communicates: what computes, and what exchanges."""


@dataclass(slots=True, eq=False)
class Variable:
    """A value of a forward pass.

    Attributes
    ----------
    name, tensor, nbytes
        What its gradient is named after; its index and size.
    needs
        Whether it has a gradient.
    parts
        Tensors whose sum is its gradient, so far.
    source, group
        With sequence and context parallelism: what it was gathered from, and is again in the backward pass;
        how many ranks gather, and at which rate.
    """

    name: str
    tensor: int
    nbytes: int
    needs: bool
    parts: list[int]
    source: Variable | None = None
    group: tuple[int, int] = (1, 1)


@dataclass(slots=True, eq=False)
class Weight:
    """A rank's part of a weight.

    Attributes
    ----------
    name, unit, count
        The unit whose weights are exchanged together; numbers of this rank before any of ZeRO's shards.
    degree
        Ranks that have a copy, and share gradient, optimizer or the weight itself.
    tensor, gradient
        Indices; None while there is no gradient.
    is_begun
        Whether the gradient has content.
    """

    name: str
    unit: str
    count: int
    degree: int
    tensor: int
    gradient: int | None = None
    is_begun: bool = False


@cache
def _rates() -> Rates:
    rates = load_machine(DEVICE).compute
    assert rates is not None
    return rates


@lru_cache(maxsize=65536)
def _duration_ns(work: Work) -> int:
    return _rates().duration_ns((work,))


@lru_cache(maxsize=65536)
def _modes(time: int, kind: str) -> tuple[Mode, ...]:
    return (Mode(duration_ns=time, processors=(kind,)),)


class Rank:
    """The graph of one rank: tensors, ops, and weights by name and by unit."""

    def __init__(self, options: StepOptions) -> None:
        self.options = options
        self.tensors: list[Tensor] = []
        self.ops: list[Op | None] = []
        self.weights: dict[str, Weight] = {}
        self.units: dict[str, list[Weight]] = {}

    def tensor(
        self, name: str, nbytes: int, kind: str = "activation", *, initial: bool = False, final: bool = False
    ) -> int:
        """Add a tensor and return its index."""
        self.tensors.append(Tensor(name=name, nbytes=nbytes, kind=kind, initial=initial, final=final))
        return len(self.tensors) - 1

    def variable(self, name: str, nbytes: int, kind: str = "activation") -> Variable:
        """Add a value of a forward pass; inputs and states exist before, and have no gradient."""
        made, final = kind == "activation", kind == "state"
        index = self.tensor(name, nbytes, kind, initial=not made, final=final)
        return Variable(name, index, nbytes, made, [])

    def weight(self, name: str, unit: str, count: int, degree: int) -> Weight:
        """Return a weight, which is made once."""
        if name not in self.weights:
            shard = -(-count // degree) if self.options.zero == 3 else count
            index = self.tensor(f"{name}.weight", NUMBER * shard, "weight", initial=True, final=True)
            self.weights[name] = Weight(name, unit, count, degree, index)
            self.units.setdefault(unit, []).append(self.weights[name])
        return self.weights[name]

    def moved(self, tensors: Iterable[int]) -> int:
        """Return the bytes of some tensors, each once."""
        return sum(self.tensors[t].nbytes for t in set(tensors))

    def compute(
        self, name: str, kind: str, reads: Sequence[int], writes: Sequence[int], flops: int, nbytes: int
    ) -> None:
        """Add an op that computes; `flops` and the bytes that it moves give its duration."""
        work = Work(nbytes=nbytes, multiply_adds=flops // 2, dtype=DTYPE)
        self.ops.append(self._op(name, kind, reads, writes, _duration_ns(work), COMPUTE, (work,)))

    def exchange(
        self, name: str, kind: str, reads: Sequence[int], writes: Sequence[int], nbytes: int, rate: int
    ) -> None:
        """Add a collective op in which a rank sends so many bytes, at a rate in GB/s."""
        self.ops.append(self.exchanged(name, kind, reads, writes, nbytes, rate))

    def exchanged(
        self, name: str, kind: str, reads: Sequence[int], writes: Sequence[int], nbytes: int, rate: int
    ) -> Op:
        """Return what `exchange` adds."""
        return self._op(name, kind, reads, writes, max(1, ceil(nbytes / rate)), LINK, ())

    def _op(
        self,
        name: str,
        kind: str,
        reads: Sequence[int],
        writes: Sequence[int],
        time: int,
        where: str,
        work: tuple[Work, ...],
    ) -> Op:
        """Return an op; an operand given twice counts once."""
        return Op(
            name=name,
            kind=kind,
            duration_ns=time,
            reads=tuple(dict.fromkeys(reads)),
            writes=tuple(dict.fromkeys(writes)),
            modes=_modes(time, where) if self.options.is_distributed else (),
            work=work,
        )

    def all_reduce(self, name: str, tensors: Sequence[int], ranks: int, rate: int) -> None:
        """Add the sum over some ranks, in place: a ring's two rounds."""
        nbytes = 2 * self.moved(tensors) * (ranks - 1) // ranks
        self.exchange(name, "all-reduce", tensors, tensors, nbytes, rate)

    @property
    def tensor_group(self) -> tuple[int, int]:
        """How many ranks share a layer, and the GB/s at which they exchange."""
        return self.options.tp, self.options.nvlink

    @property
    def context_group(self) -> tuple[int, int]:
        """How many ranks share a sequence, and the GB/s at which they exchange."""
        return self.options.cp, self.options.network

    def gather(self, x: Variable, name: str, group: tuple[int, int]) -> Variable:
        """Return a value of all ranks of a group, of which each has a part of its tokens."""
        ranks, rate = group
        y = self.variable(name, x.nbytes * ranks)
        y.source, y.group = x, group
        self.exchange(name, "all-gather", [x.tensor], [y.tensor], x.nbytes * (ranks - 1), rate)
        return y

    def scatter(self, name: str, whole: int, part: int, group: tuple[int, int]) -> None:
        """Add the sum over the ranks of a group, of which each keeps a part of the tokens."""
        ranks, rate = group
        self.exchange(name, "reduce-scatter", [whole], [part], self.tensors[part].nbytes * (ranks - 1), rate)

    def tie(self, name: str) -> None:
        """Add the sum of a weight's gradient over the first and the last stage, which both have the weight.

        With ZeRO it is that of a rank's shard.
        """
        w, options = self.weights[name], self.options
        assert w.gradient is not None
        nbytes = options.gradient_bytes * (-(-w.count // w.degree) if options.zero else w.count)
        self.exchange(f"{name}.tie", "all-reduce", [w.gradient], [w.gradient], nbytes, options.network)

    def update(self) -> None:
        """Add AdamW, an op for each weight; with ZeRO 1 and 2 ranks gather what the others updated."""
        zero, options = self.options.zero, self.options
        for w in self.weights.values():
            shard = -(-w.count // w.degree) if zero else w.count
            state = self.tensor(f"{w.name}.adamw", ADAMW * shard, "state", initial=True, final=True)
            assert w.gradient is not None
            nbytes = (options.gradient_bytes + 2 * ADAMW + NUMBER) * shard
            self.compute(f"{w.name}.adamw", "adamw", [w.gradient, state], [state, w.tensor], 0, nbytes)
        for unit, weights in self.units.items() if zero in (1, 2) else ():
            for degree in sorted({w.degree for w in weights} - {1}):
                mine = [w.tensor for w in weights if w.degree == degree]
                nbytes = self.moved(mine) * (degree - 1) // degree
                self.exchange(f"{unit}.gather.{degree}", "all-gather", mine, mine, nbytes, options.network)

    def graph(self) -> Graph:
        """Return the graph."""
        ops = tuple(op for op in self.ops if op is not None)
        given = sum(not op.work for op in ops)
        durations = {"device": DEVICE, "dtypes": [DTYPE], "given": given}
        return Graph(name="", tensors=tuple(self.tensors), ops=ops, provenance={"durations": durations})
