"""Forward and backward pass on one of several devices that share each layer of a transformer, as in Megatron.

The t devices split attention by heads and the feed-forward layers by their 4 h inner numbers. The first
linear layer of each block is *column-parallel* (a device has some of its outputs), the second *row-parallel*
(some of its inputs), so that the devices' outputs are added up once behind each block, and the gradients of
its input once in the backward pass: by *all-reduce*. With sequence parallelism (`sp`) normalization, dropout
and the residual are split by tokens, too: the parts are *gathered* before a block, its output is summed and
*scattered* behind it; the gradients likewise. Of the input of a column-parallel layer only the device's part
is kept, and gathered once more for the gradient of the weight. All devices do the same, so one is enough: ops
that compute of kind ``gpu``, and collective operations of kind ``link`` that take the time of a ring.

What a layer keeps for its backward pass, in bytes, with n = s b h numbers of its input and a heads; *split*
is divided by t if sequences are parallel:

=====================================================================  ======================
inputs of both normalizations, and of both blocks (x, x', y1, y2)      2 n each, split
masks of both dropouts behind the blocks (m1, m2)                      n each, split
queries, keys, values, and what attention puts out (q, k, v, o)        2 n / t each
softmax; mask and output of its dropout                                2, 1, 2 of a s^2 b / t
input and output of the activation function (u, g)                     8 n / t each
=====================================================================  ======================

The sums are those of `lowtide.formulations.estimates.activations`. *Selective* recomputation runs softmax and
its dropout again when the backward pass has come to them; x, y1, q, k and v of the layer are left then.
*Full*: the layer runs again from x before its backward pass. So with ``working=0`` plans in the order of the
graph hold, for K bytes that a layer keeps and R that run again,

- none: L K,
- selective: the larger of L K and (L - 1) K + 4 n (split) + 6 n / t + R,
- full: L K + R, where K is x, which is split, too: the published formula has 2 n with sequence parallelism.

Gradients, gathered inputs, sums not yet scattered or dropped out and the output of the last layer are working
memory, which the formulas leave out. Weights (2 bytes) and buffers of their gradients (2 bytes) are there
throughout; biases and weights of normalization are left out.

Source: Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model
parallelism", 2019, section 3; Korthikanti et al., "Reducing activation recomputation in large transformer
models", MLSys 2023, sections 4 and 5.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.graph_builder import GraphBuilder
from ...models.op import Mode
from ...models.units import SECOND
from .sharded import FLOPS, MEMORY_RATE, RATE

RECOMPUTE = ("none", "selective", "full")
PARAMETERS = {"qkv": 3, "project": 1, "expand": 4, "reduce": 4}
"""Of each linear layer, in h^2."""

Names = dict[str, str]
"""Of the tensors that a layer keeps besides its input, by their letters in the module's table."""


def tensor_parallel(
    *,
    layers: int,
    hidden: int,
    heads: int,
    sequence: int,
    batch: int,
    tensor: int,
    sp: bool,
    recompute: str,
    working: bool,
) -> Graph:
    """Return both passes.

    Parameters
    ----------
    layers, hidden, heads, sequence, batch
        Of the transformer; tokens of a sequence, sequences.
    tensor
        Devices that share each layer.
    sp
        Whether sequences are parallel, too; of one device they are not.
    recompute
        One of `RECOMPUTE`.
    working
        Whether working memory has bytes; if not, only weights, their gradients and what layers keep have.

    Raises
    ------
    InstanceError
        If heads do not divide the hidden size, or devices the heads or, with `sp`, the tokens.
    """
    for what, number, by in (
        ("hidden", hidden, heads),
        ("heads", heads, tensor),
        ("sequence times batch", sequence * batch, tensor if sp else 1),
    ):
        if number % by:
            raise InstanceError(
                f"instance 'gen:tensor-parallel', {what}: found {number}, expected a multiple of {by}"
            )
    net = _DeviceGraph(hidden, heads, sequence, batch, tensor, sp, working)
    xs = [net.net.tensor("x0", net.split, kind="input")]
    kept = []
    for j in range(layers):
        xs.append(net.net.tensor(f"x{j + 1}", net.split * (working or j + 1 < layers)))
        kept.append(net.forward(f"f{j}", j, xs[j], xs[j + 1]))
    gradient = net.work("loss.d", net.split)
    net.op("loss", [xs[-1]], [gradient], nbytes=2 * net.split)
    for j in reversed(range(layers)):
        if recompute == "full":
            kept[j] = net.forward(f"a{j}", j, xs[j], net.work(f"a{j}.out", net.split))
        gradient = net.backward(j, xs[j], kept[j], gradient, again=recompute == "selective")
    return net.net.build()


class _DeviceGraph:
    """The graph of one device in the making.

    Attributes
    ----------
    whole, part, split
        Bytes of n numbers, of a device's part of them, and of what sequence parallelism splits.
    scores
        Numbers of a device's scores of attention, a s^2 b / t.
    """

    def __init__(
        self, hidden: int, heads: int, sequence: int, batch: int, devices: int, sp: bool, working: bool
    ) -> None:
        self.net, self.made = GraphBuilder(), set[str]()
        self.hidden, self.devices, self.working = hidden, devices, working
        self.tokens, self.sequence = sequence * batch, sequence
        self.whole = 2 * self.tokens * hidden
        self.part = self.whole // devices
        self.sp = sp and devices > 1
        self.split = self.part if self.sp else self.whole
        self.scores = heads * sequence**2 * batch // devices

    def work(self, name: str, nbytes: int) -> str:
        """Add a tensor of working memory; the gradient of the first layer's input is all that is put out."""
        kind = "output" if name == "b0.norm1.d" else "activation"
        return self.net.tensor(name, nbytes * self.working, kind=kind)

    def op(self, name: str, reads: list[str], writes: list[str], nbytes: int = 0, flops: int = 0) -> None:
        """Add an op that takes the time of its operations or, if longer, of the bytes that it moves."""
        seconds = max(Fraction(flops, FLOPS), Fraction(nbytes, MEMORY_RATE))
        mode = Mode(duration_ns=max(1, ceil(seconds * SECOND)), processors=("gpu",))
        self.net.op(name, kind=name.partition(".")[2], reads=reads, writes=writes, modes=(mode,))

    def collective(self, name: str, read: str, write: str, rounds: int = 1) -> None:
        """Add a collective operation; in a round each device sends a part on to each other one."""
        time = ceil(Fraction(rounds * (self.devices - 1) * self.part * SECOND, RATE))
        mode = Mode(duration_ns=max(1, time), processors=("link",))
        self.net.op(name, kind=name.rpartition(".")[2], reads=[read], writes=[write], modes=(mode,))

    def gather(self, name: str, part: str) -> str:
        """Return a tensor with the parts of all devices."""
        if not self.sp:
            return part
        found = self.work(f"{name}.whole", self.whole)
        self.collective(f"{name}.gather", part, found)
        return found

    def total(self, name: str, own: str) -> str:
        """Return the sum of a tensor over all devices, or the device's part of it."""
        if self.devices == 1:
            return own
        if self.sp:
            found = self.work(f"{name}.part", self.part)
            self.collective(f"{name}.scatter", own, found)
            return found
        self.collective(f"{name}.sum", own, own, rounds=2)
        return own

    def weight(self, j: int, name: str) -> tuple[str, str, int]:
        """Return a linear layer's weight and the buffer of its gradient, and the operations of a product."""
        count = PARAMETERS[name] * self.hidden**2 // self.devices
        weight, gradient = f"w{j}.{name}", f"g{j}.{name}"
        if weight not in self.made:
            self.made.add(weight)
            self.net.tensor(weight, 2 * count, kind="weight", initial=True, final=True)
            self.net.tensor(gradient, 2 * count, kind="gradient", initial=True, final=True)
        return weight, gradient, 2 * self.tokens * count

    def column(self, p: str, j: int, name: str, y: str, *outputs: str) -> None:
        """Add a column-parallel layer."""
        weight, _, flops = self.weight(j, name)
        self.op(f"{p}.{name}", [self.gather(f"{p}.{name}", y), weight], [*outputs], flops=flops)

    def row(self, p: str, j: int, name: str, y: str) -> str:
        """Add a row-parallel layer and return its output."""
        weight, _, flops = self.weight(j, name)
        out = self.work(f"{p}.{name}.out", self.whole)
        self.op(f"{p}.{name}", [y, weight], [out], flops=flops)
        return self.total(f"{p}.{name}", out)

    def column_back(self, j: int, name: str, above: list[str], y: str) -> str:
        """Add the backward pass of a column-parallel layer and return the gradient of its input."""
        p, (weight, gradient, flops) = f"b{j}.{name}", self.weight(j, name)
        result = self.work(f"{p}.d", self.whole)
        self.op(p, [*above, weight], [result], flops=flops)
        self.op(f"{p}.weight", [*above, self.gather(p, y), gradient], [gradient], flops=flops)
        return self.total(p, result)

    def row_back(self, j: int, name: str, above: str, y: str, nbytes: int) -> str:
        """Add the backward pass of a row-parallel layer and return the gradient of its input."""
        p, (weight, gradient, flops) = f"b{j}.{name}", self.weight(j, name)
        above, result = self.gather(p, above), self.work(f"{p}.d", nbytes)
        self.op(p, [above, weight], [result], flops=flops)
        self.op(f"{p}.weight", [above, y, gradient], [gradient], flops=flops)
        return result

    def attend(self, p: str, kept: Names) -> None:
        """Add softmax and its dropout."""
        names = {"softmax": 2 * self.scores, "mask": self.scores, "dropped": 2 * self.scores}
        kept |= {what: self.net.tensor(f"{p}.{what}", nbytes) for what, nbytes in names.items()}
        self.op(f"{p}.softmax", [kept["q"], kept["k"]], [kept["softmax"]], flops=self.sequence * self.part)
        self.op(f"{p}.dropout", [kept["softmax"]], [kept["mask"], kept["dropped"]], nbytes=5 * self.scores)

    def forward(self, p: str, j: int, x: str, out: str) -> Names:
        """Add the forward pass of layer j and return what it keeps besides its input."""
        whole = {"y1": self.split, "m1": self.split // 2, "x": self.split, "y2": self.split}
        parts = dict.fromkeys("qkvo", self.part) | dict.fromkeys("ug", 4 * self.part)
        sizes = whole | parts | {"m2": self.split // 2}
        kept = {what: self.net.tensor(f"{p}.{what}", nbytes) for what, nbytes in sizes.items()}
        self.op(f"{p}.norm1", [x], [kept["y1"]], nbytes=2 * self.split)
        self.column(p, j, "qkv", kept["y1"], *(kept[what] for what in "qkv"))
        self.attend(p, kept)
        self.op(f"{p}.mix", [kept["dropped"], kept["v"]], [kept["o"]], flops=self.sequence * self.part)
        z = self.row(p, j, "project", kept["o"])
        self.op(f"{p}.drop1", [z, x], [kept["m1"], kept["x"]], nbytes=7 * self.split // 2)
        self.op(f"{p}.norm2", [kept["x"]], [kept["y2"]], nbytes=2 * self.split)
        self.column(p, j, "expand", kept["y2"], kept["u"])
        self.op(f"{p}.gelu", [kept["u"]], [kept["g"]], nbytes=8 * self.part)
        z = self.row(p, j, "reduce", kept["g"])
        self.op(f"{p}.drop2", [z, kept["x"]], [kept["m2"], out], nbytes=7 * self.split // 2)
        return kept

    def backward(self, j: int, x: str, kept: Names, above: str, *, again: bool) -> str:
        """Add the backward pass of layer j, with attention run `again`, and return the gradient of x."""
        p = f"b{j}"

        def gradient(op: str, reads: list[str], nbytes: int = self.split, flops: int = 0) -> str:
            found = self.work(f"{p}.{op}.d", nbytes)
            self.op(f"{p}.{op}", reads, [found], nbytes=3 * nbytes, flops=flops)
            return found

        d = gradient("drop2", [above, kept["m2"]])
        d = self.row_back(j, "reduce", d, kept["g"], 4 * self.part)
        d = gradient("gelu", [d, kept["u"]], 4 * self.part)
        d = self.column_back(j, "expand", [d], kept["y2"])
        above = gradient("norm2", [d, kept["x"], above])
        d = gradient("drop1", [above, kept["m1"]])
        d = self.row_back(j, "project", d, kept["o"], self.part)
        if again:
            self.attend(f"a{j}", kept)
        of_v = gradient("mix.v", [d, kept["dropped"]], self.part, self.sequence * self.part)
        d = gradient("mix", [d, kept["v"]], 2 * self.scores, self.sequence * self.part)
        d = gradient("dropout", [d, kept["mask"]], 2 * self.scores)
        d = gradient("softmax", [d, kept["softmax"]], 2 * self.scores)
        of_q = gradient("scores.q", [d, kept["k"]], self.part, self.sequence * self.part)
        of_k = gradient("scores.k", [d, kept["q"]], self.part, self.sequence * self.part)
        d = self.column_back(j, "qkv", [of_q, of_k, of_v], kept["y1"])
        return gradient("norm1", [d, x, above])
