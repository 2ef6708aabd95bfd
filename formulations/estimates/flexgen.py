r"""FlexGen's policy: which fractions of weights, caches and hidden states rest on GPU, host and disk.

Inference of L layers for blocks of N = b k sequences (k batches of b) with prompts of s tokens and n new
ones. All batches of a block pass a layer before the next one begins (*zig-zag block schedule*), so weights
are read once for the block.

Data, for one layer: W bytes of weights; h bytes of a token's hidden state, c of its keys and values;
capacities :math:`M_G, M_C, M_D`, of which a share :math:`\alpha` is used; rates r of channels and processors
(`lowtide.models.opt`); a heads; :math:`m = s + n / 2` tokens in a cache on average; F operations of a token
in matrices, :math:`A_t` of its attention to t tokens.

Variables. :math:`w_G + w_C + w_D = 1`, :math:`c_G + c_C + c_D = 1`, :math:`h_G + h_C = 1`, all at least 0:
fractions of weights, caches and hidden states (never on disk, as FlexGen's engine has it); :math:`T_p, T_g`:
seconds of a layer for the block, in prefill and for each further token.

.. math:: \min \frac{L T_p + L (n - 1) T_g}{N}

Time, with :math:`u = W (w_C + w_D) / r_{CG}`, :math:`x_p = N s h\, h_C` and :math:`x_g = N h\, h_C`:

1. Prefill, to the GPU: :math:`T_p \ge u + x_p / r_{CG} + W w_D / r_{DC}`.
2. Prefill, from it:
   :math:`T_p \ge N (s + 1) c (c_C + c_D) / r^c_{GC} + x_p / r^h_{GC} + N (s + 1) c\, c_D / r^c_{CD}`.
3. Prefill, compute: :math:`T_p \ge N s (F / r^F_p + A_s / r^A_p)`.
4. Decoding: :math:`T_g \ge u + x_g / r_{CG} + z` for each z of

   - to the host: :math:`x_g / r^h_{GC}`,
   - from disk: :math:`N m c\, c_D / r_{DC} + W w_D / r^w_{DC}`,
   - to disk: :math:`N c\, c_D / r^h_{CD}`,
   - compute: :math:`N (F / r^F_g + A_m c_G / r^A_g + A_m (c_C + c_D) / r_{host}(b))`; the host attends to
     what it holds.

Memory; home and work lie within :math:`\alpha M` in each phase (t is s in prefill, 1 in decoding):

5. GPU: :math:`L W w_G + N t h\, h_G + N L (s + n) c\, c_G + 2 W (1 - w_G) + b t h\, h_C + b I`, where
   :math:`I = 13 s h + 2 a s^2` in prefill and :math:`11 h + (2 h + 2 (s + n) (c + a)) c_G` in decoding.
6. Host: in prefill :math:`L W w_C + N s h\, h_C + N L s c\, c_C + W (1 - w_G) + b s h\, h_C`, in decoding
   :math:`L W w_C + N h\, h_C + N L (s + n) c\, c_C + W w_D + b (2 (s + n) (c\, c_D + a) + h)`.
7. Disk: :math:`L W w_D + N L (s + n) c\, c_D`.

`policy` solves it exactly, in rational numbers (`lowtide.formulations.rational_program`), so that no row
needs a scale.

**The best b and k.** Divide all by N: with :math:`\lambda = 1 / N` and :math:`w' = \lambda w` the rows are
linear in :math:`(\lambda, w', c, h, T / N)`, and b enters them, beside the rate of the host, only by
:math:`b / N = 1 / k`. For :math:`b_1 \le b \le b_2, k_1 \le k \le k_2` the program with
:math:`1 / (b_2 k_2) \le \lambda \le 1 / (b_1 k_1)`, with :math:`1 / k_2` for 1 / k (what it multiplies is not
negative) and the better of the host's rates for :math:`b_1` and :math:`b_2` (they are monotone in b) is a
relaxation of all programs in this box, and that program itself if the box is a point. `best_policy` cuts
boxes, the least bound first, until the least is a point: no b and k give more tokens per second; stopped
before, n over the least bound is what none exceeds. It begins
with :math:`b k L (s + n) c \le \alpha (M_G + M_C + M_D)`, the sum of 5 to 7 in decoding. FlexGen's own search
(`published_search`) tries b = 1, 2, 3, 4, 8, 16, ... and, for each, k from 1 until it gets slower.

**As a bound of tensor placement** (of the graphs ``gen:flexgen``, whose tensors are where they like at any
time, and whose GPU does all attention) the program does not hold in either direction. It divides tensors,
knows no order within a layer and no first layer to wait for; but it keeps the same fractions in all steps,
reserves caches of s + n tokens from the beginning and room for two layers, and adds in 4 what may overlap.
What remains valid in the graph's order is each step by itself: its ops run one after another, and steps do
not overlap (with ``order=free`` a batch could decode while another is in prefill). All
:math:`L W` bytes of weights and all :math:`C_i = N L (s + i - 1) c` of keys and values of earlier tokens are
read in step i; at its first start the GPU holds at most :math:`M_G` bytes, and what it lacks arrives before
its last end:

.. math:: T \ge \sum_i \max\Big(N L\, t_i (F / r^F + A_{s + i} / r^A), \frac{L W + C_i - M_G}{r_{CG}}\Big),

with :math:`t_i = 1` in decoding, :math:`t_0 = s` and :math:`C_0 = 0` in prefill: `least_seconds`. It is the
program with fractions of its own in each step, no working memory, and the larger instead of the sum in 4.

Source: Sheng, Zheng, Yuan, Li, Ryabinin, Chen, Liang, Ré, Stoica and Zhang, "FlexGen: high-throughput
generative inference of large language models with a single GPU", ICML 2023, section 4.3 and appendix A.3.
Rows and constants are those of `experimental/cost_model.py` in its repository; 1, 2 and 4 there differ from
the paper's, where a layer takes the longest of its five terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil

from ...models import opt
from ...models.errors import UsageError
from ...models.opt import Decoder
from ..rational_program import Row, minimize

PHASES = ("prefill", "decode")
TIERS = ("gpu", "host", "disk")
FLOWS = ("to_gpu", "to_host", "from_disk", "to_disk", "compute")
Terms = dict[str, Fraction]
"""Factors of variables, of the whole block divided by N; ``"one"`` is the constant."""


@dataclass(frozen=True, kw_only=True)
class Inference:
    """What is asked.

    Attributes
    ----------
    model
        A transformer.
    prompt, new
        Tokens of each prompt, and generated after it, at least 1.
    capacity
        Bytes of GPU, host and disk, and the `share` of them that is used.
    """

    model: Decoder
    capacity: tuple[int, int, int]
    prompt: int = 512
    new: int = 32
    share: Fraction = Fraction(4, 5)

    def __post_init__(self) -> None:
        for name in ("prompt", "new"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if not 0 < self.share <= 1:
            raise UsageError(f"share: found {float(self.share):g}, expected more than 0, at most 1")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """An optimum for b and k.

    Attributes
    ----------
    batch, batches
        Sequences in a batch, and batches in a block.
    tokens_per_second
        Generated, in the long run.
    weights, cache, states
        Fractions on GPU, host and disk.
    seconds
        Of a layer for the block, per phase: the five terms, and ``layer``, what the rows make of them.
    memory
        Bytes, per tier and phase, at most the used share of its capacity; rounded up.
    at_most
        Tokens per second that no numbers of sequences and batches exceed; None where that is not proved.
    """

    batch: int
    batches: int
    tokens_per_second: Fraction
    weights: tuple[Fraction, ...]
    cache: tuple[Fraction, ...]
    states: tuple[Fraction, ...]
    seconds: Mapping[str, Mapping[str, Fraction]]
    memory: Mapping[str, Mapping[str, int]]
    at_most: Fraction | None = None


@dataclass(frozen=True, order=True)
class _Box:
    """Batches b_1 to b_2, k_1 to k_2 of them."""

    b1: int
    b2: int
    k1: int
    k2: int

    def halves(self) -> tuple[_Box, _Box]:
        """Return the halves along the longer side, measured in ratios."""
        if self.b2 * self.k1 > self.k2 * self.b1:
            middle = (self.b1 + self.b2) // 2
            return _Box(self.b1, middle, self.k1, self.k2), _Box(middle + 1, self.b2, self.k1, self.k2)
        middle = (self.k1 + self.k2) // 2
        return _Box(self.b1, self.b2, self.k1, middle), _Box(self.b1, self.b2, middle + 1, self.k2)


def policy(question: Inference, batch: int, batches: int) -> Policy | None:
    """Return the best fractions for batches of a size, exactly; None if no fractions fit.

    Raises
    ------
    UsageError
        If a number is less than 1.

    Examples
    --------
    >>> from lowtide.models.opt import OPT
    >>> gib = 2**30
    >>> asked = Inference(model=OPT["opt-30b"], capacity=(16 * gib, 200 * gib, 1500 * gib))
    >>> float(round(policy(asked, 48, 3).tokens_per_second, 6))
    6.973969
    """
    for name, number in (("batch", batch), ("batches", batches)):
        if number < 1:
            raise UsageError(f"{name}: found {number}, expected at least 1")
    box = _Box(batch, batch, batches, batches)
    found = _solve(question, box)
    return None if found is None else _policy(question, box, found[1])


def best_policy(question: Inference, expired: Callable[[], bool] = bool) -> Policy | None:
    """Return the best policy over all sizes of batches and all numbers of them; None if none fits.

    Parameters
    ----------
    question
        What is asked.
    expired
        Says that the time is up: then the best policy so far is returned, with the bound that is proved.
    """
    model = question.model
    sequence = model.layers * (question.prompt + question.new) * model.cache
    most = int(question.share * sum(question.capacity)) // sequence  # (5) to (7): caches are somewhere
    best = policy(question, 1, 1) if most else None
    if best is None:  # at the same fractions more sequences need more of each tier
        return None
    heap: list[tuple[Fraction, _Box, dict[str, Fraction]]] = []
    boxes = [_Box(1, most, 1, most)]
    while True:
        for box in boxes:
            if box.b1 * box.k1 <= most and (found := _solve(question, box)) is not None:
                heappush(heap, (found[0], box, found[1]))
        seconds, box, values = heappop(heap)
        if (box.b1, box.k1) == (box.b2, box.k2):
            best = _policy(question, box, values)
            return replace(best, at_most=best.tokens_per_second)
        if expired():
            tried = [best, policy(question, box.b1, box.k1)]
            tried += [
                _policy(question, one, at) for _, one, at in heap if (one.b1, one.k1) == (one.b2, one.k2)
            ]
            best = max((one for one in tried if one is not None), key=lambda one: one.tokens_per_second)
            return replace(best, at_most=question.new / seconds)
        boxes = list(box.halves())


def published_search(question: Inference, expired: Callable[[], bool] = bool) -> Policy | None:
    """Return the best policy that FlexGen's own search tries, until `expired`; None if it finds none."""
    best, batch = None, 1
    while (found := policy(question, batch, 1)) is not None:
        batches = 1
        slower = Fraction(0)
        while found is not None and found.tokens_per_second >= slower:
            if best is None or found.tokens_per_second > best.tokens_per_second:
                best = found
            if expired():
                return best
            slower, batches = found.tokens_per_second, batches + 1
            found = policy(question, batch, batches)
        batch += 1 if batch < 4 else batch
    return best


def least_seconds(question: Inference, batch: int, batches: int, *, prefill: bool = True) -> Fraction:
    """Return a lower bound on the makespan of ``gen:flexgen`` placed in its order; the proof is above.

    Parameters
    ----------
    question
        All of its capacity counts, whatever its `share`.
    batch, batches
        Sequences in a batch, and batches in a block.
    prefill
        Whether the prompts are read.
    """
    model, n = question.model, batch * batches
    total = Fraction(0)
    for i in range(0 if prefill else 1, question.new):
        phase, tokens = ("decode", 1) if i else ("prefill", question.prompt)
        context = question.prompt + i
        per_token = model.products / opt.PRODUCTS[phase] + model.attention(context) / opt.ATTENTION[phase]
        cache = n * (context - 1) * model.cache if i else 0
        lacks = model.layers * (model.weights + cache) - question.capacity[0]
        total += max(n * model.layers * tokens * per_token, lacks / opt.TO_GPU)
    return total


def _solve(question: Inference, box: _Box) -> tuple[Fraction, dict[str, Fraction]] | None:
    """Return the least seconds per sequence, a bound if the box is no point, and the variables, or None."""
    layers = question.model.layers
    rows: list[Row] = [
        ({"c_C": 1, "c_D": 1}, 1),
        ({"h_C": 1}, 1),
        ({"w_C": 1, "w_D": 1, "lambda": -1}, 0),
        ({"lambda": 1}, Fraction(1, box.b1 * box.k1)),
        ({"lambda": -1}, Fraction(-1, box.b2 * box.k2)),
    ]
    for phase in PHASES:
        for term in _rows(phase, _seconds(question, phase, box)):
            factors = {name: factor for name, factor in term.items() if name != "one"}
            rows.append(({**factors, phase: Fraction(-1)}, -term.get("one", Fraction(0))))
        for tier, term in _memory(question, phase, box).items():
            used = question.share * question.capacity[TIERS.index(tier)]
            limited = _sum(term, {"lambda": -used})
            rows.append(({k: v for k, v in limited.items() if k != "one"}, -limited.get("one", Fraction(0))))
    found = minimize({"prefill": layers, "decode": layers * (question.new - 1)}, rows)
    return None if found is None else (found.objective, found.values)


def _seconds(question: Inference, phase: str, box: _Box) -> dict[str, Terms]:
    """Return the five terms of a layer's time, (1) to (4)."""
    model, s = question.model, question.prompt
    tokens, context = (s, Fraction(s)) if phase == "prefill" else (1, s + Fraction(question.new, 2))
    held = context * model.cache
    state = Fraction(tokens * model.state)
    attention = tokens * model.attention(context)
    compute = Fraction(tokens * model.products) / opt.PRODUCTS[phase]
    terms = {
        "to_gpu": _over(opt.TO_GPU, w_C=model.weights, w_D=model.weights, h_C=state),
        "to_host": _over(opt.STATE_TO_HOST, h_C=state),
        "compute": {"one": compute + attention / opt.ATTENTION[phase]},
    }
    if phase == "prefill":
        written = (s + 1) * model.cache
        terms["to_host"] |= _over(opt.CACHE_TO_HOST, c_C=written, c_D=written)
        terms["to_disk"] = _over(opt.CACHE_TO_DISK, c_D=written)
        terms["from_disk"] = _over(opt.FROM_DISK, w_D=model.weights)
        return terms
    slower = attention / max(opt.host_attention(b, model.hidden) for b in (box.b1, box.b2))
    slower -= attention / opt.ATTENTION[phase]
    terms["compute"] |= {"c_C": slower, "c_D": slower}
    terms["to_disk"] = _over(opt.STATE_TO_DISK, c_D=model.cache)
    terms["from_disk"] = _over(opt.FROM_DISK, c_D=held) | _over(opt.WEIGHTS_FROM_DISK, w_D=model.weights)
    return terms


def _rows(phase: str, seconds: Mapping[str, Terms]) -> list[Terms]:
    """Return what a layer's time is at least, (1) to (4)."""
    to_gpu, to_host, from_disk, to_disk, compute = (seconds[name] for name in FLOWS)
    if phase == "prefill":
        return [_sum(to_gpu, from_disk), _sum(to_host, to_disk), compute]
    return [_sum(to_gpu, other) for other in (to_host, from_disk, to_disk, compute)]


def _memory(question: Inference, phase: str, box: _Box) -> dict[str, Terms]:
    """Return home and work of each tier, (5) to (7); b / N is 1 / k."""
    model, s, every = question.model, question.prompt, question.prompt + question.new
    w, layers = model.weights, model.layers
    prefill = phase == "prefill"
    state = Fraction((s if prefill else 1) * model.state)
    cache = Fraction(layers * every * model.cache)
    work = Fraction(1, box.k2)
    gpu: list[Terms] = [
        {
            "lambda": Fraction(layers * w),
            "w_C": Fraction((2 - layers) * w),
            "w_D": Fraction((2 - layers) * w),
        },
        {"one": state + cache, "h_C": -state, "c_C": -cache, "c_D": -cache},
        {"h_C": work * state},
    ]
    host: list[Terms] = [{"w_C": Fraction(layers * w), "h_C": state}]
    if prefill:
        gpu.append({"one": work * (13 * state + 2 * model.heads * s**2)})
        host.append({"c_C": Fraction(layers * s * model.cache), "h_C": work * state})
        host.append({"w_C": Fraction(w), "w_D": Fraction(w)})
    else:
        attended = work * (2 * state + 2 * every * (model.cache + model.heads))
        gpu.append({"one": 11 * work * state + attended, "c_C": -attended, "c_D": -attended})
        host.append({"c_C": cache, "w_D": Fraction(w), "c_D": work * 2 * every * model.cache})
        host.append({"one": work * (2 * model.heads * every + state)})
    disk: Terms = {"w_D": Fraction(layers * w), "c_D": cache}
    return {"gpu": _sum(*gpu), "host": _sum(*host), "disk": disk}


def _policy(question: Inference, box: _Box, values: dict[str, Fraction]) -> Policy:
    """Return what the variables of a point say."""
    n = box.b1 * box.k1
    block = {name: n * value for name, value in values.items()} | {"one": Fraction(n)}
    seconds, memory = {}, {}
    for phase in PHASES:
        terms = _seconds(question, phase, box)
        seconds[phase] = {name: _value(terms[name], block) for name in FLOWS}
        seconds[phase]["layer"] = max(_value(row, block) for row in _rows(phase, terms))
        memory[phase] = {
            tier: ceil(_value(term, block)) for tier, term in _memory(question, phase, box).items()
        }
    total = seconds["prefill"]["layer"] + (question.new - 1) * seconds["decode"]["layer"]

    def fractions(host: Fraction, disk: Fraction) -> tuple[Fraction, ...]:
        return 1 - host - disk, host, disk

    return Policy(
        batch=box.b1,
        batches=box.k1,
        tokens_per_second=n * question.new / (question.model.layers * total),
        weights=fractions(block["w_C"], block["w_D"]),
        cache=fractions(values["c_C"], values["c_D"]),
        states=fractions(values["h_C"], Fraction(0)),
        seconds=seconds,
        memory=memory,
    )


def _over(rate: Fraction, **nbytes: Fraction | int) -> Terms:
    return {name: value / rate for name, value in nbytes.items()}


def _sum(*terms: Terms) -> Terms:
    total: Terms = {}
    for term in terms:
        for name, value in term.items():
            total[name] = total.get(name, Fraction(0)) + value
    return total


def _value(term: Terms, values: Mapping[str, Fraction]) -> Fraction:
    return sum((factor * values[name] for name, factor in term.items()), Fraction(0))
