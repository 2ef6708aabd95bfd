"""The layers of image models: transformers that remove noise, conditioned by adaptive normalization."""

from __future__ import annotations

from collections.abc import Sequence

from .attention import attend
from .micro_batch import STATISTIC, TOKEN, Pass
from .networks import ImageModel
from .rank import NUMBER, Variable
from .tensor_parallel import enter, leave


class ImagePass:
    """An image model on its way through a rank, for one micro-batch.

    Attributes
    ----------
    tokens
        Of each stream of one image: image, and text if there is one.
    """

    def __init__(self, model: ImageModel, run: Pass) -> None:
        self.model, self.run, self.options = model, run, run.options
        self.tokens = {"image": self.options.seq} | ({"text": model.text} if model.text else {})
        self.heads = model.heads // self.options.tp
        self.streams: dict[str, Variable] = {}

    def rows(self, stream: str) -> int:
        """Return the rows of a stream, or of both."""
        tokens = sum(self.tokens.values()) if stream == "both" else self.tokens[stream]
        return self.options.batch * tokens

    def project(self, x: Variable, rows: int, inputs: int, name: str, width: int) -> Variable:
        """Return a product with a weight and a bias."""
        (y,) = self.run.linear(x, rows, inputs, {name: width}, bias=True)
        return y

    def embed(self) -> Variable:
        """Return the condition, behind its activation, and begin the streams."""
        model, run, batch = self.model, self.run, self.options.batch
        with run.unit("embed"):
            numbers = {"image": model.patch, "text": model.context}
            for stream in self.tokens:
                rows, inputs = self.rows(stream), numbers[stream]
                x = run.new(f"{stream}.input", NUMBER * rows * inputs, "input")
                self.streams[stream] = self.project(x, rows, inputs, stream, model.width)
            parts = []
            for name, inputs in model.conditions:
                x = run.new(f"{name}.input", NUMBER * batch * inputs, "input")
                x = self.project(x, batch, inputs, f"{name}.in", model.width)
                x = self.activate(f"{name}.silu", "Silu", x)
                parts.append(self.project(x, batch, model.width, f"{name}.out", model.width))
            if model.classes:
                x = run.new("class.input", TOKEN * batch, "input")
                table, size = run.weight("classes", model.classes * model.width), NUMBER * batch * model.width
                parts.append(run.look_up("class", x, table, size))
            total = parts[0]
            for k, part in enumerate(parts[1:]):
                total = run.add(f"condition{k}", total, part)
            return self.activate("condition", "Silu", total)

    def activate(self, name: str, kind: str, x: Variable) -> Variable:
        """Return an activation function of a value."""
        (y,) = self.run.op(name, kind, [x], {name: x.nbytes}, saves=[x])
        return y

    def modulation(self, name: str, condition: Variable, parts: int) -> Variable:
        """Return shifts, scales and gates for the rows of each image."""
        width = self.model.width
        return self.project(condition, self.options.batch, width, name, parts * width)

    def normed(self, name: str, x: Variable, modulation: Variable) -> Variable:
        """Return normalized, shifted and scaled rows."""
        (y,) = self.run.op(name, "LayerNorm", [x, modulation], {name: x.nbytes}, saves=[x, modulation])
        return y

    def gated(self, name: str, x: Variable, z: Variable, modulation: Variable) -> Variable:
        """Return rows with what a block adds to them, times its gate."""
        (g,) = self.run.op(
            f"{name}.gate", "Scale", [z, modulation], {f"{name}.gate": z.nbytes}, saves=[z, modulation]
        )
        return self.run.add(name, x, g)

    def layer(self, i: int, condition: Variable) -> None:
        """Add a layer."""
        model, run = self.model, self.run
        if i == model.plain + model.double and model.single:
            with run.unit("join"):
                a = list(self.streams.values())
                (x,) = run.op("x", "Concat", a, {"x": sum(y.nbytes for y in a)})
                self.streams = {"both": x}
        with run.unit(f"l{i}"):
            if i < model.plain + model.double:
                self.block(condition)
            else:
                self.single(condition)

    def block(self, condition: Variable) -> None:
        """Add a layer of attention over all streams and a feed-forward layer for each."""
        run, width, tp = self.run, self.model.width, self.options.tp
        modulations, queries, keys, values = {}, list[Variable](), list[Variable](), list[Variable]()
        for s, x in self.streams.items():
            modulations[s] = m = self.modulation(f"{s}.modulation", condition, 6)
            y = enter(run, self.normed(f"{s}.norm1", x, m))
            qkv = run.linear(y, self.rows(s), width, self._qkv(f"{s}."), bias=True)
            self._heads(s, qkv, queries, keys, values)
        mixed = self._attend(list(self.streams), queries, keys, values)
        for (s, x), o in zip(self.streams.items(), mixed, strict=True):
            rows, m = self.rows(s), modulations[s]
            z = leave(run, self.project(o, rows, width // tp, f"{s}.o", width))
            x = self.gated(f"{s}.x1", x, z, m)
            y = enter(run, self.normed(f"{s}.norm2", x, m))
            h = self.project(y, rows, width, f"{s}.expand", 4 * width // tp)
            h = self.activate(f"{s}.gelu", "Gelu", h)
            z = leave(run, self.project(h, rows, 4 * width // tp, f"{s}.reduce", width))
            self.streams[s] = self.gated(f"{s}.x2", x, z, m)

    def single(self, condition: Variable) -> None:
        """Add a layer of FLUX with attention beside the feed-forward layer."""
        run, width, tp, rows = self.run, self.model.width, self.options.tp, self.rows("both")
        x = self.streams["both"]
        m = self.modulation("modulation", condition, 3)
        y = enter(run, self.normed("norm", x, m))
        outputs = {**self._qkv(""), "expand": 4 * width // tp}
        *qkv, h = run.linear(y, rows, width, outputs, bias=True)
        queries, keys, values = list[Variable](), list[Variable](), list[Variable]()
        self._heads("both", qkv, queries, keys, values)
        (o,) = self._attend(["both"], queries, keys, values)
        h = self.activate("gelu", "Gelu", h)
        (both,) = run.op("concat", "Concat", [o, h], {"concat": o.nbytes + h.nbytes})
        z = leave(run, self.project(both, rows, 5 * width // tp, "reduce", width))
        self.streams["both"] = self.gated("x", x, z, m)

    def _qkv(self, prefix: str) -> dict[str, int]:
        return {f"{prefix}{key}": self.model.width // self.options.tp for key in "qkv"}

    def _heads(
        self,
        s: str,
        qkv: Sequence[Variable],
        queries: list[Variable],
        keys: list[Variable],
        values: list[Variable],
    ) -> None:
        """Append a stream's queries, keys and values; those of FLUX are normalized and have positions."""
        q, k, v = qkv
        if self.model.text:
            head = self.model.width // self.model.heads
            for name, x, target in (("q", q, queries), ("k", k, keys)):
                label = f"{s}.{name}_norm"
                gain = self.run.weight(label, head)
                (y,) = self.run.op(label, "RMSNorm", [x], {label: x.nbytes}, saves=[x], weight=gain)
                target += self.run.op(f"{s}.{name}_rope", "Rope", [y], {f"{s}.{name}_rope": y.nbytes})
        else:
            queries.append(q)
            keys.append(k)
        values.append(v)

    def _attend(
        self,
        streams: Sequence[str],
        queries: Sequence[Variable],
        keys: Sequence[Variable],
        values: Sequence[Variable],
    ) -> list[Variable]:
        tokens, batch, heads = sum(self.tokens.values()), self.options.batch, self.heads
        width = self.model.width // self.options.tp
        eager = self.options.attention == "eager"
        return attend(
            self.run,
            queries,
            keys,
            values,
            {f"{s}.mix": NUMBER * self.rows(s) * width for s in streams},
            scores=NUMBER * batch * heads * tokens**2 if eager else 0,
            rows=batch * tokens * heads,
            flops=4 * batch * tokens**2 * width,
        )

    def head(self, condition: Variable) -> None:
        """Add the end of the model: the loss, or the noise that it sees."""
        model, run = self.model, self.run
        with run.unit("head"):
            x, rows = self.streams.get("both"), self.rows("image")
            if x is not None:
                (x,) = run.op("image", "Slice", [x], {"image": NUMBER * rows * model.width})
            else:
                x = self.streams["image"]
            y = self.normed("norm", x, self.modulation("modulation", condition, 2))
            out = self.project(y, rows, model.width, "noise", model.outputs)
            if not self.options.trains:
                run.keep(out, "output")
                return
            target = run.new("target", out.nbytes, "input")
            (loss,) = run.op("loss", "SquaredError", [out, target], {"loss": STATISTIC}, saves=[out, target])
            run.keep(loss, "output", final=False)
