"""Language and image models layer by layer: a training step, prefill or decoding on one rank of many.

The graph is that of one rank: all ranks of a stage do the same. `tp` ranks share each layer as Megatron's do
(with `sp` also what is between layers, by tokens), `cp` ranks each sequence. `pp` stages have equal parts of
the layers. `dp` ranks train on different data and share states as ZeRO does; `ep` of these have different
experts. If there are several ranks, what they exchange are ops for processors of kind ``link``, all others
are for kind ``gpu`` (``overlap=0``: for any processor). Micro-batches are in the order of 1F1B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....models.errors import InstanceError
from ....models.graph import Graph
from .image import ImagePass
from .language import LanguagePass
from .micro_batch import Pass
from .networks import IMAGE, LANGUAGE, ImageModel, LanguageModel
from .options import StepOptions
from .rank import NUMBER, Rank, Variable


def llm(**options: Any) -> Graph:
    """Return the graph of one rank; the options are those of `StepOptions`.

    Raises
    ------
    InstanceError
        If the degrees do not divide what they split, or the model has no such step.
    """
    asked = StepOptions(**options)
    model = LANGUAGE.get(asked.model) or IMAGE[asked.model]
    asked = _complete(model, asked)
    _check(model, asked)
    if asked.replicas == 1:
        asked = replace(asked, zero=0)
    rank = Rank(asked)
    runs = [Pass(rank, f"@{j}" if asked.micro > 1 else "", j + 1 == asked.micro) for j in range(asked.micro)]
    backs: list[Callable[[], None]] = []
    ahead = asked.pp - 1 - asked.stage
    for j, run in enumerate(runs):
        if isinstance(model, LanguageModel):
            _language_steps(model, run)
        else:
            _image_steps(model, run)
        backs.append(run.back)
        if asked.trains and j >= ahead:
            backs[j - ahead]()
    if asked.trains:
        for back in backs[max(0, asked.micro - ahead) :]:
            back()
        if asked.pp > 1 and isinstance(model, LanguageModel) and model.tied:
            for name in {"embed.table", "head.logits"} & {*rank.weights}:
                rank.tie(name)
        rank.update()
    return rank.graph()


def _language_steps(model: LanguageModel, run: Pass) -> None:
    """Add the forward pass of a stage of a language model."""
    options = run.options
    decoder = LanguagePass(model, run)
    first, end = (options.layers * s // options.pp for s in (options.stage, options.stage + 1))
    size = NUMBER * decoder.split * model.width
    x = decoder.embed() if options.stage == 0 else _receive(run, size)
    for i in range(first, end):
        x = decoder.layer(i, x)
    if options.stage + 1 == options.pp:
        decoder.head(x)
    else:
        _send(run, x)


def _receive(run: Pass, size: int) -> Variable:
    """Add the hidden states that come from the stage before, and their gradient that goes back."""
    rank, rate = run.rank, run.options.network
    run.name = "receive"
    x = run.new("x", size)
    rank.exchange(f"receive{run.mark}", "receive", [], [x.tensor], size, rate)
    run.record(lambda: rank.exchange(f"receive.back{run.mark}", "send", run.gradients([x]), [], size, rate))
    return x


def _send(run: Pass, x: Variable) -> None:
    """Add the hidden states that go to the next stage, and their gradient that comes back."""
    rank, rate = run.rank, run.options.network
    rank.exchange(f"send{run.mark}", "send", [x.tensor], [], x.nbytes, rate)

    def reverse() -> None:
        x.parts.append(rank.tensor(f"send.d{run.mark}", x.nbytes, "gradient"))
        rank.exchange(f"send.back{run.mark}", "receive", [], x.parts[-1:], x.nbytes, rate)

    run.record(reverse)


def _image_steps(model: ImageModel, run: Pass) -> None:
    """Add the forward pass of an image model."""
    denoiser = ImagePass(model, run)
    condition = denoiser.embed()
    for i in range(run.options.layers):
        denoiser.layer(i, condition)
    denoiser.head(condition)


def _complete(model: LanguageModel | ImageModel, asked: StepOptions) -> StepOptions:
    """Return the options with those numbers of the model that 0 stands for."""
    if isinstance(model, ImageModel):
        layers, tokens = model.plain + model.double + model.single, model.tokens
    else:
        layers, tokens = model.layers, 8192
    if asked.layers > layers:
        raise _refusal(asked, "layers", f"{asked.layers}", f"at most {layers}, or 0 for all")
    return replace(asked, layers=asked.layers or layers, seq=asked.seq or tokens)


def _refusal(asked: StepOptions, option: str, subject: str, expected: str) -> InstanceError:
    where = f"instance 'gen:llm?model={asked.model}', {option}"
    return InstanceError(f"{where}: found {subject}, expected {expected}")


def _check(model: LanguageModel | ImageModel, asked: StepOptions) -> None:
    """Check that the model can be split so, and has the step."""
    parts = {"heads": model.heads}
    if isinstance(model, LanguageModel):
        inner = {"width of feed-forward layers": model.ffn, "width of an expert": model.expert}
        parts |= {"heads of keys and values": model.groups, "vocabulary": model.vocab, **inner}
    for what, number in parts.items():
        if number % asked.tp:
            divisors = ", ".join(str(d) for d in range(1, 65) if all(n % d == 0 for n in parts.values()))
            raise _refusal(
                asked, "tp", f"{asked.tp}, which does not divide the {what}, {number}", f"one of {divisors}"
            )
    if not isinstance(model, LanguageModel) or not model.experts:
        if asked.ep > 1:
            raise _refusal(asked, "ep", f"{asked.ep} for a model without experts", "1")
    elif model.experts % asked.ep:
        raise _refusal(asked, "ep", f"{asked.ep}", f"a divisor of the {model.experts} experts")
    if asked.dp % asked.ep:
        raise _refusal(
            asked, "ep", f"{asked.ep} with dp={asked.dp}", f"a divisor of dp, such as dp={asked.ep}"
        )
    if isinstance(model, LanguageModel) and model.experts and asked.experts == "ops" and asked.trains:
        rows, experts = asked.batch * asked.seq // asked.cp * model.top, model.experts // asked.ep
        if rows < experts:
            raise _refusal(
                asked, "experts", f"ops with {rows} rows for {experts} experts", "more tokens, or fused"
            )
    _check_stages(model, asked)


def _check_stages(model: LanguageModel | ImageModel, asked: StepOptions) -> None:
    """Check stages, shards, sequence parallelism and the step."""
    if asked.step == "decode" and isinstance(model, ImageModel):
        raise _refusal(asked, "step", "decode for an image model", "train, or prefill: one step of it")
    if asked.zero and not asked.trains:
        raise _refusal(asked, "zero", f"{asked.zero} with step={asked.step}", "0, for nothing is optimized")
    if asked.pp > 1 and isinstance(model, ImageModel):
        raise _refusal(asked, "pp", f"{asked.pp} for an image model", "1: every layer reads the condition")
    if asked.pp > asked.layers:
        raise _refusal(asked, "pp", f"{asked.pp} stages of {asked.layers} layers", f"at most {asked.layers}")
    if asked.stage >= asked.pp:
        raise _refusal(asked, "stage", f"{asked.stage} with pp={asked.pp}", f"0 to {asked.pp - 1}")
    _check_tokens(model, asked)
    if not asked.sp:
        return
    if isinstance(model, ImageModel) or model.experts or not asked.trains:
        raise _refusal(asked, "sp", "1", "0, or step=train of a language model without experts")
    tokens_here = asked.batch * asked.seq // asked.cp
    if tokens_here % asked.tp:
        tokens = f"{tokens_here} tokens with tp={asked.tp}"
        raise _refusal(asked, "sp", tokens, f"a multiple of {asked.tp}")


def _check_tokens(model: LanguageModel | ImageModel, asked: StepOptions) -> None:
    """Check context parallelism and the blocks of the cache."""
    if asked.page and (asked.trains or isinstance(model, ImageModel)):
        raise _refusal(asked, "page", f"{asked.page} for a step without a cache of keys and values", "0")
    if asked.cp == 1:
        return
    if isinstance(model, ImageModel) or model.window:
        what = "an image model" if isinstance(model, ImageModel) else "a model whose layers have windows"
        raise _refusal(asked, "cp", f"{asked.cp} for {what}", "1, or another model")
    if asked.step == "decode":
        raise _refusal(asked, "cp", f"{asked.cp} with step=decode", "1, for one token cannot be shared")
    if asked.seq % (2 * asked.cp):
        raise _refusal(asked, "cp", f"{asked.cp} with seq={asked.seq}", f"seq a multiple of {2 * asked.cp}")
