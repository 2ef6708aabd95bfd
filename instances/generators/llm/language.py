"""The layers of language models: attention, dense feed-forward layers and mixtures of experts."""

from __future__ import annotations

from collections.abc import Sequence

from .attention import attend
from .context_parallel import of_all_ranks
from .micro_batch import STATISTIC, TOKEN, Pass
from .networks import LanguageModel
from .rank import NUMBER, Variable
from .tensor_parallel import enter, leave

BLOCK_NUMBER = 4
"""Bytes of the number of a block in the table of the cache of keys and values, an int32 in vLLM."""


class LanguagePass:
    """A language model on its way through a rank, for one micro-batch.

    Attributes
    ----------
    whole, length, context
        Tokens of each sequence that are computed, those of them on this rank, and those before them whose
        keys and values are there.
    rows
        Tokens of all sequences; `split` of them on this rank, where sequence parallelism splits them.
    """

    def __init__(self, model: LanguageModel, run: Pass) -> None:
        options = run.options
        self.model, self.run, self.options = model, run, options
        self.whole = 1 if options.step == "decode" else options.seq
        self.length = self.whole // options.cp
        self.context = options.seq if options.step == "decode" else 0
        self.rows = options.batch * self.length
        self.split = self.rows // options.tp if options.sp else self.rows
        self.heads, self.groups = model.heads // options.tp, model.groups // options.tp
        self.table: Variable | None = None

    def embed(self) -> Variable:
        """Return the hidden states of the tokens."""
        model, run = self.model, self.run
        with run.unit("embed"):
            tokens = run.new("tokens", TOKEN * self.rows, "input")
            table = run.weight("table", model.vocab * model.width // self.options.tp)
            size = NUMBER * self.rows * model.width
            return leave(run, run.look_up("x", tokens, table, size))

    def layer(self, i: int, x: Variable) -> Variable:
        """Return what a layer makes of the hidden states."""
        model, run = self.model, self.run
        with run.unit(f"l{i}"):
            y = self.norm("norm1", x, self.split, model.width)
            attend = self.latent_attention if model.latent else self.attention
            x = run.add("x1", x, attend(i, y))
            y = self.norm("norm2", x, self.split, model.width)
            if i < model.dense or not model.experts:
                z = self.feed_forward("", enter(run, y), self.rows, model.ffn)
            else:
                z = self.mixture(y)
            return run.add("x2", x, leave(run, z))

    def head(self, x: Variable) -> None:
        """Add the end of the model: the loss, or the logits of each sequence's last token."""
        model, run = self.model, self.run
        rows = self.rows if self.options.trains else self.options.batch
        with run.unit("head"):
            y = enter(run, self.norm("norm", x, self.split if self.options.trains else rows, model.width))
            tied = [run.rank.weights["embed.table"]] if model.tied and self.options.pp == 1 else []
            width = model.vocab // self.options.tp
            (logits,) = run.linear(y, rows, model.width, {"logits": width}, weights=tied)
            if not self.options.trains:
                run.keep(logits, "output")
                return
            labels = run.new("labels", TOKEN * rows, "input")
            sums = run.op("sums", "LogSumExp", [logits], {"sums": 2 * STATISTIC * rows}, aside=["sums"])
            if self.options.tp > 1:
                run.rank.all_reduce(
                    f"head.sums.reduce{run.mark}",
                    [x.tensor for x in sums],
                    self.options.tp,
                    self.options.nvlink,
                )
            operands = [logits, labels, *sums]
            (loss,) = run.op("loss", "CrossEntropy", operands, {"loss": STATISTIC}, saves=operands)
            run.keep(loss, "output", final=False)

    def norm(self, name: str, x: Variable, rows: int, width: int, gain: int = 0) -> Variable:
        """Return normalized rows; of several heads with one gain."""
        w = self.run.weight(name, gain or width)
        (y,) = self.run.op(name, "RMSNorm", [x], {name: NUMBER * rows * width}, saves=[x], weight=w)
        return y

    # Attention.

    def attention(self, i: int, y: Variable) -> Variable:
        """Return a rank's part of attention with groups of heads that share keys and values."""
        model, run = self.model, self.run
        queries, keys = self.heads * model.head, self.groups * model.head
        widths = {"q": queries, "k": keys, "v": keys}
        q, k, v = run.linear(enter(run, y), self.rows, model.width, widths, bias=model.biased)
        if model.normed:
            q = self.norm("q_norm", q, self.rows, queries, model.head)
            k = self.norm("k_norm", k, self.rows, keys, model.head)
        q, k = self.rope("q_rope", q), self.rope("k_rope", k)
        window = 0 if i % 2 else model.window
        sinks = run.weight("sinks", self.heads) if model.biased else None
        k_all, v_all = self.cache([k], [v], 2 * keys, window)
        flops = 4 * self.heads * model.head * self.pairs(window)
        eager = self.options.attention == "eager" and not self.context
        (o,) = attend(
            run,
            [q],
            of_all_ranks(run, k_all),
            of_all_ranks(run, v_all),
            {"mix": NUMBER * self.rows * queries},
            scores=NUMBER * self.rows * self.heads * self.whole if eager else 0,
            rows=self.rows * self.heads,
            flops=flops,
            weight=sinks,
        )
        (out,) = run.linear(o, self.rows, queries, {"o": model.width}, bias=model.biased)
        return leave(run, out)

    def latent_attention(self, i: int, y: Variable) -> Variable:
        """Return a rank's part of latent attention; when decoding, heads attend to the short vectors."""
        model, run, latent = self.model, self.run, self.model.latent
        assert latent is not None
        heads, rows = self.heads, self.rows
        if latent.query:
            (a,) = run.linear(y, rows, model.width, {"q_a": latent.query})
            a = enter(run, self.norm("q_norm", a, rows, latent.query))
            (q,) = run.linear(a, rows, latent.query, {"q": heads * (latent.nope + latent.rope)})
        else:
            (q,) = run.linear(enter(run, y), rows, model.width, {"q": heads * (latent.nope + latent.rope)})
        c, r = run.linear(y, rows, model.width, {"kv_a": latent.memory, "r": latent.rope})
        c = self.norm("kv_norm", c, rows, latent.memory)
        q, r = self.rope("q_rope", q), self.rope("r_rope", r)
        memory, before = self.cache([c, r], [], latent.memory + latent.rope, 0)
        if self.context:
            o = self._decode_latent(q, [*(enter(run, x) for x in memory), *before])
        else:
            c, r = enter(run, c), enter(run, r)
            made = {"k": heads * latent.nope, "v": heads * latent.value}
            k, v = run.linear(c, rows, latent.memory, made)
            eager = self.options.attention == "eager"
            (o,) = attend(
                run,
                [q],
                of_all_ranks(run, [k, r]),
                of_all_ranks(run, [v]),
                {"mix": NUMBER * rows * heads * latent.value},
                scores=NUMBER * rows * heads * self.whole if eager else 0,
                rows=rows * heads,
                flops=2 * heads * (latent.nope + latent.rope + latent.value) * self.pairs(0),
            )
        (out,) = run.linear(o, rows, heads * latent.value, {"o": model.width})
        return leave(run, out)

    def _decode_latent(self, q: Variable, memory: Sequence[Variable]) -> Variable:
        run, latent, heads, rows = self.run, self.model.latent, self.heads, self.rows
        assert latent is not None
        short = latent.memory + latent.rope
        absorb, expand = (
            run.weight(name, latent.memory * heads * width)
            for name, width in (("k", latent.nope), ("v", latent.value))
        )
        size = {"absorb": NUMBER * rows * heads * short}
        (q,) = run.op("absorb", "Linear", [q], size, weight=absorb, flops=2 * rows * absorb.count)
        (o,) = attend(
            run,
            [q],
            memory,
            [],
            {"mix": NUMBER * rows * heads * latent.memory},
            scores=0,
            rows=rows * heads,
            flops=2 * heads * (short + latent.memory) * self.pairs(0),
        )
        size = {"expand": NUMBER * rows * heads * latent.value}
        (o,) = run.op("expand", "Linear", [o], size, weight=expand, flops=2 * rows * expand.count)
        return o

    def rope(self, name: str, x: Variable) -> Variable:
        """Return a value with rotary positions."""
        (y,) = self.run.op(name, "Rope", [x], {name: x.nbytes})
        return y

    def cache(
        self, keys: list[Variable], values: list[Variable], width: int, window: int
    ) -> tuple[list[Variable], list[Variable]]:
        """Return keys and values to attend to: the new ones, and those of the tokens before, if any.

        Without a backward pass the new ones stay, or are copied to the blocks of the cache.
        """
        if self.options.trains:
            return keys, values
        if self.options.page:
            return self._paged(keys, values, width, window)
        for x in (*keys, *values):
            self.run.keep(x, "state")
        if not self.context:
            return keys, values
        tokens = min(self.context, window - 1) if window else self.context
        return keys, [*values, self.run.new("kv", NUMBER * self.options.batch * tokens * width, "state")]

    def _paged(
        self, keys: list[Variable], values: list[Variable], width: int, window: int
    ) -> tuple[list[Variable], list[Variable]]:
        """Copy new keys and values to their blocks; a step that decodes attends to the blocks alone.

        A sequence has whole blocks, from that of the first token in the window on. One table says where they
        are (Kwon and others, "Efficient memory management for large language model serving with
        PagedAttention", SOSP 2023).
        """
        run, page, batch = self.run, self.options.page, self.options.batch
        last = self.context + self.length - 1
        first = max(0, last + 1 - window) if window and self.context else 0
        if self.table is None:
            nbytes = BLOCK_NUMBER * batch * (last // page + 1)
            self.table = run.rank.variable(f"blocks{run.mark}", nbytes, "input")
        size = NUMBER * batch * (last // page - first // page + 1) * page * width
        blocks = run.new("kv", size, "state" if self.context else "activation")
        run.keep(blocks, "state")
        new = [*keys, *values]
        reads = [x.tensor for x in (*new, self.table, *([blocks] if self.context else []))]
        moved = self.table.nbytes + 2 * sum(x.nbytes for x in new)
        run.compute(f"{run.name}.cache", "CacheWrite", reads, [blocks.tensor], 0, moved)
        return ([blocks], [self.table]) if self.context else (keys, values)

    def pairs(self, window: int) -> int:
        """Return how many pairs of tokens attend; eager attention computes all, masked or not."""
        if self.context:
            pairs = min(self.context + 1, window or self.context + 1)
        elif self.options.attention == "eager":
            pairs = self.length * self.whole
        else:
            w = min(window or self.whole, self.whole)
            pairs = (w * (w + 1) // 2 + (self.whole - w) * w) // self.options.cp
        return self.options.batch * pairs

    # Feed-forward layers.

    def feed_forward(
        self, name: str, y: Variable, rows: int, width: int, *, copies: int = 1, degree: int | None = None
    ) -> Variable:
        """Return a rank's part of a gated feed-forward layer, not yet summed over ranks."""
        run, inner, bias = self.run, width // self.options.tp, self.model.biased
        gate, up = run.linear(
            y,
            rows,
            self.model.width,
            {f"{name}gate": inner, f"{name}up": inner},
            bias=bias,
            copies=copies,
            degree=degree,
        )
        size = NUMBER * rows * inner
        (h,) = run.op(f"{name}mul", "SiluMul", [gate, up], {f"{name}mul": size}, saves=[gate, up])
        down = {f"{name}down": self.model.width}
        (out,) = run.linear(h, rows, inner, down, bias=bias, copies=copies, degree=degree)
        return out

    def mixture(self, y: Variable) -> Variable:
        """Return a rank's part of a mixture of experts, all of which have equally many tokens."""
        model, run, options = self.model, self.run, self.options
        (logits,) = run.linear(y, self.rows, model.width, {"router": model.experts}, bias=model.biased)
        chosen = STATISTIC * self.rows * model.top
        gates, indices = run.op(
            "top",
            "TopK",
            [logits],
            {"gates": chosen, "indices": chosen},
            keeps=["gates", "indices"],
            aside=["indices"],
        )
        y = enter(run, y)
        rows, mine = self.rows * model.top, model.experts // options.ep
        single = options.experts == "ops"
        shares = [(e + 1) * rows // mine - e * rows // mine for e in range(mine)] if single else [rows]
        names = [f"e{e}." if single else "experts." for e in range(len(shares))]
        token, degree = NUMBER * model.width, options.replicas // options.ep
        inputs = {f"{name}rows": token * n for name, n in zip(names, shares, strict=True) if n}
        if options.ep > 1:
            sent = token * rows * (options.ep - 1) // options.ep
            packed = run.op("dispatch", "Dispatch", [y, indices], {"packed": token * rows}, saves=[indices])
            parts = run.op("to_experts", "all-to-all", packed, inputs, sends=sent)
        else:
            parts = run.op("dispatch", "Dispatch", [y, indices], inputs, saves=[indices])
        outputs, queue = [], iter(parts)
        for name, n in zip(names, shares, strict=True):
            if n:
                copies = 1 if single else mine
                x = next(queue)
                outputs.append(self.feed_forward(name, x, n, model.expert, copies=copies, degree=degree))
            else:
                self._idle(name, degree)
        if options.ep > 1:
            outputs = run.op("from_experts", "all-to-all", outputs, {"results": token * rows}, sends=sent)
        operands = [*outputs, gates, indices]
        (z,) = run.op("combine", "Combine", operands, {"combine": token * self.rows}, saves=operands)
        if model.shared:
            z = run.add("z", z, self.feed_forward("shared.", y, self.rows, model.shared * model.expert))
        return z

    def _idle(self, name: str, degree: int) -> None:
        """Add the weights of an expert without tokens."""
        inner, width, bias = self.model.expert // self.options.tp, self.model.width, self.model.biased
        for key, count in (
            ("gate", (width + bias) * inner),
            ("up", (width + bias) * inner),
            ("down", (inner + bias) * width),
        ):
            self.run.weight(f"{name}{key}", count, degree=degree)
