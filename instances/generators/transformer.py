"""Transformers: blocks of attention and feed-forward layers, with the heads folded into one op.

Vaswani et al., "Attention is all you need", NIPS 2017, with normalization before each sublayer as in GPT-2.
The scores of all heads are one tensor of ``batch * heads * seq * seq`` values; values are 32-bit. Llama has
rotary positions, groups of heads that share keys and values, and SwiGLU (Touvron et al., 2023).
"""

from __future__ import annotations

from ...models.errors import InstanceError
from ...models.graph import Graph
from .builder import Builder
from .network import VALUE_BYTES


def transformer(
    *,
    form: str,
    layers: int,
    d_model: int,
    heads: int,
    groups: int,
    hidden: int,
    seq: int,
    batch: int,
    vocab: int,
) -> Graph:
    """Return a transformer.

    ``form=decoder`` is a language model (masked self-attention, logits), ``encoder`` puts out its last
    hidden state, ``seq2seq`` has `layers` of both; every decoder layer reads the encoder's output. ``llama``
    is a decoder with `groups` heads of keys and values and feed-forward layers `hidden` wide (0: as many as
    heads, and four times the width; the other forms always have these).

    Raises
    ------
    InstanceError
        If heads do not divide the width of a Llama, or groups its heads; if another form has `groups` or
        `hidden`.
    """
    for what, number, by in (("d_model", d_model, heads), ("heads", heads, groups or heads)):
        if form == "llama" and number % by:
            raise InstanceError(
                f"instance 'gen:transformer', {what}: found {number}, expected a multiple of {by}"
            )
    if form != "llama" and (groups or hidden):
        raise InstanceError(
            f"instance 'gen:transformer', form: found {form} with groups or hidden, expected llama with them"
        )
    net = _Transformer(d_model, heads, seq, batch)
    if form == "llama":
        x = net.llama(layers, vocab, d_model // heads * (groups or heads), hidden or 4 * d_model)
        net.linear("logits", x, d_model, vocab)
        return net.graph()
    memory = None
    if form != "decoder":
        prefix = "encoder." if form == "seq2seq" else ""
        memory = net.stack(prefix, layers, vocab, None)
    if form != "encoder":
        prefix = "decoder." if form == "seq2seq" else ""
        x = net.stack(prefix, layers, vocab, memory)
        net.linear("logits", x, d_model, vocab)
    return net.graph()


class _Transformer(Builder):
    """A `Builder` with the layers of transformers."""

    def __init__(self, d_model: int, heads: int, seq: int, batch: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.tokens = batch * seq
        self.hidden = VALUE_BYTES * self.tokens * d_model
        self.scores = VALUE_BYTES * self.tokens * heads * seq
        self.products = self.tokens * seq * d_model

    def stack(self, prefix: str, layers: int, vocab: int, memory: int | None) -> int:
        """Add embedding, blocks and the last normalization."""
        ids = self.tensor(f"{prefix}tokens", 8 * self.tokens, "input")
        table = VALUE_BYTES * vocab * self.d_model
        x = self.layer(f"{prefix}embedding", "Embedding", (ids,), self.hidden, weight=table)
        for k in range(layers):
            x = self._residual(f"{prefix}block{k}.attention", x, None)
            if memory is not None:
                x = self._residual(f"{prefix}block{k}.cross", x, memory)
            x = self._feed_forward(f"{prefix}block{k}.mlp", x)
        return self._norm(f"{prefix}norm", x)

    def llama(self, layers: int, vocab: int, shared: int, hidden: int) -> int:
        """Add embedding, blocks of Llama and the last normalization; `shared` is the width of keys."""
        d, tokens = self.d_model, VALUE_BYTES * self.tokens
        ids = self.tensor("tokens", 8 * self.tokens, "input")
        x = self.layer("embedding", "Embedding", (ids,), self.hidden, weight=VALUE_BYTES * vocab * d)
        for k in range(layers):
            name = f"block{k}.attention"
            y = self._norm(f"{name}.norm", x)
            query, key = self.linear(f"{name}.query", y, d, d), self.linear(f"{name}.key", y, d, shared)
            value = self.linear(f"{name}.value", y, d, shared)
            query = self.layer(f"{name}.query.rotary", "Rotary", (query,), self.hidden)
            key = self.layer(f"{name}.key.rotary", "Rotary", (key,), tokens * shared)
            x = self._attend(name, x, query, key, value)
            name = f"block{k}.mlp"
            y = self._norm(f"{name}.norm", x)
            gate = self.layer(
                f"{name}.silu", "Silu", (self.linear(f"{name}.gate", y, d, hidden),), tokens * hidden
            )
            up = self.linear(f"{name}.up", y, d, hidden)
            y = self.layer(f"{name}.mul", "Mul", (gate, up), tokens * hidden)
            y = self.linear(f"{name}.down", y, hidden, d)
            x = self.layer(f"{name}.add", "Add", (x, y), self.hidden)
        return self._norm("norm", x)

    def linear(self, name: str, x: int, inner: int, outer: int) -> int:
        """Add a linear layer on the last dimension."""
        return self.layer(
            name,
            "Linear",
            (x,),
            VALUE_BYTES * self.tokens * outer,
            weight=VALUE_BYTES * inner * outer,
            multiply_adds=self.tokens * inner * outer,
        )

    def _norm(self, name: str, x: int) -> int:
        weight = 2 * VALUE_BYTES * self.d_model
        return self.layer(name, "LayerNorm", (x,), self.hidden, weight=weight)

    def _residual(self, name: str, x: int, memory: int | None) -> int:
        """Add attention, of the tensor to itself or to `memory`, and the sum with its input."""
        d = self.d_model
        y = self._norm(f"{name}.norm", x)
        query = self.linear(f"{name}.query", y, d, d)
        source = y if memory is None else memory
        key = self.linear(f"{name}.key", source, d, d)
        value = self.linear(f"{name}.value", source, d, d)
        return self._attend(name, x, query, key, value)

    def _attend(self, name: str, x: int, query: int, key: int, value: int) -> int:
        """Add the core of attention, its projection, and the sum with x."""
        d = self.d_model
        scores = self._product(f"{name}.scores", query, key, self.scores)
        weights = self.layer(f"{name}.softmax", "Softmax", (scores,), self.scores)
        mixed = self._product(f"{name}.mix", weights, value, self.hidden)
        out = self.linear(f"{name}.project", mixed, d, d)
        return self.layer(f"{name}.add", "Add", (x, out), self.hidden)

    def _product(self, name: str, a: int, b: int, nbytes: int) -> int:
        return self.layer(name, "MatMul", (a, b), nbytes, multiply_adds=self.products)

    def _feed_forward(self, name: str, x: int) -> int:
        d = self.d_model
        y = self.linear(f"{name}.expand", self._norm(f"{name}.norm", x), d, 4 * d)
        y = self.layer(f"{name}.gelu", "Gelu", (y,), 4 * self.hidden)
        y = self.linear(f"{name}.reduce", y, 4 * d, d)
        return self.layer(f"{name}.add", "Add", (x, y), self.hidden)
