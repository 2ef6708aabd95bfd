"""One rank of a distributed step in the making: its weights, the ops that compute, and the collective ones.

Every op of a forward pass is recorded; the backward pass takes the records in reverse (reverse-mode
differentiation). Gradients of inputs (``.dx`` of products with weights, ``.back`` of other ops) and of
weights (``.dw``) are ops of their own, and a value that several ops read gets the sum of its gradients
(``.sum``). Numbers have 2 bytes (bf16). The optimizer has 12 bytes for each parameter: a copy of 4, and 4 for
each of AdamW's two moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from math import ceil

from ....models.graph import Graph, Mode, Op, Tensor
from ....models.machine import Rates
from ....models.op import Work
from ...machines import load_machine

NUMBER, ADAMW = 2, 12
"""Bytes of a parameter in bf16, and of its copy and moments in the optimizer."""

DEVICE, DTYPE = "a100-40g", "bf16"
"""Machine whose rates give the durations, and the data type of all arithmetic."""

TOKEN, STATISTIC = 8, 4
"""Bytes of a token's number, and of a number in fp32 such as the logarithm of a sum of exponentials."""

FLASH_BACK = 5
"""Products of flash attention's backward pass, which makes the scores again; its forward pass has 2."""

COMPUTE, LINK = "gpu", "link"
"""Kinds of processor of a rank that communicates: what computes, and what exchanges."""


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """What `gen:llm` is asked for; its options, by the same names."""

    model: str
    step: str
    layers: int
    batch: int
    seq: int
    micro: int
    attention: str
    experts: str
    tp: int
    sp: bool
    pp: int
    stage: int
    ep: int
    dp: int
    zero: int
    gradients: str
    nvlink: int
    network: int
    overlap: bool

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass."""
        return self.step == "train"

    @property
    def is_distributed(self) -> bool:
        """Whether ops state their kind of processor."""
        return self.overlap and max(self.tp, self.pp, self.dp) > 1

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a parameter's gradient."""
        return {"bf16": 2, "fp32": 4}[self.gradients]


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
    source
        With sequence parallelism: what it was gathered from, and is again in the backward pass.
    """

    name: str
    tensor: int
    nbytes: int
    needs: bool
    parts: list[int]
    source: Variable | None = None


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


class Pass:
    """A micro-batch on its way through a rank, forward and, if it trains, back.

    Parameters
    ----------
    rank
        Where its ops go.
    mark
        What follows the names of its ops, such as ``@2``.
    is_last
        Whether gradients that were collected are summed over ranks now.
    """

    def __init__(self, rank: Rank, mark: str, is_last: bool) -> None:
        self.rank, self.options, self.mark, self.is_last = rank, rank.options, mark, is_last
        self.tape: list[Callable[[], None]] = []
        self.name = self.label = ""
        self.whole: dict[str, int] = {}
        self.fresh: dict[str, int] = {}
        self.place = 0

    # Units, whose weights are gathered and whose gradients are summed together.

    @contextmanager
    def unit(self, name: str) -> Iterator[None]:
        """Begin a unit; its name precedes those of its ops and weights."""
        self.name = name
        self.record(partial(self._end, name))
        self._open(f"{name}.gather")
        yield
        self._close()
        self.record(partial(self._open, f"{name}.regather"))

    def _open(self, label: str) -> None:
        """Leave room for the gathering of weights, which ops of the unit will name."""
        self.place, self.label, self.whole = len(self.rank.ops), label, {}
        if self.options.zero == 3:
            self.rank.ops.append(None)

    def _close(self) -> None:
        """Gather the weights that ops of the unit have named; with experts in another group of ranks."""
        rank = self.rank
        if not self.whole:
            return
        weights = [rank.weights[key] for key in self.whole]
        nbytes = sum(NUMBER * w.count * (w.degree - 1) // w.degree for w in weights)
        shards, whole = [w.tensor for w in weights], [*self.whole.values()]
        rank.ops[self.place] = rank.exchanged(
            self.label + self.mark, "all-gather", shards, whole, nbytes, self.options.network
        )

    def _end(self, name: str) -> None:
        """End a unit's backward pass: sum its gradients over the ranks that have the same weights."""
        self._close()
        rank, rate = self.rank, self.options.network
        for degree in sorted({w.degree for w in rank.units.get(name, ())} - {1}):
            weights = [w for w in rank.units[name] if w.degree == degree]
            label = f"{name}.reduce.{degree}{self.mark}"
            if self.options.zero >= 2:
                own, shards, sums = [self.fresh[w.name] for w in weights], list[int](), list[int]()
                for w in weights:
                    shard, before = self._collect(w)
                    shards.append(shard)
                    sums += before
                nbytes = rank.moved(own) * (degree - 1) // degree
                rank.exchange(label, "reduce-scatter", own + sums, shards, nbytes, rate)
            elif self.is_last:
                own = [w.gradient for w in weights if w.gradient is not None]
                if self.options.zero:
                    nbytes = rank.moved(own) * (degree - 1) // degree
                    rank.exchange(label, "reduce-scatter", own, own, nbytes, rate)
                else:
                    rank.all_reduce(label, own, degree, rate)

    # Weights and their gradients.

    def weight(self, name: str, count: int, *, degree: int | None = None) -> Weight:
        """Return a weight of the unit; `degree` ranks have a copy, by default all that differ in data."""
        return self.rank.weight(f"{self.name}.{name}", self.name, count, degree or self.options.dp)

    def use(self, w: Weight) -> int:
        """Return the tensor that ops read as the weight: gathered from its shards, if it has such."""
        if self.options.zero < 3 or w.degree == 1:
            return w.tensor
        if w.name not in self.whole:
            name = f"{w.name}.{self.label}{self.mark}"
            self.whole[w.name] = self.rank.tensor(name, NUMBER * w.count)
        return self.whole[w.name]

    def _collect(self, w: Weight) -> tuple[int, list[int]]:
        """Return the buffer of a gradient, and it again if something is there to add to."""
        if w.gradient is None:
            shard = -(-w.count // w.degree) if self.options.zero >= 2 else w.count
            w.gradient = self.rank.tensor(f"{w.name}.grad", self.options.gradient_bytes * shard, "gradient")
        before = [w.gradient] if w.is_begun else []
        w.is_begun = True
        return w.gradient, before

    def _add_weight_gradient(
        self, op: str, kind: str, w: Weight, reads: Sequence[int], flops: int, nbytes: int = 0
    ) -> None:
        if self.options.zero >= 2 and w.degree > 1:
            before = [self.fresh[w.name]] if w.name in self.fresh else []
            size = self.options.gradient_bytes * w.count
            if not before:
                self.fresh[w.name] = self.rank.tensor(f"{w.name}.grad.full{self.mark}", size, "gradient")
            mine = self.fresh[w.name]
        else:
            mine, before = self._collect(w)
        self.compute(op, kind, [*reads, *before], [mine], flops, nbytes)

    # Ops.

    def compute(
        self,
        name: str,
        kind: str,
        reads: Sequence[int],
        writes: Sequence[int],
        flops: int = 0,
        nbytes: int = 0,
    ) -> None:
        """Add an op; it moves all that it reads and writes, unless `nbytes` says otherwise."""
        rank = self.rank
        rank.compute(name + self.mark, kind, reads, writes, flops, nbytes or rank.moved([*reads, *writes]))

    def new(self, name: str, nbytes: int, kind: str = "activation") -> Variable:
        """Add a value of this micro-batch."""
        return self.rank.variable(f"{self.name}.{name}{self.mark}", nbytes, kind)

    def keep(self, x: Variable, kind: str, *, final: bool = True) -> None:
        """Give a value another kind, and let it stay to the end; a loss leaves at once."""
        tensors = self.rank.tensors
        tensors[x.tensor] = replace(tensors[x.tensor], kind=kind, final=final)

    def gradient(self, x: Variable) -> int | None:
        """Return the gradient of a value; the sum, if there are several parts."""
        if len(x.parts) > 1:
            name = f"{x.name}.sum"
            total = self.rank.tensor(name, x.nbytes, "gradient")
            self.rank.compute(name, "Sum", x.parts, [total], 0, self.rank.moved([*x.parts, total]))
            x.parts = [total]
        return x.parts[0] if x.parts else None

    def gradients(self, xs: Iterable[Variable]) -> list[int]:
        """Return the gradients of those values that have any."""
        return [d for x in xs if (d := self.gradient(x)) is not None]

    def _part(self, x: Variable, name: str) -> int:
        """Add a part of the gradient of a value."""
        x.parts.append(self.rank.tensor(f"{name}{self.mark}", x.nbytes, "gradient"))
        return x.parts[-1]

    def op(
        self,
        name: str,
        kind: str,
        xs: Sequence[Variable],
        outputs: Mapping[str, int],
        *,
        saves: Sequence[Variable] = (),
        keeps: Sequence[str] = (),
        aside: Sequence[str] = (),
        weight: Weight | None = None,
        flops: int = 0,
        back: int = 0,
        nbytes: int = 0,
        sends: int = 0,
    ) -> list[Variable]:
        """Add an op and record it, and return what it writes.

        Parameters
        ----------
        xs
            What it reads.
        outputs
            Names and bytes of what it writes.
        saves, keeps
            What its backward op reads besides gradients: some of what is read, and names of what is written.
        aside
            Names of what is written and has no gradient.
        weight
            It reads this, too, and so does its backward op; its gradient is an op of its own.
        flops, back
            Operations of it and of its backward op.
        nbytes
            Bytes that it moves; 0: all that it reads and writes.
        sends
            Bytes that a rank sends over the network; 0: it computes.
        """
        full = f"{self.name}.{name}"
        ys = {key: self.new(key, size) for key, size in outputs.items()}
        for key in aside:
            ys[key].needs = False
        reads = [x.tensor for x in xs] + ([self.use(weight)] if weight else [])
        self._add(full, kind, reads, [y.tensor for y in ys.values()], (flops, nbytes, sends))
        saved = [*saves, *(ys[key] for key in keeps)]

        def reverse() -> None:
            above = self.gradients(y for y in ys.values() if y.needs)
            read = [*above, *(x.tensor for x in saved)]
            if wanted := [x for x in xs if x.needs]:
                own = [self.use(weight)] if weight else []
                writes = [self._part(x, f"{full}.back.d{k}") for k, x in enumerate(wanted)]
                self._add(f"{full}.back", f"{kind}Backward", [*read, *own], writes, (back, 0, sends))
            if weight:
                self._add_weight_gradient(f"{full}.dw", f"{kind}Weight", weight, read, 0)

        if any(y.needs for y in ys.values()):
            self.record(reverse)
        return [*ys.values()]

    def _add(
        self,
        name: str,
        kind: str,
        reads: Sequence[int],
        writes: Sequence[int],
        work: tuple[int, int, int],
    ) -> None:
        flops, nbytes, sends = work
        if sends:
            kind = kind.removesuffix("Backward")
            self.rank.exchange(name + self.mark, kind, reads, writes, sends, self.options.network)
        else:
            self.compute(name, kind, reads, writes, flops, nbytes)

    def linear(
        self,
        x: Variable,
        rows: int,
        inputs: int,
        outputs: Mapping[str, int],
        *,
        bias: bool = False,
        copies: int = 1,
        degree: int | None = None,
        weights: Sequence[Weight] = (),
    ) -> list[Variable]:
        """Add products of a value with weights, and return them.

        Parameters
        ----------
        rows, inputs, outputs
            Rows of the value and their numbers; names and numbers of each product.
        bias
            Whether something is added to each product.
        copies
            Matrices of each weight, between which the rows are split.
        degree
            As of `weight`.
        weights
            Those of other units, instead of new ones.
        """
        given = weights or [
            self.weight(key, copies * (inputs + bias) * width, degree=degree)
            for key, width in outputs.items()
        ]
        used = min(copies, rows)
        ys = [self.new(key, NUMBER * rows * width) for key, width in outputs.items()]
        flops = [2 * rows * inputs * width for width in outputs.values()]
        for key, w, y, work in zip(outputs, given, ys, flops, strict=True):
            nbytes = x.nbytes + y.nbytes + NUMBER * w.count * used // copies
            self.compute(f"{self.name}.{key}", "Linear", [x.tensor, self.use(w)], [y.tensor], work, nbytes)
        full = [f"{self.name}.{key}" for key in outputs]
        group = f"{self.name}.{''.join(outputs)}.dx"

        def reverse() -> None:
            above = [d for y in ys if (d := self.gradient(y)) is not None]
            if x.needs:
                reads = [*above, *map(self.use, given)]
                self.compute(group, "LinearBackward", reads, [self._part(x, group)], sum(flops))
            before = self.again(x)
            for key, w, d, work in zip(full, given, above, flops, strict=True):
                self._add_weight_gradient(f"{key}.dw", "LinearWeight", w, [d, before], work)

        self.record(reverse)
        return ys

    def attend(
        self,
        queries: Sequence[Variable],
        keys: Sequence[Variable],
        values: Sequence[Variable],
        outputs: Mapping[str, int],
        *,
        scores: int,
        rows: int,
        flops: int,
        weight: Weight | None = None,
    ) -> list[Variable]:
        """Add attention and return the outputs: eager if there are bytes of `scores`, otherwise flash.

        Parameters
        ----------
        rows, flops
            Rows of all heads, of each of which flash attention keeps a number; operations of both products.
        """
        if scores:
            a, b = [*queries, *keys], flops // 2
            (s,) = self.op("scores", "MatMul", a, {"scores": scores}, saves=a, flops=b, back=flops)
            (p,) = self.op("softmax", "Softmax", [s], {"softmax": scores}, keeps=["softmax"], weight=weight)
            a = [p, *values]
            return self.op("mix", "MatMul", a, outputs, saves=a, flops=b, back=flops)
        a = [*queries, *keys, *values]
        sums = {"lse": STATISTIC * rows} if self.options.trains else {}
        return self.op(
            "attention",
            "FlashAttention",
            a,
            {**outputs, **sums},
            saves=a,
            keeps=[*outputs, *sums],
            aside=[*sums],
            weight=weight,
            flops=flops,
            back=flops * FLASH_BACK // 2,
        )[: len(outputs)]

    def add(self, name: str, a: Variable, b: Variable) -> Variable:
        """Add two values; each has the gradient of the sum."""
        y = self.new(name, a.nbytes)
        self.compute(f"{self.name}.{name}", "Add", [a.tensor, b.tensor], [y.tensor])

        def reverse() -> None:
            d = self.gradients([y])
            a.parts += d
            b.parts += d

        self.record(reverse)
        return y

    def record(self, reverse: Callable[[], None]) -> None:
        """Record what the backward pass does about an op."""
        if self.options.trains:
            self.tape.append(reverse)

    def back(self) -> None:
        """Add the backward pass."""
        while self.tape:
            self.tape.pop()()

    # Tensor parallelism: the f and g of Megatron.

    def enter(self, x: Variable) -> Variable:
        """Return a value before layers that ranks share by columns: its gradient is summed over them."""
        tp, rank = self.options.tp, self.rank
        if tp == 1:
            return x
        y = Variable(f"{x.name}.shared", x.tensor, x.nbytes, True, [])
        if self.options.sp:
            y = self._gathered(x, f"{x.name}.gather")
            y.source = x

        def reverse() -> None:
            (d,) = self.gradients([y])
            name = f"{x.name}.reduce.back"
            if self.options.sp:
                self._scattered(name, d, self._part(x, name))
            else:
                rank.all_reduce(name, [d], tp, self.options.nvlink)
                x.parts.append(d)

        self.record(reverse)
        return y

    def leave(self, x: Variable) -> Variable:
        """Return the sum over the ranks that share a layer by rows."""
        tp, rank = self.options.tp, self.rank
        if tp == 1:
            return x
        name = f"{x.name}.reduce"
        if not self.options.sp:
            rank.all_reduce(name, [x.tensor], tp, self.options.nvlink)
            return x
        y = rank.variable(f"{x.name}.part", x.nbytes // tp)
        self._scattered(name, x.tensor, y.tensor)

        def reverse() -> None:
            (d,) = self.gradients([y])
            part = Variable(name, d, y.nbytes, True, [])
            x.parts.append(self._gathered(part, f"{name}.back").tensor)

        self.record(reverse)
        return y

    def again(self, x: Variable) -> int:
        """Return a value in the backward pass: gathered once more, if it was."""
        if x.source is None:
            return x.tensor
        return self._gathered(x.source, f"{x.name}.again").tensor

    def _gathered(self, x: Variable, name: str) -> Variable:
        tp = self.options.tp
        y = self.rank.variable(name, x.nbytes * tp)
        nbytes = x.nbytes * (tp - 1)
        self.rank.exchange(name, "all-gather", [x.tensor], [y.tensor], nbytes, self.options.nvlink)
        return y

    def _scattered(self, name: str, whole: int, part: int) -> None:
        nbytes = self.rank.tensors[part].nbytes * (self.options.tp - 1)
        self.rank.exchange(name, "reduce-scatter", [whole], [part], nbytes, self.options.nvlink)
