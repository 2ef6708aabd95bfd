"""A micro-batch on its way through a rank: its ops forward, and what each adds to the backward pass.

Every op of a forward pass is recorded; the backward pass takes the records in reverse (reverse-mode
differentiation). Gradients of inputs (``.dx`` of products with weights, ``.back`` of other ops) and of
weights (``.dw``) are ops of their own, and a value that several ops read gets the sum of its gradients
(``.sum``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from .rank import NUMBER, Rank, Variable, Weight
from .units import Units

TOKEN, STATISTIC = 8, 4
"""Bytes of a token's number, and of a number in fp32 such as the logarithm of a sum of exponentials."""


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
        self.rank, self.options, self.mark = rank, rank.options, mark
        self.units = Units(rank, mark, is_last)
        self.tape: list[Callable[[], None]] = []
        self.name = ""

    @contextmanager
    def unit(self, name: str) -> Iterator[None]:
        """Begin a unit, whose weights are gathered and whose gradients are summed together.

        Its name precedes those of its ops and weights.
        """
        units, self.name = self.units, name
        self.record(partial(self._end, name))
        units.open(f"{name}.gather")
        yield
        units.close()
        self.record(partial(units.open, f"{name}.regather"))

    def _end(self, name: str) -> None:
        """End a unit's backward pass."""
        self.units.close()
        self.units.reduce(name)

    def weight(self, name: str, count: int, *, degree: int | None = None) -> Weight:
        """Return a weight of the unit; `degree` ranks have a copy, by default all that differ in data."""
        return self.rank.weight(f"{self.name}.{name}", self.name, count, degree or self.options.replicas)

    def _add_weight_gradient(self, op: str, kind: str, w: Weight, reads: Sequence[int], flops: int) -> None:
        """Add the op that makes a weight's gradient, or adds to it."""
        mine, before = self.units.gradient(w)
        self.compute(op, kind, [*reads, *before], [mine], flops)

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

    def again(self, x: Variable) -> int:
        """Return the tensor of a value in the backward pass; one that was gathered is gathered again."""
        if x.source is None:
            return x.tensor
        return self.rank.gather(x.source, f"{x.name}.again", x.group).tensor

    def part(self, x: Variable, name: str) -> int:
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
        reads = [x.tensor for x in xs] + ([self.units.use(weight)] if weight else [])
        self._add(full, kind, reads, [y.tensor for y in ys.values()], (flops, nbytes, sends))
        saved = [*saves, *(ys[key] for key in keeps)]

        def reverse() -> None:
            above = self.gradients(y for y in ys.values() if y.needs)
            read = [*above, *map(self.again, saved)]
            if wanted := [x for x in xs if x.needs]:
                own = [self.units.use(weight)] if weight else []
                writes = [self.part(x, f"{full}.back.d{k}") for k, x in enumerate(wanted)]
                self._add(f"{full}.back", f"{kind}Backward", [*read, *own], writes, (back, 0, sends))
            if weight:
                self._add_weight_gradient(f"{full}.dw", f"{kind}Weight", weight, read, 0)

        if any(y.needs for y in ys.values()):
            self.record(reverse)
        return [*ys.values()]

    def _add(
        self, name: str, kind: str, reads: Sequence[int], writes: Sequence[int], work: tuple[int, int, int]
    ) -> None:
        """Add an op that computes or sends; `work` is its operations, bytes moved and bytes sent."""
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
            reads = [x.tensor, self.units.use(w)]
            self.compute(f"{self.name}.{key}", "Linear", reads, [y.tensor], work, nbytes)
        full = [f"{self.name}.{key}" for key in outputs]
        group = f"{self.name}.{''.join(outputs)}.dx"

        def reverse() -> None:
            above = self.gradients(ys)
            if x.needs:
                reads = [*above, *map(self.units.use, given)]
                self.compute(group, "LinearBackward", reads, [self.part(x, group)], sum(flops))
            before = self.again(x)
            for key, w, d, work in zip(full, given, above, flops, strict=True):
                self._add_weight_gradient(f"{key}.dw", "LinearWeight", w, [d, before], work)

        self.record(reverse)
        return ys

    def look_up(self, name: str, x: Variable, table: Weight, nbytes: int) -> Variable:
        """Add rows of a table, all that is read of it, and return them."""
        moved = x.nbytes + 2 * nbytes
        (y,) = self.op(name, "Gather", [x], {name: nbytes}, saves=[x], weight=table, nbytes=moved)
        return y

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
